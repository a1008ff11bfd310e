"""Endpoints of webhooks and the deliveries to them. Secrets leave this module encrypted only."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, Table, and_, delete, select

from chordwise.contract.webhook import Delivery
from pipeline.database.mysql_tables import webhook_deliveries, webhooks
from pipeline.database.rows import TenantStore, follows, now, record_of
from pipeline.database.statements import TenantsWith, sql
from pipeline.records import TenantId
from pipeline.webhooks.endpoint import DeliveryState, Event, Webhook
from pipeline.webhooks.standard_webhooks import DeliveryResult


class Webhooks(TenantStore):
    """One tenant's endpoints."""

    def lock(self) -> int:
        """Return the number of endpoints, and block adding others until the transaction ends."""
        return self._lock_and_count(webhooks)

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
        """Disable an endpoint; its pending deliveries are dead. A disabled endpoint keeps its time and its reason."""
        changes = "disabled_at = COALESCE(disabled_at, :now), disabled_reason = COALESCE(disabled_reason, :reason)"
        self._update(webhook_id, changes, reason=reason)
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


_ERROR_LENGTH = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """A delivery that this process sends now, under a lease. ``attempts`` includes this one."""

    tenant_id: TenantId
    webhook_id: str
    delivery_id: str
    claim_id: str
    event: Event
    body: bytes
    attempts: int


def claim(connection: Connection, *, limit: int, per_endpoint: int, lease_s: float) -> list[Sending]:
    """Claim due deliveries of any tenant, the longest overdue first, at most ``per_endpoint`` under way per endpoint.
    An expired lease is sent again under the same id."""
    moment = now()
    keys = [tuple(row) for row in connection.execute(_DUE, {"now": moment, "each": per_endpoint, "limit": limit})]
    if not keys:
        return []
    values = {"keys": keys, "now": moment, "lease": moment + timedelta(seconds=lease_s), "claim": str(uuid.uuid4())}
    connection.execute(_TAKE, values)
    return [
        record_of(Sending, row, event=Event(row.event), body=row.body.encode())
        for row in connection.execute(_TAKEN, values)
    ]


def prune(connection: Connection, *, delivered_s: float, dead_s: float, progress_s: float, limit: int) -> int:
    """Delete deliveries that ended long enough ago, at most ``limit`` of a kind; return how many."""
    moment = now()
    kept_for_s = {
        "state = 'delivered'": delivered_s,
        "state = 'dead'": dead_s,
        "state IN ('delivered', 'dead') AND event = 'job.progress'": progress_s,
    }
    deleted = 0
    for where, seconds in kept_for_s.items():
        statement = sql(f"DELETE FROM webhook_deliveries WHERE {where} AND ended_at < :before LIMIT {limit:d}")
        deleted += connection.execute(statement, {"before": moment - timedelta(seconds=seconds)}).rowcount
    return deleted


tenants_following_progress = TenantsWith(
    "SELECT DISTINCT tenant_id FROM webhooks WHERE disabled_at IS NULL AND events LIKE '%job.progress%'"
)
tenants_with_due_deliveries = TenantsWith(
    "SELECT DISTINCT tenant_id FROM webhook_deliveries WHERE state = 'pending' AND next_attempt_at <= :now"
)


