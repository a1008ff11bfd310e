"""Place tenants on pairs of stores, and move one from a pair to another while it is used.

Steps of a move: copy in rounds while the tenant goes on; close its fences at the source; copy the last differences and
prove by digests that nothing differs; open its fences at the target; flip the directory; delete the source's rows. A move
that died at any step is continued by `move`, or undone by `undo` until the flip. Until the flip the source is complete, and
from it on the target is. Fences are opened while the tenant's placement is locked, by the holder of the lock of its moves,
and rows are copied or deleted behind a closed fence alone: a mover that wakes late can do no harm.
"""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from typing import Final, Self

import structlog
from sqlalchemy import Engine, text

from pipeline.database.schema import mysql_server
from pipeline.database.unit_of_work import reading, unit_of_work
from pipeline.database.write_fence import fenced, set_fence
from pipeline.deadline import Deadline
from pipeline.errors import Misconfigured, PlacementRefused, Unavailable
from pipeline.maintenance import migrate_schema
from pipeline.maintenance.build_indexes import drop_indexes, keep_indexes
from pipeline.maintenance.set_fences import go_on_at_source, make_fences, moving, set_fences
from pipeline.maintenance.tenant_rows_store import (
    CopiedTable,
    RowCopy,
    end_leases,
    tables_of_mysql,
    tables_of_postgres,
)
from pipeline.records import TenantId
from pipeline.resources import Resources
from pipeline.tenants import erasure_store, placement_store
from pipeline.tenants.mover_lock_store import MoverLock, end_silent_sessions
from pipeline.tenants.placement import Placement, PlacementState
from pipeline.tenants.placement_store import FRESH_S, Placements

log = structlog.get_logger(__name__)

_STATEMENT_S: Final = 3600.0  # while the tenant goes on: a digest of a large table takes long
KNOWN_AFTER_S: Final = 2 * FRESH_S + 1.0  # then every process reads the placement at each use
_SMALL = 500  # rows; a round that copied fewer is the last one before the freeze
_MOST_ROUNDS = 10

