"""Which approximate indexes there should be, and what is to be done about those there are."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

from pipeline.records import TenantId

IndexState = Literal["wanted", "building", "ready", "retiring"]

# A tenant keeps its index until it has shrunk to this share of what earned it one: no building and dropping by turns.
_KEPT_DOWN_TO = 0.5
# One that grows faster than this between two looks is being filled: a graph is built several times faster afterwards.
_SETTLED_GROWTH = 1.1


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexShape:
    """How a graph is built: neighbours of a row (``m``), and candidates they are chosen from."""

    m: int
    ef_construction: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRow:
    """What is noted of one index. ``idle_s``: how long its state stands."""

    tenant_id: TenantId
    table: str
    name: str
    state: IndexState
    chunks: int
    idle_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """An index that the database has. One that is not ``valid`` was never finished."""

    table: str
    name: str
    valid: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing to do, always with the index of this name."""

    action: Literal["note", "await", "build", "adopt", "count", "retire", "revive", "drop", "forget"]
    table: str
    name: str
    tenant_id: TenantId | None = None
    chunks: int = 0


def index_name(table: str, tenant_id: TenantId, shape: IndexShape) -> str:
    """The same for the same tenant, table and shape. Does not tell the tenant."""
    digest = hashlib.sha256(tenant_id.encode()).hexdigest()[:16]
    return f"{table}_ann_{digest}_{shape.m}_{shape.ef_construction}"


def plan_indexes(
    *,
    sizes: Mapping[TenantId, int],
    tables: Collection[str],
    noted: Collection[IndexRow],
    found: Collection[Found],
    shape: IndexShape,
    exact_chunks: int,
    grace_s: float,
) -> list[Step]:
    """What brings the indexes to what they should be. Called by one process at a time, so nothing is being built.

    ``sizes``: chunks of each tenant; ``tables``: where indexes are wanted. A tenant with more than ``exact_chunks`` gets
    one as soon as it has stopped growing. One that is not needed any more is first taken from the searches and dropped
    ``grace_s`` later; one that nobody noted, or that was never finished, is dropped at once.
    """
    rows = {(row.table, row.name): row for row in noted}
    there = {(each.table, each.name): each for each in found}
    steps: list[Step] = []
    for key, index in there.items():
        if not index.valid or key not in rows or rows[key].state == "wanted":
            steps.append(Step(action="drop", table=index.table, name=index.name))
    for key, row in rows.items():
        index_there = key in there and there[key].valid
        wanted = _is_wanted(row, sizes, tables, rows, shape, exact_chunks)
        steps += _steps_of_row(row, sizes.get(row.tenant_id, 0), wanted, there=index_there, grace_s=grace_s)
    for tenant_id, chunks in sizes.items():
        for table in tables:
            name = index_name(table, tenant_id, shape)
            if chunks > exact_chunks and (table, name) not in rows:
                steps.append(Step(action="note", table=table, name=name, tenant_id=tenant_id, chunks=chunks))
    return steps


def _is_wanted(
    row: IndexRow,
    sizes: Mapping[TenantId, int],
    tables: Collection[str],
    rows: Mapping[tuple[str, str], IndexRow],
    shape: IndexShape,
    exact_chunks: int,
) -> bool:
    chunks = sizes.get(row.tenant_id, 0)
    if row.table not in tables or chunks <= exact_chunks * _KEPT_DOWN_TO:
        return False
    current = index_name(row.table, row.tenant_id, shape)
    if row.name == current:
        return row.state in ("ready", "building") or chunks > exact_chunks
    # Of another shape: it serves until the one that replaces it is ready.
    replacement = rows.get((row.table, current))
    return row.state == "ready" and (replacement is None or replacement.state != "ready")


def _steps_of_row(row: IndexRow, chunks: int, wanted: bool, *, there: bool, grace_s: float) -> list[Step]:
    def step(action: Literal["await", "build", "adopt", "count", "retire", "revive", "drop", "forget"]) -> list[Step]:
        return [Step(action=action, table=row.table, name=row.name, tenant_id=row.tenant_id, chunks=chunks)]

    if row.state == "wanted":
        if not wanted:
            return step("forget")
        return step("build" if chunks <= row.chunks * _SETTLED_GROWTH else "await")
    if not there:  # its builder died, or somebody dropped it
        return step("forget")
    if row.state == "building":
        return step("adopt")
    if row.state == "retiring":
        if wanted:
            return step("revive")
        return step("drop") if row.idle_s >= grace_s else []
    if not wanted:
        return step("retire")
    return step("count") if chunks != row.chunks else []
