"""Ingestion against a service with rate limits, on the real stores: nothing fails, the limit is used, the counts agree."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from datetime import UTC, datetime

import pytest
from pydantic import SecretStr
from sqlalchemy import text

from pipeline.administration.steer_jobs import cancel
from pipeline.database.unit_of_work import unit_of_work
from pipeline.errors import QuotaExceeded
from pipeline.ingestion.make_vectors import vectors_of
from pipeline.models.openai_embedder import OpenAIEmbedder
from pipeline.models.service_client import OpenAIService
from pipeline.models.service_pace import LOOK_EVERY_S, ServicePace
from pipeline.models.service_pace_store import SharedPace
from pipeline.settings import Settings
from pipeline.tenants.usage import Purpose
from pipeline.tenants.usage_store import Usage
from tests.support.servers.openai_answers import Answer, changed, drops, raw, refused, slow, with_vectors
from tests.support.servers.openai_server import Seen
from tests.support.servers.rate_limits import FixedWindows
from tests.support.stacks.connections import in_mysql
from tests.support.stacks.patience import SPARE_S
from tests.support.stacks.served import DIMENSION, Served, served_on, tables_for_served


@pytest.fixture(scope="module")
def tables(settings: Settings) -> Iterator[Settings]:
    with tables_for_served(settings) as found:
        yield found


@pytest.fixture
def served(tables, monkeypatch) -> Iterator[Served]:
    with served_on(tables, monkeypatch) as found:
        yield found


def texts(count: int, *, words: int = 4) -> list[str]:
    return [f"kettle number {place} " + "boils " * words for place in range(count)]


def usage(served: Served):
    today = datetime.now(UTC).date()
    served.use.usage_book.write()
    with unit_of_work(served.use.mysql) as work:
        return Usage(work.connection, served.tenant).total(today, today)


def assert_counts_agree(served: Served) -> None:
    counts, there = usage(served), served.service.counted
    assert (counts.requests, counts.texts, counts.tokens) == (there.requests, there.texts, there.tokens)


def attempts(served: Served) -> set[int]:
    with unit_of_work(served.use.mysql) as work:
        statement = text("SELECT attempts FROM job_items WHERE tenant_id = :tenant")
        return set(work.connection.execute(statement, {"tenant": served.tenant}).scalars())


def shared_pace(served: Served) -> SharedPace:
    """The pace of this test's service, as all processes share it."""
    client = OpenAIService(timeout_s=1.0, base_url=served.service.url, api_key="not-a-real-key")
    account = f"{client.address} {served.settings.embedding_model}"
    client.close()
    return SharedPace(served.use.quick_redis, account, beginning=ServicePace())


def let_a_minute_pass(served: Served) -> None:
    """Turn the clocks of the pace and of the documents that wait."""
    shared_pace(served).change(lambda pace, _: (replace(pace, looked_at=pace.looked_at - LOOK_EVERY_S), None))
    with unit_of_work(served.use.mysql) as work:
        due = text("UPDATE job_items SET next_attempt_at = UTC_TIMESTAMP(6) WHERE tenant_id = :tenant")
        work.connection.execute(due, {"tenant": served.tenant})


