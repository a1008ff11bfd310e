"""The knowledge kernel: one pipeline for any number of namespaces, with overrides for one call and answers as Markdown."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from chordwise.contract.answer import sureness
from chordwise.prompting import format_markdown
from tests.conftest import gateway, make_tenant
from tests.support.clients.gateway_client import pointers, problem
from tests.support.corpora.documents import document, upload
from tests.support.corpora.knowledge_bases import MARKDOWN, PUMPS, ask, listed

BOTH = ["kb_pumps", "kb_animals"]


def trace_of(client: httpx.Client, answer: dict[str, Any]) -> dict[str, Any]:
    return dict(client.get(f"/v1/queries/{answer['query_id']}/trace").raise_for_status().json())


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
            each["chunk_id"] for each in whole if sureness(each["confidence"]) >= threshold
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
