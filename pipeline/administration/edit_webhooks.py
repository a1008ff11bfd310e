"""Manage endpoints of webhooks, deliver messages, and disable endpoints that have failed for days."""

import asyncio
import random
import secrets
import time
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import structlog

from pipeline.administration.call_store import call_store
from pipeline.database.encryption import SecretCipher
from pipeline.database.unit_of_work import retry_conflicts, unit_of_work
from pipeline.deadline import Deadline
from pipeline.errors import Misconfigured
from pipeline.jobs.ledger_store import Ledger
from pipeline.jobs.outbox_store import Outbox
from pipeline.outages import tolerate_outage
from pipeline.outbound.post_client import Poster, Reply, checked_url, require_host
from pipeline.records import TenantId
from pipeline.resources import Resources
from pipeline.tenants.audit_store import Audit
from pipeline.webhooks import standard_webhooks
from pipeline.webhooks.endpoint import Event, Webhook
from pipeline.webhooks.endpoint_store import (
    Deliveries,
    Sending,
    Webhooks,
    claim,
    prune,
    tenants_following_progress,
)

log = structlog.get_logger(__name__)

MOST_WEBHOOKS = 20  # of one tenant
_AT_ONCE = 32
_PER_ENDPOINT = 4
_PATIENCE = timedelta(days=5)  # with an endpoint that fails, until it is called no more
_LEASE_S = 60.0  # well above the longest call
_LOOK_AGAIN_S = 1.0
_DAY_S = 86_400
_PRUNED_AT_ONCE = 1000
_USER_AGENT = "Chordwise-Webhooks/1"


class TooManyWebhooks(Exception):
    """The tenant has as many endpoints as allowed."""


list_webhooks = call_store(Webhooks, Webhooks.all)
find_webhook = call_store(Webhooks, Webhooks.one)
list_deliveries = call_store(Deliveries, Deliveries.page)
find_delivery = call_store(Deliveries, Deliveries.one)
body_of = call_store(Deliveries, Deliveries.body)

# Deliveries of an endpoint are claimed and settled beside these.
_again = retry_conflicts()


@_again
def add(tenant_id: TenantId, url: str, events: Sequence[str], use: Resources) -> tuple[Webhook, str]:
    """Add an endpoint; return it with its secret, shown only now. Raises NotAllowed for a forbidden URL, and
    TooManyWebhooks."""
    require_host(checked_url(url).raw_host.decode("ascii"), permitted=use.settings.webhook_allow_private)
    webhook_id, secret = str(uuid.uuid4()), secrets.token_bytes(standard_webhooks.SECRET_BYTES)
    encrypted = SecretCipher(use.settings.secret_key).encrypt(secret, belongs_to=_row(tenant_id, webhook_id))
    with unit_of_work(use.mysql) as work:
        store = Webhooks(work.connection, tenant_id)
        if store.lock() >= MOST_WEBHOOKS:
            raise TooManyWebhooks(f"There are {MOST_WEBHOOKS} endpoints already, and no more may be added.")
        store.add(webhook_id, url, events, encrypted)
        Audit(work.connection, tenant_id).wrote("webhook_add", ids=[webhook_id])
        webhook = store.one(webhook_id)
    assert webhook is not None
    log.info("webhook_added", tenant_id=tenant_id, webhook_id=webhook_id)
    return webhook, standard_webhooks.secret_text(secret)


@_again
def rotate(tenant_id: TenantId, webhook_id: str, use: Resources, *, overlap_s: float) -> tuple[Webhook, str] | None:
    """Give an endpoint a new secret; for ``overlap_s`` both sign. None if there is no such endpoint."""
    secret = secrets.token_bytes(standard_webhooks.SECRET_BYTES)
    encrypted = SecretCipher(use.settings.secret_key).encrypt(secret, belongs_to=_row(tenant_id, webhook_id))
    with unit_of_work(use.mysql) as work:
        store = Webhooks(work.connection, tenant_id)
        store.rotate(webhook_id, encrypted, overlap_s=overlap_s)
        webhook = store.one(webhook_id)
        if webhook is not None:
            Audit(work.connection, tenant_id).wrote("webhook_rotate", ids=[webhook_id])
    return None if webhook is None else (webhook, standard_webhooks.secret_text(secret))


