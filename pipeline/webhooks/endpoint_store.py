"""Endpoints of webhooks. Their secrets are sealed, and leave this module only in that form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import text

from pipeline.database.rows import TenantStore, as_utc, now, record_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """One endpoint. ``secret``, ``previous_secret``: sealed; both sign until ``previous_until``. ``failing_since``: no
    success since. ``disabled_reason``: ``failing`` or ``gone``."""

    webhook_id: str
    url: str
    events: tuple[str, ...]
    secret: bytes = field(repr=False)
    previous_secret: bytes | None = field(default=None, repr=False)
    previous_until: datetime | None = None
    created_at: datetime
    updated_at: datetime
    failing_since: datetime | None = None
    delivered_at: datetime | None = None
    disabled_at: datetime | None = None
    disabled_reason: str | None = None

    def valid_secrets(self) -> list[bytes]:
        """Return the secrets to sign with now, the present one first."""
        overlap = self.previous_secret and self.previous_until and as_utc(now()) < self.previous_until
        return [self.secret, self.previous_secret] if overlap and self.previous_secret else [self.secret]


class Webhooks(TenantStore):
    """One tenant's endpoints."""

    def lock(self) -> int:
        """Return the number of endpoints, and block adding others until the transaction ends."""
        self._run(text("SELECT 1 FROM tenants WHERE tenant_id = :tenant FOR UPDATE"))
        return len(self.all())

    def add(self, webhook_id: str, url: str, events: Sequence[str], secret: bytes) -> None:
        """Store an endpoint."""
        self._run(
            text(
                "INSERT INTO webhooks (tenant_id, webhook_id, url, events, secret, created_at, updated_at)"
                " VALUES (:tenant, :webhook, :url, :events, :secret, :now, :now)"
            ),
            webhook=webhook_id,
            url=url,
            events=" ".join(events),
            secret=secret,
            now=now(),
        )

    def all(self) -> list[Webhook]:
        """Return every endpoint, oldest first."""
        rows = self._run(text(_SELECT + " ORDER BY created_at, webhook_id"))
        return [webhook_of(row) for row in rows]

    def one(self, webhook_id: str) -> Webhook | None:
        """Return one endpoint, or None."""
        row = self._run(text(_SELECT + " AND webhook_id = :webhook"), webhook=webhook_id).one_or_none()
        return None if row is None else webhook_of(row)

    def remove(self, webhook_id: str) -> bool:
        """Delete an endpoint and its deliveries. False if there is none."""
        where = "WHERE tenant_id = :tenant AND webhook_id = :webhook"
        removed = self._run(text(f"DELETE FROM webhooks {where}"), webhook=webhook_id)
        self._run(text(f"DELETE FROM webhook_deliveries {where}"), webhook=webhook_id)
        return bool(removed.rowcount)

    def rotate(self, webhook_id: str, secret: bytes, *, overlap_s: float) -> bool:
        """Sign with a new secret, and for a while with the previous one too. False if there is no such endpoint."""
        until = now() + timedelta(seconds=overlap_s) if overlap_s else None
        return self._update(
            webhook_id,
            # MySQL assigns from left to right: the old secret has to be moved before the new one comes.
            "previous_secret = IF(:until IS NULL, NULL, secret), previous_until = :until, secret = :secret",
            until=until,
            secret=secret,
        )

    def enable(self, webhook_id: str) -> bool:
        """Enable a disabled endpoint again. False if there is no such endpoint."""
        return self._update(webhook_id, "disabled_at = NULL, disabled_reason = NULL, failing_since = NULL")

    def disable(self, webhook_id: str, *, reason: str) -> None:
        """Disable an endpoint; its pending deliveries are dead."""
        self._update(webhook_id, "disabled_at = COALESCE(disabled_at, :now), disabled_reason = :reason", reason=reason)
        self._run(_ABANDON, webhook=webhook_id, now=now())

    def succeeded(self, webhook_id: str) -> None:
        """Record a successful call."""
        self._update(webhook_id, "failing_since = NULL, delivered_at = :now", touch=False)

    def failed(self, webhook_id: str) -> datetime | None:
        """Record a failed call; return the time of the first failure since the last success."""
        self._update(webhook_id, "failing_since = COALESCE(failing_since, :now)", touch=False)
        webhook = self.one(webhook_id)
        return webhook.failing_since if webhook else None

    def _update(self, webhook_id: str, assignments: str, *, touch: bool = True, **more: Any) -> bool:
        touched = ", updated_at = :now" if touch else ""
        statement = text(
            f"UPDATE webhooks SET {assignments}{touched} WHERE tenant_id = :tenant AND webhook_id = :webhook"
        )
        return bool(self._run(statement, webhook=webhook_id, now=now(), **more).rowcount)


def webhook_of(row: Any) -> Webhook:
    """Return the endpoint in a row of ``webhooks``."""
    return record_of(Webhook, row, events=tuple(row.events.split()))


_SELECT = (
    "SELECT webhook_id, url, events, secret, previous_secret, previous_until, created_at, updated_at, failing_since,"
    " delivered_at, disabled_at, disabled_reason FROM webhooks WHERE tenant_id = :tenant"
)

_ABANDON = text(
    "UPDATE webhook_deliveries SET state = 'dead', ended_at = :now, next_attempt_at = NULL, lease_until = NULL,"
    " claim_id = NULL, last_error = COALESCE(last_error, 'the endpoint was disabled')"
    " WHERE tenant_id = :tenant AND webhook_id = :webhook AND state = 'pending'"
)
