"""Recall orchestration: what that design asks for, with its own figures and names, through the public API."""

from __future__ import annotations

import math
import os
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from pipeline.errors import Misconfigured
from pipeline.resources import Resources
from pipeline.settings import load
from tests.conftest import gateway, make_tenant
from tests.support.clients.operating import audited, eventually, figure
from tests.support.corpora.documents import document, found_documents, search, upload
from tests.support.servers.business_api import BusinessApi, business_api, says, slowly
from tests.support.stacks.stack_logs import told
from tests.unit.test_alerts import RULES

KB = "kb"
WEIGHTS = {"keyword": 0.3, "semantic": 0.6, "faq": 0.1}
PATIENT = {name: {"weight": weight, "timeout_ms": 2000} for name, weight in WEIGHTS.items()}
OFF = {"enabled": False}
QUESTION = "How often does the cooling pump need oil?"
DOCUMENTS = [
    document("oil", "The cooling pump needs oil every week.", title="Oil"),
    document("filter", "The filter of the cooling pump is changed once a year.", title="Filter"),
    document("heron", "The heron stands in the reeds.", title="Birds"),
]
PAIRS = "Q: How often does the cooling pump need oil?\nA: Every Monday.\n\nQ: Who repairs the crane?\nA: The workshop."
MAPPING = {"items": "/hits", "id": "/id", "text": "/text", "score": "/score"}
SAME = {"hits": [{"id": "x", "text": "the COOLING pump  needs oil every week.", "score": 0.9}]}


@pytest.fixture(scope="module")
def tenant_id_and_key(use) -> tuple[str, str]:
    tenant_id, key = make_tenant(use)
    return str(tenant_id), key


@pytest.fixture(scope="module")
def tenant_id(tenant_id_and_key) -> str:
    return str(tenant_id_and_key[0])


@pytest.fixture(scope="module")
def corpus(tenant_id_and_key) -> Iterator[httpx.Client]:
    """The gateway, for a tenant with three documents and two curated answers. No test changes them."""
    with gateway(tenant_id_and_key[1]) as found:
        upload(found, KB, DOCUMENTS)
        upload(found, KB, [document("faq", PAIRS)], chunking={"strategy": "qa"})
        yield found


@pytest.fixture
def api() -> Iterator[BusinessApi]:
    if "127.0.0.0/8" not in os.environ.get("CHORDWISE_API_ALLOW_NETWORKS", ""):
        pytest.fail("set CHORDWISE_API_ALLOW_NETWORKS=127.0.0.0/8 as make test does", pytrace=False)
    with business_api() as found:
        found.answers["/crm"] = says(SAME)
        yield found


@pytest.fixture
def experiments() -> None:
    if os.environ.get("CHORDWISE_RECALL_EXPERIMENT_PLATFORM") != "internal":
        pytest.fail("set CHORDWISE_RECALL_EXPERIMENT_PLATFORM=internal as make test does", pytrace=False)


def asked(client: httpx.Client, text: str = QUESTION, **fields: Any) -> dict[str, Any]:
    """The answer of the three stored sources, or of the channels that are given."""
    retrieve = {"channels": PATIENT, **fields.pop("retrieve", {})}
    return search(client, KB, text, fresh=True, retrieve=retrieve, deadline_ms=8000, **fields)


def with_api(client: httpx.Client, api: BusinessApi, **fields: Any) -> None:
    made = client.put("/v1/api-sources/crm", json={"url": f"{api.url}/crm", "mapping": MAPPING, **fields})
    assert made.status_code in (200, 201), made.text


def traced(client: httpx.Client, text: str = QUESTION, **fields: Any) -> tuple[str, dict[str, Any]]:
    """A trace id of the caller's, and the answer under it."""
    trace_id = f"s1-{uuid.uuid4().hex[:12]}"
    body = {"query_text": text, "namespaces": [KB], **fields}
    response = client.post("/v1/rag/query", json=body, headers={"X-Request-ID": trace_id, "Cache-Control": "no-cache"})
    assert response.status_code == 200, response.text
    assert response.headers["X-Request-ID"] == trace_id
    return trace_id, response.json()


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
        empty = asked(corpus, filters=filters, fallback=fallback, retrieve=retrieve)
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


