"""Keyword search as its user sees it: highlights, weights of fields, and a dictionary that holds at once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from pipeline.resources import Resources
from tests.conftest import gateway, make_tenant
from tests.support.clients.gateway_client import ended, pointers, problem, send

FOX = {"document_id": "fox", "title": "Foxes", "text": "The red fox hunts at night near PPR-9087."}
OWL = {"document_id": "owl", "title": "Owls", "text": "An owl watches the foxes."}
PRESSURE = {"document_id": "pressure", "text": "高血压患者应当少吃盐。"}
WORDS = {"synonyms": [["高血压", "hypertension"]], "stop_words": ["kindly"], "phrases": ["red fox"]}
_LONGEST_S = 8.0


def ask(client: httpx.Client, namespace: str, text: str, **keyword: Any) -> list[dict[str, Any]]:
    retrieve = {"method": "full_text", "channels": {"keyword": keyword}}
    body = {
        "query_text": text,
        "namespaces": [namespace],
        "retrieve": retrieve,
        "enable_rerank": False,
        "highlight": True,
    }
    response = client.post("/v1/rag/query", json=body)
    assert response.status_code == 200, response.text
    found: list[dict[str, Any]] = response.json()["chunks"]
    return found


def marked(chunk: dict[str, Any]) -> list[str]:
    return [chunk["text"][span["start"] : span["end"]] for span in chunk["highlights"]]


def eventually(found: Any, expected: Any) -> None:
    """Each worker keeps a dictionary for some seconds, so what one says the next may not say yet."""
    until = time.monotonic() + _LONGEST_S
    while (last := found()) != expected and time.monotonic() < until:
        time.sleep(0.3)
    assert last == expected


@pytest.fixture(scope="module")
def client(use: Resources) -> Iterator[httpx.Client]:
    """One for the file: a test that changes the dictionary of the namespace takes it back."""
    with gateway(make_tenant(use)[1]) as found:
        yield found


@pytest.fixture(scope="module")
def filled(client: httpx.Client) -> str:
    ended(client, send(client, "kb", FOX, OWL, PRESSURE))
    return "kb"


class DescribeAnAnswer:
    def it_weighs_fields_as_asked(self, client, filled):
        def order(**fields: float) -> list[str]:
            return [chunk["document_id"] for chunk in ask(client, filled, "foxes", options={"fields": fields})]

        assert order(title=5.0)[0] == "fox"
        assert order(title=0.0)[0] == "owl"
        assert sorted(order()) == ["fox", "owl"]

    @pytest.mark.parametrize(
        ("fields", "pointer"),
        [
            ({"title": -1}, "/retrieve/channels/keyword/options/fields/title"),
            ({"headline": 1}, "/retrieve/channels/keyword/options/fields/headline"),
            ({"title": 0, "body": 0, "summary": 0, "entity_names": 0}, "/retrieve/channels/keyword/options/fields"),
        ],
    )
    def it_refuses_impossible_weights(self, client, namespace, fields, pointer):
        retrieve = {"channels": {"keyword": {"options": {"fields": fields}}}}
        body = {"query_text": "x", "namespaces": [namespace], "retrieve": retrieve}
        assert pointer in pointers(problem(client.post("/v1/queries", json=body), 422, "invalid_request"))


class DescribeADictionary:
    def it_holds_within_seconds_and_is_forgotten_again(self, client, filled):
        assert ask(client, filled, "hypertension") == []
        kept = client.put("/v1/dictionary", params={"namespace": filled}, json=WORDS)
        assert (kept.status_code, kept.json()) == (200, {**WORDS, "namespace": filled, "version": 1, "rules": []})
        assert client.get("/v1/dictionary", params={"namespace": filled}).json() == kept.json()
        eventually(lambda: [marked(chunk) for chunk in ask(client, filled, "hypertension")], [["高血压"]])
        assert client.delete("/v1/dictionary", params={"namespace": filled}).status_code == 204
        problem(client.get("/v1/dictionary", params={"namespace": filled}), 404, "dictionary_not_found")
        problem(client.delete("/v1/dictionary", params={"namespace": filled}), 404, "dictionary_not_found")
        eventually(lambda: ask(client, filled, "hypertension"), [])

    def it_is_shown_to_its_tenant_alone(self, client, use):
        client.put("/v1/dictionary", json=WORDS).raise_for_status()
        with gateway(make_tenant(use)[1]) as other:
            problem(other.get("/v1/dictionary"), 404, "dictionary_not_found")
        assert client.get("/v1/dictionary").json()["namespace"] is None

    @pytest.mark.parametrize(
        ("body", "pointer"),
        [
            ({"synonyms": [["alone"]]}, "/synonyms/0"),
            ({"synonyms": [["fox", "?!"]]}, "/synonyms/0/1"),
            ({"stop_words": [""]}, "/stop_words/0"),
            ({"rules": [{"when": "fox", "document_id": "d"}]}, "/rules"),
            ({"antonyms": []}, "/antonyms"),
        ],
    )
    def it_refuses_impossible_entries(self, client, body, pointer):
        assert pointer in pointers(problem(client.put("/v1/dictionary", json=body), 422, "invalid_request"))
