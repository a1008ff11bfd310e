"""Decide until when jobs and counts of usage are kept."""

from datetime import date, datetime, timedelta


def keep_jobs_since(moment: datetime, *, keep_days: int, idempotency_ttl_s: float) -> datetime | None:
    """Return the time of ending before which jobs are deleted; None: they are kept for ever, as ``keep_days`` is 0.

    A job outlives the stored answer that a repeated request with the same Idempotency-Key gets, because it names the job.
    """
    if not keep_days:
        return None
    return moment - max(timedelta(days=keep_days), timedelta(seconds=idempotency_ttl_s))


def keep_usage_since(today: date, *, keep_days: int, job_keep_days: int) -> date | None:
    """Return the day before which counts are deleted; None: they are kept for ever, as either number is 0.

    Counts are kept as long as jobs, which show them, and never end within the current month, which has the quota.
    """
    if not keep_days or not job_keep_days:
        return None
    return min(today - timedelta(days=max(keep_days, job_keep_days)), today.replace(day=1))
