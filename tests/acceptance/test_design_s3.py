"""The knowledge kernel (S3): one pipeline for any number of namespaces, chunks that can be edited, answers as Markdown."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from chordwise import Chordwise
from chordwise.agents.knowledge import Knowledge
from chordwise.errors import InvalidInput
from chordwise.prompting import format_markdown
from pipeline.resources import Resources
from tests.conftest import gateway, make_tenant
from tests.support.documents import document, search, upload
from tests.support.gateway_client import pointers, problem

PUMPS = "# Pumps\n\n" + "\n\n".join(
    f"Step {n}: open valve {n} of the pump and wait until it is still." for n in range(24)
)
SENTENCES = "The fox hunts at night. The owl sees in the dark. The hare runs over the field. The cat naps all day."
MARKDOWN = {"media_type": "text/markdown", "uri": "https://example.com/pumps.md"}
FAMILY = {"strategy": "parent_child", "max_tokens": 32, "parent_tokens": 128}
WINDOW = {"strategy": "window", "window": 1}
BOTH = ["kb_pumps", "kb_animals"]


@pytest.fixture(scope="module")
def kernel(use: Resources) -> Iterator[httpx.Client]:
    """The gateway with the key of a tenant with two knowledge bases: one with parents, one with windows."""
    with gateway(make_tenant(use)[1]) as client:
        pumps = document(
            "pumps", PUMPS, title="Pump manual", tags=["manual"], source=MARKDOWN, metadata={"site": "north"}
        )
        upload(client, "kb_pumps", [pumps], chunking=FAMILY)
        animals = [
            document("animals", SENTENCES, title="Animals"),
            document("valves", "A valve of the heart is no pump."),
        ]
        upload(client, "kb_animals", animals, chunking=WINDOW)
        yield client


def ask(client: httpx.Client, question: str, namespaces: list[str], **fields: Any) -> dict[str, Any]:
    return search(client, namespaces, question, **{"profile": "knowledge", **fields})


def trace_of(client: httpx.Client, answer: dict[str, Any]) -> dict[str, Any]:
    return dict(client.get(f"/v1/queries/{answer['query_id']}/trace").raise_for_status().json())


def listed(client: httpx.Client, namespace: str, **more: Any) -> list[dict[str, Any]]:
    answer = client.get("/v1/chunks", params={"namespace": namespace, "limit": 200, **more})
    assert answer.status_code == 200, answer.text
    return list(answer.json()["data"])


def aligned(client: httpx.Client) -> bool:
    report = client.post("/v1/verify", json={}).json()
    kinds = ("missing", "orphaned", "stale", "misplaced", "miscounted", "leftover", "statistics", "document_vectors")
    return all(report[kind] == 0 for kind in kinds)


class DescribeNamespaces:
    def it_searches_only_those_the_caller_has_bound(self, kernel):
        for bound in (["kb_animals"], ["kb_pumps"], BOTH):
            answer = ask(kernel, "valve of the pump", bound, top_k=50)
            assert {each["namespace"] for each in answer["chunks"]} == set(bound)

    def it_demands_at_least_one_for_a_search_and_exactly_one_for_a_write(self, kernel):
        for body in ({"query_text": "valve"}, {"query_text": "valve", "namespaces": []}):
            assert pointers(problem(kernel.post("/v1/queries", json=body), 422, "invalid_request")) == ["/namespaces"]
        sent = {"documents": [document("d", "text")]}
        assert pointers(problem(kernel.post("/v1/documents", json=sent), 422, "invalid_request")) == ["/namespace"]
        several = {**sent, "namespace": BOTH}
        assert pointers(problem(kernel.post("/v1/documents", json=several), 422, "invalid_request")) == ["/namespace"]

    def it_names_those_that_do_not_exist(self, kernel):
        body = {"query_text": "valve", "namespaces": ["kb_pumps", "kb_gone", "kb_lost"], "profile": "knowledge"}
        found = problem(kernel.post("/v1/queries", json=body), 404, "namespace_not_found")
        assert pointers(found) == ["/namespaces/1", "/namespaces/2"]

    def it_routes_once_for_all_of_them(self, kernel):
        one = ask(kernel, "How do I open valve 7 of the pump?", ["kb_pumps"], trace=True)
        both = ask(kernel, "How do I open valve 7 of the pump?", BOTH, trace=True)
        understood = [trace_of(kernel, each)["query"]["understood"] for each in (one, both)]
        assert understood[0] == understood[1]
        assert understood[0]["route"] == "hybrid"
        assert set(trace_of(kernel, both)["channels"]) == {"keyword", "semantic"}, "one list a channel, whatever N is"

    def it_reranks_several_together_even_when_asked_not_to(self, kernel):
        remark = "rerank stays on: hits of several namespaces are comparable only when they are read together"
        both = ask(kernel, "valve of the pump", BOTH, enable_rerank=False)
        assert both["query"]["enable_rerank"] is True
        assert remark in both["stats"]["remarks"]
        assert all(each["rerank"] is not None for each in both["chunks"])
        one = ask(kernel, "valve of the pump", ["kb_pumps"], enable_rerank=False)
        assert one["query"]["enable_rerank"] is False
        assert remark not in one["stats"]["remarks"]
        assert all(each["rerank"] is None for each in one["chunks"])


class DescribeOverrides:
    @pytest.mark.parametrize(
        ("method", "channels"),
        [("semantic", ["semantic"]), ("full_text", ["keyword"]), ("hybrid", ["keyword", "semantic"])],
    )
    def it_searches_by_the_method_that_is_asked_for(self, kernel, method, channels):
        answer = ask(kernel, "valve of the pump", BOTH, retrieve={"method": method})
        assert (answer["query"]["method"], answer["query"]["channels"]) == (method, channels)
        assert set(answer["stats"]["hits"]) == set(channels)
        assert answer["chunks"]

    def it_changes_one_call_and_not_the_next(self, kernel):
        plain = ask(kernel, "valve 7 of the pump", ["kb_pumps"])
        asked = {"method": "semantic", "score_threshold": 0.5, "selection": {"per_document": 1}}
        changed = ask(kernel, "valve 7 of the pump", ["kb_pumps"], top_k=3, retrieve=asked, enable_rerank=False)
        assert len(plain["chunks"]) > 3
        assert len(changed["chunks"]) == 1
        assert changed["query"]["enable_rerank"] is False
        again = ask(kernel, "valve 7 of the pump", ["kb_pumps"])
        assert [each["chunk_id"] for each in again["chunks"]] == [each["chunk_id"] for each in plain["chunks"]]

    @pytest.mark.parametrize("threshold", [0.3, 0.6, 0.9])
    def it_keeps_what_reaches_the_score_threshold(self, kernel, threshold):
        whole = ask(kernel, "open valve 7", ["kb_pumps"], top_k=50)["chunks"]
        kept = ask(kernel, "open valve 7", ["kb_pumps"], top_k=50, retrieve={"score_threshold": threshold})["chunks"]
        assert [each["chunk_id"] for each in kept] == [
            each["chunk_id"] for each in whole if each["confidence"] >= threshold
        ]
        assert len(kept) < len(whole)

    def it_prefers_what_is_graded_better_when_asked(self, use):
        with gateway(make_tenant(use)[1]) as client:
            grades = ["一般", "优秀", "良好"]
            texts = [
                document(f"d{n}", f"Clean the filter{'.' * (n + 1)}", metadata={"quality_grade": each})
                for n, each in enumerate(grades)
            ]
            upload(client, "kb", [*texts, document("far", "Whales sing in the sea.")])
            quality = {"selection": {"quality": {"enough": 2}}}
            answer = ask(client, "clean the filter", ["kb"], retrieve=quality)
            assert [each["metadata"]["quality_grade"] for each in answer["chunks"]] == ["优秀", "良好"]

    def it_filters_by_metadata(self, kernel):
        for filters, namespaces in (
            ({"metadata": {"site": "north"}}, {"kb_pumps"}),
            ({"metadata": {"site": "x"}}, set()),
        ):
            answer = ask(kernel, "valve of the pump", BOTH, filters=filters)
            assert {each["namespace"] for each in answer["chunks"]} == namespaces


class DescribeRouting:
    @pytest.mark.parametrize(
        ("question", "route", "channels"),
        [
            ("thank you!", None, ["keyword", "semantic"]),
            ("PPR-9087", "full_text", ["keyword"]),
            ("find passages similar to this one about pumps", "semantic", ["semantic"]),
            ("How do I open valve 7 of the pump?", "hybrid", ["keyword", "semantic"]),
        ],
    )
    def it_decides_by_rules_whether_and_where_to_search(self, kernel, question, route, channels):
        answer = ask(kernel, question, BOTH)
        assert answer["query"]["route"] == route
        if route is None:
            assert (answer["chunks"], answer["context"]["text"]) == ([], "")
            assert answer["stats"]["remarks"][-1] == "nothing was searched: small talk"
        else:
            assert answer["query"]["channels"] == channels
        assert answer["stats"]["degraded"] is False


class DescribeTheContext:
    def it_reads_parents_and_windows_of_all_namespaces(self, kernel):
        answer = ask(kernel, "the owl sees; open valve 7 of the pump", BOTH, top_k=20, context={"max_tokens": 4000})
        context = answer["context"]["text"]
        assert "The fox hunts at night. The owl sees in the dark. The hare runs over the field." in context
        parents = {each["chunk_id"]: each["text"] for each in listed(kernel, "kb_pumps", chunk_type="parent")}
        [hit] = [each for each in answer["chunks"] if "valve 7 " in each["text"]]
        assert parents[hit["metadata"]["parent_id"]] in context
        assert all(context.count(each) <= 1 for each in parents.values()), "a parent is read once for all its children"
        assert {each["namespace"] for each in answer["context"]["citations"]} == set(BOTH)

    def it_is_markdown_within_its_budget(self, kernel):
        context = ask(kernel, "open valve 7 of the pump", BOTH)["context"]
        assert context["text"].startswith("### [1] ")
        assert context["token_count"] <= 2000
        assert "\n\n---\n\n" in context["text"]

    def it_is_rendered_by_a_pure_function_for_a_tool(self, kernel):
        answer = ask(kernel, "open valve 7 of the pump", BOTH)
        before = repr(answer)
        shown = format_markdown(answer)
        assert shown == format_markdown(answer)
        assert repr(answer) == before
        assert shown.startswith("### 1. ")
        assert shown.count("\n> `kb_") == len(answer["chunks"])
        assert not shown.lstrip().startswith(("{", "[")), "text for people and models, not JSON"
        assert format_markdown({"chunks": []}) == ""

    def it_traces_each_passage_to_its_source_and_document(self, kernel):
        hit = ask(kernel, "open valve 7 of the pump", ["kb_pumps"])["chunks"][0]
        assert (hit["document_id"], hit["title"], hit["namespace"]) == ("pumps", "Pump manual", "kb_pumps")
        metadata = hit["metadata"]
        assert (metadata["source_uri"], metadata["site"], metadata["tags"]) == (MARKDOWN["uri"], "north", ["manual"])
        assert (metadata["chunk_type"], metadata["generation"]) == ("child", 1)
        parsed = PUMPS.removeprefix("# ")  # offsets count characters of the text without its marks
        assert parsed[metadata["start"] : metadata["end"]] == hit["text"]
        [chunk] = [each for each in listed(kernel, "kb_pumps") if each["chunk_id"] == hit["chunk_id"]]
        assert (chunk["parent_id"], chunk["source_uri"]) == (metadata["parent_id"], MARKDOWN["uri"])
        shown = kernel.get("/v1/documents/pumps", params={"namespace": "kb_pumps"}).json()
        assert shown["source"]["uri"] == MARKDOWN["uri"]
        of_source = {"namespace": "kb_pumps", "source_id": shown["source"]["source_id"]}
        source = kernel.get(f"/v1/sources/{of_source['source_id']}", params={"namespace": "kb_pumps"}).json()
        assert (source["uri"], source["media_type"]) == (MARKDOWN["uri"], MARKDOWN["media_type"])
        assert {each["document_id"] for each in listed(kernel, **of_source)} == {"pumps"}
        assert (shown["metadata"], shown["tags"]) == ({"site": "north"}, ["manual"])


class DescribeRerank:
    def it_reads_no_more_than_the_top_n_and_keeps_the_others(self, kernel):
        answer = ask(kernel, "open valve 7 of the pump", ["kb_pumps"], top_k=8, rerank={"top_n": 3})
        read = [each["rerank"] is not None for each in answer["chunks"]]
        assert read == [True] * 3 + [False] * 5

    def it_keeps_originals_when_too_few_reach_its_threshold(self, kernel):
        strict = {"threshold": 1.0, "min_results": 4}
        answer = ask(kernel, "how to be still near water", ["kb_pumps"], rerank=strict, top_k=8, trace=True)
        plain = ask(kernel, "how to be still near water", ["kb_pumps"], top_k=8)
        assert len(plain["chunks"]) == 8
        assert len(answer["chunks"]) == 4, "nothing reaches 1.0, and four are to stay"
        dropped = [each for each in trace_of(kernel, answer)["drops"] if each["stage"] == "rerank"]
        assert dropped
        assert all(each["value"] < each["limit"] == 1.0 for each in dropped)


class DescribeASecondRetrieval:
    @pytest.mark.parametrize(
        "second",
        [
            {"min_hits": 3},
            {"min_score": 0.5, "min_documents": 2},
            {"pool": 300},
            {"score_threshold": 0.1, "method": "hybrid", "expand": True},
        ],
    )
    def it_is_an_error_when_it_is_configured_in_part(self, kernel, second):
        body = {"query_text": "valve", "namespaces": ["kb_pumps"], "retrieve": {"second": second}}
        assert pointers(problem(kernel.post("/v1/queries", json=body), 422, "invalid_request")) == ["/retrieve/second"]
        refused = kernel.put("/v1/profiles/half", json={"config": {"retrieve": {"second": second}}})
        assert pointers(problem(refused, 422, "invalid_request")) == ["/config/retrieve/second"]

    def it_relaxes_the_threshold_when_too_few_were_found(self, kernel):
        retrieve = {"score_threshold": 0.99, "second": {"min_hits": 3, "score_threshold": 0.0}}
        answer = ask(kernel, "open valve 7 of the pump", ["kb_pumps"], retrieve=retrieve)
        second = answer["stats"]["second"]
        assert second["changed"] == {"score_threshold": 0.0}
        assert second["hits_before"] < 3 <= second["hits_after"] == len(answer["chunks"])

    def it_does_not_happen_where_enough_was_found(self, kernel):
        retrieve = {"second": {"min_hits": 1, "score_threshold": 0.0}}
        answer = ask(kernel, "open valve 7 of the pump", ["kb_pumps"], retrieve=retrieve)
        assert (answer["stats"]["second"], bool(answer["chunks"])) == (None, True)


class DescribeChunks:
    @pytest.fixture
    def edited(self, use: Resources) -> Iterator[httpx.Client]:
        with gateway(make_tenant(use)[1]) as client:
            upload(client, "kb", [document("pumps", PUMPS, source=MARKDOWN)], chunking=FAMILY)
            upload(client, "kb", [document("animals", SENTENCES)], chunking=WINDOW)
            yield client

    def it_lists_them_with_their_structure_in_its_order(self, edited):
        found = listed(edited, "kb")
        needed = {
            "chunk_id",
            "document_id",
            "source_id",
            "source_uri",
            "chunk_type",
            "parent_id",
            "chunk_index",
            "text",
            "metadata",
        }
        assert all(needed | {"updated_at"} <= each.keys() for each in found)
        keys = [(each["document_id"], each["parent_id"] or "", each["chunk_index"]) for each in found]
        assert keys == sorted(keys)
        assert {each["chunk_type"] for each in found} == {"parent", "child", "sentence"}
        assert {each["parent_id"] for each in found if each["chunk_type"] == "parent"} == {None}

    def it_lists_any_stretch_of_them_in_any_order(self, kernel):
        whole = [each["chunk_id"] for each in listed(kernel, "kb_pumps")]
        assert len(whole) > 8
        for offset in (0, 3, len(whole) - 1, len(whole)):
            asked = {"namespace": "kb_pumps", "offset": offset, "limit": 5}
            page = kernel.get("/v1/chunks", params=asked).raise_for_status().json()
            assert [each["chunk_id"] for each in page["data"]] == whole[offset : offset + 5]
            if page["next_cursor"]:
                following = listed(kernel, "kb_pumps", cursor=page["next_cursor"])
                assert [each["chunk_id"] for each in following] == whole[offset + 5 :]
        newest = listed(kernel, "kb_pumps", order_by="-updated_at")
        assert [each["chunk_id"] for each in listed(kernel, "kb_pumps", order_by="-updated_at", offset=4)] == [
            each["chunk_id"] for each in newest[4:]
        ]

    def it_filters_them_as_a_query_filters_hits(self, use):
        with gateway(make_tenant(use)[1]) as client:
            texts = [
                document("north", PUMPS, type="manual", tags=["泵", "oil"], author="李雷", metadata={"site": "north"}),
                document("south", PUMPS, type="faq", tags=["泵"], published_at="2026-01-02T00:00:00Z"),
            ]
            upload(client, "kb", texts, chunking=FAMILY)
            for filters, documents in (
                ({"type": "manual"}, {"north"}),
                ({"tags": ["泵"]}, {"north", "south"}),
                ({"tags": ["泵", "oil"]}, {"north"}),
                ({"author": "李雷"}, {"north"}),
                ({"metadata": {"site": "north"}}, {"north"}),
                ({"start": "2026-01-01T00:00:00Z"}, {"south"}),
                ({"type": "manual", "tags": ["x"]}, set()),
                ({}, {"north", "south"}),
            ):
                found = listed(client, "kb", filters=json.dumps(filters))
                assert {each["document_id"] for each in found} == documents, filters
                hits = ask(client, "open valve 7 of the pump", ["kb"], filters=filters, top_k=50)["chunks"]
                assert {each["document_id"] for each in hits} == documents, filters
            both = listed(client, "kb", filters='{"type": "faq"}', chunk_type="parent", document_id="south")
            assert {each["chunk_type"] for each in both} == {"parent"}

    def it_finds_an_edited_chunk_by_its_new_text_alone(self, edited):
        [owl] = [each for each in listed(edited, "kb") if "owl" in each["text"]]
        changed = {"chunk_id": owl["chunk_id"], "text": "The heron waits in the reeds."}
        assert edited.put("/v1/chunks", json={"chunks": [changed]}).status_code == 200
        for method in ("full_text", "semantic", "hybrid"):
            hit = ask(edited, "heron in the reeds", ["kb"], retrieve={"method": method})["chunks"][0]
            assert (hit["chunk_id"], hit["text"]) == (owl["chunk_id"], changed["text"])
        assert ask(edited, "owl", ["kb"], retrieve={"method": "full_text"})["chunks"] == []
        [fox] = ask(edited, "fox hunts", ["kb"], top_k=1)["chunks"]
        around = ask(edited, "fox hunts", ["kb"], top_k=1)["context"]["text"]
        assert "heron" in around, f"the window of {fox['text']} has the new sentence"
        assert aligned(edited)

    @pytest.mark.parametrize("word", ["heron ", "苍鹭"])
    def it_refuses_an_edit_beyond_the_limit_that_its_document_is_cut_by(self, edited, word):
        assert edited.get("/v1/documents/pumps", params={"namespace": "kb"}).json()["chunking"]["max_tokens"] == 32
        [chunk, *_] = listed(edited, "kb", document_id="pumps", chunk_type="child")
        changed = {"chunk_id": chunk["chunk_id"], "text": word * 40}
        found = problem(edited.put("/v1/chunks", json={"chunks": [changed]}), 422, "chunk_too_long")
        assert "max_tokens" in found["errors"][0]["detail"]
        assert listed(edited, "kb", document_id="pumps", chunk_type="child")[0]["text"] == chunk["text"]

    @pytest.mark.parametrize("name", ["document_id", "parent_id", "chunk_index", "chunk_type"])
    def it_does_not_let_the_structure_be_edited(self, edited, name):
        chunk = listed(edited, "kb")[0]
        body = {"chunks": [{"chunk_id": chunk["chunk_id"], "text": "x", name: chunk[name]}]}
        found = problem(edited.put("/v1/chunks", json=body), 422, "invalid_request")
        assert pointers(found) == [f"/chunks/0/{name}"]

    def it_deletes_children_with_their_parent_and_the_document_with_its_last_chunk(self, edited):
        [parent, *others] = listed(edited, "kb", chunk_type="parent")
        assert others

        def delete(*chunk_ids: str) -> None:
            answer = edited.request("DELETE", "/v1/chunks", json={"chunk_ids": list(chunk_ids)})
            assert answer.status_code == 200, answer.text

        delete(parent["chunk_id"])
        left = listed(edited, "kb")
        assert parent["chunk_id"] not in {each["parent_id"] for each in left}
        assert len(listed(edited, "kb", chunk_type="parent")) == len(others)
        assert aligned(edited)
        delete(*(each["chunk_id"] for each in left if each["document_id"] == "animals"))
        gone = edited.get("/v1/documents/animals", params={"namespace": "kb"})
        problem(gone, 404, "document_not_found")
        assert ask(edited, "fox hunts at night", ["kb"], retrieve={"method": "full_text"})["chunks"] == []
        assert aligned(edited)


class DescribeThePythonClient:
    def it_binds_namespaces_and_overrides_one_call(self, use):
        with Chordwise(os.environ["CHORDWISE_URL"], make_tenant(use)[1]) as client:
            client.wait(client.ingest([{"document_id": "d", "text": SENTENCES}], namespace="kb"))
            result = client.query(
                "owl", namespaces=["kb"], method="full_text", top_k=1, rerank=False, profile="knowledge"
            )
            assert result.query["method"] == "full_text"
            assert format_markdown(result).startswith("### 1. d\n\n")

    def it_binds_the_quality_of_passages(self, use):
        grades = {"a": "一般", "b": "优秀", "c": "良好"}
        with Chordwise(os.environ["CHORDWISE_URL"], make_tenant(use)[1]) as client:
            sent = [
                {"document_id": name, "text": "Clean the filter" + "." * n, "metadata": {"quality_grade": grade}}
                for n, (name, grade) in enumerate(grades.items(), start=1)
            ]
            client.wait(client.ingest(sent, namespace="kb"))
            bound = Knowledge(["kb"], retrieve={"quality": {"enough": 2}}, profile="knowledge")
            asked = bound.asked("clean the filter", None, None, None)
            assert [hit.document_id for hit in client.query("clean the filter", **asked).chunks] == ["b", "c"]

    @pytest.mark.parametrize(
        ("config", "setting"),
        [
            ({"embedding": {"model": "m"}}, "CHORDWISE_EMBEDDING_MODEL"),
            ({"vector_store": {"type": "milvus"}}, "CHORDWISE_POSTGRES_URL"),
            ({"retrieve": {"tuning": {"ef": 64}}}, "CHORDWISE_SEMANTIC_EXACT_CHUNKS"),
        ],
    )
    def it_says_why_a_part_of_a_binding_is_not_taken(self, config, setting):
        with pytest.raises(InvalidInput, match=f"is not taken: .*{setting}"):
            Knowledge(["知识库"], **config)
