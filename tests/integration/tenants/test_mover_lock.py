"""The lock of a tenant's moves: movers that are suspended, that lose it, or that hold a tenant frozen for too long."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from signal import SIGCONT, SIGSTOP

import pytest
from sqlalchemy import text

from pipeline.database.unit_of_work import unit_of_work
from pipeline.database.write_fence import make_fence
from pipeline.deadline import Deadline
from pipeline.errors import PlacementRefused
from pipeline.maintenance import move_tenant
from pipeline.records import Namespace, TenantId
from pipeline.resources import Resources
from pipeline.tenants.mover_lock_store import hold_moves
from pipeline.tenants.placement import Placement, PlacementState
from pipeline.tenants.placement_store import FRESH_S, Placements
from tests.conftest import make_tenant
from tests.support.clients.operating import eventually
from tests.support.servers.tenant_moves import (
    begin_move,
    end_session_of_mover,
    fences_of,
    freeze,
    placement_of,
    two_pairs,
)
from tests.support.stacks.corner import Corner
from tests.support.stacks.processes import environment_of, free_port, process

pytestmark = [pytest.mark.own_databases, pytest.mark.timeout(300)]

LOST = "lost the right to move"
AT_THE_SOURCE = {"default": [False, False], "b": [True, True]}  # whether the fences are closed


@pytest.fixture(scope="module")
def pairs(settings) -> Iterator[Resources]:
    """Resources with two pairs of migrated databases."""
    with two_pairs(settings, store_timeout_s=60.0) as use:
        yield use


@pytest.fixture
def corner(pairs: Resources) -> Corner:
    """A namespace of a tenant of the default pair, with a document, and a fence in both stores."""
    tenant_id = make_tenant(pairs)[0]
    with pairs.postgres.begin() as connection:
        make_fence(connection, tenant_id)
    found = corner_of(pairs, tenant_id)
    found.fill({"a": "The first 第一"})
    return found


def corner_of(pairs: Resources, tenant_id: TenantId) -> Corner:
    return Corner(pairs.placed(tenant_id), tenant_id, Namespace("kb"))


def move(pairs: Resources, tenant_id: TenantId, to: str, **more: object) -> move_tenant.MoveReport | None:
    options = {"grace_s": 0, "known_after_s": FRESH_S + 0.1, **more}
    return move_tenant.move(tenant_id, to, pairs, **options)  # type: ignore[arg-type]


@contextmanager
def writing(corner: Corner) -> Iterator[None]:
    """Hold the tenant's fence in MySQL, as a transaction that writes does: a mover waits in its freeze until the end."""
    with unit_of_work(corner.use.mysql) as work:
        values = {"tenant": corner.tenant}
        work.connection.execute(text("UPDATE tenants SET name = 'n' WHERE tenant_id = :tenant"), values)
        yield


def is_free(pairs: Resources, tenant_id: TenantId) -> bool:
    try:
        with hold_moves(pairs.mysql, tenant_id):
            return True
    except PlacementRefused:
        return False


class DescribeTheLock:
    def it_is_free_once_its_holder_has_given_no_sign_of_life_for_a_while(self, pairs, corner):
        with hold_moves(pairs.mysql, corner.tenant, silence_s=2, beat_s=60.0) as suspended:
            assert not is_free(pairs, corner.tenant)
            eventually(lambda: is_free(pairs, corner.tenant), within_s=10)
            with pytest.raises(PlacementRefused, match=LOST):
                suspended.change(Placement(tenant_id=corner.tenant), state=PlacementState.COPYING)
        assert placement_of(pairs, corner.tenant).state is PlacementState.SETTLED

    def it_lasts_while_its_holder_lives(self, pairs, corner):
        with hold_moves(pairs.mysql, corner.tenant, silence_s=2, beat_s=0.2) as lock:
            time.sleep(4)
            lock.confirm()
            assert not is_free(pairs, corner.tenant)
        assert is_free(pairs, corner.tenant)

    def it_is_lost_at_the_limit_of_a_freeze_while_its_holder_waits(self, pairs, corner):
        with hold_moves(pairs.mysql, corner.tenant, beat_s=0.1) as lock:
            with lock.at_most(Deadline.after(0.5)):
                time.sleep(2)
                assert is_free(pairs, corner.tenant)
            assert lock.is_lost
            with pytest.raises(PlacementRefused, match=LOST):
                lock.find()

    def it_changes_nothing_after_another_one_has(self, pairs, corner):
        with hold_moves(pairs.mysql, corner.tenant) as lock:
            before = lock.find()
            after = lock.change(before, state=PlacementState.COPYING, target="b")
            acted: list[bool] = []
            with pytest.raises(PlacementRefused, match="changed meanwhile"):
                lock.change(before, lambda: acted.append(True), state=PlacementState.COPYING, target="b")
            assert not acted
            assert lock.find() == after
            lock.change(after, state=PlacementState.SETTLED, target=None)