@_again
def remove(tenant_id: TenantId, webhook_id: str, use: Resources) -> bool:
    """Remove an endpoint with its deliveries; False if there is none."""
    with unit_of_work(use.mysql) as work:
        removed = Webhooks(work.connection, tenant_id).remove(webhook_id)
        if removed:
            Audit(work.connection, tenant_id).wrote("webhook_remove", ids=[webhook_id])
        return removed


@_again
def enable(tenant_id: TenantId, webhook_id: str, use: Resources) -> None:
    """Let an existing endpoint be called again."""
    with unit_of_work(use.mysql) as work:
        Webhooks(work.connection, tenant_id).enable(webhook_id)
        Audit(work.connection, tenant_id).wrote("webhook_enable", ids=[webhook_id])


@_again
def disable(tenant_id: TenantId, webhook_id: str, use: Resources) -> None:
    """Let an existing endpoint no longer be called. A call in progress may still arrive."""
    with unit_of_work(use.mysql) as work:
        Webhooks(work.connection, tenant_id).disable(webhook_id, reason="requested")
        Audit(work.connection, tenant_id).wrote("webhook_disable", ids=[webhook_id])


@_again
def queue_test(tenant_id: TenantId, webhook_id: str, use: Resources) -> str:
    """Queue a test message for an existing endpoint, and return the id of its delivery."""
    with unit_of_work(use.mysql) as work:
        if use.outbox_filled is not None:
            work.after_commit(use.outbox_filled)
        return Outbox(work.connection, tenant_id).test(webhook_id)


@_again
def redeliver(tenant_id: TenantId, webhook_id: str, delivery_id: str, use: Resources) -> bool | None:
    """Queue a delivery again with its attempts counted anew; None if there is none, False if it is still to be sent."""
    with unit_of_work(use.mysql) as work:
        store = Deliveries(work.connection, tenant_id)
        if store.one(webhook_id, delivery_id) is None:
            return None
        if not store.send_again(webhook_id, delivery_id):
            return False
        Audit(work.connection, tenant_id).wrote("webhook_redeliver", ids=[delivery_id])
        if use.outbox_filled is not None:
            work.after_commit(use.outbox_filled)
        return True


def deliver(use: Resources, poster: Poster | None = None, *, seconds: float = 60.0) -> int:
    """Send due calls until none is left or ``seconds`` have passed; return how many were made. Processes may share the
    work. At least once: a call whose result is lost is repeated under the same id."""
    claimed = _claim(use, _AT_ONCE)  # before anything is made that only calls need, as there are none most of the time
    return asyncio.run(_deliver(claimed, use, poster, seconds=seconds)) if claimed else 0


async def _deliver(claimed: list[Sending], use: Resources, given: Poster | None, *, seconds: float) -> int:
    deadline = Deadline.after(seconds)
    under_way: set[asyncio.Task[None]] = set()
    calls = 0
    async with given or Poster(permitted=use.settings.webhook_allow_private) as poster:
        while True:
            under_way |= {asyncio.create_task(_send(sending, poster, use)) for sending in claimed}
            calls += len(claimed)
            if not under_way:
                return calls
            ended, under_way = await asyncio.wait(under_way, timeout=_LOOK_AGAIN_S, return_when=asyncio.FIRST_COMPLETED)
            for task in ended:
                task.result()
            claimed = []
            if not deadline.has_passed and len(under_way) < _AT_ONCE:
                claimed = await asyncio.to_thread(_claim, use, _AT_ONCE - len(under_way))


def _claim(use: Resources, limit: int) -> list[Sending]:
    with unit_of_work(use.mysql) as work:
        return claim(work.connection, limit=limit, per_endpoint=_PER_ENDPOINT, lease_s=_LEASE_S)


