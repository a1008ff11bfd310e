"""Sign webhooks and schedule the attempts of a delivery by the Standard Webhooks specification."""

import base64
import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.webhooks.endpoint import Event

SECRET_PREFIX = "whsec_"
SECRET_BYTES = 24

# Seconds from one attempt to the next: the specification's own schedule, about three days in all.
DELAYS_S = (5, 5 * 60, 30 * 60, 2 * 3600, 5 * 3600, 10 * 3600, 14 * 3600, 20 * 3600, 24 * 3600)
_JITTER = 0.1  # the most to add, as a share, so that endpoints that failed together are not called together again
_LONGEST_ASKED_S = 3600  # a target that asks for a longer pause is called again after this


def secret_text(secret: bytes) -> str:
    """Return a secret in the form in which its owner sees it, once."""
    return SECRET_PREFIX + base64.b64encode(secret).decode()


def signatures(secrets: Sequence[bytes], *, message_id: str, timestamp: int, body: bytes) -> str:
    """Return ``webhook-signature`` of ``message_id.timestamp.body``, one per valid secret; timestamp in seconds."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    digests = (hmac.new(secret, signed, hashlib.sha256).digest() for secret in secrets)
    return " ".join("v1," + base64.b64encode(digest).decode() for digest in digests)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryResult:
    """The result of an attempt; neither ``delivered`` nor ``delay_s``: the last. ``gone``: no further calls."""

    delivered: bool = False
    delay_s: float | None = None
    gone: bool = False


def attempts_allowed(event: Event) -> int:
    """Return the number of attempts. A test is about now, and news of progress are soon outdated."""
    if event is Event.TEST:
        return 1
    return 2 if event is Event.PROGRESS else len(DELAYS_S) + 1


def judge(
    event: Event, *, attempts: int, status: int | None, retry_after_s: float | None = None, chance: float = 0.0
) -> DeliveryResult:
    """Judge attempt number ``attempts``, from 1, that ended with ``status`` or none. ``chance`` in [0, 1] spreads
    repetitions. A target's own retry time is respected, up to an hour."""
    if status is not None and 200 <= status < 300:
        return DeliveryResult(delivered=True)
    if status == 410:
        return DeliveryResult(gone=True)
    if attempts >= attempts_allowed(event):
        return DeliveryResult()
    delay_s = DELAYS_S[attempts - 1] * (1 + _JITTER * chance)
    return DeliveryResult(delay_s=max(delay_s, min(retry_after_s or 0.0, _LONGEST_ASKED_S)))
