"""List and change chunks of published generations for their owner, enabled or not."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from sqlalchemy import bindparam, text

from pipeline.database.rows import TenantStore, generation_key, now, to_json
from pipeline.documents.owned_chunk_store import COLUMNS, JOINED, OwnedChunk, owned_chunk, owned_parent
from pipeline.filters.sql_filters import mysql_condition
from pipeline.records import Chunk, ChunkId, DocumentId, Filters, Generation, Namespace, Passage

__all__ = ["ChunkEdits", "ChunkOrder", "OwnedChunk", "Position"]

ChunkOrder = Literal["document_id", "updated_at", "-updated_at"]
Position = tuple[Any, ...]

_CHANGED = "COALESCE(c.edited_at, c.created_at)"
_ORDERS: dict[ChunkOrder, tuple[str, str]] = {
    "document_id": (
        "c.document_id, c.ordinal",
        "c.document_id >= :p0 AND (c.document_id, {tier}, c.ordinal) > (:p0, :p1, :p2)",
    ),
    "updated_at": (
        "changed_at, c.document_id, c.ordinal",
        f"({_CHANGED}, c.document_id, {{tier}}, c.ordinal) > (:p0, :p1, :p2, :p3)",
    ),
    "-updated_at": (
        "changed_at DESC, c.document_id DESC, c.ordinal DESC",
        f"({_CHANGED}, c.document_id, {{tier}}, c.ordinal) < (:p0, :p1, :p2, :p3)",
    ),
}


class ChunkEdits(TenantStore):
    """One tenant's chunks, to list and change. Make changes in the transaction that locked their documents."""

    def page(
        self,
        namespace: Namespace,
        *,
        document_id: DocumentId | None = None,
        source_id: str | None = None,
        enabled: bool | None = None,
        chunk_type: str | None = None,
        parent_id: ChunkId | None = None,
        filters: Filters | None = None,
        order_by: ChunkOrder = "document_id",
        after: Position | None = None,
        offset: int = 0,
        limit: int,
    ) -> list[OwnedChunk]:
        """Return published chunks and parents of a namespace, of a source or of a document in it, in the given order.

        ``filters`` apply to their documents, as in a query. ``offset`` rows are read and discarded, so a large one is
        slow.

        ``document_id`` orders by document, parent and position in the parent: parents and chunks without one come
        first. The ordinals of chunks are in this order (`assemble_all`), so both tables are read along their keys.
        """
        condition, filtered = mysql_condition(filters or Filters(), alias="g", chunk="c")
        values: dict[str, Any] = {
            "tenant": self._tenant_id,
            "namespace": namespace,
            "limit": offset + limit,
            **filtered,
        }
        exact = {"document_id": document_id, "chunk_type": chunk_type, "parent_id": parent_id}
        values |= {name: value for name, value in exact.items() if value is not None}
        values |= {} if source_id is None else {"source_id": source_id}
        values |= {} if enabled is None else {"enabled": int(enabled)}
        values |= {f"p{index}": value for index, value in enumerate(after or ())}
        rows = self._connection.execute(text(_statement(_OWNED, 1, order_by, condition, values)), values).mappings()
        chunks = [owned_chunk(self._tenant_id, row) for row in rows]
        if parent_id is None and chunk_type in (None, "parent"):
            named = {name: value for name, value in values.items() if name != "chunk_type"}
            statement = _statement(_OWNED_PARENTS, 0, order_by, condition, named)
            rows = self._connection.execute(text(statement), named).mappings()
            chunks += [owned_parent(self._tenant_id, row) for row in rows]
        chunks.sort(
            key=lambda chunk: chunk.place if order_by == "document_id" else (chunk.updated_at, *chunk.place),
            reverse=order_by == "-updated_at",
        )
        return chunks[offset : offset + limit]

    def named(self, chunk_ids: Sequence[ChunkId]) -> dict[ChunkId, OwnedChunk]:
        """Return those of these chunks and parents that belong to a published generation of this tenant."""
        if not chunk_ids:
            return {}
        values = {"tenant": self._tenant_id, "ids": list(chunk_ids)}
        rows = self._connection.execute(_NAMED, values).mappings()
        chunks = {chunk.chunk_id: chunk for chunk in (owned_chunk(self._tenant_id, row) for row in rows)}
        if len(chunks) < len(chunk_ids):
            rows = self._connection.execute(_NAMED_PARENTS, values).mappings()
            chunks |= {chunk.chunk_id: chunk for chunk in (owned_parent(self._tenant_id, row) for row in rows)}
        return chunks

    def lock(self, namespace: Namespace, document_ids: Sequence[DocumentId]) -> None:
        """Lock these documents, in key order, against publishing and changes until the transaction ends."""
        self._run(_LOCK, namespace=namespace, ids=sorted(set(document_ids))).all()

    def beside(self, chunk: OwnedChunk) -> list[tuple[ChunkId, Passage]]:
        """Return the chunks of the same document that overlap a chunk by their offsets."""
        passage = chunk.passage
        values = {**generation_key(chunk.generation), "id": chunk.chunk_id, "start": passage.start, "end": passage.end}
        values |= {"first": max(0, chunk.ordinal - _MOST_BESIDE), "last": chunk.ordinal + _MOST_BESIDE}
        return [
            (
                ChunkId(row.chunk_id),
                Passage(text=row.text, start=row.start_offset, end=row.end_offset, token_count=row.token_count),
            )
            for row in self._connection.execute(_BESIDE, values)
        ]

    def rewrite(self, chunk: Chunk) -> None:
        """Replace text, terms and hash of an existing chunk; its position in the document stays."""
        self._run(
            _REWRITE,
            id=chunk.chunk_id,
            text=chunk.passage.text,
            reworded=int(chunk.passage.reworded),
            tokens=chunk.passage.token_count,
            hash=chunk.content_hash,
            terms=" ".join(chunk.terms),
            count=len(chunk.terms),
            title=chunk.field_terms.title,
            summary=chunk.field_terms.summary,
            names=chunk.field_terms.entity_names,
            now=now(),
        )

    def switch(self, chunk_ids: Sequence[ChunkId], *, enabled: bool) -> None:
        """Enable or disable these chunks."""
        if chunk_ids:
            self._run(_SWITCH, ids=list(chunk_ids), enabled=int(enabled), now=now())

    def differs(self, generation: Generation) -> None:
        """Note that the chunks differ from those of the bytes, so that uploading the same bytes counts as a change."""
        self._connection.execute(_DIFFERS, generation_key(generation))

    def remove(self, generation: Generation, ordinals: Sequence[int]) -> int:
        """Delete exactly these chunks of a generation and note that they are not missing. Return how many are left."""
        key = generation_key(generation)
        if ordinals:
            self._connection.execute(_REMOVE, {**key, "ordinals": list(ordinals)})
        left = int(self._connection.execute(_LEFT, key).scalar_one())
        column = self._connection.execute(_REMOVED, key).scalar_one_or_none()
        removed = sorted({*(json.loads(column) if column else ()), *ordinals})
        self._connection.execute(_RECOUNT, {**key, "count": left, "removed": to_json(removed)})
        return left

    def ordinals(self, generation: Generation) -> tuple[set[int], set[int]]:
        """Return the ordinals of a generation's chunks, and those deleted by hand."""
        key = generation_key(generation)
        there = set(self._connection.execute(_ORDINALS, key).scalars())
        removed = self._connection.execute(_REMOVED, key).scalar_one_or_none()
        return there, set(json.loads(removed) if removed else ())

    def unpublish(self, generation: Generation) -> None:
        """Hide this document until its pending upload is published."""
        self._connection.execute(_UNPUBLISH, {**generation_key(generation), "now": now()})


