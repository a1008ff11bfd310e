"""The chunks of one namespace as postings: every token with all the places where it stands, four bytes each.

A place is a number: which chunk, in order of chunk ids, in its upper bits, and which term of the chunk in its lower ones.
No chunk fills its lower bits, so places of two chunks never follow one another, and tokens that stand side by side are
told by their places alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.core.matching import WIDTH, FieldWeights, Frequency, Places, by_holder, weighed_counts
from pipeline.core.sorted_ids import among
from pipeline.records import ChunkId, FieldTerms

_PLACE_BITS = 32
_FEW = 4  # times as many chunks as places: then it is quicker to go from place to place than to count for every chunk
_BITS = np.zeros(256, np.uint64)
_BITS[np.frombuffer(b"abcdefghijklmnopqrstuvwxyz234567", np.uint8)] = np.arange(32, dtype=np.uint64)
_DIGITS = str.maketrans("abcdefghijklmnopqrstuvwxyz234567", "0123456789abcdefghijklmnopqrstuv")


class TooManyPlaces(ValueError):
    """The longest chunk times the number of chunks is more than a place can tell apart."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Postings:
    """Chunks in order of their ids, and where their tokens stand. Made by `PostingsBuilder`; never changed afterwards,
    so threads may share it. Has what `keyword_scoring.score` asks of rows, for all chunks at once."""

    chunk_ids: NDArray[np.bytes_]
    lengths: NDArray[np.int32]
    tokens: NDArray[np.uint64]  # in order
    starts: NDArray[np.int64]  # of each token's places, and where the last ones end
    frequencies: NDArray[np.int32]  # in how many chunks each token stands
    places: NDArray[np.uint32]  # by token, then in order
    position_bits: int
    bounds: tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]  # see `matching.IndexRows`

    @cached_property
    def term_count(self) -> int:
        """Terms of all chunks, repetitions included."""
        return len(self.places)

    @cached_property
    def byte_count(self) -> int:
        """What the arrays take."""
        arrays = (self.chunk_ids, self.lengths, self.tokens, self.starts, self.frequencies, self.places, *self.bounds)
        return sum(array.nbytes for array in arrays)

    def chunk_frequency(self, token: str) -> int:
        """In how many chunks a token stands."""
        number = self._number(token)
        return 0 if number is None else int(self.frequencies[number])

    def occurrences(self, token: str) -> Places:
        """The places of a token, in order."""
        number = self._number(token)
        if number is None:
            return self.places[:0]
        return self.places[self.starts[number] : self.starts[number + 1]]

    def frequency(self, places: Places, weights: FieldWeights) -> Frequency:
        """How often something that stands at these places occurs in the chunks that have it, by the weights of its
        fields."""
        holders = self.holders(places)
        counted = self.counted(places, holders, weights)
        if _FEW * len(places) < len(self.lengths):
            return by_holder(holders, counted)
        return slice(None), np.bincount(holders, counted, minlength=len(self.lengths)).astype(np.float64)

    def counted(self, places: Places, holders: Places, weights: FieldWeights) -> NDArray[np.float64] | None:
        """What each of these places, in these chunks, counts by the weight of its field; None if all count 1."""
        if weights == FieldWeights():
            return None
        return weighed_counts(places & ((1 << self.position_bits) - 1), holders, self.bounds, weights)

    def holders(self, places: Places) -> Places:
        """Which chunk each of these places is in: its place among all."""
        return places >> self.position_bits

    def runs(self, tokens: Sequence[str]) -> Places:
        """The places where these tokens stand one directly after the other in one chunk."""
        places = self.occurrences(tokens[0])
        for distance, token in enumerate(tokens[1:], start=1):
            places = places[np.isin(places + distance, self.occurrences(token), assume_unique=True)]
        return places

    def of(self, chunk_ids: Sequence[ChunkId]) -> SomePostings | None:
        """Those of these chunks that are here, in the order asked for; None if none is."""
        _, numbers = among(self.chunk_ids, chunk_ids)
        return SomePostings(self, numbers) if len(numbers) else None

    def ids(self, numbers: NDArray[np.int64]) -> list[ChunkId]:
        """The chunks at these places among all."""
        return [ChunkId(chunk_id.decode()) for chunk_id in self.chunk_ids[numbers].tolist()]

    def _number(self, token: str) -> int | None:
        if len(token) != WIDTH:
            raise ValueError(f"a token has {WIDTH} characters")
        key = np.uint64(int(token.translate(_DIGITS), 32))  # a plain int would make numbers with a point of all tokens
        number = int(np.searchsorted(self.tokens, key))
        return number if number < len(self.tokens) and self.tokens[number] == key else None


