"""Tenants, their quotas, API keys and the audit, as an administrator handles them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any

from chordwise.records import Result
from chordwise.resource import Requesting, segment
from chordwise.transport import Steps


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant(Result):
    """An isolated customer. ``disabled_at``: none of its keys works since then."""

    tenant_id: str
    name: str = ""
    created_at: datetime | None = None
    disabled_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota(Result):
    """How much there may be, None for any number, and how much there is."""

    limit: int | None = None
    used: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotas(Result):
    """What the tenant may store, and how many documents may wait for a worker."""

    documents: Quota = Quota()
    chunks: Quota = Quota()
    queued: Quota = Quota()
    tokens: Quota = Quota()


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
        """Every tenant of the installation."""
        return self._pages(Tenant, "/v1/tenants")

    def tenant(self, tenant_id: str) -> Steps[Tenant]:
        """One tenant; ProblemError with status 404 if there is none."""
        return self._one(Tenant, "GET", _tenant(tenant_id))

    def create_tenant(self, tenant_id: str, *, name: str | None = None) -> Steps[Tenant]:
        """Make a tenant, which has no key yet; ProblemError with status 409 if there is one of this id."""
        name = name or tenant_id
        body = {"tenant_id": tenant_id, "name": name}
        return self._one(Tenant, "POST", "/v1/tenants", body=body, safe=False)

    def tenant_quotas(self, tenant_id: str) -> Steps[TenantQuotas]:
        """Return the tenant's own quotas; None where the installation's setting applies."""
        return self._one(TenantQuotas, "GET", f"{_tenant(tenant_id)}/quotas")

    def set_tenant_quotas(self, /, tenant_id: str, **quotas: int | None) -> Steps[TenantQuotas]:
        """Replace the tenant's own quotas: ``documents``, ``chunks``, ``queued``, ``tokens``, ``requests_per_minute``.
        An omitted quota takes the installation's setting again, 0 means no limit."""
        path = f"{_tenant(tenant_id)}/quotas"
        return self._one(TenantQuotas, "PUT", path, body=dict(quotas))

    def disable_tenant(self, tenant_id: str) -> Steps[Tenant]:
        """Let no key of the tenant work, from within three seconds on; nothing is deleted."""
        return self._one(Tenant, "POST", f"{_tenant(tenant_id)}/disable")

    def enable_tenant(self, tenant_id: str) -> Steps[Tenant]:
        """Let the tenant's keys work again."""
        return self._one(Tenant, "POST", f"{_tenant(tenant_id)}/enable")

    def erase_tenant(self, tenant_id: str) -> Steps[TenantErasure]:
        """Delete everything the tenant has, in every store. It cannot be brought back."""
        return self._one(TenantErasure, "DELETE", _tenant(tenant_id))

    def current_key(self) -> Steps[CurrentKey]:
        """Whose key this client uses, and what it may do."""
        return self._one(CurrentKey, "GET", "/v1/keys/current")

    def keys(self, *, tenant_id: str | None = None) -> Steps[list[ApiKey]]:
        """Every key, the newest first, those that have ended included."""
        return self._pages(ApiKey, _keys(tenant_id))

    def key(self, key_id: str, *, tenant_id: str | None = None) -> Steps[ApiKey]:
        """One key; ProblemError with status 404 if there is none."""
        path = f"{_keys(tenant_id)}/{segment(key_id)}"
        return self._one(ApiKey, "GET", path)

    def create_key(
        self,
        name: str,
        *,
        scopes: Sequence[str] = ("read",),
        expires_at: datetime | None = None,
        tenant_id: str | None = None,
    ) -> Steps[ApiKey]:
        """Make a key with some of the scopes read, write and admin. Its ``api_key`` is shown this once."""
        body: dict[str, Any] = {"name": name, "scopes": list(scopes)}
        if expires_at is not None:
            body["expires_at"] = expires_at.astimezone().isoformat()
        return self._one(ApiKey, "POST", _keys(tenant_id), body=body, safe=False)

    def rotate_key(
        self, key_id: str, *, overlap_seconds: int | None = None, tenant_id: str | None = None
    ) -> Steps[ApiKey]:
        """A key in the place of another, which works for ``overlap_seconds`` more, by default a day."""
        path = f"{_keys(tenant_id)}/{segment(key_id)}/rotate"
        body = {} if overlap_seconds is None else {"overlap_seconds": overlap_seconds}
        return self._one(ApiKey, "POST", path, body=body, safe=False)

    def revoke_key(self, key_id: str, *, tenant_id: str | None = None) -> Steps[None]:
        """End a key: every gateway refuses it within three seconds."""
        yield from self._request("DELETE", f"{_keys(tenant_id)}/{segment(key_id)}")

    def audit(
        self,
        *,
        action: str | None = None,
        since: datetime | date | str | None = None,
        until: datetime | date | str | None = None,
        limit: int | None = 100,
    ) -> Steps[list[AuditEntry]]:
        """Who searched and who wrote, the newest first; ``limit`` None for all."""
        asked = {"action": action, "since": since, "until": until}
        return self._pages(AuditEntry, "/v1/audit", asked, limit=limit)


def _tenant(tenant_id: str) -> str:
    return f"/v1/tenants/{segment(tenant_id)}"


def _keys(tenant_id: str | None) -> str:
    return "/v1/keys" if tenant_id is None else f"{_tenant(tenant_id)}/keys"
