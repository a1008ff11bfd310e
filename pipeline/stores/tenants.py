"""Tenants and their API keys. A key says whose it is, so that looking it up is already a statement within one tenant."""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, text

from pipeline.records import Actor, TenantId
from pipeline.stores.audit import Audit
from pipeline.stores.rows import now

TENANT_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_KEY = re.compile(r"cw_(?P<tenant>[a-z0-9][a-z0-9-]{0,62})_(?P<secret>[A-Za-z0-9-]{32,64})")

SCOPES = ("read", "write", "admin")
OPERATOR = "operator"  # may do what concerns every tenant; no key has it unless it was asked for in a shell


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Who is asking: the tenant and what the key may do."""

    tenant_id: TenantId
    scopes: frozenset[str]
    key_id: str = ""
    key_name: str = ""

    @property
    def actor(self) -> Actor:
        """What may be written down of who asks."""
        return Actor(key_id=self.key_id, key_name=self.key_name, scopes=tuple(sorted(self.scopes)))


def tenant_of(api_key: str) -> TenantId | None:
    """The tenant a key claims to belong to, or None if it is not shaped like a key."""
    match = _KEY.fullmatch(api_key)
    return TenantId(match["tenant"]) if match else None


def hashed(api_key: str) -> bytes:
    """What is kept of a key. Plain SHA-256 is enough: the secret has 190 bits of its own."""
    return hashlib.sha256(api_key.encode()).digest()


def key_id_of(key_hash: bytes) -> str:
    """How the audit names a key: 16 hexadecimal digits of its hash, from which nobody gets the key."""
    return key_hash[:8].hex()


class Tenants:
    """The tenant's own row and its keys."""

    def __init__(self, connection: Connection, tenant_id: TenantId) -> None:
        self._connection = connection
        self._tenant_id = tenant_id

    def create(self, name: str) -> None:
        """Make the tenant if it is not there."""
        self._connection.execute(
            text("INSERT IGNORE INTO tenants (tenant_id, name, created_at) VALUES (:tenant, :name, :now)"),
            {"tenant": self._tenant_id, "name": name, "now": now()},
        )

    def issue_key(self, name: str, scopes: tuple[str, ...] = SCOPES) -> str:
        """Make a key and give it back, once: only its hash is kept."""
        secret = secrets.token_hex(24)
        key = f"cw_{self._tenant_id}_{secret}"
        self._connection.execute(
            text(
                "INSERT INTO api_keys (tenant_id, key_hash, name, scopes, created_at)"
                " VALUES (:tenant, :hash, :name, :scopes, :now)"
            ),
            {"tenant": self._tenant_id, "hash": hashed(key), "name": name, "scopes": " ".join(scopes), "now": now()},
        )
        self._note("key_issue", key, name=name, scopes=list(scopes))
        return key

    def revoke_key(self, api_key: str) -> bool:
        """End a key now. False if the tenant has no such key in use."""
        result = self._connection.execute(
            text(
                "UPDATE api_keys SET revoked_at = :now"
                " WHERE tenant_id = :tenant AND key_hash = :hash AND revoked_at IS NULL"
            ),
            {"tenant": self._tenant_id, "hash": hashed(api_key), "now": now()},
        )
        if result.rowcount == 1:
            self._note("key_revoke", api_key)
        return result.rowcount == 1

    def _note(self, action: str, api_key: str, **detail: Any) -> None:
        Audit(self._connection, self._tenant_id).wrote(action, ids=[key_id_of(hashed(api_key))], **detail)

    def principal(self, api_key: str) -> Principal | None:
        """Who the key stands for, or None if it is unknown, revoked or expired."""
        digest = hashed(api_key)
        row = self._connection.execute(
            text(
                "SELECT scopes, name FROM api_keys WHERE tenant_id = :tenant AND key_hash = :hash"
                " AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > :now)"
            ),
            {"tenant": self._tenant_id, "hash": digest, "now": now()},
        ).one_or_none()
        if row is None:
            return None
        scopes = frozenset(row.scopes.split())
        return Principal(tenant_id=self._tenant_id, scopes=scopes, key_id=key_id_of(digest), key_name=row.name)