def highest(scores: NDArray[np.float64], count: int, *, among: NDArray[np.bool_] | None = None) -> NDArray[np.int64]:
    """The places of up to ``count`` highest scores, the highest first, equal ones in order; those ``among`` which to look, or
    that are above 0."""
    held = np.flatnonzero(scores > 0 if among is None else among)
    if 0 < count < len(held):
        worst = np.partition(scores[held], len(held) - count)[len(held) - count]
        held = held[scores[held] >= worst]
    order: NDArray[np.int64] = held[np.lexsort((held, -scores[held]))][:count]
    return order


@dataclass(frozen=True, eq=False)
class SomePostings:
    """Some chunks of postings as rows of their own, each once. ``numbers``: the place of each among all."""

    postings: Postings
    numbers: NDArray[np.int64]

    @cached_property
    def lengths(self) -> NDArray[np.int32]:
        """Terms of each chunk, repetitions included."""
        return self.postings.lengths[self.numbers]

    def occurrences(self, token: str) -> Places:
        """The places of a token in these chunks, in order."""
        return self._here(self.postings.occurrences(token))

    def frequency(self, places: Places, weights: FieldWeights) -> Frequency:
        """How often something that stands at these places occurs in the chunks that have it, by the weights of its
        fields."""
        holders = self.postings.holders(places)
        found, frequency = by_holder(holders, self.postings.counted(places, holders, weights))
        return self._rows[found], frequency

    def runs(self, tokens: Sequence[str]) -> Places:
        """The places in these chunks where these tokens stand one directly after the other."""
        return self._here(self.postings.runs(tokens))

    def _here(self, places: Places) -> Places:
        """Those of these places that are in these chunks: of a common token there are many, of which few are looked at."""
        first = self.numbers.astype(np.uint32) << self.postings.position_bits
        last = first | np.uint32((1 << self.postings.position_bits) - 1)
        starts, ends = np.searchsorted(places, first), np.searchsorted(places, last, side="right")
        counts = ends - starts
        found: Places = places[np.repeat(ends - np.cumsum(counts), counts) + np.arange(counts.sum())]
        return found

    @cached_property
    def _rows(self) -> NDArray[np.int32]:
        """Of each chunk of all which row it is."""
        rows = np.zeros(len(self.postings.lengths), np.int32)
        rows[self.numbers] = np.arange(len(self.numbers), dtype=np.int32)
        return rows


@dataclass(frozen=True, slots=True)
class _Block:
    """Some rows, their terms as numbers within the block."""

    chunk_ids: list[bytes]
    lengths: NDArray[np.int32]
    fields: NDArray[np.int32]
    tokens: NDArray[np.uint64]
    numbers: NDArray[np.int32]


