"""Stored documents through the gateway: found in a list, read in the original, changed and deleted many at once."""

from __future__ import annotations

import json
import struct
from typing import Any

import httpx
import pytest
from sqlalchemy import text as sql

from tests.support.clients.gateway_client import problem
from tests.support.corpora.documents import document, finished, upload
from tests.support.corpora.formats import pdf

TEXT = "# Resetting\n\nHold the button 😀 for five seconds.\n\n# Power\n\n拔掉电源线。"
PAGES = [f"Page {number}. " + "The valve opens at three bar. " * 20 for number in (1, 2, 3)]


def listed(client: httpx.Client, namespace: str, **parameters: Any) -> list[str]:
    """The ids of every page of two."""
    ids: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        asked = {"namespace": namespace, "limit": 2, **parameters, **cursor}
        body = client.get("/v1/documents", params=asked).raise_for_status().json()
        ids += [each["document_id"] for each in body["data"]]
        if body["next_cursor"] is None:
            return ids
        cursor = {"cursor": body["next_cursor"]}


def change(client: httpx.Client, namespace: str, *document_ids: str, **changes: Any) -> dict[str, Any]:
    body = {"namespace": namespace, "document_ids": list(document_ids), **changes}
    accepted = client.patch("/v1/documents", json=body)
    assert accepted.status_code == 202, accepted.text
    return finished(client, accepted.json()["job_id"])


def described(client: httpx.Client, namespace: str, document_id: str) -> dict[str, Any]:
    found: dict[str, Any] = client.get(f"/v1/documents/{document_id}", params={"namespace": namespace}).json()
    return found


class DescribeTheList:
    def it_selects_and_orders(self, client, namespace):
        upload(
            client, namespace, [document("b", "one", title="Zebra", tags=["x"]), document("a-é", "two", title="apple")]
        )
        upload(client, namespace, [document("c", "three", title="100%"), document("d", "one", title="Äpfel")])
        assert listed(client, namespace) == ["a-é", "b", "c", "d"]
        assert listed(client, namespace, order_by="title") == ["c", "d", "a-é", "b"]
        assert set(listed(client, namespace, order_by="-updated_at")[:2]) == {"c", "d"}
        assert set(listed(client, namespace, order_by="updated_at")[2:]) == {"c", "d"}
        assert listed(client, namespace, contains="ZEB") == ["b"]
        assert listed(client, namespace, contains="A-E") == ["a-é"]
        assert listed(client, namespace, contains="0%") == ["c"]
        assert listed(client, namespace, contains="_") == []
        assert listed(client, namespace, filters=json.dumps({"tags": ["x"]})) == ["b"]
        assert listed(client, namespace, duplicates=True) == ["d"]
        assert listed(client, namespace, contains="p", order_by="title") == ["d", "a-é"]

    def it_refuses_what_it_does_not_know(self, client, namespace):
        upload(client, namespace, [document(name, name) for name in "abc"])
        cursor = client.get("/v1/documents", params={"namespace": namespace, "limit": 1}).json()["next_cursor"]
        asked = {"namespace": namespace, "cursor": cursor, "order_by": "title"}
        problem(client.get("/v1/documents", params=asked), 422, "invalid_cursor")
        assert client.get("/v1/documents", params={"contains": ""}).status_code == 422
        assert client.get("/v1/documents", params={"order_by": "size"}).status_code == 422
        assert client.get("/v1/documents", params={"filters": "[]"}).status_code == 422

    @pytest.mark.thorough
    def it_measures_namespaces_on_request(self, client, namespace):
        upload(client, namespace, [document("a", "four")])
        [plain] = client.get("/v1/namespaces", params={"contains": namespace.upper()}).json()["data"]
        [measured] = client.get("/v1/namespaces", params={"contains": namespace, "sizes": True}).json()["data"]
        assert (plain["bytes"], measured["bytes"], measured["documents"]) == (None, 4, 1)
        assert measured["revised_at"] is not None


