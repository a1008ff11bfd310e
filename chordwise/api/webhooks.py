"""Webhooks, their deliveries, and the check that a receiver makes."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from chordwise.errors import ChordwiseError
from chordwise.records import Result
from chordwise.resource import Resource, entries, operation, segment
from chordwise.transport import Steps

TOLERANCE_S = 300
_PATH = "/v1/webhooks"


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook(Result):
    """An endpoint that is told how jobs end. ``secret`` is there only right after it was made or changed."""

    webhook_id: str
    url: str = ""
    events: tuple[str, ...] = ()
    secret: str | None = field(default=None, repr=False)
    created_at: datetime | None = None
    delivered_at: datetime | None = None
    failing_since: datetime | None = None
    disabled_at: datetime | None = None
    disabled_reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery(Result):
    """One message to one endpoint. ``state``: pending, delivered or dead."""

    delivery_id: str
    event: str = ""
    job_id: str | None = None
    state: str = ""
    attempts: int = 0
    created_at: datetime | None = None
    next_attempt_at: datetime | None = None
    last_status: int | None = None
    last_error: str | None = None


class NotGenuine(ChordwiseError):
    """A webhook that was not signed with this secret, or too long ago."""


class WebhookOperations(Resource):
    """Operations on webhooks."""

    @operation
    def webhooks(self) -> Steps[list[Webhook]]:
        """Every endpoint that is told how jobs end."""
        return self._list(Webhook, _PATH)

    @operation
    def webhook(self, webhook_id: str) -> Steps[Webhook]:
        """One endpoint that is told how jobs end."""
        return self._one(Webhook, "GET", f"/v1/webhooks/{segment(webhook_id)}")

    @operation
    def add_webhook(self, url: str, *, events: Iterable[str] | None = None) -> Steps[Webhook]:
        """Have an endpoint told, by default of every end of a job. Its ``secret``, for ``verify_webhook``, is shown once."""
        body: dict[str, Any] = {"url": url} if events is None else {"url": url, "events": list(events)}
        return self._one(Webhook, "POST", _PATH, body=body, safe=False)

    @operation
    def remove_webhook(self, webhook_id: str) -> Steps[None]:
        """Tell an endpoint nothing more."""
        yield from self._request("DELETE", f"{_PATH}/{segment(webhook_id)}")

    @operation
    def rotate_webhook(self, webhook_id: str, *, overlap_seconds: int | None = None) -> Steps[Webhook]:
        """Give an endpoint a new ``secret``; for ``overlap_seconds``, a day by default, the old one signs too."""
        body = {} if overlap_seconds is None else {"overlap_seconds": overlap_seconds}
        return self._one(Webhook, "POST", f"{_PATH}/{segment(webhook_id)}/rotate", body=body, safe=False)

    @operation
    def enable_webhook(self, webhook_id: str) -> Steps[Webhook]:
        """Call an endpoint again that was given up."""
        return self._one(Webhook, "POST", f"{_PATH}/{segment(webhook_id)}/enable")

    @operation
    def test_webhook(self, webhook_id: str) -> Steps[str]:
        """Have a test message sent; gives the id of its delivery."""
        path = f"{_PATH}/{segment(webhook_id)}/test"
        return (yield from self._one(Delivery, "POST", path, safe=False)).delivery_id

    @operation
    def webhook_deliveries(
        self, webhook_id: str, *, state: str | None = None, limit: int = 100
    ) -> Steps[list[Delivery]]:
        """The latest messages to an endpoint; ``state``: pending, delivered or dead."""
        params = {"limit": min(limit, 200), "state": state or None}
        path = f"{_PATH}/{segment(webhook_id)}/deliveries"
        return entries(Delivery, (yield from self._request("GET", path, params=params)).json(), path)

    @operation
    def webhook_delivery(self, webhook_id: str, delivery_id: str) -> Steps[Delivery]:
        """One message to an endpoint."""
        return self._one(Delivery, "GET", f"{_PATH}/{segment(webhook_id)}/deliveries/{segment(delivery_id)}")

    @operation
    def redeliver(self, webhook_id: str, delivery_id: str) -> Steps[None]:
        """Send a message again that has ended, under the same id."""
        path = f"{_PATH}/{segment(webhook_id)}/deliveries/{segment(delivery_id)}/redeliver"
        yield from self._request("POST", path)


def verify_webhook(
    headers: Mapping[str, str], body: bytes, secret: str, *, tolerance_s: float = TOLERANCE_S, now: float | None = None
) -> dict[str, Any]:
    """The message in a webhook, once its signature is checked; raises NotGenuine. ``body`` are the bytes as they came.

    A message may come twice, with the same ``webhook-id``: remember those you have acted upon.
    """
    named = {name.lower(): value for name, value in headers.items()}
    message_id, timestamp = named.get("webhook-id", ""), named.get("webhook-timestamp", "")
    try:
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
        age_s = (time.time() if now is None else now) - int(timestamp)
    except (ValueError, binascii.Error):
        raise NotGenuine("the webhook has no timestamp, or the secret is none") from None
    if not key:
        raise NotGenuine("the secret is empty")  # anybody can sign with it
    if abs(age_s) > tolerance_s:
        raise NotGenuine(f"the webhook was signed {age_s:.0f} s ago")
    digest = hmac.new(key, f"{message_id}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    expected = b"v1," + base64.b64encode(digest)
    given = named.get("webhook-signature", "").split(" ")
    if not any(hmac.compare_digest(expected, signature.encode()) for signature in given):
        raise NotGenuine("no signature of the webhook was made with this secret")
    message: dict[str, Any] = json.loads(body)
    return message
