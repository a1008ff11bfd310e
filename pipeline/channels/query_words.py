"""The words of a query as the keyword index writes them, with their statistics, and BM25 of chunks by them."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pipeline.channels.local_indexes import IndexAtRevision
from pipeline.filters.index_filters import Clause
from pipeline.keyword.dictionary import KeywordQuery, Lexicon, read
from pipeline.keyword.fulltext_store import NARROW, Search, TermsRow
from pipeline.keyword.matching import FieldWeights, IndexRows
from pipeline.keyword.scoring import Collection, WeightedQuery, coverage, score, weigh
from pipeline.keyword.spellings import near_spellings
from pipeline.keyword.statistics_store import NamespaceStatistics, Statistics
from pipeline.keyword.terms import tokenizer_of
from pipeline.keyword_index.index_search import IndexSearch
from pipeline.keyword_index.indexed_chunk_store import NamespaceState
from pipeline.query.request import Query
from pipeline.records import ChunkId, Namespace, Scope, TenantId

# A FULLTEXT search cannot be interrupted, and every row it matches costs 4 µs, so its work is bounded in advance: it
# searches for the rarest terms that match about this many rows together. docs/decisions/0012.
_MATCHES = NARROW
_MOST_ALONE = 2_000  # rows that one term may match without a second one
_ENOUGH = 400  # rows that are expected to hold all required terms
_MOST_SPELLINGS = 4_000  # candidates for the spelling of unknown words, those of each namespace counted


@dataclass(frozen=True, slots=True)
class NamespaceRows:
    """Rows of one namespace, in order, with the positions of their tokens."""

    namespace: Namespace
    chunk_ids: Sequence[ChunkId]
    rows: IndexRows


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryWords:
    """A query's terms as the index of each namespace writes them, and their statistics, at one moment. ``host_index``:
    the host's index they come from; None for MySQL. ``rows``: its rows that this query has read."""

    keyword_query: KeywordQuery
    tokens: dict[Namespace, dict[str, str]]
    frequency: dict[str, int]
    weighed: WeightedQuery
    chunk_count: int
    lags: bool
    host_index: IndexAtRevision | None = None
    rows: dict[ChunkId, TermsRow] = field(default_factory=dict)

    def wanted(self, clause: Clause) -> IndexSearch:
        """Return the search in this host's index, where phrases and ways of several terms count by their terms."""
        groups: list[dict[str, float]] = []
        for tokens in self.tokens.values():
            for ways in self.weighed.units:
                worth = [{tokens[term]: worth for term, worth in way.items()} for way in ways]
                if all(len(way) == 1 for way in worth):
                    groups.append({token: value for way in worth for token, value in way.items()})
                else:
                    groups += ({token: value} for way in worth for token, value in way.items())
        without = self.host_index.changed if self.host_index else ()
        return IndexSearch(groups=[group for group in groups if any(group.values())], clause=clause, without=without)

    def search(self) -> Search:
        """Return the search by FULLTEXT: the rarest terms that stay within the bound together, at least one. If that
        one is common, chunks must hold the next rarest too, as long as enough are expected to. A term that no chunk
        holds is included only while some chunks are not counted yet."""
        occurring = [term for term in self.keyword_query.terms if self.lags or self.frequency.get(term)]
        rarest = sorted(occurring, key=lambda term: self.frequency.get(term, 0))
        if not rarest:
            return Search(groups=(), every=False, expected=0, complete=True)
        chosen, matches = rarest[:1], float(self.frequency.get(rarest[0], 0))
        every = matches > _MOST_ALONE
        for term in rarest[1:]:
            frequency = self.frequency.get(term, 0)
            if every:
                fewer = matches * frequency / max(1, self.chunk_count)
                if matches <= _MOST_ALONE or fewer < _ENOUGH:
                    break
                matches = fewer
            elif matches and matches + frequency > _MATCHES:
                break
            else:
                matches += frequency
            chosen.append(term)
        groups = tuple(tuple(tokens[term] for term in chosen) for tokens in self.tokens.values())
        return Search(
            groups=groups,
            every=every,
            expected=None if self.lags or every else int(matches),
            complete=len(chosen) == len(occurring) and not every,
        )

    def score(self, blocks: Sequence[NamespaceRows], fields: FieldWeights) -> dict[ChunkId, float]:
        """Return the BM25 scores of the chunks."""
        scores: dict[ChunkId, float] = {}
        for block in blocks:
            bm25 = score(self.weighed, block.rows, self.tokens[block.namespace], fields)
            scores.update(zip(block.chunk_ids, bm25.tolist(), strict=True))
        return scores

    def coverage(self, blocks: Sequence[NamespaceRows], fields: FieldWeights) -> dict[ChunkId, float]:
        """Return the share of the query that each chunk covers, in [0, 1]."""
        held = coverage(self.keyword_query, [(block.rows, self.tokens[block.namespace]) for block in blocks], fields)
        return dict(zip((chunk_id for block in blocks for chunk_id in block.chunk_ids), held, strict=True))

    def of_rows(self, rows: Sequence[TermsRow]) -> list[NamespaceRows]:
        """Group index rows by the query's namespaces; rows of other namespaces are left out."""
        by_namespace: defaultdict[Namespace, list[TermsRow]] = defaultdict(list)
        for row in rows:
            if row.namespace in self.tokens:
                by_namespace[row.namespace].append(row)
        return [
            NamespaceRows(
                namespace,
                [row.chunk_id for row in mine],
                IndexRows([row.terms for row in mine], [row.fields for row in mine]),
            )
            for namespace, mine in by_namespace.items()
        ]


