"""Vectors that a document has already: a text that did not change is not embedded again."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import EmbedderRefused
from pipeline.flows.resources import Resources
from pipeline.records import Chunk, Generation, TenantId


def embed_or_reuse(
    tenant_id: TenantId,
    chunks: Sequence[Chunk],
    replacing: set[Generation],
    use: Resources,
    *,
    model: str,
    embed: Callable[[Sequence[Chunk]], NDArray[np.float32]],
) -> tuple[NDArray[np.float32], list[Chunk]]:
    """A vector for each chunk, in order, and which of the chunks had theirs already.

    Chunks of generations in ``replacing`` take the vector of any earlier chunk of the same document that was made of
    the same text by the same model: one statement for all. Others go to ``embed``. Raises what it raises;
    ``EmbedderRefused.indexes`` are places in ``chunks``.
    """
    candidates = [chunk for chunk in chunks if chunk.generation in replacing]
    known = use.vectors(tenant_id).of_texts(candidates, model=model) if candidates else {}
    if not known:
        return embed(chunks), []
    new = [place for place, chunk in enumerate(chunks) if chunk.chunk_id not in known]
    vectors = np.empty((len(chunks), len(next(iter(known.values())))), dtype=np.float32)
    if new:
        try:
            vectors[new] = embed([chunks[place] for place in new])
        except EmbedderRefused as error:
            raise EmbedderRefused(str(error), indexes=tuple(new[index] for index in error.indexes)) from error
    reused = [chunk for chunk in chunks if chunk.chunk_id in known]
    old = [place for place, chunk in enumerate(chunks) if chunk.chunk_id in known]
    if old:
        vectors[old] = np.stack([known[chunk.chunk_id] for chunk in reused])
    return vectors, reused
