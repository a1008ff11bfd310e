"""Documents with their generations and chunks, the sources they came from, and namespaces: what a tenant has, page by page."""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from chordwise.contract.chunk import ChunkBeginningShape
from chordwise.contract.namespace import NamespaceFields
from pipeline.administration.call_store import call_store
from pipeline.chunking.strategies.registry import window_of
from pipeline.database.unit_of_work import unit_of_work
from pipeline.documents.chunk_edit_store import ChunkEdits, Position
from pipeline.documents.document_store import Documents, Source
from pipeline.documents.document_view_store import DocumentViews
from pipeline.documents.document_views import DocumentView, OwnedChunk
from pipeline.documents.generation_store import Generations
from pipeline.documents.owned_chunk_store import chunk_beginnings
from pipeline.documents.parent_store import windows
from pipeline.examples.example import Stored
from pipeline.examples.example_store import Examples
from pipeline.filters.readers import Principals, may_read, readers_filter
from pipeline.filters.used_fields import FieldTally
from pipeline.records import ChunkId, DocumentId, Filters, Generation, Namespace, Scope, TenantId
from pipeline.resources import Resources
from pipeline.tenants.namespace_store import Namespaces

_LEAST_SIMILARITY = 0.9  # cosine of the vectors of whole documents; copies with small changes are above 0.97
_MOST_SIMILAR = 10
_MOST_READ: Final = 10_000  # documents whose fields are counted
_READ_AT_ONCE: Final = 1_000
_READING_S: Final = 2.0  # after which no further documents are read


list_generations = call_store(Generations, Generations.history)
list_namespaces = call_store(Namespaces, Namespaces.views)
existing_namespaces = call_store(Namespaces, Namespaces.existing)
verify_import = call_store(Examples, Examples.verified)


def read_original(
    tenant_id: TenantId,
    namespace: Namespace,
    document_id: DocumentId,
    generation: int | None,
    use: Resources,
    *,
    reads_as: Principals,
) -> Source | None:
    """Return the upload of ``generation``, by default of the published or else the latest one; None without its bytes, or if
    the principals may not read it."""
    with unit_of_work(use.mysql) as work:
        upload = Documents(work.connection, tenant_id).upload(namespace, document_id, generation)
    if upload is None or not may_read(upload.fields.readers, reads_as):
        return None
    return upload


def find_similar(
    tenant_id: TenantId, namespace: Namespace, document_id: DocumentId, use: Resources, *, reads_as: Principals
) -> list[tuple[DocumentView, float, bool]] | None:
    """Return the namespace's most similar other documents, best first, each with its similarity and whether its bytes
    are the same; None without such a document, and none for one that is not searchable."""
    with unit_of_work(use.mysql) as work:
        view = DocumentViews(work.connection, tenant_id).view(namespace, document_id, reads_as=reads_as)
    if view is None or view.generation is None:
        return None if view is None else []
    scope = Scope(tenant_id=tenant_id, namespace=namespace)
    generation = Generation(scope=scope, document_id=document_id, number=view.generation)
    vectors = use.document_vectors(tenant_id)
    candidates = vectors.similar(generation, least=_LEAST_SIMILARITY, limit=_MOST_SIMILAR)
    if not candidates and vectors.refresh_missing(generation):  # lost, as by an edit of chunks without PostgreSQL
        candidates = vectors.similar(generation, least=_LEAST_SIMILARITY, limit=_MOST_SIMILAR)
    with unit_of_work(use.mysql) as work:
        views = DocumentViews(work.connection, tenant_id)
        found = [
            (views.view(namespace, DocumentId(other.document_id), reads_as=reads_as), other) for other in candidates
        ]
    return [
        (other, near.similarity, other.content_hash == view.content_hash)
        for other, near in found
        if other is not None and other.generation == near.generation
    ]


def used_fields(tenant_id: TenantId, namespace: Namespace, use: Resources, *, reads_as: Principals) -> NamespaceFields:
    """Count the values of the published documents' fields: of the first 10,000 by id, or of those read within 2 s."""
    tally, after, until = FieldTally(), "", time.monotonic() + _READING_S
    while True:
        is_enough = tally.documents >= _MOST_READ or time.monotonic() >= until
        limit = 1 if is_enough else _READ_AT_ONCE  # one more tells whether these were all
        with unit_of_work(use.mysql) as work:
            rows = DocumentViews(work.connection, tenant_id).fields(
                namespace, reads_as=reads_as, after=after, limit=limit
            )
        if is_enough or not rows:
            return tally.result(namespace, complete=not rows)
        tally.add(fields for _, fields in rows)
        after = rows[-1][0]


def count_examples(
    tenant_id: TenantId, namespace: Namespace, categories: Sequence[str], use: Resources
) -> tuple[dict[str, Stored], tuple[int, list[list[str]]]] | None:
    """Return the counts of each category and the exact duplicates, or None without such a namespace."""
    with unit_of_work(use.mysql) as work:
        if not Namespaces(work.connection, tenant_id).existing([namespace]):
            return None
        examples = Examples(work.connection, tenant_id)
        return examples.stored(namespace, categories), examples.duplicates(namespace, categories)


_AT_ONCE = 500  # chunks read at a time


def list_chunks(
    tenant_id: TenantId,
    namespace: Namespace,
    use: Resources,
    *,
    reads_as: Principals,
    filters: Filters | None = None,
    **selection: Any,
) -> Sequence[tuple[OwnedChunk, str | None]]:
    """Return a page of `ChunkEdits.page` that the principals may read, each chunk with its window where its strategy has
    one."""
    selection["filters"] = replace(filters or Filters(), readers=readers_filter(reads_as))
    with unit_of_work(use.mysql) as work:
        chunks = ChunkEdits(work.connection, tenant_id).page(namespace, **selection)
        sizes: dict[ChunkId, int] = {chunk.chunk_id: window_of(chunk.chunking) for chunk in chunks}
        around = windows(work.connection, tenant_id, sizes)
        return [(chunk, around.get(chunk.chunk_id)) for chunk in chunks]


def name_chunks(
    tenant_id: TenantId, chunk_ids: Sequence[ChunkId], use: Resources, *, reads_as: Principals
) -> Sequence[ChunkBeginningShape]:
    """Return the beginnings of those of these chunks that exist and the principals may read."""
    with unit_of_work(use.mysql) as work:
        return chunk_beginnings(work.connection, tenant_id, chunk_ids, reads_as=reads_as)


def read_passages(
    tenant_id: TenantId, wanted: ChunkId | tuple[Namespace, DocumentId], use: Resources, *, reads_as: Principals
) -> tuple[DocumentView, list[OwnedChunk]] | None:
    """Return a published document with one passage, or with all that searches see; None if there is no such thing."""
    with unit_of_work(use.mysql) as work:
        edits = ChunkEdits(work.connection, tenant_id)
        chunk: OwnedChunk | None = None
        if isinstance(wanted, tuple):
            namespace, document_id = wanted
        else:
            chunk = edits.named([wanted]).get(wanted)
            if chunk is None or not chunk.enabled:
                return None
            namespace, document_id = chunk.generation.scope.namespace, chunk.generation.document_id
        view = DocumentViews(work.connection, tenant_id).view(namespace, document_id, reads_as=reads_as)
        if view is None or view.generation is None:
            return None
        if chunk is not None:
            return view, [chunk]
        chunks: list[OwnedChunk] = []
        after: Position | None = None
        while page := edits.page(namespace, document_id=document_id, after=after, limit=_AT_ONCE):
            chunks += [chunk for chunk in page if chunk.searched and chunk.enabled]
            after = page[-1].position
        return view, chunks