class DescribeALimitedService:
    """A minute of the service is a window of one or two seconds, so that the test sees several. Each limit is far below the
    requests that two busy processors send."""

    @pytest.mark.parametrize(
        "told", [pytest.param(False, marks=pytest.mark.thorough), True], ids=["by the settings", "by the answers"]
    )
    def it_is_used_to_the_limit_and_nothing_fails(self, served, told):
        served.service.limiter = limits = FixedWindows(requests=8, seconds=2.0, headers=told)
        ticket = served.submit(texts(72))
        changes = {"embedding_batch_texts": 2}
        if not told:
            changes["embedding_requests_per_minute"] = 8 * 30
        job = served.work(ticket, workers=4, ingest_batch_documents=32, **changes)
        assert (job.status, job.succeeded, attempts(served)) == ("succeeded", ticket.total, {1})
        used = limits.share_used(skip=2 if told else 1)  # limits that the service reports apply from its first answer
        assert used >= 0.8, (limits.taken, limits.refused)  # and of a machine that stands still now and then
        assert sum(limits.refused.values()) <= 4
        assert_counts_agree(served)
        assert {"key": "", **asdict(job.usage)} == asdict(usage(served))

    def it_learns_the_limit_of_a_service_that_reports_none(self, served):
        served.service.limiter = limits = FixedWindows(requests=20, seconds=3.0, retry_after=False, until_exceeded=True)
        job = served.work(served.submit(texts(120)), workers=2, embedding_batch_texts=2)
        assert (job.status, attempts(served)) == ("succeeded", {1})
        # Up to eight were on their way, and one tries after each pause; at the pace of before they would be a dozen and more.
        assert 1 <= max(limits.refused.values()) <= 12, limits.refused
        assert_counts_agree(served)

    @pytest.mark.thorough
    def it_keeps_to_tokens_as_well(self, served):
        served.service.limiter = limits = FixedWindows(requests=1000, tokens=2000, seconds=2.0)
        ticket = served.submit(texts(120, words=97))  # of 100 tokens each
        job = served.work(ticket, workers=2, embedding_batch_texts=2, embedding_tokens_per_minute=2000 * 30)
        assert (job.status, attempts(served)) == ("succeeded", {1})
        assert limits.share_used(of="tokens") >= 0.85
        assert_counts_agree(served)


class DescribeRateLimitsThatLast:
    def it_puts_documents_back_without_counting_the_attempt(self, served):
        served.service.always["embeddings"] = refused(429, retry_after="300")
        ticket = served.submit(texts(3))
        job = served.work(ticket, seconds=3, ingest_max_attempts=1)
        assert (job.failed, attempts(served)) == (0, {0})
        rows = in_mysql(
            served.use,
            "SELECT state, error_code, TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(6), next_attempt_at) AS wait"
            " FROM job_items WHERE tenant_id = :tenant",
            tenant=served.tenant,
        )
        assert {(row.state, row.error_code) for row in rows} == {("queued", "rate_limited")}
        assert all(50 <= row.wait <= 60 for row in rows)  # when the service is asked again, in spite of the pause
        cancel(served.tenant, ticket.job_id, served.use)  # other tests have workers in these databases too

    def it_goes_on_with_the_first_answer_however_long_it_was_asked_to_wait(self, served):
        served.service.next("embeddings", refused(429, retry_after="86400"))
        ticket = served.submit(texts(3))
        assert served.work(ticket, seconds=2).succeeded == 0
        let_a_minute_pass(served)
        job = served.work(ticket, seconds=30)
        assert (job.status, attempts(served)) == ("succeeded", {1})
        assert shared_pace(served).read()[0].closed_until <= time.time() + SPARE_S

    def it_makes_everybody_wait_as_long_as_one_was_asked_to(self, served):
        served.service.next("embeddings", refused(429, retry_after="1.5"))
        job = served.work(served.submit(texts(40)), workers=2, ingest_batch_documents=8)
        assert (job.status, attempts(served)) == ("succeeded", {1})
        first, *others = served.service.arrived
        later = [at - first for at in others if at - first > 0.5]
        assert len(others) - len(later) <= 1  # the other worker's, sent before the answer to the first came
        assert min(later) >= 1.5

    def it_counts_attempts_when_the_budget_is_used_up(self, served):
        served.service.always["embeddings"] = refused(429, "you exceeded your quota", code="insufficient_quota")
        job = served.work(served.submit(texts(2)), seconds=20, ingest_max_attempts=1)
        assert (job.failed, {error.code for error in job.errors}) == (2, {"embedder_unavailable"})


