"""Chunking through the gateway: each strategy from upload to answer, previews, parents and windows, the command line."""

from __future__ import annotations

import json
import os
from typing import Any

import httpx
import pytest

from chordwise import Chordwise
from chordwise.cli import run
from tests.conftest import gateway, make_tenant
from tests.support.clients.gateway_client import pointers, problem, send
from tests.support.corpora.documents import search, upload
from tests.support.corpora.hostile import HOSTILE

GUIDE = "# Pumps\n\n" + "\n\n".join(f"Step {n}: open valve {n} and wait until it is still." for n in range(30))
STRATEGIES: dict[str, tuple[dict[str, Any], dict[str, Any], str, str]] = {
    "sentences": ({}, {"text": GUIDE}, "valve 7", "parent"),
    "parent_child": ({"max_tokens": 32, "parent_tokens": 128}, {"text": GUIDE}, "valve 7", "child"),
    "window": ({"window": 1}, {"text": "The fox hunts. The owl sees. The hare runs."}, "owl sees", "sentence"),
    "qa": ({}, {"text": "Q: What is a pump?\nA: A machine.\n\nQ: Why?\nA: To move water."}, "What is a pump?", "qa"),
    "segments": ({}, {"text": "# One\n\nstory_time: 10\n人物：张三\n\nThe red fox hunts."}, "red fox", "segment"),
}


REFUSED = [  # as a document of each fate is in an upload: tests/integration/ingestion/test_hostile_files.py
    pytest.param(each, id=each.name, marks=[] if each.name == "encrypted.pdf" else pytest.mark.thorough)
    for each in HOSTILE
    if each.name in ("ten-thousand-entries.docx", "encrypted.pdf", "10000-deep.json", "program.pdf")
]


@pytest.fixture
def writer(use) -> Any:
    """The Python client with the key of a new tenant."""
    with Chordwise(os.environ["CHORDWISE_URL"], make_tenant(use)[1]) as found:
        yield found


def listed(client: httpx.Client, namespace: str, **more: Any) -> list[dict[str, Any]]:
    response = client.get("/v1/chunks", params={"namespace": namespace, "limit": 200, **more})
    assert response.status_code == 200, response.text
    return list(response.json()["data"])


def preview(client: httpx.Client, text: str, **chunking: Any) -> httpx.Response:
    source = {"media_type": "text/markdown"}
    return client.post("/v1/chunks/preview", json={"document": {"text": text, "source": source}, "chunking": chunking})


