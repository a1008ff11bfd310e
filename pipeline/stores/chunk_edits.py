"""Chunks as their owner sees and changes them: those of published generations, enabled or not."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import Connection, bindparam, text

from pipeline.records import (
    Chunk,
    ChunkId,
    DocumentFields,
    DocumentId,
    Generation,
    Namespace,
    Passage,
    Scope,
    TenantId,
)
from pipeline.stores.rows import as_utc, now, to_json

ChunkOrder = Literal["document_id", "updated_at", "-updated_at"]
Position = tuple[Any, ...]

_ORDERS: dict[ChunkOrder, tuple[str, str]] = {
    "document_id": ("c.document_id, c.ordinal", "(c.document_id, c.ordinal) > (:p0, :p1)"),
    "updated_at": (
        "changed_at, c.document_id, c.ordinal",
        "(COALESCE(c.edited_at, c.created_at), c.document_id, c.ordinal) > (:p0, :p1, :p2)",
    ),
    "-updated_at": (
        "changed_at DESC, c.document_id DESC, c.ordinal DESC",
        "(COALESCE(c.edited_at, c.created_at), c.document_id, c.ordinal) < (:p0, :p1, :p2)",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedChunk:
    """A chunk of a published generation with what editing needs to know. ``latest``: the newest generation accepted."""

    chunk_id: ChunkId
    generation: Generation
    ordinal: int
    passage: Passage
    fields: DocumentFields
    terms: tuple[str, ...]
    content_hash: bytes
    enabled: bool
    version: int
    updated_at: datetime
    latest: int

    @property
    def etag(self) -> str:
        """Another one after every change of this chunk."""
        return f'"{self.version}-{self.content_hash.hex()[:16]}"'


class ChunkEdits:
    """One tenant's chunks, for listing and changing. Changes belong into the transaction that locked their documents."""

    def __init__(self, connection: Connection, tenant_id: TenantId) -> None:
        self._connection = connection
        self._tenant_id = tenant_id

    def page(
        self,
        namespace: Namespace,
        *,
        document_id: DocumentId | None,
        enabled: bool | None,
        order_by: ChunkOrder,
        after: Position | None,
        limit: int,
    ) -> list[OwnedChunk]:
        """Published chunks of a namespace, or of one of its documents, in the order asked for."""
        order, beyond = _ORDERS[order_by]
        clauses = ["c.namespace = :namespace"]
        values: dict[str, Any] = {"tenant": self._tenant_id, "namespace": namespace, "limit": limit}
        if document_id is not None:
            clauses.append("c.document_id = :document")
            values["document"] = document_id
        if enabled is not None:
            clauses.append("c.enabled = :enabled")
            values["enabled"] = int(enabled)
        if after is not None:
            clauses.append(beyond)
            values |= {f"p{place}": value for place, value in enumerate(after)}
        statement = f"{_OWNED} AND {' AND '.join(clauses)} ORDER BY {order} LIMIT :limit"
        return [self._owned(row) for row in self._connection.execute(text(statement), values).mappings()]

    def named(self, chunk_ids: Sequence[ChunkId]) -> dict[ChunkId, OwnedChunk]:
        """Those of these that belong to a published generation of this tenant."""
        if not chunk_ids:
            return {}
        values = {"tenant": self._tenant_id, "ids": list(chunk_ids)}
        found = [self._owned(row) for row in self._connection.execute(_NAMED, values).mappings()]
        return {chunk.chunk_id: chunk for chunk in found}

    def lock(self, namespace: Namespace, document_ids: Sequence[DocumentId]) -> None:
        """Let nothing of these documents be published or changed until the transaction ends. In key order."""
        values = {"tenant": self._tenant_id, "namespace": namespace, "ids": sorted(set(document_ids))}
        self._connection.execute(_LOCK, values).all()

    def rewrite(self, chunk: Chunk) -> None:
        """Give an existing chunk the text, terms and hash of this one; its place in the document stays."""
        self._connection.execute(
            _REWRITE,
            {
                "tenant": self._tenant_id,
                "id": chunk.chunk_id,
                "text": chunk.passage.text,
                "tokens": chunk.passage.token_count,
                "hash": chunk.content_hash,
                "terms": " ".join(chunk.terms),
                "count": len(chunk.terms),
                "now": now(),
            },
        )

    def switch(self, chunk_ids: Sequence[ChunkId], *, enabled: bool) -> None:
        """Show or hide these."""
        if chunk_ids:
            values = {"tenant": self._tenant_id, "ids": list(chunk_ids), "enabled": int(enabled), "now": now()}
            self._connection.execute(_SWITCH, values)

    def differs(self, generation: Generation) -> None:
        """Note that these are not the chunks its bytes become: handing the same in again is a change from now on."""
        self._connection.execute(_DIFFERS, _key(generation))

    def remove(self, generation: Generation, ordinals: Sequence[int]) -> int:
        """Delete exactly these chunks of a generation, and remember that they are not missing. Gives how many are left."""
        key = _key(generation)
        if ordinals:
            self._connection.execute(_REMOVE, {**key, "ordinals": list(ordinals)})
        left = int(self._connection.execute(_LEFT, key).scalar_one())
        known = self._connection.execute(_REMOVED, key).scalar_one_or_none()
        removed = sorted({*(json.loads(known) if known else ()), *ordinals})
        self._connection.execute(_RECOUNT, {**key, "count": left, "removed": to_json(removed)})
        return left

    def ordinals(self, generation: Generation) -> tuple[set[int], set[int]]:
        """Which chunks of a generation are there, and which were deleted by hand."""
        key = _key(generation)
        there = set(self._connection.execute(_ORDINALS, key).scalars())
        removed = self._connection.execute(_REMOVED, key).scalar_one_or_none()
        return there, set(json.loads(removed) if removed else ())

    def unpublish(self, generation: Generation) -> None:
        """Show nothing of this document until the upload that is on its way is there."""
        self._connection.execute(_UNPUBLISH, {**_key(generation), "now": now()})

    def _owned(self, row: Mapping[Any, Any]) -> OwnedChunk:
        scope = Scope(tenant_id=self._tenant_id, namespace=Namespace(row["namespace"]))
        generation = Generation(scope=scope, document_id=DocumentId(row["document_id"]), number=row["generation"])
        return OwnedChunk(
            chunk_id=ChunkId(row["chunk_id"]),
            generation=generation,
            ordinal=row["ordinal"],
            passage=Passage(
                text=row["text"],
                start=row["start_offset"],
                end=row["end_offset"],
                token_count=row["token_count"],
                heading_path=tuple(json.loads(row["heading_path"])),
                page=row["page"],
            ),
            fields=DocumentFields(
                title=row["title"],
                author=row["author"],
                type=row["type"],
                tags=tuple(json.loads(row["tags"])),
                published_at=as_utc(row["published_at"]),
                story_time=row["story_time"],
                metadata=json.loads(row["metadata"]),
            ),
            terms=tuple(row["terms"].split()),
            content_hash=bytes(row["content_hash"]),
            enabled=bool(row["enabled"]),
            version=row["version"],
            updated_at=as_utc(row["changed_at"]) or now(),
            latest=row["latest_generation"],
        )


