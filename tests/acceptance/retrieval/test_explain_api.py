"""Why an answer is as it is, as somebody new asks it: traces, and the same with other settings."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import httpx
import pytest

from pipeline.resources import Resources
from tests.conftest import gateway, make_tenant
from tests.support.clients.gateway_client import problem
from tests.support.corpora.documents import document, search, upload
from tests.support.corpora.explaining import NO_RERANK, TEA, ask, chunk_of, traced, untraced, verdict, why


@pytest.fixture(scope="module")
def client(use: Resources) -> Iterator[httpx.Client]:
    """One for the file: its tests only ask."""
    with gateway(make_tenant(use)[1]) as found:
        yield found


@pytest.fixture(scope="module")
def tea(client: httpx.Client) -> str:
    """Where the documents about tea are."""
    upload(client, "tea", TEA)
    return "tea"


class DescribeATrace:
    def it_accounts_for_every_place_by_its_numbers(self, client, tea):
        answer = ask(
            client, tea, "green tea water", retrieve={"time_decay": {"half_life_days": 365}}, enable_rerank=True
        )
        trace = traced(client, answer)
        stages = {each["stage"]: each["hits"] for each in trace["stages"]}
        assert list(stages) == ["fuse", "decay", "rerank", "select"]
        for hit in stages["fuse"]:
            assert hit["fused"] == pytest.approx(
                sum(part["contribution"] for part in hit["contributions"]) + hit["feedback"], abs=1e-6
            )
        for hit in stages["decay"]:
            assert hit["score"] == pytest.approx(hit["fused"] * (1.0 if hit["decay"] is None else hit["decay"]))
        before = {hit["chunk_id"]: hit["score"] for hit in stages["decay"]}
        weight, best = trace["rerank_weight"], max(before.values())
        for hit in stages["rerank"]:
            mixed = (1 - weight) * before[hit["chunk_id"]] + weight * best * hit["rerank"]
            assert hit["score"] == pytest.approx(mixed)
            assert stages["decay"][hit["from_rank"] - 1]["chunk_id"] == hit["chunk_id"]
        for hits in stages.values():
            assert [hit["score"] for hit in hits] == sorted((hit["score"] for hit in hits), reverse=True)
        assert trace["returned"] == [chunk["chunk_id"] for chunk in answer["chunks"]]
        assert [hit["chunk_id"] for hit in stages["select"]] == trace["returned"]
        assert [hit["score"] for hit in stages["select"]] == [chunk["score"] for chunk in answer["chunks"]]

    def it_shows_what_every_channel_recalled_and_that_contributions_follow_from_it(self, client, tea):
        answer = ask(client, tea, "green tea", retrieve={"fusion": {"strategy": "rrf", "k": 10}}, rerank=NO_RERANK)
        trace = traced(client, answer)
        ranks = {
            name: {hit["chunk_id"]: hit["rank"] for hit in said["hits"]} for name, said in trace["channels"].items()
        }
        assert {name: said["status"] for name, said in trace["channels"].items()} == {"keyword": "ok", "semantic": "ok"}
        for hit in trace["stages"][0]["hits"]:
            for part in hit["contributions"]:
                assert part["rank"] == ranks[part["channel"]][hit["chunk_id"]]
                weight = trace["channels"][part["channel"]]["weight"]
                assert part["contribution"] == pytest.approx(weight / (10 + part["rank"]))
        assert trace["plan"]["retrieve"]["fusion"]["k"] == 10
        assert {"total", "fuse", "hydrate"} <= trace["timings_ms"].keys()

    def it_says_it_in_words_and_holds_no_passage(self, client, tea):
        answer = ask(client, tea, "green tea", enable_rerank=True)
        trace = traced(client, answer)
        assert len(trace["explained"]) == len(answer["chunks"])
        for place, (said, chunk) in enumerate(zip(trace["explained"], answer["chunks"], strict=True), start=1):
            assert said.startswith(f"{place}. {chunk['document_id']}: ")
            assert said.endswith(f"Its score is {chunk['score']:.4f}.")
            for source in chunk["sources"]:
                assert f"{source['channel']} " in said
                assert f"adding {source['contribution']:.4f}" in said
            assert f"reading it scored {chunk['rerank']['score']:.3f}" in said
        raw = client.get(f"/v1/queries/{answer['query_id']}/trace").text
        assert "eighty degrees" not in raw
        assert "green tea" in raw

    @pytest.mark.thorough
    def it_tells_what_a_second_retrieval_did(self, client, namespace):
        upload(client, namespace, [document(f"d{n}", f"Pump number {n} of the cooling tower.") for n in range(12)])
        how = {"allocation": "balanced", "second": {"min_score": 1.0, "pool": 50}}
        trace = traced(client, ask(client, namespace, "cooling pump", top_k=11, retrieve=how, rerank=NO_RERANK))
        assert {each["round"] for each in trace["stages"]} == {1, 2}
        assert trace["second"]["hits_after"] == 11
        recalled = {hit["chunk_id"] for said in trace["channels"].values() for hit in said["hits"]}
        assert recalled >= set(trace["returned"])

    @pytest.mark.thorough
    def it_tells_that_a_second_retrieval_asked_the_channel_that_a_route_left_out(self, client, tea):
        how = {"second": {"min_hits": 1, "method": "hybrid"}}
        answer = ask(client, tea, "PPR-9087", retrieve=how, understand={"router": "rules"})
        trace = traced(client, answer)
        assert trace["second"]["changed"] == {"method": "hybrid"}
        assert set(trace["channels"]) == {"keyword", "semantic"}
        recalled = {hit["chunk_id"] for hit in trace["channels"]["semantic"]["hits"]}
        assert recalled >= set(trace["returned"]) != set()

    def it_is_kept_for_queries_that_asked_for_it(self, client, tea):
        without = untraced(client, tea, "green tea")
        problem(client.get(f"/v1/queries/{without['query_id']}/trace"), 404, "trace_not_kept")
        problem(client.get(f"/v1/queries/{uuid.uuid4()}/trace"), 404, "query_not_found")
        problem(client.get("/v1/queries/none/trace"), 404, "query_not_found")

    def it_comes_with_the_answer_of_debug(self, client, tea):
        body = {"query_text": "green tea", "namespaces": [tea]}
        answer = client.post("/v1/rag/debug", json=body).json()
        assert answer["trace"] == traced(client, answer)
        assert answer["trace"]["returned"] == [chunk["chunk_id"] for chunk in answer["chunks"]]
        plain = search(client, tea, "green tea")
        assert [chunk["chunk_id"] for chunk in plain["chunks"]] == answer["trace"]["returned"]

    def it_shows_a_query_that_no_channel_was_asked(self, client, tea):
        answer = ask(client, tea, "hello", understand={"router": "rules"})
        assert answer["chunks"] == []
        finding = why(client, answer, chunk_of(client, tea, "green"))
        assert verdict(finding) == ("route", "searched_nowhere")


class DescribeReplay:
    def it_compares_both_answers_and_the_settings(self, client, tea):
        answer = ask(client, tea, "green tea water", rerank=NO_RERANK, trace=False)
        changed = {"retrieve": {"channels": {"keyword": {"weight": 0.0}}}, "top_k": 2}
        replayed = client.post(f"/v1/queries/{answer['query_id']}/replay", json={"plan": changed}).json()
        assert replayed["of"] == answer["query_id"] != replayed["query_id"]
        told = replayed["difference"]
        settings = {each["pointer"]: (each["before"], each["after"]) for each in told["plan"]}
        before = settings.pop("/retrieve/channels/keyword/weight")
        assert before[1] == 0.0 < before[0]
        assert settings == {"/top_k": (10, 2)}
        first = [chunk["chunk_id"] for chunk in answer["chunks"]]
        second = [chunk["chunk_id"] for chunk in replayed["answer"]["chunks"]]
        assert [each["chunk_id"] for each in told["removed"]] == [each for each in first if each not in second]
        assert told["overlap"] == pytest.approx(len(set(first) & set(second)) / len(first), abs=1e-4)
        for each in told["moved"]:
            assert (first[each["from"] - 1], second[each["to"] - 1]) == (each["chunk_id"], each["chunk_id"])
            assert each["contributions"]["keyword"]["after"] is None
        assert traced(client, replayed["answer"])["plan"]["top_k"] == 2

    def it_shows_which_contributions_moved_a_chunk(self, client, namespace):
        upload(
            client,
            namespace,
            [
                document("words", "tea tea tea tea"),
                document("meaning", "How to brew a good cup of green tea at home"),
                document("other", "The pump of the cooling tower"),
            ],
        )
        text = "How to brew a good cup of green tea at home"
        answer = ask(client, namespace, text, rerank=NO_RERANK)
        same = client.post(f"/v1/queries/{answer['query_id']}/replay", json={}).json()["difference"]
        assert (same["overlap"], same["same_order"], same["moved"], same["plan"]) == (1.0, True, [], [])

    @pytest.mark.thorough
    def it_reads_hits_of_two_namespaces_together(self, client, tea):
        other = f"{tea}-other"
        upload(client, other, TEA)
        answer = ask(client, [tea, other], "green tea")
        plan = {"rerank": {"enabled": False}, "retrieve": {"second": {"min_hits": 100, "rerank": False}}}
        replayed = client.post(f"/v1/queries/{answer['query_id']}/replay", json={"plan": plan}).json()["answer"]
        assert len(replayed["stats"]["remarks"]) == 2
        assert replayed["chunks"]
        assert all(chunk["rerank"] for chunk in replayed["chunks"])

    @pytest.mark.thorough
    def it_starts_from_what_was_asked_and_not_from_what_a_router_made_of_it(self, client, namespace):
        upload(client, namespace, [document("valve", "The valve PPR-9087 opens late.")])
        answer = ask(client, namespace, "PPR-9087", understand={"router": "rules"})
        assert answer["stats"]["remarks"] == ["searched by full_text alone: an identifier"]
        path = f"/v1/queries/{answer['query_id']}/replay"
        replayed = client.post(path, json={"plan": {"understand": {"router": "off"}}}).json()
        assert [each["pointer"] for each in replayed["difference"]["plan"]] == ["/understand/router"]
        assert replayed["answer"]["stats"]["remarks"] == []
        assert set(traced(client, replayed["answer"])["channels"]) == {"keyword", "semantic"}
        again = client.post(path, json={"plan": {}}).json()
        assert again["difference"]["plan"] == []
        assert again["answer"]["stats"]["remarks"] == answer["stats"]["remarks"]

    @pytest.mark.thorough
    def it_replays_what_was_searched_nowhere(self, client, tea):
        answer = ask(client, tea, "hello", understand={"router": "rules"})
        path = f"/v1/queries/{answer['query_id']}/replay"
        replayed = client.post(path, json={"plan": {"understand": {"router": "off"}}}).json()
        assert replayed["answer"]["chunks"]

    def it_refuses_what_is_no_plan_and_what_would_unmask(self, client, tea):
        answer = ask(client, tea, "green tea")
        path = f"/v1/queries/{answer['query_id']}/replay"
        refused = problem(client.post(path, json={"plan": {"top_k": 0}}), 422, "invalid_request")
        assert refused["errors"][0]["pointer"] == "/plan/top_k"
        unmasked = {"plan": {"privacy": {"mask_answers": False}}}
        assert (
            problem(client.post(path, json=unmasked), 422, "invalid_request")["errors"][0]["pointer"] == "/plan/privacy"
        )


class DescribeOthers:
    def it_knows_no_query_and_no_chunk_of_another_tenant(self, client, tea, use):
        answer = ask(client, tea, "green tea")
        mine = answer["chunks"][0]["chunk_id"]
        _, key = make_tenant(use)
        with gateway(key) as other:
            path = f"/v1/queries/{answer['query_id']}"
            problem(other.get(f"{path}/trace"), 404, "query_not_found")
            problem(other.post(f"{path}/why-not", json={"chunk_id": mine}), 404, "query_not_found")
            problem(other.post(f"{path}/replay", json={"plan": {}}), 404, "query_not_found")
            upload(other, "theirs", [document("d", "Green tea of theirs.")])
            theirs = ask(other, "theirs", "green tea")
            asked = {"chunk_id": mine}
            problem(other.post(f"/v1/queries/{theirs['query_id']}/why-not", json=asked), 404, "chunk_not_found")

    @pytest.mark.parametrize("chunk_id", ["none", "b7e23ec2-9af2-4f0e-8c5e-0d5b4a6f7c11"])
    def it_refuses_ids_of_nothing(self, client, tea, chunk_id):
        answer = ask(client, tea, "green tea")
        asked = client.post(f"/v1/queries/{answer['query_id']}/why-not", json={"chunk_id": chunk_id})
        problem(asked, 404, "chunk_not_found")

    def it_waits_for_the_answer(self, client, tea, use):
        body = {"query_text": "green tea", "namespaces": [tea], "trace": True}
        codes = set()
        for n in range(20):  # the answer may be faster than the next request
            asked = client.post("/v1/queries", json={**body, "query_text": f"green tea {n}"}).json()["query_id"]
            early = client.get(f"/v1/queries/{asked}/trace")
            codes.add(early.status_code)
            if early.status_code == 409:
                problem(early, 409, "query_not_answered")
                break
        assert codes <= {200, 409}
