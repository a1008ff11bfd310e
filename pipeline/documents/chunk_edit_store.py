"""List and change chunks of published generations for their owner, enabled or not."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import text

from pipeline.database.rows import TenantStore, generation_key, now, record_of, to_json
from pipeline.database.statements import OF_DOCUMENT, OF_DOCUMENTS, OF_GENERATION, same_generation, sql
from pipeline.documents.document_views import ChunkOrder, OwnedChunk
from pipeline.documents.owned_chunk_store import CHUNK_COLUMNS, COLUMNS, JOINED, owned_chunk, owned_parent
from pipeline.filters.python_filters import unmet
from pipeline.filters.sql_filters import mysql_condition
from pipeline.records import Chunk, ChunkId, DocumentId, Filters, Generation, Namespace, Passage

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
        first. The ordinals of chunks are in this order (`assembled`), so both tables are read along their keys.
        """
        wanted = replace(filters or Filters(), story_time=None)  # `OwnedChunk.fields` are the document's
        chunks: list[OwnedChunk] = []
        exact = {"document_id": document_id, "source_id": source_id, "chunk_type": chunk_type, "parent_id": parent_id}
        while True:
            read = self._selected(namespace, exact, enabled, filters or Filters(), order_by, after, offset + limit)
            chunks += (chunk for chunk in read if unmet(wanted, chunk.fields) is None)
            if len(read) < offset + limit or len(chunks) >= offset + limit:
                return chunks[offset : offset + limit]
            last, after = read[-1], read[-1].position
            after = after if order_by == "document_id" else (last.updated_at.replace(tzinfo=None), *after)

    def _selected(
        self,
        namespace: Namespace,
        exact: Mapping[str, str | None],
        enabled: bool | None,
        filters: Filters,
        order_by: ChunkOrder,
        after: Position | None,
        limit: int,
    ) -> list[OwnedChunk]:
        condition, values = mysql_condition(filters, alias="g", chunk="c")
        values |= {name: value for name, value in exact.items() if value is not None}
        values |= {} if enabled is None else {"enabled": int(enabled)}
        values |= {f"p{index}": value for index, value in enumerate(after or ())}
        values |= {"namespace": namespace, "limit": limit}
        rows = self._run(text(_statement(_OWNED, 1, order_by, condition, values)), **values).mappings()
        chunks = [owned_chunk(self._tenant_id, row) for row in rows]
        if exact["parent_id"] is None and exact["chunk_type"] in (None, "parent"):
            values.pop("chunk_type", None)
            rows = self._run(text(_statement(_OWNED_PARENTS, 0, order_by, condition, values)), **values).mappings()
            chunks += [owned_parent(self._tenant_id, row) for row in rows]
        chunks.sort(
            key=lambda chunk: chunk.position if order_by == "document_id" else (chunk.updated_at, *chunk.position),
            reverse=order_by == "-updated_at",
        )
        return chunks[:limit]

    def named(self, chunk_ids: Sequence[ChunkId]) -> dict[ChunkId, OwnedChunk]:
        """Return those of these chunks and parents that belong to a published generation of this tenant."""
        if not chunk_ids:
            return {}
        chunks = [owned_chunk(self._tenant_id, row) for row in self._run(_NAMED, ids=list(chunk_ids)).mappings()]
        if len(chunks) < len(chunk_ids):
            rows = self._run(_NAMED_PARENTS, ids=list(chunk_ids)).mappings()
            chunks += [owned_parent(self._tenant_id, row) for row in rows]
        return {chunk.chunk_id: chunk for chunk in chunks}

    def lock(self, namespace: Namespace, document_ids: Sequence[DocumentId]) -> None:
        """Lock these documents, in key order, against publishing and changes until the transaction ends."""
        self._run(_LOCK, namespace=namespace, ids=sorted(set(document_ids))).all()

    def overlapping(self, chunk: OwnedChunk) -> list[tuple[ChunkId, Passage]]:
        """Return the chunks of the same document that overlap a chunk by their offsets."""
        passage = chunk.passage
        values = {**generation_key(chunk.generation), "id": chunk.chunk_id, "start": passage.start, "end": passage.end}
        values |= {"first": max(0, chunk.ordinal - _MOST_OVERLAPPING), "last": chunk.ordinal + _MOST_OVERLAPPING}
        rows = self._connection.execute(_OVERLAPPING, values)
        return [(row.chunk_id, record_of(Passage, row, start=row.start_offset, end=row.end_offset)) for row in rows]

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

    def forget_recipe(self, generation: Generation) -> None:
        """Record that the chunks differ from those of the bytes, so that uploading the same bytes counts as a change."""
        self._connection.execute(_FORGET_RECIPE, generation_key(generation))

    def remove(self, generation: Generation, ordinals: Sequence[int]) -> int:
        """Delete exactly these chunks of a generation and record that they are not missing. Return how many remain."""
        key = generation_key(generation)
        if ordinals:
            self._connection.execute(_REMOVE, {**key, "ordinals": list(ordinals)})
        remaining, removed = self.ordinals(generation)
        values = {"count": len(remaining), "removed": to_json(sorted({*removed, *ordinals}))}
        self._connection.execute(_RECOUNT, {**key, **values})
        return len(remaining)

    def ordinals(self, generation: Generation) -> tuple[set[int], set[int]]:
        """Return the ordinals of a generation's chunks, and those deleted by hand."""
        key = generation_key(generation)
        ordinals = set(self._connection.execute(_ORDINALS, key).scalars())
        removed = self._connection.execute(_REMOVED, key).scalar_one_or_none()
        return ordinals, set(json.loads(removed) if removed else ())

    def unpublish(self, generation: Generation) -> None:
        """Hide this document until its pending upload is published."""
        self._connection.execute(_UNPUBLISH, {**generation_key(generation), "now": now()})


