"""Interactive jobs go before bulk ones of the same tenant, and never keep them from going on."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from pipeline.database.unit_of_work import unit_of_work
from pipeline.ingestion.accept import INTERACTIVE_DOCUMENTS, AcceptedJob
from pipeline.ingestion.run import ingest_next
from pipeline.records import Priority, TenantId
from tests.conftest import make_tenant
from tests.support.corpora.uploads import upload
from tests.support.stacks.corner import job_of, submit


def send(use, tenant: TenantId, count: int, *, prefix: str, priority: Priority | None = None) -> AcceptedJob:
    uploads = [upload(f"{prefix}{number}", f"The kettle boils {number}.") for number in range(count)]
    return submit(use, tenant, uploads, priority=priority)


@pytest.fixture
def tenants(use_alone):
    with unit_of_work(use_alone.mysql) as work:
        for table in ("job_items", "jobs", "ingest_turns"):
            work.connection.execute(text(f"DELETE FROM {table}"))
    return [make_tenant(use_alone)[0] for _ in range(2)]


def turn(use) -> int:
    return ingest_next(use, notify=lambda *_: None)


class DescribeThePriorityOfAJob:
    def it_is_that_of_the_request_or_comes_from_the_size(self, use_alone, tenants):
        most = INTERACTIVE_DOCUMENTS
        jobs = [
            send(use_alone, tenants[0], most, prefix="a"),
            send(use_alone, tenants[0], most + 1, prefix="b"),
            send(use_alone, tenants[0], 1, prefix="c", priority=Priority.BULK),
            send(use_alone, tenants[0], most + 1, prefix="d", priority=Priority.INTERACTIVE),
        ]
        assert [job_of(use_alone, job).priority for job in jobs] == [
            "interactive",
            "bulk",
            "bulk",
            "interactive",
        ]

    def it_lets_a_small_job_go_before_a_large_one_that_came_first(self, use_alone, tenants):
        large = send(use_alone, tenants[0], 100, prefix="large")
        assert turn(use_alone) == 64
        small = send(use_alone, tenants[0], 2, prefix="small")
        assert turn(use_alone) == 2
        assert job_of(use_alone, small).status == "succeeded"
        assert job_of(use_alone, large).succeeded == 64

    def it_gives_bulk_one_turn_of_four(self, use_alone, tenants):
        bulk = send(use_alone, tenants[0], 100, prefix="bulk")
        served = []
        for number in range(12):
            send(use_alone, tenants[0], 1, prefix=f"quick{number}-")
            before = job_of(use_alone, bulk).succeeded
            turn(use_alone)
            served.append(job_of(use_alone, bulk).succeeded - before)
        assert served == [0, 0, 0, 16] * 3  # a quarter of a batch, as somebody else waits

    def it_changes_nothing_between_tenants(self, use_alone, tenants):
        send(use_alone, tenants[0], 40, prefix="bulk")
        for number in range(4):
            send(use_alone, tenants[1], 1, prefix=f"quick{number}-")
        taken = [turn(use_alone) for _ in range(4)]
        assert sorted(taken) == [1, 1, 16, 16]
        assert taken[0] != taken[1]

    def it_takes_bulk_at_once_when_nobody_else_waits(self, use_alone, tenants):
        send(use_alone, tenants[0], 64, prefix="bulk")
        assert turn(use_alone) == 64
