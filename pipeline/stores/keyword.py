"""The keyword index: FULLTEXT proposes candidates, and BM25 decides between them (`stores.statistics`).

InnoDB ranks by tf·idf² over the whole table, without length normalisation, and so loses a quarter of BM25's quality;
what it is good at is finding the rows quickly. Terms carry their tenant and namespace (`core.terms.Tokenizer`), so a
search touches nobody else's rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, bindparam, text

from pipeline.records import ChunkId, Filters, Namespace, TenantId
from pipeline.stores.filters import mysql_condition


@dataclass(frozen=True, slots=True, kw_only=True)
class TermsRow:
    """A chunk as the index has it: its tokens, joined by spaces, and how many there are."""

    chunk_id: ChunkId
    namespace: Namespace
    terms: str
    term_count: int


class KeywordIndex:
    """One tenant's part of the FULLTEXT index."""

    def __init__(self, connection: Connection, tenant_id: TenantId) -> None:
        self._connection = connection
        self._tenant_id = tenant_id

    def candidates(
        self, namespaces: Sequence[Namespace], tokens: Sequence[str], *, filters: Filters, limit: int
    ) -> list[TermsRow]:
        """Up to ``limit`` shown chunks that hold any of the tokens, those first that FULLTEXT ranks highest."""
        if not tokens:
            return []
        values: dict[str, Any] = {"tenant": self._tenant_id, "query": " ".join(tokens)}
        if filters:
            condition, filtered = mysql_condition(filters, alias="g", chunk="m")
            statement = text(_FILTERED.format(condition=condition)).bindparams(bindparam("namespaces", expanding=True))
            values |= {**filtered, "namespaces": list(namespaces), "limit": limit}
        else:
            statement, values["limit"] = _CANDIDATES, limit + limit // 4  # some of these may not be shown (any more)
        return [_terms_row(row) for row in self._connection.execute(statement, values)][:limit]

    def rows(self, chunk_ids: Sequence[ChunkId]) -> list[TermsRow]:
        """The index rows of given chunks, whether shown or not: the caller drops what is not when it loads the text."""
        if not chunk_ids:
            return []
        return [
            _terms_row(row)
            for row in self._connection.execute(_ROWS, {"tenant": self._tenant_id, "ids": list(chunk_ids)})
        ]


# Sorted narrow and widened afterwards: carrying the terms through the sort costs more than fetching them again. Tokens
# belong to one tenant and namespace, so the inner part touches nobody else's rows; joining inside it doubles its cost.
_CANDIDATES = text("""
SELECT c.chunk_id, c.namespace, c.terms, c.term_count
FROM (
    SELECT m.tenant_id, m.namespace, m.document_id, m.generation, m.ordinal,
        MATCH(m.terms) AGAINST(:query IN BOOLEAN MODE) AS relevance
    FROM chunks m
    WHERE MATCH(m.terms) AGAINST(:query IN BOOLEAN MODE) AND m.tenant_id = :tenant AND m.enabled = 1
    ORDER BY relevance DESC LIMIT :limit
) best
JOIN documents d ON d.tenant_id = best.tenant_id AND d.namespace = best.namespace
    AND d.document_id = best.document_id AND d.published_generation = best.generation
JOIN chunks c ON c.tenant_id = best.tenant_id AND c.namespace = best.namespace
    AND c.document_id = best.document_id AND c.generation = best.generation AND c.ordinal = best.ordinal
""")

# A filter may leave few of the best, so here it has to be applied to every match.
_FILTERED = """
SELECT c.chunk_id, c.namespace, c.terms, c.term_count
FROM (
    SELECT m.tenant_id, m.chunk_id, MATCH(m.terms) AGAINST(:query IN BOOLEAN MODE) AS relevance
    FROM chunks m
    JOIN documents d ON d.tenant_id = m.tenant_id AND d.namespace = m.namespace AND d.document_id = m.document_id
        AND d.published_generation = m.generation
    JOIN generations g ON g.tenant_id = m.tenant_id AND g.namespace = m.namespace AND g.document_id = m.document_id
        AND g.generation = m.generation
    WHERE MATCH(m.terms) AGAINST(:query IN BOOLEAN MODE) AND m.tenant_id = :tenant AND m.namespace IN :namespaces
        AND m.enabled = 1 AND {condition}
    ORDER BY relevance DESC LIMIT :limit
) best
JOIN chunks c ON c.tenant_id = best.tenant_id AND c.chunk_id = best.chunk_id
"""

_ROWS = text(
    "SELECT chunk_id, namespace, terms, term_count FROM chunks WHERE tenant_id = :tenant AND chunk_id IN :ids"
).bindparams(bindparam("ids", expanding=True))


def _terms_row(row: Any) -> TermsRow:
    return TermsRow(
        chunk_id=ChunkId(row.chunk_id), namespace=Namespace(row.namespace), terms=row.terms, term_count=row.term_count
    )
