"""Business APIs of tenants. The values of their headers are here sealed, and leave this module in that form only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, text

from pipeline.api_sources.api_source import ApiSource, read_source, source_as_json
from pipeline.database.rows import TenantStore, now, record_of
from pipeline.tenants.audit_store import Audit


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSource:
    """A source and its name. ``secrets``: the sealed values of those headers that are stored."""

    name: str
    source: ApiSource
    secrets: bytes | None = field(default=None, repr=False)
    created_at: datetime
    updated_at: datetime


class ApiSources(TenantStore):
    """One tenant's sources."""

    def lock(self) -> int:
        """Return the number of sources, and block adding others until the transaction ends."""
        self._run(text("SELECT 1 FROM tenants WHERE tenant_id = :tenant FOR UPDATE"))
        return int(self._run(_COUNT).scalar_one())

    def put(self, name: str, source: ApiSource, secrets: bytes | None) -> None:
        """Keep a source under its name, in the place of an earlier one."""
        values = {"name": name, "source": source_as_json(source).decode(), "secrets": secrets, "now": now()}
        self._run(_PUT, **values)
        Audit(self._connection, self._tenant_id).wrote("api_source_put", ids=[name])

    def all(self) -> list[StoredSource]:
        """Return every source, by name."""
        return [_stored(row) for row in self._run(text(_ALL))]

    def named(self, names: Sequence[str]) -> list[StoredSource]:
        """Return the sources of these names that there are, by name."""
        if not names:
            return []
        return [_stored(row) for row in self._run(_NAMED, names=names)]

    def one(self, name: str) -> StoredSource | None:
        """Return one source, or None."""
        return next(iter(self.named([name])), None)

    def remove(self, name: str) -> bool:
        """Forget a source. False if there is none."""
        gone = bool(self._run(_REMOVE, name=name).rowcount)
        if gone:
            Audit(self._connection, self._tenant_id).wrote("api_source_remove", ids=[name])
        return gone


_SELECT = "SELECT name, source, secrets, created_at, updated_at FROM api_sources WHERE tenant_id = :tenant"
_ALL = f"{_SELECT} ORDER BY name"
_NAMED = text(f"{_SELECT} AND name IN :names ORDER BY name").bindparams(bindparam("names", expanding=True))
_COUNT = text("SELECT COUNT(*) FROM api_sources WHERE tenant_id = :tenant")
_REMOVE = text("DELETE FROM api_sources WHERE tenant_id = :tenant AND name = :name")
_PUT = text(
    "INSERT INTO api_sources (tenant_id, name, source, secrets, created_at, updated_at)"
    " VALUES (:tenant, :name, :source, :secrets, :now, :now)"
    " ON DUPLICATE KEY UPDATE source = :source, secrets = :secrets, updated_at = :now"
)


def _stored(row: Any) -> StoredSource:
    secrets = None if row.secrets is None else bytes(row.secrets)
    return record_of(StoredSource, row, source=read_source(row.source), secrets=secrets)
