"""Follow jobs: each job is read once for all its clients, when it has changed, and at most a few times a second.

Redis wakes the one follower that a process has for a job. One statement for all followed jobs of a tenant finds changes
that Redis did not announce: every ten seconds as a safety net, every second while Redis is away.
"""

import asyncio
from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import structlog

from api_gateway.http.problems import Problem
from api_gateway.live.wakes import Wakes
from chordwise.contract.job import JobError
from pipeline.administration.call_store import read_view
from pipeline.jobs.job_view_store import JobViews
from pipeline.jobs.job_views import FailurePosition, Fingerprint, Pace, Snapshot, pace
from pipeline.outages import tolerate_outage
from pipeline.query.wake_names import wake_name
from pipeline.records import ItemState, JobId, TenantId
from pipeline.resources import Resources

log = structlog.get_logger(__name__)

MOST_STREAMS = 10_000
MOST_STREAMS_OF_A_TENANT = 2_000
FAILURES_AT_ONCE = 100
_SHORTEST_PAUSE_S = 0.3  # between two reads of one job
_RUNNING_PAUSE_S = 2.0  # reading interval of a job in progress, whatever the wake channel announces
_LONGEST_PAUSE_S = 60.0  # the reason for a wait changes without a write
_SAFETY_S, _WITHOUT_REDIS_S = 10.0, 1.0
_MOST_SAMPLES = 128


T = TypeVar("T")


Failures = Sequence[tuple[FailurePosition, JobError]]


class JobSource:
    """The ledger, from which followed jobs are read. ``run`` calls a blocking function in a thread. Every method raises
    StoreUnavailable."""

    def __init__(self, run: Callable[..., Awaitable[Any]], use: Resources) -> None:
        self._run = run
        self._use = use

    async def snapshot(self, tenant_id: TenantId, job_id: JobId) -> Snapshot | None:
        """Return the job's state, or None."""
        return await self._read(tenant_id, lambda jobs: jobs.snapshot(job_id))

    async def failures(self, tenant_id: TenantId, job_id: JobId, after: FailurePosition) -> Failures:
        """Return the job's next failures, at most FAILURES_AT_ONCE."""
        return await self._read(tenant_id, lambda jobs: jobs.failures(job_id, after=after, limit=FAILURES_AT_ONCE))

    async def fingerprints(self, tenant_id: TenantId, job_ids: Sequence[JobId]) -> dict[JobId, Fingerprint]:
        """Return the fingerprints that reveal changes of these jobs."""
        return await self._read(tenant_id, lambda jobs: jobs.fingerprints(job_ids))

    async def _read(self, tenant_id: TenantId, read: Callable[[JobViews], T]) -> T:
        result: T = await self._run(read_view, JobViews, tenant_id, self._use, read)
        return result


@dataclass(frozen=True, slots=True)
class View:
    """A job's state at the latest read, and its speed. ``number`` differs from read to read."""

    number: int
    job: Snapshot
    pace: Pace | None


class Followed:
    """One job that clients of this process follow."""

    def __init__(self, tenant_id: TenantId, job_id: JobId, source: JobSource, wakes: Wakes) -> None:
        self.tenant_id, self.job_id = tenant_id, job_id
        self.clients = 0
        self.gone = False  # deleted, or the process is stopping
        self.fingerprint: Fingerprint | None = None
        self._source, self._wakes = source, wakes
        self._view: View | None = None
        self._changed = asyncio.Event()
        self._due = asyncio.Event()
        self._progress: deque[tuple[float, int]] = deque(maxlen=_MOST_SAMPLES)
        self._reading: dict[FailurePosition, asyncio.Task[Failures]] = {}

    @property
    def view(self) -> View:
        """The latest state."""
        assert self._view is not None
        return self._view

    def refresh_soon(self) -> None:
        """Schedule a read after an announced change."""
        self._due.set()

    async def refresh(self) -> bool:
        """Read the job now. Return False if it does not exist. Raises Unavailable."""
        job = await self._source.snapshot(self.tenant_id, self.job_id)
        if job is None:
            return False
        if self._view is not None and job == self._view.job:
            return True
        moment = asyncio.get_running_loop().time()
        self._progress.append((moment, job.ended))
        is_idle = job.paused_at or job.waiting_reason or job.finished_at
        rate = None if is_idle else pace(list(self._progress), remaining=job.total - job.ended)
        self._view = View(self._view.number + 1 if self._view else 1, job, rate)
        self._announce_change()
        return True

    async def changed(self, since: int, *, seconds: float) -> View | None:
        """Return the latest view as soon as its number differs from ``since``; None when the seconds are over."""
        change = self._changed
        if self.view.number == since and not self.gone:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await change.wait()
        return None if self.view.number == since else self.view

    async def failures(self, after: FailurePosition) -> Failures:
        """Return the next failures after ``after``. Concurrent clients with the same position share one read."""
        task = self._reading.get(after)
        if task is None:
            task = asyncio.ensure_future(self._source.failures(self.tenant_id, self.job_id, after))
            self._reading[after] = task
            task.add_done_callback(lambda _: self._reading.pop(after, None))
        return await asyncio.shield(task)

    async def refresh_while_followed(self) -> None:
        """Read the job whenever it has changed, as long as a client follows it."""
        try:
            with ExitStack() as stack:
                for name in (
                    wake_name("job", self.tenant_id, self.job_id),
                    wake_name("progress", self.tenant_id, self.job_id),
                ):
                    stack.enter_context(self._wakes.on_wake(name, self.refresh_soon))
                while await self._refresh_when_due():
                    await asyncio.sleep(_SHORTEST_PAUSE_S)
        finally:
            self.gone = True
            self._announce_change()

    async def _refresh_when_due(self) -> bool:
        """Read the job once a change is announced, or after a while. Return False after the last read."""
        running = self.view.job.items[ItemState.RUNNING] > 0
        with suppress(TimeoutError):
            async with asyncio.timeout(_RUNNING_PAUSE_S if running else _LONGEST_PAUSE_S):
                await self._due.wait()
        self._due.clear()
        if self._wakes.released or not self.clients:  # the client may have left before the first read ended
            return False
        with tolerate_outage(log.info, "job_not_read"):
            return await self.refresh()
        asyncio.get_running_loop().call_later(_WITHOUT_REDIS_S, self.refresh_soon)
        return True

    def _announce_change(self) -> None:
        change, self._changed = self._changed, asyncio.Event()
        change.set()


