"""Webhooks as the server answers them, and the check that a receiver makes."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import quote

from chordwise.decoding import Result, decode
from chordwise.errors import ChordwiseError, UnexpectedAnswer
from chordwise.retries import RetryPolicy, exchange
from chordwise.transport import Answer, Call, Steps, encode

TOLERANCE_S = 300


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


class WebhookOperations:
    """What ``Operations`` can do to webhooks."""

    _policy: RetryPolicy
    _clock: Callable[[], float]

    def webhooks(self) -> Steps[list[Webhook]]:
        """Every endpoint of the tenant."""
        return _list(Webhook, (yield from self._ask("GET", "")))

    def add_webhook(self, url: str, events: Iterable[str] | None) -> Steps[Webhook]:
        """A new endpoint with its secret. Not repeated after a broken connection: that could make two."""
        body: dict[str, Any] = {"url": url} if events is None else {"url": url, "events": list(events)}
        return decode(Webhook, (yield from self._ask("POST", "", body, safe=False)).json())

    def remove_webhook(self, webhook_id: str) -> Steps[None]:
        """Forget an endpoint."""
        yield from self._ask("DELETE", f"/{_segment(webhook_id)}")

    def rotate_webhook(self, webhook_id: str, overlap_s: int | None) -> Steps[Webhook]:
        """The endpoint with a new secret. Not repeated: the secret would be lost with the first answer."""
        body = {} if overlap_s is None else {"overlap_seconds": overlap_s}
        answer = yield from self._ask("POST", f"/{_segment(webhook_id)}/rotate", body, safe=False)
        return decode(Webhook, answer.json())

    def enable_webhook(self, webhook_id: str) -> Steps[Webhook]:
        """Call an endpoint again that was given up."""
        return decode(Webhook, (yield from self._ask("POST", f"/{_segment(webhook_id)}/enable")).json())

    def test_webhook(self, webhook_id: str) -> Steps[str]:
        """Have a test message sent; gives the id of its delivery."""
        said = (yield from self._ask("POST", f"/{_segment(webhook_id)}/test", safe=False)).json()
        return decode(Delivery, said).delivery_id

    def deliveries(self, webhook_id: str, *, state: str | None, limit: int) -> Steps[list[Delivery]]:
        """The latest deliveries to an endpoint."""
        asked = {"limit": str(min(limit, 200)), **({"state": state} if state else {})}
        path = f"/{_segment(webhook_id)}/deliveries"
        return _list(Delivery, (yield from self._ask("GET", path, params=tuple(asked.items()))))

    def delivery(self, webhook_id: str, delivery_id: str) -> Steps[Delivery]:
        """One delivery."""
        path = f"/{_segment(webhook_id)}/deliveries/{_segment(delivery_id)}"
        return decode(Delivery, (yield from self._ask("GET", path)).json())

    def redeliver(self, webhook_id: str, delivery_id: str) -> Steps[None]:
        """Send a delivery again that has ended."""
        yield from self._ask("POST", f"/{_segment(webhook_id)}/deliveries/{_segment(delivery_id)}/redeliver")

    def _ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        params: tuple[tuple[str, str], ...] = (),
        safe: bool = True,
    ) -> Steps[Answer]:
        content = None if body is None else encode(body)
        call = Call(method=method, path=f"/v1/webhooks{path}", params=params, content=content, safe=safe)
        return exchange(call, self._policy, clock=self._clock)


def _list(kind: type[Any], answer: Answer) -> list[Any]:
    page = answer.json()
    if not isinstance(page, dict) or not isinstance(page.get("data"), list):
        raise UnexpectedAnswer("/v1/webhooks does not answer with a list")
    return [decode(kind, entry) for entry in page["data"]]


def _segment(identifier: str) -> str:
    return quote(identifier, safe="", errors="surrogatepass")
