"""Jobs and costs that end when their time is up, on the real stores."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from chordwise.contract.job import Job
from pipeline.administration import steer_jobs
from pipeline.database.unit_of_work import unit_of_work
from pipeline.documents.generation_store import Generations
from pipeline.jobs.job_retention_store import EndedJobs
from pipeline.jobs.job_view_store import JobViews
from pipeline.maintenance import sweep
from pipeline.resources import Resources
from tests.support.corpora.uploads import upload
from tests.support.stacks.connections import sharing
from tests.support.stacks.corner import Corner

pytestmark = pytest.mark.own_databases

KEPT_DAYS = 90


def nobody(*_: object) -> None:
    """Notify nobody."""


def age(corner: Corner, *job_ids: str, days: int = KEPT_DAYS + 1) -> None:
    """Let these jobs have ended some days ago."""
    for job_id in job_ids:
        corner.execute(
            "UPDATE jobs SET finished_at = :at WHERE tenant_id = :tenant AND job_id = :job AND finished_at IS NOT NULL",
            at=datetime.now(UTC).replace(tzinfo=None) - timedelta(days=days),
            job=job_id,
        )


def job_ids(corner: Corner) -> set[str]:
    with unit_of_work(corner.use.mysql) as work:
        return {job.job_id for job in JobViews(work.connection, corner.tenant).newest(before=None, limit=100)}


def prune(corner: Corner, use: Resources | None = None) -> int:
    """Prune the ledger of all tenants; return how many jobs of this one went."""
    before = corner.rows("jobs")
    sweep.prune_ledger(use or corner.use)
    return before - corner.rows("jobs")


class DescribeJobs:
    @pytest.mark.thorough
    def it_leaves_only_the_latest_of_the_uploads_that_were_never_published(self, corner, use):
        tickets = [corner.accept(upload("d", f"upload {n} 上传")) for n in range(3)]
        for ticket in tickets:
            steer_jobs.cancel(corner.tenant, ticket.job_id, use)
        age(corner, *(ticket.job_id for ticket in tickets))
        assert prune(corner) == 3
        assert (corner.rows("generations"), corner.rows("payloads")) == (1, 0)
        corner.ingest(upload("d", "published 发布"))
        assert corner.shown() == {"d": ["published 发布"]}

    def it_deletes_those_that_ended_long_ago_with_their_items_and_no_others(self, corner, use):
        old: list[Job] = [corner.ingest(upload(f"d{n}", f"kettle {n}")) for n in range(3)]
        young, running = corner.ingest(upload("young", "tea")), corner.accept(upload("open", "coffee"))
        age(corner, *(job.job_id for job in old))
        age(corner, young.job_id, days=KEPT_DAYS - 1)
        corner.execute("UPDATE jobs SET created_at = '2020-01-01' WHERE tenant_id = :tenant")
        assert prune(corner) == 3
        assert job_ids(corner) == {young.job_id, running.job_id}
        assert corner.rows("job_items") == 2
        assert corner.shown().keys() == {"d0", "d1", "d2", "young"}  # documents do not go with their jobs
        assert prune(corner) == 0

    @pytest.mark.thorough
    def it_keeps_them_for_ever_if_it_is_to(self, corner, use):
        job = corner.ingest(upload("a", "tea"))
        age(corner, job.job_id, days=5000)
        assert prune(corner, sharing(use, job_keep_days=0)) == 0
        assert prune(corner) == 1

    def it_deletes_few_at_a_time_and_each_whole(self, corner, use):
        sizes = (3, 4, 9, 2)
        jobs = [corner.ingest(*(upload(f"{size}-{n}", f"cup {n}") for n in range(size))) for size in sizes]
        for position, job in enumerate(jobs):
            age(corner, job.job_id, days=200 - position)
        deleted = []
        while left := corner.rows("job_items"):
            with unit_of_work(use.mysql) as work:
                EndedJobs(work.connection, corner.tenant).forget(datetime.now(UTC).replace(tzinfo=None), items=8)
            deleted.append(left - corner.rows("job_items"))
        assert deleted == [7, 9, 2]  # oldest first; the large one alone

    @pytest.mark.thorough
    def it_sees_only_its_own_tenants(self, corner, use):
        age(corner, corner.ingest(upload("a", "tea")).job_id)
        with unit_of_work(use.mysql) as work:
            other = EndedJobs(work.connection, type(corner.tenant)("somebody-else"))
            assert other.forget(datetime.now(UTC).replace(tzinfo=None), items=100) == 0
        assert len(job_ids(corner)) == 1

    @pytest.mark.thorough
    def it_leaves_a_job_that_its_owner_is_reopening(self, corner, use):
        ticket = corner.accept(upload("a", "tea"))
        steer_jobs.cancel(corner.tenant, ticket.job_id, use)
        age(corner, ticket.job_id)
        steer_jobs.retry(corner.tenant, ticket.job_id, use, notify=nobody)
        assert prune(corner) == 0
        corner.work(ticket)
        assert corner.shown().keys() == {"a"}

    @pytest.mark.thorough
    @pytest.mark.parametrize("round_number", range(20))
    def it_deletes_a_job_whole_or_leaves_it_to_a_retry_of_the_same_moment(self, corner, use, round_number):
        ticket = corner.accept(*(upload(f"d{n}", f"cup {n}") for n in range(40)))
        steer_jobs.cancel(corner.tenant, ticket.job_id, use)
        age(corner, ticket.job_id)
        start = threading.Barrier(3)

        def retried() -> bool:
            start.wait()
            try:
                return steer_jobs.retry(corner.tenant, ticket.job_id, use, notify=nobody) == 40
            except (steer_jobs.NoSuchJob, steer_jobs.WrongJobState):
                return False

        def pruned() -> None:
            start.wait()
            sweep.prune_ledger(use)

        with ThreadPoolExecutor(3) as pool:
            is_open, *_ = [
                future.result() for future in (pool.submit(retried), pool.submit(pruned), pool.submit(pruned))
            ]
        assert (corner.rows("jobs"), corner.rows("job_items"), corner.rows("payloads")) in (
            ((1, 40, 40),) if is_open else ((0, 0, 0), (1, 40, 40))  # both may have given way: then it stays for now
        )


class DescribeTheDocuments:
    @pytest.mark.thorough
    def it_drops_the_bytes_that_only_a_retry_could_use(self, corner, use):
        corner.ingest(upload("there", "tea"))
        ticket = corner.accept(upload("there", "tea, changed"), upload("new", "coffee"))
        steer_jobs.cancel(corner.tenant, ticket.job_id, use)
        assert corner.rows("payloads") == 3
        age(corner, ticket.job_id)
        assert prune(corner) == 1
        assert corner.rows("payloads") == 1
        with unit_of_work(use.mysql) as work:
            history = Generations(work.connection, corner.tenant).history(corner.namespace, "there")
        assert [(view.generation, view.state) for view in history.data] == [(2, "cancelled"), (1, "shown")]
        corner.assert_clean()
