"""Encryption of secrets that must be read again, such as those that sign webhooks."""

import hashlib
import secrets
from typing import Any

import orjson
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from pydantic import SecretStr

from pipeline.errors import Misconfigured

_PLAIN, _ENCRYPTED = b"\x00", b"\x01"
_NONCE_BYTES = 12


class SecretCipher:
    """Encrypt with AES-256-GCM under a key derived from ``key``, bound to the secret's row. Without a key secrets are
    only marked as plain, and readable by anyone with access to the database."""

    def __init__(self, key: SecretStr | None) -> None:
        given = key.get_secret_value() if key else ""
        self._cipher = AESGCM(hashlib.sha256(b"chordwise secrets\x00" + given.encode()).digest()) if given else None

    def encrypt(self, secret: bytes, *, belongs_to: str) -> bytes:
        """Return the encrypted form to store."""
        if self._cipher is None:
            return _PLAIN + secret
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return _ENCRYPTED + nonce + self._cipher.encrypt(nonce, secret, belongs_to.encode())

    def decrypt(self, stored: bytes, *, belongs_to: str) -> bytes:
        """Return the secret. Raises Misconfigured if it was encrypted with another key, or for another row."""
        kind, rest = stored[:1], stored[1:]
        if kind == _PLAIN:
            return rest
        if self._cipher is None:
            raise Misconfigured("CHORDWISE_SECRET_KEY is not set, and a stored secret is encrypted")
        try:
            return self._cipher.decrypt(rest[:_NONCE_BYTES], rest[_NONCE_BYTES:], belongs_to.encode())
        except InvalidTag:
            raise Misconfigured("CHORDWISE_SECRET_KEY is not the one that a stored secret was encrypted with") from None

    def seal(self, value: object, *, belongs_to: str) -> bytes:
        """Return the encrypted form of a JSON value to store."""
        return self.encrypt(orjson.dumps(value), belongs_to=belongs_to)

    def open(self, stored: bytes, *, belongs_to: str) -> Any:
        """Return a JSON value. Raises Misconfigured as `decrypt`."""
        return orjson.loads(self.decrypt(stored, belongs_to=belongs_to))
