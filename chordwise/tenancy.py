"""Tenants, API keys and the audit, as an administrator handles them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any

from chordwise.decoding import Result, decode
from chordwise.requesting import Requesting, segment
from chordwise.transport import Steps


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant(Result):
    """An isolated customer. ``disabled_at``: none of its keys works since then."""

    tenant_id: str
    name: str = ""
    created_at: datetime | None = None
    disabled_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantQuotas(Result):
    """A tenant's own quotas; None where the installation's setting holds, 0 for no limit."""

    documents: int | None = None
    chunks: int | None = None
    queued: int | None = None
    tokens: int | None = None
    requests_per_minute: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey(Result):
    """A key. ``api_key`` itself is there only right after it was made. ``state``: active, expired or revoked."""

    key_id: str
    name: str = ""
    scopes: tuple[str, ...] = ()
    state: str = ""
    api_key: str | None = field(default=None, repr=False)
    created_at: datetime | None = None
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None
    replaced_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentKey(Result):
    """Whose key the client uses, and what it may do."""

    tenant_id: str
    key_id: str = ""
    name: str = ""
    scopes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor(Result):
    """Who did it: the key by its id and name. Both are empty for the installation itself."""

    key_id: str = ""
    key_name: str = ""
    scopes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry(Result):
    """One search or one write: who (``actor``), what (``action``), and the first hundred ``ids`` of ``count``."""

    audit_id: str
    at: datetime | None = None
    action: str = ""
    actor: Actor = Actor()
    request_id: str = ""
    namespaces: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    count: int = 0
    status: str = ""
    query_hash: str | None = None
    query_text: str | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantErasure(Result):
    """What went from which store and table, and what a recount found: nothing, if all is well."""

    tenant_id: str
    erased: Mapping[str, int] = field(default_factory=dict)
    remaining: Mapping[str, int] = field(default_factory=dict)


class TenancyOperations(Requesting):
    """What ``Operations`` can do to tenants and keys. Without ``tenant_id``, keys are those of the client's own
    tenant."""

    def tenants(self) -> Steps[list[Tenant]]:
        """Every tenant."""
        return self._pages(Tenant, "/v1/tenants")

    def tenant(self, tenant_id: str) -> Steps[Tenant]:
        """One tenant."""
        return decode(Tenant, (yield from self._request("GET", _tenant(tenant_id))).json())

    def create_tenant(self, tenant_id: str, name: str) -> Steps[Tenant]:
        """A new tenant. Not repeated: the second time it would be there already."""
        body = {"tenant_id": tenant_id, "name": name}
        return decode(Tenant, (yield from self._request("POST", "/v1/tenants", body=body, safe=False)).json())

    def tenant_quotas(self, tenant_id: str) -> Steps[TenantQuotas]:
        """Return the tenant's own quotas."""
        return decode(TenantQuotas, (yield from self._request("GET", f"{_tenant(tenant_id)}/quotas")).json())

    def set_tenant_quotas(self, tenant_id: str, quotas: Mapping[str, int | None]) -> Steps[TenantQuotas]:
        """Replace all of the tenant's own quotas."""
        path = f"{_tenant(tenant_id)}/quotas"
        return decode(TenantQuotas, (yield from self._request("PUT", path, body=dict(quotas))).json())

    def admit_tenant(self, tenant_id: str, *, admitted: bool) -> Steps[Tenant]:
        """Let the tenant's keys work, or none of them."""
        path = f"{_tenant(tenant_id)}/{'enable' if admitted else 'disable'}"
        return decode(Tenant, (yield from self._request("POST", path)).json())

    def erase_tenant(self, tenant_id: str) -> Steps[TenantErasure]:
        """Erase it from every store."""
        return decode(TenantErasure, (yield from self._request("DELETE", _tenant(tenant_id))).json())

    def current_key(self) -> Steps[CurrentKey]:
        """The client's own key."""
        return decode(CurrentKey, (yield from self._request("GET", "/v1/keys/current")).json())

    def keys(self, tenant_id: str | None) -> Steps[list[ApiKey]]:
        """Every key, those that have ended included."""
        return self._pages(ApiKey, _keys(tenant_id))

    def key(self, key_id: str, tenant_id: str | None) -> Steps[ApiKey]:
        """One key."""
        path = f"{_keys(tenant_id)}/{segment(key_id)}"
        return decode(ApiKey, (yield from self._request("GET", path)).json())

    def create_key(
        self, name: str, scopes: Sequence[str], expires_at: datetime | None, tenant_id: str | None
    ) -> Steps[ApiKey]:
        """A new key. Not repeated: the secret would be lost with the first answer."""
        body: dict[str, Any] = {"name": name, "scopes": list(scopes)}
        if expires_at is not None:
            body["expires_at"] = expires_at.astimezone().isoformat()
        return decode(ApiKey, (yield from self._request("POST", _keys(tenant_id), body=body, safe=False)).json())

    def rotate_key(self, key_id: str, overlap_s: int | None, tenant_id: str | None) -> Steps[ApiKey]:
        """A key in the place of another. Not repeated either."""
        path = f"{_keys(tenant_id)}/{segment(key_id)}/rotate"
        body = {} if overlap_s is None else {"overlap_seconds": overlap_s}
        return decode(ApiKey, (yield from self._request("POST", path, body=body, safe=False)).json())

    def revoke_key(self, key_id: str, tenant_id: str | None) -> Steps[None]:
        """End a key."""
        yield from self._request("DELETE", f"{_keys(tenant_id)}/{segment(key_id)}")

    def audit(
        self,
        action: str | None,
        since: datetime | date | str | None,
        until: datetime | date | str | None,
        *,
        limit: int | None,
    ) -> Steps[list[AuditEntry]]:
        """Rows of the audit."""
        asked = {"action": action, "since": since, "until": until}
        return self._pages(AuditEntry, "/v1/audit", asked, limit=limit)


def _tenant(tenant_id: str) -> str:
    return f"/v1/tenants/{segment(tenant_id)}"


def _keys(tenant_id: str | None) -> str:
    return "/v1/keys" if tenant_id is None else f"{_tenant(tenant_id)}/keys"