def _statement(start: str, tier: int, order_by: ChunkOrder, condition: str, values: Mapping[str, Any]) -> str:
    order, beyond = _ORDERS[order_by]
    clauses = ["c.namespace = :namespace", condition]
    clauses += [f"c.{name} = :{name}" for name in ("document_id", "chunk_type", "parent_id") if name in values]
    if "source_id" in values:
        clauses.append("g.source_id = :source_id")
    if "enabled" in values:
        clauses.append(f"{'c.enabled' if tier else _ANY_CHILD} = :enabled")
    if "p0" in values:
        clauses.append(beyond.format(tier=tier))
    return f"{start} AND {' AND '.join(clauses)} ORDER BY {order} LIMIT :limit"


_ANY_CHILD = (
    "EXISTS (SELECT 1 FROM chunks k WHERE k.tenant_id = c.tenant_id AND k.namespace = c.namespace"
    " AND k.document_id = c.document_id AND k.generation = c.generation AND k.parent_id = c.chunk_id AND k.enabled = 1)"
)
_OWNED = (
    f"SELECT {COLUMNS}, c.terms, c.title_terms, c.summary_terms, c.entity_terms, c.content_hash,"
    " c.enabled, c.reworded, c.chunk_type, c.parent_id, c.chunk_index, c.segment"
    f" FROM chunks c{JOINED}"
)
_OWNED_PARENTS = (
    f"SELECT {COLUMNS}, {_ANY_CHILD} AS enabled, c.edited_at IS NOT NULL AS reworded FROM parent_chunks c{JOINED}"
)