class Following:
    """All jobs that clients of this process follow."""

    def __init__(self, source: JobSource, wakes: Wakes) -> None:
        self._source, self._wakes = source, wakes
        self._jobs: dict[tuple[TenantId, JobId], Followed] = {}
        self._refreshing: dict[tuple[TenantId, JobId], asyncio.Task[None]] = {}
        self._clients: Counter[TenantId] = Counter()
        self._opening: dict[tuple[TenantId, JobId], asyncio.Future[bool]] = {}
        self._poll: asyncio.Task[None] | None = None

    @property
    def count(self) -> int:
        """The number of open streams of jobs and queries."""
        return self._clients.total()

    @asynccontextmanager
    async def follow(self, tenant_id: TenantId, job_id: JobId) -> AsyncIterator[Followed | None]:
        """Yield the job, read at least once; None if it does not exist.

        Raises Unavailable when it cannot be read, and Problem(429) or Problem(503) when too many clients follow jobs.
        """
        key = (tenant_id, job_id)
        with self.counted(tenant_id):
            try:
                while (followed := self._jobs.get(key)) is None:
                    if not await self._open(key):
                        break
                if followed is not None:
                    followed.clients += 1
                try:
                    yield followed
                finally:
                    if followed is not None:
                        followed.clients -= 1
            finally:
                self._leave(key)

    @contextmanager
    def counted(self, tenant_id: TenantId) -> Iterator[None]:
        """Count one more stream of this tenant, of whatever kind. Raises Problem(429) or Problem(503) when there are
        too many."""
        if self._clients[tenant_id] >= MOST_STREAMS_OF_A_TENANT:
            detail = f"{MOST_STREAMS_OF_A_TENANT} streams of this tenant are open already."
            raise Problem(429, "too_many_streams", detail, headers={"Retry-After": "30"})
        if self.count >= MOST_STREAMS:
            raise Problem(503, "too_many_streams", "Too many streams are open already.", headers={"Retry-After": "30"})
        self._clients[tenant_id] += 1
        try:
            yield
        finally:
            self._clients[tenant_id] -= 1
            if not self._clients[tenant_id]:
                del self._clients[tenant_id]

    async def _open(self, key: tuple[TenantId, JobId]) -> bool:
        """Start following a job; concurrent clients share the first read. Return False if the job does not exist."""
        task = self._opening.get(key)
        if task is None:
            task = asyncio.ensure_future(self._read_first(key))
            self._opening[key] = task
            task.add_done_callback(lambda _: self._opening.pop(key, None))
        return await asyncio.shield(task)

    async def _read_first(self, key: tuple[TenantId, JobId]) -> bool:
        followed = Followed(*key, self._source, self._wakes)
        if not await followed.refresh():
            return False
        self._jobs[key] = followed
        self._refreshing[key] = task = asyncio.create_task(followed.refresh_while_followed())
        task.add_done_callback(lambda _: self._forget(key, followed))
        if self._poll is None or self._poll.done():
            self._poll = asyncio.create_task(self._poll_changes())
        return True

    def _leave(self, key: tuple[TenantId, JobId]) -> None:
        followed = self._jobs.get(key)
        if followed is not None and not followed.clients:
            self._refreshing[key].cancel()
            self._forget(key, followed)

    def _forget(self, key: tuple[TenantId, JobId], followed: Followed) -> None:
        if self._jobs.get(key) is followed:
            del self._jobs[key], self._refreshing[key]

    async def _poll_changes(self) -> None:
        """Poll the fingerprints of all followed jobs as a safety net."""
        while self._jobs:
            for _ in range(int(_SAFETY_S / _WITHOUT_REDIS_S)):
                listening = self._wakes.listening
                await asyncio.sleep(_WITHOUT_REDIS_S)
                if not (listening and self._wakes.listening):
                    break  # also when Redis has just recovered: it did not announce earlier changes
            by_tenant: defaultdict[TenantId, list[Followed]] = defaultdict(list)
            for followed in self._jobs.values():
                by_tenant[followed.tenant_id].append(followed)
            for tenant_id, jobs in by_tenant.items():
                await self._compare(tenant_id, jobs)

    async def _compare(self, tenant_id: TenantId, jobs: Sequence[Followed]) -> None:
        with tolerate_outage(log.info, "jobs_not_compared"):
            fingerprints = await self._source.fingerprints(tenant_id, [followed.job_id for followed in jobs])
            for followed in jobs:
                fingerprint = fingerprints.get(followed.job_id)
                if fingerprint != followed.fingerprint:
                    followed.fingerprint = fingerprint
                    followed.refresh_soon()

    async def close(self) -> None:
        """Stop following."""
        tasks = [*self._refreshing.values(), *([self._poll] if self._poll else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
