"""Plan which ranges of a tenant's vectors have an IVFFlat index, and the steps to get there.

Vectors are numbered in the order of insertion (``seq``). An index covers the rows of one tenant with ``first <= seq <
end``; rows that no index covers, mostly the newest, are compared one by one until their range is closed. A new index
covers every older neighbour of up to `_MERGED` times the newer rows as well, so each range holds more than four times
the rows of all newer ones together: with 5,000 rows for the smallest, there are at most four below 3 million rows.
While a tenant is being filled, neighbours are merged when they have become few in comparison (`_MERGED_GROWING`): a row
is then built into an index once for each power of four of the ranges, instead of with every new range.
"""

import hashlib
import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from pipeline.records import TenantId

IndexState = Literal["wanted", "building", "ready", "retiring"]
Action = Literal["note", "build", "adopt", "retire", "drop", "forget"]
Span = tuple[int, int | None]  # from the first number up to and without the second; None: without end

_MERGED, _MERGED_GROWING = 4.0, 1 / 3
# Above 100,000 rows lists hold more than 100, and above 500,000 always 500: the time to find their centers grows with the
# square of their number.
_ROWS_PER_LIST, _ROWS_PER_LONG_LIST = 100, 500
_FEWEST_LISTS, _MANY_LISTS, _MOST_LISTS = 10, 1000, 4000
# A tenant keeps its indexes until it has shrunk to this share of the size that earned one, to avoid alternating builds
# and drops.
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
    state. Of its ``lists``, ``probes`` find the nearest ten rows and ``deep_probes`` the nearest hundred: None until
    one index of the tenant is measured. ``recall``: as measured, None before. A row in the state ``wanted`` is no
    index: it records how many rows no index covered at the last look.
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
    lists: int = 0
    probes: int | None = None
    deep_probes: int | None = None
    recall: float | None = None
    measured_s: float | None = None


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
    """One action on the index of this name. ``note`` records the tail; ``build`` closes ``first`` to ``end``."""

    action: Action
    table: str
    name: str
    tenant_id: TenantId | None = None
    chunks: int = 0
    first: int | None = None
    end: int | None = None


def index_name(table: str, tenant_id: TenantId, *, first: int, end: int, rows: int) -> str:
    """Return the name of an index: the same for the same range and row count, without revealing the tenant."""
    digest = hashlib.sha256(f"{tenant_id}/{first}/{end}/{rows}".encode()).hexdigest()[:24]
    return f"{table}_ann_{digest}"


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


def plan_range(rows: Sequence[IndexRow], tail: Tail, *, tenant_id: TenantId, table: str, exact_chunks: int) -> Step:
    """Return the next step for one tenant and table, given its recorded indexes and the rows that no index covers.

    Builds at most one index: for the tail once it holds ``exact_chunks`` rows and has stopped growing (or is
    `_LONGEST_TAIL` times as large), for neighbours that have become too similar in size, or again for a range of which
    few rows are left. Otherwise records the tail.
    """
    growing = is_growing(rows, tail)
    ranges = covering(rows)
    factor = _MERGED_GROWING if growing else _MERGED
    looked_before = any(row.state == "wanted" for row in rows)
    long = looked_before and tail.rows > exact_chunks * _LONGEST_TAIL
    closed = tail.rows >= exact_chunks and (long or not growing)
    built = _closing(ranges, tail, factor) if closed else _merging(ranges, factor) or _renewing(ranges)
    action: Action = "build" if built else "note"
    first, end, chunks = built or (tail.first, tail.end, tail.rows)
    name = index_name(table, tenant_id, first=first, end=end, rows=chunks) if built else tail_name(table, tenant_id)
    return Step(action=action, table=table, name=name, tenant_id=tenant_id, chunks=chunks, first=first, end=end)


_Range = tuple[int, int, int]  # first, end, rows


def is_growing(rows: Sequence[IndexRow], tail: Tail) -> bool:
    """Return whether the unindexed rows grew by more than 10 % since the last check; True at the first check."""
    before = next((row for row in rows if row.state == "wanted"), None)
    return before is None or tail.rows > before.chunks * _SETTLED_GROWTH


def inherited(rows: Sequence[IndexRow], chunks: int, *, lists: int) -> tuple[int, int] | None:
    """Return the probes and deep probes to use for an index of ``chunks`` rows until it is measured, from the tenant's
    measured indexes of at most 1.5 times its size (larger indexes need a smaller share of their lists), or None."""
    measured = [
        (row.probes / row.lists, row.deep_probes / row.lists)
        for row in rows
        if row.recall and row.probes and row.deep_probes and row.lists and row.chunks <= 1.5 * chunks
    ]
    if not measured:
        return None
    few, deep = (min(lists, math.ceil(_CAUTION * lists * max(shares))) for shares in zip(*measured, strict=True))
    return few, max(few, deep)


def _closing(ranges: Sequence[IndexRow], tail: Tail, factor: float) -> _Range:
    """Return the range of the tail, with the older ranges that hold too little in comparison."""
    newer = [row for row in ranges if row.first >= tail.first]
    older = [row for row in ranges if row.first < tail.first]
    count = tail.rows + sum(row.chunks for row in newer)
    merged = older[_first_small(older, count, factor) :]
    first = merged[0].first if merged else tail.first
    end = max([tail.end, *(row.end for row in newer)])
    return first, end, count + sum(row.chunks for row in merged)


def _merging(ranges: Sequence[IndexRow], factor: float) -> _Range | None:
    """Return the oldest range that holds too little in comparison with the newer ones, joined with all of them."""
    merged = ranges[_first_small(ranges, 0, factor) :]
    if len(merged) < 2:
        return None
    return merged[0].first, ranges[-1].end, sum(row.chunks for row in merged)


def _first_small(ranges: Sequence[IndexRow], newer: int, factor: float) -> int:
    """Return the index of the oldest range of at most ``factor`` times the newer rows, or the number of ranges."""
    counts = [row.chunks for row in ranges]
    small = (n for n, count in enumerate(counts) if count <= factor * (newer + sum(counts[n + 1 :])))
    return next(small, len(counts))


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
