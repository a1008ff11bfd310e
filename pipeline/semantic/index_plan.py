"""Plan which ranges of a tenant's vectors have an index, of which kind (lists of IVFFlat, or an HNSW graph), and the
steps to get there.

Vectors are numbered in the order of insertion (``seq``). An index covers the rows of one tenant with ``first <= seq <
end``; rows that no index covers, mostly the newest, are compared one by one until their range is closed. A new index
covers every older neighbour of up to `_MERGED` times the newer rows as well, so each range holds more than four times
the rows of all newer ones together: with 5,000 rows for the smallest, there are at most four below 3 million rows.
While a tenant is being filled, neighbours are merged when they have become few in comparison (`_MERGED_GROWING`): a row
is then built into an index once for each power of four of the ranges, instead of with every new range.

Lists take a tenth of a graph's time to build, and the cost of their searches grows with the rows. With ``auto`` a range
gets lists first; a graph is built beside those of a large range once its tenant has stopped growing, measured with the
same questions, and used if it is cheaper at the recall to reach.
"""

import hashlib
import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from pipeline.records import TenantId

IndexState = Literal["wanted", "building", "ready", "retiring"]
IndexKind = Literal["hnsw", "ivfflat"]
IndexChoice = Literal["auto", "hnsw", "ivfflat"]
Action = Literal["note", "build", "compare", "adopt", "retire", "drop", "forget"]
Span = tuple[int, int | None]  # from the first number up to and without the second; None: without end

# The recall@10 to guarantee for any question.
RECALL_GOAL = 0.97
# The largest hnsw.ef_search; it stands in the place of a graph's number of lists.
MOST_EF_SEARCH = 1000

