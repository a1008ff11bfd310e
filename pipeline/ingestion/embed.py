"""Embed every chunk of a batch, reusing earlier vectors and renewing the lease meanwhile."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from pipeline.database.rows import slices
from pipeline.errors import EmbedderRefused
from pipeline.ingestion.finish_items import end
from pipeline.ingestion.make_vectors import fill_standby, vectors_of
from pipeline.ingestion.prepare import Breather, PreparedDocument
from pipeline.jobs.lease_store import Lease
from pipeline.models.ports import Embedder, Matrix, PaidEmbedder, SentenceEncoder
from pipeline.records import Chunk, Generation, Stage, TenantId
from pipeline.resources import Resources
from pipeline.semantic.document_vector_store import Means
from pipeline.tenants.usage import Purpose, UsageCounts

_CHUNKS_PER_LEASE = 128  # embedded and stored before the lease is renewed and other tenants are served


def embed(
    lease: Lease, prepared: Sequence[PreparedDocument], use: Resources, *, breather: Breather | None = None
) -> list[PreparedDocument]:
    """Embed every chunk, renewing the lease; unchanged texts of a document keep their vectors. Documents with a text
    that the model refuses are parked. ``breather`` runs between stored slices."""
    tenant_id = lease.tenant_id
    fields = {item.claim.generation: item.fields for item in prepared}
    chunks = [chunk for item in prepared for chunk in item.to_embed]
    replacing = {item.claim.generation for item in prepared if item.replaces}
    reused_chunks: Counter[Generation] = Counter()
    embedder = use.embedder  # read once: another model may be active a moment later
    means = Means()
    complete = {item.claim.generation for item in prepared if not item.vectors}
    ask = partial(_vectors, lease, embedder, use)
    for piece in slices(chunks, _CHUNKS_PER_LEASE):
        try:
            vectors, reused = embed_or_reuse(tenant_id, piece, replacing, use, model=embedder.model, embed=ask)
        except EmbedderRefused as error:
            guilty = {piece[index].generation for index in error.indexes} or set(fields)
            end(lease, [], [(claim, error) for claim in lease.claims if claim.generation in guilty], use)
            rest = [item for item in prepared if item.claim.generation not in guilty]
            return embed(lease, rest, use, breather=breather)
        use.vectors(tenant_id).upsert(piece, vectors, fields=fields, model=embedder.model)
        means.add(piece, vectors)
        reused_chunks.update(chunk.generation for chunk in reused)
        if piece[-1] is not chunks[-1]:
            lease.renew()
            if breather is not None:
                breather.take()
    document_vectors = use.document_vectors(tenant_id)
    computed = [vector for vector in means.vectors() if vector.generation in complete]
    document_vectors.write(computed, model=embedder.model)
    document_vectors.refresh([generation for generation in fields if generation not in complete])
    fill_standby(tenant_id, chunks, fields, use, after_each=lease.renew)
    lease.reach(Stage.EMBEDDED, lease.claims)
    lease.renew()
    return [replace(item, reused=reused_chunks[item.claim.generation]) for item in prepared]


def _vectors(lease: Lease, embedder: Embedder, use: Resources, chunks: Sequence[Chunk]) -> Matrix:
    """Return the vectors of these chunks, renewing the lease while a model is slow or busy."""
    tenant_id, job_id = lease.tenant_id, lease.job_id
    texts = [chunk.embedding_text for chunk in chunks]
    ask = partial(vectors_of, tenant_id, texts, use, purpose=Purpose.INGEST, embedder=embedder, job_id=job_id)
    is_slow = isinstance(embedder, PaidEmbedder | SentenceEncoder)
    vectors = lease.renew_during(lambda stop: ask(stop=stop)) if is_slow else ask()
    if isinstance(embedder, PaidEmbedder):
        return vectors
    counts = UsageCounts(requests=1, texts=len(texts), tokens=sum(chunk.passage.token_count for chunk in chunks))
    use.usage_book.note(tenant_id, Purpose.INGEST, embedder.model, counts, job_id=job_id)
    use.usage_book.write()
    return vectors


def embed_or_reuse(
    tenant_id: TenantId,
    chunks: Sequence[Chunk],
    replacing: set[Generation],
    use: Resources,
    *,
    model: str,
    embed: Callable[[Sequence[Chunk]], NDArray[np.float32]],
) -> tuple[NDArray[np.float32], list[Chunk]]:
    """Return a vector per chunk, and the chunks that were reused: those in ``replacing`` take a vector of the same
    text, document and model, in one statement. The rest go to ``embed``; its errors propagate, with
    ``EmbedderRefused.indexes`` being positions in ``chunks``."""
    candidates = [chunk for chunk in chunks if chunk.generation in replacing]
    stored = use.vectors(tenant_id).of_texts(candidates, model=model) if candidates else {}
    if not stored:
        return embed(chunks), []
    new = [position for position, chunk in enumerate(chunks) if chunk.chunk_id not in stored]
    vectors = np.empty((len(chunks), len(next(iter(stored.values())))), dtype=np.float32)
    if new:
        try:
            vectors[new] = embed([chunks[position] for position in new])
        except EmbedderRefused as error:
            raise EmbedderRefused(str(error), indexes=tuple(new[index] for index in error.indexes)) from error
    for position, chunk in enumerate(chunks):
        if chunk.chunk_id in stored:
            vectors[position] = stored[chunk.chunk_id]
    return vectors, [chunk for chunk in chunks if chunk.chunk_id in stored]
