"""One tenant's API keys for an administrator: listed, issued, rotated, revoked. Their secrets are never read."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, and_, func, select, update

from pipeline.database.mysql_tables import api_keys
from pipeline.database.rows import TenantStore, as_utc, follows, now, record_of, to_naive
from pipeline.tenants.accounts import OPERATOR, SCOPES, ApiKey, IssuedKey, TooManyKeys, hashed, key_id_of, new_key
from pipeline.tenants.audit_store import Audit

MOST_KEYS = 1000  # of one tenant, ended ones included: a readable list
_ORDER = (*SCOPES, OPERATOR)


class ApiKeys(TenantStore):
    """The keys of one tenant."""

    def page(self, *, after: tuple[datetime, str] | None, limit: int) -> list[ApiKey]:
        """Return keys, newest first, ended ones included; ``after``: the last one of the page before."""
        at, key_hash = api_keys.c.created_at, api_keys.c.key_hash
        statement = select(api_keys).where(self._own(api_keys)).order_by(at.desc(), key_hash.desc()).limit(limit)
        if after is not None:
            statement = statement.where(follows(at, key_hash, (after[0], func.unhex(after[1]))))
        return [_key(row) for row in self._connection.execute(statement)]

    def one(self, key_id: str, *, lock: bool = False) -> ApiKey | None:
        """Return the key of this id, None if the tenant has none."""
        statement = select(api_keys).where(self._is(key_id))
        row = self._connection.execute(statement.with_for_update() if lock else statement).first()
        return None if row is None else _key(row)

    def issue(self, name: str, scopes: tuple[str, ...], *, expires_at: datetime | None = None) -> IssuedKey:
        """Create a key; only its hash is stored. Raises TooManyKeys."""
        issued = self._insert(name, scopes, expires_at)
        self._audit("key_issue", issued.key.key_id, name=name, scopes=list(issued.key.scopes))
        return issued

    def rotate(self, key_id: str, *, overlap: timedelta) -> IssuedKey | None:
        """Replace an active key by one with its name, scopes and lifetime; the old one works up to ``overlap`` more.
        None if it is not active. Raises TooManyKeys."""
        old = self.one(key_id, lock=True)
        at = now()
        if old is None or old.state(as_utc(at)) != "active" or old.replaced_by is not None:
            return None
        lifetime = None if old.expires_at is None else old.expires_at - old.created_at
        issued = self._insert(old.name, old.scopes, None if lifetime is None else as_utc(at) + lifetime)
        ends = func.least(func.coalesce(api_keys.c.expires_at, at + overlap), at + overlap)
        statement = update(api_keys).where(self._is(key_id))
        self._connection.execute(statement.values(replaced_by=issued.key.key_id, expires_at=ends))
        self._audit("key_rotate", key_id, replaced_by=issued.key.key_id, overlap_s=int(overlap.total_seconds()))
        return issued

    def revoke(self, key_id: str) -> bool:
        """Revoke a key now; one that has ended stays as it is. False if the tenant has none of this id."""
        if self.one(key_id, lock=True) is None:
            return False
        active = and_(self._is(key_id), api_keys.c.revoked_at.is_(None))
        if self._connection.execute(update(api_keys).where(active).values(revoked_at=now())).rowcount:
            self._audit("key_revoke", key_id)
        return True

    def _is(self, key_id: str) -> ColumnElement[bool]:
        return and_(self._own(api_keys), func.left(api_keys.c.key_hash, 8) == func.unhex(key_id))

    def _insert(self, name: str, scopes: tuple[str, ...], expires_at: datetime | None) -> IssuedKey:
        if self._run("SELECT COUNT(*) FROM api_keys WHERE tenant_id = :tenant").scalar_one() >= MOST_KEYS:
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
        key_id = key_id_of(hashed(secret))
        key = ApiKey(key_id=key_id, name=name, scopes=ordered, created_at=as_utc(at), expires_at=expires_at)
        return IssuedKey(key=key, secret=secret)

    def _audit(self, action: str, key_id: str, **detail: Any) -> None:
        Audit(self._connection, self._tenant_id).wrote(action, ids=[key_id], **detail)


def _key(row: Any) -> ApiKey:
    return record_of(ApiKey, row, key_id=key_id_of(bytes(row.key_hash)), scopes=tuple(row.scopes.split()))
