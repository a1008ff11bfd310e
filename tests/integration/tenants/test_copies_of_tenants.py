"""Copies of tenants that move, or that have moved: no erasure and no expiry that they hold reaches the tenant itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest

from pipeline.administration.edit_vector_stores import open_store
from pipeline.administration.keep_files import keep_file
from pipeline.administration.manage_tenants import create_tenant
from pipeline.database.unit_of_work import unit_of_work
from pipeline.database.write_fence import make_fence
from pipeline.maintenance import migrate_schema, move_tenant, sweep
from pipeline.maintenance.erase import erase_tenant, finish_erasures
from pipeline.maintenance.set_fences import set_fences
from pipeline.maintenance.sweep import expire
from pipeline.records import Namespace, TenantId
from pipeline.resources import Resources
from pipeline.setting_values import StorePair
from pipeline.tenants import erasure_store
from pipeline.tenants.mover_lock_store import hold_moves
from pipeline.tenants.placement import Placement
from pipeline.tenants.placement_store import FRESH_S
from pipeline.vector_stores.collection import VectorStore
from tests.conftest import make_tenant, scratch_databases
from tests.support.stacks.connections import in_mysql
from tests.support.stacks.corner import Corner

pytestmark = [pytest.mark.own_databases, pytest.mark.timeout(300)]

KB = Namespace("kb")


@pytest.fixture(scope="module")
def pairs(settings) -> Iterator[Resources]:
    """Resources with two pairs of migrated databases."""
    with scratch_databases(settings) as first, scratch_databases(settings) as second:
        b = StorePair(mysql_url=second.mysql_url, postgres_url=second.postgres_url)
        config = first.model_copy(update={"store_pairs": {"b": b}})
        assert migrate_schema.main(["upgrade"], config) == 0
        use = Resources(config)
        yield use
        use.close()


@pytest.fixture
def home(pairs: Resources) -> Corner:
    """A vector store of a tenant of the default pair that is used, and expires after a day without use."""
    tenant_id = make_tenant(pairs)[0]
    fence(pairs, tenant_id)
    corner = Corner(pairs.placed(tenant_id), tenant_id, KB)
    fill(corner)
    return corner


def fence(pairs: Resources, tenant_id: TenantId) -> None:
    """Make the tenant's fence in the vector store: else a move waits as long as a transaction may take."""
    with pairs.postgres.begin() as connection:
        make_fence(connection, tenant_id)


def fill(corner: Corner) -> None:
    """Open the vector store with one document."""
    moment = datetime.now(UTC)
    store = VectorStore(namespace=KB, name="KB", created_at=moment, last_active_at=moment, expires_after_days=1)
    open_store(corner.tenant, store, corner.use)
    corner.fill({"a": "here 这里"})


def create_again(pairs: Resources, corner: Corner) -> None:
    """Erase the tenant and create it again, as earlier versions did: its erasure is not settled."""
    assert erase_tenant(corner.tenant, corner.use)
    corner.execute("UPDATE erasures SET settled_at = requested_at WHERE tenant_id = :tenant")
    assert create_tenant(corner.tenant, "again", None, pairs)
    fence(pairs, corner.tenant)
    corner.execute("UPDATE erasures SET settled_at = NULL WHERE tenant_id = :tenant")
    fill(corner)


@contextmanager
def moving(pairs: Resources, corner: Corner) -> Iterator[move_tenant._Move]:
    """A move of the tenant to pair b that has begun."""
    placement = Placement(tenant_id=corner.tenant)
    with hold_moves(pairs.mysql, corner.tenant) as lock, move_tenant._Move(lock, placement, "b", pairs) as move:
        move.begin(FRESH_S + 0.1)
        yield move


def unsettled(use: Resources) -> list[TenantId]:
    """Return the tenants whose erasure is to be continued on a pair."""
    with unit_of_work(use.mysql) as work:
        return erasure_store.unsettled(work.connection)


