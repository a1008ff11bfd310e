"""Jobs and their items, page by page, and for callers that follow them. Every function raises StoreUnavailable."""

from pipeline.administration.call_store import call_store
from pipeline.database.unit_of_work import unit_of_work
from pipeline.jobs.job_view_store import JobViews, Matches
from pipeline.jobs.job_views import ItemView
from pipeline.records import JobId, TenantId
from pipeline.resources import Resources

list_jobs = call_store(JobViews, JobViews.newest)
find_matches = call_store(Matches, Matches.of)
find_job = call_store(JobViews, JobViews.one)
is_finished = call_store(JobViews, JobViews.is_finished)
snapshot = call_store(JobViews, JobViews.snapshot)
next_failures = call_store(JobViews, JobViews.failures)
fingerprints = call_store(JobViews, JobViews.fingerprints)


def list_items(
    tenant_id: TenantId,
    job_id: JobId,
    use: Resources,
    *,
    status: str | None,
    after: int,
    limit: int,
    duplicates: bool = False,
    warned: bool = False,
) -> list[ItemView] | None:
    """Return items above the ordinal ``after``, None without such a job; ``duplicates``: only copies of older ones;
    ``warned``: only those whose text is not sure or not complete."""
    with unit_of_work(use.mysql) as work:
        views = JobViews(work.connection, tenant_id)
        if views.is_finished(job_id) is None:
            return None
        return views.items(job_id, status=status, after=after, limit=limit, duplicates=duplicates, warned=warned)
