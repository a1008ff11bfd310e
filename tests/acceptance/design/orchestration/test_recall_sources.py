"""Recall orchestration: settings, sources, deduplication, fallback and the test endpoint, in the design's own names."""

from __future__ import annotations

import math
import os

import pytest

from pipeline.errors import Misconfigured
from pipeline.settings import load
from tests.conftest import gateway, make_tenant
from tests.support.corpora.cooling_pump import KB, OFF, PATIENT, QUESTION, WEIGHTS, asked, with_api


class DescribeSettings:
    @pytest.mark.parametrize(
        "written",
        [
            "keyword:0.3,semantic:0.6,faq:0.1",
            " keyword : 0.3, semantic:0.6 ,faq:0.1,",
            '{"keyword":0.3,"semantic":0.6,"faq":0.1}',
            "vector:0.6,keyword:0.3,faq:0.1",
            '{"keyword":0.3,"vector":0.6,"faq":0.1}',
        ],
    )
    def it_takes_weights_as_pairs_and_as_an_object(self, monkeypatch, written):
        monkeypatch.setenv("CHORDWISE_RECALL_SOURCE_WEIGHTS", written)
        assert load().recall_source_weights == WEIGHTS

    @pytest.mark.parametrize(
        ("setting", "least", "most"),
        [("recall_timeout_ms", 100, 2000), ("recall_retry", 0, 3), ("recall_degrade_threshold", 0, 1)],
    )
    def it_takes_values_between_the_limits_only(self, setting, least, most):
        for good in (least, most):
            assert getattr(load({setting: good}), setting) == good
        for bad in (least - 1, most + 1):
            with pytest.raises(Misconfigured, match=f"CHORDWISE_{setting.upper()}"):
                load({setting: bad})

    def it_has_the_defaults_of_the_design(self, monkeypatch):
        for name in [name for name in os.environ if name.startswith("CHORDWISE_RECALL_")]:
            monkeypatch.delenv(name)
        settings = load()
        assert (settings.recall_timeout_ms, settings.recall_retry, settings.recall_degrade_threshold) == (800, 1, 0.4)
        assert (settings.recall_fallback_enabled, settings.recall_experiment_enabled) == (True, False)
        assert (settings.recall_merge_strategy, settings.recall_experiment_platform) == ("weighted", "none")

    def it_has_the_weights_and_limits_of_the_design_in_a_profile(self, corpus):
        plan = corpus.get("/v1/profiles/support").json()["plan"]
        channels = plan["retrieve"]["channels"]
        assert {name: channels[name]["weight"] for name in WEIGHTS} == WEIGHTS
        assert {(channels[name]["timeout_ms"], channels[name]["retry"]) for name in WEIGHTS} == {(800, 1)}
        assert (plan["top_k"], plan["retrieve"]["fusion"]["strategy"]) == (5, "weighted")
        assert (plan["fallback"]["enabled"], plan["fallback"]["threshold"]) == (True, 0.4)

    @pytest.mark.parametrize(
        ("channel", "pointer"),
        [
            ({"timeout_ms": 99}, "timeout_ms"),
            ({"timeout_ms": 2001}, "timeout_ms"),
            ({"retry": 4}, "retry"),
            ({"retry": -1}, "retry"),
            ({"weight": -1}, "weight"),
        ],
    )
    def it_refuses_a_query_that_goes_beyond_the_limits(self, corpus, channel, pointer):
        body = {"query_text": QUESTION, "namespaces": [KB], "retrieve": {"channels": {"keyword": channel}}}
        refused = corpus.post("/v1/queries", json=body)
        assert refused.status_code == 422
        assert refused.json()["errors"][0]["pointer"] == f"/retrieve/channels/keyword/{pointer}"