class PostingsBuilder:
    """Takes the rows of a namespace, some at a time and in any order, and makes postings of all of them.

    While `build` runs it takes some twelve bytes a term, three times what it gives.
    """

    def __init__(self) -> None:
        self._blocks: list[_Block] = []
        self.term_count = 0

    def add(self, chunk_ids: Sequence[ChunkId], rows: Sequence[bytes], fields: Sequence[FieldTerms]) -> None:
        """Chunks, each with its tokens joined by single spaces, and how many of them are of which field. Raises
        ValueError if a row is not made of tokens."""
        lengths = np.array([(len(row) + 1) // (WIDTH + 1) for row in rows], dtype=np.int32)
        if any((len(row) + 1) % (WIDTH + 1) for row in rows if row):
            raise ValueError(f"tokens of {WIDTH} characters, parted by single spaces, are needed")
        tokens, numbers = np.unique(_keys(b" ".join(filter(None, rows)), int(lengths.sum())), return_inverse=True)
        counted = [(each.title, each.summary, each.entity_names) for each in fields]
        self._blocks.append(
            _Block(
                [chunk_id.encode() for chunk_id in chunk_ids],
                lengths,
                np.array(counted, dtype=np.int32).reshape(-1, 3),
                tokens,
                numbers.astype(np.int32),
            )
        )
        self.term_count += len(numbers)

    def build(self) -> Postings:
        """What was added; the builder is empty afterwards. Raises TooManyPlaces."""
        blocks, self._blocks = self._blocks, []
        chunk_ids = np.array([chunk_id for block in blocks for chunk_id in block.chunk_ids], dtype=bytes)
        lengths = np.concatenate([np.zeros(0, np.int32), *(block.lengths for block in blocks)])
        title, summary, names = np.concatenate([np.zeros((0, 3), np.int32), *(block.fields for block in blocks)]).T
        position_bits = int(lengths.max(initial=0)).bit_length()
        if len(lengths) << position_bits > 1 << _PLACE_BITS:
            raise TooManyPlaces(f"{len(lengths)} chunks of up to {lengths.max()} terms")
        order = np.argsort(chunk_ids, kind="stable")
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        tokens = np.unique(np.concatenate([np.zeros(0, np.uint64), *(block.tokens for block in blocks)]))
        keyed = _by_token(blocks, rank << position_bits, tokens, self.term_count)
        self.term_count = 0
        starts = np.searchsorted(keyed, np.arange(len(tokens) + 1, dtype=np.uint64) << np.uint64(_PLACE_BITS))
        places = keyed.astype(np.uint32)  # keeps the lower half
        del keyed
        before_names = (lengths - names)[order]
        return Postings(
            chunk_ids=chunk_ids[order],
            lengths=lengths[order],
            tokens=tokens,
            starts=starts,
            frequencies=_frequencies(places >> position_bits, starts),
            places=places,
            position_bits=position_bits,
            bounds=(title[order], before_names - summary[order], before_names),
        )


def _keys(everything: bytes, count: int) -> NDArray[np.uint64]:
    """Each token as the number that its digits say: 13 of base 32, the first of which carries four bits."""
    keys = np.zeros(count, np.uint64)
    if count:
        digits = np.ndarray((count, WIDTH), np.uint8, everything, 0, (WIDTH + 1, 1))
        for place in range(WIDTH):
            keys <<= np.uint64(5)
            keys |= _BITS[digits[:, place]]
    return keys


def _by_token(
    blocks: list[_Block], firsts: NDArray[np.int64], tokens: NDArray[np.uint64], count: int
) -> NDArray[np.uint64]:
    """The number of each term's token above its place, in order. ``firsts``: the first place of each chunk. Blocks are
    let go of as they are read."""
    keyed = np.empty(count, np.uint64)
    term = chunk = 0
    for at, block in enumerate(blocks):
        blocks[at] = _NOTHING
        inside = np.arange(len(block.numbers)) - np.repeat(np.cumsum(block.lengths) - block.lengths, block.lengths)
        place = np.repeat(firsts[chunk : chunk + len(block.lengths)], block.lengths) + inside
        number = np.searchsorted(tokens, block.tokens).astype(np.uint64)[block.numbers]
        keyed[term : term + len(place)] = number << np.uint64(_PLACE_BITS) | place.astype(np.uint64)
        term, chunk = term + len(place), chunk + len(block.lengths)
    keyed.sort()
    return keyed


def _frequencies(holders: NDArray[Any], starts: NDArray[np.int64]) -> NDArray[np.int32]:
    """How many different chunks hold each token."""
    if not len(holders):
        return np.zeros(0, np.int32)
    first = np.ones(len(holders), bool)
    np.not_equal(holders[1:], holders[:-1], out=first[1:])
    first[starts[:-1]] = True
    counted: NDArray[np.int32] = np.add.reduceat(first, starts[:-1], dtype=np.int32)
    return counted


_NOTHING = _Block([], np.zeros(0, np.int32), np.zeros((0, 3), np.int32), np.zeros(0, np.uint64), np.zeros(0, np.int32))
