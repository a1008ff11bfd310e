"""Find a query's terms in index rows, and count them for many rows at once with a weight for each field."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field

from pipeline.records import FieldTerms

Weight = Annotated[float, Field(ge=0, le=100)]

Places = NDArray[np.integer[Any]]
Frequency = tuple[Places | slice, NDArray[np.float64]]  # the holders, and the weighted count in each

WIDTH = 13  # characters of a token: see keyword.terms.Tokenizer


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldWeights:
    """The weight of an occurrence in each field; 1 is that of a plain word in the body of a text."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    title: Weight = 1.0
    body: Weight = 1.0
    summary: Weight = 1.0
    entity_names: Weight = 1.0

    def __post_init__(self) -> None:
        if not (self.title or self.body or self.summary or self.entity_names):
            raise ValueError("leave no field with a weight above 0")


@dataclass(frozen=True)
class IndexRows:
    """Index rows of chunks: tokens of one width joined by single spaces, and how many belong to each field.

    Raises ValueError on use if a row is not made of such tokens.
    """

    rows: Sequence[bytes]
    fields: Sequence[FieldTerms]
    _counted: dict[tuple[str, FieldWeights], Frequency] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """Terms of each row, repetitions included."""
        widths = np.fromiter(map(len, self.rows), np.int64, len(self.rows)) + 1
        if np.any(widths[widths > 1] % (WIDTH + 1)):
            raise ValueError(f"tokens of {WIDTH} characters, parted by single spaces, are needed")
        return widths // (WIDTH + 1)

    def counts(self, token: str, weights: FieldWeights) -> Frequency:
        """Return how often a token counts in each row; computed once, as coverage and score count the same tokens."""
        key = token, weights
        if key not in self._counted:
            self._counted[key] = self.frequency(self.occurrences(token), weights)
        return self._counted[key]

    def occurrences(self, token: str) -> Places:
        """Return the positions of a token, counted through all rows. Raises ValueError for a token of another width."""
        if len(token) != WIDTH:
            raise ValueError(f"a token has {WIDTH} characters")
        # Tokens are compared by their first and their last eight characters, read as integers.
        first, last = (np.frombuffer(token.encode("ascii"), np.uint64, 1, offset)[0] for offset in (0, WIDTH - 8))
        starts, ends = self._halves
        matches = np.flatnonzero(starts == first)
        same: NDArray[np.int64] = matches[ends[matches] == last]
        return same

    def frequency(self, positions: Places, weights: FieldWeights) -> Frequency:
        """Return how often the occurrences at these positions count in each row, by the weights of its fields."""
        holders = np.searchsorted(self._ends, positions, side="right")
        if weights == FieldWeights():
            return by_holder(holders)
        inside = positions - (self._ends - self.lengths)[holders]
        before, after, names = self._bounds
        counted = np.full(len(inside), weights.body)
        counted[inside < before[holders]] = weights.title
        counted[inside >= after[holders]] = weights.summary
        counted[inside >= names[holders]] = weights.entity_names
        return by_holder(holders, counted)

    def runs(self, tokens: Sequence[str]) -> Places:
        """Return the start positions of these tokens as a run within one row."""
        positions = self.occurrences(tokens[0])
        for distance, token in enumerate(tokens[1:], start=1):
            positions = positions[np.isin(positions + distance, self.occurrences(token), assume_unique=True)]
        holders = np.searchsorted(self._ends, positions, side="right")
        return positions[positions + len(tokens) <= self._ends[holders]]

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
        """The offsets of each row's body, summary and entity names."""
        title = np.array([field.title for field in self.fields], dtype=np.int64)
        names = self.lengths - np.array([field.entity_names for field in self.fields], dtype=np.int64)
        return title, names - np.array([field.summary for field in self.fields], dtype=np.int64), names


def by_holder(holders: Places, counted: NDArray[np.float64] | None = None) -> tuple[Places, NDArray[np.float64]]:
    """Return each holder once with the sum of its ``counted`` (default: 1 each). Equal holders are adjacent."""
    # np.diff with prepended and appended ends takes four times as long, and a query does this for each of its words.
    edges = np.empty(len(holders) + 1, bool)
    edges[0] = edges[-1] = True
    np.not_equal(holders[1:], holders[:-1], out=edges[1:-1])
    bounds = np.flatnonzero(edges) if len(holders) else np.zeros(1, np.int64)
    starts = bounds[:-1]
    if counted is None:
        return holders[starts], (bounds[1:] - starts).astype(np.float64)
    return holders[starts], np.add.reduceat(counted, starts) if len(starts) else counted
