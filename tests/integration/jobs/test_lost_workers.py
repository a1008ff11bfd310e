"""A document that ends every worker which works on it: the others of its job, and the end of its own item. A notification
that no worker can hear."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pipeline.ingestion.run import ingest_claims, take
from pipeline.maintenance.sweep import sweep
from pipeline.records import IngestQueue, JobId, Namespace, TenantId
from pipeline.resources import Resources
from tests.support.corpora.uploads import upload
from tests.support.stacks.corner import Corner, items_of

ATTEMPTS = 4
TEXTS = {"a": "A pump 水泵", "deadly": "This one ends its worker 致命", "c": "A valve 阀门", "d": "A pipe 管道"}


@pytest.fixture
def corner(use_alone: Resources, tenant: TenantId) -> Iterator[Corner]:
    use = Resources(use_alone.settings.model_copy(update={"ingest_max_attempts": ATTEMPTS}))
    yield Corner(use, tenant, Namespace("kb"))
    use.close()


class DescribeADocumentThatNoWorkerSurvives:
    def it_becomes_a_dead_letter_and_the_others_of_its_batch_become_searchable(self, corner):
        ticket = corner.accept(*(upload(name, text) for name, text in TEXTS.items()))
        taken = 0
        while not corner.job(ticket).finished_at:
            claims = take(corner.tenant, ticket.job_id, corner.use)
            assert claims is not None
            taken += 1
            assert taken < 20, "the job never ends"
            names = [claim.generation.document_id for claim in claims.items]
            survived = claims.items[0].attempts > ATTEMPTS
            if survived or "deadly" not in names:
                ingest_claims(corner.tenant, claims.items, corner.use, notify=lambda *_: None)
            else:
                corner.make_due()  # the worker is gone, and its lease runs out
        assert corner.shown() == {name: [text] for name, text in TEXTS.items() if name != "deadly"}
        (failed,) = [item for item in items_of(corner.use, ticket) if item.status == "failed"]
        assert failed.document_id == "deadly"
        assert failed.code == "worker_lost"
        assert failed.detail == f"gave up after {ATTEMPTS + 1} attempts: its worker ended without a result"
        corner.assert_clean()

    def it_says_why_an_item_waits_again(self, corner):
        ticket = corner.accept(upload("a", "A pump"))
        take(corner.tenant, ticket.job_id, corner.use)
        corner.make_due()
        (item,) = items_of(corner.use, ticket)
        assert (item.status, item.code) == ("queued", "worker_lost")
        corner.work(ticket)
        (item,) = items_of(corner.use, ticket)
        assert (item.status, item.code) == ("succeeded", None)


class DescribeABellThatTheBrokerDidNotTake:
    def it_is_notified_by_the_next_sweep_and_then_not_for_some_seconds(self, corner):
        ticket = corner.accept(upload("a", "A pump"))
        taken: list[bool] = []

        def notify(_tenant: TenantId, job_id: JobId, _queue: IngestQueue) -> bool:
            if job_id == ticket.job_id:
                taken.append(bool(taken))
            return bool(taken) and taken[-1]

        for _ in range(4):
            sweep(corner.use, notify=notify)
        assert taken == [False, True]