class DescribeTheBreaker:
    FAILURES = 5  # CHORDWISE_BREAKER_FAILURES

    def it_leaves_a_source_alone_that_timed_out_again_and_again_and_raises_an_alert(self, use, api):
        before = {
            name: figure_of(use, name, **labels)
            for name, labels in (("recall_timeout_count", {"source": "api"}), OPENED)
        }
        api.answers["/crm"] = slowly(1.0, SAME)
        with gateway(make_tenant(use)[1]) as client:
            upload(client, KB, DOCUMENTS)
            with_api(client, api, timeout_ms=2000)
            hanging = {"timeout_ms": 100, "retry": 0, "options": {"source": "crm"}}
            channels = {"keyword": {"timeout_ms": 2000}, "semantic": {"timeout_ms": 2000}, "api": hanging}
            seen = [asked(client, f"pump oil {n}", retrieve={"channels": channels}) for n in range(self.FAILURES)]
            # Either the channel or the caller of the API is the first to see that the time is over.
            assert {codes(answer)["api"] for answer in seen} <= {"timeout", "api_source_unavailable"}

            def left_alone() -> dict[str, Any] | None:
                calls = len(api.asked)
                answer = asked(client, "pump oil again", retrieve={"channels": channels})
                return answer if codes(answer) == {"api": "circuit_open"} and len(api.asked) == calls else None

            # Every process looks at the circuits once a second.
            assert "oil" in found_documents(eventually(left_alone, within_s=5.0))
            told("circuit_opened", alert=True, channel="api", failures=self.FAILURES)
            timeouts = before["recall_timeout_count"] + self.FAILURES
            eventually(lambda: (figure(client, "recall_timeout_count", source="api") or 0.0) >= timeouts)
            eventually(lambda: (figure(client, OPENED[0], **OPENED[1]) or 0.0) > before[OPENED[0]])

    def it_lets_no_tenant_close_a_source_to_others(self, corpus, api):
        with_api(corpus, api)
        answer = asked(corpus, retrieve={"channels": {**PATIENT, "api": {"timeout_ms": 2000}}})
        assert codes(answer) == {}


OPENED = ("chordwise_breaker_changes_total", {"part": "api", "state": "open"})


def figure_of(use: Resources, name: str, **labels: str) -> float:
    with gateway(make_tenant(use)[1]) as client:
        return figure(client, name, **labels) or 0.0


def codes(answer: dict[str, Any]) -> dict[str, str]:
    return {lost["part"]: lost["code"] for lost in answer["stats"]["degradations"]}


ARMS = [
    {"name": "control"},
    {
        "name": "words",
        "overrides": {
            "top_k": 1,
            "retrieve": {"channels": {"keyword": {"weight": 1.0}, "semantic": {"weight": 0.0}}},
        },
    },
]