_NAMED = text(_OWNED + " AND c.chunk_id IN :ids").bindparams(bindparam("ids", expanding=True))
_NAMED_PARENTS = text(_OWNED_PARENTS + " AND c.chunk_id IN :ids").bindparams(bindparam("ids", expanding=True))

_LOCK = text(
    "SELECT document_id FROM documents WHERE tenant_id = :tenant AND namespace = :namespace AND document_id IN :ids"
    " ORDER BY document_id FOR UPDATE"
).bindparams(bindparam("ids", expanding=True))

_REWRITE = text(
    "UPDATE chunks SET text = :text, token_count = :tokens, content_hash = :hash, terms = :terms, term_count = :count,"
    " reworded = :reworded, title_terms = :title, summary_terms = :summary, entity_terms = :names,"
    " version = version + 1, edited_at = :now WHERE tenant_id = :tenant AND chunk_id = :id"
)

_SWITCH = text(
    "UPDATE chunks SET enabled = :enabled, version = version + 1, edited_at = :now"
    " WHERE tenant_id = :tenant AND chunk_id IN :ids"
).bindparams(bindparam("ids", expanding=True))

_OF_GENERATION = (
    " WHERE tenant_id = :tenant AND namespace = :namespace AND document_id = :document AND generation = :generation"
)
_REMOVE = text(f"DELETE FROM chunks{_OF_GENERATION} AND ordinal IN :ordinals").bindparams(
    bindparam("ordinals", expanding=True)
)
_ORDINALS = text(f"SELECT ordinal FROM chunks{_OF_GENERATION}")
_LEFT = text(f"SELECT COUNT(*) FROM chunks{_OF_GENERATION}")
_REMOVED = text(f"SELECT removed_ordinals FROM generations{_OF_GENERATION}")
_RECOUNT = text(
    f"UPDATE generations SET chunk_count = :count, removed_ordinals = :removed, recipe = NULL{_OF_GENERATION}"
)
_MOST_BESIDE = 3  # chunks before and after one that may overlap it
_BESIDE = text(
    f"SELECT chunk_id, text, start_offset, end_offset, token_count FROM chunks{_OF_GENERATION}"
    " AND ordinal BETWEEN :first AND :last"
    " AND start_offset < :end AND end_offset > :start AND chunk_id <> :id ORDER BY ordinal"
)
_DIFFERS = text(f"UPDATE generations SET recipe = NULL{_OF_GENERATION}")

_UNPUBLISH = text(
    "UPDATE documents SET published_generation = NULL, updated_at = :now"
    " WHERE tenant_id = :tenant AND namespace = :namespace AND document_id = :document"
    " AND published_generation = :generation"
)
