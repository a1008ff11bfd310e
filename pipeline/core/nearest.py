"""Which way the nearest vectors of a large tenant are looked for: through every row, or through indexes (IVFFlat).

An index reads the lists whose centers are nearest, visits their rows from near to far, and drops those that the query's
filters exclude; the fewer pass, the more lists it reads, and beyond a point reading every row is cheaper and certain. Which
it is, is decided before, from a sample. Rows outside the indexed ranges are read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

Distance = Literal["cosine", "euclidean"]

# The score of two unit vectors at right angles: ``1 - distance``, or ``1 / (1 + distance)`` with the distance sqrt(2).
ORTHOGONAL: Final[dict[Distance, float]] = {"cosine": 0.0, "euclidean": 1 / (1 + math.sqrt(2))}

# Costs of an index in rows that are read and compared one by one (measured: docs/decisions/0054): a row of a
# list lies beside its neighbours; one that is visited is looked up in the table.
_ENTRY = 500
_LISTED = 0.4
_VISITED = 2

# An index that would have to visit more than a quarter of this is not asked.
LONGEST_SCAN = 20_000
_EXPECTED_AT_MOST = LONGEST_SCAN // 4
_SLACK = 4  # rows that pass may lie farther out than the average says
_ROOM = 8  # times the rows to visit that the lists hold on average; the lists near one question may be small


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
    """A range of insertion numbers with an index that is ready. ``probes`` and ``deep_probes``: how many of its ``lists``
    find the nearest ten and the nearest hundred, all of them before it is measured; ``recall``: the measured one of the
    ten. ``whole``: an HNSW index of a whole tenant, from before there were ranges; it has no end."""

    first: int
    end: int | None
    rows: int
    lists: int
    probes: int
    deep_probes: int
    recall: float | None = None
    whole: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchPlan:
    """``rows``: how many the namespaces hold, about. ``indexed``: the ranges searched through their indexes, none for
    exact. ``longest_scan``: rows that may be visited in each, 0 for exact. ``probes``: lists that are read of each.
    ``share``: the share of all rows that is expected to pass the filters, in [0, 1]."""

    rows: int
    indexed: tuple[IndexedRange, ...] = ()
    longest_scan: int = 0
    probes: int = 1
    share: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Visited:
    """The counts of a search through indexes. ``hits``: rows returned, including those outside the indexes. ``rows``: rows
    that the index scans visited. ``passing``: those of them that passed the filters."""

    hits: int
    rows: int
    passing: int


def plan_search(
    *, ranges: Sequence[IndexedRange], tail: int, sample: Sample, limit: int, exact_chunks: int
) -> SearchPlan:
    """How to find ``limit`` rows of a tenant with these indexed ranges and ``tail`` rows outside them.

    Up to ``exact_chunks`` rows in the namespaces are always read. The share that passes is taken two standard
    deviations (of a count: its square root) below what the sample says: an index that finds too little has been asked in
    vain. A range whose index costs more than its rows is read, with the tail.
    """
    chunks = tail + sum(each.rows for each in ranges)
    rows = round(chunks * sample.named / sample.taken) if sample.taken else 0
    passing = sample.passing - 2 * math.sqrt(sample.passing)
    if rows <= exact_chunks or passing <= 0:
        return SearchPlan(rows=rows)
    visits = math.ceil(limit * sample.taken / passing)
    share = sample.passing / sample.taken
    probes = max((_probes(each, share, visits) for each in ranges), default=1)
    indexed = tuple(each for each in ranges if _cost(each, probes, visits) < each.rows)
    cost = chunks + sum(_cost(each, probes, visits) - each.rows for each in indexed)
    if visits > _EXPECTED_AT_MOST or not indexed or cost >= rows:
        return SearchPlan(rows=rows)
    return SearchPlan(rows=rows, indexed=indexed, longest_scan=_SLACK * visits, probes=probes, share=share)


def replan(plan: SearchPlan, visited: Visited, *, limit: int) -> SearchPlan | None:
    """Return ``plan`` if its result is complete, a plan that reads more lists if fewer rows near the question passed than
    the sample promised, or None if an exact search is needed or cheaper.

    Filters can correlate with the question, so the share that passes is measured again among the visited rows. Half of
    the expected share is tolerated: smaller differences are within the error of the sample.
    """
    if visited.hits < limit:
        return None
    share = visited.passing / visited.rows if visited.rows else plan.share
    if plan.indexed[0].whole or share >= plan.share / 2:
        return plan
    visits = math.ceil(limit / share)
    probes = max(_probes(each, share, visits) for each in plan.indexed)
    if probes <= plan.probes:
        return plan
    cost = sum(_cost(each, probes, visits) for each in plan.indexed)
    if visits > _EXPECTED_AT_MOST or cost >= plan.rows:
        return None
    return replace(plan, probes=probes, longest_scan=_SLACK * visits, share=share)


def _probes(indexed: IndexedRange, share: float, visits: int) -> int:
    """Return how many lists to read when a ``share`` of the rows passes the filters. The ten nearest passing rows are about
    the ``10 / share`` nearest of all rows, so the number is read off the power law through the two measured points (10 and
    100 nearest rows). It is never less than the lists that hold `_ROOM` times the rows to visit."""
    power = math.log10(indexed.deep_probes / indexed.probes)
    room = _ROOM * visits * indexed.lists / max(1, indexed.rows)
    return min(indexed.lists, math.ceil(max(indexed.probes * math.pow(share, -power), room)))


def _cost(indexed: IndexedRange, probes: int, visits: int) -> float:
    """In rows that are read."""
    share = min(1.0, probes / max(1, indexed.lists))
    return _ENTRY + _LISTED * share * indexed.rows + _VISITED * visits
