"""Sources as their owner sees them, counted from their documents on each read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from pipeline.database.rows import TenantStore, as_utc, record_of
from pipeline.database.statements import OF_DOCUMENTS, same_document, sql
from pipeline.document_sources import SourceKind
from pipeline.documents.document_views import SourceView
from pipeline.documents.outcome_store import STATUS, WORKED_ON
from pipeline.records import DocumentId, Namespace
from pipeline.tenants.quota_store import ALIVE

STATUSES = ("queued", "running", "succeeded", "failed", "cancelled")


class SourceViews(TenantStore):
    """One tenant's sources, for viewing. A document belongs to the source of its shown generation, else of its latest
    upload."""

    def page(
        self, namespace: Namespace, *, kind: SourceKind | None = None, after: str = "", limit: int
    ) -> list[SourceView]:
        """Return sources with a document that is searchable or on its way, by id, those after the given one."""
        statement = _PAGE.format(kind="" if kind is None else " AND s.kind = :kind")
        rows = self._run(statement, namespace=namespace, kind=kind and kind.value, after=after, limit=limit)
        return self._viewed(namespace, rows.all())

    def one(self, namespace: Namespace, source_id: str) -> SourceView | None:
        """Return the source, or None if it has no document; one whose upload failed or was cancelled counts."""
        sources = self._viewed(namespace, self._run(_ONE, namespace=namespace, id=source_id).all())
        return sources[0] if sources and sources[0].documents else None

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

    def _viewed(self, namespace: Namespace, rows: Sequence[Any]) -> list[SourceView]:
        if not rows:
            return []
        counts: defaultdict[str, list[Any]] = defaultdict(list)
        for count in self._run(_COUNTS, namespace=namespace, ids=[row.source_id for row in rows]):
            counts[count.source_id].append(count)
        return [_view(namespace, row, counts[row.source_id]) for row in rows]


def _view(namespace: Namespace, row: Any, counts: Sequence[Any]) -> SourceView:
    statuses = dict.fromkeys(STATUSES, 0) | {count.status: int(count.documents) for count in counts}
    encodings = {name for count in counts for name in (count.first_encoding, count.last_encoding)}
    pages = [count for count in counts if count.page_start is not None]
    return record_of(
        SourceView,
        row,
        namespace=namespace,
        encoding=encodings.pop() if len(encodings) == 1 else None,
        page_start=min((count.page_start for count in pages), default=None),
        page_end=max((count.page_end for count in pages), default=None),
        documents=sum(statuses.values()),
        statuses=statuses,
        chunks=int(sum(count.chunks or 0 for count in counts)),
        updated_at=as_utc(max((count.updated_at for count in counts), default=row.created_at)),
    )


# Along the index of sources first: a namespace may have many documents, and most of them another source.
_BELONGING = (
    f"generations g FORCE INDEX (generations_by_source) STRAIGHT_JOIN documents d ON {same_document('d', 'g')}"
    " AND COALESCE(d.published_generation, d.latest_generation) = g.generation"
    " AND d.latest_generation > d.deleted_generation"
)
_ROW = "SELECT s.source_id, s.kind, s.uri, s.media_type, s.created_at FROM sources s"
_THERE = " WHERE s.tenant_id = :tenant AND s.namespace = :namespace"
# Not EXISTS, which MariaDB turns into a join over all documents before it takes the first few sources.
_PAGE = (
    f"{_ROW}{_THERE} AND s.source_id > :after{{kind}} AND COALESCE((SELECT 1 FROM {_BELONGING}"
    f" WHERE g.tenant_id = s.tenant_id AND g.namespace = s.namespace AND g.source_id = s.source_id"
    f" AND {ALIVE.format(d='d.')} LIMIT 1), 0) = 1 ORDER BY s.source_id LIMIT :limit"
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