class DescribeAnErasure:
    """The erasure of an earlier tenant of the same id."""

    @pytest.mark.parametrize("opened", [False, True])
    def it_spares_a_tenant_of_which_only_the_erasure_is_copied_yet(self, pairs, home, opened):
        """``opened``: as in the moment before the tenant is found on the other pair."""
        create_again(pairs, home)
        there = pairs.of_pair("b")
        with moving(pairs, home) as move:
            copy, tables = move._copies(pairs)[0]
            copy.synchronise(next(table for table in tables if table.name == "erasures"))
        if opened:
            set_fences(home.tenant, there, is_closed=False)
        assert (home.tenant in unsettled(there)) is opened
        assert finish_erasures(there) == 0
        assert home.shown() == {"a": ["here 这里"]}
        assert home.rows("tenants") == 1
        assert move_tenant.undo(home.tenant, pairs)

    def it_spares_a_tenant_that_has_moved_while_its_old_rows_are_deleted(self, pairs, home):
        create_again(pairs, home)
        with moving(pairs, home) as move:
            move._freeze_and_flip(0)
        in_mysql(pairs, "DELETE FROM tenants WHERE tenant_id = :t", t=home.tenant)
        moved = Corner(pairs.placed(home.tenant), home.tenant, KB)
        assert moved.use.pair == "b"
        assert finish_erasures(pairs) == 0
        assert moved.shown() == {"a": ["here 这里"]}
        move_tenant.move(home.tenant, "b", pairs, grace_s=0, known_after_s=0)
        assert finish_erasures(pairs.of_pair("b")) == 0
        assert moved.shown() == {"a": ["here 这里"]}

    def it_goes_on_where_the_tenant_is_after_the_move(self, pairs, home):
        with unit_of_work(home.use.mysql) as work:
            erasure_store.request_erasure(work.connection, home.tenant)
        there = pairs.of_pair("b")
        with moving(pairs, home) as move:
            move._freeze_and_flip(0)
        assert finish_erasures(there) == 0
        move_tenant.move(home.tenant, "b", pairs, grace_s=0, known_after_s=FRESH_S + 0.1)
        assert finish_erasures(there) == 1
        assert erasure_store.left_over(there.mysql, there.postgres, there.redis, home.tenant) == {}


class DescribeAnExpiry:
    """The expiry that a copy still has, of a vector store that was used since."""

    @pytest.mark.parametrize("opened", [False, True])
    def it_empties_no_store_that_is_in_use(self, pairs, home, opened):
        there = pairs.of_pair("b")
        with moving(pairs, home) as move:
            move_tenant._round(move._copies(pairs))
        make_expired(there, home.tenant)
        if opened:
            set_fences(home.tenant, there, is_closed=False)
        assert expire(there) == 0
        assert home.shown() == {"a": ["here 这里"]}
        assert move_tenant.undo(home.tenant, pairs)

    def it_keeps_no_other_tenant_of_the_pair_from_expiring(self, pairs, home, monkeypatch):
        there = pairs.of_pair("b")
        keep_for_a_day(home)
        with moving(pairs, home) as move:
            move_tenant._round(move._copies(pairs))
        tenant_id = TenantId(f"{home.tenant}-b")
        move_tenant.place(tenant_id, "b", pairs)
        assert create_tenant(tenant_id, "b", None, pairs)
        resident = Corner(pairs.placed(tenant_id), tenant_id, KB)
        fill(resident)
        keep_for_a_day(resident)
        for number, tenant in enumerate((home.tenant, tenant_id)):
            make_expired(there, tenant, year=2020 + number)
        monkeypatch.setattr(sweep, "_AT_ONCE", 1)
        assert expire(there) == 2
        assert (resident.shown(), resident.rows("stored_files")) == ({}, 0)
        assert (home.shown(), home.rows("stored_files")) == ({"a": ["here 这里"]}, 1)
        assert move_tenant.undo(home.tenant, pairs)


def keep_for_a_day(corner: Corner) -> None:
    """Store a file of the tenant that expires."""
    day_s = int(timedelta(days=1).total_seconds())
    body = b"The heron fishes."
    keep_file(
        corner.tenant,
        body,
        corner.use,
        filename="a.txt",
        purpose="assistants",
        declared_type=None,
        expires_after_s=day_s,
    )


def make_expired(use: Resources, tenant_id: TenantId, *, year: int = 2020) -> None:
    """Let the rows of the tenant on a pair expire in a year that has passed."""
    for table in ("vector_stores", "stored_files"):
        in_mysql(use, f"UPDATE {table} SET expires_at = :at WHERE tenant_id = :t", t=tenant_id, at=f"{year}-01-01")
