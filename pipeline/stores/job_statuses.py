"""The status of a job as an SQL condition on ``jobs``: the same rule as `job_views.status_of`."""

from __future__ import annotations

from typing import Literal

JobStatus = Literal["queued", "running", "succeeded", "partly_failed", "failed", "cancelled"]


def _has(*states: str) -> str:
    """Each state is a lookup in the index of items by job and state."""
    named = ", ".join(f"'{state}'" for state in states)
    return (
        "EXISTS (SELECT 1 FROM job_items i WHERE i.tenant_id = jobs.tenant_id AND i.job_id = jobs.job_id"
        f" AND i.state IN ({named}))"
    )


_OVER = f"NOT {_has('queued', 'running')}"
_CONDITIONS: dict[JobStatus, str] = {
    "queued": f"finished_at IS NULL AND {_has('queued')} AND NOT {_has('running', 'succeeded')}",
    "running": f"finished_at IS NULL AND ({_has('running')} OR ({_has('queued')} AND {_has('succeeded')}))",
    "failed": f"{_has('failed')} AND {_OVER} AND NOT {_has('succeeded', 'cancelled')}",
    "partly_failed": f"{_has('failed')} AND {_OVER} AND {_has('succeeded', 'cancelled')}",
    "cancelled": f"{_has('cancelled')} AND {_OVER} AND NOT {_has('failed')}",
    "succeeded": f"{_OVER} AND NOT {_has('failed', 'cancelled')}",
}


def in_status(status: JobStatus) -> str:
    """Return the condition that a row of ``jobs`` is in this status."""
    return f"({_CONDITIONS[status]})"
