"""Endpoints of webhooks, and the deliveries to them."""

import enum
from dataclasses import dataclass, field
from datetime import datetime

from pipeline.database.rows import as_utc, now


class Event(enum.StrEnum):
    """Events of webhooks. ``TEST`` is sent on request only."""

    SUCCEEDED = "job.succeeded"
    PARTLY_FAILED = "job.partly_failed"
    FAILED = "job.failed"
    CANCELLED = "job.cancelled"
    PROGRESS = "job.progress"
    TEST = "webhook.test"


class DeliveryState(enum.StrEnum):
    """States of a delivery."""

    PENDING = "pending"
    DELIVERED = "delivered"
    DEAD = "dead"


DEFAULT_EVENTS = (Event.SUCCEEDED, Event.PARTLY_FAILED, Event.FAILED, Event.CANCELLED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """One endpoint. ``secret``, ``previous_secret``: encrypted; both sign until ``previous_until``. ``failing_since``: no
    success since. ``disabled_reason``: ``failing``, ``gone`` or ``requested``."""

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
