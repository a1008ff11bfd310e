"""Documents and their sources as their owner sees them; sources are counted from their documents on each read."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from chordwise.contract.chunk import ChunkPosition
from chordwise.contract.source import SourceInfo
from pipeline.database.mysql_tables import followed_sources, generations
from pipeline.database.rows import TenantStore, as_utc, chunking_of, generation_key, record_of
from pipeline.database.statements import OF_DOCUMENTS, OF_GENERATION, columns, same_document, sql
from pipeline.document_sources import SourceKind
from pipeline.documents.document_store import encoding_of, fields_of
from pipeline.documents.document_views import DocumentOrder, DocumentSelection, DocumentView
from pipeline.documents.duplicate_store import Duplicates, duplicate_of, is_duplicate
from pipeline.documents.followed_store import followed_of
from pipeline.documents.outcome_store import STATUS, WORKED_ON
from pipeline.filters.python_filters import unmet
from pipeline.filters.readers import Principals, may_read, readers_filter
from pipeline.filters.sql_filters import mysql_condition
from pipeline.records import DocumentFields, DocumentId, Filters, Generation, Namespace
from pipeline.tenants.quota_store import ALIVE


class DocumentViews(TenantStore):
    """One tenant's documents, for reading."""

    def view(self, namespace: Namespace, document_id: DocumentId, *, reads_as: Principals) -> DocumentView | None:
        """Return the document as its owner sees it, or None; for a caller with the principals ``reads_as``, here and below."""
        where = "AND d.namespace = :namespace AND d.document_id = :document"
        rows = self._views(where, {"namespace": namespace, "document": document_id}, reads_as=reads_as, limit=1)
        return rows[0] if rows and may_read(rows[0].fields.readers, reads_as) else None

    def views(
        self, selection: DocumentSelection, *, reads_as: Principals, after: tuple[str, ...] | None = None, limit: int
    ) -> list[DocumentView]:
        """Return documents in the order of the selection, those after a `DocumentView.position`."""
        filters = replace(selection.filters or Filters(), readers=readers_filter(reads_as))
        selection, views = replace(selection, filters=filters), list[DocumentView]()
        while True:
            read = self._selected(selection, reads_as, after=after, limit=limit)
            views += (view for view in read if _is_wanted(view, selection, filters))
            if len(read) < limit or len(views) >= limit:
                return views[:limit]
            after = read[-1].position(selection.order_by)

    def _selected(
        self, selection: DocumentSelection, reads_as: Principals, *, after: tuple[str, ...] | None, limit: int
    ) -> list[DocumentView]:
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
        return self._views(f"AND {' AND '.join(parts)}", values, reads_as=reads_as, order=order, limit=limit)

    def spans(self, generation: Generation) -> list[ChunkPosition]:
        """Return the positions of a generation's searched chunks, by ordinal."""
        rows = self._connection.execute(_SPANS, generation_key(generation))
        return [record_of(ChunkPosition, row, enabled=bool(row.enabled), edited=bool(row.edited)) for row in rows]

    def parent_count(self, generation: Generation) -> int:
        """Return the number of parents, which precede the searched chunks in lists."""
        return int(self._connection.execute(_PARENTS, generation_key(generation)).scalar_one())

    def fields(
        self, namespace: Namespace, *, reads_as: Principals, after: str, limit: int
    ) -> list[tuple[str, DocumentFields]]:
        """Return the ids and fields of published documents after the id ``after``, in order of id."""
        readable, values = mysql_condition(Filters(readers=readers_filter(reads_as)), alias="g", chunk="g")
        statement = _FIELDS.format(readable=readable)
        rows = self._run(statement, namespace=namespace, after=after, limit=limit, **values).mappings()
        return [(row["document_id"], fields_of(row)) for row in rows]

    def _views(
        self, where: str, values: dict[str, Any], *, reads_as: Principals, order: str = "", limit: int
    ) -> list[DocumentView]:
        rows = self._run(_VIEWS.format(where=where, order=order), limit=limit, **values).mappings().all()
        duplicates = Duplicates(self._connection, self._tenant_id)
        hashes: defaultdict[str, set[bytes]] = defaultdict(set)
        for row in rows:
            hashes[row["namespace"]].add(row["content_hash"])
        originals = {
            namespace: duplicates.originals(namespace, digests, reads_as=reads_as)
            for namespace, digests in hashes.items()
        }
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
    f" d.updated_at, {columns(generations, DocumentFields, 'g')}, g.media_type,"
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
    f"SELECT d.document_id, {columns(generations, DocumentFields, 'g')} FROM documents d"
    f" JOIN generations g ON {same_document('g', 'd')} AND g.generation = d.published_generation"
    " WHERE d.tenant_id = :tenant AND d.namespace = :namespace AND d.document_id > :after AND {readable}"
    " ORDER BY d.document_id LIMIT :limit"
)


def _is_wanted(view: DocumentView, selection: DocumentSelection, filters: Filters) -> bool:
    """Return whether a document meets the filters; of duplicates, whether the caller sees the original too."""
    return unmet(filters, view.fields) is None and not (selection.duplicates and view.duplicate_of is None)


STATUSES = ("queued", "running", "succeeded", "failed", "cancelled")


