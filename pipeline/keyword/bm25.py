"""The statistics of a collection that BM25 needs; `keyword.scoring` scores chunks with them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

# Tuned on training queries of one English collection, where nDCG@10 is flat within 0.005 for k1 from 0.9 to 1.5 and b
# from 0.4 to 0.75. Recall there, and collections not used for tuning (English and Chinese), favour full length
# normalisation.
K1 = 1.2
B = 0.75


@dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    """The statistics of a collection that BM25 needs.

    ``chunk_count``: chunks in the collection. ``term_count``: their lengths added up, repetitions included.
    ``chunk_frequency``: the number of chunks that hold each term; a missing term occurs in none.
    """

    chunk_count: int
    term_count: int
    chunk_frequency: Mapping[str, int]

    @property
    def average_length(self) -> float:
        """Terms per chunk; 1 for an empty collection, to avoid a division by zero."""
        return self.term_count / self.chunk_count if self.chunk_count and self.term_count else 1.0

    def idf(self, term: str) -> float:
        """``ln(1 + (N - n + 0.5) / (n + 0.5))``, positive for every term; ``n`` is at most ``N``, as it may lag
        behind."""
        return self.idf_of(self.chunk_frequency.get(term, 0))

    def idf_of(self, frequency: int) -> float:
        """Return `idf` of a term that occurs in ``frequency`` chunks."""
        frequency = min(frequency, self.chunk_count)
        return math.log1p((self.chunk_count - frequency + 0.5) / (frequency + 0.5))
