"""Business APIs of tenants. The values of their headers are here encrypted, and leave this module in that form only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Select, select

from pipeline.api_sources.api_source import ApiSource, StoredSource, read_source, source_as_json
from pipeline.database.mysql_tables import api_sources
from pipeline.database.rows import TenantStore, now, record_of
from pipeline.tenants.audit_store import Audit


class ApiSources(TenantStore):
    """One tenant's sources."""

    def lock(self) -> int:
        """Return the number of sources, and block adding others until the transaction ends."""
        return self._lock_and_count(api_sources)

    def put(self, name: str, source: ApiSource, secrets: bytes | None) -> None:
        """Store a source under its name, replacing an earlier one."""
        moment = now()
        values = {"source": source_as_json(source).decode(), "secrets": secrets, "updated_at": moment}
        self._upsert(api_sources, {"name": name}, values, created_at=moment)
        Audit(self._connection, self._tenant_id).wrote("api_source_put", ids=[name])

    def all(self) -> list[StoredSource]:
        """Return every source, by name."""
        return [_stored(row) for row in self._connection.execute(self._sources())]

    def named(self, names: Sequence[str]) -> list[StoredSource]:
        """Return the sources of these names that there are, by name."""
        statement = self._sources().where(api_sources.c.name.in_(names))
        return [_stored(row) for row in self._connection.execute(statement)] if names else []

    def one(self, name: str) -> StoredSource | None:
        """Return one source, or None."""
        return next(iter(self.named([name])), None)

    def remove(self, name: str) -> bool:
        """Delete a source. False if there is none."""
        removed = bool(self._remove_rows(api_sources, name=name))
        if removed:
            Audit(self._connection, self._tenant_id).wrote("api_source_remove", ids=[name])
        return removed

    def _sources(self) -> Select[*tuple[Any, ...]]:
        return select(api_sources).where(self._own(api_sources)).order_by(api_sources.c.name)


def _stored(row: Any) -> StoredSource:
    secrets = None if row.secrets is None else bytes(row.secrets)
    return record_of(StoredSource, row, source=read_source(row.source), secrets=secrets)
