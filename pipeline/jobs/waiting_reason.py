"""Explain why a job makes no progress: queued behind others, or no worker."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import datetime, timedelta

# A job may wait this long before it is worth a word; workers look for work more often than this.
PATIENCE = timedelta(seconds=5)


class WaitingReason(enum.StrEnum):
    """Reasons why an unfinished job makes no progress."""

    QUEUED_BEHIND_OTHERS = "queued_behind_others"  # starved: workers are busy with other tenants
    NO_WORKER = "no_worker"  # stalled: no worker has rung in
    PAUSED = "paused"
    RETRYING = "retrying"  # everything left failed lately and is to be tried again later


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFacts:
    """Facts of an unfinished job. ``due_since``: when its oldest due item became due, None without any.
    ``workers_seen``: a worker was seen lately."""

    paused: bool
    running: int
    queued: int
    due_since: datetime | None
    served_at: datetime | None
    workers_seen: bool


def waiting_reason(job: JobFacts, *, now: datetime) -> WaitingReason | None:
    """Return the reason, or None for a job that is worked on, has nothing left, or has waited less than ``PATIENCE``."""
    if job.running or not job.queued:
        return None
    if job.paused:
        return WaitingReason.PAUSED
    if job.due_since is None:
        return WaitingReason.RETRYING
    untouched_since = max(job.due_since, job.served_at or job.due_since)
    if now - untouched_since < PATIENCE:
        return None
    return WaitingReason.QUEUED_BEHIND_OTHERS if job.workers_seen else WaitingReason.NO_WORKER
