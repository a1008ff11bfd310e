"""Generations whose terms were made by outdated rules, and their rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from pipeline.database.rows import TenantStore, generation_key
from pipeline.database.statements import OF_GENERATION, sql, tenant_ids
from pipeline.documents.document_views import OwnedChunk
from pipeline.documents.owned_chunk_store import CHUNK_COLUMNS, COLUMNS, JOINED, owned_chunk
from pipeline.keyword.indexed_fields import IndexedTokens
from pipeline.keyword.terms import VERSION
from pipeline.records import ChunkId, Generation, TenantId


@dataclass(frozen=True, slots=True, kw_only=True)
class OutdatedGeneration:
    """A generation with terms of an older version, and how many chunks it has."""

    generation: Generation
    chunk_count: int


class OutdatedTerms(TenantStore):
    """One tenant's generations with outdated terms."""

    def due(self, *, limit: int) -> list[OutdatedGeneration]:
        """Return up to ``limit`` generations, shown or not."""
        return [
            OutdatedGeneration(generation=self._generation(*key), chunk_count=count or 0)
            for *key, count in self._run(_DUE, version=VERSION, limit=limit)
        ]

    def chunks(self, generation: Generation) -> tuple[list[OwnedChunk], bool]:
        """Return the chunks of a generation, and whether searches see it now."""
        rows = self._connection.execute(_CHUNKS, generation_key(generation)).mappings().all()
        return [owned_chunk(self._tenant_id, row) for row in rows], bool(rows and rows[0]["is_shown"])

    def rewrite(self, changed: Sequence[tuple[ChunkId, IndexedTokens]]) -> None:
        """Replace the terms of chunks. Text, hash, version and time of the last edit stay."""
        values = [
            {
                "tenant": self._tenant_id,
                "id": chunk_id,
                "terms": " ".join(indexed.terms),
                "count": len(indexed.terms),
                "title": indexed.fields.title,
                "summary": indexed.fields.summary,
                "names": indexed.fields.entity_names,
            }
            for chunk_id, indexed in changed
        ]
        if values:
            self._connection.execute(_REWRITE, values)

    def settle(self, generations: Sequence[Generation]) -> None:
        """Note that the terms of these generations are up to date."""
        values = [{**generation_key(generation), "version": VERSION} for generation in generations]
        if values:
            self._connection.execute(_SETTLE, values)


def tenants_with_outdated_terms(connection: Connection) -> list[TenantId]:
    """Return the tenants that have any; reads nothing but their ids."""
    statement = "SELECT DISTINCT tenant_id FROM generations WHERE terms_version < :version"
    return tenant_ids(connection, statement, version=VERSION)


_DUE = sql(
    "SELECT namespace, document_id, generation, chunk_count FROM generations"
    " WHERE terms_version < :version AND tenant_id = :tenant ORDER BY namespace, document_id, generation LIMIT :limit"
)
_CHUNKS = sql(
    f"SELECT {COLUMNS}, {CHUNK_COLUMNS}, d.published_generation <=> c.generation AS is_shown"
    f" FROM chunks c{JOINED.replace(' AND d.published_generation = c.generation', '')}"
    " AND c.namespace = :namespace AND c.document_id = :document AND c.generation = :generation"
)
_REWRITE = sql(
    "UPDATE chunks SET terms = :terms, term_count = :count, title_terms = :title, summary_terms = :summary,"
    " entity_terms = :names WHERE tenant_id = :tenant AND chunk_id = :id"
)
_SETTLE = sql(f"UPDATE generations SET terms_version = :version WHERE {OF_GENERATION}")
