"""The engine FULLTEXT: MySQL's index proposes candidates quickly, and BM25 ranks them (`keyword.scoring`), since InnoDB's
tf·idf² without length normalisation loses a quarter of its quality. Tokens carry tenant and namespace, so a search
touches no other tenant's rows. Statistics are not stored: FULLTEXT counts rare tokens, and a sample of chunks common ones.
"""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.database.rows import TenantStore, record_of
from pipeline.database.statements import same_document, same_generation
from pipeline.filters.sql_filters import mysql_condition
from pipeline.keyword.query_words import Candidates, NamespaceSize, QueryWords, TermsRow
from pipeline.records import Caps, ChunkId, DocumentId, FieldTerms, Filters, Namespace

# A FULLTEXT search cannot be interrupted, and every row it matches costs 4 µs, so its work is bounded in advance: it
# searches for the rarest terms that match about this many rows together. docs/decisions/0012.
_NARROW = 500  # rows that are read as fast as ranked and cut to 250
_MOST_MATCHES = _NARROW
_MOST_WITHIN_CAPS = 20_000  # the same for a search within caps, which follows where they leave an answer short
_MOST_ALONE = 2_000  # rows that one term may match without a second one
_ENOUGH = 400  # rows that are expected to hold all required terms
_LEAST_CANDIDATES = 200
_CANDIDATES_PER_PLACE = 2
# docs/decisions/0090
_EXACT_CHUNKS = 2_000  # chunks; in a larger collection common tokens are counted in a sample
_SAMPLE = 128  # chunks
_LEAST_SAMPLED = 4  # chunks of the sample that must hold a token for an estimate
_COUNTED_TOKENS = 64  # tokens
_SPELLED = 64  # chunks that are read to see which of many tokens exist


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """The tokens to match: one group for each namespace. ``every``: a chunk must hold all tokens of a group, otherwise
    any. ``expected``: the largest number of matching chunks, None if unknown. ``complete``: the tokens include every
    term of the query that any chunk holds."""

    groups: tuple[tuple[str, ...], ...]
    every: bool = False
    expected: int | None = None
    complete: bool = False

    @classmethod
    def of(cls, words: QueryWords, *, within_caps: bool = False) -> "Search":
        """Return the search for the rarest terms that stay within the bound together, at least one. If that one is
        common, chunks must hold the next rarest too, as long as enough are expected to. The bound is higher
        ``within_caps``."""
        most, alone = (_MOST_WITHIN_CAPS, _MOST_WITHIN_CAPS) if within_caps else (_MOST_MATCHES, _MOST_ALONE)
        rarest = sorted(filter(words.frequency.get, words.keyword_query.terms), key=lambda term: words.frequency[term])
        if not rarest:
            return cls(groups=(), expected=0, complete=True)
        chosen, matches = rarest[:1], float(words.frequency[rarest[0]])
        every = matches > alone
        for term in rarest[1:]:
            frequency = words.frequency[term]
            if every:
                fewer = matches * frequency / max(1, words.chunk_count)
                if matches <= _MOST_ALONE or fewer < _ENOUGH:
                    break
                matches = fewer
            elif matches + frequency > most:
                break
            else:
                matches += frequency
            chosen.append(term)
        return cls(
            groups=tuple(tuple(tokens[term] for term in chosen) for tokens in words.tokens.values()),
            every=every,
            expected=None if every else int(matches),
            complete=len(chosen) == len(rarest) and not every,
        )

    @property
    def is_narrow(self) -> bool:
        """Whether reading every match is cheaper than ranking them by FULLTEXT."""
        return self.expected is not None and self.expected <= _NARROW

    @property
    def expression(self) -> str:
        """The search in the syntax of BOOLEAN mode, which tokens cannot break."""
        if not self.every:
            return " ".join(token for group in self.groups for token in group)
        return " ".join(f"({' '.join('+' + token for token in group)})" for group in self.groups)


