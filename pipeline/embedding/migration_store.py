"""Migrations to another embedding model, and each tenant's progress, under a lease and a fencing token.

States: ``backfilling → verifying → ready ⇄ switched → finishing → finished``; ``aborting → aborted`` from the first three.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from sqlalchemy import Connection, text

from chordwise.contract.migration import Comparison, MigrationProgress
from pipeline.database.rows import now, record_of, to_json
from pipeline.records import EmbeddingSpace, Namespace, TenantId

MigrationState = Literal[
    "backfilling", "verifying", "ready", "switched", "finishing", "finished", "aborting", "aborted"
]
OPEN: tuple[MigrationState, ...] = ("backfilling", "verifying", "ready", "switched", "finishing", "aborting")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelMigration:
    """One model migration. ``missing``: the chunks that the last verification could not embed, None before it."""

    space: EmbeddingSpace
    source: int
    state: MigrationState
    pass_number: int
    missing: int | None
    comparison: Mapping[str, Any] | None
    lease_token: int
    next_step_at: datetime
    error_code: str | None
    error_detail: str | None
    created_at: datetime
    ready_at: datetime | None
    switched_at: datetime | None
    ended_at: datetime | None

    @property
    def open(self) -> bool:
        """Whether the migration has steps or decisions left."""
        return self.state in OPEN


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """The position of a pass over a tenant: namespace (None: the beginning), phase in it, the last document before."""

    namespace: Namespace | None = None
    phase: str | None = None
    after: str | None = None

    @classmethod
    def of(cls, row: Any) -> Cursor:
        """Return the position in a row; the beginning without one."""
        if row is None or row.namespace is None:
            return cls()
        return cls(namespace=Namespace(row.namespace), phase=row.phase, after=row.after_document)


class ModelMigrations:
    """The installation's migrations. They belong to no tenant; only ids and counts of tenants are read."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def every(self) -> list[ModelMigration]:
        """Return all migrations, latest first."""
        return [_migration(row) for row in self._connection.execute(text(f"{_SELECT} ORDER BY number DESC"))]

    def one(self, number: int, *, lock: bool = False) -> ModelMigration | None:
        """Return the migration to this space; ``lock``: block changes of its state until the transaction ends."""
        statement = f"{_SELECT} AND number = :number" + (" FOR UPDATE" if lock else "")
        row = self._connection.execute(text(statement), {"number": number}).one_or_none()
        return None if row is None else _migration(row)

    def space(self, number: int) -> EmbeddingSpace:
        """Return a space that took part in any migration."""
        return _space(self._connection.execute(text(_ANY), {"number": number}).one())

    def next_number(self) -> int:
        """Return an unused number for a space."""
        return max(1, int(self._connection.execute(_LAST).scalar_one() or 1)) + 1

    def add(self, target: EmbeddingSpace, source: EmbeddingSpace, *, begin_after_s: float) -> None:
        """Store a new migration, and both spaces as they are. It begins when every process knows of it."""
        moment = now()
        for space, state, origin in ((source, "base", None), (target, "backfilling", source.number)):
            begin = moment + timedelta(seconds=begin_after_s)
            values = {"state": state, "source": origin, "now": moment, "begin": begin}
            self._connection.execute(_ADD, asdict(space) | values)

    def move(self, number: int, state: MigrationState, **changes: Any) -> None:
        """Change the state, and with it columns such as ``switched_at``; clear a stored error."""
        columns = "".join(f", {name} = :{name}" for name in changes)
        statement = f"UPDATE embedding_spaces SET state = :state, error_code = NULL, error_detail = NULL{columns}"
        self._connection.execute(
            text(f"{statement} WHERE number = :number"), {"number": number, "state": state, **changes}
        )

    def record_comparison(self, number: int, comparison: Comparison) -> None:
        """Store the result of a comparison; it holds numbers only."""
        values = {"number": number, "comparison": to_json(asdict(comparison))}
        self._connection.execute(
            text("UPDATE embedding_spaces SET comparison = :comparison WHERE number = :number"), values
        )

    def is_due(self) -> bool:
        """Return whether `take` would return a migration."""
        return self._connection.execute(_DUE, {"now": now()}).first() is not None

    def take(self, *, lease_s: float) -> ModelMigration | None:
        """Take the open migration whose next step is due and that nobody holds, under a lease, or None."""
        moment = now()
        row = self._connection.execute(_TAKE, {"now": moment}).one_or_none()
        if row is None:
            return None
        values = {"number": row.number, "until": moment + timedelta(seconds=lease_s)}
        self._connection.execute(_LEASE, values)
        return self.one(row.number)

    def hold(self, migration: ModelMigration, *, lease_s: float) -> bool:
        """Renew the lease and lock the row; False if another process holds the migration or it was steered elsewhere."""
        values = {**_claim(migration), "until": now() + timedelta(seconds=lease_s)}
        return self._connection.execute(_RENEW, values).rowcount == 1

    def release(self, migration: ModelMigration, *, wait_s: float, code: str | None, detail: str | None) -> None:
        """End the lease; the next step is due in ``wait_s``."""
        due = {"at": now() + timedelta(seconds=wait_s)}
        error = {"code": code, "detail": None if detail is None else detail[:1024]}
        self._connection.execute(_RELEASE, _claim(migration) | due | error)

    def next_tenant(self, number: int, pass_number: int) -> TenantId | None:
        """Return the tenant that waited longest of those that this pass has not finished."""
        tenant_id = self._connection.execute(_NEXT_TENANT, {"space": number, "pass": pass_number}).scalar_one_or_none()
        return None if tenant_id is None else TenantId(tenant_id)

    def cursor(self, tenant_id: TenantId, number: int, pass_number: int) -> Cursor:
        """Return the position of this pass with a tenant."""
        values = {"tenant": tenant_id, "space": number, "pass": pass_number}
        return Cursor.of(self._connection.execute(_CURSOR, values).one_or_none())

    def record_progress(
        self,
        tenant_id: TenantId,
        number: int,
        pass_number: int,
        cursor: Cursor,
        *,
        finished: bool,
        counts: Mapping[str, int],
    ) -> None:
        """Store the position with a tenant, and add to the counts."""
        progress = {"tenant": tenant_id, "space": number, "pass": pass_number, "finished": int(finished), "now": now()}
        position = {"namespace": cursor.namespace, "phase": cursor.phase, "after": cursor.after}
        counted = {name: counts.get(name, 0) for name in ("chunks", "found", "mended", "embedded")}
        self._connection.execute(_NOTE, progress | position | counted)

    def progress(self, number: int, pass_number: int) -> MigrationProgress:
        """Return the progress of the present pass."""
        row = self._connection.execute(_PROGRESS, {"space": number, "pass": pass_number}).mappings().one()
        return MigrationProgress(**{name: int(value or 0) for name, value in row.items()})

    def forget_progress(self, number: int) -> None:
        """Drop the cursors of a migration that has ended."""
        self._connection.execute(text("DELETE FROM embedding_backfill WHERE space = :space"), {"space": number})


