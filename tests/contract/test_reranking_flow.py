"""Reranking within a query: whatever the service does, there is an order, in time, and what was lost has a name."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from pipeline.query.plan import DecayPlan, Plan, RerankPlan, RetrievePlan
from pipeline.records import Filters
from pipeline.resources import Resources
from pipeline.retrieval.arrived import Arrived, Journal
from pipeline.retrieval.rerank import passing, rerank_hits, rerank_lift
from pipeline.settings import load
from tests.support.corpora.queries import query_of
from tests.support.servers.openai_answers import hangs, raw, refused, says
from tests.support.servers.openai_server import OpenAIServer
from tests.support.servers.rerank_server import RerankServer, rerank_service
from tests.support.stacks.patience import SPARE_S
from tests.unit.answer.test_answer_parts import hits
from tests.unit.ranking.test_rerank_bound import found as ranked

FUSED = [("a", 1.0), ("b", 0.9), ("c", 0.8)]
TEXTS = {"a": "an owl", "b": "a fox", "c": "a red fox"}


def arrived(plan: RerankPlan, *, left_s: float = 3.0, decay: DecayPlan | None = None) -> Arrived:
    query = query_of(
        "red fox",
        filters=Filters(type="tale") if decay else Filters(),
        plan=Plan(rerank=plan, retrieve=RetrievePlan(time_decay=decay)),
        deadline_s=left_s,
    )
    return Arrived(query=query, envelopes={}, elapsed_ms={})


def found() -> list:
    return [replace(hit, passage=replace(hit.passage, text=TEXTS[hit.chunk_id])) for hit in hits(FUSED)]


@pytest.fixture
def service() -> Iterator[RerankServer]:
    with rerank_service("cohere") as service:
        yield service


@pytest.fixture
def use(service: RerankServer) -> Iterator[Resources]:
    resources = Resources(load({"rerank_url": service.url, "rerank_model": "m"}))
    yield resources
    resources.close()


@pytest.mark.apart
class DescribeReranked:
    def it_asks_the_service_for_the_best_only(self, service: RerankServer, use: Resources):
        journal = Journal()
        placed = rerank_hits(replace(arrived(RerankPlan(top_n=2)), journal=journal), found(), use)
        assert service.bodies[0]["documents"] == ["an owl", "a fox"]
        assert [hit.chunk_id for hit in placed] == ["b", "a", "c"]
        assert [(hit.rerank, hit.from_rank) for hit in placed] == [(0.5, 2), (0.0, 1), (None, 3)]
        assert not journal.degradations
        assert journal.latency_ms["rerank"] > 0
        assert rerank_lift(placed, top_k=2) == pytest.approx(0.585, abs=1e-3)

    def it_keeps_the_order_of_similarity_at_a_weight_of_zero(self, service: RerankServer, use: Resources):
        placed = rerank_hits(arrived(RerankPlan(top_n=2, weight=0.0)), found(), use)
        assert len(service.bodies) == 1
        assert [(hit.chunk_id, hit.score) for hit in placed] == FUSED
        assert [hit.rerank for hit in placed] == [0.0, 0.5, None]

    def it_drops_below_the_threshold_and_says_by_which_number(self, use: Resources):
        placed = rerank_hits(replace(arrived(RerankPlan(threshold=0.6)), journal=Journal(tracing=True)), found(), use)
        kept, dropped = passing(placed, threshold=0.6, min_results=0)
        assert [hit.chunk_id for hit in kept] == ["c"]
        assert {(drop.chunk_id, drop.stage, drop.value, drop.limit) for drop in dropped} == {
            ("a", "rerank", 0.0, 0.6),
            ("b", "rerank", 0.5, 0.6),
        }

    @pytest.mark.parametrize("failure", [hangs(), refused(500), refused(401), raw(b"<html>")])
    def it_keeps_the_fused_order_when_it_fails(self, service: RerankServer, use: Resources, failure):
        service.always = failure
        journal = Journal()
        started = time.monotonic()
        late = replace(arrived(RerankPlan(budget_ms=300, threshold=0.9)), journal=journal)
        placed = rerank_hits(late, found(), use)
        assert time.monotonic() - started < 0.3 + SPARE_S
        assert [(hit.chunk_id, hit.score, hit.rerank) for hit in placed] == [(*each, None) for each in FUSED]
        assert passing(placed, threshold=0.9, min_results=0) == (placed, [])
        assert [(lost.part, lost.code) for lost in journal.degradations] == [("rerank", "reranker_unavailable")]
        assert rerank_lift(placed, top_k=2) is None

    def it_does_not_begin_what_cannot_end(self, service: RerankServer, use: Resources):
        journal = Journal()
        placed = rerank_hits(replace(arrived(RerankPlan(), left_s=0.05), journal=journal), found(), use)
        assert [hit.chunk_id for hit in placed] == ["a", "b", "c"]
        assert [(lost.part, lost.code) for lost in journal.degradations] == [("rerank", "timeout")]
        assert service.bodies == []

    def it_reads_locally_where_a_profile_names_what_is_not_there(self):
        use, journal = Resources(load()), Journal()
        placed = rerank_hits(replace(arrived(RerankPlan(provider="http", weight=1.0)), journal=journal), found(), use)
        assert [hit.chunk_id for hit in placed] == ["c", "b", "a"]
        assert [(lost.part, lost.code) for lost in journal.degradations] == [("rerank", "reranker_not_configured")]

    def it_bounds_a_language_model_that_obeys_a_passage_and_says_so(self, monkeypatch: pytest.MonkeyPatch):
        order = "abcdefghi"
        marks = [{"id": n, "relevance": 10 if n == 9 else 5, "completeness": 5, "timeliness": 5} for n in range(1, 10)]
        with OpenAIServer() as server:
            monkeypatch.setenv("OPENAI_API_KEY", "none")
            monkeypatch.setenv("OPENAI_BASE_URL", server.url)
            server.always["chat"] = says(json.dumps({"scores": marks}))
            use = Resources(load({"llm_model": "judge", "llm_timeout_s": 20, "rerank_timeout_s": 20}))
            patient = RerankPlan(budget_ms=10_000)
            for channels, first, named in (
                ({"keyword": order, "semantic": order}, "a", ["i"]),
                ({"keyword": order, "semantic": order[::-1]}, "i", []),  # one channel finds it first
            ):
                journal = Journal()
                asked = replace(arrived(patient, left_s=20.0), journal=journal)
                placed = rerank_hits(asked, ranked(order, **channels), use)
                assert placed[0].chunk_id == first
                assert [remark[-1] for remark in journal.remarks] == named
                assert not journal.degradations
            use.close()

    def it_reports_hits_that_a_language_model_has_left_out(self, monkeypatch: pytest.MonkeyPatch):
        with OpenAIServer() as server:
            monkeypatch.setenv("OPENAI_API_KEY", "none")
            monkeypatch.setenv("OPENAI_BASE_URL", server.url)
            server.always["chat"] = says('{"scores": [{"id": 3, "relevance": 9}, {"id": 1, "relevance": 2}]}')
            use, journal = (
                Resources(load({"llm_model": "judge", "llm_timeout_s": 20, "rerank_timeout_s": 20})),
                Journal(),
            )
            asked = replace(arrived(RerankPlan(budget_ms=10_000), left_s=20.0), journal=journal)
            placed = rerank_hits(asked, found(), use)
            use.close()
        assert [hit.chunk_id for hit in placed] == ["c", "a", "b"]
        assert [(lost.code, lost.detail[:6]) for lost in journal.degradations] == [("partly_reranked", "1 of 3")]

    def it_tells_a_language_model_what_is_wanted_besides(self, monkeypatch: pytest.MonkeyPatch):
        with OpenAIServer() as server:
            monkeypatch.setenv("OPENAI_API_KEY", "none")
            monkeypatch.setenv("OPENAI_BASE_URL", server.url)
            use, journal = Resources(load({"llm_model": "judge"})), Journal()
            said = replace(arrived(RerankPlan(), decay=DecayPlan(half_life_days=30)), journal=journal)
            rerank_hits(said, found(), use)
            use.close()
            prompt = server.seen("chat")[0]["messages"][1]["content"]
        assert not journal.degradations
        assert '"越新越好，每过 30 天价值减半；文档类型：tale"' in prompt
