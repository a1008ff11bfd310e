"""Webhooks, their deliveries, and the check that a receiver makes."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import time
from collections.abc import Iterable, Mapping
from typing import Any

from chordwise.contract import webhook
from chordwise.errors import ChordwiseError
from chordwise.resource import Resource, entries, given, operation, path
from chordwise.transport import Steps

TOLERANCE_S = 300


Webhook = webhook.WebhookWithSecret
Delivery = webhook.Delivery


class NotGenuine(ChordwiseError):
    """A webhook not signed with this secret, or signed too long ago."""


class WebhookOperations(Resource):
    """Operations on webhooks."""

    @operation
    def webhooks(self) -> Steps[list[Webhook]]:
        """List every endpoint that is notified when jobs end."""
        return self._list(Webhook, path("webhooks"))

    @operation
    def webhook(self, webhook_id: str) -> Steps[Webhook]:
        """Return one endpoint that is notified when jobs end."""
        return self._one(Webhook, "GET", path("webhooks", webhook_id))

    @operation
    def add_webhook(self, url: str, *, events: Iterable[str] | None = None) -> Steps[Webhook]:
        """Register an endpoint, by default for every end of a job. Its ``secret``, for ``verify_webhook``, is returned once."""
        body = given(url=url, events=None if events is None else list(events))
        return self._one(Webhook, "POST", path("webhooks"), body=body, safe=False)

    @operation
    def remove_webhook(self, webhook_id: str) -> Steps[None]:
        """Delete an endpoint."""
        return self._delete(path("webhooks", webhook_id))

    @operation
    def rotate_webhook(self, webhook_id: str, *, overlap_seconds: int | None = None) -> Steps[Webhook]:
        """Give an endpoint a new ``secret``; for ``overlap_seconds``, a day by default, the old one signs too."""
        body = given(overlap_seconds=overlap_seconds)
        return self._one(Webhook, "POST", path("webhooks", webhook_id, "rotate"), body=body, safe=False)

    @operation
    def enable_webhook(self, webhook_id: str) -> Steps[Webhook]:
        """Enable an endpoint that was disabled, by request or after failures."""
        return self._one(Webhook, "POST", path("webhooks", webhook_id, "enable"))

    @operation
    def disable_webhook(self, webhook_id: str) -> Steps[Webhook]:
        """Let an endpoint not be called until it is enabled again. Its pending messages are dead."""
        return self._one(Webhook, "POST", path("webhooks", webhook_id, "disable"))

    @operation
    def test_webhook(self, webhook_id: str) -> Steps[str]:
        """Send a test message; returns the id of its delivery."""
        delivery = yield from self._one(Delivery, "POST", path("webhooks", webhook_id, "test"), safe=False)
        return delivery.delivery_id

    @operation
    def webhook_deliveries(
        self, webhook_id: str, *, state: str | None = None, limit: int = 100
    ) -> Steps[list[Delivery]]:
        """List the latest messages to an endpoint; ``state``: pending, delivered or dead."""
        params = {"limit": min(limit, 200), "state": state or None}
        source = path("webhooks", webhook_id, "deliveries")
        return entries(Delivery, (yield from self._request("GET", source, params=params)).json(), source)

    @operation
    def webhook_delivery(self, webhook_id: str, delivery_id: str) -> Steps[Delivery]:
        """Return one message to an endpoint."""
        return self._one(Delivery, "GET", path("webhooks", webhook_id, "deliveries", delivery_id))

    @operation
    def redeliver(self, webhook_id: str, delivery_id: str) -> Steps[None]:
        """Send a delivered or dead message again, under the same id."""
        yield from self._request("POST", path("webhooks", webhook_id, "deliveries", delivery_id, "redeliver"))


def verify_webhook(
    headers: Mapping[str, str], body: bytes, secret: str, *, tolerance_s: float = TOLERANCE_S, now: float | None = None
) -> dict[str, Any]:
    """Verify the signature of a webhook and return its message. Raises NotGenuine. ``body``: the bytes as received.

    A message may arrive twice with the same ``webhook-id``: remember those already handled.
    """
    fields = {name.lower(): value for name, value in headers.items()}
    message_id, timestamp = fields.get("webhook-id", ""), fields.get("webhook-timestamp", "")
    try:
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
        age_s = (time.time() if now is None else now) - int(timestamp)
    except (ValueError, binascii.Error):
        raise NotGenuine("the webhook has no timestamp, or the secret is malformed") from None
    if not key:
        raise NotGenuine("the secret is empty")  # anyone could sign with it
    if abs(age_s) > tolerance_s:
        raise NotGenuine(f"the webhook was signed {age_s:.0f} s ago")
    digest = hmac.new(key, f"{message_id}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    expected = b"v1," + base64.b64encode(digest)
    signatures = fields.get("webhook-signature", "").split(" ")
    if not any(hmac.compare_digest(expected, signature.encode()) for signature in signatures):
        raise NotGenuine("no signature of the webhook was made with this secret")
    message: dict[str, Any] = json.loads(body)
    return message