_OWNED = (
    "SELECT c.chunk_id, c.namespace, c.document_id, c.generation, c.ordinal, c.text, c.heading_path, c.page,"
    " c.start_offset, c.end_offset, c.token_count, c.terms, c.content_hash, c.enabled, c.version,"
    " COALESCE(c.edited_at, c.created_at) AS changed_at, g.title, g.author, g.type, g.tags,"
    " g.published_at, g.story_time, g.metadata,"
    # An upload that was found to be what is shown is not on its way any more.
    " IF(d.latest_generation > d.settled_generation, d.latest_generation, c.generation) AS latest_generation"
    " FROM chunks c"
    " JOIN documents d ON d.tenant_id = c.tenant_id AND d.namespace = c.namespace AND d.document_id = c.document_id"
    " AND d.published_generation = c.generation"
    " JOIN generations g ON g.tenant_id = c.tenant_id AND g.namespace = c.namespace AND g.document_id = c.document_id"
    " AND g.generation = c.generation"
    " WHERE c.tenant_id = :tenant"
)

_NAMED = text(_OWNED + " AND c.chunk_id IN :ids").bindparams(bindparam("ids", expanding=True))

_LOCK = text(
    "SELECT document_id FROM documents WHERE tenant_id = :tenant AND namespace = :namespace AND document_id IN :ids"
    " ORDER BY document_id FOR UPDATE"
).bindparams(bindparam("ids", expanding=True))

_REWRITE = text(
    "UPDATE chunks SET text = :text, token_count = :tokens, content_hash = :hash, terms = :terms, term_count = :count,"
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
_DIFFERS = text(f"UPDATE generations SET recipe = NULL{_OF_GENERATION}")

_UNPUBLISH = text(
    "UPDATE documents SET published_generation = NULL, updated_at = :now"
    " WHERE tenant_id = :tenant AND namespace = :namespace AND document_id = :document"
    " AND published_generation = :generation"
)


def _key(generation: Generation) -> dict[str, Any]:
    return {
        "tenant": generation.scope.tenant_id,
        "namespace": generation.scope.namespace,
        "document": generation.document_id,
        "generation": generation.number,
    }