class DescribeEachStrategy:
    @pytest.mark.parametrize(
        "strategy",
        [
            name if name in ("parent_child", "qa", "segments") else pytest.param(name, marks=pytest.mark.thorough)
            for name in STRATEGIES
        ],
    )
    def it_goes_from_upload_to_answer_as_it_was_previewed(self, client, namespace, strategy):
        options, fields, question, kind = STRATEGIES[strategy]
        chunking = {"strategy": strategy, **options}
        document = {"document_id": "d", "source": {"media_type": "text/markdown"}, **fields}
        job = upload(client, namespace, [document], chunking=chunking)
        assert job["status"] == "succeeded", job
        found = listed(client, namespace)
        seen = preview(client, fields["text"], **chunking).json()
        searched = [chunk for chunk in found if chunk["searched"]]
        assert [chunk["text"] for chunk in searched] == [chunk["text"] for chunk in seen["chunks"]]
        assert [chunk["text"] for chunk in found if not chunk["searched"]] == [each["text"] for each in seen["parents"]]
        assert {chunk["chunk_type"] for chunk in searched} == {kind}
        assert job["chunks"] == len(searched)
        keys = [(chunk["parent_id"] or "", chunk["chunk_index"]) for chunk in found]
        assert keys == sorted(keys)
        same = client.get("/v1/documents/d/chunks", params={"namespace": namespace, "limit": 200}).json()["data"]
        assert [chunk["chunk_id"] for chunk in same] == [chunk["chunk_id"] for chunk in found]
        answer = search(client, namespace, question)
        assert answer["chunks"][0]["chunk_id"] in {chunk["chunk_id"] for chunk in searched}
        report = client.post("/v1/verify", json={}).json()
        assert report["document_vectors"] == report["missing"] == report["stale"] == report["miscounted"] == 0

    def it_reads_a_hit_with_what_is_around_it(self, client, namespace):
        text = "The fox hunts. The owl sees. The hare runs. The cat naps."
        upload(client, namespace, [{"document_id": "w", "text": text}], chunking={"strategy": "window", "window": 1})
        family = {"strategy": "parent_child", "max_tokens": 32, "parent_tokens": 128}
        upload(client, namespace + "p", [{"document_id": "p", "text": GUIDE}], chunking=family)

        def read(where: str, question: str, **context: Any) -> str:
            return str(search(client, where, question, top_k=1, context=context)["context"]["text"])

        assert "The fox hunts. The owl sees. The hare runs." in read(namespace, "owl sees")
        assert "fox" not in read(namespace, "owl sees", window=0)
        assert text in read(namespace, "owl sees", window=2)
        [hit] = search(client, namespace + "p", "valve 7", top_k=1)["chunks"]
        parents = listed(client, namespace + "p", chunk_type="parent")
        [parent] = [each for each in parents if each["chunk_id"] == hit["metadata"]["parent_id"]]
        assert parent["text"] in read(namespace + "p", "valve 7")
        assert parent["text"] not in read(namespace + "p", "valve 7", parents=False)
        several = search(client, namespace + "p", "valve", top_k=10, context={})
        assert all(several["context"]["text"].count(each["text"]) <= 1 for each in parents)
        assert len(several["context"]["citations"]) < len(several["chunks"])

    def it_reads_pairs_out_of_a_file(self, client, namespace):
        body = b"question,answer,tags\nWhat is a pump?,A machine.,x\nWhy?,To move water.,y\n"
        form = {"namespace": namespace, "chunking": json.dumps({"strategy": "qa"})}
        response = client.post("/v1/files", data=form, files={"file": ("pairs.csv", body, "text/csv")})
        assert response.status_code == 202, response.text
        client.get(response.headers["location"], params={"wait": 30})
        assert [chunk["chunk_type"] for chunk in listed(client, namespace)] == ["qa", "qa"]
        assert search(client, namespace, "Why?")["chunks"][0]["text"].startswith("question: Why?")

    @pytest.mark.parametrize(
        ("chunking", "where"),
        [
            ({"strategy": "magic"}, "/chunking/strategy"),
            ({"strategy": "window", "parent_tokens": 100}, "/chunking/parent_tokens"),
            ({"strategy": "parent_child", "parent_tokens": 100}, "/chunking/parent_tokens"),
            ({"max_tokens": 1}, "/chunking/max_tokens"),
        ],
    )
    def it_says_which_option_is_wrong(self, client, namespace, chunking, where):
        response = send(client, namespace, {"document_id": "d", "text": "x"}, chunking=chunking)
        assert pointers(problem(response, 422, "invalid_request")) == [where]
        assert pointers(problem(preview(client, "x", **chunking), 422, "invalid_request")) == [where]


class DescribePreview:
    def it_stores_nothing(self, client):
        body = preview(client, GUIDE, strategy="parent_child", max_tokens=32, parent_tokens=128).json()
        assert body["chunking"] == {"strategy": "parent_child", "max_tokens": 32, "overlap": 0.0, "parent_tokens": 128}
        assert body["title"] == "Pumps"
        assert all(chunk["token_count"] <= 32 for chunk in body["chunks"])
        assert {chunk["parent"] for chunk in body["chunks"]} == {parent["ordinal"] for parent in body["parents"]}
        assert body["chunks"][3]["embedding_text"].startswith("Pumps\n")
        assert client.get("/v1/namespaces").json()["data"] == []

    def it_takes_a_file(self, client):
        files = {"file": ("pairs.csv", b"question,answer\nWhat?,That.\n", "text/csv")}
        response = client.post("/v1/chunks/preview", data={"chunking": '{"strategy": "qa"}'}, files=files)
        assert [chunk["embedding_text"] for chunk in response.json()["chunks"]] == ["pairs > row 2\nWhat? That."]

    @pytest.mark.parametrize("hostile", REFUSED)
    def it_refuses_what_would_be_parked(self, client, hostile):
        response = client.post("/v1/chunks/preview", files={"file": (hostile.name, hostile.make())})
        problem(response, 413 if hostile.code == "document_too_large" else 422, hostile.code)

    def it_refuses_what_is_too_large_or_empty_or_no_document(self, client):
        body = problem(preview(client, "词语。" * 300_000), 413, "document_too_large")
        limit = "a preview takes at most 1048576."
        assert body["detail"] == f"The document has 2700000 bytes; {limit}"
        files = {"file": ("大.txt", b"word " * 400_000)}
        body = problem(client.post("/v1/chunks/preview", files=files), 413, "body_too_large")
        assert body["detail"].endswith("taken at once.")
        problem(preview(client, "  "), 422, "empty_document")
        body = problem(client.post("/v1/chunks/preview", json={"document": {"txt": "x"}}), 422, "invalid_request")
        assert "/document/txt" in pointers(body)
        problem(
            client.post("/v1/chunks/preview", data={"a": "b"}, files={"f": ("a.txt", b"x")}), 422, "invalid_request"
        )
        problem(client.post("/v1/chunks/preview", content=b"x"), 415, "unsupported_media_type")

    def it_needs_a_key_that_may_write(self):
        with gateway("nothing") as stranger:
            assert preview(stranger, "x").status_code == 401


