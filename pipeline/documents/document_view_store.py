"""Documents as their owner sees them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import orjson

from pipeline.database.rows import TenantStore, as_utc, chunking_of, generation_key, metadata_of, record_of
from pipeline.database.statements import OF_GENERATION, same_document, sql
from pipeline.documents.document_store import encoding_of, fields_of
from pipeline.documents.document_views import ChunkSpan, DocumentOrder, DocumentSelection, DocumentView
from pipeline.documents.duplicate_store import Duplicates, duplicate_of, is_duplicate
from pipeline.documents.outcome_store import STATUS, WORKED_ON
from pipeline.filters.sql_filters import mysql_condition
from pipeline.filters.used_fields import FilteredFields
from pipeline.records import DocumentId, Filters, Generation, Namespace
from pipeline.tenants.quota_store import ALIVE


class DocumentViews(TenantStore):
    """One tenant's documents, for reading."""

    def view(self, namespace: Namespace, document_id: DocumentId) -> DocumentView | None:
        """Return the document as its owner sees it, or None."""
        where = "AND d.namespace = :namespace AND d.document_id = :document"
        rows = self._views(where, {"namespace": namespace, "document": document_id}, limit=1)
        return rows[0] if rows else None

    def views(
        self, selection: DocumentSelection, *, after: tuple[str, ...] | None = None, limit: int
    ) -> list[DocumentView]:
        """Return documents in the order of the selection, those after a `DocumentView.position`."""
        column, sign = _ORDERS[selection.order_by]
        parts = [ALIVE.format(d="d.") if selection.status is None else f"{STATUS} = :status"]
        matches, values = mysql_condition(selection.filters or Filters(), alias="g", chunk="g")
        clauses = {
            "d.namespace = :namespace": selection.namespace,
            "g.source_id = :source": selection.source_id,
            f"(d.document_id {_UNCASED} LIKE :contains ESCAPE '!'"
            f" OR g.title {_UNCASED} LIKE :contains ESCAPE '!')": selection.contains,
            matches: selection.filters,
            is_duplicate("d"): selection.duplicates or None,
            _after(column, sign): after,
        }
        parts += [clause for clause, value in clauses.items() if value is not None]
        values |= {"status": selection.status, "namespace": selection.namespace, "source": selection.source_id}
        values["contains"] = f"%{_LIKE.sub(_ESCAPED, selection.contains or '')}%"
        if after is not None:
            values |= dict(zip(("after", "after_namespace", "after_id"), ("", *after)[-3:], strict=True))
        order = "" if column is None else f"{column}{' DESC' if sign == '<' else ''}, "
        return self._views(f"AND {' AND '.join(parts)}", values, order=order, limit=limit)

    def spans(self, generation: Generation) -> list[ChunkSpan]:
        """Return the positions of a generation's searched chunks, by ordinal."""
        rows = self._connection.execute(_SPANS, generation_key(generation))
        return [record_of(ChunkSpan, row, enabled=bool(row.enabled), edited=bool(row.edited)) for row in rows]

    def parent_count(self, generation: Generation) -> int:
        """Return the number of parents, which precede the searched chunks in lists."""
        return int(self._connection.execute(_PARENTS, generation_key(generation)).scalar_one())

    def fields(self, namespace: Namespace, *, after: str, limit: int) -> list[tuple[str, FilteredFields]]:
        """Return the ids and fields of published documents after the id ``after``, in order of id."""
        rows = self._run(_FIELDS, namespace=namespace, after=after, limit=limit).mappings()
        return [
            (
                row["document_id"],
                FilteredFields(
                    type=row["type"],
                    author=row["author"],
                    tags=orjson.loads(row["tags"]),
                    published_at=as_utc(row["published_at"]),
                    story_time=row["story_time"],
                    metadata=metadata_of(row["metadata"]),
                ),
            )
            for row in rows
        ]

    def _views(self, where: str, values: dict[str, Any], *, order: str = "", limit: int) -> list[DocumentView]:
        rows = self._run(_VIEWS.format(where=where, order=order), limit=limit, **values).mappings().all()
        duplicates = Duplicates(self._connection, self._tenant_id)
        hashes: defaultdict[str, set[bytes]] = defaultdict(set)
        for row in rows:
            hashes[row["namespace"]].add(row["content_hash"])
        originals = {namespace: duplicates.originals(namespace, digests) for namespace, digests in hashes.items()}
        return [
            record_of(
                DocumentView,
                row,
                fields=fields_of(row),
                chunk_count=row["chunk_count"] or 0,
                encoding=encoding_of(row["encoding"]),
                chunking=chunking_of(row["chunking"]),
                duplicate_of=duplicate_of(row["document_id"], originals[row["namespace"]].get(row["content_hash"])),
            )
            for row in rows
        ]


_UNCASED = "COLLATE utf8mb4_unicode_520_ci"
_LIKE, _ESCAPED = re.compile("[%_!]"), r"!\g<0>"  # characters with a meaning in LIKE
_ORDERS: Mapping[DocumentOrder, tuple[str | None, str]] = {
    "document_id": (None, ">"),
    "title": (f"COALESCE(g.title, d.document_id) {_UNCASED}", ">"),
    "updated_at": ("d.updated_at", ">"),
    "-updated_at": ("d.updated_at", "<"),
}


def _after(column: str | None, sign: str) -> str:
    """Return the condition that a row follows a position in a list by this column, then namespace and id."""
    by_id = "(d.namespace > :after_namespace OR (d.namespace = :after_namespace AND d.document_id > :after_id))"
    return by_id if column is None else f"({column} {sign} :after OR ({column} = :after AND {by_id}))"


_SPANS = sql(
    "SELECT chunk_id, ordinal, start_offset AS start, end_offset AS end, page, page_end, enabled, reworded AS edited"
    f" FROM chunks WHERE {OF_GENERATION} ORDER BY ordinal"
)
_PARENTS = sql(f"SELECT COUNT(*) FROM parent_chunks WHERE {OF_GENERATION}")

# A document whose first generation is still on its way is shown with the fields of the upload.
_VIEWS = (
    f"SELECT d.namespace, d.document_id, {STATUS} AS status, d.published_generation AS generation, d.created_at,"
    " d.updated_at, g.title, g.author, g.type, g.tags, g.published_at, g.story_time, g.metadata, g.media_type,"
    " COALESCE(g.source_uri, s.uri) AS source_uri, g.chunk_count, g.encoding, g.source_id,"
    " COALESCE(s.kind, 'text') AS source_kind, g.page_start, g.page_end, g.body_bytes, g.chunking, g.content_hash"
    " FROM documents d"
    f" JOIN generations g ON {same_document('g', 'd')}"
    " AND g.generation = COALESCE(d.published_generation, d.latest_generation)"
    " LEFT JOIN sources s ON s.tenant_id = g.tenant_id AND s.namespace = g.namespace AND s.source_id = g.source_id"
    f" {WORKED_ON} WHERE d.tenant_id = :tenant AND d.latest_generation > d.deleted_generation {{where}}"
    " ORDER BY {order}d.namespace, d.document_id LIMIT :limit"
)

_FIELDS = (
    "SELECT d.document_id, g.author, g.type, g.tags, g.published_at, g.story_time, g.metadata FROM documents d"
    f" JOIN generations g ON {same_document('g', 'd')} AND g.generation = d.published_generation"
    " WHERE d.tenant_id = :tenant AND d.namespace = :namespace AND d.document_id > :after"
    " ORDER BY d.document_id LIMIT :limit"
)
