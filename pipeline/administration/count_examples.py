"""The example library of a namespace: what is stored, and whether an import can be found."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.database.unit_of_work import unit_of_work
from pipeline.examples.example_counts import Duplicated, Stored, Verified
from pipeline.examples.example_store import Examples
from pipeline.records import JobId, Namespace, TenantId
from pipeline.resources import Resources
from pipeline.tenants.namespace_store import Namespaces


def count_examples(
    tenant_id: TenantId, namespace: Namespace, categories: Sequence[str], use: Resources
) -> tuple[dict[str, Stored], Duplicated] | None:
    """Return the counts of each category and the exact duplicates, or None without such a namespace."""
    with unit_of_work(use.mysql) as work:
        if not Namespaces(work.connection, tenant_id).existing([namespace]):
            return None
        examples = Examples(work.connection, tenant_id)
        return examples.stored(namespace, categories), examples.duplicates(namespace, categories)


def verify_import(tenant_id: TenantId, job_id: JobId, sample: int, use: Resources) -> Verified | None:
    """Compare the rows a job accepted with what searches find now; None without such a job."""
    with unit_of_work(use.mysql) as work:
        return Examples(work.connection, tenant_id).verified(job_id, sample=sample)
