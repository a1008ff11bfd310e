"""Embed texts: take cached vectors, request the others, and record the usage; during a model migration, in both live spaces."""

import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np
from sqlalchemy import Connection

from pipeline.chunking.tokens import count_tokens
from pipeline.database.rows import slices
from pipeline.embedding.cache_store import VectorCache, digest_of
from pipeline.embedding.space_store import StandbyBacklog
from pipeline.errors import EmbedderRefused, PipelineError, VectorsMissing
from pipeline.models.live_spaces import FRESH_S, log
from pipeline.models.local_embedder import LocalEncoder, query_vectors
from pipeline.models.ports import Embedder, Matrix, PaidEmbedder
from pipeline.privacy.redaction import redact
from pipeline.records import Chunk, DocumentFields, EmbeddingSpace, Generation, JobId, TenantId
from pipeline.resources import Resources
from pipeline.tenants.usage import Purpose, UsageCounts


def vectors_of(
    tenant_id: TenantId,
    texts: Sequence[str],
    use: Resources,
    *,
    purpose: Purpose,
    embedder: Embedder | None = None,
    job_id: JobId | None = None,
    timeout_s: float | None = None,
    stop: threading.Event | None = None,
) -> Matrix:
    """Return one vector for each text, in order, from ``embedder``, by default that of the active space.

    With an embedder that costs money or time, each distinct text is sent once; answers are cached and recorded at once,
    even if the rest fails. With CHORDWISE_MASK_EMBEDDINGS personal data is masked alike in questions and texts, or they
    would not match. Queries take precedence. Raises the embedder's errors; the ``indexes`` of EmbedderRefused are those
    of ``texts``.
    """
    embedder = embedder or use.embedder
    if isinstance(embedder, LocalEncoder) and purpose is not Purpose.QUERY:
        return embedder.embed(texts, timeout_s=timeout_s, stop=stop)
    if not isinstance(embedder, PaidEmbedder):
        return query_vectors(embedder, texts, timeout_s=timeout_s)
    if use.settings.mask_embeddings:
        texts = [redact(text, kinds=use.settings.mask_kinds) for text in texts]
    cache = VectorCache(use.vector_store, tenant_id, model=embedder.model, dimension=embedder.dimension)
    digests = [digest_of(text) for text in texts]
    positions: defaultdict[bytes, list[int]] = defaultdict(list)
    for position, digest in enumerate(digests):
        positions[digest].append(position)
    vectors: dict[bytes, Matrix] = dict(cache.get(list(positions)))
    unknown = [digest for digest in positions if digest not in vectors]
    recorder = _AnswerRecorder(cache, unknown)
    requested = {positions[digest][0] for digest in unknown}
    saved = [text for position, text in enumerate(texts) if position not in requested]
    try:
        if unknown:
            wanted = [texts[positions[digest][0]] for digest in unknown]
            rows = embedder.embed_counted(
                wanted, answered=recorder.answered, urgent=purpose is Purpose.QUERY, timeout_s=timeout_s, stop=stop
            )
            vectors |= dict(zip(unknown, rows, strict=True))
    except EmbedderRefused as error:
        reasons = error.reasons.items()
        guilty = {position: reason for index, reason in reasons for position in positions[unknown[index]]}
        raise EmbedderRefused(str(error), reasons=guilty) from None
    else:
        recorder.counts += UsageCounts(cached_texts=len(saved), saved_tokens=sum(map(count_tokens, saved)))
    finally:
        use.usage_book.note(tenant_id, purpose, embedder.model, recorder.counts, job_id=job_id)
        if purpose is Purpose.QUERY:
            use.usage_book.write_soon()
        else:
            use.usage_book.write()
    if not digests:
        return np.empty((0, embedder.dimension), dtype=np.float32)
    return np.stack([vectors[digest] for digest in digests])


class _AnswerRecorder:
    """Caches and records each answer as it arrives."""

    def __init__(self, cache: VectorCache, digests: Sequence[bytes]) -> None:
        self._cache = cache
        self._digests = digests
        self._lock = threading.Lock()
        self.counts = UsageCounts()

    def answered(self, places: range, vectors: Matrix | None, tokens: int) -> None:
        """Record the usage of any answer; cache its vectors if they are usable."""
        with self._lock:
            self.counts += UsageCounts(requests=1, texts=len(places), tokens=tokens)
        if vectors is not None:
            self._cache.put({self._digests[position]: row for position, row in zip(places, vectors, strict=True)})