class KeywordIndex(TenantStore):
    """One tenant's part of the FULLTEXT index, a `WordIndex`. It sees every commit."""

    counts_all = True

    def sizes(self, namespaces: Sequence[Namespace]) -> dict[Namespace, NamespaceSize]:
        """Return the size of each of these namespaces that exists."""
        rows = self._run(_SIZES, namespaces=list(namespaces))
        return {Namespace(row.namespace): record_of(NamespaceSize, row) for row in rows}

    def frequencies(self, tokens: Sequence[str], sizes: Mapping[Namespace, NamespaceSize]) -> dict[str, int]:
        """Return the number of shown chunks that hold each token, without those of none. In more than 2,000 chunks, and
        for more than 64 tokens, a token of some 3 % of them and more is estimated; of the others 64 are counted."""
        wanted, found = list(dict.fromkeys(tokens)), dict[str, int]()
        chunk_count = sum(size.chunk_count for size in sizes.values())
        if chunk_count > _EXACT_CHUNKS or len(wanted) > _COUNTED_TOKENS:
            sample = self._run(_SAMPLED, namespaces=list(sizes), limit=_SAMPLE).scalars().all()
            held = {token: sum(token.encode() in terms for terms in sample) for token in wanted}
            if len(sample) < _SAMPLE:  # these are all
                return {token: count for token, count in held.items() if count}
            found = {token: n * chunk_count // _SAMPLE for token, n in held.items() if n >= _LEAST_SAMPLED}
        rare = [token for token in wanted if token not in found]
        found |= dict.fromkeys(rare[_COUNTED_TOKENS:], _LEAST_SAMPLED * chunk_count // (2 * _SAMPLE))
        if counted := rare[:_COUNTED_TOKENS]:
            rows = self._run(_counting(len(counted)), **{f"token{place}": token for place, token in enumerate(counted)})
            found |= {counted[place]: count for place, count in rows if count}
        return found

    def existing(self, tokens: Sequence[str]) -> list[str]:
        """Return those of these tokens, hundreds, that a shown chunk holds. Where many chunks match, a common token may be
        missing."""
        if not tokens:
            return []
        rows = self._read(_CANDIDATES, {"query": " ".join(tokens), "limit": _SPELLED})
        held = set(b" ".join(row.terms for row in rows).split())
        return [token for token in tokens if token.encode() in held]

    def candidates(self, words: QueryWords, *, filters: Filters, pool: int, caps: Caps | None = None) -> Candidates:
        """Return shown chunks that hold the query's rarest terms, within the caps: all if few are expected, otherwise those
        that FULLTEXT ranks highest."""
        limit = max(_LEAST_CANDIDATES, _CANDIDATES_PER_PLACE * pool)
        if caps is None:
            search = Search.of(words)
            rows = self.matches(list(words.tokens), search, filters=filters, limit=limit)
            reads_all = search.is_narrow and not filters
        else:
            search = Search.of(words, within_caps=True)
            rows = self.within_caps(list(words.tokens), search, filters=filters, limit=limit, caps=caps)
            reads_all = False
        has_all = search.complete and (reads_all or len(rows) < limit)
        return Candidates(rows=rows, method="fulltext", may_be_short=not has_all)

    def matches(
        self, namespaces: Sequence[Namespace], search: Search, *, filters: Filters, limit: int
    ) -> list[TermsRow]:
        """Return shown chunks that match: all of them if the search expects few (`Search.is_narrow`), otherwise the
        ``limit`` chunks that FULLTEXT ranks highest, the lowest chunk ids of equal ones."""
        if not any(search.groups):
            return []
        values: dict[str, Any] = {"query": search.expression}
        if filters:
            condition, filtered = mysql_condition(filters, alias="g", chunk="m")
            values |= {**filtered, "namespaces": list(namespaces), "limit": limit}
            return self._read(_FILTERED.format(condition=condition), values)
        if search.is_narrow:
            return self._read(_EVERY, values)
        values["limit"] = limit + limit // 4  # some of these may have been hidden meanwhile
        return self._read(_CANDIDATES, values)[:limit]

    def within_caps(
        self,
        namespaces: Sequence[Namespace],
        search: Search,
        *,
        filters: Filters,
        limit: int,
        caps: Caps,
        document_ids: Sequence[DocumentId] | None = None,
    ) -> list[TermsRow]:
        """Return the ``limit`` highest ranked shown chunks within the caps; equal contents regardless of case.
        ``document_ids``: only theirs."""
        if not any(search.groups):
            return []
        condition, values = mysql_condition(filters, alias="g", chunk="m")
        if document_ids is not None:
            condition, values = f"{condition} AND m.document_id IN :documents", {**values, "documents": document_ids}
        content = "MD5(LOWER(m.text))" if caps.contents else "m.chunk_id"
        values |= {"query": search.expression, "namespaces": list(namespaces), "limit": limit}
        values |= {"per_document": caps.per_document or limit}
        return self._read(_WITHIN_CAPS.format(condition=condition, content=content), values)

    def count_values(
        self,
        words: QueryWords,
        chunk_ids: Sequence[ChunkId],
        *,
        filters: Filters,
        fields: Sequence[str],
    ) -> None:
        """Return None: FULLTEXT proposes chunks, and does not find all of them."""

    def rows(self, chunk_ids: Sequence[ChunkId]) -> list[TermsRow]:
        """Return the rows of these chunks, shown or not: the caller drops hidden ones when it loads their texts."""
        if not chunk_ids:
            return []
        return self._read(_ROWS, {"ids": list(chunk_ids)})

    def own_rows(self, chunk_ids: Sequence[ChunkId]) -> list[TermsRow]:  # noqa: ARG002 - the port's
        """Return none: every row costs a statement."""
        return []

    def shown_of(
        self, namespace: Namespace, document_ids: Sequence[DocumentId], *, filters: Filters, limit: int
    ) -> list[TermsRow]:
        """Return up to ``limit`` shown chunks of these documents, of a single one the first."""
        condition, filtered = mysql_condition(filters, alias="g", chunk="m")
        order = "ORDER BY m.ordinal" if len(document_ids) == 1 else ""  # the order of the primary key
        key = {"namespace": namespace, "documents": list(document_ids), "limit": limit}
        return self._read(f"{_SHOWN_OF} AND {condition} {order} LIMIT :limit", {**filtered, **key})

    def chunk_count(self, namespace: Namespace, document_ids: Sequence[DocumentId]) -> int:
        """Return the number of chunks in the shown generations of these documents, those taken out by hand included."""
        if not document_ids:
            return 0
        return int(self._run(_CHUNK_COUNT, namespace=namespace, documents=list(document_ids)).scalar_one())

    def _read(self, statement: str, values: dict[str, Any]) -> list[TermsRow]:
        return [terms_row(line.decode()) for line in self._run(statement, **values).scalars()]


# One column of bytes: PyMySQL takes longer to parse five columns of two hundred rows than BM25 takes. GROUP_CONCAT would
# use a temporary table on disk. Names of namespaces hold no spaces.
PACKED = (
    "CONCAT_WS(' ', CAST({c}.chunk_id AS BINARY), CAST({c}.namespace AS BINARY), {c}.title_terms,"
    " {c}.summary_terms, {c}.entity_terms, CAST({c}.terms AS BINARY))"
)
_PACKED = f"SELECT {PACKED}"
_SHOWN = f" JOIN documents d ON {same_document('d', '{m}')} AND d.published_generation = {{m}}.generation"
_OF_GENERATION = f" JOIN generations g ON {same_generation('g', 'm')}"
_SHOWN_OF = (
    f"{_PACKED.format(c='m')} FROM documents d STRAIGHT_JOIN chunks m ON {same_document('m', 'd')}"
    f" AND m.generation = d.published_generation{_OF_GENERATION}"
    " WHERE d.tenant_id = :tenant AND d.namespace = :namespace AND d.document_id IN :documents"
    " AND m.enabled = 1"
)
_CHUNK_COUNT = (
    f"SELECT COALESCE(SUM(g.chunk_count), 0) FROM documents d STRAIGHT_JOIN generations g ON {same_document('g', 'd')}"
    " AND g.generation = d.published_generation"
    " WHERE d.tenant_id = :tenant AND d.namespace = :namespace AND d.document_id IN :documents"
)
_MATCHES = "MATCH(m.terms) AGAINST(:query IN BOOLEAN MODE)"

# No sort and no second read. Tokens belong to one tenant and namespace, so only its rows are touched.
_EVERY = (
    f"{_PACKED.format(c='m')} FROM chunks m STRAIGHT_JOIN{_SHOWN.format(m='m').removeprefix(' JOIN')}"
    f" WHERE {_MATCHES} AND m.tenant_id = :tenant AND m.enabled = 1"
)

# Sort narrow rows and join the terms afterwards: a sort with the terms costs more.
_CANDIDATES = f"""
{_PACKED.format(c="c")}
FROM (
    SELECT m.tenant_id, m.namespace, m.document_id, m.generation, m.ordinal, {_MATCHES} AS relevance
    FROM chunks m
    WHERE {_MATCHES} AND m.tenant_id = :tenant AND m.enabled = 1
    ORDER BY relevance DESC, m.chunk_id LIMIT :limit
) best
{_SHOWN.format(m="best")}
JOIN chunks c ON {same_generation("c", "best")} AND c.ordinal = best.ordinal
"""

# A filter may pass few of the best, so it must be applied to every match here.
_FILTERED = f"""
{_PACKED.format(c="c")}
FROM (
    SELECT m.tenant_id, m.chunk_id, {_MATCHES} AS relevance
    FROM chunks m{_SHOWN.format(m="m")}{_OF_GENERATION}
    WHERE {_MATCHES} AND m.tenant_id = :tenant AND m.namespace IN :namespaces AND m.enabled = 1 AND {{condition}}
    ORDER BY relevance DESC, m.chunk_id LIMIT :limit
) best
JOIN chunks c ON c.tenant_id = best.tenant_id AND c.chunk_id = best.chunk_id
"""

# Numbered among the equal ones, and then among those of a document.
_WITHIN_CAPS = f"""
{_PACKED.format(c="c")}
FROM (
    SELECT tenant_id, chunk_id, relevance,
        ROW_NUMBER() OVER (PARTITION BY namespace, document_id ORDER BY relevance DESC, chunk_id) AS of_document
    FROM (
        SELECT tenant_id, namespace, document_id, chunk_id, relevance,
            ROW_NUMBER() OVER (PARTITION BY content ORDER BY relevance DESC, chunk_id) AS of_content
        FROM (
            SELECT m.tenant_id, m.namespace, m.document_id, m.chunk_id, {{content}} AS content, {_MATCHES} AS relevance
            FROM chunks m{_SHOWN.format(m="m")}{_OF_GENERATION}
            WHERE {_MATCHES} AND m.tenant_id = :tenant AND m.namespace IN :namespaces AND m.enabled = 1 AND {{condition}}
        ) matched
    ) numbered
    WHERE of_content = 1
) best
JOIN chunks c ON c.tenant_id = best.tenant_id AND c.chunk_id = best.chunk_id
WHERE best.of_document <= :per_document
ORDER BY best.relevance DESC, best.chunk_id LIMIT :limit
"""

_SIZES = (
    "SELECT namespace, chunk_count, term_count FROM namespaces WHERE tenant_id = :tenant AND namespace IN :namespaces"
)
_SHOWN_FIRST = _SHOWN.format(m="m").removeprefix(" JOIN")

# The index by id also holds the primary key, so rows of other namespaces are not read.
_SAMPLED = (
    f"SELECT CAST(m.terms AS BINARY) FROM chunks m FORCE INDEX (chunks_by_id) STRAIGHT_JOIN{_SHOWN_FIRST}"
    " WHERE m.tenant_id = :tenant AND m.namespace IN :namespaces AND m.enabled = 1 ORDER BY m.chunk_id LIMIT :limit"
)


def _counting(tokens: int) -> str:
    """Return the statement that counts so many tokens, ``:token0`` and so on, by their places."""
    return " UNION ALL ".join(
        f"SELECT {place}, COUNT(*) FROM chunks m STRAIGHT_JOIN{_SHOWN_FIRST}"
        f" WHERE MATCH(m.terms) AGAINST(:token{place} IN BOOLEAN MODE) AND m.tenant_id = :tenant AND m.enabled = 1"
        for place in range(tokens)
    )


_ROWS = f"{_PACKED.format(c='c')} FROM chunks c WHERE c.tenant_id = :tenant AND c.chunk_id IN :ids"


def terms_row(line: str) -> TermsRow:
    """Parse an index row from the column `PACKED`, as text: its tokens are ASCII."""
    chunk_id, namespace, title, summary, names, terms = line.split(" ", 5)
    return TermsRow(ChunkId(chunk_id), Namespace(namespace), terms.encode("ascii"), _fields(title, summary, names))


@functools.lru_cache(maxsize=4096)
def _fields(title: str, summary: str, names: str) -> FieldTerms:
    return FieldTerms(title=int(title), summary=int(summary), entity_names=int(names))