class DescribeASlowService:
    def it_loses_no_lease_and_counts_no_attempt(self, served):
        served.service.always["embeddings"] = slow(5.0)
        ticket = served.submit(texts(4))
        limits = {"ingest_lease_s": 2.0, "parser_timeout_s": 0.5, "embedding_timeout_s": 20.0}
        job = served.work(ticket, workers=2, **limits)
        assert (job.status, attempts(served)) == ("succeeded", {1})
        assert len(served.service.seen("embeddings")) == 1
        assert_counts_agree(served)

    def it_is_left_when_the_job_is_cancelled(self, served):
        served.service.always["embeddings"] = refused(429, retry_after="30")
        ticket = served.submit(texts(4))
        killer = threading.Timer(1.0, lambda: cancel(served.tenant, ticket.job_id, served.use))
        killer.start()
        job = served.work(ticket, ingest_lease_s=1.0, parser_timeout_s=0.3)
        killer.join()
        assert job.status == "cancelled"


class DescribeABrokenService:
    def it_is_tried_again_and_what_it_counted_is_counted(self, served):
        nonsense = changed(lambda body: {**body, "data": body["data"][:-1]})
        served.service.next("embeddings", refused(500), nonsense, raw(b"<html>"), refused(503, retry_after="0.3"))
        job = served.work(served.submit(texts(8)))
        assert job.status == "succeeded"
        assert usage(served).tokens == served.service.counted.tokens
        assert usage(served).requests == served.service.counted.requests == 2

    def it_says_in_one_sentence_that_the_dimension_has_changed(self, served):
        ticket = served.submit(texts(6))
        served.service.next("embeddings", with_vectors(lambda _: [1.0] * 48))
        job = served.work(ticket, seconds=3, embedding_batch_texts=3, embedding_concurrency=1, ingest_max_attempts=1)
        assert job.failed == 6
        assert {error.code for error in job.errors} == {"misconfigured"}
        assert "vectors of 48 numbers, but CHORDWISE_EMBEDDING_DIM is 64" in (job.errors[0].detail or "")
        assert_counts_agree(served)


class DescribeTextsThatFailForEverBesideOtherFailures:
    def it_parks_each_of_them_and_holds_no_other(self, served):
        """One text ends the service's process, one is answered 500, one is refused; every fifth request fails by itself."""
        numbers = itertools.count(1)
        failures = {"CRASH": drops(), "BROKEN": refused(500), "REFUSED": refused(400, "no")}

        def answer(seen: Seen) -> Answer:
            words = " ".join(seen.body["input"])
            if (failure := next((failures[word] for word in failures if word in words), None)) is not None:
                return failure
            return refused(503) if next(numbers) % 5 == 0 else Answer()

        served.service.limiter = answer
        wanted = texts(40)
        for place, word in {7: "CRASH", 8: "BROKEN", 23: "REFUSED"}.items():
            wanted[place] += f" {word}"
        job = served.work(served.submit(wanted), workers=2, seconds=40, ingest_batch_documents=20)
        assert (job.status, job.succeeded) == ("partly_failed", 37)
        assert sorted(error.document_id for error in job.errors) == ["d23", "d7", "d8"]