@pytest.mark.usefixtures("experiments")
class DescribeExperiments:
    @pytest.fixture
    def experiment(self, corpus) -> Iterator[str]:
        name = f"weights-{uuid.uuid4().hex[:8]}"
        stored = corpus.put(f"/v1/experiments/{name}", json={"experiment": {"arms": ARMS}})
        assert stored.status_code == 200, stored.text
        yield name
        corpus.delete(f"/v1/experiments/{name}")

    def it_draws_the_same_bucket_for_a_session_every_time_and_changes_weights_and_sources(self, corpus, experiment):
        fields = {"experiment_id": experiment, "rerank": OFF}
        seen: dict[str, set[str]] = {}
        for session in [f"s{n}" for n in range(10)] * 2:
            _, answer = traced(corpus, session_id=session, **fields)
            bucket = answer["stats"]["experiment_bucket"]
            seen.setdefault(session, set()).add(bucket)
            channels = {"control": ["keyword", "semantic"], "words": ["keyword"]}[bucket]
            assert answer["query"]["channels"] == channels
            assert (len(answer["chunks"]) == 1) == (bucket == "words")
        assert {len(buckets) for buckets in seen.values()} == {1}
        assert set.union(*seen.values()) == {"control", "words"}

    def it_tells_log_metrics_and_audit_what_came_of_it(self, corpus, experiment, tenant_id):
        labels = {"outcome": "answered"}
        before = figure(corpus, "recall_experiment_result", **labels) or 0.0
        buckets_before = figure(corpus, "recall_experiment_bucket") or 0.0
        answers = [traced(corpus, experiment_id=experiment, session_id=f"s{n}") for n in range(6)]
        trace_id, answer = answers[0]
        [line] = told("recall_experiment_result", trace_id=trace_id)
        stats = answer["stats"]
        assert (line["experiment_id"], line["experiment_bucket"]) == (experiment, stats["experiment_bucket"])
        assert (line["tenant_id"], line["session_id"], line["outcome"]) == (tenant_id, "s0", "answered")
        assert (line["latency_ms"], line["chunks"]) == (stats["latency_ms"]["total"], len(answer["chunks"]))
        assert (line["config_version"], line["confidence"]) == (1, answer["chunks"][0]["confidence"])
        row = audited(corpus, trace_id)
        assert (row["detail"]["experiment_id"], row["detail"]["experiment_bucket"], row["detail"]["outcome"]) == (
            experiment,
            stats["experiment_bucket"],
            "answered",
        )
        eventually(lambda: (figure(corpus, "recall_experiment_result", **labels) or 0.0) >= before + 6)
        assert (figure(corpus, "recall_experiment_bucket") or 0.0) >= buckets_before + 6

    def it_compares_the_searches_of_every_bucket(self, corpus, experiment):
        lost = {"retrieve": {"channels": {"api": {"options": {"source": "nowhere"}}}}}
        nothing = {"filters": {"type": "nowhere"}, "fallback": {"hint": "Call."}}
        expected: dict[str, list[float]] = {"control": [], "words": []}
        for n, fields in enumerate([{}, {}, {}, {}, lost, nothing]):
            _, answer = traced(corpus, experiment_id=experiment, session_id=f"s{n}", **fields)
            expected[answer["stats"]["experiment_bucket"]].append(answer["stats"]["latency_ms"]["total"])

        def counted() -> dict[str, dict[str, Any]]:
            found = corpus.get(f"/v1/experiments/{experiment}/results").json()["buckets"]
            done = sum(each["searches"] for each in found) == 6
            return {each["bucket"]: each for each in found} if done else {}

        results = eventually(counted)
        assert list(results) == ["control", "words"]
        for bucket, times in expected.items():
            assert results[bucket]["searches"] == len(times)
            mean = pytest.approx(math.fsum(times) / len(times), abs=0.01) if times else None
            assert results[bucket]["mean_latency_ms"] == mean
        totals = {
            name: sum(each[name] for each in results.values()) for name in ("failed", "empty", "degraded", "cached")
        }
        assert totals == {"failed": 0, "empty": 1, "degraded": 1, "cached": 0}

    def it_keeps_what_came_of_it_when_the_experiment_is_gone_and_to_its_tenant(self, corpus, experiment, use):
        trace_id, answer = traced(corpus, experiment_id=experiment, session_id="s0")
        audited(corpus, trace_id)
        path = f"/v1/experiments/{experiment}/results"
        assert corpus.delete(f"/v1/experiments/{experiment}").status_code == 204
        [only] = corpus.get(path).json()["buckets"]
        assert (only["bucket"], only["searches"]) == (answer["stats"]["experiment_bucket"], 1)
        with gateway(make_tenant(use)[1]) as other:
            assert other.get(path).status_code == 404


