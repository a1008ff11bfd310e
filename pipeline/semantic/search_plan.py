"""Plan how to find the nearest vectors of a large tenant: by reading every row, by chunk id, or through indexes. Lists
(IVFFlat) are read as a whole, the nearest ones first; a graph (HNSW) is walked. Either way the rows are visited from
near to far, and those that the filters exclude are dropped; the fewer rows pass, the more lists are read, or the longer
the walk. Where few rows pass, the host's keyword index lists them, and they are read by id. A sample of rows decides
before the search. Rows outside the indexed ranges are read."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pipeline.records import DocumentId, Namespace

# Costs of an index in rows that are read and compared one by one (measured: docs/decisions/0054): a row of a list lies
# beside its neighbours; a visited one is looked up in the table.
_ENTRY = 500
_LISTED = 0.4
_VISITED = 2
# Of a graph: to come near, and for each row of ef_search, whose neighbours are compared and lie anywhere (decision 98).
_APPROACH, _WALKED = 5_000, 40
_BY_ID = 10  # its page is read for one row

MOST_BY_ID = 20_000  # chunks; listing them takes 5 ms, and listing fewer than all is of no use

_EXPECTED_AT_MOST = 5_000  # an index is not used if it had to visit more rows
_SLACK = 4  # rows that pass may lie farther out than average
_ROOM = 8  # lists must hold this many times the rows to visit; those near one question may be small


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A random sample of a tenant's rows: how many are in the namespaces, and how many of these pass the filters."""

    taken: int
    named: int
    passing: int

    def __post_init__(self) -> None:
        if not 0 <= self.passing <= self.named <= self.taken:
            raise ValueError("a part of a sample is larger than the whole")


