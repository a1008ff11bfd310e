"""The directory of placements, in the default pair's MySQL, and a process's view of it. A tenant without a row is on the
default pair."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

from sqlalchemy import Connection, Engine

from pipeline.caches import RecentValues, RefreshingValue
from pipeline.database.rows import TenantStore, now, record_of
from pipeline.database.unit_of_work import reading
from pipeline.records import TenantId
from pipeline.tenants.placement import Placement, PlacementState

FRESH_S: Final = 1.0  # how late a process may learn that a move begins; from then on it reads the row at each use
_PATIENCE_S = 0.25  # the most a hanging MySQL may delay a caller that knows where the tenant was
_MOST_CACHED = 20_000

_COLUMNS = "tenant_id, pair, state, target"


class Placements(TenantStore):
    """One tenant's row of the directory."""

    def find(self, *, lock: bool = False) -> Placement:
        """Return the tenant's placement. ``lock``: until the transaction ends, if there is a row."""
        suffix = " FOR UPDATE" if lock else ""
        row = self._run(f"SELECT {_COLUMNS} FROM placements WHERE tenant_id = :tenant{suffix}").first()
        return _placement(row) if row is not None else Placement(tenant_id=self._tenant_id)

    def place(self, pair: str) -> Placement:
        """Place a tenant that is nowhere yet; return the placement that holds, which may be an earlier one."""
        values = {"pair": pair, "state": PlacementState.SETTLED, "now": now()}
        self._run(
            "INSERT IGNORE INTO placements (tenant_id, pair, state, changed_at) VALUES (:tenant, :pair, :state, :now)",
            **values,
        )
        return self.find(lock=True)

    def hold(self) -> Placement:
        """Return the tenant's placement, locked until the transaction ends, also where it had no row."""
        found = self.find(lock=True)
        return found if found != Placement(tenant_id=self._tenant_id) else self.place(found.pair)

    def change(self, before: Placement, **fields: object) -> Placement:
        """Replace the placement if it is still ``before``; return the present one."""
        found = self.find(lock=True)
        if found != before:
            return found
        after = replace(before, **fields)  # type: ignore[arg-type]
        self._run(
            "INSERT INTO placements (tenant_id, pair, state, target, changed_at)"
            " VALUES (:tenant, :pair, :state, :target, :now) ON DUPLICATE KEY UPDATE"
            " pair = VALUES(pair), state = VALUES(state), target = VALUES(target), changed_at = VALUES(changed_at)",
            pair=after.pair,
            state=after.state.value,
            target=after.target,
            now=now(),
        )
        return after


def moves(connection: Connection) -> list[Placement]:
    """Return the placements that are not settled."""
    rows = connection.exec_driver_sql(f"SELECT {_COLUMNS} FROM placements WHERE state <> 'settled' ORDER BY tenant_id")
    return [_placement(row) for row in rows]


def homes(connection: Connection) -> dict[TenantId, str]:
    """Return the pairs of the tenants that the directory names."""
    rows = connection.exec_driver_sql("SELECT tenant_id, pair FROM placements")
    return {TenantId(tenant_id): pair for tenant_id, pair in rows}


def _placement(row: object) -> Placement:
    found = record_of(Placement, row)
    return replace(found, state=PlacementState(found.state))


class Homes:
    """A process's view of the directory: each tenant's row is read at most once a second, and at every use while the
    tenant moves. While MySQL is away the last known placement holds. Thread-safe."""

    def __init__(self, mysql: Callable[[], Engine]) -> None:
        self._mysql = mysql
        self._cached: RecentValues[TenantId, RefreshingValue[Placement]] = RecentValues(_MOST_CACHED)

    def of(self, tenant_id: TenantId, *, patient: bool = True) -> Placement:
        """Return where the tenant is. Not ``patient``: as far as is known, without waiting. Raises Unavailable if it was
        never read."""
        cached = self._cached.get(tenant_id, lambda: self._value(tenant_id))
        placement = cached.get(patient=patient)
        return cached.refresh() if patient and placement.state is not PlacementState.SETTLED else placement

    def last(self, tenant_id: TenantId) -> Placement | None:
        """Return the placement that was read last, without waiting; None if none was."""
        return self._cached.get(tenant_id, lambda: self._value(tenant_id)).last

    def _value(self, tenant_id: TenantId) -> RefreshingValue[Placement]:
        return RefreshingValue(partial(self._read, tenant_id), fresh_s=FRESH_S, patience_s=_PATIENCE_S, joins=True)

    def _read(self, tenant_id: TenantId) -> Placement:
        with reading(self._mysql()) as connection:
            return Placements(connection, tenant_id).find()
