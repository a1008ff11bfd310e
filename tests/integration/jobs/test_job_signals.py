"""Counters and the order of failures, as those see them who follow a job, while workers write."""

from __future__ import annotations

import threading

import pytest

from pipeline.administration import steer_jobs
from pipeline.database.unit_of_work import unit_of_work
from pipeline.jobs.job_view_store import JobViews
from pipeline.jobs.job_views import FailurePosition, Snapshot
from pipeline.records import ItemState
from tests.support.corpora.uploads import upload
from tests.support.stacks.corner import Corner
from tests.support.stacks.one_job import ingest_batch

pytestmark = pytest.mark.own_databases

BEGINNING = FailurePosition()


def snapshot(corner: Corner, ticket) -> Snapshot:
    with unit_of_work(corner.use.mysql) as work:
        found = JobViews(work.connection, corner.tenant).snapshot(ticket.job_id)
    assert found is not None
    return found


def failures(corner: Corner, ticket, after: FailurePosition = BEGINNING, limit: int = 1000):
    with unit_of_work(corner.use.mysql) as work:
        return JobViews(work.connection, corner.tenant).failures(ticket.job_id, after=after, limit=limit)


def nobody(*_: object) -> None:
    """Take a notification and do nothing; the tests call the flow themselves."""


class DescribeSnapshots:
    def it_agrees_with_the_job_at_every_stage(self, corner, use):
        ticket = corner.accept(*[upload(f"d{n}", "text") for n in range(70)], upload("bad", " "))
        for _ in range(3):
            seen, job = snapshot(corner, ticket), corner.job(ticket)
            assert (seen.status, seen.total, dict(seen.stages)) == (job.status, job.total, job.stages)
            assert seen.items[ItemState.SUCCEEDED] == job.succeeded
            assert (seen.chunks, seen.finished_at) == (job.chunks, job.finished_at)
            ingest_batch(corner.tenant, ticket.job_id, use, notify=nobody)
        last = snapshot(corner, ticket)
        assert dict(last.stages) == {"accepted": 71, "parse": 70, "chunk": 70, "embed": 70, "publish": 70}
        assert (last.ended, last.status) == (71, "partly_failed")

    def it_is_never_of_two_moments(self, corner, use):
        """Read again and again while a worker writes: a finished job is whole, and counters only grow."""
        ticket = corner.accept(*[upload(f"d{n}", "text") for n in range(120)])
        worker = threading.Thread(target=corner.work, args=(ticket,))
        worker.start()
        before = snapshot(corner, ticket)
        while before.finished_at is None:
            seen = snapshot(corner, ticket)
            assert sum(seen.items.values()) == 120
            assert seen.revision >= before.revision
            assert seen.ended >= before.ended
            assert (seen.finished_at is None) == (seen.ended < 120)
            before = seen
        worker.join()

    def it_gives_a_fingerprint_that_moves_with_the_job_only(self, corner, use):
        ticket = corner.accept(*[upload(f"d{n}", "text") for n in range(70)])

        def fingerprint():
            with unit_of_work(use.mysql) as work:
                return JobViews(work.connection, corner.tenant).fingerprints([ticket.job_id])[ticket.job_id]

        seen = [fingerprint()]
        assert fingerprint() == seen[-1]
        for step in (
            lambda: ingest_batch(corner.tenant, ticket.job_id, use, notify=nobody),
            lambda: steer_jobs.pause(corner.tenant, ticket.job_id, use),
            lambda: steer_jobs.resume(corner.tenant, ticket.job_id, use, notify=nobody),
            lambda: steer_jobs.cancel(corner.tenant, ticket.job_id, use),
            lambda: steer_jobs.retry(corner.tenant, ticket.job_id, use, notify=nobody),
        ):
            step()
            assert fingerprint() not in seen
            seen.append(fingerprint())
