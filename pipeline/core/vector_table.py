"""The vectors of one namespace side by side: every one of them is compared, so nothing is missed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from pipeline.core.sorted_ids import among
from pipeline.records import ChunkId

Near = tuple[ChunkId, float]
Distance = Literal["cosine", "euclidean"]

# The score of two unit vectors at right angles: ``1 - distance``, or ``1 / (1 + distance)`` with the distance sqrt(2).
ORTHOGONAL: Final[Mapping[Distance, float]] = {"cosine": 0.0, "euclidean": 1 / (1 + math.sqrt(2))}


@dataclass(frozen=True, eq=False, kw_only=True)
class VectorTable:
    """Chunks in order of their ids, a row each; of unit length for cosine. ``squares``: the rows' squared lengths, for
    euclidean distance alone. Never changed, so threads may share it. 1 MB for a thousand rows of 256 numbers."""

    chunk_ids: NDArray[np.bytes_]
    rows: NDArray[np.float32]
    squares: NDArray[np.float32] | None

    @classmethod
    def of(cls, chunk_ids: Sequence[bytes], rows: NDArray[np.float32], *, distance: Distance) -> VectorTable:
        """``rows``: a vector for each chunk; they may be overwritten."""
        ids = np.array(chunk_ids, dtype=bytes)
        order = np.argsort(ids, kind="stable")
        rows = np.ascontiguousarray(rows[order], dtype=np.float32)
        squares = np.einsum("ij,ij->i", rows, rows)
        if distance == "cosine":
            rows /= np.sqrt(np.where(squares > 0, squares, np.float32(1)))[:, None]
        return cls(chunk_ids=ids[order], rows=rows, squares=squares if distance == "euclidean" else None)

    @property
    def byte_count(self) -> int:
        """What the arrays take."""
        return self.chunk_ids.nbytes + self.rows.nbytes + (0 if self.squares is None else self.squares.nbytes)

    @property
    def figures(self) -> Mapping[str, int]:
        """How much is in it."""
        return {"chunks": len(self.chunk_ids)}

    def slimmer(self) -> VectorTable:
        """Itself: all of it is needed."""
        return self

    def nearest(self, vector: NDArray[np.float32], *, limit: int) -> list[Near]:
        """Up to ``limit`` chunks with their similarities (as in `stores.vectors.similarity`), the most similar first, equal
        ones by chunk id."""
        count = min(limit, len(self.rows))
        if count <= 0:
            return []
        asked = _as_postgresql_is_asked(vector)
        likeness = self.rows @ asked
        if self.squares is not None:
            likeness -= self.squares / 2  # of |q - d|² = |q|² + |d|² - 2 q·d what differs from row to row
        least = np.partition(likeness, len(likeness) - count)[len(likeness) - count]
        held = np.flatnonzero(likeness >= least)
        scores = self._similarities(asked, held)
        order = np.lexsort((held, -scores))[:count]
        return [
            (ChunkId(chunk_id.decode()), score)
            for chunk_id, score in zip(self.chunk_ids[held[order]].tolist(), scores[order].tolist(), strict=True)
        ]

    def scores(self, vector: NDArray[np.float32], chunk_ids: Sequence[ChunkId]) -> dict[ChunkId, float]:
        """The similarity of those of these chunks that are here."""
        here, places = among(self.chunk_ids, chunk_ids)
        if not len(here):
            return {}
        scores = self._similarities(_as_postgresql_is_asked(vector), places)
        return dict(zip([chunk_ids[place] for place in here.tolist()], scores.tolist(), strict=True))

    def _similarities(self, asked: NDArray[np.float32], places: NDArray[np.int64]) -> NDArray[np.float32]:
        rows = self.rows[places]
        if self.squares is None:
            length = float(np.linalg.norm(asked))
            return np.asarray(rows @ asked / np.float32(length or 1.0), dtype=np.float32)
        return np.asarray(1 / (1 + np.linalg.norm(rows - asked, axis=1)), dtype=np.float32)


def _as_postgresql_is_asked(vector: NDArray[np.float32]) -> NDArray[np.float32]:
    return vector.astype(np.float16).astype(np.float32)
