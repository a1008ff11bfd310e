"""Tenants and their API keys. A key contains its tenant's id, so looking it up is a statement within one tenant."""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, text

from pipeline.database.rows import TenantStore, now, record_of
from pipeline.records import Actor, TenantId
from pipeline.tenants.audit_store import Audit

TENANT_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
RESERVED = frozenset({"chordwise"})  # keys of Redis begin with the tenant's id, and the installation's own with this
_KEY = re.compile(r"cw_(?P<tenant>[a-z0-9][a-z0-9-]{0,62})_(?P<secret>[A-Za-z0-9-]{32,64})")

SCOPES = ("read", "write", "admin")
OPERATOR = "operator"  # allows actions on every tenant; only the command line grants it


_USE_NOTED_AFTER = timedelta(minutes=1)  # a busy key costs one small write a minute, however many gateways there are


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """A tenant. ``disabled_at``: its keys do not work since then; its accepted jobs continue."""

    tenant_id: TenantId
    name: str
    created_at: datetime
    disabled_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """The authenticated caller: its tenant and the scopes of its key."""

    tenant_id: TenantId
    scopes: frozenset[str]
    key_id: str = ""
    key_name: str = ""

    @property
    def actor(self) -> Actor:
        """The caller as the audit records it."""
        return Actor(key_id=self.key_id, key_name=self.key_name, scopes=tuple(sorted(self.scopes)))


def tenant_of(api_key: str) -> TenantId | None:
    """Return the tenant that a key names, or None if it does not have the form of a key."""
    match = _KEY.fullmatch(api_key)
    return TenantId(match["tenant"]) if match else None


def hashed(api_key: str) -> bytes:
    """Return the stored hash of a key. Plain SHA-256 is enough: the secret has 190 random bits."""
    return hashlib.sha256(api_key.encode()).digest()


def key_id_of(key_hash: bytes) -> str:
    """Return the id of a key in the audit: 16 hexadecimal digits of its hash, which do not reveal the key."""
    return key_hash[:8].hex()


def new_key(tenant_id: TenantId) -> str:
    """Return a new random key."""
    return f"cw_{tenant_id}_{secrets.token_hex(24)}"


class Tenants(TenantStore):
    """The tenant's own row and its keys."""

    def create(self, name: str) -> bool:
        """Create the tenant; False if it exists, and then it stays as it is."""
        made = self._run(
            text("INSERT IGNORE INTO tenants (tenant_id, name, created_at) VALUES (:tenant, :name, :now)"),
            name=name,
            now=now(),
        )
        return made.rowcount == 1

    def find(self) -> Tenant | None:
        """Return the tenant's row, None if there is none."""
        statement = text(f"SELECT {_COLUMNS} FROM tenants WHERE tenant_id = :tenant")
        row = self._run(statement).first()
        return None if row is None else _tenant(row)

    def admit(self, admitted: bool) -> bool:
        """Enable or disable all of the tenant's keys. False if nothing changed or there is no such tenant; one that is
        being erased stays disabled."""
        changed = self._run(
            text(
                "UPDATE tenants SET disabled_at = :then WHERE tenant_id = :tenant"
                f" AND disabled_at IS {'NOT ' if admitted else ''}NULL"
                " AND NOT EXISTS (SELECT 1 FROM erasures e WHERE e.tenant_id = tenants.tenant_id"
                " AND e.settled_at IS NULL AND e.requested_at >= tenants.created_at)"
            ),
            then=None if admitted else now(),
        )
        if changed.rowcount:
            action = "tenant_enable" if admitted else "tenant_disable"
            Audit(self._connection, self._tenant_id).wrote(action, ids=[self._tenant_id])
        return changed.rowcount == 1

    def issue_key(self, name: str, scopes: tuple[str, ...] = SCOPES) -> str:
        """Create a key and return it; only its hash is stored."""
        key = new_key(self._tenant_id)
        self._run(
            text(
                "INSERT INTO api_keys (tenant_id, key_hash, name, scopes, created_at)"
                " VALUES (:tenant, :hash, :name, :scopes, :now)"
            ),
            hash=hashed(key),
            name=name,
            scopes=" ".join(scopes),
            now=now(),
        )
        audit = Audit(self._connection, self._tenant_id)
        audit.wrote("key_issue", ids=[key_id_of(hashed(key))], name=name, scopes=list(scopes))
        return key

    def principal(self, api_key: str) -> Principal | None:
        """Return the caller that the key authenticates, or None if it is unknown, revoked or expired, or its tenant is
        disabled. Records the use of the key, at most once a minute."""
        digest, at = hashed(api_key), now()
        row = self._run(
            text(
                "SELECT k.scopes, k.name, k.last_used_at FROM api_keys k JOIN tenants t ON t.tenant_id = k.tenant_id"
                " WHERE k.tenant_id = :tenant AND k.key_hash = :hash AND t.disabled_at IS NULL"
                " AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > :now)"
            ),
            hash=digest,
            now=at,
        ).one_or_none()
        if row is None:
            return None
        if row.last_used_at is None or at - row.last_used_at > _USE_NOTED_AFTER:
            used = "UPDATE api_keys SET last_used_at = :now WHERE tenant_id = :tenant AND key_hash = :hash"
            self._run(text(used), hash=digest, now=at)
        scopes = frozenset(row.scopes.split())
        return Principal(tenant_id=self._tenant_id, scopes=scopes, key_id=key_id_of(digest), key_name=row.name)


def tenants_page(connection: Connection, *, after: str | None, limit: int) -> list[Tenant]:
    """Return tenants of the installation by id, after the given one; for operators only."""
    statement = text(f"SELECT {_COLUMNS} FROM tenants WHERE tenant_id > :after ORDER BY tenant_id LIMIT :limit")
    return [_tenant(row) for row in connection.execute(statement, {"after": after or "", "limit": limit})]


_COLUMNS = "tenant_id, name, created_at, disabled_at"


def _tenant(row: Any) -> Tenant:
    return record_of(Tenant, row)