_MERGED, _MERGED_GROWING = 4.0, 1 / 3
# A large graph is built again when as many newer rows have come: building one is dear, and searching two of them cheap.
_MERGED_GRAPH = 1.0
# Times the rows of the smallest range: from there on a graph is tried beside the lists (measured: docs/decisions/0098).
LEAST_GRAPH = 10
# Rows of a list grow with the index: the time to find centers grows with the square of the number of lists.
_ROWS_PER_LIST, _ROWS_PER_LONG_LIST = 100, 500
_FEWEST_LISTS, _MANY_LISTS, _MOST_LISTS = 10, 1000, 4000
# A tenant keeps its indexes until it has shrunk to this share of the size that gave it one.
_KEPT_DOWN_TO = 0.5
# An index is rebuilt when this share of the rows it was built from is left.
_WORN_DOWN_TO = 0.5
# Rows that came faster than this since the last look are still being filled in; they wait up to `_LONGEST_TAIL` times
# the smallest range, because ranges that are closed while a tenant is filled have to be merged soon.
_SETTLED_GROWTH = 1.1
_CAUTION = 1.25  # times the share of lists that the tenant's measured indexes need
_LONGEST_TAIL = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRow:
    """The recorded state of one index.

    ``chunks``: rows in its range at the last count, ``built_rows`` at its building. ``idle_s``: seconds in its present
    state. ``graph``: the options of an HNSW graph, None for lists. Of its ``lists``, ``probes`` find the nearest ten rows
    and ``deep_probes`` the nearest hundred: None until one index of the tenant is measured. For a graph they are values
    of ef_search, of which `MOST_EF_SEARCH` is the largest. ``recall``: as measured, None before, and ``search_ms`` how
    long such a search took. ``graph_ms``: how long it took through a graph that was tried in place of these lists;
    infinite if the recall was not reached. A row in the state ``wanted`` is no index: it records how many rows no index
    covered at the last look.
    """

    tenant_id: TenantId
    table: str
    name: str
    state: IndexState
    chunks: int
    idle_s: float
    first: int
    end: int
    built_rows: int = 0
    graph: str | None = None
    lists: int = 0
    probes: int | None = None
    deep_probes: int | None = None
    recall: float | None = None
    search_ms: float | None = None
    graph_ms: float | None = None
    measured_s: float | None = None

    @property
    def kind(self) -> IndexKind:
        """Its access method."""
        return "hnsw" if self.graph else "ivfflat"


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexPolicy:
    """The kind of index that ranges get. ``graph``: the options of new graphs. ``least_rows``: of a range whose lists are
    compared with a graph; ``most_rows``: of the largest range whose graph is built in memory."""

    choice: IndexChoice
    graph: str
    least_rows: int
    most_rows: int

    @property
    def largest(self) -> float:
        """The most rows of a range that is merged from others. Too little memory for large graphs makes lists of all."""
        has_graphs = self.choice != "ivfflat" and self.most_rows >= 2 * self.least_rows
        return self.most_rows if has_graphs else math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingIndex:
    """An index in the database. One that is not ``valid`` was never finished."""

    table: str
    name: str
    valid: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """The rows outside all indexes, and the range to close them. ``first``: where the oldest span with any begins."""

    rows: int
    first: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One action on the index of this name. ``note`` records the tail; ``build`` closes ``first`` to ``end``; ``compare``
    builds a graph beside the lists of this range, to keep the cheaper one. ``graph``: the options of a graph, None for
    lists; ``graph_ms``: of lists that replace a graph."""

    action: Action
    table: str
    name: str
    tenant_id: TenantId | None = None
    chunks: int = 0
    first: int | None = None
    end: int | None = None
    graph: str | None = None
    graph_ms: float | None = None


def index_name(table: str, tenant_id: TenantId, *, first: int, end: int, rows: int, graph: str | None = None) -> str:
    """Return the name of an index: the same for the same range, row count and kind, without revealing the tenant."""
    kind = f"/{graph}" if graph else ""
    digest = hashlib.sha256(f"{tenant_id}/{first}/{end}/{rows}{kind}".encode()).hexdigest()[:24]
    return f"{table}_ann_{digest}"


def graph_options(m: int, ef_construction: int) -> str:
    """Return the options of a graph as PostgreSQL takes them."""
    return f"m = {int(m)}, ef_construction = {int(ef_construction)}"


def graph_bytes(rows: int, *, dimension: int, m: int) -> int:
    """Return a generous estimate of the memory of a graph while it is built: each row has its vector, a record, and 32
    bytes for each of ``m`` links in both directions. A graph without room goes on in its file, ten times as slow."""
    return int(1.1 * rows * (2 * dimension + 34 * m + 220)) + 2**22


def most_graph_rows(dimension: int, *, m: int, memory_mb: int) -> int:
    """Return the rows of the largest graph that is built within ``memory_mb``."""
    return int(((memory_mb << 20) - 2**22) / (graph_bytes(1000, dimension=dimension, m=m) - 2**22) * 1000)


def list_count(rows: int, *, dimension: int, memory_mb: int) -> int:
    """Return the number of lists of an index: one for 100 rows up to 1,000 lists, then one for 500 rows up to 4,000, as
    far as ``memory_mb`` suffices to build them. Finer lists reach the same recall with fewer rows read."""
    wanted = min(rows // _ROWS_PER_LIST, max(_MANY_LISTS, rows // _ROWS_PER_LONG_LIST))
    most = max(_FEWEST_LISTS, min(_MOST_LISTS, wanted))
    fitting = (lists for lists in range(most, _FEWEST_LISTS, -10) if build_bytes(lists, dimension) <= memory_mb << 20)
    return next(fitting, _FEWEST_LISTS)


def build_bytes(lists: int, dimension: int) -> int:
    """Return a generous estimate of the memory for computing the lists' centers; PostgreSQL refuses to build with less."""
    samples = max(10_000, 50 * lists)
    return int(1.3 * (samples * (4 * lists + 2 * dimension + 32) + 8 * lists * (lists + dimension))) + 2**22


def tail_name(table: str, tenant_id: TenantId) -> str:
    """Return the name under which the rows outside all indexes are recorded."""
    return f"{table}_tail_{hashlib.sha256(tenant_id.encode()).hexdigest()[:24]}"


def covering(rows: Iterable[IndexRow]) -> list[IndexRow]:
    """Return the ready indexes of one tenant and table that searches use, oldest range first; none lies within another.

    Of two of the same range the newer one is used.
    """
    ready = [row for row in rows if row.state == "ready"]
    used: list[IndexRow] = []
    for row in sorted(ready, key=lambda row: (row.first, -row.end, row.idle_s, row.name)):
        if not used or row.first >= used[-1].end:
            used.append(row)
    return used


