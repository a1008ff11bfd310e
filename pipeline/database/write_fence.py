"""Refuse a tenant's writes to databases that it has left, in the transaction that writes.

Every database has a table ``write_fences``. A transaction reads its tenant's row, locked for sharing, before its first
writing or locking statement; whoever closes the fence updates the row, and so waits for the transactions that have read
it, and those that come later are refused. A tenant without a row is open.
"""

import re
from typing import Any, Final

from sqlalchemy import Connection, Engine, event, text

from pipeline.errors import PlacementRefused, TenantMoving

_TENANT: Final = "chordwise_tenant"  # the option of an engine that serves one tenant
_CLOSED: Final = "chordwise_closed"  # the option of one that writes rows of a tenant that is elsewhere
_HELD: Final = "chordwise_fence"  # of a connection: the tenant whose fence this transaction holds
_IDLE_S: Final = 10  # after which PostgreSQL ends the transaction of a process that is suspended while it sets a fence
_WRITES = re.compile(
    r"\s*(INSERT|UPDATE|DELETE|REPLACE|WITH\b.*\b(INSERT|UPDATE|DELETE))\b|.*\bFOR UPDATE\b", re.IGNORECASE | re.DOTALL
)
_ROW = "SELECT is_closed FROM write_fences WHERE tenant_id = :tenant"
_LOCKED = {
    "mysql": text(f"{_ROW} LOCK IN SHARE MODE"),  # FOR SHARE is unknown to MariaDB
    "postgresql": text(f"{_ROW} FOR SHARE"),
}
# Which indexes a vector store has is no data of the tenant: they are also built where it arrives.
_EXEMPT = "vector_indexes"


def guard(engine: Engine) -> Engine:
    """Have the engines of `fenced` that are derived from this one check the fence."""
    event.listen(engine, "begin", _forget)
    event.listen(engine, "before_cursor_execute", _check)
    return engine


def fenced(engine: Engine, tenant_id: str, *, is_closed: bool = False) -> Engine:
    """Return a view of the engine, with the same pool, whose transactions may write only while the tenant is here.
    ``is_closed``: only while it is elsewhere and its fence here is closed, for its copy or what it has left."""
    return engine.execution_options(**{_TENANT: tenant_id, _CLOSED: is_closed})


def hold_fence(connection: Connection) -> None:
    """Hold the fence of the connection's tenant until the transaction ends, for statements that bypass SQLAlchemy. Raises
    TenantMoving, or PlacementRefused where the fence should be closed."""
    options = connection.get_execution_options()
    tenant_id = options.get(_TENANT)
    if tenant_id is None or connection.info.get(_HELD) == tenant_id:
        return
    is_closed = bool(connection.execute(_LOCKED[connection.dialect.name], {"tenant": tenant_id}).scalar())
    if options[_CLOSED] and not is_closed:
        raise PlacementRefused(f"tenant {tenant_id} is in use on this pair by now: another process has moved it here")
    if is_closed and not options[_CLOSED]:
        raise TenantMoving(
            "The tenant is moving to other databases: repeat the request in a moment.", retry_after_s=1.0
        )
    connection.info[_HELD] = tenant_id


def writes_copies(connection: Connection) -> bool:
    """Return whether the connection writes rows of a tenant that is elsewhere."""
    return bool(connection.get_execution_options().get(_CLOSED))


def _forget(connection: Connection) -> None:
    connection.info.pop(_HELD, None)


def _check(connection: Connection, _cursor: Any, statement: str, *_: Any) -> None:
    if _TENANT in connection.get_execution_options() and _WRITES.match(statement) and _EXEMPT not in statement:
        hold_fence(connection)


def set_fence(connection: Connection, tenant_id: str, *, is_closed: bool, wait_s: int = 3) -> None:
    """Open or close the tenant's fence in one database, waiting for the transactions that hold it. Raises Conflict when
    that takes longer than ``wait_s``. One that is closed already waits for none: they may be a mover's whose host is gone."""
    if is_closed and connection.execute(text(_ROW), {"tenant": tenant_id}).scalar():
        return
    values = {"tenant": tenant_id, "closed": is_closed}
    if connection.dialect.name == "mysql":
        connection.execute(text(f"SET SESSION innodb_lock_wait_timeout = {int(wait_s)}"))
        connection.execute(text(_SET + " ON DUPLICATE KEY UPDATE is_closed = VALUES(is_closed)"), values)
    else:
        connection.execute(text(f"SET LOCAL lock_timeout = '{int(wait_s)}s'"))
        connection.execute(text(f"SET LOCAL idle_in_transaction_session_timeout = '{_IDLE_S}s'"))
        connection.execute(text(_SET + " ON CONFLICT (tenant_id) DO UPDATE SET is_closed = EXCLUDED.is_closed"), values)


def make_fence(connection: Connection, tenant_id: str) -> bool:
    """Create the tenant's open fence where there is none; return whether it was missing."""
    ignore = ("INSERT IGNORE", "") if connection.dialect.name == "mysql" else ("INSERT", " ON CONFLICT DO NOTHING")
    statement = _SET.replace("INSERT", ignore[0], 1) + ignore[1]
    return connection.execute(text(statement), {"tenant": tenant_id, "closed": False}).rowcount == 1


_SET = "INSERT INTO write_fences (tenant_id, is_closed) VALUES (:tenant, :closed)"
