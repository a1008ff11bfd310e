"""The methods of both clients for tenants, keys and the audit."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from datetime import date, datetime
from typing import Any

from chordwise.tenancy import ApiKey, AuditEntry, CurrentKey, TenancyOperations, Tenant, TenantErasure, TenantQuotas
from chordwise.transport import Steps


class TenancyMethods:
    """The methods of ``Chordwise`` for tenants and keys. Those for tenants, and ``tenant_id``, take an operator's
    key."""

    _operations: TenancyOperations
    _run: Callable[[Steps[Any]], Any]

    def tenants(self) -> list[Tenant]:
        """Every tenant of the installation."""
        return list(self._run(self._operations.tenants()))

    def tenant(self, tenant_id: str) -> Tenant:
        """One tenant; ProblemError with status 404 if there is none."""
        found: Tenant = self._run(self._operations.tenant(tenant_id))
        return found

    def create_tenant(self, tenant_id: str, *, name: str | None = None) -> Tenant:
        """Make a tenant, which has no key yet; ProblemError with status 409 if there is one of this id."""
        made: Tenant = self._run(self._operations.create_tenant(tenant_id, name or tenant_id))
        return made

    def tenant_quotas(self, tenant_id: str) -> TenantQuotas:
        """Return the tenant's own quotas; None where the installation's setting applies."""
        found: TenantQuotas = self._run(self._operations.tenant_quotas(tenant_id))
        return found

    def set_tenant_quotas(self, tenant_id: str, **quotas: int | None) -> TenantQuotas:
        """Replace the tenant's own quotas: ``documents``, ``chunks``, ``queued``, ``tokens``, ``requests_per_minute``.
        An omitted quota takes the installation's setting again, 0 means no limit."""
        found: TenantQuotas = self._run(self._operations.set_tenant_quotas(tenant_id, quotas))
        return found

    def disable_tenant(self, tenant_id: str) -> Tenant:
        """Let no key of the tenant work, from within three seconds on; nothing is deleted."""
        found: Tenant = self._run(self._operations.admit_tenant(tenant_id, admitted=False))
        return found

    def enable_tenant(self, tenant_id: str) -> Tenant:
        """Let the tenant's keys work again."""
        found: Tenant = self._run(self._operations.admit_tenant(tenant_id, admitted=True))
        return found

    def erase_tenant(self, tenant_id: str) -> TenantErasure:
        """Delete everything the tenant has, in every store. It cannot be brought back."""
        gone: TenantErasure = self._run(self._operations.erase_tenant(tenant_id))
        return gone

    def current_key(self) -> CurrentKey:
        """Whose key this client uses, and what it may do."""
        found: CurrentKey = self._run(self._operations.current_key())
        return found

    def keys(self, *, tenant_id: str | None = None) -> list[ApiKey]:
        """Every key, the newest first, those that have ended included."""
        return list(self._run(self._operations.keys(tenant_id)))

    def key(self, key_id: str, *, tenant_id: str | None = None) -> ApiKey:
        """One key; ProblemError with status 404 if there is none."""
        found: ApiKey = self._run(self._operations.key(key_id, tenant_id))
        return found

    def create_key(
        self,
        name: str,
        *,
        scopes: Sequence[str] = ("read",),
        expires_at: datetime | None = None,
        tenant_id: str | None = None,
    ) -> ApiKey:
        """Make a key with some of the scopes read, write and admin. Its ``api_key`` is shown this once."""
        made: ApiKey = self._run(self._operations.create_key(name, scopes, expires_at, tenant_id))
        return made

    def rotate_key(self, key_id: str, *, overlap_seconds: int | None = None, tenant_id: str | None = None) -> ApiKey:
        """A key in the place of another, which works for ``overlap_seconds`` more, by default a day."""
        made: ApiKey = self._run(self._operations.rotate_key(key_id, overlap_seconds, tenant_id))
        return made

    def revoke_key(self, key_id: str, *, tenant_id: str | None = None) -> None:
        """End a key: every gateway refuses it within three seconds."""
        self._run(self._operations.revoke_key(key_id, tenant_id))

    def audit(
        self,
        *,
        action: str | None = None,
        since: datetime | date | str | None = None,
        until: datetime | date | str | None = None,
        limit: int | None = 100,
    ) -> list[AuditEntry]:
        """Who searched and who wrote, the newest first; ``limit`` None for all."""
        return list(self._run(self._operations.audit(action, since, until, limit=limit)))


