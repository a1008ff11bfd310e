"""One tenant's API keys for an administrator: listed, issued, rotated, revoked. Their secrets are never read."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import text

from pipeline.database.mysql_tables import api_keys
from pipeline.database.rows import TenantStore, as_utc, now, record_of, to_naive
from pipeline.database.statements import sql
from pipeline.tenants.accounts import OPERATOR, SCOPES, ApiKey, IssuedKey, TooManyKeys, hashed, key_id_of, new_key
from pipeline.tenants.audit_store import Audit

MOST_KEYS = 1000  # of one tenant, ended ones included: a readable list
_ORDER = (*SCOPES, OPERATOR)


class ApiKeys(TenantStore):
    """The keys of one tenant."""

    def page(self, *, after: tuple[datetime, str] | None, limit: int) -> list[ApiKey]:
        """Return keys, newest first, ended ones included; ``after``: the last one of the page before."""
        values: dict[str, Any] = {"tenant": self._tenant_id, "limit": limit}
        beyond = ""
        if after is not None:
            beyond = " AND (created_at < :at OR (created_at = :at AND key_hash < UNHEX(:id)))"
            values |= {"at": to_naive(after[0]), "id": after[1]}
        statement = f"{_SELECT}{beyond} ORDER BY created_at DESC, key_hash DESC LIMIT :limit"
        return [_key(row) for row in self._connection.execute(text(statement), values)]

    def one(self, key_id: str, *, lock: bool = False) -> ApiKey | None:
        """Return the key of this id, None if the tenant has none."""
        statement = f"{_SELECT} AND LEFT(key_hash, 8) = UNHEX(:id)" + (" FOR UPDATE" if lock else "")
        row = self._run(statement, id=key_id).first()
        return None if row is None else _key(row)

    def issue(self, name: str, scopes: tuple[str, ...], *, expires_at: datetime | None = None) -> IssuedKey:
        """Create a key; only its hash is stored. Raises TooManyKeys."""
        made = self._insert(name, scopes, expires_at)
        self._note("key_issue", made.key.key_id, name=name, scopes=list(made.key.scopes))
        return made

    def rotate(self, key_id: str, *, overlap: timedelta) -> IssuedKey | None:
        """Replace an active key by one with its name, scopes and lifetime; the old one works up to ``overlap`` more.
        None if it is not active. Raises TooManyKeys."""
        old = self.one(key_id, lock=True)
        at = now()
        if old is None or old.state(as_utc(at)) != "active" or old.replaced_by is not None:
            return None
        lifetime = None if old.expires_at is None else old.expires_at - old.created_at
        made = self._insert(old.name, old.scopes, None if lifetime is None else as_utc(at) + lifetime)
        self._run(
            "UPDATE api_keys SET replaced_by = :by, expires_at = LEAST(COALESCE(expires_at, :ends), :ends)"
            " WHERE tenant_id = :tenant AND LEFT(key_hash, 8) = UNHEX(:id)",
            id=key_id,
            by=made.key.key_id,
            ends=at + overlap,
        )
        self._note("key_rotate", key_id, replaced_by=made.key.key_id, overlap_s=int(overlap.total_seconds()))
        return made

    def revoke(self, key_id: str) -> bool:
        """Revoke a key now; one that has ended stays as it is. False if the tenant has none of this id."""
        if self.one(key_id, lock=True) is None:
            return False
        ended = self._run(
            "UPDATE api_keys SET revoked_at = :now"
            " WHERE tenant_id = :tenant AND LEFT(key_hash, 8) = UNHEX(:id) AND revoked_at IS NULL",
            id=key_id,
            now=now(),
        )
        if ended.rowcount:
            self._note("key_revoke", key_id)
        return True

    def _insert(self, name: str, scopes: tuple[str, ...], expires_at: datetime | None) -> IssuedKey:
        count = sql("SELECT COUNT(*) FROM api_keys WHERE tenant_id = :tenant")
        if self._run(count).scalar_one() >= MOST_KEYS:
            raise TooManyKeys(
                f"A tenant has at most {MOST_KEYS} keys, and those that have ended are kept for the audit."
            )
        secret, at = new_key(self._tenant_id), now()
        ordered = tuple(scope for scope in _ORDER if scope in scopes)
        self._insert_row(
            api_keys,
            key_hash=hashed(secret),
            name=name,
            scopes=" ".join(ordered),
            created_at=at,
            expires_at=to_naive(expires_at),
        )
        key = ApiKey(
            key_id=key_id_of(hashed(secret)), name=name, scopes=ordered, created_at=as_utc(at), expires_at=expires_at
        )
        return IssuedKey(key=key, secret=secret)

    def _note(self, action: str, key_id: str, **detail: Any) -> None:
        Audit(self._connection, self._tenant_id).wrote(action, ids=[key_id], **detail)


_SELECT = (
    "SELECT key_hash, name, scopes, created_at, expires_at, revoked_at, last_used_at, replaced_by"
    " FROM api_keys WHERE tenant_id = :tenant"
)


def _key(row: Any) -> ApiKey:
    return record_of(ApiKey, row, key_id=key_id_of(bytes(row.key_hash)), scopes=tuple(row.scopes.split()))
