"""The keyword index: FULLTEXT proposes candidates quickly, and BM25 ranks them (`keyword.scoring`), since InnoDB's
tf·idf² without length normalisation loses a quarter of its quality. Tokens carry tenant and namespace, so a search
touches no other tenant's rows."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pipeline.database.rows import TenantStore
from pipeline.database.statements import same_document, same_generation
from pipeline.filters.sql_filters import mysql_condition
from pipeline.records import ChunkId, DocumentId, FieldTerms, Filters, Namespace


class TermsRow(NamedTuple):
    """A chunk's tokens, joined by spaces, and how many belong to each field. A tuple: a query makes hundreds."""

    chunk_id: ChunkId
    namespace: Namespace
    terms: bytes
    fields: FieldTerms


NARROW = 500  # rows that are read as fast as ranked and cut to 250


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """The tokens to match: one group for each namespace. ``every``: a chunk must hold all tokens of a group, otherwise
    any. ``expected``: the largest number of matching chunks, None if unknown. ``complete``: the tokens include every
    term of the query that any chunk holds."""

    groups: tuple[tuple[str, ...], ...]
    every: bool = False
    expected: int | None = None
    complete: bool = False

    @property
    def is_narrow(self) -> bool:
        """Whether reading every match is cheaper than ranking them by FULLTEXT."""
        return self.expected is not None and self.expected <= NARROW

    @property
    def expression(self) -> str:
        """The search in the syntax of BOOLEAN mode, which tokens cannot break."""
        if not self.every:
            return " ".join(token for group in self.groups for token in group)
        return " ".join(f"({' '.join('+' + token for token in group)})" for group in self.groups)


class KeywordIndex(TenantStore):
    """One tenant's part of the FULLTEXT index."""

    def candidates(
        self, namespaces: Sequence[Namespace], search: Search, *, filters: Filters, limit: int
    ) -> list[TermsRow]:
        """Return shown chunks that match: all of them if the search expects few (`Search.is_narrow`), otherwise the
        ``limit`` chunks that FULLTEXT ranks highest."""
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

    def rows(self, chunk_ids: Sequence[ChunkId]) -> list[TermsRow]:
        """Return the rows of these chunks, shown or not: the caller drops hidden ones when it loads their texts."""
        if not chunk_ids:
            return []
        return self._read(_ROWS, {"ids": list(chunk_ids)})

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


# One column of bytes, so that the server converts nothing and PyMySQL parses one value: five columns of two hundred
# rows cost it more than BM25. (GROUP_CONCAT would make it one row, but uses a temporary table on disk.) Names of
# namespaces hold no spaces.
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

# Sort narrow rows and join the terms afterwards: carrying the terms through the sort costs more than fetching them
# again.
_CANDIDATES = f"""
{_PACKED.format(c="c")}
FROM (
    SELECT m.tenant_id, m.namespace, m.document_id, m.generation, m.ordinal, {_MATCHES} AS relevance
    FROM chunks m
    WHERE {_MATCHES} AND m.tenant_id = :tenant AND m.enabled = 1
    ORDER BY relevance DESC LIMIT :limit
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
    ORDER BY relevance DESC LIMIT :limit
) best
JOIN chunks c ON c.tenant_id = best.tenant_id AND c.chunk_id = best.chunk_id
"""

_ROWS = f"{_PACKED.format(c='c')} FROM chunks c WHERE c.tenant_id = :tenant AND c.chunk_id IN :ids"


def terms_row(line: str) -> TermsRow:
    """Parse an index row from the column `PACKED`, as text: its tokens are ASCII."""
    chunk_id, namespace, title, summary, names, terms = line.split(" ", 5)
    return TermsRow(ChunkId(chunk_id), Namespace(namespace), terms.encode("ascii"), _fields(title, summary, names))


@functools.lru_cache(maxsize=4096)
def _fields(title: str, summary: str, names: str) -> FieldTerms:
    return FieldTerms(title=int(title), summary=int(summary), entity_names=int(names))