class DescribeAMoverThatLostItsLock:
    def it_ends_before_the_freeze(self, pairs, corner):
        with pytest.raises(PlacementRefused, match=LOST):
            move(pairs, corner.tenant, "b", report=lambda _: end_session_of_mover(pairs, corner.tenant))
        corner.fill({"b": "Still here 还在"})
        assert placement_of(pairs, corner.tenant).state is PlacementState.COPYING
        assert move_tenant.undo(corner.tenant, pairs)

    def it_does_not_flip_once_a_sweep_has_let_the_tenant_go_on(self, pairs, corner):
        with ThreadPoolExecutor(1) as beside:
            with writing(corner):
                running: Future[object] = beside.submit(move, pairs, corner.tenant, "b")
                eventually(lambda: placement_of(pairs, corner.tenant).state is PlacementState.FROZEN, within_s=30)
                end_session_of_mover(pairs, corner.tenant)
                sweeping = threading.Thread(target=move_tenant.thaw_abandoned, args=[pairs])
                sweeping.start()
                time.sleep(0.5)
            sweeping.join(60)
            with pytest.raises(PlacementRefused, match=LOST):
                running.result(60)
        assert placement_of(pairs, corner.tenant).state is PlacementState.COPYING
        assert fences_of(pairs, corner.tenant) == AT_THE_SOURCE
        corner.fill({"b": "Written since 之后写入"})
        assert move_tenant.undo(corner.tenant, pairs)
        assert corner.shown().keys() == {"a", "b"}

    def it_cannot_flip_between_the_opened_fences_and_the_directory(self, pairs, corner):
        frozen = freeze(pairs, begin_move(pairs, corner.tenant))
        flips: list[Future[Placement]] = []

        def flip() -> Placement:
            with unit_of_work(pairs.mysql) as work:
                placements = Placements(work.connection, corner.tenant)
                return placements.change(frozen, pair="b", target="default", state=PlacementState.LEAVING)

        with ThreadPoolExecutor(1) as beside, hold_moves(pairs.mysql, corner.tenant) as sweeping:

            def act() -> None:
                flips.append(beside.submit(flip))
                time.sleep(1)

            thawed = sweeping.change(frozen, act, state=PlacementState.COPYING)
            assert flips[0].result(30) == thawed
        assert placement_of(pairs, corner.tenant) == thawed
        assert move_tenant.undo(corner.tenant, pairs)

    def it_copies_nothing_over_a_tenant_that_has_arrived(self, pairs, corner):
        copies = begin_move(pairs, corner.tenant)._copies(pairs)
        assert move(pairs, corner.tenant, "b") is not None
        there = corner_of(pairs, corner.tenant)
        there.fill({"b": "Written at the target 在目标写入"})
        for copy, tables in copies:
            table = next(table for table in tables if table.name in ("chunks", "chunk_embeddings"))
            with pytest.raises(PlacementRefused, match="in use on this pair"):
                copy.synchronise(table)
        assert there.shown().keys() == {"a", "b"}
        there.assert_clean()

    def it_deletes_nothing_of_a_tenant_that_has_come_back(self, pairs, corner):
        with ThreadPoolExecutor(1) as beside:
            running: Future[object] = beside.submit(move, pairs, corner.tenant, "b", grace_s=10)
            eventually(lambda: placement_of(pairs, corner.tenant).state is PlacementState.LEAVING, within_s=60)
            end_session_of_mover(pairs, corner.tenant)
            eventually(lambda: is_free(pairs, corner.tenant))
            assert move(pairs, corner.tenant, "b") is not None
            assert move(pairs, corner.tenant, "default") is not None
            corner.fill({"b": "Back again 回来了"})
            with pytest.raises(PlacementRefused):
                running.result(60)
        assert corner.shown().keys() == {"a", "b"}
        assert fences_of(pairs, corner.tenant) == AT_THE_SOURCE
        with pytest.raises(PlacementRefused, match="in use on this pair"):
            move_tenant._delete_rows(corner.tenant, pairs)
        corner.assert_clean()


class DescribeAFreeze:
    def it_prints_nothing_before_its_end(self, pairs, corner):
        states: dict[str, PlacementState] = {}

        def report(line: str) -> None:
            if line.startswith("round"):
                corner.fill({f"r{len(states)}": "A difference for the freeze 差异"})
            states[line.partition(" ")[0]] = placement_of(pairs, corner.tenant).state

        assert move(pairs, corner.tenant, "b", report=report) is not None
        assert states["frozen:"] is PlacementState.LEAVING

    @pytest.mark.thorough
    def it_ends_when_the_mover_is_suspended(self, pairs, corner, tmp_path):
        b = pairs.settings.store_pairs["b"]
        urls = {"mysql_url": b.mysql_url.get_secret_value(), "postgres_url": b.postgres_url.get_secret_value()}
        redis_url = pairs.settings.redis_url.get_secret_value()
        environment = {
            **environment_of(pairs.settings, redis_url=redis_url, port=free_port()),
            "CHORDWISE_STORE_PAIRS": json.dumps({"b": urls}),
        }
        command = ("workers.server", "tenants", "move", corner.tenant, "--to", "b")
        log: Path = tmp_path / "move.log"
        with process(*command, log=log, **environment) as mover:
            with writing(corner):
                eventually(lambda: placement_of(pairs, corner.tenant).state is PlacementState.FROZEN, within_s=60)
                time.sleep(0.5)  # it waits for the writer
                mover.send_signal(SIGSTOP)
            assert move_tenant.thaw_abandoned(pairs) == 0
            eventually(lambda: move_tenant.thaw_abandoned(pairs), within_s=90)
            corner.fill({"b": "Written while the mover stands still 迁移暂停时写入"})
            mover.send_signal(SIGCONT)
            assert mover.wait(60) == 1, log.read_text()
        assert LOST in log.read_text()
        assert fences_of(pairs, corner.tenant) == AT_THE_SOURCE
        corner.fill({"c": "Written since 之后写入"})
        assert move(pairs, corner.tenant, "b") is not None
        assert corner_of(pairs, corner.tenant).shown().keys() == {"a", "b", "c"}