class DescribeSources:
    def it_asks_keyword_semantic_faq_and_api_in_one_query(self, corpus, api):
        with_api(corpus, api)
        channels = {**PATIENT, "api": {"weight": 0.1, "timeout_ms": 2000, "options": {"source": "crm"}}}
        answer = asked(corpus, retrieve={"channels": channels})
        assert set(answer["stats"]["hits"]) == {"keyword", "semantic", "faq", "api"}
        assert min(answer["stats"]["hits"].values()) > 0
        assert {"keyword", "semantic", "faq", "api"} <= set(answer["stats"]["latency_ms"])
        assert not answer["stats"]["degraded"]

    def it_weighs_normalised_scores_with_the_weights_of_the_sources(self, corpus):
        fusion = {"strategy": "weighted", "feedback": False}
        answer = asked(corpus, retrieve={"fusion": fusion}, rerank=OFF)
        for chunk in answer["chunks"]:
            for each in chunk["sources"]:
                share = WEIGHTS[each["channel"]] / math.fsum(WEIGHTS.values())
                assert 0 <= each["normalized"] <= 1
                assert each["contribution"] == pytest.approx(share * each["normalized"], abs=1e-9)
            assert chunk["score"] == pytest.approx(math.fsum(each["contribution"] for each in chunk["sources"]))
        scores = [chunk["score"] for chunk in answer["chunks"]]
        assert scores == sorted(scores, reverse=True)

    def it_weighs_ranks_with_the_same_weights(self, corpus):
        answer = asked(corpus, retrieve={"fusion": {"strategy": "rrf", "k": 60, "feedback": False}}, rerank=OFF)
        said = [each for chunk in answer["chunks"] for each in chunk["sources"]]
        assert {each["channel"] for each in said} == set(WEIGHTS)
        for each in said:
            assert each["contribution"] == pytest.approx(WEIGHTS[each["channel"]] / (60 + each["rank"]), abs=1e-9)

    def it_refuses_a_custom_strategy_that_is_not_installed(self, corpus):
        body = {
            "query_text": QUESTION,
            "namespaces": [KB],
            "retrieve": {"fusion": {"strategy": "custom", "plugin": "x"}},
        }
        refused = corpus.post("/v1/queries", json=body)
        assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "/retrieve/fusion/plugin")


class DescribeDeduplication:
    def it_gives_the_same_content_once_with_the_higher_score_and_every_source(self, corpus, api):
        with_api(corpus, api)
        channels = {**PATIENT, "api": {"weight": 0.1, "timeout_ms": 2000, "options": {"source": "crm"}}}
        text = "cooling pump oil every week"
        every = asked(corpus, text, retrieve={"channels": channels}, rerank=OFF)
        once = asked(corpus, text, retrieve={"channels": channels, "selection": {"dedupe": "content"}}, rerank=OFF)
        scores = {chunk["document_id"]: chunk["score"] for chunk in every["chunks"]}
        assert {"oil", "x"} <= set(scores)
        kept = [chunk for chunk in once["chunks"] if chunk["document_id"] in ("oil", "x")]
        assert len(kept) == 1
        assert kept[0]["document_id"] == max(("oil", "x"), key=lambda name: scores[name])
        assert kept[0]["score"] == pytest.approx(max(scores["oil"], scores["x"]))
        assert {each["channel"] for each in kept[0]["sources"]} >= {"keyword", "semantic", "api"}
        assert "stands for 1 more" in kept[0]["reason"]

    def it_gives_one_passage_of_a_document_when_told_to(self, corpus):
        every = asked(corpus, "cooling pump oil crane repair")
        once = asked(corpus, "cooling pump oil crane repair", retrieve={"selection": {"dedupe": "document"}})
        ids = [chunk["document_id"] for chunk in every["chunks"]]
        assert ids.count("faq") == 2
        assert sorted(chunk["document_id"] for chunk in once["chunks"]) == sorted(set(ids))


