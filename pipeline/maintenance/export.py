"""Export a namespace part by part, each document whole and as searches saw it at one moment. The only state between
parts is the last document's id, so an export can be resumed at any time."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

import structlog

from pipeline.archives.archive import Enclosed, Origin, Part, write_part
from pipeline.archives.chunk_lines import chunk_line, parent_as_json
from pipeline.archives.import_store import Exports, ShownChunk, ShownDocument, StoredVector, snapshot, stored_vectors
from pipeline.document_sources import derived_source_id, original_type
from pipeline.records import ChunkId, DocumentId, Namespace, Passage, TenantId
from pipeline.resources import Resources

log = structlog.get_logger(__name__)

PART_BYTES = 4 * 1024 * 1024  # from which a part is full; the document that fills it is in it whole
_CHUNKS_AT_ONCE = 500
_LOOKS = 3  # at a document of which chunks and vectors do not fit together, because it is being changed
_PAUSE_S = 0.03


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedPart:
    """A part to send. ``following``: the next ``after``, None at the end. ``without_vector``: chunks lacking it."""

    body: bytes
    documents: int
    chunks: int
    vectors: int
    without_vector: int
    following: DocumentId | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _ExportedDocument:
    enclosed: Enclosed
    without_vector: int
    settled: bool


def export_part(
    tenant_id: TenantId,
    namespace: Namespace,
    use: Resources,
    *,
    after: str = "",
    most_documents: int = 500,
    part_bytes: int = PART_BYTES,
    sleep: Callable[[float], None] = time.sleep,
) -> ExportedPart:
    """Return the documents after the given id, as many as a part takes. Raises StoreUnavailable."""
    with snapshot(use.mysql) as connection:
        listed = Exports(connection, tenant_id, namespace).listed(after=after, limit=most_documents + 1)
    origin = Origin(model=use.embedder.model, dimension=use.embedder.dimension, distance=use.settings.pgvector_distance)
    documents: list[_ExportedDocument] = []
    size, last = 0, None
    for group in _groups(listed[:most_documents]):
        for document in _read_settled(tenant_id, namespace, group, origin, use, sleep):
            documents.append(document)
            size += len(document.enclosed.vectors) + sum(map(len, document.enclosed.chunks))
        last = group[-1]
        if size >= part_bytes:
            break
    part = Part(origin=origin, documents=[document.enclosed for document in documents])
    without_vector = sum(document.without_vector for document in documents)
    log.info("part_exported", documents=len(documents), chunks=part.chunk_count, without_vector=without_vector)
    return ExportedPart(
        body=write_part(part),
        documents=len(documents),
        chunks=part.chunk_count,
        vectors=part.vector_count,
        without_vector=without_vector,
        following=last if last is not None and last != listed[-1][0] else None,
    )


def _groups(listed: Sequence[tuple[DocumentId, int]]) -> Iterator[list[DocumentId]]:
    """Yield neighbouring documents to read together: up to some hundred chunks, or one document."""
    group: list[DocumentId] = []
    chunks = 0
    for document_id, count in listed:
        if group and chunks + count > _CHUNKS_AT_ONCE:
            yield group
            group, chunks = [], 0
        group.append(document_id)
        chunks += count
    if group:
        yield group


def _read_settled(
    tenant_id: TenantId,
    namespace: Namespace,
    document_ids: Sequence[DocumentId],
    origin: Origin,
    use: Resources,
    sleep: Callable[[float], None],
) -> list[_ExportedDocument]:
    """Return the published documents in order; one that is being changed is read again."""
    documents = _read(tenant_id, namespace, document_ids, origin, use)
    for attempt in range(1, _LOOKS):
        unsettled = [document_id for document_id, document in documents.items() if not document.settled]
        if not unsettled:
            break
        sleep(_PAUSE_S * attempt)
        for document_id in unsettled:
            del documents[document_id]
        documents |= _read(tenant_id, namespace, unsettled, origin, use)
    return [documents[document_id] for document_id in document_ids if document_id in documents]


def _read(
    tenant_id: TenantId, namespace: Namespace, document_ids: Sequence[DocumentId], origin: Origin, use: Resources
) -> dict[DocumentId, _ExportedDocument]:
    with snapshot(use.mysql) as connection:
        exports = Exports(connection, tenant_id, namespace)
        documents, chunks = exports.documents(document_ids), exports.chunks(document_ids)
        parents = exports.parents(document_ids)
    generations = {document.generation.document_id: document.generation for document in documents}
    vectors = stored_vectors(use.postgres, list(generations.values()), table=use.spaces.live().active.table)
    return {
        document_id: _enclose(document, chunks.get(document_id, []), parents.get(document_id, []), vectors, origin)
        for document_id, document in zip(generations, documents, strict=True)
    }


def _enclose(
    document: ShownDocument,
    chunks: Sequence[ShownChunk],
    parents: Sequence[tuple[int, Passage]],
    vectors: Mapping[ChunkId, StoredVector],
    origin: Origin,
) -> _ExportedDocument:
    lines: list[bytes] = []
    halves: list[bytes] = []
    without_vector, settled = 0, True
    for chunk in chunks:
        vector = vectors.get(chunk.chunk_id) if chunk.mark.enabled else None
        fits = vector is not None and vector.content_hash == chunk.content_hash
        if vector is not None and fits and (vector.model, len(vector.halves)) == (origin.model, origin.dimension * 2):
            halves.append(vector.halves)
            has_vector = True
        else:
            has_vector = False
            without_vector += chunk.mark.enabled
            settled = settled and (fits or not chunk.mark.enabled)  # waiting does not change the model
        lines.append(
            chunk_line(
                ordinal=chunk.ordinal,
                passage=chunk.passage,
                content_hash=chunk.content_hash,
                mark=chunk.mark,
                has_vector=has_vector,
            )
        )
    enclosed = Enclosed(description=_description(document, parents), chunks=lines, vectors=b"".join(halves))
    return _ExportedDocument(enclosed=enclosed, without_vector=without_vector, settled=settled)


def _source(document: ShownDocument) -> dict[str, object]:
    """Return a document's source: its id only if a sender chose it, the whole's address only if it differs."""
    source, scope = document.source, document.generation.scope
    uri = source.uri if document.source_uri is None else document.source_uri
    derived = derived_source_id(scope.tenant_id, scope.namespace, uri=uri, document_id=document.generation.document_id)
    whole = {"uri": source.uri, "media_type": source.media_type}
    return {
        "uri": document.source_uri,
        "media_type": original_type(document.media_type),
        "kind": source.kind,
        **({} if document.source_id in ("", derived) else {"source_id": document.source_id}),
        **({} if source.uri == document.source_uri else {"whole": whole}),
    }


def _description(document: ShownDocument, parents: Sequence[tuple[int, Passage]]) -> dict[str, object]:
    return {
        "document_id": document.generation.document_id,
        **asdict(document.fields),
        "source": _source(document),
        "chunking": document.chunking,
        **({"parents": [parent_as_json(*parent) for parent in parents]} if parents else {}),
    }
