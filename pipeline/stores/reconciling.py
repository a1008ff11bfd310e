"""Where the reconciler is with each tenant, and what it has found so far: survives every restart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, text

from pipeline.records import Namespace, TenantId
from pipeline.stores.rows import now

KINDS = ("missing", "orphaned", "stale", "misplaced", "miscounted", "leftover", "statistics", "document_vectors")
COUNTED = ("chunks", *KINDS, "repaired")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where to go on with a tenant: a namespace, the phase in it, the document after which the next page begins."""

    namespace: Namespace | None
    phase: str | None
    after: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """What the reconciler has counted for all tenants together, and when it last looked at anything (Unix time)."""

    counted: Mapping[str, int]
    last_run: float | None


def next_tenant(connection: Connection) -> TenantId | None:
    """The tenant that was not looked at for longest, None if there is no tenant."""
    found = connection.execute(_NEXT).scalar_one_or_none()
    return None if found is None else TenantId(found)


def place_of(connection: Connection, tenant_id: TenantId) -> Place:
    """Where the last run stopped with this tenant; the beginning if there was none."""
    row = connection.execute(_PLACE, {"tenant": tenant_id}).one_or_none()
    if row is None or row.namespace is None:
        return Place(namespace=None, phase=None, after=None)
    return Place(namespace=Namespace(row.namespace), phase=row.phase, after=row.after_document)


def note(connection: Connection, tenant_id: TenantId, place: Place, counts: Mapping[str, int]) -> None:
    """Remember where to go on, and add to what was counted."""
    values = {name: counts.get(name, 0) for name in COUNTED}
    place_values = {"namespace": place.namespace, "phase": place.phase, "after": place.after}
    connection.execute(_NOTE, {"tenant": tenant_id, "now": now(), **place_values, **values})


def totals(connection: Connection) -> Totals:
    """Sums over all tenants; no ids."""
    row = connection.execute(_TOTALS).mappings().one()
    return Totals(
        counted={name: int(row[name] or 0) for name in COUNTED},
        last_run=None if row["last_run"] is None else float(row["last_run"]),
    )


_NEXT = text(
    "SELECT t.tenant_id FROM tenants t LEFT JOIN alignment_state a ON a.tenant_id = t.tenant_id"
    " ORDER BY a.checked_at IS NOT NULL, a.checked_at, t.tenant_id LIMIT 1"
)

_PLACE = text("SELECT namespace, phase, after_document FROM alignment_state WHERE tenant_id = :tenant")

_NOTE = text(
    f"INSERT INTO alignment_state (tenant_id, namespace, phase, after_document, checked_at, {', '.join(COUNTED)})"
    f" VALUES (:tenant, :namespace, :phase, :after, :now, {', '.join(f':{name}' for name in COUNTED)})"
    " ON DUPLICATE KEY UPDATE namespace = VALUES(namespace), phase = VALUES(phase),"
    " after_document = VALUES(after_document), checked_at = VALUES(checked_at), "
    + ", ".join(f"{name} = {name} + VALUES({name})" for name in COUNTED)
)

_TOTALS = text(
    "SELECT UNIX_TIMESTAMP(MAX(checked_at)) AS last_run, "
    + ", ".join(f"SUM({name}) AS {name}" for name in COUNTED)
    + " FROM alignment_state"
)
