"""Find a query's terms in index rows, and count them for many rows at once with a weight for each field."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field

from pipeline.records import FieldTerms

Weight = Annotated[float, Field(ge=0, le=100)]

Places = NDArray[np.integer[Any]]
Frequency = tuple[Places | slice, NDArray[np.float64]]  # the holders, and the weighted count in each

WIDTH = 13  # characters of a token: see keyword.terms.Tokenizer
_FEW: Final = 4  # tokens that are looked for one by one
SLOT_BITS: Final = 16
_SPREAD: Final = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio


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
    _counted: dict[tuple[str, FieldWeights], NDArray[np.float64]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    _found: dict[str, Places] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """Terms of each row, repetitions included."""
        widths = np.fromiter(map(len, self.rows), np.int64, len(self.rows)) + 1
        if np.any(widths[widths > 1] % (WIDTH + 1)):
            raise ValueError(f"tokens of {WIDTH} characters, parted by single spaces, are needed")
        return widths // (WIDTH + 1)

    def counts(self, tokens: Sequence[str], weights: FieldWeights) -> list[NDArray[np.float64]]:
        """Return how often each token counts in every row; computed once, as coverage and score count the same tokens."""
        unknown = [token for token in dict.fromkeys(tokens) if (token, weights) not in self._counted]
        self.find(unknown)
        if weights == FieldWeights():
            found = [self._found[token] for token in unknown]
            size = len(self.rows)
            cells = np.repeat(np.arange(len(found)) * size, [len(each) for each in found])
            cells += np.searchsorted(self._ends, np.concatenate([np.zeros(0, np.int64), *found]), side="right")
            table = np.bincount(cells, minlength=len(found) * size).astype(np.float64).reshape(len(found), size)
            self._counted.update(zip(((token, weights) for token in unknown), table, strict=True))
        for token in unknown:
            if (token, weights) not in self._counted:
                holders, frequency = self.frequency(self._found[token], weights)
                self._counted[token, weights] = np.zeros(len(self.rows))
                self._counted[token, weights][holders] = frequency
        return [self._counted[token, weights] for token in tokens]

    def occurrences(self, token: str) -> Places:
        """Return the positions of a token, counted through all rows. Raises ValueError for a token of another width."""
        self.find([token])
        return self._found[token]

    def find(self, tokens: Iterable[str]) -> None:
        """Find the positions of several tokens in one pass over the rows. Raises ValueError for a token of another width."""
        unknown = [token for token in dict.fromkeys(tokens) if token not in self._found]
        if not unknown:
            return
        if any(len(token) != WIDTH for token in unknown):
            raise ValueError(f"a token has {WIDTH} characters")
        # Tokens are compared by their first and their last eight characters, read as integers.
        written = "".join(unknown).encode("ascii")
        firsts, lasts = (np.ndarray((len(unknown),), np.uint64, written, at, (WIDTH,)).copy() for at in (0, WIDTH - 8))
        starts, ends = self._halves
        if len(unknown) < _FEW or len(set(firsts.tolist())) < len(unknown):
            for token, first, last in zip(unknown, firsts, lasts, strict=True):
                matches = np.flatnonzero(starts == first)
                self._found[token] = matches[ends[matches] == last]
            return
        is_wanted = np.zeros(1 << SLOT_BITS, bool)
        is_wanted[slots_of(firsts)] = True
        places = np.flatnonzero(is_wanted[slots_of(starts)])
        order = firsts.argsort()
        which = order[np.minimum(np.searchsorted(firsts, starts[places], sorter=order), len(unknown) - 1)]
        same = (firsts[which] == starts[places]) & (lasts[which] == ends[places])
        places, which = places[same], which[same]
        grouped = which.argsort(kind="stable")
        bounds = np.searchsorted(which[grouped], np.arange(1, len(unknown)))
        self._found.update(zip(unknown, np.split(places[grouped], bounds), strict=True))

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
        self.find(tokens)
        positions = self._found[tokens[0]]
        for distance, token in enumerate(tokens[1:], start=1):
            others, wanted = self._found[token], positions + distance
            if not len(others) or not len(positions):
                return positions[:0]
            positions = positions[others[np.minimum(others.searchsorted(wanted), len(others) - 1)] == wanted]
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


def slots_of(codes: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return the slot of each code in a table of ``1 << SLOT_BITS`` hashes (multiplicative hashing: Knuth)."""
    return (codes * _SPREAD >> np.uint64(64 - SLOT_BITS)).view(np.int64)


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
