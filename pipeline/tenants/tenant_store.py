"""Tenants and the principals of their API keys."""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import Connection

from pipeline.database.rows import TenantStore, now, record_of
from pipeline.database.statements import sql
from pipeline.tenants.accounts import SCOPES, Principal, Tenant, hashed, key_id_of
from pipeline.tenants.api_key_store import ApiKeys
from pipeline.tenants.audit_store import Audit

_USE_RECORDED_AFTER = timedelta(minutes=1)  # a busy key costs one small write a minute, however many gateways there are


class Tenants(TenantStore):
    """The tenant's own row and its keys."""

    def create(self, name: str) -> bool:
        """Create the tenant; False if it exists, and then it stays as it is."""
        statement = "INSERT IGNORE INTO tenants (tenant_id, name, created_at) VALUES (:tenant, :name, :now)"
        return self._run(statement, name=name, now=now()).rowcount == 1

    def find(self) -> Tenant | None:
        """Return the tenant's row, None if there is none."""
        row = self._run(f"SELECT {_COLUMNS} FROM tenants WHERE tenant_id = :tenant").first()
        return None if row is None else record_of(Tenant, row)

    def admit(self, admitted: bool) -> bool:
        """Enable or disable all of the tenant's keys. False if nothing changed or there is no such tenant; one that is
        being erased stays disabled."""
        changed = self._run(
            "UPDATE tenants SET disabled_at = :then WHERE tenant_id = :tenant"
            f" AND disabled_at IS {'NOT ' if admitted else ''}NULL"
            " AND NOT EXISTS (SELECT 1 FROM erasures e WHERE e.tenant_id = tenants.tenant_id"
            " AND e.settled_at IS NULL AND e.requested_at >= tenants.created_at)",
            then=None if admitted else now(),
        )
        if changed.rowcount:
            action = "tenant_enable" if admitted else "tenant_disable"
            Audit(self._connection, self._tenant_id).wrote(action, ids=[self._tenant_id])
        return changed.rowcount == 1

    def issue_key(self, name: str, scopes: tuple[str, ...] = SCOPES) -> str:
        """Create a key and return it; only its hash is stored."""
        return ApiKeys(self._connection, self._tenant_id).issue(name, scopes).secret

    def principal(self, api_key: str) -> Principal | None:
        """Return the caller that the key authenticates, or None if it is unknown, revoked or expired, or its tenant is
        disabled. Records the use of the key, at most once a minute."""
        digest, at = hashed(api_key), now()
        row = self._run(
            "SELECT k.scopes, k.name, k.last_used_at FROM api_keys k JOIN tenants t ON t.tenant_id = k.tenant_id"
            " WHERE k.tenant_id = :tenant AND k.key_hash = :hash AND t.disabled_at IS NULL"
            " AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > :now)",
            hash=digest,
            now=at,
        ).one_or_none()
        if row is None:
            return None
        if row.last_used_at is None or at - row.last_used_at > _USE_RECORDED_AFTER:
            used = "UPDATE api_keys SET last_used_at = :now WHERE tenant_id = :tenant AND key_hash = :hash"
            self._run(used, hash=digest, now=at)
        scopes = frozenset(row.scopes.split())
        return Principal(tenant_id=self._tenant_id, scopes=scopes, key_id=key_id_of(digest), key_name=row.name)


def tenants_page(connection: Connection, *, after: str | None, limit: int) -> list[Tenant]:
    """Return tenants of the installation by id, after the given one; for operators only."""
    statement = sql(f"SELECT {_COLUMNS} FROM tenants WHERE tenant_id > :after ORDER BY tenant_id LIMIT :limit")
    return [record_of(Tenant, row) for row in connection.execute(statement, {"after": after or "", "limit": limit})]


_COLUMNS = "tenant_id, name, created_at, disabled_at"
