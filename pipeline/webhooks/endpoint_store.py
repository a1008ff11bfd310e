"""Endpoints of webhooks. Their secrets are sealed, and leave this module only in that form."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Table, and_, delete, select

from pipeline.database.mysql_tables import webhook_deliveries, webhooks
from pipeline.database.rows import TenantStore, now, record_of
from pipeline.database.statements import sql
from pipeline.webhooks.endpoint import Webhook


class Webhooks(TenantStore):
    """One tenant's endpoints."""

    def lock(self) -> int:
        """Return the number of endpoints, and block adding others until the transaction ends."""
        self._run("SELECT 1 FROM tenants WHERE tenant_id = :tenant FOR UPDATE")
        return len(self.all())

    def add(self, webhook_id: str, url: str, events: Sequence[str], secret: bytes) -> None:
        """Store an endpoint."""
        times = dict.fromkeys(("created_at", "updated_at"), now())
        self._insert_row(webhooks, webhook_id=webhook_id, url=url, events=" ".join(events), secret=secret, **times)

    def all(self) -> list[Webhook]:
        """Return every endpoint, oldest first."""
        statement = select(webhooks).where(self._own(webhooks)).order_by(webhooks.c.created_at, webhooks.c.webhook_id)
        return [webhook_of(row) for row in self._connection.execute(statement)]

    def one(self, webhook_id: str) -> Webhook | None:
        """Return one endpoint, or None."""
        row = self._connection.execute(select(webhooks).where(self._is(webhooks, webhook_id))).one_or_none()
        return None if row is None else webhook_of(row)

    def remove(self, webhook_id: str) -> bool:
        """Delete an endpoint and its deliveries. False if there is none."""
        removed = self._connection.execute(delete(webhooks).where(self._is(webhooks, webhook_id)))
        self._connection.execute(delete(webhook_deliveries).where(self._is(webhook_deliveries, webhook_id)))
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

    def _is(self, table: Table, webhook_id: str) -> ColumnElement[bool]:
        return and_(self._own(table), table.c.webhook_id == webhook_id)

    def _update(self, webhook_id: str, assignments: str, *, touch: bool = True, **more: Any) -> bool:
        touched = ", updated_at = :now" if touch else ""
        statement = sql(
            f"UPDATE webhooks SET {assignments}{touched} WHERE tenant_id = :tenant AND webhook_id = :webhook"
        )
        return bool(self._run(statement, webhook=webhook_id, now=now(), **more).rowcount)


def webhook_of(row: Any) -> Webhook:
    """Return the endpoint in a row of ``webhooks``."""
    return record_of(Webhook, row, events=tuple(row.events.split()))


_ABANDON = sql(
    "UPDATE webhook_deliveries SET state = 'dead', ended_at = :now, next_attempt_at = NULL, lease_until = NULL,"
    " claim_id = NULL, last_error = COALESCE(last_error, 'the endpoint was disabled')"
    " WHERE tenant_id = :tenant AND webhook_id = :webhook AND state = 'pending'"
)
