"""BM25 by its formula, one document at a time: the reference for `pipeline.keyword.scoring`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from pipeline.keyword.scoring import K1, B, Collection


@dataclass(frozen=True, slots=True, kw_only=True)
class TermCounts:
    """One chunk as BM25 sees it: how often each term occurs in it, and how many terms it has, repetitions included."""

    frequency: Mapping[str, int]
    length: int

    @classmethod
    def of(cls, terms: Iterable[str]) -> Self:
        """Count all of a chunk's terms."""
        frequency = Counter(terms)
        return cls(frequency=frequency, length=frequency.total())


def bm25(
    query: Sequence[str], documents: Iterable[TermCounts], collection: Collection, *, k1: float = K1, b: float = B
) -> list[float]:
    """The score of each document, in order; higher is better, 0 where no term of the query occurs.

    ``sum over the query's distinct terms t of idf(t) * tf * (k1 + 1) / (tf + k1 * (1 - b + b * length / average_length))``
    with ``tf`` the occurrences of ``t`` in the document and ``idf`` as in `Collection.idf`. A term that the query
    repeats counts once. Every score is below `upper_bound` of the same query and collection.
    """
    weights = [(term, collection.idf(term) * (k1 + 1)) for term in dict.fromkeys(query)]
    fixed, by_length = k1 * (1 - b), k1 * b / collection.average_length
    scores = []
    for document in documents:
        damping = fixed + by_length * document.length
        frequency_of = document.frequency.get
        score = 0.0
        for term, weight in weights:
            frequency = frequency_of(term, 0)
            if frequency:
                score += weight * frequency / (frequency + damping)
        scores.append(score)
    return scores


def upper_bound(query: Sequence[str], collection: Collection, *, k1: float = K1) -> float:
    """Return the least upper bound of all scores: ``(k1 + 1)`` times the summed idf of the query's distinct terms.

    A score divided by it lies in [0, 1] and measures how much of the query a chunk answers, independent of other hits.
    It is 0 only for a query without terms.
    """
    return (k1 + 1) * sum(collection.idf(term) for term in dict.fromkeys(query))