class DescribeOneDocument:
    def it_gives_the_bytes_and_the_text_with_the_chunks(self, client, namespace):
        upload(client, namespace, [document("m", TEXT, source={"media_type": "text/markdown"})])
        original = client.get("/v1/documents/m/original", params={"namespace": namespace})
        assert (original.content.decode(), original.headers["content-type"]) == (TEXT, "application/octet-stream")
        assert original.headers["content-disposition"].startswith("attachment")
        parsed = client.get("/v1/documents/m/text", params={"namespace": namespace}).json()
        chunks = client.get("/v1/documents/m/chunks", params={"namespace": namespace}).json()["data"]
        cut = [parsed["text"][chunk["start"] : chunk["end"]] for chunk in parsed["chunks"]]
        assert cut == [chunk["text"] for chunk in chunks]
        assert [chunk["chunk_id"] for chunk in parsed["chunks"]] == [chunk["chunk_id"] for chunk in chunks]

    def it_shows_pages_of_a_pdf_file(self, client, namespace):
        files = [("file", ("valve.pdf", pdf(*PAGES), "application/pdf"))]
        finished(client, client.post("/v1/files", data={"namespace": namespace}, files=files).json()["job_id"])
        place = {"namespace": namespace, "width": 300}
        image = client.get("/v1/documents/valve.pdf/pages/3", params=place)
        assert (image.headers["content-type"], image.headers["x-pages"]) == ("image/png", "3")
        assert struct.unpack("!I", image.content[16:20])[0] in (299, 300, 301)
        problem(client.get("/v1/documents/valve.pdf/pages/4", params=place), 404, "page_not_found")
        upload(client, namespace, [document("m", TEXT)])
        refused = client.get("/v1/documents/m/pages/1", params=place)
        problem(refused, 415, "unsupported_media_type")

    def it_has_nothing_of_a_document_that_is_not_there(self, client, namespace):
        for part in ("original", "text", "pages/1", "similar"):
            answer = client.get(f"/v1/documents/nobody/{part}", params={"namespace": namespace})
            problem(answer, 404, "document_not_found")

    def it_names_copies_and_near_copies(self, client, namespace):
        text = " ".join(PAGES)
        other = document("o", "Cats sleep. " * 30)
        upload(
            client, namespace, [document("a", text), document("b", text), document("c", f"{text} Now at four."), other]
        )
        near = client.get("/v1/documents/a/similar", params={"namespace": namespace}).json()["data"]
        assert [(each["document_id"], each["same_bytes"]) for each in near] == [("b", True), ("c", False)]

    @pytest.mark.thorough
    def it_computes_the_vector_of_a_document_that_has_lost_it(self, client, namespace, use):
        text = " ".join(PAGES)
        upload(client, namespace, [document("a", text), document("b", text)])
        with use.postgres.begin() as connection:
            lost = sql("DELETE FROM document_embeddings WHERE namespace = :namespace AND document_id = 'a'")
            assert connection.execute(lost, {"namespace": namespace}).rowcount == 1
        near = client.get("/v1/documents/a/similar", params={"namespace": namespace}).json()["data"]
        assert [each["document_id"] for each in near] == ["b"]

    def it_previews_another_cut_of_what_is_stored(self, client, namespace):
        upload(client, namespace, [document("a", " ".join(PAGES))])
        chunking = {"strategy": "sentences", "max_tokens": 32}
        body = {"namespace": namespace, "document_id": "a", "chunking": chunking}
        preview = client.post("/v1/chunks/preview", json=body).json()
        assert len(preview["chunks"]) > described(client, namespace, "a")["chunks"]
        for wrong in ({"namespace": namespace}, {"document_id": "a"}, {**body, "document": {"text": "x"}}):
            assert client.post("/v1/chunks/preview", json=wrong).status_code == 422
        missing = client.post("/v1/chunks/preview", json={**body, "document_id": "nobody"})
        problem(missing, 404, "document_not_found")


