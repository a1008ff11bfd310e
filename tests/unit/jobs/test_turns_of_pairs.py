"""The order of service over several pairs of stores."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from pipeline.jobs.turn_store import WaitingJob, in_turn
from pipeline.records import JobId, TenantId

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def _job(tenant: str, job: str, minutes: int | None) -> WaitingJob:
    served_at = None if minutes is None else NOON + timedelta(minutes=minutes)
    return WaitingJob(tenant_id=TenantId(tenant), job_id=JobId(job), request_id="r", tenant_served_at=served_at)


class DescribeTurnsOfPairs:
    def it_serves_first_those_never_served_then_the_least_recently_served(self):
        here = [_job("new", "j1", None), _job("a", "j2", 1), _job("c", "j3", 3)]
        there = [_job("b", "j4", 2), _job("d", "j5", 4)]
        assert [job.tenant_id for job in in_turn([here, there])] == ["new", "a", "b", "c", "d"]

    def it_keeps_the_order_of_one_tenants_jobs(self):
        jobs = [_job("a", "interactive", 1), _job("a", "bulk", 1)]
        assert [job.job_id for job in in_turn([jobs, [_job("b", "j", 1)]])] == ["interactive", "bulk", "j"]
