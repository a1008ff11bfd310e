"""The words of a query as a keyword index writes them, with their statistics, and BM25 of chunks by them."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from pipeline.filters.used_fields import Counts
from pipeline.keyword.dictionary import KeywordQuery, Lexicon, read
from pipeline.keyword.inflections import unsure_stems
from pipeline.keyword.matching import FieldWeights, IndexRows
from pipeline.keyword.scoring import Collection, WeightedQuery, coverage, score, weigh
from pipeline.keyword.spellings import near_spellings
from pipeline.keyword.terms import tokenizer_of
from pipeline.records import Caps, ChunkId, DocumentId, FieldTerms, Filters, Namespace, Scope, TenantId

_MOST_SPELLINGS = 4_000  # candidates for the spelling of unknown words, those of each namespace counted


class TermsRow(NamedTuple):
    """A chunk's tokens, joined by spaces, and how many belong to each field. A tuple: a query makes hundreds."""

    chunk_id: ChunkId
    namespace: Namespace
    terms: bytes
    fields: FieldTerms


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceSize:
    """The number of a namespace's shown chunks, and of their terms together."""

    chunk_count: int
    term_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """Rows that hold words of a query. ``method``: the engine they come from; ``may_be_short``: others may match too."""

    rows: Sequence[TermsRow]
    method: str
    may_be_short: bool


class WordIndex(Protocol):
    """One tenant's chunks by their words: MySQL's FULLTEXT or the index of this host. A query uses one of them from its
    beginning to its end. Every method raises StoreUnavailable."""

    @property
    def counts_all(self) -> bool:
        """Whether a token that is not counted is in no chunk; otherwise the index lacks recent changes."""
        ...

    def sizes(self, namespaces: Sequence[Namespace]) -> Mapping[Namespace, NamespaceSize]:
        """Return the size of each of these namespaces that the index has."""
        ...

    def frequencies(self, tokens: Sequence[str], sizes: Mapping[Namespace, NamespaceSize]) -> Mapping[str, int]:
        """Return the number of chunks that hold each token, without those of none. ``sizes``: of the tokens' namespaces;
        in many chunks a common token's number may be an estimate."""
        ...

    def existing(self, tokens: Sequence[str]) -> Sequence[str]:
        """Return those of these tokens, hundreds, that some chunk holds."""
        ...

    def candidates(self, words: "QueryWords", *, filters: Filters, pool: int, caps: Caps | None = None) -> Candidates:
        """Return the chunks that may be the ``pool`` best by BM25 among those that pass the filters, within the caps, in no
        order."""
        ...

    def count_values(
        self, words: "QueryWords", chunk_ids: Sequence[ChunkId], *, filters: Filters, fields: Sequence[str]
    ) -> tuple[int, Sequence[tuple[Counts, int]], Sequence[ChunkId]] | None:
        """Return how many chunks hold a word or are among these, and pass the filters; of each field the number of them with
        each value, and with values that are not named; and the chunks of documents that changed, which are not counted. None:
        the engine cannot count."""
        ...

    def rows(self, chunk_ids: Sequence[ChunkId]) -> list[TermsRow]:
        """Return the rows of these chunks, shown or not: the caller drops hidden ones when it loads their texts."""
        ...

    def own_rows(self, chunk_ids: Sequence[ChunkId]) -> list[TermsRow]:
        """Return the rows of these chunks that the engine itself has at hand: of FULLTEXT none."""
        ...

    def shown_of(
        self, namespace: Namespace, document_ids: Sequence[DocumentId], *, filters: Filters, limit: int
    ) -> list[TermsRow]:
        """Return up to ``limit`` chunks of these documents that pass the filters, of a single one the first."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryWords:
    """A query's terms as the index of each namespace writes them, and their statistics, at one moment."""

    keyword_query: KeywordQuery
    tokens: dict[Namespace, dict[str, str]]
    frequency: dict[str, int]
    weighed: WeightedQuery
    chunk_count: int

    def score(self, rows: Sequence[TermsRow], fields: FieldWeights) -> dict[ChunkId, float]:
        """Return the BM25 scores of the rows of the query's namespaces."""
        scores: dict[ChunkId, float] = {}
        for namespace, (chunk_ids, block) in self._blocks(rows).items():
            bm25 = score(self.weighed, block, self.tokens[namespace], fields)
            scores.update(zip(chunk_ids, bm25.tolist(), strict=True))
        return scores

    def coverage(self, rows: Sequence[TermsRow], fields: FieldWeights) -> dict[ChunkId, float]:
        """Return the share of the query that each of these rows covers, in [0, 1]."""
        blocks = self._blocks(rows)
        held = coverage(self.keyword_query, [(block, self.tokens[of]) for of, (_, block) in blocks.items()], fields)
        return dict(zip((chunk_id for chunk_ids, _ in blocks.values() for chunk_id in chunk_ids), held, strict=True))

    def unshared(self, rows: Sequence[TermsRow], terms: Sequence[str], *, tenant_id: TenantId) -> frozenset[ChunkId]:
        """Return the chunks of those rows of the query's namespaces that hold none of these terms."""
        tokens = {
            namespace: frozenset(token.encode() for token in written.values())
            for namespace, written in _tokens(terms, tenant_id, self.tokens).items()
        }
        return frozenset(
            row.chunk_id
            for row in rows
            if row.namespace in tokens and tokens[row.namespace].isdisjoint(row.terms.split())
        )

    def _blocks(self, rows: Sequence[TermsRow]) -> dict[Namespace, tuple[list[ChunkId], IndexRows]]:
        """Group rows by the query's namespaces, without those of other namespaces."""
        grouped: defaultdict[Namespace, list[TermsRow]] = defaultdict(list)
        for row in rows:
            if row.namespace in self.tokens:
                grouped[row.namespace].append(row)
        return {
            namespace: (
                [row.chunk_id for row in mine],
                IndexRows([row.terms for row in mine], [row.fields for row in mine]),
            )
            for namespace, mine in grouped.items()
        }