class DescribeChanges:
    def it_changes_fields_and_keeps_the_vectors(self, client, namespace):
        upload(
            client,
            namespace,
            [document("a", "one", tags=["x", "y"], author="A", metadata={"k": 1}), document("b", "two")],
        )
        job = change(
            client, namespace, "a", "b", set={"author": None, "type": "note"}, add_tags=["z"], remove_tags=["x"]
        )
        assert (job["outcomes"], job["reused"]) == ({"replaced": 2}, 2)
        found = described(client, namespace, "a")
        assert (found["tags"], found["author"], found["type"]) == (["y", "z"], None, "note")
        assert found["metadata"] == {"k": 1}
        assert described(client, namespace, "b")["tags"] == ["z"]
        assert listed(client, namespace, filters=json.dumps({"type": "note"})) == ["a", "b"]

    def it_cuts_again(self, client, namespace):
        upload(client, namespace, [document("a", " ".join(PAGES))])
        before = described(client, namespace, "a")["chunks"]
        change(client, namespace, "a", chunking={"strategy": "sentences", "max_tokens": 32})
        after = described(client, namespace, "a")
        assert after["chunks"] > before
        assert after["chunking"]["max_tokens"] == 32

    def it_asks_before_edits_of_chunks_are_lost(self, client, namespace):
        upload(client, namespace, [document("a", "one"), document("b", "two")])
        [chunk] = client.get("/v1/documents/a/chunks", params={"namespace": namespace}).json()["data"]
        client.put("/v1/chunks", json={"chunks": [{"chunk_id": chunk["chunk_id"], "text": "uno"}]}).raise_for_status()
        body = {"namespace": namespace, "document_ids": ["a"], "add_tags": ["t"]}
        problem(client.patch("/v1/documents", json=body), 409, "chunks_edited")
        job = change(client, namespace, "a", "b", add_tags=["t"])
        assert [error["code"] for error in job["errors"]] == ["chunks_edited"]
        assert described(client, namespace, "b")["tags"] == ["t"]
        change(client, namespace, "a", add_tags=["t"], discard_edits=True)
        assert described(client, namespace, "a")["tags"] == ["t"]

    def it_lets_one_of_two_editors_win(self, client, namespace):
        upload(client, namespace, [document("a", "one")])
        place = {"namespace": namespace}
        etag = client.get("/v1/documents/a/generations", params=place).json()["etag"]
        body = {"namespace": namespace, "document_ids": ["a"], "add_tags": ["t"]}
        first = client.patch("/v1/documents", json=body, headers={"If-Match": etag})
        finished(client, first.json()["job_id"])
        second = client.patch("/v1/documents", json=body, headers={"If-Match": etag})
        assert first.status_code == 202
        problem(second, 412, "precondition_failed")

    def it_refuses_what_cannot_be_changed(self, client, namespace):
        upload(client, namespace, [document("a", "one", tags=[f"t{number}" for number in range(60)])])
        body = {"namespace": namespace, "document_ids": ["a"]}
        many = client.patch("/v1/documents", json={**body, "add_tags": [f"u{number}" for number in range(9)]})
        problem(many, 409, "too_many_tags")
        unknown = client.patch("/v1/documents", json={**body, "document_ids": ["nobody"]})
        problem(unknown, 404, "document_not_found")
        assert client.patch("/v1/documents", json={**body, "document_ids": []}).status_code == 422
        assert client.patch("/v1/documents", json={**body, "document_ids": ["a", "a"]}).status_code == 422
        assert client.patch("/v1/documents", json={**body, "add_tags": ["t"], "remove_tags": ["t"]}).status_code == 422

    def it_deletes_many(self, client, namespace):
        upload(client, namespace, [document(name, name) for name in "abc"])
        body = {"namespace": namespace, "document_ids": ["a", "b", "nobody"]}
        deleted = client.request("DELETE", "/v1/documents", json=body)
        assert deleted.json() == {"namespace": namespace, "documents": 2, "more": False}
        assert listed(client, namespace) == ["c"]
        assert client.request("DELETE", "/v1/documents", json={**body, "document_ids": []}).status_code == 422
