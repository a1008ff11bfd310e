"""Idempotency keys: the request that holds one, and its answer. A claim is a lease that its holder renews; times are
the database's, so that gateways' clocks do not matter."""

import uuid
from dataclasses import asdict
from typing import Any

from sqlalchemy import Executable

from pipeline.database.rows import TenantStore, record_of
from pipeline.database.statements import TenantsWith, sql
from pipeline.tenants.idempotency import Answered, HeldKey, Running


class IdempotencyKeys(TenantStore):
    """One tenant's keys, each by its digest of 32 bytes."""

    def insert(self, digest: bytes, *, lease_s: float, ttl_s: float) -> HeldKey | None:
        """Claim an unused key, else return None. Use a transaction of its own: waiting holds locks."""
        return self._claim(_INSERT, digest, str(uuid.uuid4()), lease=_micro(lease_s), ttl=_micro(ttl_s))

    def claim(self, digest: bytes, *, lease_s: float, ttl_s: float) -> HeldKey | Running | Answered | None:
        """Return a used key's state, claimed if expired or its holder died; None if it went or was claimed meanwhile."""
        row = self._run(_LOOK, digest=digest).one_or_none()
        if row is None:
            return None
        if row.expired or (row.status is None and row.lease_left <= 0):
            work_id = row.work_id if row.status is None else str(uuid.uuid4())
            times = {"lease": _micro(lease_s), "ttl": _micro(ttl_s)}
            return self._claim(_TAKE_OVER, digest, work_id, **times, before=row.token)
        if row.status is None:
            return Running(lease_left_s=row.lease_left / 1e6)
        return record_of(Answered, row)

    def _claim(self, statement: Executable, digest: bytes, work_id: str, **values: Any) -> HeldKey | None:
        held = HeldKey(tenant_id=self._tenant_id, digest=digest, token=str(uuid.uuid4()), work_id=work_id)
        rows = self._run(statement, digest=digest, work=work_id, token=held.token, **values).rowcount
        return held if rows else None

    def renew(self, digest: bytes, token: str, *, lease_s: float) -> bool:
        """Extend the claim. False if another request holds the key now."""
        return bool(self._run(_RENEW, digest=digest, token=token, lease=_micro(lease_s)).rowcount)

    def keep(self, digest: bytes, token: str, answered: Answered, *, ttl_s: float) -> bool:
        """Store the answer for ``ttl_s`` seconds. False if another request holds the key now."""
        return bool(self._run(_KEEP, digest=digest, token=token, ttl=_micro(ttl_s), **asdict(answered)).rowcount)

    def free(self, digest: bytes, token: str) -> None:
        """Free the key for the next request; this one made nothing."""
        self._run(_FREE, digest=digest, token=token)

    def let_go(self, digest: bytes, token: str) -> None:
        """Free the key for the next request, with this one's work id: it may have made something."""
        self._run(_LET_GO, digest=digest, token=token)

    def forget_expired(self, *, limit: int) -> int:
        """Delete expired keys; return how many."""
        return self._run(_FORGET, limit=limit).rowcount


def _micro(seconds: float) -> int:
    return round(seconds * 1_000_000)


_NOW = "UTC_TIMESTAMP(6)"

tenants_with_expired_keys = TenantsWith(f"SELECT DISTINCT tenant_id FROM idempotency_keys WHERE expires_at <= {_NOW}")

_INSERT = sql(
    "INSERT IGNORE INTO idempotency_keys (tenant_id, digest, work_id, token, claimed_until, expires_at)"
    f" VALUES (:tenant, :digest, :work, :token, {_NOW} + INTERVAL :lease MICROSECOND, {_NOW} + INTERVAL :ttl MICROSECOND)"
)

_LOOK = sql(
    f"SELECT work_id, token, fingerprint, status, answer, expires_at <= {_NOW} AS expired,"
    f" TIMESTAMPDIFF(MICROSECOND, {_NOW}, claimed_until) AS lease_left"
    " FROM idempotency_keys WHERE tenant_id = :tenant AND digest = :digest"
)

_TAKE_OVER = sql(
    "UPDATE idempotency_keys SET work_id = :work, token = :token, fingerprint = NULL, status = NULL, answer = NULL,"
    f" claimed_until = {_NOW} + INTERVAL :lease MICROSECOND, expires_at = {_NOW} + INTERVAL :ttl MICROSECOND"
    " WHERE tenant_id = :tenant AND digest = :digest AND token = :before"
)

_HELD = "tenant_id = :tenant AND digest = :digest AND token = :token AND status IS NULL"

_RENEW = f"UPDATE idempotency_keys SET claimed_until = {_NOW} + INTERVAL :lease MICROSECOND WHERE {_HELD}"

_KEEP = sql(
    "UPDATE idempotency_keys SET fingerprint = :fingerprint, status = :status, answer = :answer,"
    f" expires_at = {_NOW} + INTERVAL :ttl MICROSECOND WHERE {_HELD}"
)

_FREE = f"DELETE FROM idempotency_keys WHERE {_HELD}"

_LET_GO = f"UPDATE idempotency_keys SET claimed_until = {_NOW} WHERE {_HELD}"

_FORGET = sql(f"DELETE FROM idempotency_keys WHERE tenant_id = :tenant AND expires_at <= {_NOW} LIMIT :limit")
