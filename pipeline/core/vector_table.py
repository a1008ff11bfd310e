"""The vectors of one namespace side by side: every one of them is compared, so nothing is missed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pipeline.records import ChunkId

Near = tuple[ChunkId, float]
Distance = Literal["cosine", "euclidean"]


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
        scores = self._similarities(vector, self.rows, self.squares)
        least = np.partition(scores, len(scores) - count)[len(scores) - count]
        held = np.flatnonzero(scores >= least)
        best = held[np.lexsort((held, -scores[held]))][:count]
        return [
            (ChunkId(chunk_id.decode()), score)
            for chunk_id, score in zip(self.chunk_ids[best].tolist(), scores[best].tolist(), strict=True)
        ]

    def scores(self, vector: NDArray[np.float32], chunk_ids: Sequence[ChunkId]) -> dict[ChunkId, float]:
        """The similarity of those of these chunks that are here."""
        if not len(self.chunk_ids) or not chunk_ids:
            return {}
        wanted = np.array([chunk_id.encode() for chunk_id in chunk_ids], dtype=bytes)
        found = np.minimum(np.searchsorted(self.chunk_ids, wanted), len(self.chunk_ids) - 1)
        here = np.flatnonzero(self.chunk_ids[found] == wanted)
        places = found[here]
        scores = self._similarities(vector, self.rows[places], None if self.squares is None else self.squares[places])
        return dict(zip([chunk_ids[place] for place in here.tolist()], scores.tolist(), strict=True))

    def _similarities(
        self, vector: NDArray[np.float32], rows: NDArray[np.float32], squares: NDArray[np.float32] | None
    ) -> NDArray[np.float32]:
        asked = vector.astype(np.float16).astype(np.float32)  # as PostgreSQL is asked
        if squares is None:
            length = float(np.linalg.norm(asked))
            return np.asarray(rows @ (asked / np.float32(length) if length else asked), dtype=np.float32)
        apart = np.sqrt(np.maximum(squares + asked @ asked - 2 * (rows @ asked), 0))
        return np.asarray(1 / (1 + apart), dtype=np.float32)
