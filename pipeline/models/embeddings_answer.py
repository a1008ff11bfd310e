"""What an answer of `/embeddings` holds, checked before anyone uses it."""

from __future__ import annotations

import base64
import binascii
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import EmbedderUnavailable, Misconfigured
from pipeline.models.port import Matrix


def counted_tokens(answer: Any) -> int | None:
    """The tokens that an answer says it was counted as; None if it does not say."""
    usage = answer.get("usage") if isinstance(answer, dict) else None
    tokens = usage.get("total_tokens", usage.get("prompt_tokens")) if isinstance(usage, dict) else None
    return tokens if type(tokens) is int and tokens >= 0 else None


def unit_rows(answer: Any, *, count: int, dimension: int) -> Matrix:
    """Return an answer's vectors by ``index``, each of length 1. Raises EmbedderUnavailable without one finite,
    non-zero vector per text, Misconfigured when all have another length than ``dimension``."""
    items = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise EmbedderUnavailable("the embedding service answered without a list of embeddings")
    by_index = {item["index"]: item for item in items if type(item.get("index")) is int}
    if len(items) != count or by_index.keys() != set(range(count)):
        raise EmbedderUnavailable(
            f"the embedding service answered {len(items)} embeddings for {count} texts, or misnumbered them"
        )
    vectors = [_numbers(by_index[at].get("embedding")) for at in range(count)]
    lengths = {vector.size for vector in vectors}
    if lengths == {dimension}:
        return _normalised(np.stack(vectors))
    if len(lengths) == 1:
        raise Misconfigured(
            f"the embedding model gives vectors of {lengths.pop()} numbers, but CHORDWISE_EMBEDDING_DIM is {dimension}"
        )
    raise EmbedderUnavailable("the embedding service answered with vectors of different lengths")


def _numbers(embedding: Any) -> NDArray[np.float64]:
    """One vector, sent as a list of numbers or as base64 of little-endian 32-bit floats."""
    try:
        if isinstance(embedding, str):
            return np.frombuffer(base64.b64decode(embedding, validate=True), dtype="<f4").astype(np.float64)
        if isinstance(embedding, list):
            vector = np.array(embedding, dtype=np.float64)
            if vector.ndim == 1:
                return vector
    except (ValueError, TypeError, OverflowError, binascii.Error):
        pass
    raise EmbedderUnavailable("the embedding service answered with something that is not a vector")


def _normalised(vectors: NDArray[np.float64]) -> Matrix:
    with np.errstate(over="ignore", invalid="ignore"):
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not (np.isfinite(lengths).all() and (lengths > 0.0).all()):
            raise EmbedderUnavailable("the embedding service answered with a vector that is zero or not finite")
        unit: Matrix = (vectors / lengths).astype(np.float32)
    return unit
