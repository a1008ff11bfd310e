"""Sign webhooks by the Standard Webhooks specification."""

import base64
import hashlib
import hmac
from collections.abc import Sequence

SECRET_PREFIX = "whsec_"
SECRET_BYTES = 24


def secret_text(secret: bytes) -> str:
    """Return a secret in the form in which its owner sees it, once."""
    return SECRET_PREFIX + base64.b64encode(secret).decode()


def signatures(secrets: Sequence[bytes], *, message_id: str, timestamp: int, body: bytes) -> str:
    """Return ``webhook-signature`` of ``message_id.timestamp.body``, one per valid secret; timestamp in seconds."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    digests = (hmac.new(secret, signed, hashlib.sha256).digest() for secret in secrets)
    return " ".join("v1," + base64.b64encode(digest).decode() for digest in digests)