class DescribeTheFallback:
    HINT = "请联系人工客服"

    def it_gives_curated_answers_and_a_hint_when_nothing_was_found(self, corpus):
        fallback = {"faq": True, "hint": self.HINT}
        retrieve = {"channels": {"keyword": {"timeout_ms": 2000}}, "method": "full_text"}
        filters = {"type": "nowhere"}
        empty = asked(corpus, filters=filters, fallback=fallback, retrieve=retrieve, context={})
        # Curated answers are looked for without the filter that left nothing.
        assert (empty["stats"]["fallback"], empty["stats"]["hits"]["keyword"]) == ("faq+hint:empty", 0)
        assert {chunk["source"] for chunk in empty["chunks"]} == {"fallback"}
        assert (empty["chunks"][0]["document_id"], empty["chunks"][-1]["text"]) == ("faq", self.HINT)
        assert self.HINT in empty["context"]["text"]

    def it_gives_them_below_a_confidence_of_0_4(self, corpus):
        text = "quarterly tax forms of the embassy"
        fallback = {"faq": True, "hint": self.HINT}
        plain, answer = asked(corpus, text), asked(corpus, text, fallback=fallback)
        assert max(chunk["confidence"] for chunk in plain["chunks"]) < 0.4
        assert answer["stats"]["fallback"] == "hint:below_threshold"
        assert (answer["chunks"][-1]["source"], answer["chunks"][-1]["text"]) == ("fallback", self.HINT)
        sure = asked(corpus, fallback=fallback)
        assert max(chunk["confidence"] for chunk in sure["chunks"]) >= 0.4
        assert sure["stats"]["fallback"] is None

    def it_can_be_switched_off(self, corpus):
        answer = asked(corpus, "quarterly tax forms", fallback={"enabled": False, "hint": self.HINT})
        assert answer["stats"]["fallback"] is None
        assert "fallback" not in {chunk["source"] for chunk in answer["chunks"]}


class DescribeTheTestDoor:
    def it_answers_with_the_whole_run(self, corpus):
        answer = corpus.post("/internal/recall/test", json={"query_text": QUESTION, "namespaces": [KB]}).json()
        assert answer["chunks"]
        assert {"keyword", "semantic"} <= set(answer["trace"]["channels"])

    @pytest.mark.parametrize("query", [QUESTION, "控制器怎么重置"])
    def it_takes_and_gives_the_designs_own_names(self, corpus, query):
        request = {"query": query, "session_id": "s", "trace_id": "trace-7", "top_k": 2, "namespaces": [KB]}
        answered = corpus.post(
            "/internal/recall/test",
            json={**request, "context": ["user: hello", "用户：你好"], "user_profile": {"role": "operator"}},
        )
        result = answered.json()
        assert answered.status_code == 200, result
        assert set(result) == {"hits", "latency_ms", "degraded", "trace_id", "experiment_id"}
        assert (result["trace_id"], result["experiment_id"], result["degraded"]) == ("trace-7", None, False)
        assert 0 < len(result["hits"]) <= 2
        for hit in result["hits"]:
            assert set(hit) == {"source", "score", "confidence", "reason", "content", "metadata"}
            assert hit["content"]
            assert hit["metadata"]["document_id"]

    @pytest.mark.parametrize(
        ("changed", "pointer"),
        [
            ({"query": " "}, "/query"),
            ({"context": "hello"}, "/context"),
            ({"user_profile": ["x"]}, "/user_profile"),
            ({"user_profile": {"x": "长" * 3000}}, "/user_profile"),
            ({"trace_id": "a b"}, "/trace_id"),
            ({"surprise": 1}, "/surprise"),
        ],
    )
    def it_names_what_is_wrong_in_the_designs_names(self, corpus, changed, pointer):
        refused = corpus.post("/internal/recall/test", json={"query": QUESTION, "namespaces": [KB], **changed})
        assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, pointer)

    def it_is_described_by_the_designs_names(self, corpus):
        schemas = corpus.get("/openapi.json").json()["components"]["schemas"]
        assert set(schemas["RecallHit"]["properties"]) == {
            "source", "score", "confidence", "reason", "content", "metadata"
        }  # fmt: skip
        assert set(schemas["RecallResult"]["properties"]) == {
            "hits", "latency_ms", "degraded", "trace_id", "experiment_id"
        }  # fmt: skip
        assert {
            "query", "session_id", "trace_id", "user_profile", "context", "experiment_id", "top_k"
        } <= set(schemas["RecallRequest"]["properties"])  # fmt: skip

    def it_is_open_to_no_stranger(self, corpus, use):
        with gateway(make_tenant(use)[1]) as stranger:
            refused = stranger.post("/internal/recall/test", json={"query_text": QUESTION, "namespaces": [KB]})
        assert (refused.status_code, refused.json()["code"]) == (404, "namespace_not_found")
