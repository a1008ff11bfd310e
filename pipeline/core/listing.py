"""Postings turned round: which tokens stand in a chunk, in order, as the numbers that they have among all tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.core.feedback import Terms
from pipeline.core.postings import Postings
from pipeline.records import ChunkId


@dataclass(frozen=True, eq=False, kw_only=True)
class Listing:
    """The tokens of every chunk of ``postings``, two bytes each where there are few different ones, else four."""

    numbers: Terms
    firsts: NDArray[np.int64]  # of each chunk, and where the last one ends

    @classmethod
    def of(cls, postings: Postings) -> Listing:
        """Takes some twelve bytes a term while it is made."""
        firsts = np.concatenate([np.zeros(1, np.int64), np.cumsum(postings.lengths, dtype=np.int64)])
        kind = np.uint16 if len(postings.tokens) <= 1 << 16 else np.uint32
        numbers: Terms = np.empty(postings.term_count, kind)
        inside = postings.places & np.uint32((1 << postings.position_bits) - 1)
        at = firsts[postings.holders(postings.places)] + inside
        numbers[at] = np.repeat(np.arange(len(postings.tokens), dtype=kind), np.diff(postings.starts))
        return cls(numbers=numbers, firsts=firsts)

    @property
    def byte_count(self) -> int:
        """What the arrays take."""
        return self.numbers.nbytes + self.firsts.nbytes

    def terms(self, chunks: NDArray[np.int64]) -> list[Terms]:
        """The tokens of these chunks, given by their places among all."""
        bounds = zip(self.firsts[chunks].tolist(), self.firsts[chunks + 1].tolist(), strict=True)
        return [self.numbers[first:end] for first, end in bounds]


def listed(copies: Sequence[tuple[Postings, Listing]], chunk_ids: Sequence[ChunkId]) -> dict[ChunkId, Terms] | None:
    """The tokens of these chunks, each of which stands in one of ``copies``; None if one stands in none. The same numbers
    are of the same token of the same copy."""
    found: dict[ChunkId, Terms] = {}
    for place, (postings, listing) in enumerate(copies):
        some = postings.of(chunk_ids)
        if some is None:
            continue
        terms = listing.terms(some.numbers)
        if place:
            terms = [each.astype(np.uint64) + np.uint64(place << 32) for each in terms]
        found.update(zip(postings.ids(some.numbers), terms, strict=True))
    return found if len(found) == len(set(chunk_ids)) else None
