"""Query options for decay, selection, the threshold ladder and a second retrieval, through gateway and workers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from pipeline.records import QueryId, TenantId
from pipeline.retrieval.make_channels import make_channels
from tests.conftest import gateway, make_tenant
from tests.support.corpora.documents import document, found_documents, search, until_indexed, upload
from tests.support.stacks.corner import timeless
from tests.support.stacks.one_query import ask_in_process

NO_RERANK = {"enabled": False}


def days_ago(days: float) -> str:
    return (datetime.now(UTC) - timedelta(days=days)).isoformat()


@pytest.fixture(scope="module")
def known(use) -> Iterator[tuple[TenantId, httpx.Client]]:
    """A tenant whose id is known here, and the gateway with its key; it has a dozen documents in the namespace `kb`."""
    tenant_id, key = make_tenant(use)
    with gateway(key) as found:
        teas = [
            document(f"d{n}", f"Green tea number {n % 5} 绿茶水温. " * (n % 3 + 1), published_at=days_ago(n * 11))
            for n in range(12)
        ]
        upload(found, "kb", teas)
        until_indexed(found, "kb")
        yield tenant_id, found


class DescribeTimeDecay:
    def it_prefers_the_newer_document_by_half_life(self, client, namespace):
        same = "The gearbox of the turbine needs oil once a year."
        upload(
            client,
            namespace,
            [
                document("a-old", same, published_at=days_ago(90)),
                document("b-new", same, published_at=days_ago(0.1)),
            ],
        )
        plain = search(client, namespace, "turbine gearbox oil", rerank=NO_RERANK)
        assert {chunk["decay"] for chunk in plain["chunks"]} == {None}
        found = search(
            client, namespace, "turbine gearbox oil", retrieve={"time_decay": {"half_life_days": 30}}, rerank=NO_RERANK
        )
        assert found_documents(found) == ["b-new", "a-old"]
        new, old = found["chunks"]
        assert old["decay"] == pytest.approx(0.125, rel=0.01)
        assert old["score"] == pytest.approx(new["score"] * 0.125, rel=0.02)

    def it_follows_story_time_as_a_novel_needs_it(self, client, namespace):
        same = "The captain leaves the harbour at night."
        upload(
            client,
            namespace,
            [
                document("early", same, story_time=1_000_000),
                document("late", same, story_time=1_999_000),
                document("future", same, story_time=2_000_001),
            ],
        )
        found = search(
            client,
            namespace,
            "captain harbour",
            story_time=2_000_000,
            retrieve={"time_decay": {"shape": "hyperbolic", "by": "story_time"}},
            rerank=NO_RERANK,
        )
        assert [(chunk["document_id"], round(chunk["decay"], 3)) for chunk in found["chunks"]] == [
            ("late", 0.999),
            ("early", 0.5),
        ]


class DescribeSelectionOverHttp:
    def it_caps_what_one_document_may_give(self, client, namespace):
        long = "\n\n".join(f"Reactor coolant note {n}. " + "coolant loop detail " * 40 for n in range(8))
        upload(
            client,
            namespace,
            [document("long", long), document("short", "Reactor coolant."), document("more", "Coolant of a reactor.")],
        )
        asked = {"top_k": 4, "rerank": NO_RERANK}
        capped = search(client, namespace, "reactor coolant", retrieve={"selection": {"per_document": 1}}, **asked)
        assert sorted(chunk["document_id"] for chunk in capped["chunks"]) == ["long", "more", "short"]

    def it_returns_the_same_text_once(self, client, namespace):
        upload(client, namespace, [document("a", "Brew green tea at 80."), document("b", "BREW green  tea at 80.")])
        found = search(client, namespace, "green tea", retrieve={"selection": {"dedupe": "content"}})
        assert len(found["chunks"]) == 1
        assert "stands for 1 more" in found["chunks"][0]["reason"]


class DescribeTheLadderOverHttp:
    def it_ends_at_the_rung_that_is_reached(self, client, namespace):
        texts = ["reset the controller with the red button", "a button resets a controller", "whales sing in water"]
        upload(client, namespace, [document(f"d{n}", text) for n, text in enumerate(texts)])
        found = search(
            client,
            namespace,
            texts[0],
            retrieve={"method": "semantic", "ladder": {"thresholds": [0.99, 0.4, 0.3], "min_results": 2}},
        )
        assert found["stats"]["ladder"] == {"threshold": 0.4, "hits": 2, "enough": True}
        assert set(found_documents(found)) == {"d0", "d1"}
        assert search(client, namespace, texts[0])["stats"]["ladder"] is None


class DescribeASecondRetrievalOverHttp:
    def it_is_done_by_the_worker_and_told(self, client, namespace):
        upload(client, namespace, [document(f"d{n}", f"Pump number {n} of the cooling tower.") for n in range(12)])
        found = search(
            client,
            namespace,
            "cooling tower pump",
            top_k=11,
            retrieve={"allocation": "balanced", "second": {"min_score": 1.0, "pool": 50}},
            rerank=NO_RERANK,
        )
        second = found["stats"]["second"]
        assert (second["changed"], second["hits_after"], len(found["chunks"])) == ({"pool": 50}, 11, 11)
        assert second["reason"].startswith("min_score: ")
        assert not found["stats"]["degraded"]


@pytest.mark.calm
class DescribeTheSamePipelineInOneProcess:
    @pytest.mark.parametrize(
        "asked",
        [
            {},
            {"retrieve": {"fusion": {"strategy": "rrf"}}, "trace": True},
            {
                "retrieve": {
                    "time_decay": {"half_life_days": 30},
                    "selection": {"dedupe": "content", "per_document": 2, "diversity": 0.3, "quality": {"enough": 3}},
                    "ladder": {"thresholds": [0.6, 0.0], "min_results": 4},
                }
            },
        ],
    )
    def it_gives_the_same_bytes_as_the_chord(self, use, known, asked):
        tenant_id, client = known
        accepted = client.post("/v1/queries", json={"query_text": "green tea 水温", "namespaces": ["kb"], **asked})
        query_id = accepted.json()["query_id"]
        by_chord = client.get(f"/v1/queries/{query_id}", params={"wait": 10})
        assert by_chord.json()["status"] == "succeeded"
        assert not by_chord.json()["stats"]["degraded"], "a busy machine lost a channel; there is nothing to compare"
        state = use.queries(tenant_id).state(QueryId(query_id))
        query = replace(state.query, deadline_at=time.time() + 10)
        ask_in_process(query, use, make_channels(use))  # loads the model, which takes longer than a channel has
        in_process = ask_in_process(replace(query, deadline_at=time.time() + 10), use, make_channels(use))
        assert timeless(in_process) == timeless(by_chord.content)