@dataclass(frozen=True, slots=True, kw_only=True)
class PassingChunks:
    """All chunks that pass the filters, by ids of 16 bytes, without those of documents that ``changed`` since."""

    chunk_ids: Sequence[bytes]
    changed: Sequence[tuple[Namespace, DocumentId]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedRange:
    """A range of insertion numbers with an index that is ready. ``probes`` and ``deep_probes``: how many of its
    ``lists`` find the nearest ten and the nearest hundred, all of them before it is measured; of a graph, the values of
    ef_search, and the largest one. ``recall``: as measured for the ten."""

    first: int
    end: int
    rows: int
    lists: int
    probes: int
    deep_probes: int
    recall: float | None = None
    is_graph: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchPlan:
    """``rows``: about how many the namespaces hold. ``indexed``: the ranges searched through their indexes, none for
    exact. ``longest_scan``: rows that may be visited in each, 0 for exact. ``probes``: lists that are read of each;
    ``ef_search``: of each graph, 0 without any. ``share``: the share of all rows that is expected to pass the filters, in
    [0, 1]. ``by_id``: reading the rows that pass by their ids is cheaper, if the keyword index can list them."""

    rows: int
    indexed: tuple[IndexedRange, ...] = ()
    longest_scan: int = 0
    probes: int = 1
    ef_search: int = 0
    share: float = 1.0
    by_id: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class VisitedRows:
    """The counts of a search through indexes. ``hits``: rows returned, including those outside the indexes. ``rows``: rows
    that the index scans visited. ``passing``: those of them that passed the filters."""

    hits: int
    rows: int
    passing: int


def plan_search(
    *, ranges: Sequence[IndexedRange], tail: int, sample: Sample, limit: int, exact_chunks: int
) -> SearchPlan:
    """Choose how to find ``limit`` rows of a tenant with these indexed ranges and ``tail`` rows outside them.

    Up to ``exact_chunks`` rows in the namespaces are always read. The share that passes is taken two standard
    deviations (of a count: its square root) below the sample's: an index search that finds too little is wasted. A
    range whose index costs more than its rows is read, with the tail. Reading by id is compared with the cheaper of
    these; the share that passes is taken two standard deviations above the sample's for it.
    """
    chunks = tail + sum(indexed.rows for indexed in ranges)
    rows = round(chunks * sample.named / sample.taken) if sample.taken else 0
    if rows <= exact_chunks:
        return SearchPlan(rows=rows)
    plan, cost = _without_ids(ranges, chunks, rows, sample, limit)
    most = (sample.passing + 2 * math.sqrt(sample.passing + 1)) * chunks / sample.taken
    fewest = (sample.passing - 2 * math.sqrt(sample.passing)) * chunks / sample.taken
    is_filtered = sample.passing < sample.named
    return replace(plan, by_id=is_filtered and fewest <= MOST_BY_ID and _BY_ID * min(most, MOST_BY_ID) < cost)


def _without_ids(
    ranges: Sequence[IndexedRange], chunks: int, rows: int, sample: Sample, limit: int
) -> tuple[SearchPlan, float]:
    """Return the plan that reads every row or the indexes, and its cost."""
    passing = sample.passing - 2 * math.sqrt(sample.passing)
    if passing <= 0:
        return SearchPlan(rows=rows), rows
    visits = math.ceil(limit * sample.taken / passing)
    share = sample.passing / sample.taken
    plan = _with_efforts(SearchPlan(rows=rows, longest_scan=_SLACK * visits, share=share), ranges, visits)
    cheaper = tuple(indexed for indexed in ranges if _cost(indexed, plan, visits) < indexed.rows)
    cost = chunks + sum(_cost(indexed, plan, visits) - indexed.rows for indexed in cheaper)
    if visits > _EXPECTED_AT_MOST or not cheaper or cost >= rows:
        return SearchPlan(rows=rows), rows
    return _with_efforts(plan, cheaper, visits), cost


def replan(plan: SearchPlan, visited: VisitedRows, *, limit: int) -> SearchPlan | None:
    """Return ``plan`` if its result is complete, else a plan that reads more lists or walks longer. Return None if an exact
    search is needed or cheaper.

    Filters can correlate with the question, so the share that passes is measured again among the visited rows. Half of
    the expected share is tolerated: smaller differences are within the error of the sample.
    """
    if visited.hits < limit:
        return None
    share = visited.passing / visited.rows if visited.rows else plan.share
    if share >= plan.share / 2:
        return plan
    visits = math.ceil(limit / share)
    more = _with_efforts(replace(plan, longest_scan=_SLACK * visits, share=share), plan.indexed, visits)
    if more.probes <= plan.probes and more.ef_search <= plan.ef_search:
        return plan
    cost = sum(_cost(indexed, more, visits) for indexed in plan.indexed)
    return None if visits > _EXPECTED_AT_MOST or cost >= plan.rows else more


def _with_efforts(plan: SearchPlan, indexed: Sequence[IndexedRange], visits: int) -> SearchPlan:
    """Return the plan that searches these ranges, with the lists to read of each and the ef_search of graphs: both hold for
    a whole statement."""
    probes = max((_effort(each, plan.share, visits) for each in indexed if not each.is_graph), default=1)
    ef_search = max((_effort(each, plan.share, visits) for each in indexed if each.is_graph), default=0)
    return replace(plan, indexed=tuple(indexed), probes=probes, ef_search=ef_search)


def _effort(indexed: IndexedRange, share: float, visits: int) -> int:
    """Return how many lists to read, or the ef_search of a graph, when a ``share`` of the rows passes the filters.

    The ten nearest passing rows are about the ``10 / share`` nearest of all rows, so the number comes from the power law
    through the two measured points (10 and 100 nearest rows). At least, the lists hold `_ROOM` times the rows to visit, and
    ef_search is the number of these rows: a walk beyond it finds fewer."""
    power = math.log10(indexed.deep_probes / indexed.probes)
    room = visits if indexed.is_graph else _ROOM * visits * indexed.lists / max(1, indexed.rows)
    return min(indexed.lists, math.ceil(max(indexed.probes * math.pow(share, -power), room)))


def _cost(indexed: IndexedRange, plan: SearchPlan, visits: int) -> float:
    """Return the cost of an index search, in rows that are read."""
    if indexed.is_graph:
        return _APPROACH + _WALKED * max(plan.ef_search, visits)
    share = min(1.0, plan.probes / max(1, indexed.lists))
    return _ENTRY + _LISTED * share * indexed.rows + _VISITED * visits
