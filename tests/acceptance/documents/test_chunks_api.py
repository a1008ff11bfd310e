"""Chunks, namespaces and tenants through the gateway: listed, edited, switched off, deleted, erased."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from chordwise import Chordwise
from chordwise.cli import run
from pipeline.resources import Resources
from tests.conftest import gateway, make_tenant
from tests.support.clients.gateway_client import ended, pointers, problem, send

FOX = {"document_id": "fox", "title": "Foxes", "text": "The red fox hunts at night."}
OWL = {"document_id": "owl", "text": "The owl sees well in the dark."}


def listed(client: httpx.Client, namespace: str, **more: Any) -> list[dict[str, Any]]:
    response = client.get("/v1/chunks", params={"namespace": namespace, **more})
    assert response.status_code == 200, response.text
    data: list[dict[str, Any]] = response.json()["data"]
    return data


def put(client: httpx.Client, *chunks: dict[str, Any], **headers: str) -> httpx.Response:
    return client.put("/v1/chunks", json={"chunks": list(chunks)}, headers=headers)


def delete(client: httpx.Client, *chunk_ids: str) -> httpx.Response:
    return client.request("DELETE", "/v1/chunks", json={"chunk_ids": list(chunk_ids)})


def texts(client: httpx.Client, namespace: str, query: str) -> list[str]:
    response = client.post("/v1/rag/query", json={"query_text": query, "namespaces": [namespace]})
    assert response.status_code == 200, response.text
    return [chunk["text"] for chunk in response.json()["chunks"]]


@pytest.fixture
def filled(client: httpx.Client, namespace: str) -> list[dict[str, Any]]:
    ended(client, send(client, namespace, FOX, OWL))
    return listed(client, namespace)


@pytest.fixture(scope="module")
def reader(use: Resources) -> Iterator[httpx.Client]:
    """A client whose tenant has both documents in the namespace `kept`; no test changes them."""
    with gateway(make_tenant(use)[1]) as client:
        ended(client, send(client, "kept", FOX, OWL))
        yield client


class DescribeListing:
    def it_shows_every_field_in_order(self, reader):
        fox, owl = listed(reader, "kept")
        assert (fox["document_id"], owl["document_id"]) == ("fox", "owl")
        assert fox["text"] == FOX["text"]
        assert (fox["enabled"], fox["parent_id"], fox["chunk_type"], fox["ordinal"]) == (True, None, "parent", 0)
        assert fox["updated_at"].endswith("Z")
        assert fox["etag"]

    @pytest.mark.parametrize("order_by", ["document_id", "updated_at", "-updated_at"])
    def it_goes_on_where_a_page_ended(self, reader, order_by):
        found, cursor = [], {}
        while True:
            parameters = {"namespace": "kept", "limit": 1, "order_by": order_by, **cursor}
            page = reader.get("/v1/chunks", params=parameters).json()
            found += [chunk["chunk_id"] for chunk in page["data"]]
            if page["next_cursor"] is None:
                break
            cursor = {"cursor": page["next_cursor"]}
        assert sorted(found) == sorted(chunk["chunk_id"] for chunk in listed(reader, "kept"))

    @pytest.mark.parametrize(
        ("asked", "place"),
        [
            ({"filters": "type manual"}, "/filters"),
            ({"filters": "[]"}, "/filters"),
            ({"filters": '{"kind": "manual"}'}, "/filters/kind"),
            ({"filters": '{"start": "2026-01-02T00:00:00Z", "end": "2026-01-01T00:00:00Z"}'}, "/filters/end"),
            ({"offset": -1}, "/offset"),
            ({"offset": 10_001}, "/offset"),
            ({"order_by": "text"}, "/order_by"),
        ],
    )
    def it_names_the_parameter_that_is_wrong(self, reader, asked, place):
        refused = reader.get("/v1/chunks", params={"namespace": "kept", **asked})
        found = problem(refused, 422, "invalid_request")
        assert [(each["pointer"], each["in"]) for each in found["errors"]] == [(place, "query")]

    def it_starts_at_a_cursor_or_at_an_offset(self, reader):
        cursor = reader.get("/v1/chunks", params={"namespace": "kept", "limit": 1}).json()["next_cursor"]
        refused = reader.get("/v1/chunks", params={"namespace": "kept", "cursor": cursor, "offset": 2})
        assert pointers(problem(refused, 422, "invalid_request")) == ["/offset"]


class DescribeTheClientAndTheCommands:
    def it_lists_with_filters_an_order_and_an_offset(self, use, monkeypatch, capsys):
        key = make_tenant(use)[1]
        monkeypatch.setenv("CHORDWISE_API_KEY", key)
        with Chordwise(os.environ["CHORDWISE_URL"], key) as own:
            names = [(kind, f"{kind}{n}") for kind in ("手册", "faq") for n in range(3)]
            sent = [{"document_id": name, "text": OWL["text"], "type": kind} for kind, name in names]
            own.wait(own.ingest(sent, namespace="kb"))
            whole = own.chunks(namespace="kb", filters={"type": "手册"}, limit=None)
            assert [each.document_id for each in whole] == ["手册0", "手册1", "手册2"]
            some = own.chunks(namespace="kb", filters={"type": "手册"}, offset=1, limit=None, order_by="-updated_at")
            assert len(some) == 2
        arguments = ["chunks", "list", "-n", "kb", "--filters", '{"type": "手册"}', "--offset", "2", "--json"]
        assert run(arguments) == 0
        assert [each["document_id"] for each in json.loads(capsys.readouterr().out)["data"]] == ["手册2"]
        assert run(["chunks", "list", "-n", "kb", "--filters", "type=手册"]) == 2
        assert "--filters" in capsys.readouterr().err


class DescribeEditing:
    def it_is_searchable_at_once_by_its_new_text_only(self, client, namespace, filled):
        fox = filled[0]
        response = put(
            client, {"chunk_id": fox["chunk_id"], "text": "A green parrot talks."}, **{"If-Match": fox["etag"]}
        )
        assert response.status_code == 200, response.text
        [result] = response.json()["data"]
        assert result["status"] == "updated"
        assert response.headers["etag"] == result["etag"] != fox["etag"]
        assert texts(client, namespace, "green parrot")[0] == "A green parrot talks."
        assert "The red fox hunts at night." not in texts(client, namespace, "red fox")
        problem(
            put(client, {"chunk_id": fox["chunk_id"], "text": "late"}, **{"If-Match": fox["etag"]}),
            412,
            "precondition_failed",
        )

    def it_carries_out_what_it_can(self, client, namespace, filled):
        missing = "00000000-0000-0000-0000-000000000000"
        response = put(
            client,
            {"chunk_id": missing, "text": "x"},
            {"chunk_id": filled[0]["chunk_id"], "text": "new"},
            {"chunk_id": filled[1]["chunk_id"], "enabled": True},
        )
        assert response.status_code == 200
        assert [each["status"] for each in response.json()["data"]] == ["failed", "updated", "unchanged"]
        problem(put(client, {"chunk_id": missing, "text": "x"}), 404, "chunk_not_found")

    @pytest.mark.parametrize(
        "name",
        [
            *("document_id", "namespace", "ordinal", "heading_path", "page", "parent_id", "chunk_index", "chunk_type"),
            *("chapter_id", "story_time", "window"),
        ],
    )
    def it_does_not_change_the_structure(self, reader, name):
        chunk_id = listed(reader, "kept")[0]["chunk_id"]
        body = problem(put(reader, {"chunk_id": chunk_id, "text": "x", name: "y"}), 422, "invalid_request")
        assert pointers(body) == [f"/chunks/0/{name}"]
        assert "upload the document again" in body["detail"]

    @pytest.mark.parametrize("chunks", [[], [{"chunk_id": "x", "text": "y"}], [{"text": "y"}]])
    def it_refuses_what_names_no_chunk(self, reader, chunks):
        problem(put(reader, *chunks), 422, "invalid_request")

    def it_refuses_empty_text_and_repeated_ids(self, reader):
        fox = listed(reader, "kept")[0]["chunk_id"]
        problem(put(reader, {"chunk_id": fox, "text": " \n"}), 422, "invalid_request")
        problem(put(reader, {"chunk_id": fox, "text": "a"}, {"chunk_id": fox, "text": "b"}), 422, "invalid_request")

    def it_hides_what_is_switched_off(self, client, namespace, filled):
        fox = filled[0]["chunk_id"]
        assert put(client, {"chunk_id": fox, "enabled": False}).status_code == 200
        assert FOX["text"] not in texts(client, namespace, "red fox night")
        assert [chunk["enabled"] for chunk in listed(client, namespace)] == [False, True]
        assert [chunk["chunk_id"] for chunk in listed(client, namespace, enabled="false")] == [fox]
        put(client, {"chunk_id": fox, "enabled": True})
        assert FOX["text"] in texts(client, namespace, "red fox night")
        report = client.post("/v1/verify", json={}).json()
        kinds = ("missing", "orphaned", "stale", "misplaced", "miscounted", "leftover", "statistics")
        assert [report[kind] for kind in kinds] == [0] * 7


class DescribeDeleting:
    def it_deletes_what_is_named_and_the_document_with_its_last_chunk(self, client, namespace, filled):
        response = delete(client, filled[0]["chunk_id"])
        assert [each["status"] for each in response.json()["data"]] == ["deleted"]
        assert [chunk["document_id"] for chunk in listed(client, namespace)] == ["owl"]
        problem(client.get("/v1/documents/fox", params={"namespace": namespace}), 404, "document_not_found")
        problem(delete(client, filled[0]["chunk_id"]), 404, "chunk_not_found")

    def it_never_takes_an_empty_list_for_all(self, reader):
        problem(delete(reader), 422, "invalid_request")
        response = reader.request(
            "DELETE", "/v1/chunks", content=json.dumps({}), headers={"Content-Type": "application/json"}
        )
        problem(response, 422, "invalid_request")
        assert len(listed(reader, "kept")) == 2

    def it_never_reaches_another_tenant(self, reader, use):
        with gateway(make_tenant(use)[1]) as stranger:
            assert listed(stranger, "kept") == []
            problem(delete(stranger, listed(reader, "kept")[0]["chunk_id"]), 404, "chunk_not_found")
            problem(stranger.delete("/v1/namespaces/kept"), 404, "namespace_not_found")
        assert len(listed(reader, "kept")) == 2


class DescribeANamespace:
    def it_goes_with_everything_in_it(self, client, namespace, filled):
        ended(client, send(client, namespace + "b", OWL))
        response = client.delete(f"/v1/namespaces/{namespace}")
        assert response.status_code == 200
        assert response.json()["documents"] == 2
        assert [each["namespace"] for each in client.get("/v1/namespaces").json()["data"]] == [namespace + "b"]
        problem(client.delete(f"/v1/namespaces/{namespace}"), 404, "namespace_not_found")
        problem(
            client.post("/v1/queries", json={"query_text": "fox", "namespaces": [namespace]}),
            404,
            "namespace_not_found",
        )
        assert texts(client, namespace + "b", "owl") == [OWL["text"]]


class DescribeMetrics:
    def it_tells_what_the_reconciler_found(self, client):
        body = client.get("/v1/metrics").text
        assert 'chordwise_alignment_found_total{kind="missing"}' in body
        assert "chordwise_alignment_repaired_total" in body
