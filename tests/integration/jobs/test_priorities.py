"""Interactive jobs go before bulk ones of the same tenant, and never keep them from going on."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from pipeline.database.unit_of_work import unit_of_work
from pipeline.ingestion.accept import AcceptedJob, Batch, accept
from pipeline.ingestion.run import ingest_next
from pipeline.jobs.job_view_store import JobViews
from pipeline.records import DocumentFields, DocumentId, Namespace, Priority, TenantId, Upload
from tests.conftest import make_tenant


def submit(use, tenant: TenantId, count: int, *, prefix: str, priority: Priority | None = None) -> AcceptedJob:
    uploads = [
        Upload(
            document_id=DocumentId(f"{prefix}{number}"),
            fields=DocumentFields(),
            body=f"The kettle boils {number}.".encode(),
            media_type="text/plain",
        )
        for number in range(count)
    ]
    batch = Batch(tenant_id=tenant, namespace=Namespace("kb"), request_id="r", entries=uploads, priority=priority)
    return accept(batch, use, ring=lambda ticket: None)


def view(use, tenant: TenantId, ticket: AcceptedJob):
    with unit_of_work(use.mysql) as work:
        return JobViews(work.connection, tenant).one(ticket.job_id)


@pytest.fixture
def tenants(use_alone):
    with unit_of_work(use_alone.mysql) as work:
        for table in ("job_items", "jobs", "ingest_turns"):
            work.connection.execute(text(f"DELETE FROM {table}"))
    return [make_tenant(use_alone)[0] for _ in range(2)]


def turn(use) -> int:
    return ingest_next(use, ring=lambda *_: None)


class DescribeThePriorityOfAJob:
    def it_is_that_of_the_request_or_comes_from_the_size(self, use_alone, tenants):
        most = use_alone.settings.interactive_documents
        jobs = [
            submit(use_alone, tenants[0], most, prefix="a"),
            submit(use_alone, tenants[0], most + 1, prefix="b"),
            submit(use_alone, tenants[0], 1, prefix="c", priority=Priority.BULK),
            submit(use_alone, tenants[0], most + 1, prefix="d", priority=Priority.INTERACTIVE),
        ]
        assert [view(use_alone, tenants[0], job).priority for job in jobs] == [
            "interactive",
            "bulk",
            "bulk",
            "interactive",
        ]

    def it_lets_a_small_job_go_before_a_large_one_that_came_first(self, use_alone, tenants):
        large = submit(use_alone, tenants[0], 100, prefix="large")
        assert turn(use_alone) == 64
        small = submit(use_alone, tenants[0], 2, prefix="small")
        assert turn(use_alone) == 2
        assert view(use_alone, tenants[0], small).status == "succeeded"
        assert view(use_alone, tenants[0], large).succeeded == 64

    def it_gives_bulk_one_turn_of_four(self, use_alone, tenants):
        bulk = submit(use_alone, tenants[0], 100, prefix="bulk")
        served = []
        for number in range(12):
            submit(use_alone, tenants[0], 1, prefix=f"quick{number}-")
            before = view(use_alone, tenants[0], bulk).succeeded
            turn(use_alone)
            served.append(view(use_alone, tenants[0], bulk).succeeded - before)
        assert served == [0, 0, 0, 16] * 3  # a quarter of a batch, as somebody else waits

    def it_changes_nothing_between_tenants(self, use_alone, tenants):
        submit(use_alone, tenants[0], 40, prefix="bulk")
        for number in range(4):
            submit(use_alone, tenants[1], 1, prefix=f"quick{number}-")
        taken = [turn(use_alone) for _ in range(4)]
        assert sorted(taken) == [1, 1, 16, 16]
        assert taken[0] != taken[1]

    def it_takes_bulk_at_once_when_nobody_else_waits(self, use_alone, tenants):
        submit(use_alone, tenants[0], 64, prefix="bulk")
        assert turn(use_alone) == 64
