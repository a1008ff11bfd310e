"""Which way the nearest vectors of a large tenant are looked for: through every row, or through graphs (HNSW).

A graph visits rows from near to far and drops those that the query's filters exclude; the fewer pass, the more it
visits, and beyond a point reading every row is cheaper and certain. Which it is, is decided before, from a sample, and
for each range that has a graph by itself. Rows outside these ranges are read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

Distance = Literal["cosine", "euclidean"]

# The score of two unit vectors at right angles: ``1 - distance``, or ``1 / (1 + distance)`` with the distance sqrt(2).
ORTHOGONAL: Final[dict[Distance, float]] = {"cosine": 0.0, "euclidean": 1 / (1 + math.sqrt(2))}

# What a graph costs, counted in rows that are read and compared one by one (measured: docs/decisions/0054).
_ENTRY = 1500
_VISITED = 10

# A graph that would have to visit more than this is not asked.
LONGEST_SCAN = 20_000
_EXPECTED_AT_MOST = LONGEST_SCAN // 4
_SLACK = 4  # rows that pass may lie farther out than the average says


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Of so many of a tenant's rows taken at random, how many are in the namespaces, and how many of these pass the
    filters."""

    taken: int
    named: int
    passing: int

    def __post_init__(self) -> None:
        if not 0 <= self.passing <= self.named <= self.taken:
            raise ValueError("a part of a sample is larger than the whole")


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedRange:
    """A range of insertion numbers with a graph that is ready. ``ef_search``: what reaches the recall; ``recall``: the
    measured one, if it was. ``whole``: of a tenant whose index was built before there were ranges; it has no end."""

    first: int
    end: int | None
    rows: int
    ef_search: int
    recall: float | None = None
    whole: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchPlan:
    """``rows``: how many the namespaces hold, about. ``graphs``: the ranges searched through their graphs, none for exact.
    ``longest_scan``: rows each graph may visit, 0 for exact."""

    rows: int
    graphs: tuple[IndexedRange, ...] = ()
    longest_scan: int = 0


def plan_search(
    *, ranges: Sequence[IndexedRange], tail: int, sample: Sample, limit: int, exact_chunks: int
) -> SearchPlan:
    """How to find ``limit`` rows of a tenant with these indexed ranges and ``tail`` rows outside them.

    Up to ``exact_chunks`` rows in the namespaces are always read. The share that passes is taken two standard
    deviations (of a count: its square root) below what the sample says: a graph that finds too little has been asked in
    vain. A range whose graph costs more than its rows is read, with the tail.
    """
    chunks = tail + sum(each.rows for each in ranges)
    rows = round(chunks * sample.named / sample.taken) if sample.taken else 0
    passing = sample.passing - 2 * math.sqrt(sample.passing)
    if rows <= exact_chunks or passing <= 0:
        return SearchPlan(rows=rows)
    visits = math.ceil(limit * sample.taken / passing)
    graphs = tuple(each for each in ranges if _cost(each, visits) < each.rows)
    cost = chunks + sum(_cost(each, visits) - each.rows for each in graphs)
    if visits > _EXPECTED_AT_MOST or not graphs or cost >= rows:
        return SearchPlan(rows=rows)
    return SearchPlan(rows=rows, graphs=graphs, longest_scan=_SLACK * visits)


def _cost(indexed: IndexedRange, visits: int) -> int:
    """In rows that are read."""
    return _ENTRY + _VISITED * max(indexed.ef_search, visits)
