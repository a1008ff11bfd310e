"""Contexts through the gateway: the entities of a novel, examples as a conversation, whole documents."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from chordwise import Chordwise
from chordwise.prompting import format_for_prompt, retrieved_examples
from pipeline.resources import Resources
from tests.conftest import gateway, make_tenant
from tests.support.clients.gateway_client import pointers, problem
from tests.support.corpora.documents import document, finished, search, upload

ENTITIES = [
    {"entity_id": "lin", "name": "林远", "type": "人物", "story_time": 1000, "state": {"位置": "城外"}},
    {"entity_id": "lin", "name": "林远", "type": "人物", "story_time": 2000, "state": {"位置": "城内"}},
    {"entity_id": "su", "name": "苏晴", "type": "人物", "state": "城里的医师"},
    {"entity_id": "zhao", "name": "赵七", "type": "人物", "state": {}},
]


@pytest.fixture(scope="module")
def client(use: Resources) -> Iterator[httpx.Client]:
    """One for the file: tests that change something do so in a namespace of their own."""
    with gateway(make_tenant(use)[1]) as found:
        yield found


@pytest.fixture(scope="module")
def novel(client) -> str:
    put(client, "novel", ENTITIES)
    return "novel"


def put(client, namespace: str, entities: list[dict[str, Any]]) -> None:
    response = client.put("/v1/entities", json={"namespace": namespace, "entities": entities})
    assert (response.status_code, response.json()) == (200, {"written": len(entities)})


class DescribeEntities:
    def it_lists_pages_and_deletes(self, client, namespace):
        put(client, namespace, ENTITIES)
        first = client.get("/v1/entities", params={"namespace": namespace, "as_of": 1500, "limit": 2}).json()
        assert [(each["entity_id"], each["story_time"]) for each in first["data"]] == [("lin", 1000), ("su", None)]
        params = {"namespace": namespace, "limit": 2, "cursor": first["next_cursor"]}
        assert [each["entity_id"] for each in client.get("/v1/entities", params=params).json()["data"]] == ["zhao"]
        named = client.get("/v1/entities", params={"namespace": namespace, "name": "苏晴"}).json()
        assert [each["state"] for each in named["data"]] == ["城里的医师"]
        gone = client.request("DELETE", "/v1/entities", json={"namespace": namespace, "entity_ids": ["lin", "nobody"]})
        assert gone.json() == {"deleted": 2}

    def it_belongs_to_one_tenant(self, use, client, novel):
        with gateway(make_tenant(use)[1]) as stranger:
            assert stranger.get("/v1/entities", params={"namespace": novel}).json()["data"] == []
            body = {"namespace": novel, "entity_ids": ["lin"]}
            assert stranger.request("DELETE", "/v1/entities", json=body).json() == {"deleted": 0}
        assert len(client.get("/v1/entities", params={"namespace": novel}).json()["data"]) == 3

    @pytest.mark.parametrize(
        ("entities", "where"),
        [
            ([], "/entities"),
            ([{"name": "x"}], "/entities/0/entity_id"),
            ([{"entity_id": "a", "name": " "}], "/entities/0/name"),
            ([{"entity_id": "a", "name": "A", "state": []}], "/entities/0/state"),
            ([{"entity_id": "a", "name": "A", "state": "字" * 6000}], "/entities/0/state"),
            ([{"entity_id": "a", "name": "A", "story_time": 1.5}], "/entities/0/story_time"),
            ([{"entity_id": "a", "name": "A"}] * 2, "/entities/1"),
            ([{"entity_id": "a", "name": "A", "mood": "good"}], "/entities/0/mood"),
        ],
    )
    def it_says_what_is_wrong(self, client, namespace, entities, where):
        response = client.put("/v1/entities", json={"namespace": namespace, "entities": entities})
        assert pointers(problem(response, 422, "invalid_request")) == [where]

    def it_never_takes_an_empty_list_for_all(self, client, novel):
        response = client.request("DELETE", "/v1/entities", json={"namespace": novel, "entity_ids": []})
        assert pointers(problem(response, 422, "invalid_request")) == ["/entity_ids"]

    def it_can_be_done_with_the_python_client(self, use, namespace):
        with Chordwise(os.environ["CHORDWISE_URL"], make_tenant(use)[1]) as client:
            assert client.put_entities(ENTITIES, namespace=namespace) == 4
            states = client.entities(namespace, as_of=1999)
            assert [(each.story_time, each.state) for each in states] == [
                (1000, {"位置": "城外"}),
                (None, "城里的医师"),
                (None, {}),
            ]
            assert client.delete_entities(["zhao"], namespace=namespace) == 1


class DescribeExamples:
    def it_shows_them_as_a_conversation(self, use, namespace):
        rows = {"qa_examples": [{"user_input": "血压150/95怎么办？", "agent_response": "先休息十分钟再量。"}]}
        _, key = make_tenant(use)
        with gateway(key) as raw:
            accepted = raw.post("/v1/examples", json={"namespace": namespace, "examples": rows})
            assert accepted.status_code == 202, accepted.text
            finished(raw, accepted.json()["job_id"])
        with Chordwise(os.environ["CHORDWISE_URL"], key) as client:
            options = {"passages": "dialogue", "header": "none"}
            result = client.query("血压高怎么办", namespace=namespace, context=options)
        said = "用户：血压150/95怎么办？\n助手：先休息十分钟再量。"
        assert result.context is not None
        assert result.context.text == said
        (example,) = retrieved_examples(result)
        assert (example["content"], example["source"]) == (said, "qa_examples")
        assert 0.0 < example["similarity"] <= 1.0
        assert format_for_prompt({"retrieved_examples": [example]})["retrieved_examples"] == f"示例1：\n{said}"


class DescribeOptions:
    def it_reads_a_small_document_whole(self, client, namespace):
        parts = "\n\n".join(f"# Part {n}\n\nThe valve {n} is closed by hand." for n in range(5))
        source = {"media_type": "text/markdown"}
        small = parts.replace("valve 3", "zirconium valve 3")
        documents = [document("small", small, source=source), document("big", parts * 200, source=source)]
        upload(client, namespace, documents, chunking={"max_tokens": 16, "overlap": 0.0})
        options = {"whole_document": True, "header": "none", "max_tokens": 400}
        answer = search(client, namespace, "zirconium valve", top_k=3, context=options)
        small = [each for each in answer["context"]["text"].split("\n\n---\n\n") if "zirconium" in each]
        assert len(small) == 1
        assert all(f"valve {n}" in small[0] for n in range(5))
        assert answer["context"]["token_count"] <= 400
        assert not answer["stats"]["degraded"]

    def it_refuses_a_reranker_that_is_not_there(self, client, namespace):
        body = {"query_text": "x", "namespaces": [namespace], "rerank": {"provider": "http"}}
        response = client.post("/v1/queries", json=body)
        assert pointers(problem(response, 422, "invalid_request")) == ["/rerank/provider"]