class Deliveries(TenantStore):
    """One tenant's deliveries."""

    def record_outcome(self, sent: Sending, verdict: DeliveryResult, *, status: int | None, error: str | None) -> bool:
        """Record the outcome of an attempt. False if another process sends it now."""
        state = DeliveryState.DELIVERED if verdict.delivered else DeliveryState.DEAD
        if verdict.delay_s is not None:
            state = DeliveryState.PENDING
        moment = now()
        settled = self._run(
            _SETTLE,
            webhook=sent.webhook_id,
            delivery=sent.delivery_id,
            claim=sent.claim_id,
            state=state.value,
            next=None if verdict.delay_s is None else moment + timedelta(seconds=verdict.delay_s),
            ended=None if state is DeliveryState.PENDING else moment,
            status=status,
            error=None if error is None else error[:_ERROR_LENGTH],
        )
        return bool(settled.rowcount)

    def page(
        self, webhook_id: str, *, state: DeliveryState | None, before: tuple[datetime, str] | None, limit: int
    ) -> list[Delivery]:
        """Return deliveries to one endpoint, newest first, before the given time and id."""
        at, delivery_id = webhook_deliveries.c.created_at, webhook_deliveries.c.delivery_id
        statement = self._of(webhook_id).order_by(at.desc(), delivery_id.desc()).limit(limit)
        if state is not None:
            statement = statement.where(webhook_deliveries.c.state == state.value)
        if before is not None:
            statement = statement.where(follows(at, delivery_id, before))
        return [_delivery(row) for row in self._connection.execute(statement)]

    def one(self, webhook_id: str, delivery_id: str) -> Delivery | None:
        """Return one delivery, or None."""
        statement = self._of(webhook_id).where(webhook_deliveries.c.delivery_id == delivery_id)
        row = self._connection.execute(statement).one_or_none()
        return None if row is None else _delivery(row)

    def body(self, webhook_id: str, delivery_id: str) -> str | None:
        """Return the message of one delivery, or None."""
        return self._run(_BODY, webhook=webhook_id, delivery=delivery_id).scalar_one_or_none()

    def send_again(self, webhook_id: str, delivery_id: str) -> bool:
        """Send an ended delivery again at once, with fresh attempts. False if it is still pending."""
        return bool(self._run(_AGAIN, webhook=webhook_id, delivery=delivery_id, now=now()).rowcount)

    def _of(self, webhook_id: str) -> Select[*tuple[Any, ...]]:
        columns = [column for column in webhook_deliveries.c if column.name != "body"]
        return select(*columns).where(self._own(webhook_deliveries), webhook_deliveries.c.webhook_id == webhook_id)


def _delivery(row: Any) -> Delivery:
    return record_of(Delivery, row)


_DUE = sql(
    "SELECT tenant_id, webhook_id, delivery_id FROM ("
    # Deliveries under way came first and keep their turn, so they count among the few of their endpoint.
    "SELECT tenant_id, webhook_id, delivery_id, lease_until, next_attempt_at, ROW_NUMBER() OVER ("
    "PARTITION BY tenant_id, webhook_id ORDER BY next_attempt_at, delivery_id) AS turn"
    " FROM webhook_deliveries WHERE state = 'pending' AND next_attempt_at <= :now) due"
    " WHERE turn <= :each AND (lease_until IS NULL OR lease_until < :now)"
    " ORDER BY turn, next_attempt_at LIMIT :limit"
)

_TAKE = sql(
    "UPDATE webhook_deliveries SET lease_until = :lease, claim_id = :claim, attempts = attempts + 1,"
    " last_attempt_at = :now WHERE (tenant_id, webhook_id, delivery_id) IN :keys AND state = 'pending'"
    " AND next_attempt_at <= :now AND (lease_until IS NULL OR lease_until < :now)"
)

_TAKEN = sql(
    "SELECT tenant_id, webhook_id, delivery_id, claim_id, event, body, attempts FROM webhook_deliveries"
    " WHERE (tenant_id, webhook_id, delivery_id) IN :keys AND claim_id = :claim"
)

_SETTLE = sql(
    "UPDATE webhook_deliveries SET state = :state, next_attempt_at = :next, ended_at = :ended, lease_until = NULL,"
    " claim_id = NULL, last_status = :status, last_error = :error"
    " WHERE tenant_id = :tenant AND webhook_id = :webhook AND delivery_id = :delivery AND claim_id = :claim"
)

_BODY = sql(
    "SELECT body FROM webhook_deliveries WHERE tenant_id = :tenant AND webhook_id = :webhook AND delivery_id = :delivery"
)

_AGAIN = sql(
    "UPDATE webhook_deliveries SET state = 'pending', attempts = 0, next_attempt_at = :now, ended_at = NULL,"
    " lease_until = NULL, claim_id = NULL WHERE tenant_id = :tenant AND webhook_id = :webhook"
    " AND delivery_id = :delivery AND state <> 'pending'"
)