Report = Callable[[str], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveReport:
    """The result of a move. ``rows``: of the tenant, by table, as verified; ``frozen_s``: how long writes were refused."""

    rows: dict[str, int]
    rounds: int
    frozen_s: float


def place(tenant_id: TenantId, pair: str, use: Resources) -> Placement:
    """Place a tenant that does not exist yet, so that it is created there. Raises PlacementRefused."""
    use.of_pair(pair).installation.confirm()
    with unit_of_work(use.mysql) as work:
        if erasure_store.is_known(work.connection, tenant_id):
            raise PlacementRefused(f"tenant {tenant_id} exists; move it instead")
        placement = Placements(work.connection, tenant_id).place(pair)
        if placement.pair != pair:
            raise PlacementRefused(f"tenant {tenant_id} is placed on {placement.pair} already")
        if pair != use.pair:
            set_fence(work.connection, tenant_id, is_closed=True)
    return placement


def status(use: Resources) -> tuple[dict[str, int | Unavailable], list[Placement]]:
    """Return the number of tenants on each pair, as its own table has them, or why it does not answer; and the moves under
    way. Raises the default pair's errors."""
    tenants: dict[str, int | Unavailable] = {}
    for stores in use.pairs:
        try:
            with reading(stores.mysql) as connection:
                tenants[stores.pair] = int(connection.execute(text("SELECT COUNT(*) FROM tenants")).scalar_one())
        except Unavailable as away:
            tenants[stores.pair] = away
    with reading(use.mysql) as connection:
        return tenants, placement_store.moves(connection)


def move(
    tenant_id: TenantId,
    to: str,
    use: Resources,
    *,
    freeze_limit_s: float = 60.0,
    grace_s: float | None = None,
    known_after_s: float = KNOWN_AFTER_S,
    report: Report = lambda _: None,
) -> MoveReport | None:
    """Move a tenant, or continue its move; None if it is there. ``freeze_limit_s``: after that long the tenant goes on
    where it was, and no statement of the freeze takes longer. ``grace_s``: how long the source's rows stay for running queries.
    ``known_after_s``: when every process knows of the move. Raises PlacementRefused, Conflict if its writers do not pause,
    and the stores' errors."""
    with moving(tenant_id, use) as lock:
        placement = lock.find()
        if placement.state is PlacementState.SETTLED and placement.pair == to:
            return None
        if placement.state is not PlacementState.SETTLED and to not in (placement.pair, placement.target):
            raise PlacementRefused(f"tenant {tenant_id} is moving between {placement.pair} and {placement.target}")
        result = MoveReport(rows={}, rounds=0, frozen_s=0.0)
        if placement.state is not PlacementState.LEAVING:
            if placement.pair == to:
                raise PlacementRefused(f"tenant {tenant_id} is moving to {placement.target}: undo that first")
            with _Move(lock, placement, to, use, report, freeze_limit_s) as whole:
                placement, result = whole.carry_out(known_after_s)
        elif placement.pair != to:
            raise PlacementRefused(f"tenant {tenant_id} has moved to {placement.pair}: finish that move first")
        grace_s = use.settings.retired_grace_s if grace_s is None else grace_s
        _leave(placement, use, lock, grace_s=max(grace_s, known_after_s), report=report)
    return result


def undo(tenant_id: TenantId, use: Resources) -> bool:
    """Give up a move that has not flipped, and delete its copy; False without one. Raises PlacementRefused after the
    flip."""
    with moving(tenant_id, use) as lock:
        placement = lock.find()
        if placement.state is PlacementState.SETTLED:
            return False
        if placement.state is PlacementState.LEAVING or placement.target is None:
            raise PlacementRefused(f"tenant {tenant_id} has moved to {placement.pair}: finish that, then move it back")
        target = use.of_pair(placement.target)
        placement = go_on_at_source(placement, use, lock)
        _delete_rows(tenant_id, target)
        lock.change(placement, state=PlacementState.SETTLED, target=None)
    return True


def thaw_abandoned(use: Resources) -> int:
    """Let the tenants write again whose move died or stood still while they were frozen; return how many. The moves can be
    continued. A tenant whose stores do not answer is left to the next sweep."""
    if not use.settings.store_pairs:
        return 0
    with reading(use.mysql) as connection:
        frozen = [move for move in placement_store.moves(connection) if move.state is PlacementState.FROZEN]
    thawed = 0
    for placement in frozen:
        try:
            with moving(placement.tenant_id, use) as lock:
                go_on_at_source(placement, use, lock)
            thawed += 1
            log.warning("abandoned_move_thawed", tenant_id=placement.tenant_id, target=placement.target)
        except PlacementRefused:
            continue  # its mover is alive, or another sweep was first
        except (Unavailable, Misconfigured) as error:
            log.warning("abandoned_move_not_thawed", tenant_id=placement.tenant_id, code=error.code)
    return thawed


class _Move:
    """One run of a move until the flip."""

    def __init__(
        self,
        lock: MoverLock,
        placement: Placement,
        to: str,
        use: Resources,
        report: Report = lambda _: None,
        freeze_limit_s: float = 60.0,
    ) -> None:
        self._lock, self._tenant_id, self._placement = lock, lock.tenant_id, placement
        self._use, self._report = use, report
        self._source, self._target, self._freeze_limit_s = use.of_pair(placement.pair), use.of_pair(to), freeze_limit_s
        # A store that hangs in the freeze must not hold the tenant's writes for as long as a copy may take.
        self._slow, self._bounded = (
            Resources(use.settings, timeout_s=limit) for limit in (_STATEMENT_S, freeze_limit_s)
        )
        for resources in (self._slow, self._bounded):
            for pair in (placement.pair, to):
                end_silent_sessions(resources.of_pair(pair).mysql)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._slow.close()
        self._bounded.close()

    def carry_out(self, known_after_s: float) -> tuple[Placement, MoveReport]:
        """Copy, freeze, copy the rest, verify, flip; return the placement since and the report."""
        self._refuse_unfit()
        self.begin(known_after_s)
        rounds, copies = 0, self._copies(self._slow)
        while True:
            began, copied = time.monotonic(), _round(copies, self._lock.confirm)
            rounds += 1
            took_s = time.monotonic() - began
            self._report(f"round {rounds}: {copied} rows in {took_s:.1f} s")
            if rounds == 1:
                self._build_indexes()
            if copied < _SMALL or rounds == _MOST_ROUNDS:
                break
        if took_s > self._freeze_limit_s:
            raise PlacementRefused(
                f"the last round took {took_s:.0f} s, and the freeze would take about as long: allow it with"
                " --freeze-limit, at an hour with few writes"
            )
        return self._freeze_and_flip(rounds)

    def _refuse_unfit(self) -> None:
        with reading(self._source.mysql) as connection:
            if not erasure_store.is_known(connection, self._tenant_id):
                raise PlacementRefused(f"there is no tenant {self._tenant_id}; place it before it is created")
        kinds = {_kind(self._source.mysql), _kind(self._target.mysql)}
        if len(kinds) > 1:
            raise PlacementRefused("one pair is MySQL and the other MariaDB: their JSON differs, and digests with it")
        for stores in (self._source, self._target):
            migrate_schema.check(stores.mysql, stores.postgres, stores.settings)
        if self._source.installation.confirm() != self._target.installation.confirm():
            raise PlacementRefused("the pairs belong to different installations")

    def begin(self, known_after_s: float = 0.0) -> None:
        """Close the target, record the move, and wait until every process looks before each use."""
        missing = make_fences(self._tenant_id, self._source)
        if self._placement.state is PlacementState.FROZEN:
            self._placement = go_on_at_source(self._placement, self._use, self._lock)
        close = partial(set_fences, self._tenant_id, self._target, is_closed=True)
        fields = {"state": PlacementState.COPYING, "target": self._target.pair}
        self._placement = self._lock.change(self._placement, close, **fields)
        time.sleep(known_after_s)
        if missing:  # transactions that found no fence to hold must have ended
            time.sleep(self._use.settings.store_timeout_s)

    def _copies(self, use: Resources) -> list[tuple[RowCopy, list[CopiedTable]]]:
        source, target = use.of_pair(self._source.pair), use.of_pair(self._target.pair)
        vectors = [space.table for space in self._use.spaces.live(fresh=True).every]
        return [
            (RowCopy(source.mysql, target.mysql, self._tenant_id, is_mysql=True), tables_of_mysql()),
            (RowCopy(source.postgres, target.postgres, self._tenant_id, is_mysql=False), tables_of_postgres(vectors)),
        ]

    def _build_indexes(self) -> None:
        """Build the vector indexes that the tenant needs at the target, before searches go there."""
        began = time.monotonic()
        if built := keep_indexes(self._slow.of_pair(self._target.pair)):
            self._report(f"{built} changes of vector indexes in {time.monotonic() - began:.1f} s")

    def _freeze_and_flip(self, rounds: int) -> tuple[Placement, MoveReport]:
        began, until, copies = time.monotonic(), Deadline.after(self._freeze_limit_s), self._copies(self._bounded)
        lines: list[str] = []  # a terminal that stands still must not prolong the freeze
        flipped = {"pair": self._target.pair, "target": self._source.pair, "state": PlacementState.LEAVING}
        with self._lock.at_most(until):
            self._placement = self._lock.change(self._placement, state=PlacementState.FROZEN)
            with ExitStack() as undo:  # also of an interruption from the keyboard
                undo.callback(self._go_on)
                self._lock.change(self._placement, partial(set_fences, self._tenant_id, self._source, is_closed=True))
                began = time.monotonic()
                copied = _round(copies, self._lock.confirm, until=until)
                while copied:
                    lines.append(f"frozen: {copied} rows in {time.monotonic() - began:.1f} s")
                    rounds += 1
                    copied = _round(copies, self._lock.confirm, RowCopy.prove, until)
                placement = self._lock.change(self._placement, self._open_target, **flipped)
                undo.pop_all()
        frozen_s = time.monotonic() - began
        for line in lines:
            self._report(line)
        rows = {name: count for copy, _ in copies for name, count in copy.rows.items()}
        log.info("tenant_moved", tenant_id=self._tenant_id, pair=placement.pair, frozen_ms=round(frozen_s * 1000))
        return placement, MoveReport(rows=rows, rounds=rounds, frozen_s=frozen_s)

    def _open_target(self) -> None:
        with unit_of_work(self._target.mysql) as work:
            end_leases(work.connection, self._tenant_id)
        set_fences(self._tenant_id, self._target, is_closed=False)

    def _go_on(self) -> None:
        with suppress(PlacementRefused):  # it has arrived, or the lock is lost, and the fences are set at the end
            go_on_at_source(self._placement, self._use, self._lock)


def _round(
    copies: list[tuple[RowCopy, list[CopiedTable]]],
    confirm: Callable[[], object] = lambda: None,
    step: Callable[[RowCopy, CopiedTable], int] = RowCopy.synchronise,
    until: Deadline | None = None,
) -> int:
    """Copy what differs in every table, both stores side by side; return how many rows. ``confirm`` before each one."""

    def step_all(copy: RowCopy, tables: list[CopiedTable]) -> int:
        copied = 0
        for table in tables:
            if until is not None and until.has_passed:
                raise PlacementRefused("the freeze took longer than its limit; the tenant goes on where it was")
            confirm()
            copied += step(copy, table)
        return copied

    with ThreadPoolExecutor(2) as both:
        return sum(both.map(step_all, *zip(*copies, strict=True)))


def _leave(placement: Placement, use: Resources, lock: MoverLock, *, grace_s: float, report: Report) -> None:
    """Delete what is left at the source, once no query reads it any more."""
    assert placement.target is not None
    time.sleep(grace_s)
    source = use.of_pair(placement.target)
    if lock.find() != placement:
        raise PlacementRefused(f"the placement of tenant {placement.tenant_id} was changed meanwhile")
    deleted = _delete_rows(placement.tenant_id, source)
    lock.change(placement, state=PlacementState.SETTLED, target=None)
    report(f"deleted {deleted} rows on {source.pair}")


def _delete_rows(tenant_id: TenantId, stores: Resources) -> int:
    """Delete the tenant's rows on a pair that does not hold it; return how many. Raises PlacementRefused if it does."""
    stores.installation.confirm()
    mysql, postgres = (fenced(engine, tenant_id, is_closed=True) for engine in (stores.mysql, stores.postgres))
    drop_indexes(tenant_id, stores)
    deleted = 0
    for table in reversed(tables_of_mysql()):
        deleted += erasure_store.erase_from_mysql(mysql, tenant_id, table.name)
    for name in set(erasure_store.postgres_tables(postgres)) - {"write_fences"}:  # the closed fence stays
        deleted += erasure_store.erase_from_postgres(postgres, tenant_id, name)
    return deleted


def _kind(mysql: Engine) -> str:
    with reading(mysql) as connection:
        return mysql_server(connection)[0]