class SourceViews(TenantStore):
    """One tenant's sources. A document belongs to the source of its shown generation, else of its latest upload."""

    def page(
        self,
        namespace: Namespace,
        *,
        kind: SourceKind | None = None,
        followed: bool | None = None,
        after: str = "",
        limit: int,
    ) -> list[SourceInfo]:
        """Return sources that are followed, or have a document that is searchable or on its way, by id, those after the given
        one. ``followed``: only those that are, or that are not."""
        only = "" if kind is None else " AND s.kind = :kind"
        only += {None: "", True: " AND f.url IS NOT NULL", False: " AND f.url IS NULL"}[followed]
        statement = _PAGE.format(only=only)
        rows = self._run(statement, namespace=namespace, kind=kind and kind.value, after=after, limit=limit)
        return self._viewed(namespace, rows.all())

    def one(self, namespace: Namespace, source_id: str) -> SourceInfo | None:
        """Return the source, or None if it is not followed and has no document; one whose upload failed or was cancelled
        counts."""
        sources = self._viewed(namespace, self._run(_ONE, namespace=namespace, id=source_id).all())
        return sources[0] if sources and (sources[0].documents or sources[0].followed) else None

    def documents(
        self,
        namespace: Namespace,
        source_id: str,
        *,
        after: str = "",
        among: Sequence[DocumentId] | None = None,
        limit: int,
    ) -> list[DocumentId]:
        """Return ids of the source's documents that are not deleted, in order, those after the given one."""
        statement = _DOCUMENTS.format(among="" if among is None else " AND g.document_id IN :ids")
        values = {"namespace": namespace, "id": source_id, "after": after, "limit": limit, "ids": list(among or ())}
        return list(self._run(statement, **values).scalars())

    def lock(self, namespace: Namespace, document_ids: Sequence[DocumentId]) -> None:
        """Lock these documents in key order against accepting, publishing and deleting until the transaction ends."""
        self._run(_LOCK, namespace=namespace, ids=sorted(document_ids)).all()

    def _viewed(self, namespace: Namespace, rows: Sequence[Any]) -> list[SourceInfo]:
        if not rows:
            return []
        counts: defaultdict[str, list[Any]] = defaultdict(list)
        for count in self._run(_COUNTS, namespace=namespace, ids=[row.source_id for row in rows]):
            counts[count.source_id].append(count)
        return [_view(namespace, row, counts[row.source_id]) for row in rows]


def _view(namespace: Namespace, row: Any, counts: Sequence[Any]) -> SourceInfo:
    statuses = dict.fromkeys(STATUSES, 0) | {count.status: int(count.documents) for count in counts}
    encodings = {name for count in counts for name in (count.first_encoding, count.last_encoding)}
    pages = [count for count in counts if count.page_start is not None]
    return record_of(
        SourceInfo,
        row,
        namespace=namespace,
        encoding=encodings.pop() if len(encodings) == 1 else None,
        page_start=min((count.page_start for count in pages), default=None),
        page_end=max((count.page_end for count in pages), default=None),
        documents=sum(statuses.values()),
        statuses=statuses,
        chunks=int(sum(count.chunks or 0 for count in counts)),
        followed=None if row.url is None else followed_of(row._mapping),
        updated_at=as_utc(max((count.updated_at for count in counts), default=row.created_at)),
    )


# Along the index of sources first: a namespace may have many documents, and most of them another source.
_BELONGING = (
    f"generations g FORCE INDEX (generations_by_source) STRAIGHT_JOIN documents d ON {same_document('d', 'g')}"
    " AND COALESCE(d.published_generation, d.latest_generation) = g.generation"
    " AND d.latest_generation > d.deleted_generation"
)
_SHOWN_OF_FOLLOWED = ("url", "every_s", "rules", "secret", "next_run_at", "held_removals", "job_id", "run")
_FOLLOWED = ", ".join(f"f.{column.name}" for column in followed_sources.c if column.name in _SHOWN_OF_FOLLOWED)
_ROW = (
    f"SELECT {_FOLLOWED}, s.source_id, s.kind, s.uri, s.media_type, s.created_at FROM sources s"
    " LEFT JOIN followed_sources f ON f.tenant_id = s.tenant_id AND f.namespace = s.namespace AND f.source_id = s.source_id"
)
_THERE = " WHERE s.tenant_id = :tenant AND s.namespace = :namespace"
# Not EXISTS, which MariaDB turns into a join over all documents before it takes the first few sources.
_PAGE = (
    f"{_ROW}{_THERE} AND s.source_id > :after{{only}} AND (f.url IS NOT NULL OR COALESCE((SELECT 1 FROM {_BELONGING}"
    f" WHERE g.tenant_id = s.tenant_id AND g.namespace = s.namespace AND g.source_id = s.source_id"
    f" AND {ALIVE.format(d='d.')} LIMIT 1), 0) = 1) ORDER BY s.source_id LIMIT :limit"
)
_ONE = sql(f"{_ROW}{_THERE} AND s.source_id = :id")

_ENCODING = "JSON_UNQUOTE(JSON_EXTRACT(g.encoding, '$.name'))"
_COUNTS = sql(
    f"SELECT g.source_id, {STATUS} AS status, COUNT(*) AS documents,"
    " SUM(IF(d.published_generation IS NULL, 0, g.chunk_count)) AS chunks,"
    f" MIN({_ENCODING}) AS first_encoding, MAX({_ENCODING}) AS last_encoding,"
    " MIN(g.page_start) AS page_start, MAX(g.page_end) AS page_end, MAX(d.updated_at) AS updated_at"
    f" FROM {_BELONGING} {WORKED_ON}"
    " WHERE g.tenant_id = :tenant AND g.namespace = :namespace AND g.source_id IN :ids GROUP BY g.source_id, status"
)

_DOCUMENTS = (
    f"SELECT g.document_id FROM {_BELONGING} WHERE g.tenant_id = :tenant AND g.namespace = :namespace"
    " AND g.source_id = :id AND g.document_id > :after{among} ORDER BY g.document_id LIMIT :limit"
)

_LOCK = sql(f"SELECT document_id FROM documents WHERE {OF_DOCUMENTS} ORDER BY document_id FOR UPDATE")
