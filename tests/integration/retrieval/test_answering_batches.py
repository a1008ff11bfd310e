"""Slices of a batch of queries: each query is answered once, whatever becomes of the workers that take it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import event

from chordwise.contract.job import JobError
from pipeline.administration import steer_jobs
from pipeline.channels.channel import Channel
from pipeline.channels.circuit_breaker_store import CIRCUITS
from pipeline.database.unit_of_work import unit_of_work
from pipeline.errors import EmbedderUnavailable, StoreUnavailable
from pipeline.ingestion.accept import AcceptedJob
from pipeline.ingestion.run import take
from pipeline.jobs.batch_view_store import repeated
from pipeline.jobs.question_store import Questions
from pipeline.maintenance.erase import erase_tenant
from pipeline.query.compression import decompressed
from pipeline.query.place_store import Places
from pipeline.query.places import Place, Verdict, WorkKind
from pipeline.query.query_store import read_query
from pipeline.query.request import Query, Recalled
from pipeline.records import ChannelName, IngestQueue, Namespace
from pipeline.resources import Resources
from pipeline.retrieval.answer_batch import answer_claims, answer_next, give_way, pools_of_queries
from pipeline.retrieval.compose import render
from pipeline.retrieval.make_channels import make_channels
from pipeline.retrieval.submit_batch import submit_batch
from tests.conftest import make_tenant
from tests.support.corpora.animals import animals
from tests.support.stacks.corner import Corner, items_of

QUESTIONS = ("red fox", "hunt night", "高血压 salt", "PPR-9087", "unicorn")


@pytest.fixture
def corner(use_alone) -> Corner:
    return animals(use_alone, make_tenant(use_alone)[0], Namespace("kb"))


@pytest.fixture
def channels(corner) -> dict[ChannelName, Channel]:
    return make_channels(corner.use)


class Lost:
    """A channel whose dependency is away."""

    def __init__(self, name: ChannelName, error: Exception) -> None:
        self.name, self._error = name, error

    def recall(self, query: Query) -> Recalled:
        raise self._error

    def score(self, query: Query, chunk_ids: Sequence[str]) -> dict[str, float]:
        raise self._error


def submitted(corner: Corner, *texts: str, **asked: Any) -> AcceptedJob:
    queries = [(f"id-{number}", replace(corner.query(text, **asked), trace=False)) for number, text in enumerate(texts)]
    return submit_batch(corner.tenant, queries, corner.use, owner="me", request_id="r", notify=lambda *_: None)


def worked(corner: Corner, ticket: AcceptedJob, channels: Any, use: Resources | None = None) -> int:
    """Answer what is due of a batch; return how many queries were taken."""
    taken = 0
    while (
        claims := take(corner.tenant, ticket.job_id, corner.use, queue=IngestQueue.BATCH)
    ) is not None and claims.items:
        taken += len(claims.items)
        answer_claims(corner.tenant, claims.items, use or corner.use, channels, corner.use)
    return taken


def answers(corner: Corner, ticket: AcceptedJob) -> list[dict[str, Any]]:
    """The stored answers, without their timings."""
    with unit_of_work(corner.use.mysql) as work:
        rows = Questions(work.connection, corner.tenant).ended(ticket.job_id, after=-1, limit=1000)
    found = [json.loads(decompressed(row.body)) for row in rows if row.body is not None and repeated(row.body) is None]
    for each in found:
        each["stats"].pop("latency_ms")
    return found


class DescribeASlice:
    def it_answers_as_single_queries_are_answered(self, corner, channels):
        ticket = submitted(corner, *QUESTIONS, context={}, highlight=True)
        assert worked(corner, ticket, channels) == len(QUESTIONS)
        for text, found in zip(QUESTIONS, answers(corner, ticket), strict=True):
            single = json.loads(render(corner.ask(corner.query(text, context={}, highlight=True), channels)))
            assert found["chunks"] == single["chunks"]
            assert found["context"] == single["context"]
        job = corner.job(ticket)
        assert (job.status, job.succeeded, job.outcomes) == ("succeeded", len(QUESTIONS), {"answered": len(QUESTIONS)})

    def it_gives_the_bytes_of_single_queries(self, corner, channels):
        ticket = submitted(corner, *QUESTIONS)
        worked(corner, ticket, channels)
        for text, found in zip(QUESTIONS, answers(corner, ticket), strict=True):
            single = json.loads(render(corner.ask(corner.query(text), channels)))
            single["stats"].pop("latency_ms")
            assert json.dumps({**found, "query_id": ""}) == json.dumps({**single, "query_id": ""})

    def it_asks_stores_for_many_queries_at_once(self, corner, channels):
        asked: list[str] = []

        def note(_connection, _cursor, statement, *_):
            asked.append(statement)

        ticket = submitted(corner, *[f"{text} {number}" for number in range(3) for text in QUESTIONS])
        for engine in (corner.use.mysql, corner.use.postgres):
            event.listen(engine, "before_cursor_execute", note)
        try:
            worked(corner, ticket, channels)
        finally:
            for engine in (corner.use.mysql, corner.use.postgres):
                event.remove(engine, "before_cursor_execute", note)
        assert corner.job(ticket).succeeded == 15
        assert len([statement for statement in asked if "halfvec" in statement]) <= 8  # two for each four of 15 queries
        assert len([statement for statement in asked if "c.text" in statement]) == 1

    def it_records_each_search_once(self, corner, channels):
        ticket = submitted(corner, *QUESTIONS, QUESTIONS[0])
        worked(corner, ticket, channels)
        rows = corner.execute("SELECT action FROM audit WHERE tenant_id = :tenant AND action = 'search'")
        assert len(rows) == len(QUESTIONS)

    def it_repeats_an_equal_query_without_asking_again(self, corner, channels):
        ticket = submitted(corner, *["red fox"] * 200)
        while not corner.job(ticket).finished_at:
            corner.make_due()
            worked(corner, ticket, channels)
        assert corner.job(ticket).succeeded == 200
        assert len(answers(corner, ticket)) == 1
        assert len(corner.execute("SELECT 1 FROM audit WHERE tenant_id = :tenant AND action = 'search'")) == 1


class DescribeALostWorker:
    def it_leaves_its_queries_to_another_and_each_is_answered_once(self, corner, channels):
        ticket = submitted(corner, *QUESTIONS)
        lost = take(corner.tenant, ticket.job_id, corner.use, queue=IngestQueue.BATCH)
        assert len(lost.items) == len(QUESTIONS)
        assert worked(corner, ticket, channels) == 0
        corner.make_due()  # its lease runs out
        assert worked(corner, ticket, channels) == len(QUESTIONS)
        before = answers(corner, ticket)
        answer_claims(corner.tenant, lost.items, corner.use, channels, corner.use)  # it was only slow
        assert answers(corner, ticket) == before
        assert len(corner.execute("SELECT 1 FROM audit WHERE tenant_id = :tenant AND action = 'search'")) == len(
            QUESTIONS
        )

    def it_gives_up_a_query_that_no_worker_survives(self, corner, channels):
        ticket = submitted(corner, "red fox")
        for _ in range(corner.use.settings.ingest_max_attempts):
            take(corner.tenant, ticket.job_id, corner.use, queue=IngestQueue.BATCH)
            corner.make_due()
        worked(corner, ticket, channels)
        (item,) = items_of(corner.use, ticket)
        assert (item.status, item.code) == ("failed", "worker_lost")


class DescribeWhatIsAway:
    def it_answers_with_a_loss_where_a_single_query_would(self, corner, channels):
        lost = Lost(ChannelName.SEMANTIC, EmbedderUnavailable("the model is away"))
        ticket = submitted(corner, "red fox", "高血压 salt")
        worked(corner, ticket, {**channels, ChannelName.SEMANTIC: lost})
        for found in answers(corner, ticket):
            assert found["stats"]["degraded"]
            assert found["chunks"]
        assert corner.job(ticket).status == "succeeded"

    def it_tries_queries_again_that_nothing_can_answer(self, corner, channels):
        away = {name: Lost(name, StoreUnavailable("away")) for name in (ChannelName.KEYWORD, ChannelName.SEMANTIC)}
        ticket = submitted(corner, "red fox")
        worked(corner, ticket, away)
        (item,) = items_of(corner.use, ticket)
        assert (item.status, item.code) == ("queued", "retrieval_unavailable")
        corner.make_due()
        worked(corner, ticket, channels)
        assert corner.job(ticket).status == "succeeded"

    def it_gives_them_up_in_the_end_and_answers_them_when_their_owner_asks_again(self, corner, channels):
        away = {name: Lost(name, StoreUnavailable("away")) for name in (ChannelName.KEYWORD, ChannelName.SEMANTIC)}
        ticket = submitted(corner, "red fox")
        for _ in range(corner.use.settings.ingest_max_attempts):
            worked(corner, ticket, away)
            corner.make_due()
        (item,) = items_of(corner.use, ticket)
        assert (item.status, item.code) == ("failed", "retrieval_unavailable")
        steer_jobs.retry(corner.tenant, ticket.job_id, corner.use, notify=lambda *_: None)
        corner.use.redis.delete(CIRCUITS)
        later = Resources(corner.use.settings)
        worked(corner, ticket, make_channels(later), later)
        later.close()
        assert corner.job(ticket).status == "succeeded"


class DescribeTheEndOfABatch:
    def it_stores_nothing_of_what_was_cancelled_meanwhile(self, corner, channels):
        ticket = submitted(corner, *QUESTIONS)
        taken = take(corner.tenant, ticket.job_id, corner.use, queue=IngestQueue.BATCH)
        steer_jobs.cancel(corner.tenant, ticket.job_id, corner.use)
        answer_claims(corner.tenant, taken.items, corner.use, channels, corner.use)
        job = corner.job(ticket)
        assert (job.status, job.cancelled, job.succeeded) == ("cancelled", len(QUESTIONS), 0)
        assert answers(corner, ticket) == []

    def it_ends_with_its_tenant(self, corner, channels):
        ticket = submitted(corner, *QUESTIONS)
        taken = take(corner.tenant, ticket.job_id, corner.use, queue=IngestQueue.BATCH)
        erase_tenant(corner.tenant, corner.use)
        answer_claims(corner.tenant, taken.items, corner.use, channels, corner.use)
        assert corner.rows("computation_bodies") == corner.rows("job_items") == 0

    def it_fails_a_query_whose_namespace_is_gone(self, corner, channels):
        ticket = submitted(corner, "red fox")
        corner.execute("DELETE FROM namespaces WHERE tenant_id = :tenant")
        worked(corner, ticket, channels)
        (item,) = items_of(corner.use, ticket)
        assert (item.status, item.code, item.detail) == ("failed", "namespace_not_found", "There is no namespace kb.")

    def it_fails_a_query_that_has_expired(self, corner, channels):
        ticket = submitted(corner, "red fox")
        corner.execute("DELETE FROM computation_bodies WHERE tenant_id = :tenant")
        worked(corner, ticket, channels)
        (item,) = items_of(corner.use, ticket)
        assert (item.status, item.code) == ("failed", "query_expired")

    def it_frees_what_its_owner_deletes(self, corner, channels):
        ticket = submitted(corner, *QUESTIONS)
        worked(corner, ticket, channels)
        assert corner.rows("computation_bodies") == len(QUESTIONS) + 1  # the last one names the owner
        steer_jobs.drop_batch(corner.tenant, ticket.job_id, corner.use)
        assert corner.rows("computation_bodies") == 0
        assert corner.job(ticket).status == "succeeded"


class DescribeTurns:
    def it_takes_the_tenants_in_turn_and_notifies_for_those_left(self, corner, channels, use_alone):
        first = submitted(corner, *[f"{text} {n}" for n in range(20) for text in QUESTIONS])
        notified: list[Any] = []
        other = Corner(use_alone, make_tenant(use_alone)[0], corner.namespace)
        animals(use_alone, other.tenant, Namespace("kb"))
        second = submitted(other, *QUESTIONS)
        for _ in range(2):
            answer_next(use_alone, channels, use_alone, notify=lambda *notification: notified.append(notification))
        assert other.job(second).status == "succeeded"
        assert 0 < corner.job(first).succeeded < 100
        assert (corner.tenant, first.job_id, IngestQueue.BATCH) in notified
        worked(corner, first, channels)

    def it_gives_way_while_a_caller_waits_for_an_answer(self, use_alone, tenant):
        places, looked, pools = Places(use_alone.redis), [], pools_of_queries(use_alone)
        place = Place(pool=WorkKind.QUERY, most=0, left_s=30)
        assert places.take(tenant, "q", place) is Verdict.TAKEN

        def pause(seconds: float) -> None:
            looked.append(seconds)
            if len(looked) == 3:
                places.give_back(tenant, "q", WorkKind.QUERY)

        give_way(use_alone, pools, sleep=pause)
        assert len(looked) == 3
        give_way(use_alone, pools, sleep=pause)
        assert len(looked) == 3


class DescribeWhatIsStored:
    def it_keeps_a_query_as_it_was_resolved(self, corner):
        query = replace(corner.query("red fox", top_k=3), trace=False)
        refusal = JobError(
            document_id=None, code="invalid_query", detail="query 1: /top_k is below 1", pointer="/queries/1/top_k"
        )
        ticket = submit_batch(
            corner.tenant,
            [("a", query), (None, refusal)],
            corner.use,
            owner="me",
            request_id="r",
            notify=lambda *_: None,
        )
        (body,) = corner.execute("SELECT body FROM computation_bodies WHERE tenant_id = :tenant AND piece = 0")
        assert read_query(decompressed(body[0])).plan == query.plan
        items = items_of(corner.use, ticket)
        assert [(item.status, item.requested_id, item.code) for item in items] == [
            ("queued", "a", None),
            ("failed", None, "invalid_query"),
        ]
        steer_jobs.cancel(corner.tenant, ticket.job_id, corner.use)
