"""The vector of a document: the mean of its chunks' vectors, with length 1."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.records import Chunk, Generation


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentVector:
    """The mean vector of a document's chunks, in their embedding space. ``content_hash``: see `hash_of`."""

    generation: Generation
    vector: NDArray[np.float32]
    chunk_count: int
    content_hash: bytes


class Means:
    """Sums the vectors of documents, one slice of chunks at a time; a document's chunks are adjacent."""

    def __init__(self) -> None:
        self._sums: dict[Generation, NDArray[np.float32]] = {}
        self._hashes: dict[Generation, list[tuple[str, bytes]]] = {}

    def add(self, chunks: Sequence[Chunk], vectors: NDArray[np.float32]) -> None:
        """Add these chunks with their vectors, in the chunks' order."""
        starts: list[int] = []
        last: Generation | None = None
        for place, chunk in enumerate(chunks):
            if chunk.generation is not last:
                starts.append(place)
                last = chunk.generation
                known = self._hashes.setdefault(last, [])
            known.append((chunk.chunk_id, chunk.content_hash))
        if not starts:
            return
        for start, total in zip(starts, np.add.reduceat(vectors, starts, axis=0), strict=True):
            generation = chunks[start].generation
            before = self._sums.get(generation)
            self._sums[generation] = total if before is None else before + total

    def vectors(self) -> list[DocumentVector]:
        """Return the vector of every document that has chunks."""
        return [
            DocumentVector(
                generation=generation,
                vector=_of_length_1(total),
                chunk_count=len(self._hashes[generation]),
                content_hash=hash_of(self._hashes[generation]),
            )
            for generation, total in self._sums.items()
        ]


def hash_of(chunks: Iterable[tuple[str, bytes]]) -> bytes:
    """Return one hash for chunk ids with their content hashes, taken in order of id. It differs after any change."""
    return hashlib.sha256(b"".join(content_hash for _, content_hash in sorted(chunks))).digest()


def _of_length_1(total: NDArray[np.float32]) -> NDArray[np.float32]:
    length = float(np.sqrt(total @ total))
    return total / np.float32(length) if length else total