def gaps(spans: Iterable[Span]) -> list[Span]:
    """Return the gaps between these spans, which do not overlap, and the open range after the last one, in order."""
    uncovered: list[Span] = []
    position: int | None = 0
    for first, end in sorted(spans):
        if position is not None and first > position:
            uncovered.append((position, first))
        position = end
    return uncovered if position is None else [*uncovered, (position, None)]


def plan_repairs(
    *,
    sizes: Mapping[TenantId, int],
    tables: Collection[str],
    recorded: Collection[IndexRow],
    existing: Collection[ExistingIndex],
    exact_chunks: int,
    grace_s: float,
) -> list[Step]:
    """Return the steps that make records and indexes agree, and retire indexes that are not needed any more.

    ``sizes``: chunks of each tenant; ``tables``: where indexes are wanted. Called by one process at a time, so nothing
    is being built. An index that is not needed is first taken from the searches and dropped ``grace_s`` later; one
    without a record, or never finished, is dropped at once.
    """
    rows = {(row.table, row.name): row for row in recorded}
    valid = {(index.table, index.name) for index in existing if index.valid}
    steps = [
        Step(action="drop", table=index.table, name=index.name)
        for index in existing
        if not index.valid or (index.table, index.name) not in rows
    ]
    built = (row for key, row in rows.items() if key in valid)
    used = {(row.table, row.name) for group in by_tenant(built).values() for row in covering(group)}
    for key, row in rows.items():
        wanted = row.table in tables and sizes.get(row.tenant_id, 0) > exact_chunks * _KEPT_DOWN_TO
        step = Step(action="forget", table=row.table, name=row.name, tenant_id=row.tenant_id)
        if row.state == "wanted":
            steps += [] if wanted else [step]
        elif key not in valid:  # its builder died, or an operator dropped it
            steps.append(step)
        elif row.state == "building":
            steps.append(replace(step, action="adopt"))
        elif row.state == "retiring":
            steps += [replace(step, action="drop")] if row.idle_s >= grace_s else []
        elif not wanted or key not in used:
            steps.append(replace(step, action="retire"))
    return steps


def plan_range(
    rows: Sequence[IndexRow],
    tail: Tail,
    *,
    tenant_id: TenantId,
    table: str,
    exact_chunks: int,
    policy: IndexPolicy,
) -> Step:
    """Return the next step for one tenant and table, given its recorded indexes and the rows that no index covers.

    Builds at most one index: for the tail once it holds ``exact_chunks`` rows and has stopped growing (or is
    `_LONGEST_TAIL` times as large), for neighbours that have become too similar in size, again for a range of which
    few rows are left, or of another kind if the ``policy`` asks for it and the tail does not grow. Otherwise records the
    tail.
    """
    growing = is_growing(rows, tail)
    ranges = covering(rows)
    factor = _MERGED_GROWING if growing else _MERGED
    looked_before = any(row.state == "wanted" for row in rows)
    long = looked_before and tail.rows > exact_chunks * _LONGEST_TAIL
    closed = tail.rows >= exact_chunks and (long or not growing)
    built = _closing(ranges, tail, factor, policy) if closed else _merging(ranges, factor, policy) or _renewing(ranges)
    step = Step(action="note", table=table, name=tail_name(table, tenant_id), tenant_id=tenant_id)
    if built:
        first, end, chunks = built
        step = replace(step, action="build", first=first, end=end, chunks=chunks)
        step = replace(step, graph=policy.graph if policy.choice == "hnsw" and chunks <= policy.most_rows else None)
    else:
        step = replace(step, first=tail.first, end=tail.end, chunks=tail.rows)
        changed = None if growing else _changing(ranges, policy)
        if changed is None:
            return step
        row, action, graph = changed
        step = replace(step, action=action, first=row.first, end=row.end, chunks=row.chunks, graph=graph)
        # Lists that replace a graph are not compared with one again.
        step = replace(step, graph_ms=math.inf if row.graph and graph is None else None)
    name = index_name(table, tenant_id, first=step.first or 0, end=step.end or 0, rows=step.chunks, graph=step.graph)
    was = next((row.state for row in rows if row.name == name), None)
    return replace(step, action="adopt" if was == "retiring" else step.action, name=name)