_SELECT = "SELECT * FROM embedding_spaces WHERE source IS NOT NULL"
_ANY = "SELECT * FROM embedding_spaces WHERE number = :number"
_LAST = text("SELECT MAX(number) FROM embedding_spaces")
_STATES = ", ".join(f"'{state}'" for state in OPEN)

_ADD = text(
    "INSERT INTO embedding_spaces (number, table_name, provider, model, dimension, service, state, source, next_step_at,"
    " created_at) VALUES (:number, :table, :provider, :model, :dimension, :service, :state, :source, :begin, :now)"
    " ON DUPLICATE KEY UPDATE service = VALUES(service)"
)

_FIRST_DUE = (
    f"SELECT number FROM embedding_spaces WHERE source IS NOT NULL AND state IN ({_STATES}) AND next_step_at <= :now"
    " AND (lease_until IS NULL OR lease_until < :now) ORDER BY number DESC LIMIT 1"
)
_DUE, _TAKE = text(_FIRST_DUE), text(f"{_FIRST_DUE} FOR UPDATE")
_LEASE = text("UPDATE embedding_spaces SET lease_until = :until, lease_token = lease_token + 1 WHERE number = :number")
_MINE = " WHERE number = :number AND lease_token = :token"
_RENEW = text(f"UPDATE embedding_spaces SET lease_until = :until{_MINE} AND state = :state")
_RELEASE = text(
    f"UPDATE embedding_spaces SET lease_until = NULL, next_step_at = :at, error_code = :code, error_detail = :detail"
    f"{_MINE} AND state = :state"
)

_NEXT_TENANT = text(
    "SELECT t.tenant_id FROM tenants t LEFT JOIN embedding_backfill b ON b.tenant_id = t.tenant_id AND b.space = :space"
    " WHERE b.tenant_id IS NULL OR b.pass < :pass OR b.finished = 0"
    " ORDER BY b.updated_at IS NOT NULL, b.updated_at, t.tenant_id LIMIT 1"
)
_CURSOR = text(
    "SELECT namespace, phase, after_document FROM embedding_backfill"
    " WHERE tenant_id = :tenant AND space = :space AND pass = :pass"
)
# MySQL assigns from left to right: the sums compare the pass before it is overwritten.
_NOTE = text(
    "INSERT INTO embedding_backfill (tenant_id, space, pass, finished, namespace, phase, after_document, chunks, found,"
    " mended, embedded, updated_at) VALUES (:tenant, :space, :pass, :finished, :namespace, :phase, :after, :chunks, :found,"
    " :mended, :embedded, :now) ON DUPLICATE KEY UPDATE"
    " chunks = IF(pass = VALUES(pass), chunks, 0) + VALUES(chunks),"
    " found = IF(pass = VALUES(pass), found, 0) + VALUES(found),"
    " mended = IF(pass = VALUES(pass), mended, 0) + VALUES(mended),"
    " embedded = embedded + VALUES(embedded), pass = VALUES(pass), finished = VALUES(finished),"
    " namespace = VALUES(namespace), phase = VALUES(phase), after_document = VALUES(after_document),"
    " updated_at = VALUES(updated_at)"
)
_PROGRESS = text(
    "SELECT (SELECT COUNT(*) FROM tenants) AS tenants,"
    " (SELECT SUM(chunk_count) FROM namespaces) AS chunks_total,"
    " SUM(pass = :pass AND finished = 1) AS tenants_done,"
    " SUM(IF(pass = :pass, chunks, 0)) AS chunks, SUM(IF(pass = :pass, found, 0)) AS found,"
    " SUM(IF(pass = :pass, mended, 0)) AS mended, SUM(embedded) AS embedded"
    " FROM embedding_backfill WHERE space = :space"
)


def _claim(migration: ModelMigration) -> dict[str, Any]:
    return {"number": migration.space.number, "token": migration.lease_token, "state": migration.state}


def _space(row: Any) -> EmbeddingSpace:
    return record_of(EmbeddingSpace, row, table=row.table_name)


def _migration(row: Any) -> ModelMigration:
    return record_of(
        ModelMigration,
        row,
        space=_space(row),
        pass_number=getattr(row, "pass"),
        comparison=json.loads(row.comparison) if row.comparison else None,
        next_step_at=row.next_step_at,
    )
