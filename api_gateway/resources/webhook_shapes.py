"""Endpoints and deliveries, as they are asked for and answered."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from api_gateway.http.fields import Wire
from api_gateway.resources.shapes import Shape, shown
from pipeline.webhooks.delivery_store import Delivery as StoredDelivery
from pipeline.webhooks.endpoint_store import Webhook as StoredWebhook

EventName = Literal["job.succeeded", "job.partly_failed", "job.failed", "job.cancelled", "job.progress"]
Standing = Literal["pending", "delivered", "dead"]


class WebhookRequest(Wire):
    """An endpoint to be told how jobs end. `events`: the four ends of a job, unless named."""

    url: Annotated[str, Field(min_length=1, max_length=2048)]
    events: Annotated[list[EventName], Field(min_length=1, max_length=5)] | None = None
    tenant_id: str | None = None


class RotateRequest(Wire):
    """`overlap_seconds`: how long the secret from before signs too; a day, unless said otherwise."""

    overlap_seconds: Annotated[int, Field(ge=0, le=7 * 86_400)] = 86_400
    tenant_id: str | None = None


class Webhook(Shape):
    """An endpoint. `failing_since`: no call has come through since then. `disabled_reason`: `failing` for days, or
    `gone`, because it answered 410."""

    webhook_id: str
    url: str
    events: list[str]
    created_at: datetime
    updated_at: datetime
    delivered_at: datetime | None
    failing_since: datetime | None
    disabled_at: datetime | None
    disabled_reason: Literal["failing", "gone"] | None
    previous_secret_until: datetime | None


class WebhookWithSecret(Webhook):
    """An endpoint and the secret its calls are signed with, which is shown this once."""

    secret: str


class WebhookList(Shape):
    """Every endpoint of the tenant."""

    data: list[Webhook]
    next_cursor: None


class Delivery(Shape):
    """One message to one endpoint: `delivery_id` is its `webhook-id`, the same at every attempt."""

    delivery_id: str
    event: str
    job_id: str | None
    state: Standing
    attempts: int
    created_at: datetime
    last_attempt_at: datetime | None
    next_attempt_at: datetime | None
    ended_at: datetime | None
    last_status: int | None
    last_error: str | None


class DeliveryPage(Shape):
    """One page of deliveries, the newest first."""

    data: list[Delivery]
    next_cursor: str | None


class DeliveryQueued(Shape):
    """A delivery that is about to be sent."""

    delivery_id: str


def webhook(stored: StoredWebhook, *, secret: str | None = None) -> dict[str, Any]:
    """An endpoint as it is sent; with its secret only when that was just made."""
    until = stored.previous_until if len(stored.valid_secrets()) > 1 else None
    sent = shown(Webhook, stored, events=list(stored.events), previous_secret_until=until)
    return sent if secret is None else {**sent, "secret": secret}


def delivery(stored: StoredDelivery) -> dict[str, Any]:
    """A delivery as it is sent."""
    return shown(Delivery, stored, event=stored.event.value, state=stored.standing.value)
