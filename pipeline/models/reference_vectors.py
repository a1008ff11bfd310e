"""Vectors of the reference sentences by models that are too slow to embed them within a query."""

from __future__ import annotations

import threading

from cachetools import cached

from pipeline.embedding.reference_sentences import SPACED, UNSPACED
from pipeline.models.ports import Embedder, Matrix, SentenceEncoder


def _key(embedder: Embedder, sentences: tuple[str, ...], **_: float | None) -> tuple[str, tuple[str, ...]]:
    return embedder.model, sentences


@cached(cache={}, key=_key, condition=threading.Condition())
def reference_vectors(embedder: Embedder, sentences: tuple[str, ...], *, timeout_s: float | None = None) -> Matrix:
    """Return the vectors of sentences, embedded as passages once per process. Raises the embedder's errors."""
    return embedder.embed(sentences, timeout_s=timeout_s)


def prepare_references(embedder: Embedder) -> None:
    """Embed the reference sentences of both kinds of writing if the model is slow. Raises the embedder's errors."""
    if isinstance(embedder, SentenceEncoder):
        for sentences in (SPACED, UNSPACED):
            reference_vectors(embedder, sentences)