class AsyncTenancyMethods:
    """The methods of ``AsyncChordwise`` for tenants and keys."""

    _operations: TenancyOperations
    _run: Callable[[Steps[Any]], Coroutine[Any, Any, Any]]

    async def tenants(self) -> list[Tenant]:
        """See ``Chordwise.tenants``."""
        return list(await self._run(self._operations.tenants()))

    async def tenant(self, tenant_id: str) -> Tenant:
        """See ``Chordwise.tenant``."""
        found: Tenant = await self._run(self._operations.tenant(tenant_id))
        return found

    async def create_tenant(self, tenant_id: str, *, name: str | None = None) -> Tenant:
        """See ``Chordwise.create_tenant``."""
        made: Tenant = await self._run(self._operations.create_tenant(tenant_id, name or tenant_id))
        return made

    async def tenant_quotas(self, tenant_id: str) -> TenantQuotas:
        """See ``Chordwise.tenant_quotas``."""
        found: TenantQuotas = await self._run(self._operations.tenant_quotas(tenant_id))
        return found

    async def set_tenant_quotas(self, tenant_id: str, **quotas: int | None) -> TenantQuotas:
        """See ``Chordwise.set_tenant_quotas``."""
        found: TenantQuotas = await self._run(self._operations.set_tenant_quotas(tenant_id, quotas))
        return found

    async def disable_tenant(self, tenant_id: str) -> Tenant:
        """See ``Chordwise.disable_tenant``."""
        found: Tenant = await self._run(self._operations.admit_tenant(tenant_id, admitted=False))
        return found

    async def enable_tenant(self, tenant_id: str) -> Tenant:
        """See ``Chordwise.enable_tenant``."""
        found: Tenant = await self._run(self._operations.admit_tenant(tenant_id, admitted=True))
        return found

    async def erase_tenant(self, tenant_id: str) -> TenantErasure:
        """See ``Chordwise.erase_tenant``."""
        gone: TenantErasure = await self._run(self._operations.erase_tenant(tenant_id))
        return gone

    async def current_key(self) -> CurrentKey:
        """See ``Chordwise.current_key``."""
        found: CurrentKey = await self._run(self._operations.current_key())
        return found

    async def keys(self, *, tenant_id: str | None = None) -> list[ApiKey]:
        """See ``Chordwise.keys``."""
        return list(await self._run(self._operations.keys(tenant_id)))

    async def key(self, key_id: str, *, tenant_id: str | None = None) -> ApiKey:
        """See ``Chordwise.key``."""
        found: ApiKey = await self._run(self._operations.key(key_id, tenant_id))
        return found

    async def create_key(
        self,
        name: str,
        *,
        scopes: Sequence[str] = ("read",),
        expires_at: datetime | None = None,
        tenant_id: str | None = None,
    ) -> ApiKey:
        """See ``Chordwise.create_key``."""
        made: ApiKey = await self._run(self._operations.create_key(name, scopes, expires_at, tenant_id))
        return made

    async def rotate_key(
        self, key_id: str, *, overlap_seconds: int | None = None, tenant_id: str | None = None
    ) -> ApiKey:
        """See ``Chordwise.rotate_key``."""
        made: ApiKey = await self._run(self._operations.rotate_key(key_id, overlap_seconds, tenant_id))
        return made

    async def revoke_key(self, key_id: str, *, tenant_id: str | None = None) -> None:
        """See ``Chordwise.revoke_key``."""
        await self._run(self._operations.revoke_key(key_id, tenant_id))

    async def audit(
        self,
        *,
        action: str | None = None,
        since: datetime | date | str | None = None,
        until: datetime | date | str | None = None,
        limit: int | None = 100,
    ) -> list[AuditEntry]:
        """See ``Chordwise.audit``."""
        return list(await self._run(self._operations.audit(action, since, until, limit=limit)))
