"""Unpack documents of an archive during ingestion: already cut, and often with their vectors."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from pipeline.archives.archive import read_part
from pipeline.archives.chunk_lines import Unpacked, unpack
from pipeline.database.rows import slices
from pipeline.documents.document_store import Source
from pipeline.errors import CuttingTooSlow, InvalidPackedDocument
from pipeline.jobs.lease_store import Lease
from pipeline.keyword.terms import Tokenizer
from pipeline.records import Generation
from pipeline.resources import Resources

if TYPE_CHECKING:
    from pipeline.ingestion.prepare import PreparedDocument

_CHUNKS_PER_LEASE = 2048  # stored before the lease is renewed


def unpacked(
    source: Source,
    generation: Generation,
    tokenizer: Tokenizer,
    use: Resources,
    *,
    meanwhile: Callable[[], None] = lambda: None,
) -> Unpacked:
    """Return a packed document's chunks for ``generation``, analysed within the cutting limit. ``meanwhile`` runs after
    every chunk, untimed. Raises Rejected, and the errors of ``meanwhile``."""
    budget = _Budget(use.settings.cutting_timeout_s, meanwhile)
    embedder = use.embedder  # read once: another model may be active a moment later
    part = read_part(source.body)
    if len(part.documents) != 1:
        raise InvalidPackedDocument(f"the part holds {len(part.documents)} documents instead of one")
    return unpack(
        part.documents[0],
        part.origin,
        generation,
        title=source.fields.title,
        strategy=source.chunking.strategy,
        tokenizer=tokenizer,
        model=embedder.model,
        dimension=embedder.dimension,
        limit=use.settings.max_chunks_per_document,
        between=budget.between,
    )


class _Budget:
    """Processor time of this thread, checked between chunks, each of which has a limited length."""

    def __init__(self, seconds: float, meanwhile: Callable[[], None]) -> None:
        self._seconds, self._meanwhile = seconds, meanwhile
        self._ends = time.thread_time() + seconds

    def between(self) -> None:
        """Raise CuttingTooSlow when the time is up."""
        now = time.thread_time()
        if now > self._ends:
            raise CuttingTooSlow(
                f"analysing the document took more than {self._seconds:g} s (CHORDWISE_CUTTING_TIMEOUT_S)"
            )
        self._meanwhile()
        self._ends += time.thread_time() - now


def write_brought_vectors(lease: Lease, prepared: Sequence[PreparedDocument], use: Resources) -> None:
    """Store the vectors of imported chunks as they are, renewing the lease. Raises LeaseLost."""
    bringing = [item for item in prepared if item.vectors]
    for model in sorted({item.model for item in bringing}):
        _write_vectors(lease, [item for item in bringing if item.model == model], model, use)


def _write_vectors(lease: Lease, bringing: Sequence[PreparedDocument], model: str, use: Resources) -> None:
    fields = {item.claim.generation: item.fields for item in bringing}
    pairs = [
        (chunk, item.vectors[chunk.ordinal])
        for item in bringing
        for chunk in item.searchable
        if chunk.ordinal in item.vectors
    ]
    for piece in slices(pairs, _CHUNKS_PER_LEASE):
        chunks, vectors = zip(*piece, strict=True)
        use.vectors(lease.tenant_id).upsert(chunks, np.stack(vectors), fields=fields, model=model)
        if piece[-1] is not pairs[-1]:
            lease.renew()