class DescribeVectorsThatAreThere:
    def it_asks_and_pays_for_a_text_once(self, served):
        first = served.work(served.submit(texts(20)))
        paid = served.service.counted
        again = served.work(served.submit(["something else boils", *texts(20)]))  # each under another id
        assert (first.status, again.status) == ("succeeded", "succeeded")
        assert served.service.counted.texts == paid.texts + 1
        assert again.usage.cached == 20
        assert again.usage.saved_tokens > 0
        assert_counts_agree(served)

    def it_never_crosses_from_one_tenant_to_another(self, served):
        from tests.conftest import make_tenant

        served.work(served.submit(["a secret recipe"]))
        other = make_tenant(served.use)[0]
        served.work(served.submit(["a secret recipe"], tenant=other))
        assert served.service.counted.texts == 2

    def it_keeps_what_was_answered_when_the_rest_fails(self, served):
        served.service.next("embeddings", *[changed(lambda body: body)] * 2, refused(500))
        embedder = OpenAIEmbedder(
            model=served.use.embedder.model, dimension=DIMENSION, batch_texts=3, concurrency=1, retries=0
        )
        job = served.work(served.submit(texts(9)), embedder=embedder)
        assert (job.status, attempts(served)) == ("succeeded", {2})
        assert served.service.counted.texts == 9
        assert_counts_agree(served)

    def it_embeds_a_query_once_for_all_processes(self, served):
        one, two = served.worker(), served.worker()
        wanted = ["how does the kettle boil"]
        first = vectors_of(served.tenant, wanted, one, purpose=Purpose.QUERY, timeout_s=2.0)
        second = vectors_of(served.tenant, wanted, two, purpose=Purpose.QUERY, timeout_s=2.0)
        assert served.service.counted.requests == 1
        assert second == pytest.approx(first, abs=1e-3)
        one.close()
        two.close()
        assert usage(served).cached == 1

    def it_blames_the_right_texts_whatever_is_cached(self, served):
        served.work(served.submit(["fine one", "fine two"]))
        served.service.poison = {"POISON"}
        job = served.work(served.submit(["fine one", "bad POISON", "fine two", "bad POISON", "fine three"]))
        assert (job.status, job.succeeded) == ("partly_failed", 3)
        assert sorted(error.document_id for error in job.errors) == ["d1", "d3"]


class DescribeWithoutRedis:
    def it_keeps_to_a_tenth_of_the_rate(self, served):
        away = {"redis_url": SecretStr("redis://127.0.0.1:1/0"), "embedding_requests_per_minute": 60 * 100}
        job = served.work(served.submit(texts(15)), embedding_batch_texts=1, **away)
        assert (job.status, attempts(served)) == ("succeeded", {1})
        rate = 15 / (served.service.arrived[-1] - served.service.arrived[0])
        assert rate < 15  # a tenth of a hundred a second


class DescribeInteractiveQueries:
    def it_serves_them_before_bulk_work(self, served):
        served.service.limiter = FixedWindows(requests=1000, seconds=1.0)
        limits = {"embedding_requests_per_minute": 60 * 5, "embedding_batch_texts": 1}
        ticket = served.submit(texts(25))  # 5 seconds of what is allowed
        asking = served.worker(**limits)
        over = threading.Event()
        passed_by: list[int] = []  # requests that the service got between a question and its own

        def ask() -> None:
            vectors_of(served.tenant, ["warm up"], asking, purpose=Purpose.QUERY, timeout_s=5.0)
            for place in range(6):
                before = len(served.service.seen("embeddings"))
                vectors_of(served.tenant, [f"question {place}"], asking, purpose=Purpose.QUERY, timeout_s=SPARE_S)
                sent = [str(body["input"]) for body in served.service.seen("embeddings")]
                passed_by.append(next(n for n, text in enumerate(sent[before:]) if f"question {place}" in text))
                over.wait(0.3)

        thread = threading.Thread(target=ask)
        thread.start()
        job = served.work(ticket, workers=2, **limits)
        thread.join()
        asking.close()
        assert (job.status, len(passed_by)) == ("succeeded", 6)
        assert sorted(passed_by)[3] <= 2, "a question does not wait behind the bulk that has its turn already"


class DescribeTokenQuotas:
    def it_refuses_documents_once_the_month_is_used_up(self, served):
        served.settings = served.settings.model_copy(update={"quota_tokens": 50})
        served.use = served.worker()
        served.work(served.submit(texts(10)))
        with pytest.raises(QuotaExceeded, match=r"had \d+ tokens embedded this month and may have 50"):
            served.submit(texts(1))
        in_mysql(served.use, "UPDATE tenants SET quota_tokens = 0 WHERE tenant_id = :tenant", tenant=served.tenant)
        served.submit(texts(1))
