"""Recall orchestration: breakers, experiments, configurations and results, in the design's own names."""

from __future__ import annotations

import math
import os
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from pipeline.resources import Resources
from tests.conftest import gateway, make_tenant
from tests.support.clients.operating import audited, eventually, figure
from tests.support.corpora.cooling_pump import DOCUMENTS, KB, OFF, PATIENT, QUESTION, SAME, asked, with_api
from tests.support.corpora.documents import found_documents, upload
from tests.support.servers.business_api import slowly
from tests.support.stacks.stack_logs import told
from tests.unit.test_alerts import RULES


@pytest.fixture
def experiments() -> None:
    if os.environ.get("CHORDWISE_RECALL_EXPERIMENT_PLATFORM") != "internal":
        pytest.fail("set CHORDWISE_RECALL_EXPERIMENT_PLATFORM=internal as make test does", pytrace=False)


def traced(client: httpx.Client, text: str = QUESTION, **fields: Any) -> tuple[str, dict[str, Any]]:
    """A trace id of the caller's, and the answer under it."""
    trace_id = f"s1-{uuid.uuid4().hex[:12]}"
    body = {"query_text": text, "namespaces": [KB], **fields}
    response = client.post("/v1/rag/query", json=body, headers={"X-Request-ID": trace_id, "Cache-Control": "no-cache"})
    assert response.status_code == 200, response.text
    assert response.headers["X-Request-ID"] == trace_id
    return trace_id, response.json()


class DescribeTheBreaker:
    FAILURES = 5  # CHORDWISE_BREAKER_FAILURES

    @pytest.mark.thorough
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
            named = [each["channel"] for each in hit["sources"] if each["rank"] is not None]
            assert hit["source"] == ("both" if len(named) == 2 else named[0])
            assert isinstance(hit["score"], float)
            assert 0 <= hit["confidence"] <= 1
            assert all(f"{name}: " in hit["reason"] for name in named)
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