_Range = tuple[int, int, int]  # first, end, rows


def is_growing(rows: Sequence[IndexRow], tail: Tail) -> bool:
    """Return whether the unindexed rows grew by more than 10 % since the last check; True at the first check."""
    before = next((row for row in rows if row.state == "wanted"), None)
    return before is None or tail.rows > before.chunks * _SETTLED_GROWTH


def inherited(rows: Sequence[IndexRow], chunks: int, *, lists: int, kind: IndexKind) -> tuple[int, int] | None:
    """Return the probes and deep probes for an index of ``chunks`` rows that is not measured yet, or None.

    They follow from the tenant's measured indexes of the same kind. Those of more than 1.5 times the size do not count: a
    larger index needs a smaller share of its lists."""
    measured = [
        (row.probes / row.lists, row.deep_probes / row.lists)
        for row in rows
        if row.recall and row.probes and row.deep_probes and row.lists and row.chunks <= 1.5 * chunks
        if row.kind == kind
    ]
    if not measured:
        return None
    few, deep = (min(lists, math.ceil(_CAUTION * lists * max(shares))) for shares in zip(*measured, strict=True))
    return few, max(few, deep)


def _closing(ranges: Sequence[IndexRow], tail: Tail, factor: float, policy: IndexPolicy) -> _Range:
    """Return the range of the tail, with the older ranges that hold too little in comparison."""
    newer = [row for row in ranges if row.first >= tail.first]
    older = [row for row in ranges if row.first < tail.first]
    count = tail.rows + sum(row.chunks for row in newer)
    merged = older[_first_small(older, count, factor, policy) :]
    first = merged[0].first if merged else tail.first
    end = max([tail.end, *(row.end for row in newer)])
    return first, end, count + sum(row.chunks for row in merged)


def _merging(ranges: Sequence[IndexRow], factor: float, policy: IndexPolicy) -> _Range | None:
    """Return the oldest range that holds too little in comparison with the newer ones, joined with all of them."""
    merged = ranges[_first_small(ranges, 0, factor, policy) :]
    if len(merged) < 2:
        return None
    return merged[0].first, ranges[-1].end, sum(row.chunks for row in merged)


def _first_small(ranges: Sequence[IndexRow], newer: int, factor: float, policy: IndexPolicy) -> int:
    """Return the index of the oldest range of at most ``factor`` times the newer rows that may be joined with all of
    them, or the number of ranges."""
    for number, row in enumerate(ranges):
        following = newer + sum(later.chunks for later in ranges[number + 1 :])
        most = min(factor, _MERGED_GRAPH) if row.graph and row.chunks >= policy.least_rows else factor
        if row.chunks <= most * following and row.chunks + following <= policy.largest:
            return number
    return len(ranges)


def _changing(ranges: Sequence[IndexRow], policy: IndexPolicy) -> tuple[IndexRow, Action, str | None] | None:
    """Return a range whose index should be of another kind, the action, and the options of a new graph."""
    for row in ranges:
        fits = row.chunks <= policy.most_rows
        if policy.choice == "ivfflat":
            if row.graph:
                return row, "build", None
        elif row.graph:
            is_weak = row.recall is not None and row.recall < RECALL_GOAL
            if is_weak and policy.choice == "auto":
                return row, "build", None
            if row.graph != policy.graph and fits:
                return row, "build", policy.graph
        elif policy.choice == "hnsw" and fits:
            return row, "build", policy.graph
        elif fits and row.chunks >= policy.least_rows and row.search_ms is not None and row.graph_ms is None:
            return row, "compare", policy.graph
    return None


def _renewing(ranges: Sequence[IndexRow]) -> _Range | None:
    """Return a range of which few rows are left."""
    for row in ranges:
        if 0 < row.chunks <= row.built_rows * _WORN_DOWN_TO:
            return row.first, row.end, row.chunks
    return None


def by_tenant(rows: Iterable[IndexRow]) -> dict[tuple[TenantId, str], list[IndexRow]]:
    """Group the recorded indexes by tenant and table."""
    groups: defaultdict[tuple[TenantId, str], list[IndexRow]] = defaultdict(list)
    for row in rows:
        groups[row.tenant_id, row.table].append(row)
    return groups
