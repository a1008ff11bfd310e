"""Embed texts: take cached vectors, request the others, and record the usage."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pipeline.chunking.tokens import count_tokens
from pipeline.embedding.cache_store import VectorCache, digest_of
from pipeline.errors import EmbedderRefused
from pipeline.models.ports import Embedder, Matrix, PaidEmbedder, SentenceEncoder, query_vectors
from pipeline.privacy.redaction import redact
from pipeline.records import JobId, TenantId
from pipeline.tenants.usage import Purpose, UsageCounts

if TYPE_CHECKING:
    from pipeline.resources import Resources


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
    if isinstance(embedder, SentenceEncoder) and purpose is not Purpose.QUERY:
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
                wanted, listener=recorder, urgent=purpose is Purpose.QUERY, timeout_s=timeout_s, stop=stop
            )
            vectors |= dict(zip(unknown, rows, strict=True))
    except EmbedderRefused as error:
        guilty = sorted(position for index in error.indexes for position in positions[unknown[index]])
        raise EmbedderRefused(str(error), indexes=tuple(guilty)) from None
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
