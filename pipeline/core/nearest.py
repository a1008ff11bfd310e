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
_ROOM = 8  # lists that are read hold so many times the rows to be visited: those of one question may be small ones


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
    ``share``: of the rows, as far as they are expected to pass."""

    rows: int
    indexed: tuple[IndexedRange, ...] = ()
    longest_scan: int = 0
    probes: int = 1
    share: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Visited:
    """What came of a search through indexes: ``hits`` in all; of the ``rows`` visited in indexes, ``passing`` ones."""

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
    """Return the plan that was followed if what came of it can be believed, else one that reads as many lists as the share
    of rows that passed near the question asks for, else None: every row is to be read.

    A filter may have to do with what is asked, and let fewer rows pass there than elsewhere (by half: a sample and a
    hundred rows tell no less).
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
    """As many lists as find the best among the ``share`` of rows that pass. The best ten of these are about the nearest
    ``10 / share`` of all, and the lists that find so many grow as a power of their number: the one that leads from the ten
    to the hundred that were measured. At least the lists that hold `_ROOM` times the rows to be visited."""
    power = math.log10(indexed.deep_probes / indexed.probes)
    room = _ROOM * visits * indexed.lists / max(1, indexed.rows)
    return min(indexed.lists, math.ceil(max(indexed.probes * math.pow(share, -power), room)))


def _cost(indexed: IndexedRange, probes: int, visits: int) -> float:
    """In rows that are read."""
    share = min(1.0, probes / max(1, indexed.lists))
    return _ENTRY + _LISTED * share * indexed.rows + _VISITED * visits