class DescribeEditing:
    def it_takes_a_parent_with_its_children(self, client, namespace):
        chunking = {"strategy": "parent_child", "max_tokens": 32, "parent_tokens": 128}
        upload(client, namespace, [{"document_id": "d", "text": GUIDE}], chunking=chunking)
        parent = listed(client, namespace, chunk_type="parent")[0]
        children = listed(client, namespace, parent_id=parent["chunk_id"])
        assert len(children) > 1
        off = client.put("/v1/chunks", json={"chunks": [{"chunk_id": parent["chunk_id"], "enabled": False}]})
        assert off.json()["data"][0]["status"] == "updated"
        assert len(listed(client, namespace, enabled="false")) == len(children) + 1
        response = client.request("DELETE", "/v1/chunks", json={"chunk_ids": [parent["chunk_id"]]})
        assert response.json()["data"][0]["status"] == "deleted"
        left = {chunk["chunk_id"] for chunk in listed(client, namespace)}
        assert not left & {parent["chunk_id"], *(child["chunk_id"] for child in children)}


class DescribeTheClient:
    def it_previews_lists_edits_and_deletes(self, writer, namespace, tmp_path):
        path = tmp_path / "guide.md"
        path.write_text(GUIDE)
        seen = writer.preview(path, chunking={"strategy": "window"})
        writer.wait(writer.ingest(path, namespace=namespace, chunking={"strategy": "window"}), timeout=60)
        found = writer.chunks(namespace=namespace, limit=None)
        assert [chunk.text for chunk in found] == [chunk.text for chunk in seen.chunks]
        assert found[1].window is not None
        assert found[0].text in found[1].window
        [done] = writer.edit_chunks([{"chunk_id": found[0].chunk_id, "text": "A parrot.", "etag": found[0].etag}])
        assert done.status == "updated"
        assert writer.chunks(namespace=namespace, limit=1)[0].text == "A parrot."
        assert [each.status for each in writer.delete_chunks([found[0].chunk_id])] == ["deleted"]
        assert len(writer.chunks(namespace=namespace, limit=None)) == len(found) - 1

    def it_does_so_on_the_command_line(self, use, namespace, monkeypatch, capsys):
        _, key = make_tenant(use)
        monkeypatch.setenv("CHORDWISE_API_KEY", key)
        with Chordwise(os.environ["CHORDWISE_URL"], key) as client:
            client.wait(client.ingest({"document_id": "d", "text": "One."}, namespace=namespace), timeout=60)
            [chunk] = client.chunks(namespace=namespace)
            assert run(["chunks", "list", "--namespace", namespace]) == 0
            assert chunk.chunk_id in capsys.readouterr().out
            assert run(["chunks", "edit", chunk.chunk_id, "--text", "Two."]) == 0
            assert run(["chunks", "disable", chunk.chunk_id]) == 0
            assert [each.enabled for each in client.chunks(namespace=namespace)] == [False]
            assert run(["chunks", "enable", chunk.chunk_id]) == 0
            capsys.readouterr()
            assert run(["chunks", "list", "-n", namespace, "--json"]) == 0
            assert [each["text"] for each in json.loads(capsys.readouterr().out)["data"]] == ["Two."]
            assert run(["chunks", "delete", chunk.chunk_id]) == 0
            assert client.chunks(namespace=namespace) == []
            assert run(["chunks", "delete", chunk.chunk_id]) == 1
