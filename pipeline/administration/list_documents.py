"""Documents with their generations, the sources they came from, and namespaces: what a tenant has, page by page."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.database.unit_of_work import unit_of_work
from pipeline.document_sources import SourceKind
from pipeline.documents.document_view_store import DocumentViews
from pipeline.documents.document_views import DocumentStatus, DocumentView, History, SourceView
from pipeline.documents.generation_store import Generations
from pipeline.documents.source_view_store import SourceViews
from pipeline.records import DocumentId, Namespace, TenantId
from pipeline.resources import Resources
from pipeline.tenants.accounts import NamespaceView
from pipeline.tenants.namespace_store import Namespaces


def list_documents(
    tenant_id: TenantId,
    use: Resources,
    *,
    namespace: Namespace | None,
    status: DocumentStatus | None = None,
    source_id: str | None = None,
    after: tuple[str, str] | None = None,
    limit: int,
) -> list[DocumentView]:
    """Return documents after the (namespace, document_id) cursor: those with ``status``, else all not deleted."""
    with unit_of_work(use.mysql) as work:
        views = DocumentViews(work.connection, tenant_id)
        return views.views(namespace=namespace, status=status, source_id=source_id, after=after, limit=limit)


def find_document(
    tenant_id: TenantId, namespace: Namespace, document_id: DocumentId, use: Resources
) -> DocumentView | None:
    """Return the document, or None."""
    with unit_of_work(use.mysql) as work:
        return DocumentViews(work.connection, tenant_id).view(namespace, document_id)


def list_generations(
    tenant_id: TenantId, namespace: Namespace, document_id: DocumentId, use: Resources
) -> History | None:
    """Return the generations of a document of which anything is left, or None without such a document."""
    with unit_of_work(use.mysql) as work:
        return Generations(work.connection, tenant_id).history(namespace, document_id)


def list_sources(
    tenant_id: TenantId, namespace: Namespace, kind: SourceKind | None, after: str, limit: int, use: Resources
) -> list[SourceView]:
    """Return the sources that follow the id ``after`` and have a document that is searchable or under way."""
    with unit_of_work(use.mysql) as work:
        return SourceViews(work.connection, tenant_id).page(namespace, kind=kind, after=after, limit=limit)


def find_source(tenant_id: TenantId, namespace: Namespace, source_id: str, use: Resources) -> SourceView | None:
    """Return the source, or None if it has no document; one whose upload failed or was cancelled counts."""
    with unit_of_work(use.mysql) as work:
        return SourceViews(work.connection, tenant_id).one(namespace, source_id)


def list_namespaces(
    tenant_id: TenantId, after: str | None, limit: int, use: Resources, *, examples: bool = False
) -> Sequence[NamespaceView]:
    """Return the namespaces that follow the name ``after``; ``examples``: only those that hold examples."""
    with unit_of_work(use.mysql) as work:
        return Namespaces(work.connection, tenant_id).views(after=after, limit=limit, examples=examples)


def existing_namespaces(tenant_id: TenantId, names: Sequence[Namespace], use: Resources) -> set[Namespace]:
    """Return those of ``names`` that exist."""
    with unit_of_work(use.mysql) as work:
        return Namespaces(work.connection, tenant_id).existing(names)
