"""Tenants with their quotas, usage and audit."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime

from chordwise.contract import job, tenant
from chordwise.records import Result, decode
from chordwise.resource import Resource, operation, path
from chordwise.transport import Steps

Tenant = tenant.TenantView
Quota = tenant.Quota
Quotas = tenant.QuotaUse
TenantQuotas = tenant.OwnQuotasView
TenantErasure = tenant.TenantErased
UsageCounts = job.Usage


class UsageRow(job.UsageRow, UsageCounts):
    """The counts of one day, job, model or purpose, named by ``key``."""


class UsageReport(Result):
    """The cost of embedding and of written answers between two days, both included."""

    by: str
    total: UsageCounts
    data: tuple[UsageRow, ...]


Actor = tenant.AuditActor
AuditEntry = tenant.AuditEntry


class TenantOperations(Resource):
    """Operations on tenants. Quotas, usage and audit are those of the tenant whose key the client has."""

    @operation
    def tenants(self) -> Steps[list[Tenant]]:
        """List every tenant of the installation."""
        return self._pages(Tenant, "/v1/tenants")

    @operation
    def tenant(self, tenant_id: str) -> Steps[Tenant]:
        """Return one tenant. ProblemError with status 404 if there is none."""
        return self._one(Tenant, "GET", path("tenants", tenant_id))

    @operation
    def create_tenant(self, tenant_id: str, *, name: str | None = None) -> Steps[Tenant]:
        """Create a tenant without keys. ProblemError with status 409 if there is one of this id."""
        body = {"tenant_id": tenant_id, "name": name or tenant_id}
        return self._one(Tenant, "POST", "/v1/tenants", body=body, safe=False)

    @operation
    def disable_tenant(self, tenant_id: str) -> Steps[Tenant]:
        """Disable all keys of the tenant within three seconds; nothing is deleted."""
        return self._one(Tenant, "POST", path("tenants", tenant_id, "disable"))

    @operation
    def enable_tenant(self, tenant_id: str) -> Steps[Tenant]:
        """Let the tenant's keys work again."""
        return self._one(Tenant, "POST", path("tenants", tenant_id, "enable"))

    @operation
    def erase_tenant(self, tenant_id: str) -> Steps[TenantErasure]:
        """Delete everything the tenant has, in every store. This cannot be undone."""
        return self._one(TenantErasure, "DELETE", path("tenants", tenant_id))

    @operation
    def tenant_quotas(self, tenant_id: str) -> Steps[TenantQuotas]:
        """Return the tenant's own quotas; None where the installation's setting applies."""
        return self._one(TenantQuotas, "GET", path("tenants", tenant_id, "quotas"))

    @operation
    def tenant_quota_use(self, tenant_id: str) -> Steps[Quotas]:
        """Return the tenant's effective limits and how much of each is used."""
        return self._one(Quotas, "GET", path("tenants", tenant_id, "quotas", "use"))

    @operation
    def set_tenant_quotas(self, /, tenant_id: str, **quotas: int | None) -> Steps[TenantQuotas]:
        """Replace the tenant's own quotas: ``documents``, ``chunks``, ``queued``, ``tokens``, ``requests_per_minute``.
        An omitted quota takes the installation's setting again, 0 means no limit."""
        return self._one(TenantQuotas, "PUT", path("tenants", tenant_id, "quotas"), body=quotas)

    @operation
    def quotas(self) -> Steps[Quotas]:
        """Return the tenant's limits and how much of each is used."""
        return self._one(Quotas, "GET", "/v1/quotas")

    @operation
    def usage(
        self, *, start: date | str | None = None, end: date | str | None = None, by: str = "day"
    ) -> Steps[UsageReport]:
        """Report the cost of models between two days (UTC, both included; default: this month), ``by`` day, job, model or
        purpose."""
        filters = {"from": start, "to": end, "by": by, "limit": 200}
        report: UsageReport | None = None
        cursor: str | None = None
        while report is None or cursor:
            body = (yield from self._request("GET", "/v1/usage", params={**filters, "cursor": cursor})).json()
            page = decode(UsageReport, body)
            report = page if report is None else replace(report, data=report.data + page.data).received(report.raw)
            cursor = page.raw.get("next_cursor")
        return report

    @operation
    def audit(
        self,
        *,
        action: str | None = None,
        key_id: str | None = None,
        since: datetime | date | str | None = None,
        until: datetime | date | str | None = None,
        limit: int | None = 100,
    ) -> Steps[list[AuditEntry]]:
        """List searches and writes, newest first, ``key_id``: by one key; ``limit`` None for all."""
        filters = {"action": action, "key_id": key_id, "since": since, "until": until}
        return self._pages(AuditEntry, "/v1/audit", filters, limit=limit)
