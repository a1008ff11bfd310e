"""The ledger on the real server: who holds what, and who may no longer write."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pipeline.database.unit_of_work import unit_of_work
from pipeline.errors import LeaseLost
from pipeline.jobs.job_view_store import JobViews, status_of
from pipeline.jobs.ledger_store import Ledger, NewItem
from pipeline.jobs.turn_store import Turns
from pipeline.records import IngestQueue, ItemState, JobId

pytestmark = pytest.mark.own_databases


@pytest.fixture
def job_id() -> JobId:
    return JobId(str(uuid.uuid4()))


@pytest.fixture
def ledger(use, tenant):
    """A ledger in a transaction of its own, as often as asked."""

    @contextmanager
    def opened() -> Iterator[Ledger]:
        with unit_of_work(use.mysql) as work:
            yield Ledger(work.connection, tenant)

    return opened


def _waiting(use, tenant) -> list[JobId]:
    with unit_of_work(use.mysql) as work:
        return Turns(work.connection, tenant).waiting(IngestQueue.INGEST)


def _items(count: int, **fields) -> list[NewItem]:
    return [NewItem(ordinal=n, document_id=f"d{n}", generation=1, **fields) for n in range(count)]


class DescribeLedger:
    def it_gives_each_item_to_one_worker_only(self, ledger, job_id, namespace):
        with ledger() as one:
            one.open(job_id, namespace, "r", _items(10))
        with ledger() as first, ledger() as second:
            mine = first.claim(job_id, limit=6, max_bytes=1000, lease_s=30)
            yours = second.claim(job_id, limit=6, max_bytes=1000, lease_s=30)
        assert mine.more
        with ledger() as third:
            rest = third.claim(job_id, limit=6, max_bytes=1000, lease_s=30)
        assert not rest.more
        taken = [claim.ordinal for claims in (mine, yours, rest) for claim in claims.items]
        assert sorted(taken) == list(range(10))

    def it_bounds_a_claim_by_bytes_but_always_gives_one(self, ledger, job_id, namespace):
        with ledger() as one:
            one.open(job_id, namespace, "r", _items(3, body_bytes=900))
        with ledger() as one:
            claims = one.claim(job_id, limit=10, max_bytes=500, lease_s=30)
        assert len(claims.items) == 1
        assert claims.more

    def it_takes_the_pen_from_a_worker_whose_lease_ran_out(self, ledger, use, tenant, job_id, namespace):
        with ledger() as one:
            one.open(job_id, namespace, "r", _items(1))
        with ledger() as slow:
            held = slow.claim(job_id, limit=1, max_bytes=1000, lease_s=-1).items
        with ledger() as sweeper:
            assert sweeper.release_expired() == 1
        assert _waiting(use, tenant) == [job_id]
        with ledger() as slow, pytest.raises(LeaseLost):
            slow.hold(held)
        with ledger() as quick:
            again = quick.claim(job_id, limit=1, max_bytes=1000, lease_s=30).items
            quick.hold(again)
        assert again[0].attempts == 2
        with ledger() as slow, pytest.raises(LeaseLost):
            slow.hold(held)

    def it_does_not_offer_what_is_to_be_tried_later(self, ledger, use, tenant, job_id, namespace):
        with ledger() as one:
            one.open(job_id, namespace, "r", _items(1))
            held = one.claim(job_id, limit=1, max_bytes=1000, lease_s=30).items
            one.put_back(held, delay_s=60, code="embedder_unavailable", detail="away")
        assert _waiting(use, tenant) == []
        with ledger() as one:
            assert not one.claim(job_id, limit=1, max_bytes=1000, lease_s=30).items

    def it_closes_a_job_with_its_last_item(self, ledger, use, tenant, job_id, namespace):
        with ledger() as one:
            one.open(job_id, namespace, "r", _items(2))
            first, second = one.claim(job_id, limit=2, max_bytes=1000, lease_s=30).items
            one.succeed({first: 3}, outcome="created")
            assert one.close_if_done([job_id]) == []
            one.fail([second], code="empty_document", detail="nothing in it")
            assert one.close_if_done([job_id]) == [job_id]
            assert one.close_if_done([job_id]) == []
        with unit_of_work(use.mysql) as work:
            job = JobViews(work.connection, tenant).one(job_id)
        assert (job.status, job.succeeded, job.failed, job.chunks) == ("partly_failed", 1, 1, 3)
        assert [(error.document_id, error.code) for error in job.errors] == [("d1", "empty_document")]

    def it_finishes_a_job_in_which_nothing_is_to_do(self, ledger, use, tenant, job_id, namespace):
        with ledger() as one:
            one.open(job_id, namespace, "r", [NewItem(ordinal=0, document_id="d", outcome="skipped")])
        with unit_of_work(use.mysql) as work:
            assert JobViews(work.connection, tenant).is_finished(job_id)


@pytest.mark.parametrize(
    ("counts", "status"),
    [
        ({"queued": 3}, "queued"),
        ({"queued": 2, "failed": 1}, "queued"),
        ({"queued": 2, "succeeded": 1}, "running"),
        ({"running": 1}, "running"),
        ({"succeeded": 3}, "succeeded"),
        ({"succeeded": 2, "failed": 1}, "partly_failed"),
        ({"failed": 3}, "failed"),
        ({"succeeded": 2, "cancelled": 1}, "cancelled"),
    ],
)
def test_a_job_is_what_its_items_are(counts, status):
    assert status_of({state: counts.get(state, 0) for state in ItemState}) == status
