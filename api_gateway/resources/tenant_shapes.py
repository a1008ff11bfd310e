"""Tenants and API keys, as they are asked for and answered."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from api_gateway.http.fields import Label, Moment, Wire
from api_gateway.resources.shapes import Shape, shown
from pipeline.tenants.api_key_store import ApiKey as StoredKey
from pipeline.tenants.quota_store import OwnQuotas
from pipeline.tenants.tenant_store import RESERVED, TENANT_ID
from pipeline.tenants.tenant_store import Tenant as StoredTenant

LONGEST_OVERLAP_S = 30 * 86_400

ScopeName = Literal["read", "write", "admin"]


def _future(moment: datetime) -> datetime:
    if moment <= datetime.now(UTC):
        raise ValueError("lies in the past")
    return moment


class KeyRequest(Wire):
    """A key to be made. Without `expires_at` it works until it is revoked."""

    name: Label
    scopes: Annotated[list[ScopeName], Field(min_length=1, max_length=3)]
    expires_at: Annotated[Moment, AfterValidator(_future)] | None = None
    tenant_id: str | None = None


class KeyRotateRequest(Wire):
    """`overlap_seconds`: how long the old key works beside the new one; a day, unless said otherwise."""

    overlap_seconds: Annotated[int, Field(ge=0, le=LONGEST_OVERLAP_S)] = 86_400
    tenant_id: str | None = None


def _not_reserved(tenant_id: str) -> str:
    if tenant_id in RESERVED:
        raise ValueError("is a name of the installation itself")
    return tenant_id


QuotaNumber = Annotated[int, Field(ge=0, le=10**15)]


class QuotasIn(Wire):
    """A tenant's own quotas. What is left out or null is the installation's setting, 0 is no limit."""

    documents: QuotaNumber | None = None
    chunks: QuotaNumber | None = None
    queued: QuotaNumber | None = None
    tokens: QuotaNumber | None = None
    requests_per_minute: Annotated[int, Field(ge=0, le=10_000_000)] | None = None

    def own(self) -> OwnQuotas:
        """Return the quotas in the form in which they are stored."""
        return OwnQuotas(**self.model_dump())


class TenantRequest(Wire):
    """A tenant to be made. The id stands in each of its keys: lower-case letters, digits and hyphens. `chordwise` is
    the installation's own."""

    tenant_id: Annotated[str, Field(pattern=f"^{TENANT_ID.pattern}$"), AfterValidator(_not_reserved)]
    name: Annotated[str, Field(min_length=1, max_length=255)]
    quotas: QuotasIn | None = None


class Key(Shape):
    """A key without its secret. `key_id` is what the audit calls it. `last_used_at` is true to the minute.
    `replaced_by`: the key that it was rotated to."""

    key_id: str
    name: str
    scopes: list[Literal["read", "write", "admin", "operator"]]
    state: Literal["active", "expired", "revoked"]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    replaced_by: str | None


class KeyWithSecret(Key):
    """A key and what to send as `Authorization: Bearer`, which is shown this once."""

    api_key: str


class KeyPage(Shape):
    """One page of keys, the newest first."""

    data: list[Key]
    next_cursor: str | None


class CurrentKey(Shape):
    """Whose key this is and what it may do."""

    tenant_id: str
    key_id: str
    name: str
    scopes: list[Literal["read", "write", "admin", "operator"]]


class TenantView(Shape):
    """A tenant. `disabled_at`: none of its keys works since then."""

    tenant_id: str
    name: str
    created_at: datetime
    disabled_at: datetime | None


class OwnQuotasView(Shape):
    """A tenant's own quotas; null where the installation's setting holds, 0 for no limit."""

    documents: int | None
    chunks: int | None
    queued: int | None
    tokens: int | None
    requests_per_minute: int | None


class TenantPage(Shape):
    """One page of tenants, by id."""

    data: list[TenantView]
    next_cursor: str | None


def key(stored: StoredKey, *, secret: str | None = None) -> dict[str, Any]:
    """A key as it is sent; with its secret only when it was just made."""
    sent: dict[str, Any] = {name: getattr(stored, name) for name in Key.model_fields if name not in ("state", "scopes")}
    sent |= {"scopes": list(stored.scopes), "state": stored.state(datetime.now(UTC))}
    return sent if secret is None else {**sent, "api_key": secret}


def own_quotas(stored: OwnQuotas) -> dict[str, Any]:
    """Convert stored quotas to their JSON form."""
    return asdict(stored)


def tenant(stored: StoredTenant) -> dict[str, Any]:
    """A tenant as it is sent."""
    return shown(TenantView, stored)
