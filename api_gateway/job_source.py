"""Where followed jobs are looked at: MySQL, in threads."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from api_gateway.following import FAILURES_AT_ONCE
from pipeline.flows.resources import Resources
from pipeline.records import JobId, TenantId
from pipeline.stores.job_signals import Failure, Fingerprint, JobSignals, Position, Snapshot
from pipeline.stores.work import unit_of_work

T = TypeVar("T")


class JobSource:
    """See ``following.Source``. ``run`` calls something that blocks, in a thread."""

    def __init__(self, run: Callable[..., Awaitable[Any]], use: Resources) -> None:
        self._run = run
        self._use = use

    async def snapshot(self, tenant_id: TenantId, job_id: JobId) -> Snapshot | None:
        """How the job stands."""
        return await self._ask(tenant_id, lambda signals: signals.snapshot(job_id))

    async def failures(self, tenant_id: TenantId, job_id: JobId, after: Position) -> Sequence[Failure]:
        """Its next failures."""
        return await self._ask(tenant_id, lambda signals: signals.failures(job_id, after=after, limit=FAILURES_AT_ONCE))

    async def fingerprints(self, tenant_id: TenantId, job_ids: Sequence[JobId]) -> dict[JobId, Fingerprint]:
        """What tells whether these jobs have moved."""
        return await self._ask(tenant_id, lambda signals: signals.fingerprints(job_ids))

    async def _ask(self, tenant_id: TenantId, question: Callable[[JobSignals], T]) -> T:
        def ask() -> T:
            with unit_of_work(self._use.mysql) as work:
                return question(JobSignals(work.connection, tenant_id))

        answer: T = await self._run(ask)
        return answer