class DescribeConfiguration:
    def it_holds_at_once_names_its_version_in_results_and_logs_and_is_taken_back(self, client):
        upload(client, KB, DOCUMENTS)
        for top_k in (1, 2):
            stored = client.put("/v1/profiles/mine", json={"config": {"top_k": top_k}})
            assert stored.json()["config_version"] == top_k
            trace_id, answer = traced(client, "cooling pump", profile="mine")
            assert (len(answer["chunks"]), answer["stats"]["config_version"]) == (top_k, top_k)
            [line] = told("query_answered", trace_id=trace_id)
            assert (line["profile"], line["config_version"]) == ("mine", top_k)
        assert client.post("/v1/profiles/mine/rollback").json()["config_version"] == 1
        _, answer = traced(client, "cooling pump", profile="mine")
        assert (len(answer["chunks"]), answer["stats"]["config_version"]) == (1, 1)

    def it_refuses_a_configuration_that_could_not_work(self, client):
        bad = {"retrieve": {"channels": {"milvus": {"weight": 1.0}, "keyword": {"timeout_ms": 1}}}}
        refused = client.put("/v1/profiles/mine", json={"config": bad})
        assert refused.status_code == 422
        places = {place["pointer"] for place in refused.json()["errors"]}
        assert "/config/retrieve/channels/keyword/timeout_ms" in places
        assert client.get("/v1/profiles/mine").status_code == 404


class DescribeResults:
    def it_gives_hits_with_source_score_confidence_reason_content_and_metadata(self, corpus):
        trace_id, answer = traced(corpus, session_id="session-1", top_k=5)
        assert 0 < len(answer["chunks"]) <= 5
        for hit in answer["chunks"]:
            assert hit["source"] in {each["channel"] for each in hit["sources"]}
            assert isinstance(hit["score"], float)
            assert 0 <= hit["confidence"] <= 1
            assert f"{hit['source']}: " in hit["reason"]
            assert hit["text"]
            assert hit["metadata"]["generation"] == 1
        assert (answer["stats"]["degraded"], answer["stats"]["experiment_bucket"]) == (False, None)
        assert answer["stats"]["latency_ms"]["total"] > 0
        assert audited(corpus, trace_id)["detail"]["query_id"] == answer["query_id"]

    def it_writes_the_fields_operators_look_for_under_one_trace_id(self, corpus):
        trace_id, answer = traced(corpus, session_id="session-1", experiment_id="none-such")
        [whole] = told("query_answered", trace_id=trace_id)
        sources = told("channel_answered", trace_id=trace_id, least=2)
        for line in (whole, *sources):
            assert {"trace_id", "experiment_id", "session_id", "source", "score", "latency_ms", "status"} <= set(line)
            assert (line["session_id"], line["experiment_id"]) == ("session-1", "none-such")
        assert {line["source"]: line["status"] for line in sources} == {"keyword": "ok", "semantic": "ok"}
        assert whole["score"] == pytest.approx(answer["chunks"][0]["score"], abs=1e-4)

    @pytest.mark.parametrize(
        "name",
        [
            "recall_total_latency_ms_count",
            "recall_source_latency_ms_count",
            "recall_success_rate",
            "recall_degrade_count",
        ],
    )
    def it_counts_under_the_names_of_the_design(self, corpus, name):
        traced(corpus, retrieve={"channels": {"api": {"options": {"source": "nowhere"}}}})
        found = eventually(lambda: figure(corpus, name))
        assert found is not None
        assert found > 0

    def it_watches_failures_timeouts_and_losses_with_alerts(self):
        watched = {rule["alert"]: rule["expr"] for rule in RULES}
        assert "recall_timeout_count" in watched["SourceTimesOut"]
        assert "recall_degrade_count" in watched["DegradedAnswersSpike"]
        assert "chordwise_queries_total" in watched["RetrievalFails"]

    def it_describes_request_hit_and_result_in_openapi(self, corpus):
        schemas = corpus.get("/openapi.json").json()["components"]["schemas"]
        request, hit, stats = (schemas[name]["properties"] for name in ("QueryRequest", "AnswerChunk", "Stats"))
        assert {"query_text", "session_id", "experiment_id", "top_k"} <= set(request)
        assert {"source", "score", "confidence", "reason", "text", "metadata"} <= set(hit)
        assert {"latency_ms", "degraded", "degradations", "experiment_bucket", "config_version"} <= set(stats)
        assert schemas["Answer"]["properties"]["chunks"]["items"] == {"$ref": "#/components/schemas/AnswerChunk"}
        assert {"searches", "empty", "degraded", "mean_latency_ms"} <= set(schemas["ArmResult"]["properties"])
