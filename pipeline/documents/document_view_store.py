"""Documents as their owner sees them."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from pipeline.database.rows import TenantStore, chunking_of, record_of
from pipeline.database.statements import same_document
from pipeline.documents.document_store import encoding_of, fields_of
from pipeline.documents.document_views import DocumentStatus, DocumentView
from pipeline.documents.duplicate_store import Duplicates, duplicate_of
from pipeline.documents.outcome_store import STATUS, WORKED_ON
from pipeline.records import DocumentId, Namespace
from pipeline.tenants.quota_store import ALIVE


class DocumentViews(TenantStore):
    """One tenant's documents, for reading."""

    def view(self, namespace: Namespace, document_id: DocumentId) -> DocumentView | None:
        """Return the document as its owner sees it, or None."""
        where = "AND d.namespace = :namespace AND d.document_id = :document"
        rows = self._views(where, {"namespace": namespace, "document": document_id}, limit=1)
        return rows[0] if rows else None

    def views(
        self,
        *,
        namespace: Namespace | None,
        status: DocumentStatus | None = None,
        source_id: str | None = None,
        after: tuple[str, str] | None,
        limit: int,
    ) -> list[DocumentView]:
        """Return documents by namespace and id after the pair: with ``status``, else all searchable or under way;
        ``source_id``: of one source."""
        clauses = {
            "AND d.namespace = :namespace": namespace,
            "AND g.source_id = :source": source_id,
            "AND (d.namespace > :after_namespace OR (d.namespace = :after_namespace AND d.document_id > :after_id))": after,
        }
        where = f"AND {ALIVE.format(d='d.')}" if status is None else f"AND {STATUS} = :status"
        where = " ".join([where, *(clause for clause, value in clauses.items() if value is not None)])
        after_namespace, after_id = after or (None, None)
        values = {"status": status, "namespace": namespace, "source": source_id}
        return self._views(where, {**values, "after_namespace": after_namespace, "after_id": after_id}, limit=limit)

    def _views(self, where: str, values: dict[str, Any], *, limit: int) -> list[DocumentView]:
        rows = self._run(_VIEWS.format(where=where), limit=limit, **values).mappings().all()
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


# A document whose first generation is still on its way is shown with the fields of the upload.
_VIEWS = (
    f"SELECT d.namespace, d.document_id, {STATUS} AS status, d.published_generation AS generation, d.created_at,"
    " d.updated_at, g.title, g.author, g.type, g.tags, g.published_at, g.story_time, g.metadata, g.media_type,"
    " COALESCE(g.source_uri, s.uri) AS source_uri, g.chunk_count, g.encoding, g.source_id,"
    " COALESCE(s.kind, 'text') AS source_kind, g.page_start, g.page_end, g.chunking, g.content_hash FROM documents d"
    f" JOIN generations g ON {same_document('g', 'd')}"
    " AND g.generation = COALESCE(d.published_generation, d.latest_generation)"
    " LEFT JOIN sources s ON s.tenant_id = g.tenant_id AND s.namespace = g.namespace AND s.source_id = g.source_id"
    f" {WORKED_ON} WHERE d.tenant_id = :tenant AND d.latest_generation > d.deleted_generation {{where}}"
    " ORDER BY d.namespace, d.document_id LIMIT :limit"
)
