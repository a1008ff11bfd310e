"""Chunk ids in order, and which of others are among them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pipeline.records import ChunkId


def among(ids: NDArray[np.bytes_], wanted: Sequence[ChunkId]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Of those ``wanted`` that are in ``ids``, which is in order: their places in ``wanted``, in order, and in ``ids``."""
    if not len(ids) or not wanted:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    spelled = np.array([chunk_id.encode() for chunk_id in wanted], dtype=bytes)
    found = np.minimum(np.searchsorted(ids, spelled), len(ids) - 1)
    here = np.flatnonzero(ids[found] == spelled)
    return here, found[here]