def _statement(start: str, tier: int, order_by: ChunkOrder, condition: str, values: Mapping[str, Any]) -> str:
    order, beyond = _ORDERS[order_by]
    optional = {
        **{name: f"c.{name} = :{name}" for name in ("document_id", "chunk_type", "parent_id")},
        "source_id": "g.source_id = :source_id",
        "enabled": f"{'c.enabled' if tier else _ANY_CHILD} = :enabled",
        "p0": beyond.format(tier=tier),
    }
    clauses = ["c.namespace = :namespace", condition, *(optional[name] for name in optional if name in values)]
    return f"{start} AND {' AND '.join(clauses)} ORDER BY {order} LIMIT :limit"


_ANY_CHILD = (
    f"EXISTS (SELECT 1 FROM chunks k WHERE {same_generation('k', 'c')} AND k.parent_id = c.chunk_id AND k.enabled = 1)"
)
_OWNED = f"SELECT {COLUMNS}, {CHUNK_COLUMNS} FROM chunks c{JOINED}"
_OWNED_PARENTS = (
    f"SELECT {COLUMNS}, {_ANY_CHILD} AS enabled, c.edited_at IS NOT NULL AS reworded FROM parent_chunks c{JOINED}"
)

_NAMED = sql(_OWNED + " AND c.chunk_id IN :ids")
_NAMED_PARENTS = sql(_OWNED_PARENTS + " AND c.chunk_id IN :ids")

_LOCK = sql(f"SELECT document_id FROM documents WHERE {OF_DOCUMENTS} ORDER BY document_id FOR UPDATE")

_REWRITE = sql(
    "UPDATE chunks SET text = :text, token_count = :tokens, content_hash = :hash, terms = :terms, term_count = :count,"
    " reworded = :reworded, title_terms = :title, summary_terms = :summary, entity_terms = :names,"
    " version = version + 1, edited_at = :now WHERE tenant_id = :tenant AND chunk_id = :id"
)

_SWITCH = sql(
    "UPDATE chunks SET enabled = :enabled, version = version + 1, edited_at = :now"
    " WHERE tenant_id = :tenant AND chunk_id IN :ids"
)


_REMOVE = sql(f"DELETE FROM chunks WHERE {OF_GENERATION} AND ordinal IN :ordinals")
_ORDINALS = sql(f"SELECT ordinal FROM chunks WHERE {OF_GENERATION}")
_REMOVED = sql(f"SELECT removed_ordinals FROM generations WHERE {OF_GENERATION}")
_RECOUNT = sql(
    f"UPDATE generations SET chunk_count = :count, removed_ordinals = :removed, recipe = NULL WHERE {OF_GENERATION}"
)
_MOST_OVERLAPPING = 3  # chunks before and after one that may overlap it
_OVERLAPPING = sql(
    f"SELECT chunk_id, text, start_offset, end_offset, token_count FROM chunks WHERE {OF_GENERATION}"
    " AND ordinal BETWEEN :first AND :last"
    " AND start_offset < :end AND end_offset > :start AND chunk_id <> :id ORDER BY ordinal"
)
_FORGET_RECIPE = sql(f"UPDATE generations SET recipe = NULL WHERE {OF_GENERATION}")

_UNPUBLISH = sql(
    f"UPDATE documents SET published_generation = NULL, updated_at = :now WHERE {OF_DOCUMENT}"
    " AND published_generation = :generation"
)
