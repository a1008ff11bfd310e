"""The reconciler's position with each tenant and its counts; both survive restarts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields

from sqlalchemy import Connection

from pipeline.database.rows import now
from pipeline.database.statements import sql
from pipeline.documents.document_views import KINDS, Totals
from pipeline.records import Namespace, TenantId

COUNTED = ("chunks", *KINDS, "repaired")
MOST_NAMED = 3  # tenants whose deletions are withheld


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcilePosition:
    """The position to continue at: a namespace, the phase in it, the document after which the next page begins."""

    namespace: Namespace | None
    phase: str | None
    after: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletions:
    """Deletions of a pass over a tenant, vectors and chunk rows together. ``withheld``: too many for the reconciler,
    which waits for an operator until it is 0."""

    pass_deleted: int = 0
    pass_withheld: int = 0
    withheld: int = 0


def next_tenant(connection: Connection) -> TenantId | None:
    """Return the tenant with the oldest check, None if there is no tenant."""
    tenant_id: TenantId | None = connection.execute(_NEXT).scalar_one_or_none()
    return tenant_id


def position_of(connection: Connection, tenant_id: TenantId) -> ReconcilePosition:
    """Return the position at which the last run stopped; the beginning without one."""
    row = connection.execute(_POSITION, {"tenant": tenant_id}).one_or_none()
    if row is None or row.namespace is None:
        return ReconcilePosition(namespace=None, phase=None, after=None)
    return ReconcilePosition(namespace=Namespace(row.namespace), phase=row.phase, after=row.after_document)


def store(
    connection: Connection,
    tenant_id: TenantId,
    position: ReconcilePosition,
    counts: Mapping[str, int],
    deletions: Deletions,
) -> None:
    """Store the position to continue at and the deleted and withheld counts, and add to the other counts."""
    values = {name: counts.get(name, 0) for name in COUNTED}
    connection.execute(_STORE, {"tenant": tenant_id, "now": now(), **asdict(position), **values, **asdict(deletions)})


def deletions_of(connection: Connection, tenant_id: TenantId) -> Deletions:
    """Return how many rows the tenant's passes have deleted and withheld."""
    row = connection.execute(_DELETIONS, {"tenant": tenant_id}).mappings().one_or_none()
    return Deletions() if row is None else Deletions(**{name: int(count) for name, count in row.items()})


def store_withheld(connection: Connection, tenant_id: TenantId, withheld: int) -> None:
    """Store how much a comparison outside the reconciler has withheld; 0 lets the reconciler delete again."""
    connection.execute(_STORE_WITHHELD, {"tenant": tenant_id, "now": now(), "withheld": withheld})


def withheld_by_tenant(connection: Connection) -> dict[TenantId, int]:
    """Return the first `MOST_NAMED` tenants whose deletions wait for an operator, the largest counts first."""
    return {TenantId(tenant_id): withheld for tenant_id, withheld in connection.execute(_WITHHELD)}


def totals(connection: Connection) -> Totals:
    """Return sums over all tenants; no ids."""
    row = connection.execute(_TOTALS).mappings().one()
    return Totals(
        counted={name: int(row[name] or 0) for name in COUNTED},
        last_run=None if row["last_run"] is None else float(row["last_run"]),
        withheld=int(row["withheld"] or 0),
    )


_NEXT = sql(
    "SELECT t.tenant_id FROM tenants t LEFT JOIN alignment_state a ON a.tenant_id = t.tenant_id"
    " ORDER BY a.checked_at IS NOT NULL, a.checked_at, t.tenant_id LIMIT 1"
)

_POSITION = sql("SELECT namespace, phase, after_document FROM alignment_state WHERE tenant_id = :tenant")

_OF_DELETIONS = tuple(field.name for field in fields(Deletions))

_STORE = sql(
    "INSERT INTO alignment_state"
    f" (tenant_id, namespace, phase, after_document, checked_at, {', '.join((*COUNTED, *_OF_DELETIONS))})"
    " VALUES (:tenant, :namespace, :phase, :after, :now,"
    f" {', '.join(f':{name}' for name in (*COUNTED, *_OF_DELETIONS))})"
    " ON DUPLICATE KEY UPDATE namespace = VALUES(namespace), phase = VALUES(phase),"
    " after_document = VALUES(after_document), checked_at = VALUES(checked_at), "
    + ", ".join(f"{name} = VALUES({name})" for name in _OF_DELETIONS)
    + ", "
    + ", ".join(f"{name} = {name} + VALUES({name})" for name in COUNTED)
)

_DELETIONS = sql(f"SELECT {', '.join(_OF_DELETIONS)} FROM alignment_state WHERE tenant_id = :tenant")

_STORE_WITHHELD = sql(
    "INSERT INTO alignment_state (tenant_id, checked_at, withheld) VALUES (:tenant, :now, :withheld)"
    " ON DUPLICATE KEY UPDATE pass_deleted = 0, pass_withheld = 0, withheld = VALUES(withheld)"
)

_WITHHELD = sql(
    "SELECT tenant_id, withheld FROM alignment_state WHERE withheld > 0"
    f" ORDER BY withheld DESC, tenant_id LIMIT {MOST_NAMED}"
)

_TOTALS = sql(
    "SELECT UNIX_TIMESTAMP(MAX(checked_at)) AS last_run, SUM(withheld) AS withheld, "
    + ", ".join(f"SUM({name}) AS {name}" for name in COUNTED)
    + " FROM alignment_state"
)
