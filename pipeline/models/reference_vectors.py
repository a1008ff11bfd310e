"""Vectors of the reference sentences by models that take longer for them than a query may wait."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final

from pipeline.embedding.reference_sentences import SPACED, UNSPACED
from pipeline.models.ports import Embedder, Matrix, SentenceEncoder

_KNOWN: Final[dict[tuple[str, Sequence[str]], Matrix]] = {}
_MAKING: Final = threading.Lock()


def reference_vectors(embedder: Embedder, sentences: tuple[str, ...], *, timeout_s: float | None = None) -> Matrix:
    """Return the vectors of sentences, embedded as passages once in a process. Raises what the embedder raises."""
    key = (embedder.model, sentences)
    if key not in _KNOWN:
        with _MAKING:
            if key not in _KNOWN:
                _KNOWN[key] = embedder.embed(sentences, timeout_s=timeout_s)
    return _KNOWN[key]


def prepare_references(embedder: Embedder) -> None:
    """Embed the sentences of both kinds of writing if this is a model that takes long for it. Raises what it raises."""
    if isinstance(embedder, SentenceEncoder):
        for sentences in (SPACED, UNSPACED):
            reference_vectors(embedder, sentences)