async def _send(sending: Sending, poster: Poster, use: Resources) -> None:
    """Make one call and record its outcome. If it cannot be recorded, the lease runs out."""
    with tolerate_outage(log.warning, "webhook_left_to_the_lease", tenant_id=sending.tenant_id):
        try:
            call = await asyncio.to_thread(_signed, sending, use)
            if call is None:
                return
            reply = await poster.post(*call)
        except Misconfigured as error:
            log.error("webhook_secret_unreadable", tenant_id=sending.tenant_id, code=error.code, detail=str(error))
            reply = Reply(error="its secret cannot be read; the operator has to look")
        await asyncio.to_thread(_record_outcome, sending, reply, use)


def _signed(sending: Sending, use: Resources) -> tuple[str, dict[str, str], bytes] | None:
    """Return URL, headers and body of a call; None if the endpoint is gone."""
    with unit_of_work(use.mysql) as work:
        endpoint = Webhooks(work.connection, sending.tenant_id).one(sending.webhook_id)
    if endpoint is None:
        return None
    cipher, row = SecretCipher(use.settings.secret_key), _row(sending.tenant_id, sending.webhook_id)
    valid = [cipher.decrypt(encrypted, belongs_to=row) for encrypted in endpoint.valid_secrets()]
    message_id, timestamp = sending.delivery_id, int(time.time())
    signature = standard_webhooks.signatures(valid, message_id=message_id, timestamp=timestamp, body=sending.body)
    headers = {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": signature,
        "User-Agent": _USER_AGENT,
    }
    return endpoint.url, headers, sending.body


def _record_outcome(sending: Sending, reply: Reply, use: Resources) -> None:
    verdict = standard_webhooks.judge(
        sending.event,
        attempts=sending.attempts,
        status=reply.status,
        retry_after_s=reply.retry_after_s,
        chance=random.random(),
    )
    with unit_of_work(use.mysql) as work:
        store = Webhooks(work.connection, sending.tenant_id)
        deliveries = Deliveries(work.connection, sending.tenant_id)
        if not deliveries.record_outcome(sending, verdict, status=reply.status, error=reply.error):
            return
        reason = None
        if verdict.delivered:
            store.succeeded(sending.webhook_id)
        elif verdict.gone:
            reason = "gone"
        elif sending.event is not Event.TEST:
            failing_since = store.failed(sending.webhook_id)
            if failing_since is not None and datetime.now(UTC) - failing_since > _PATIENCE:
                reason = "failing"
        if reason:
            store.disable(sending.webhook_id, reason=reason)
    ids = {"tenant_id": sending.tenant_id, "webhook_id": sending.webhook_id, "delivery_id": sending.delivery_id}
    log.info("webhook_called", **ids, status=reply.status, error=reply.error, attempts=sending.attempts)
    if reason:
        log.warning("webhook_disabled", tenant_id=sending.tenant_id, webhook_id=sending.webhook_id, reason=reason)


def note_progress(use: Resources) -> int:
    """Write messages on the progress of unfinished jobs for endpoints that subscribe to it; return how many."""
    with unit_of_work(use.mysql) as work:
        tenants = tenants_following_progress(work.connection)
    messages = 0
    for tenant_id in tenants:
        with unit_of_work(use.mysql) as work:
            outbox = Outbox(work.connection, tenant_id)
            for job_id in Ledger(work.connection, tenant_id).unfinished():
                messages += outbox.job_progressed(job_id)
    return messages


def forget_old(use: Resources) -> int:
    """Delete old deliveries; return how many."""
    with unit_of_work(use.mysql) as work:
        return prune(
            work.connection, delivered_s=7 * _DAY_S, dead_s=30 * _DAY_S, progress_s=3600, limit=_PRUNED_AT_ONCE
        )


def _row(tenant_id: TenantId, webhook_id: str) -> str:
    return f"{tenant_id}/{webhook_id}"
