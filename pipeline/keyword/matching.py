"""Where a query's terms stand in index rows, counted for many rows at once, each field with its own weight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field

from pipeline.records import FieldTerms

Weight = Annotated[float, Field(ge=0, le=100)]

Places = NDArray[np.integer[Any]]
Frequency = tuple[Places | slice, NDArray[np.float64]]  # which chunks, and how often in each

WIDTH = 13  # characters of a token: see keyword.terms.Tokenizer


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldWeights:
    """How much an occurrence in each field counts; 1 is that of a plain word in the body of a text."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    title: Weight = 1.0
    body: Weight = 1.0
    summary: Weight = 1.0
    entity_names: Weight = 1.0

    def __post_init__(self) -> None:
        if not (self.title or self.body or self.summary or self.entity_names):
            raise ValueError("leave no field with a weight above 0")


class Occurrences(Protocol):
    """Chunks, of which is known where tokens stand in them. What a place is, only who gave it knows."""

    @property
    def lengths(self) -> NDArray[np.integer[Any]]:
        """Terms of each chunk, repetitions included."""
        ...

    def occurrences(self, token: str) -> Places:
        """The places of a token, in order. Raises ValueError for a token of another width."""
        ...

    def frequency(self, places: Places, weights: FieldWeights) -> Frequency:
        """How often something that stands at these places, which come chunk by chunk, occurs in the chunks that have it,
        by the weights of its fields."""
        ...

    def runs(self, tokens: Sequence[str]) -> Places:
        """The places where these tokens stand one directly after the other in one chunk."""
        ...


@dataclass(frozen=True)
class IndexRows:
    """Chunks as the index has them: tokens of one width joined by single spaces, and how many are of which field.

    Raises ValueError on use if a row is not made of such tokens.
    """

    rows: Sequence[bytes]
    fields: Sequence[FieldTerms]

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """Terms of each row, repetitions included."""
        if any((len(row) + 1) % (WIDTH + 1) for row in self.rows if row):
            raise ValueError(f"tokens of {WIDTH} characters, parted by single spaces, are needed")
        return np.array([(len(row) + 1) // (WIDTH + 1) for row in self.rows], dtype=np.int64)

    def occurrences(self, token: str) -> Places:
        """The places of a token, in order, counted through all rows. Raises ValueError for a token of another width."""
        if len(token) != WIDTH:
            raise ValueError(f"a token has {WIDTH} characters")
        # A token is told by its first and its last eight characters, read as numbers.
        first, last = (np.frombuffer(token.encode("ascii"), np.uint64, 1, offset)[0] for offset in (0, WIDTH - 8))
        starts, ends = self._halves
        found = np.flatnonzero(starts == first)
        same: NDArray[np.int64] = found[ends[found] == last]
        return same

    def frequency(self, places: Places, weights: FieldWeights) -> Frequency:
        """How often something that stands at these places occurs in the rows that have it, by the weights of its fields."""
        holders = np.searchsorted(self._ends, places, side="right")
        if weights == FieldWeights():
            return by_holder(holders)
        inside = places - (self._ends - self.lengths)[holders]
        return by_holder(holders, weighed_counts(inside, holders, self._bounds, weights))

    def runs(self, tokens: Sequence[str]) -> Places:
        """The places where these tokens stand one directly after the other in one row."""
        places = self.occurrences(tokens[0])
        for distance, token in enumerate(tokens[1:], start=1):
            places = places[np.isin(places + distance, self.occurrences(token), assume_unique=True)]
        holders = np.searchsorted(self._ends, places, side="right")
        return places[places + len(tokens) <= self._ends[holders]]

    @cached_property
    def _ends(self) -> NDArray[np.int64]:
        return np.cumsum(self.lengths)

    @cached_property
    def _halves(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        count = int(self.lengths.sum())
        if not count:
            return np.zeros(0, np.uint64), np.zeros(0, np.uint64)
        everything = b" ".join(filter(None, self.rows))
        starts, ends = (
            np.ascontiguousarray(np.ndarray((count,), np.uint64, everything, offset, (WIDTH + 1,)))
            for offset in (0, WIDTH - 8)
        )
        return starts, ends

    @cached_property
    def _bounds(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Of each row: where its body begins, where its summary and where its entity names do."""
        title = np.array([each.title for each in self.fields], dtype=np.int64)
        names = self.lengths - np.array([each.entity_names for each in self.fields], dtype=np.int64)
        return title, names - np.array([each.summary for each in self.fields], dtype=np.int64), names


def by_holder(holders: Places, counted: NDArray[np.float64] | None = None) -> tuple[Places, NDArray[np.float64]]:
    """Each holder once, and what its occurrences count together: 1 each where nothing is said. Those of one holder come one
    after the other."""
    # np.diff with its ends put on takes four times as long, and a query does this for each of its words.
    edges = np.empty(len(holders) + 1, bool)
    edges[0] = edges[-1] = True
    np.not_equal(holders[1:], holders[:-1], out=edges[1:-1])
    bounds = np.flatnonzero(edges) if len(holders) else np.zeros(1, np.int64)
    starts = bounds[:-1]
    if counted is None:
        return holders[starts], (bounds[1:] - starts).astype(np.float64)
    return holders[starts], np.add.reduceat(counted, starts) if len(starts) else counted


def weighed_counts(
    inside: Places, holders: Places, bounds: Sequence[NDArray[np.integer[Any]]], weights: FieldWeights
) -> NDArray[np.float64]:
    """Return each occurrence's weight: ``inside`` its position in its chunk of ``holders``, ``bounds`` where each
    chunk's body, summary and entity names begin."""
    before, after, names = bounds
    counted = np.full(len(inside), weights.body)
    counted[inside < before[holders]] = weights.title
    counted[inside >= after[holders]] = weights.summary
    counted[inside >= names[holders]] = weights.entity_names
    return counted


def damping(lengths: NDArray[np.integer[Any]], *, average: float, k1: float, b: float) -> NDArray[np.float64]:
    """What keeps a term that occurs ``tf`` times in a row from counting fully: it counts ``tf / (tf + damping)``, with
    ``damping = k1 * (1 - b + b * length / average)``."""
    return k1 * (1 - b + b * lengths.astype(np.float64) / average)