def words_of(
    index: WordIndex, text: str, lexicon: Lexicon, *, tenant_id: TenantId, namespaces: Sequence[Namespace]
) -> QueryWords:
    """Return the words of a query's text with the statistics of an index.

    Other spellings are added if some chunk has them. A word that no chunk has also gets the spellings one typing error away.
    """
    keyword_query, sizes = read(text, lexicon), index.sizes(namespaces)
    chunk_count = sum(size.chunk_count for size in sizes.values())

    def counted(terms: Sequence[str], *, rare: bool = False) -> dict[str, int]:
        tokens = _tokens(terms, tenant_id, sizes)
        every = [token for of_one in tokens.values() for token in of_one.values()]
        wanted = index.existing(every) if rare else every
        return _summed(tokens, index.frequencies(wanted, sizes))

    frequency = counted(keyword_query.all_terms)
    if possible := keyword_query.other_terms(frequency):
        held = counted(possible, rare=True)
        frequency = held | frequency
        keyword_query = keyword_query.spelled(frequency, lags=not index.counts_all)
    near = _near_spellings(text, keyword_query, frequency)
    others = list(dict.fromkeys(other for some in near.values() for other in some))
    if others := others[: _MOST_SPELLINGS // max(1, len(sizes))]:
        held = counted(others, rare=True)
        spellings = {term: [other for other in some if held.get(other)] for term, some in near.items()}
        keyword_query = keyword_query.respelled(spellings)
        frequency = held | frequency
    if index.counts_all:
        keyword_query = keyword_query.held(frequency)
    term_count = sum(size.term_count for size in sizes.values())
    collection = Collection(chunk_count=chunk_count, term_count=term_count, chunk_frequency=frequency)
    return QueryWords(
        keyword_query=keyword_query,
        tokens=_tokens((*keyword_query.all_terms, *keyword_query.whole), tenant_id, sizes),
        frequency=frequency,
        weighed=weigh(keyword_query, collection),
        chunk_count=chunk_count,
    )


def _tokens(
    terms: Sequence[str], tenant_id: TenantId, namespaces: Iterable[Namespace]
) -> dict[Namespace, dict[str, str]]:
    scopes = {namespace: Scope(tenant_id=tenant_id, namespace=namespace) for namespace in namespaces}
    return {
        namespace: dict(zip(terms, tokenizer_of(scope).tokens(terms), strict=True))
        for namespace, scope in scopes.items()
    }


def _near_spellings(text: str, keyword_query: KeywordQuery, frequency: Mapping[str, int]) -> dict[str, list[str]]:
    """Return the terms one typing error away from each word of no chunk, and its stems in any language."""
    unknown = [
        unit.ways[0][0]
        for unit in keyword_query.units
        if len(unit.ways[0]) == 1 and not any(frequency.get(term) for way in unit.ways for term in way)
    ]
    stems = unsure_stems(text) if unknown else {}
    return {term: some for term in unknown if (some := [*stems.get(term, ()), *near_spellings(term)])}


def _summed(tokens: Mapping[Namespace, Mapping[str, str]], counts: Mapping[str, int]) -> dict[str, int]:
    """Return the number of chunks that hold each term, without absent terms. ``counts``: the counts of tokens."""
    frequency: defaultdict[str, int] = defaultdict(int)
    for of_one in tokens.values():
        for term, written in of_one.items():
            frequency[term] += counts.get(written, 0)
    return {term: count for term, count in frequency.items() if count}
