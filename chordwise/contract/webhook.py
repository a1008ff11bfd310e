"""Endpoints that are called when jobs end."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from chordwise.contract.record import Answered, Complete, absent_not_null

DeliveryStateName = Literal["pending", "delivered", "dead"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook(Answered):
    """An endpoint. `failing_since`: no call has succeeded since then. `disabled_reason`: `failing` for days; `gone`,
    because it answered 410; or `requested`."""

    webhook_id: str
    url: str
    events: tuple[str, ...]
    created_at: datetime
    updated_at: datetime
    delivered_at: datetime | None
    failing_since: datetime | None
    disabled_at: datetime | None
    disabled_reason: Literal["failing", "gone", "requested"] | None
    previous_secret_until: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookWithSecret(Webhook, Complete):
    """An endpoint and the secret that signs its calls, which is shown this once."""

    secret: str | None = field(default=None, repr=False, metadata={"json_schema_extra": absent_not_null})


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery(Answered):
    """One message to one endpoint: `delivery_id` is its `webhook-id`, the same at every attempt. `body`: the message, as it is
    signed and sent; absent in lists."""

    delivery_id: str
    event: str
    job_id: str | None
    state: DeliveryStateName
    attempts: int
    created_at: datetime
    last_attempt_at: datetime | None
    next_attempt_at: datetime | None
    ended_at: datetime | None
    last_status: int | None
    last_error: str | None
    body: str = ""