def words_of_mysql(statistics: Statistics, query: Query, lexicon: Lexicon) -> QueryWords:
    """Return the words with the statistics in MySQL."""
    keyword_query = read(query.query_text, lexicon)
    tokens = _tokens(keyword_query.all_terms, query.tenant_id, query.namespaces)
    sizes, counts = statistics.of_query(query.namespaces, _of_all(tokens))
    lags = any(size.lags for size in sizes.values())
    frequency = _counted(tokens, counts)
    keyword_query, tokens, frequency = _respelled(
        keyword_query.spelled(frequency, lags=lags),
        tokens,
        frequency,
        query,
        lambda some: statistics.frequencies(query.namespaces, some),
    )
    return _weighed(keyword_query, tokens, frequency, list(sizes.values()), lags=lags)


def words_of_index(host_index: IndexAtRevision, query: Query, lexicon: Lexicon) -> QueryWords:
    """Return the words with the statistics of this host's index; changes after its revision are not counted."""
    keyword_query = read(query.query_text, lexicon)
    tokens = _tokens(keyword_query.all_terms, query.tenant_id, list(host_index.states))
    frequencies = host_index.view.frequencies
    frequency = _counted(tokens, frequencies(_of_all(tokens)))
    keyword_query = keyword_query.spelled(frequency, lags=bool(host_index.changed))
    keyword_query, tokens, frequency = _respelled(keyword_query, tokens, frequency, query, frequencies)
    return _weighed(keyword_query, tokens, frequency, list(host_index.states.values()), host_index=host_index)


def _weighed(
    keyword_query: KeywordQuery,
    tokens: dict[Namespace, dict[str, str]],
    frequency: dict[str, int],
    sizes: Sequence[NamespaceState | NamespaceStatistics],
    *,
    lags: bool = False,
    host_index: IndexAtRevision | None = None,
) -> QueryWords:
    if not lags and not (host_index and host_index.changed):  # else some chunks are not counted yet
        keyword_query = keyword_query.held(frequency)
    collection = Collection(
        chunk_count=sum(size.chunk_count for size in sizes),
        term_count=sum(size.term_count for size in sizes),
        chunk_frequency=frequency,
    )
    return QueryWords(
        keyword_query=keyword_query,
        tokens=tokens,
        frequency=frequency,
        weighed=weigh(keyword_query, collection),
        chunk_count=collection.chunk_count,
        lags=lags,
        host_index=host_index,
    )


def _tokens(
    terms: Sequence[str], tenant_id: TenantId, namespaces: Iterable[Namespace]
) -> dict[Namespace, dict[str, str]]:
    scopes = {namespace: Scope(tenant_id=tenant_id, namespace=namespace) for namespace in namespaces}
    return {
        namespace: dict(zip(terms, tokenizer_of(scope).tokens(terms), strict=True))
        for namespace, scope in scopes.items()
    }


def _of_all(tokens: Mapping[Namespace, Mapping[str, str]]) -> list[str]:
    return [token for of_one in tokens.values() for token in of_one.values()]


def _respelled(
    keyword_query: KeywordQuery,
    tokens: dict[Namespace, dict[str, str]],
    frequency: dict[str, int],
    query: Query,
    count: Callable[[list[str]], Mapping[str, int]],
) -> tuple[KeywordQuery, dict[Namespace, dict[str, str]], dict[str, int]]:
    """Add to words of no chunk the spellings one typing error away that some chunk has, by ``count``."""
    bound = _MOST_SPELLINGS // max(1, len(tokens))
    unknown = (
        unit.ways[0]
        for unit in keyword_query.units
        if not any(frequency.get(term) for way in unit.ways for term in way)
    )
    near = {way[0]: some for way in unknown if len(way) == 1 and (some := near_spellings(way[0]))}
    others = list(dict.fromkeys(other for some in near.values() for other in some))[:bound]
    if not others:
        return keyword_query, tokens, frequency
    written = _tokens(others, query.tenant_id, tokens)
    held = _counted(written, count(_of_all(written)))
    keyword_query = keyword_query.respelled(
        {term: [other for other in some if held.get(other)] for term, some in near.items()}
    )
    return keyword_query, _tokens(keyword_query.all_terms, query.tenant_id, tokens), held | frequency


def _counted(tokens: Mapping[Namespace, Mapping[str, str]], counts: Mapping[str, int]) -> dict[str, int]:
    """Return the number of chunks that hold each term, without absent terms. ``counts``: the counts of tokens."""
    frequency: defaultdict[str, int] = defaultdict(int)
    for of_one in tokens.values():
        for term, written in of_one.items():
            frequency[term] += counts.get(written, 0)
    return {term: count for term, count in frequency.items() if count}
