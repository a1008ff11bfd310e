"""Pairs of databases, and movers of tenants that died, are suspended, or have lost their lock."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from sqlalchemy import text

from pipeline.database.unit_of_work import reading
from pipeline.maintenance import migrate_schema, move_tenant
from pipeline.records import TenantId
from pipeline.resources import Resources
from pipeline.setting_values import StorePair
from pipeline.settings import Settings
from pipeline.tenants.mover_lock_store import hold_moves
from pipeline.tenants.placement import Placement, PlacementState
from pipeline.tenants.placement_store import FRESH_S, Placements
from tests.conftest import scratch_databases


@contextmanager
def empty_pairs(settings: Settings, **more: Any) -> Iterator[Settings]:
    """Settings with two pairs of empty databases, ``default`` and ``b``."""
    with scratch_databases(settings) as first, scratch_databases(settings) as second:
        b = StorePair(mysql_url=second.mysql_url, postgres_url=second.postgres_url)
        yield first.model_copy(update={"store_pairs": {"b": b}, **more})


@contextmanager
def two_pairs(settings: Settings, **more: Any) -> Iterator[Resources]:
    """Resources with two pairs of migrated databases."""
    with empty_pairs(settings, **more) as config:
        assert migrate_schema.main(["upgrade"], config) == 0
        with closing(Resources(config)) as use:
            yield use


def begin_move(
    pairs: Resources, tenant_id: TenantId, to: str = "b", *, pair: str = "default", known_after_s: float = FRESH_S + 0.1
) -> move_tenant._Move:
    """Begin a move, whose mover dies then."""
    with hold_moves(pairs.mysql, tenant_id) as lock:
        dying = move_tenant._Move(lock, Placement(tenant_id=tenant_id, pair=pair), to, pairs)
        dying.begin(known_after_s)
    return dying


def freeze(pairs: Resources, dying: move_tenant._Move) -> Placement:
    """Have the mover die once it has noted the freeze."""
    with hold_moves(pairs.mysql, dying._tenant_id) as lock:
        return lock.change(dying._placement, state=PlacementState.FROZEN)


def placement_of(pairs: Resources, tenant_id: TenantId) -> Placement:
    with reading(pairs.mysql) as connection:
        return Placements(connection, tenant_id).find()


def end_session_of_mover(pairs: Resources, tenant_id: TenantId) -> None:
    """End the session that holds the lock of a tenant's moves, as a restart of MySQL does."""
    name = {"name": f"chordwise_move_{tenant_id}"}
    with pairs.mysql.connect() as connection:
        session = connection.execute(text("SELECT IS_USED_LOCK(:name)"), name).scalar_one()
        connection.exec_driver_sql(f"KILL {int(session)}")


def fences_of(pairs: Resources, tenant_id: TenantId) -> dict[str, list[bool]]:
    """Whether a tenant's fences are closed, by pair: of MySQL and of PostgreSQL."""
    statement, closed = text("SELECT is_closed FROM write_fences WHERE tenant_id = :tenant"), {}
    for stores in pairs.pairs:
        with stores.mysql.connect() as mysql, stores.postgres.connect() as postgres:
            closed[stores.pair] = [
                bool(connection.execute(statement, {"tenant": tenant_id}).scalar()) for connection in (mysql, postgres)
            ]
    return closed
