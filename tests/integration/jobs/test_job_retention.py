"""Jobs and costs that end when their time is up, on the real stores."""

from __future__ import annotations

import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from pipeline.administration import steer_jobs
from pipeline.administration.delete_documents import delete_document
from pipeline.database.unit_of_work import unit_of_work
from pipeline.documents.generation_store import Generations
from pipeline.ingestion.accept import AcceptedJob
from pipeline.jobs.control_store import DeadLetters
from pipeline.jobs.job_retention_store import EndedJobs
from pipeline.jobs.job_view_store import JobViews
from pipeline.jobs.job_views import DeadLetterFilter, JobView
from pipeline.maintenance import sweep
from pipeline.records import DocumentId, JobId
from pipeline.resources import Resources
from pipeline.tenants.usage import Purpose, UsageCounts, UsageEntry
from pipeline.tenants.usage_store import Usage
from tests.support.corpora.uploads import upload
from tests.support.stacks.connections import embedding_with, sharing
from tests.support.stacks.corner import Corner

pytestmark = pytest.mark.own_databases

KEPT_DAYS = 90


def nobody(*_: object) -> None:
    """Ring no bell."""


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


def fail(corner: Corner, document_id: str) -> AcceptedJob:
    """A job whose only document becomes a dead letter."""
    ticket = corner.accept(upload(document_id, f"{document_id} cannot be embedded"))
    corner.work(ticket, sharing(embedding_with(corner.use, away=True), ingest_max_attempts=1))
    assert corner.job(ticket).status == "failed"
    return ticket


def letters(corner: Corner) -> list:
    with unit_of_work(corner.use.mysql) as work:
        return DeadLetters(work.connection, corner.tenant).page(DeadLetterFilter(), before=None, limit=100)


class DescribeJobs:
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
        old: list[JobView] = [corner.ingest(upload(f"d{n}", f"kettle {n}")) for n in range(3)]
        young, running = corner.ingest(upload("young", "tea")), corner.accept(upload("open", "coffee"))
        age(corner, *(job.job_id for job in old))
        age(corner, young.job_id, days=KEPT_DAYS - 1)
        corner.execute("UPDATE jobs SET created_at = '2020-01-01' WHERE tenant_id = :tenant")
        assert prune(corner) == 3
        assert job_ids(corner) == {young.job_id, running.job_id}
        assert corner.rows("job_items") == 2
        assert corner.shown().keys() == {"d0", "d1", "d2", "young"}  # documents do not go with their jobs
        assert prune(corner) == 0

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

    def it_sees_only_its_own_tenants(self, corner, use):
        age(corner, corner.ingest(upload("a", "tea")).job_id)
        with unit_of_work(use.mysql) as work:
            other = EndedJobs(work.connection, type(corner.tenant)("somebody-else"))
            assert other.forget(datetime.now(UTC).replace(tzinfo=None), items=100) == 0
        assert len(job_ids(corner)) == 1

    def it_leaves_a_job_that_its_owner_is_reopening(self, corner, use):
        ticket = corner.accept(upload("a", "tea"))
        steer_jobs.cancel(corner.tenant, ticket.job_id, use)
        age(corner, ticket.job_id)
        steer_jobs.retry(corner.tenant, ticket.job_id, use, ring=nobody)
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
                return steer_jobs.retry(corner.tenant, ticket.job_id, use, ring=nobody) == 40
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


class DescribeDeadLetters:
    def it_keeps_their_job_until_they_are_replayed(self, corner, use):
        ticket = fail(corner, "a")
        age(corner, ticket.job_id, days=3000)
        assert prune(corner) == 0
        [letter] = letters(corner)
        assert steer_jobs.replay(corner.tenant, letter.position, use, ring=nobody)
        corner.work(ticket)
        assert corner.shown().keys() == {"a"}
        age(corner, ticket.job_id)
        assert prune(corner) == 1

    def it_ends_with_those_that_were_dropped(self, corner, use):
        ticket = fail(corner, "a")
        age(corner, ticket.job_id)
        assert steer_jobs.drop_dead_letter(corner.tenant, letters(corner)[0].position, use)
        assert prune(corner) == 1
        assert (corner.rows("job_items"), corner.rows("payloads")) == (0, 0)

    def it_ends_with_those_whose_document_was_uploaded_again_or_deleted(self, corner, use):
        replaced, deleted, waiting = (fail(corner, name) for name in ("replaced", "deleted", "waiting"))
        corner.ingest(upload("replaced", "a text that can be embedded"))
        assert delete_document(corner.tenant, corner.namespace, DocumentId("deleted"), use)
        age(corner, replaced.job_id, deleted.job_id, waiting.job_id)
        assert prune(corner) == 2
        assert [letter.position.job_id for letter in letters(corner)] == [waiting.job_id]


class DescribeTheDocuments:
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
        assert [(view.number, view.state) for view in history.generations] == [(2, "cancelled"), (1, "shown")]
        corner.assert_clean()

    def it_replaces_uploads_whose_job_is_gone(self, corner, use):
        cancelled = corner.accept(upload("a", "first"))
        steer_jobs.cancel(corner.tenant, cancelled.job_id, use)
        failed = fail(corner, "a")
        steer_jobs.drop_dead_letter(corner.tenant, letters(corner)[0].position, use)
        age(corner, cancelled.job_id, failed.job_id)
        assert prune(corner) == 2
        corner.ingest(upload("a", "third"))
        assert corner.shown() == {"a": ["third"]}
        corner.assert_clean()
        assert corner.rows("generations") == 1


class DescribeUsage:
    def it_deletes_counts_past_their_time_whose_job_is_gone(self, corner, use):
        today = datetime.now(UTC).date()
        job = corner.ingest(upload("a", "tea"))
        gone, counts = JobId(str(uuid.uuid4())), UsageCounts(requests=1, texts=1, tokens=7, cost=Decimal("0.5"))

        def entry(days: int, job_id: JobId | None) -> UsageEntry:
            day = today - timedelta(days=days)
            return UsageEntry(day=day, job_id=job_id, purpose=Purpose.QUERY, model="m")

        with unit_of_work(use.mysql) as work:
            entries = [entry(401, None), entry(401, gone), entry(900, gone), entry(401, job.job_id), entry(399, gone)]
            Usage(work.connection, corner.tenant).add(dict.fromkeys(entries, counts))
        sweep.prune_ledger(sharing(use, usage_keep_days=0))
        with unit_of_work(use.mysql) as work:
            assert Usage(work.connection, corner.tenant).total(today - timedelta(days=999), today).counts.tokens >= 35
        sweep.prune_ledger(use)
        with unit_of_work(use.mysql) as work:
            usage = Usage(work.connection, corner.tenant)
            old = usage.between(today - timedelta(days=999), today - timedelta(days=1), by="job", after=None, limit=9)
            assert {row.key: row.counts.tokens for row in old} == {job.job_id: 7, gone: 7}
        age(corner, job.job_id)
        assert prune(corner) == 1
        with unit_of_work(use.mysql) as work:
            rest = Usage(work.connection, corner.tenant).between(
                today - timedelta(days=999), today, by="job", after=None, limit=9
            )
            assert job.job_id in {row.key for row in rest}  # this month's costs of a job that is gone
