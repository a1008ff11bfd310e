"""Documents with their generations, the sources they came from, and namespaces: what a tenant has, page by page."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final

from pipeline.database.unit_of_work import unit_of_work
from pipeline.document_sources import SourceKind
from pipeline.documents.document_store import Documents
from pipeline.documents.document_view_store import DocumentViews, SourceViews
from pipeline.documents.document_views import DocumentSelection, DocumentView, History, OriginalUpload, SourceView
from pipeline.documents.generation_store import Generations
from pipeline.examples.example_counts import Duplicated, Stored, Verified
from pipeline.examples.example_store import Examples
from pipeline.filters.used_fields import FieldTally, UsedFields
from pipeline.records import DocumentId, Generation, JobId, Namespace, Scope, TenantId
from pipeline.resources import Resources
from pipeline.tenants.accounts import NamespaceView
from pipeline.tenants.namespace_store import Namespaces

_LEAST_SIMILARITY = 0.9  # cosine of the vectors of whole documents; copies with small changes are above 0.97
_MOST_SIMILAR = 10
_MOST_READ: Final = 10_000  # documents whose fields are counted
_READ_AT_ONCE: Final = 1_000
_READING_S: Final = 2.0  # after which no further documents are read


def list_documents(
    tenant_id: TenantId,
    use: Resources,
    selection: DocumentSelection,
    *,
    after: tuple[str, ...] | None = None,
    limit: int,
) -> list[DocumentView]:
    """Return the selected documents in the selection's order, those after a `DocumentView.position`."""
    with unit_of_work(use.mysql) as work:
        return DocumentViews(work.connection, tenant_id).views(selection, after=after, limit=limit)


def find_document(
    tenant_id: TenantId, namespace: Namespace, document_id: DocumentId, use: Resources
) -> DocumentView | None:
    """Return the document, or None."""
    with unit_of_work(use.mysql) as work:
        return DocumentViews(work.connection, tenant_id).view(namespace, document_id)


def read_original(
    tenant_id: TenantId, namespace: Namespace, document_id: DocumentId, generation: int | None, use: Resources
) -> OriginalUpload | None:
    """Return the upload of ``generation``, by default of the published or else the latest one; None without its bytes."""
    with unit_of_work(use.mysql) as work:
        upload = Documents(work.connection, tenant_id).upload(namespace, document_id, generation)
    if upload is None:
        return None
    return OriginalUpload(name=upload.source_uri or document_id, media_type=upload.media_type, body=upload.body)


def find_similar(
    tenant_id: TenantId, namespace: Namespace, document_id: DocumentId, use: Resources
) -> list[tuple[DocumentView, float, bool]] | None:
    """Return the namespace's most similar other documents, best first, each with its similarity and whether its bytes
    are the same; None without such a document, and none for one that is not searchable."""
    with unit_of_work(use.mysql) as work:
        view = DocumentViews(work.connection, tenant_id).view(namespace, document_id)
    if view is None or view.generation is None:
        return None if view is None else []
    scope = Scope(tenant_id=tenant_id, namespace=namespace)
    generation = Generation(scope=scope, document_id=document_id, number=view.generation)
    candidates = use.document_vectors(tenant_id).similar(generation, least=_LEAST_SIMILARITY, limit=_MOST_SIMILAR)
    with unit_of_work(use.mysql) as work:
        views = DocumentViews(work.connection, tenant_id)
        found = [(views.view(namespace, DocumentId(other.document_id)), other) for other in candidates]
    return [
        (other, near.similarity, other.content_hash == view.content_hash)
        for other, near in found
        if other is not None and other.generation == near.generation
    ]


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
    tenant_id: TenantId, after: str | None, limit: int, use: Resources, **selection: Any
) -> Sequence[NamespaceView]:
    """Return the namespaces that follow the name ``after``. ``selection``: as of `Namespaces.views`."""
    with unit_of_work(use.mysql) as work:
        return Namespaces(work.connection, tenant_id).views(after=after, limit=limit, **selection)


def existing_namespaces(tenant_id: TenantId, names: Sequence[Namespace], use: Resources) -> set[Namespace]:
    """Return those of ``names`` that exist."""
    with unit_of_work(use.mysql) as work:
        return Namespaces(work.connection, tenant_id).existing(names)


def used_fields(tenant_id: TenantId, namespace: Namespace, use: Resources) -> UsedFields:
    """Count the values of the published documents' fields: of the first 10,000 by id, or of those read within 2 s."""
    tally, after, until = FieldTally(), "", time.monotonic() + _READING_S
    while True:
        is_enough = tally.documents >= _MOST_READ or time.monotonic() >= until
        limit = 1 if is_enough else _READ_AT_ONCE  # one more tells whether these were all
        with unit_of_work(use.mysql) as work:
            rows = DocumentViews(work.connection, tenant_id).fields(namespace, after=after, limit=limit)
        if is_enough or not rows:
            return tally.result(complete=not rows)
        tally.add(fields for _, fields in rows)
        after = rows[-1][0]


def count_examples(
    tenant_id: TenantId, namespace: Namespace, categories: Sequence[str], use: Resources
) -> tuple[dict[str, Stored], Duplicated] | None:
    """Return the counts of each category and the exact duplicates, or None without such a namespace."""
    with unit_of_work(use.mysql) as work:
        if not Namespaces(work.connection, tenant_id).existing([namespace]):
            return None
        examples = Examples(work.connection, tenant_id)
        return examples.stored(namespace, categories), examples.duplicates(namespace, categories)


def verify_import(tenant_id: TenantId, job_id: JobId, sample: int, use: Resources) -> Verified | None:
    """Compare the rows a job accepted with what searches find now; None without such a job."""
    with unit_of_work(use.mysql) as work:
        return Examples(work.connection, tenant_id).verified(job_id, sample=sample)
