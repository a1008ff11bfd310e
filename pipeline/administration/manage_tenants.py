"""Tenants and their own quotas, for the operator; the API keys, the usage and the audit of a tenant."""

from __future__ import annotations

from dataclasses import asdict
from datetime import date, datetime, timedelta

from pipeline.database.unit_of_work import unit_of_work
from pipeline.records import TenantId
from pipeline.resources import Resources
from pipeline.tenants import quota_store
from pipeline.tenants.accounts import ApiKey, IssuedKey, OwnQuotas, Principal, Tenant, tenant_of
from pipeline.tenants.audit import AuditFilter, AuditRow
from pipeline.tenants.audit_store import Audit
from pipeline.tenants.tenant_store import ApiKeys, Tenants, tenants_page
from pipeline.tenants.usage import UsageKey, UsageRow
from pipeline.tenants.usage_store import Usage


def create_tenant(tenant_id: TenantId, name: str, quotas: OwnQuotas | None, use: Resources) -> Tenant | None:
    """Create a tenant, with quotas of its own if any are given; None if the id is taken."""
    with unit_of_work(use.mysql) as work:
        tenants = Tenants(work.connection, tenant_id)
        if not tenants.create(name):
            return None
        Audit(work.connection, tenant_id).wrote("tenant_create", ids=[tenant_id])
        if quotas is not None:
            quota_store.set_own_quotas(work.connection, tenant_id, quotas)
        return tenants.find()


def list_tenants(after: str | None, limit: int, use: Resources) -> list[Tenant]:
    """Return the tenants of the installation that follow the id ``after``, by id."""
    with unit_of_work(use.mysql) as work:
        return tenants_page(work.connection, after=after, limit=limit)


def find_tenant(tenant_id: TenantId, use: Resources) -> Tenant | None:
    """Return the tenant, or None."""
    with unit_of_work(use.mysql) as work:
        return Tenants(work.connection, tenant_id).find()


def admit_tenant(tenant_id: TenantId, admitted: bool, use: Resources) -> None:
    """Enable a tenant's keys, or disable all of them."""
    with unit_of_work(use.mysql) as work:
        Tenants(work.connection, tenant_id).admit(admitted)


def own_quotas(tenant_id: TenantId, use: Resources) -> OwnQuotas:
    """Return the quotas that were set for this tenant."""
    with unit_of_work(use.mysql) as work:
        return quota_store.own_quotas(work.connection, tenant_id)


def own_requests_per_minute(tenant_id: TenantId, use: Resources) -> int | None:
    """Return how often the tenant may ask, 0 for no limit; None if the installation's setting holds for it."""
    with unit_of_work(use.mysql) as work:
        return quota_store.own_requests_per_minute(work.connection, tenant_id)


def principal_of(api_key: str, use: Resources) -> Principal | None:
    """Return the principal that a key stands for, or None if the key is malformed, unknown or has ended."""
    tenant_id = tenant_of(api_key)
    if tenant_id is None:
        return None
    with unit_of_work(use.mysql) as work:
        return Tenants(work.connection, tenant_id).principal(api_key)


def set_own_quotas(tenant_id: TenantId, quotas: OwnQuotas, use: Resources) -> None:
    """Replace the quotas of this tenant."""
    with unit_of_work(use.mysql) as work:
        quota_store.set_own_quotas(work.connection, tenant_id, quotas)
        Audit(work.connection, tenant_id).wrote("tenant_quotas", ids=[tenant_id], **asdict(quotas))


def usage_between(
    tenant_id: TenantId, first: date, last: date, *, by: UsageKey, after: str | None, limit: int, use: Resources
) -> tuple[UsageRow, list[UsageRow]]:
    """Return what embedding cost in some days, both included: the total, and the rows that follow the key ``after``."""
    with unit_of_work(use.mysql) as work:
        usage = Usage(work.connection, tenant_id)
        rows = usage.between(first, last, by=by, after=after, limit=limit)
        return usage.total(first, last), rows


def list_audit(
    tenant_id: TenantId, chosen: AuditFilter, before: tuple[datetime, str] | None, limit: int, use: Resources
) -> list[AuditRow]:
    """Return rows of the audit older than the (at, audit_id) cursor, newest first."""
    with unit_of_work(use.mysql) as work:
        return Audit(work.connection, tenant_id).page(chosen, before=before, limit=limit)


def issue_key(
    tenant_id: TenantId, name: str, scopes: tuple[str, ...], expires_at: datetime | None, use: Resources
) -> IssuedKey:
    """Issue a key to a tenant that exists. Raises TooManyKeys."""
    with unit_of_work(use.mysql) as work:
        return ApiKeys(work.connection, tenant_id).issue(name, scopes, expires_at=expires_at)


def list_keys(tenant_id: TenantId, after: tuple[datetime, str] | None, limit: int, use: Resources) -> list[ApiKey]:
    """Return the keys older than the (created_at, key_id) cursor, newest first, ended ones included."""
    with unit_of_work(use.mysql) as work:
        return ApiKeys(work.connection, tenant_id).page(after=after, limit=limit)


def find_key(tenant_id: TenantId, key_id: str, use: Resources) -> ApiKey | None:
    """Return the key, or None."""
    with unit_of_work(use.mysql) as work:
        return ApiKeys(work.connection, tenant_id).one(key_id)


def rotate_key(tenant_id: TenantId, key_id: str, overlap: timedelta, use: Resources) -> IssuedKey | None:
    """Issue a key in the place of another, which works for ``overlap`` longer; None if that one has ended or was rotated.
    Raises TooManyKeys."""
    with unit_of_work(use.mysql) as work:
        return ApiKeys(work.connection, tenant_id).rotate(key_id, overlap=overlap)


def revoke_key(tenant_id: TenantId, key_id: str, use: Resources) -> bool:
    """End a key; False if the tenant has no such key."""
    with unit_of_work(use.mysql) as work:
        return ApiKeys(work.connection, tenant_id).revoke(key_id)
