"""Tenants, their quotas and API keys as records, and the principal that a key stands for.

A key contains its tenant's id, so looking it up is a statement within one tenant.
"""

import hashlib
import re
import secrets
from dataclasses import dataclass, field
from datetime import datetime

from chordwise.contract.tenant import AuditActor
from pipeline.filters.readers import Principals
from pipeline.records import TenantId

TENANT_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
RESERVED = frozenset({"chordwise"})  # keys of Redis begin with the tenant's id, and the installation's own with this

_KEY = re.compile(r"cw_(?P<tenant>[a-z0-9][a-z0-9-]{0,62})_(?P<secret>[A-Za-z0-9-]{32,64})")

SCOPES = ("read", "write", "admin")
IMPERSONATE = "impersonate"  # allows the principals of each request to be named
OPERATOR = "operator"  # allows actions on every tenant; only the command line grants it


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """A key. ``secret``, and ``token_secret`` which signs tokens, are of one that was just made: they are not stored.
    ``last_used_at`` is exact to the minute. ``replaced_by``: the key it was rotated to.
    ``principals``: of its callers. ``signs_tokens``: whether its owner can sign tokens of principals
    (`tenants.caller_tokens`)."""

    key_id: str
    name: str
    scopes: tuple[str, ...]
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None
    replaced_by: str | None = None
    principals: tuple[str, ...] = ()
    signs_tokens: bool = False
    secret: str = field(default="", repr=False)
    token_secret: str | None = field(default=None, repr=False)

    def state(self, at: datetime) -> str:
        """Return ``active``, ``expired`` or ``revoked`` at a moment (with a zone)."""
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= at else "active"


class TooManyKeys(Exception):
    """The tenant has as many keys as allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """The authenticated caller: its tenant and the scopes of its key. ``reads_as``: the principals by which it sees documents.
    ``has_restricted``: whether the tenant may have documents that are not public. ``ends_at``: when its token ends, in seconds
    since the epoch."""

    tenant_id: TenantId
    scopes: frozenset[str]
    key_id: str = ""
    key_name: str = ""
    reads_as: Principals = frozenset()
    has_restricted: bool = False
    ends_at: float | None = None

    @property
    def is_limited(self) -> bool:
        """Whether the tenant may have documents that this caller does not see."""
        return self.has_restricted and self.reads_as is not None

    @property
    def actor(self) -> AuditActor:
        """The caller as the audit records it."""
        return AuditActor(key_id=self.key_id, key_name=self.key_name, scopes=tuple(sorted(self.scopes)))


def tenant_of(api_key: str) -> TenantId | None:
    """Return the tenant that a key names, or None if it does not have the form of a key."""
    match = _KEY.fullmatch(api_key)
    return TenantId(match["tenant"]) if match else None


def hashed(api_key: str) -> bytes:
    """Return the stored hash of a key. Plain SHA-256 is enough: the secret has 190 random bits."""
    return hashlib.sha256(api_key.encode()).digest()


def key_id_of(key_hash: bytes) -> str:
    """Return the id of a key in the audit: 16 hexadecimal digits of its hash, which do not reveal the key."""
    return key_hash[:8].hex()


def new_key(tenant_id: TenantId) -> str:
    """Return a new random key."""
    return f"cw_{tenant_id}_{secrets.token_hex(24)}"
