"""Open and close the fences of a tenant that moves, while its placement is locked."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import partial

import structlog
from sqlalchemy import Connection, Engine

from pipeline.database.engines import Conflict, mysql_errors, postgres_errors
from pipeline.database.unit_of_work import retry_conflicts, unit_of_work
from pipeline.database.write_fence import make_fence, set_fence
from pipeline.deadline import Deadline
from pipeline.errors import Misconfigured, PlacementRefused, Unavailable
from pipeline.maintenance.tenant_rows_store import end_leases
from pipeline.records import TenantId
from pipeline.resources import Resources
from pipeline.tenants.mover_lock_store import MoverLock, hold_moves
from pipeline.tenants.placement import Placement, PlacementState

log = structlog.get_logger(__name__)

_FENCE_TRIES = 20
_REPAIR_S, _TRY_AGAIN_S = 20.0, 0.5  # a sweep that lets the tenant go on has ended by then


@contextmanager
def moving(tenant_id: TenantId, use: Resources) -> Iterator[MoverLock]:
    """Hold the lock of the tenant's moves. Where it was lost, set the fences by the placement at the end, as this process
    may have set one after others had gone on. Raises PlacementRefused."""
    with ExitStack() as stack:
        lock = stack.enter_context(hold_moves(use.mysql, tenant_id))
        stack.callback(lambda: _repair(tenant_id, use) if lock.is_lost else None)
        yield lock


def _repair(tenant_id: TenantId, use: Resources) -> None:
    until = Deadline.after(_REPAIR_S)
    while not until.has_passed:
        with suppress(PlacementRefused, Misconfigured, Unavailable), hold_moves(use.mysql, tenant_id) as lock:
            placement = lock.find()
            if placement.state is PlacementState.FROZEN:
                go_on_at_source(placement, use, lock)
            else:
                lock.change(placement, partial(_set_as_placed, placement, use))
            return
        time.sleep(_TRY_AGAIN_S)
    log.warning("fences_not_repaired", tenant_id=tenant_id)


def go_on_at_source(placement: Placement, use: Resources, lock: MoverLock) -> Placement:
    """Let a tenant whose move has not flipped write at the source again; return its placement since. Raises
    PlacementRefused if the placement has changed, and before any fence is."""
    return lock.change(placement, partial(_thaw, placement, use), state=PlacementState.COPYING)


def _thaw(placement: Placement, use: Resources) -> None:
    _set_as_placed(placement, use)
    # A worker whose batch the freeze interrupted could not put it back either. A live one does its batch again.
    with suppress(Conflict), unit_of_work(use.of_pair(placement.pair).mysql) as work:
        end_leases(work.connection, placement.tenant_id)


def _set_as_placed(placement: Placement, use: Resources) -> None:
    """Open the fences where the tenant is. The other side is closed first, in case a move died just before the flip; one
    that is away stays as it is, as nothing leads there and a move that is continued closes it."""
    away: dict[str, str] = {}
    for pair in set(use.settings.pair_names if placement.target is None else [placement.target]) - {placement.pair}:
        try:
            set_fences(placement.tenant_id, use.of_pair(pair), is_closed=True)
        except Unavailable as error:
            away[pair] = error.code
    set_fences(placement.tenant_id, use.of_pair(placement.pair), is_closed=False)
    for pair, code in away.items():
        log.warning("pair_not_closed", tenant_id=placement.tenant_id, pair=pair, code=code)


def set_fences(tenant_id: TenantId, stores: Resources, *, is_closed: bool) -> None:
    """Open or close the tenant's fences in both stores of a pair, waiting for its writers. Raises Conflict if they do not
    pause."""
    change = partial(set_fence, tenant_id=tenant_id, is_closed=is_closed)
    _set_patiently(stores.mysql, mysql_errors, change)
    _set_patiently(stores.postgres, postgres_errors, change)


@retry_conflicts(attempts=_FENCE_TRIES, lock_held=True)
def _set_patiently(
    engine: Engine, errors: Callable[[], AbstractContextManager[None]], change: Callable[..., None]
) -> None:
    with errors(), _lasting(engine) as connection:
        change(connection)


@contextmanager
def _lasting(engine: Engine) -> Iterator[Connection]:
    """Yield a connection that holds no lock on a fence, where all writers of the tenant wait, if this process is suspended:
    MySQL commits each statement, as it would let the transaction stand for hours; PostgreSQL ends one soon."""
    with engine.connect() as connection:
        if engine.dialect.name == "mysql":
            connection.execution_options(isolation_level="AUTOCOMMIT")
        yield connection
        connection.commit()


def make_fences(tenant_id: TenantId, stores: Resources) -> bool:
    """Create the fences that are missing; return whether any was."""
    with mysql_errors(), _lasting(stores.mysql) as connection:
        missing = make_fence(connection, tenant_id)
    with postgres_errors(), stores.postgres.begin() as connection:
        return make_fence(connection, tenant_id) or missing
