"""Tenants and their own quotas, for the operator; the API keys, the usage and the audit of a tenant."""

from dataclasses import asdict
from datetime import date

import structlog

from chordwise.contract.tenant import OwnQuotasView, TenantView
from pipeline.administration.call_store import call_store
from pipeline.database.unit_of_work import unit_of_work
from pipeline.outages import tolerate_outage
from pipeline.records import TenantId
from pipeline.resources import Resources
from pipeline.tenants.accounts import Principal, tenant_of
from pipeline.tenants.audit_store import Audit
from pipeline.tenants.quota_store import QuotaColumns
from pipeline.tenants.tenant_store import ApiKeys, Tenants, tenants_page
from pipeline.tenants.usage import UsageKey, UsageRow
from pipeline.tenants.usage_store import Usage

log = structlog.get_logger(__name__)

find_tenant = call_store(Tenants, Tenants.find)
admit_tenant = call_store(Tenants, Tenants.admit)
list_audit = call_store(Audit, Audit.page)
issue_key = call_store(ApiKeys, ApiKeys.issue)
list_keys = call_store(ApiKeys, ApiKeys.page)
find_key = call_store(ApiKeys, ApiKeys.one)
rotate_key = call_store(ApiKeys, ApiKeys.rotate)
revoke_key = call_store(ApiKeys, ApiKeys.revoke)
own_quotas = call_store(QuotaColumns, QuotaColumns.read)
own_requests_per_minute = call_store(QuotaColumns, QuotaColumns.requests_per_minute)


def create_tenant(tenant_id: TenantId, name: str, quotas: OwnQuotasView | None, use: Resources) -> TenantView | None:
    """Create a tenant, with quotas of its own if any are given; None if the id is taken."""
    with unit_of_work(use.mysql) as work:
        tenants = Tenants(work.connection, tenant_id)
        if not tenants.create(name):
            return None
        Audit(work.connection, tenant_id).wrote("tenant_create", ids=[tenant_id])
        if quotas is not None:
            QuotaColumns(work.connection, tenant_id).write(quotas)
        return tenants.find()


def list_tenants(after: str | None, limit: int, use: Resources) -> list[TenantView]:
    """Return the tenants of the installation that follow the id ``after``, by id."""
    with unit_of_work(use.mysql) as work:
        return tenants_page(work.connection, after=after, limit=limit)


def principal_of(api_key: str, use: Resources) -> Principal | None:
    """Return the principal that a key stands for, or None if the key is malformed, unknown or has ended."""
    tenant_id = tenant_of(api_key)
    if tenant_id is None:
        return None
    with unit_of_work(use.mysql) as work:
        principal, is_use_due = Tenants(work.connection, tenant_id).principal(api_key)
    if is_use_due:
        # A server that takes no writes can still say whose key it is.
        with tolerate_outage(log.info, "key_use_not_recorded"), unit_of_work(use.mysql) as work:
            Tenants(work.connection, tenant_id).note_use(api_key)
    return principal


def set_own_quotas(tenant_id: TenantId, quotas: OwnQuotasView, use: Resources) -> None:
    """Replace the quotas of this tenant."""
    with unit_of_work(use.mysql) as work:
        QuotaColumns(work.connection, tenant_id).write(quotas)
        Audit(work.connection, tenant_id).wrote("tenant_quotas", ids=[tenant_id], **asdict(quotas))


def usage_between(
    tenant_id: TenantId, first: date, last: date, *, by: UsageKey, after: str | None, limit: int, use: Resources
) -> tuple[UsageRow, list[UsageRow]]:
    """Return what embedding cost in some days, both included: the total, and the rows that follow the key ``after``."""
    with unit_of_work(use.mysql) as work:
        usage = Usage(work.connection, tenant_id)
        rows = usage.between(first, last, by=by, after=after, limit=limit)
        return usage.total(first, last), rows