_STANDBY_AT_ONCE = 256


def fill_standby(
    tenant_id: TenantId,
    chunks: Sequence[Chunk],
    fields: Mapping[Generation, DocumentFields],
    use: Resources,
    *,
    after_each: Callable[[], object],
) -> None:
    """Give chunks that are not shown yet vectors in the standby space too. Never fails for that model: missing ones are
    recorded when they are shown. ``after_each`` runs between pieces."""
    standby = use.spaces.live().standby
    if standby is None or not use.spaces.standby_answers:
        return
    try:
        embedder = use.spaces.embedder(standby)
        for piece in slices(chunks, _STANDBY_AT_ONCE):
            texts = [chunk.embedding_text for chunk in piece]
            seconds = use.settings.ingest_lease_s / 3
            vectors = vectors_of(tenant_id, texts, use, purpose=Purpose.REPAIR, embedder=embedder, timeout_s=seconds)
            use.vectors(tenant_id).upsert(piece, vectors, fields=fields, model=standby.model)
            after_each()
    except VectorsMissing:
        log.info("standby_given_up_meanwhile", space=standby.number)
    except EmbedderRefused as error:  # the model answers, and is asked for other documents
        log.info("standby_refused_texts", space=standby.number, texts=len(error.indexes))
    except PipelineError as error:
        if error.code == "lease_lost":
            raise
        use.spaces.standby_failed(error)


def require_vectors(
    tenant_id: TenantId,
    connection: Connection,
    complete: Mapping[int, Collection[Generation]],
    generations: Collection[Generation],
    use: Resources,
) -> EmbeddingSpace:
    """Lock the pointer, check that the generations about to be shown are searchable, and return the active space.
    ``complete``: by space, generations with all vectors. Raises VectorsMissing for the active space; gaps of the
    standby are recorded."""
    held = use.spaces.hold(connection)
    short = [generation for generation in generations if generation not in complete.get(held.active.number, ())]
    if short:
        raise VectorsMissing(f"{len(short)} of {len(generations)} documents have fewer vectors than chunks")
    if held.standby is not None:
        ready = complete.get(held.standby.number, ())
        behind = [(g.scope.namespace, g.document_id) for g in generations if g not in ready]
        StandbyBacklog(connection, tenant_id, held.standby.number).add(behind)
    return held.active


def embed_everywhere(
    texts: Sequence[str], use: Resources, *, tenant_id: TenantId, purpose: Purpose
) -> dict[EmbeddingSpace, Matrix]:
    """Embed texts in every live space whose model answers. Raises the active model's errors, and VectorsMissing."""
    embedder = use.embedder
    vectors = vectors_of(tenant_id, texts, use, purpose=purpose, embedder=embedder)
    live = use.spaces.live()
    active = live.of(embedder.model, vectors.shape[1])
    if active is None:
        raise VectorsMissing(f"{embedder.model} is no longer the active model", retry_after_s=FRESH_S)
    by_space = {active: vectors}
    for space in live.every:
        if space != active and use.spaces.standby_answers:
            try:
                other = use.spaces.embedder(space)
                seconds = use.settings.ingest_lease_s / 3
                by_space[space] = vectors_of(tenant_id, texts, use, purpose=purpose, embedder=other, timeout_s=seconds)
            except PipelineError as error:
                use.spaces.standby_failed(error)
    return by_space


def write_everywhere(
    tenant_id: TenantId,
    connection: Connection,
    chunks: Sequence[Chunk],
    vectors: Mapping[EmbeddingSpace, Matrix],
    fields: Mapping[Generation, DocumentFields],
    use: Resources,
) -> None:
    """Write vectors of shown chunks to every live space; record the standby's gaps. Raises VectorsMissing."""
    held = use.spaces.hold(connection)
    if held.active not in vectors:
        raise VectorsMissing("the active model was switched during embedding", retry_after_s=FRESH_S)
    for space in held.every:
        if space in vectors:
            use.vectors(tenant_id).upsert(chunks, vectors[space], fields=fields, model=space.model)
        else:
            documents = {(chunk.generation.scope.namespace, chunk.generation.document_id) for chunk in chunks}
            StandbyBacklog(connection, tenant_id, space.number).add(documents)
