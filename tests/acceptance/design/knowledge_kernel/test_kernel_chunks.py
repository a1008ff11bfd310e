"""The knowledge kernel: chunks that can be listed and edited, and the Python client's bindings."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import httpx
import pytest

from chordwise import Chordwise
from chordwise.errors import InvalidInput
from chordwise.prompting import format_markdown
from chordwise.tools import Knowledge
from pipeline.resources import Resources
from tests.conftest import gateway, make_tenant
from tests.support.clients.gateway_client import problem
from tests.support.corpora.documents import document, upload
from tests.support.corpora.knowledge_bases import FAMILY, MARKDOWN, PUMPS, SENTENCES, WINDOW, ask, listed


def differences(client: httpx.Client) -> dict[str, int]:
    report = client.post("/v1/verify", json={}).json()
    kinds = ("missing", "orphaned", "stale", "misplaced", "miscounted", "leftover", "statistics", "document_vectors")
    return {kind: report[kind] for kind in kinds if report[kind]}


class DescribeChunks:
    @pytest.fixture
    def edited(self, use: Resources) -> Iterator[httpx.Client]:
        with gateway(make_tenant(use)[1]) as client:
            upload(client, "kb", [document("pumps", PUMPS, source=MARKDOWN)], chunking=FAMILY)
            upload(client, "kb", [document("animals", SENTENCES)], chunking=WINDOW)
            yield client

    def it_lists_them_with_their_structure_in_its_order(self, kernel):
        pumps = listed(kernel, "kb_pumps")
        found = [*pumps, *listed(kernel, "kb_animals")]
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
        keys = [(each["document_id"], each["parent_id"] or "", each["chunk_index"]) for each in pumps]
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

    @pytest.mark.thorough
    def it_filters_them_as_a_query_filters_hits(self, use):
        with gateway(make_tenant(use)[1]) as client:
            texts = [
                document("north", PUMPS, type="manual", tags=["泵", "oil"], author="李雷", metadata={"site": "north"}),
                document(
                    "south",
                    PUMPS.replace("wait", "pause"),
                    type="faq",
                    tags=["泵"],
                    published_at="2026-01-02T00:00:00Z",
                ),
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
        assert differences(edited) == {}

    @pytest.mark.thorough
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
        assert differences(edited) == {}
        delete(*(each["chunk_id"] for each in left if each["document_id"] == "animals"))
        gone = edited.get("/v1/documents/animals", params={"namespace": "kb"})
        problem(gone, 404, "document_not_found")
        assert ask(edited, "fox hunts at night", ["kb"], retrieve={"method": "full_text"})["chunks"] == []
        assert differences(edited) == {}


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
            ({"retrieve": {"tuning": {"ef": 64}}}, "5,000 chunks"),
        ],
    )
    def it_says_why_a_part_of_a_binding_is_not_taken(self, config, setting):
        with pytest.raises(InvalidInput, match=f"is not taken: .*{setting}"):
            Knowledge(["知识库"], **config)
