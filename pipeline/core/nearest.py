"""Which way the nearest vectors of a large tenant are looked for: through every row, or through a graph (HNSW).

The graph visits rows from near to far and drops those that the query's filters exclude; the fewer pass, the more it
visits, and beyond a point reading every row is cheaper and certain. Which it is, is decided before, from a sample.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

# What the graph costs, counted in rows that are read and compared one by one (measured: docs/decisions/0013).
_ENTRY = 3000
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
class SearchPlan:
    """``rows``: how many the namespaces hold, about. ``longest_scan``: rows the graph may visit, 0 for exact."""

    method: Literal["exact", "hnsw"]
    rows: int
    longest_scan: int = 0


def plan_search(*, chunks: int, sample: Sample, limit: int, exact_chunks: int) -> SearchPlan:
    """How to find ``limit`` rows of a tenant with so many ``chunks``.

    Up to ``exact_chunks`` rows in the namespaces are always read. The share that passes is taken two standard
    deviations (of a count: its square root) below what the sample says: a graph that finds too little has been asked in
    vain.
    """
    rows = round(chunks * sample.named / sample.taken) if sample.taken else 0
    passing = sample.passing - 2 * math.sqrt(sample.passing)
    if rows <= exact_chunks or passing <= 0:
        return SearchPlan(method="exact", rows=rows)
    visits = math.ceil(limit * sample.taken / passing)
    if visits > _EXPECTED_AT_MOST or _ENTRY + _VISITED * visits >= rows:
        return SearchPlan(method="exact", rows=rows)
    return SearchPlan(method="hnsw", rows=rows, longest_scan=_SLACK * visits)
