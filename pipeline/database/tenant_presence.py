"""Refuse new rows of a tenant that is being or has been erased.

A transaction on MySQL looks for an erasure before its first INSERT for the tenant; a write to PostgreSQL holds the
tenant's advisory lock and then asks MySQL. An erasure is recorded first, and its deletions wait for the rows and the
locks of transactions that began before: so none of them can add a row that the erasure does not see.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Connection, Engine, event, text

from pipeline.errors import TenantGone

_PRESENT: Final = "chordwise_present"  # of a connection: the tenants of which this transaction found no erasure
_INSERT = re.compile(r"\s*(?:INSERT|REPLACE)\s+(?:IGNORE\s+)?INTO\s+[`\"]?(\w+)[`\"]?\s*\(([^)]*)\)", re.IGNORECASE)
# Rows that come before their tenant, or outlive it.
_WITHOUT_TENANT = ("tenants", "erasures")
_NAMES = ("tenant", "tenant_id", "tenant_id_m0")  # of the parameter, in our statements and in SQLAlchemy's
_ERASED = text(
    "SELECT 1 FROM erasures e WHERE e.tenant_id = :tenant"
    " AND NOT EXISTS (SELECT 1 FROM tenants t WHERE t.tenant_id = e.tenant_id)"
)
_SHARE = text("SELECT pg_advisory_xact_lock_shared(hashtextextended(:tenant, 1))")
_CLOSE = text("SELECT pg_advisory_xact_lock(hashtextextended(:tenant, 1))")
_WAIT_S: Final = 3

RequireTenant = Callable[[str], None]  # raises TenantGone for an erased tenant


def none_required(_tenant_id: str) -> None:
    """Require nothing: for stores that are only read."""


def require_tenants(engine: Engine) -> None:
    """Have the transactions of a MySQL engine raise TenantGone for an INSERT of an erased tenant."""
    event.listen(engine, "begin", _forget)
    event.listen(engine, "before_cursor_execute", _check)


def require_tenant(connection: Connection, tenant_id: str) -> None:
    """Raise TenantGone if the tenant is being or has been erased from this MySQL database and was not created again."""
    if connection.execute(_ERASED, {"tenant": tenant_id}).first() is not None:
        raise TenantGone(f"There is no tenant {tenant_id!r}: it has been erased.")


def share_tenant(connection: Connection, tenant_id: str) -> None:
    """Hold the tenant's lock in PostgreSQL until the transaction ends, beside other writers."""
    connection.execute(_SHARE, {"tenant": tenant_id})


def close_tenant(connection: Connection, tenant_id: str) -> None:
    """Wait for the tenant's writers in PostgreSQL. Raises Conflict when that takes longer than a few seconds."""
    connection.execute(text(f"SET LOCAL lock_timeout = '{_WAIT_S}s'"))
    connection.execute(_CLOSE, {"tenant": tenant_id})


def _forget(connection: Connection) -> None:
    connection.info.pop(_PRESENT, None)


def _check(connection: Connection, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
    position = _tenant_column(statement)
    if position is None:
        return
    tenant_id = _tenant(parameters, position)
    present: set[str] = connection.info.setdefault(_PRESENT, set())
    if tenant_id is not None and tenant_id not in present:
        require_tenant(connection, tenant_id)
        present.add(tenant_id)


def _tenant_column(statement: str) -> int | None:
    """Return the position of the tenant among the columns of an INSERT; None for another statement or table."""
    found = _INSERT.match(statement)
    if found is None or found[1].lower() in _WITHOUT_TENANT:
        return None
    columns = [column.strip(' `"\n') for column in found[2].split(",")]
    return columns.index("tenant_id") if "tenant_id" in columns else None


def _tenant(parameters: Any, position: int) -> str | None:
    """Return the tenant among the parameters of one row, or of the first of several."""
    row = parameters[0] if isinstance(parameters, list) and parameters else parameters
    if isinstance(row, Mapping):
        return next((row[name] for name in _NAMES if name in row), None)
    return row[position] if isinstance(row, Sequence) and len(row) > position else None
