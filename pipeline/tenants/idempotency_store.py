"""Idempotency keys: the request that holds one, and its answer. A claim is a lease that its holder renews; times are
the database's, so that gateways' clocks do not matter."""

from __future__ import annotations

import uuid

from sqlalchemy import Connection, Row

from pipeline.database.rows import TenantStore, record_of
from pipeline.database.statements import sql
from pipeline.records import TenantId
from pipeline.tenants.idempotency import Answered, Claimed, Running


class IdempotencyKeys(TenantStore):
    """One tenant's keys, each by its digest of 32 bytes."""

    def insert(self, digest: bytes, *, lease_s: float, ttl_s: float) -> Claimed | None:
        """Claim an unused key, else return None. Use a transaction of its own: waiting for a row here would hold locks
        that its owner needs."""
        claimed = Claimed(work_id=str(uuid.uuid4()), token=str(uuid.uuid4()))
        written = self._run(
            _INSERT, digest=digest, work=claimed.work_id, token=claimed.token, lease=_micro(lease_s), ttl=_micro(ttl_s)
        ).rowcount
        return claimed if written else None

    def claim(self, digest: bytes, *, lease_s: float, ttl_s: float) -> Claimed | Running | Answered | None:
        """Return a used key's state, claimed if expired or its holder died; None if it went or was claimed meanwhile."""
        row = self._run(_LOOK, digest=digest).one_or_none()
        if row is None:
            return None
        if row.expired or (row.status is None and row.lease_left <= 0):
            return self._take_over(digest, row, lease_s=lease_s, ttl_s=ttl_s)
        if row.status is None:
            return Running(lease_left_s=row.lease_left / 1e6)
        return record_of(Answered, row)

    def _take_over(
        self, digest: bytes, row: Row[tuple[object, ...]], *, lease_s: float, ttl_s: float
    ) -> Claimed | None:
        died = row.status is None
        claimed = Claimed(work_id=row.work_id if died else str(uuid.uuid4()), token=str(uuid.uuid4()))
        taken = self._run(
            _TAKE_OVER,
            digest=digest,
            work=claimed.work_id,
            token=claimed.token,
            lease=_micro(lease_s),
            ttl=_micro(ttl_s),
            before=row.token,
        )
        return claimed if taken.rowcount else None

    def renew(self, digest: bytes, token: str, *, lease_s: float) -> bool:
        """Extend the claim. False if another request holds the key now."""
        return bool(self._run(_RENEW, digest=digest, token=token, lease=_micro(lease_s)).rowcount)

    def keep(self, digest: bytes, token: str, answered: Answered, *, ttl_s: float) -> bool:
        """Store the answer for ``ttl_s`` seconds. False if another request holds the key now."""
        kept = self._run(
            _KEEP,
            digest=digest,
            token=token,
            ttl=_micro(ttl_s),
            fingerprint=answered.fingerprint,
            status=answered.status,
            answer=answered.answer,
        )
        return bool(kept.rowcount)

    def free(self, digest: bytes, token: str) -> None:
        """Free the key for the next request; this one made nothing."""
        self._run(_FREE, digest=digest, token=token)

    def let_go(self, digest: bytes, token: str) -> None:
        """Free the key for the next request, with this one's work id: it may have made something."""
        self._run(_LET_GO, digest=digest, token=token)

    def forget_expired(self, *, limit: int) -> int:
        """Delete expired keys; return how many."""
        return self._run(_FORGET, limit=limit).rowcount


def tenants_with_expired_keys(connection: Connection) -> list[TenantId]:
    """Return the tenants with expired keys; reads only their ids."""
    return [TenantId(tenant_id) for tenant_id in connection.execute(_UNTIDY).scalars()]


def _micro(seconds: float) -> int:
    return round(seconds * 1_000_000)


_NOW = "UTC_TIMESTAMP(6)"

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

_RENEW = sql(
    f"UPDATE idempotency_keys SET claimed_until = {_NOW} + INTERVAL :lease MICROSECOND"
    " WHERE tenant_id = :tenant AND digest = :digest AND token = :token AND status IS NULL"
)

_KEEP = sql(
    "UPDATE idempotency_keys SET fingerprint = :fingerprint, status = :status, answer = :answer,"
    f" expires_at = {_NOW} + INTERVAL :ttl MICROSECOND"
    " WHERE tenant_id = :tenant AND digest = :digest AND token = :token AND status IS NULL"
)

_FREE = sql(
    "DELETE FROM idempotency_keys WHERE tenant_id = :tenant AND digest = :digest AND token = :token AND status IS NULL"
)

_LET_GO = sql(
    f"UPDATE idempotency_keys SET claimed_until = {_NOW}"
    " WHERE tenant_id = :tenant AND digest = :digest AND token = :token AND status IS NULL"
)

_FORGET = sql(f"DELETE FROM idempotency_keys WHERE tenant_id = :tenant AND expires_at <= {_NOW} LIMIT :limit")

_UNTIDY = sql(f"SELECT DISTINCT tenant_id FROM idempotency_keys WHERE expires_at <= {_NOW}")
