"""Uploads under ids that are taken, documents with the same bytes, and documents with a chunking of their own."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import httpx
import pytest

from chordwise import Chordwise, Document
from chordwise.cli import run
from tests.conftest import gateway, make_tenant
from tests.support.clients.gateway_client import pointers, problem, send
from tests.support.corpora.documents import document, finished, found_documents, search, upload

FIRST = {"english": "The red fox hunts at night.", "chinese": "红色的狐狸在夜里捕猎。"}
SECOND = {"english": "The silver badger digs tunnels.", "chinese": "银色的獾在山坡下挖掘隧道。"}
LANGUAGES = pytest.mark.parametrize("language", ["english", "chinese"])


def described(client: httpx.Client, namespace: str, document_id: str) -> dict[str, Any]:
    response = client.get(f"/v1/documents/{document_id}", params={"namespace": namespace})
    assert response.status_code == 200, response.text
    return dict(response.json())


def listed(client: httpx.Client, namespace: str) -> dict[str, dict[str, Any]]:
    page = client.get("/v1/documents", params={"namespace": namespace, "limit": 200}).raise_for_status().json()
    return {each["document_id"]: each for each in page["data"]}


def items(client: httpx.Client, job_id: str, **more: Any) -> list[dict[str, Any]]:
    answer = client.get(f"/v1/jobs/{job_id}/items", params={"limit": 200, **more}).raise_for_status()
    return list(answer.json()["data"])


def sent_new(client: httpx.Client, namespace: str, *documents: dict[str, Any]) -> dict[str, Any]:
    response = send(client, namespace, *documents, on_conflict="new")
    assert response.status_code == 202, response.text
    finished(client, response.json()["job_id"])
    return dict(response.json())


class DescribeOnConflictNew:
    @LANGUAGES
    def it_keeps_both_and_names_the_new_id(self, client, namespace, language):
        upload(client, namespace, [document("d1", FIRST[language])])
        accepted = sent_new(client, namespace, document("d1", SECOND[language]))
        (renamed,) = accepted["renamed"]
        other = renamed["document_id"]
        assert other.startswith("d1~")
        assert (renamed["ordinal"], renamed["requested_id"]) == (0, "d1")
        (item,) = items(client, accepted["job_id"])
        assert (item["document_id"], item["requested_id"], item["outcome"]) == (other, "d1", "created")
        assert listed(client, namespace).keys() == {"d1", other}
        assert found_documents(search(client, namespace, FIRST[language]))[0] == "d1"
        assert found_documents(search(client, namespace, SECOND[language]))[0] == other

    def it_stores_the_same_bytes_once(self, client, namespace):
        upload(client, namespace, [document("d1", FIRST["english"])])
        other = sent_new(client, namespace, document("d1", SECOND["english"]))["renamed"][0]["document_id"]
        again = sent_new(client, namespace, document("d1", SECOND["english"]))
        assert [each["document_id"] for each in again["renamed"]] == [other]
        (item,) = items(client, again["job_id"])
        assert (item["outcome"], other in item["detail"]) == ("skipped", True)
        first = sent_new(client, namespace, document("d1", FIRST["english"]))
        assert "renamed" not in first
        assert items(client, first["job_id"])[0]["outcome"] == "skipped"
        assert listed(client, namespace).keys() == {"d1", other}

    def it_keeps_the_id_where_it_is_free(self, client, namespace):
        assert "renamed" not in sent_new(client, namespace, document("d1", FIRST["english"]))
        client.delete("/v1/documents/d1", params={"namespace": namespace}).raise_for_status()
        assert "renamed" not in sent_new(client, namespace, document("d1", SECOND["english"]))
        assert listed(client, namespace).keys() == {"d1"}

    def it_keeps_all_of_one_request(self, client, namespace):
        texts = [FIRST["english"], SECOND["english"], FIRST["english"], SECOND["chinese"]]
        accepted = sent_new(client, namespace, *(document("d1", text) for text in texts))
        found = items(client, accepted["job_id"])
        assert [item["outcome"] for item in found] == ["created", "created", "skipped", "created"]
        assert found[2]["document_id"] == found[0]["document_id"] == "d1"
        assert len(listed(client, namespace)) == 3

    @pytest.mark.thorough
    def it_gives_a_longer_suffix_where_the_short_one_is_taken(self, client, namespace):
        upload(client, namespace, [document("d1", FIRST["english"])])
        short = sent_new(client, namespace, document("d1", SECOND["english"]))["renamed"][0]["document_id"]
        upload(client, namespace, [document(short, "Something else stands here now.")])
        long = sent_new(client, namespace, document("d1", SECOND["english"]))["renamed"][0]["document_id"]
        assert long.startswith(short)
        assert len(long) > len(short)
        assert listed(client, namespace).keys() == {"d1", short, long}

    @pytest.mark.thorough
    def it_loses_none_of_uploads_at_once(self, use, namespace):
        _, key = make_tenant(use)
        uploads = 4
        together = Barrier(uploads)

        def one(number: int) -> dict[str, Any]:
            with gateway(key) as own:
                together.wait()
                return sent_new(own, namespace, document("d1", f"Text number {number} of all. 第{number}篇。"))

        with ThreadPoolExecutor(uploads) as pool:
            jobs = list(pool.map(one, range(uploads)))
        with gateway(key) as client:
            there = listed(client, namespace)
            texts = {
                chunk["text"]
                for chunk in client.get("/v1/chunks", params={"namespace": namespace, "limit": 200}).json()["data"]
            }
        assert len(there) == uploads
        assert texts == {f"Text number {number} of all. 第{number}篇。" for number in range(uploads)}
        assert sum("renamed" in job for job in jobs) == uploads - 1

    def it_keeps_files_of_one_name(self, client, namespace):
        def sent(body: str) -> dict[str, Any]:
            answer = client.post(
                "/v1/files",
                data={"namespace": namespace, "on_conflict": "new"},
                files={"file": ("说明.md", body.encode())},
            )
            assert answer.status_code == 202, answer.text
            finished(client, answer.json()["job_id"])
            return dict(answer.json())

        sent(FIRST["chinese"])
        (renamed,) = sent(SECOND["chinese"])["renamed"]
        assert listed(client, namespace).keys() == {"说明.md", renamed["document_id"]}

    def it_is_printed_by_the_command_line(self, use, namespace, tmp_path, monkeypatch, capsys):
        _, key = make_tenant(use)
        monkeypatch.setenv("CHORDWISE_API_KEY", key)
        note = tmp_path / "note.txt"
        for text in (FIRST["english"], SECOND["english"]):
            note.write_text(text)
            assert run(["ingest", str(note), "--namespace", namespace, "--on-conflict", "new", "--wait"]) == 0
        assert "note.txt is taken: stored as note.txt~" in capsys.readouterr().out


class DescribeDuplicates:
    def it_names_the_first_document_with_the_same_bytes(self, client, namespace):
        upload(client, namespace, [document("first", FIRST["chinese"]), document("other", SECOND["chinese"])])
        job = upload(client, namespace, [document("copy", FIRST["chinese"]), document("new", "New. 新的。")])
        assert described(client, namespace, "copy")["duplicate_of"] == "first"
        assert described(client, namespace, "first")["duplicate_of"] is None
        assert {item["document_id"]: item["duplicate_of"] for item in items(client, job["job_id"])} == {
            "copy": "first",
            "new": None,
        }
        assert [item["document_id"] for item in items(client, job["job_id"], duplicates=True)] == ["copy"]
        assert job["outcomes"] == {"created": 2}
        assert {"first", "copy"} <= set(found_documents(search(client, namespace, FIRST["chinese"])))

    @pytest.mark.thorough
    def it_follows_deletions_and_replacements(self, client, namespace):
        for name in ("a", "b", "c"):
            upload(client, namespace, [document(name, FIRST["english"])])
        assert {name: each["duplicate_of"] for name, each in listed(client, namespace).items()} == {
            "a": None,
            "b": "a",
            "c": "a",
        }
        client.delete("/v1/documents/a", params={"namespace": namespace}).raise_for_status()
        assert described(client, namespace, "c")["duplicate_of"] == "b"
        upload(client, namespace, [document("b", SECOND["english"])])
        assert described(client, namespace, "c")["duplicate_of"] is None

    @pytest.mark.thorough
    def it_is_kept_to_a_namespace_and_a_tenant(self, use, client, namespace):
        upload(client, namespace, [document("first", FIRST["english"])])
        upload(client, f"{namespace}-other", [document("copy", FIRST["english"])])
        assert described(client, f"{namespace}-other", "copy")["duplicate_of"] is None
        with gateway(make_tenant(use)[1]) as another:
            upload(another, namespace, [document("copy", FIRST["english"])])
            assert described(another, namespace, "copy")["duplicate_of"] is None

    @pytest.mark.thorough
    def it_counts_no_document_that_failed(self, client, namespace):
        blank = "<html><head><title></title></head></html>"
        source = {"media_type": "text/html"}
        upload(client, namespace, [document("failed", blank, source=source)])
        upload(client, namespace, [document("other", blank, source={"media_type": "text/plain"})])
        assert described(client, namespace, "other")["duplicate_of"] is None

    def it_is_printed_by_the_command_line(self, use, namespace, tmp_path, monkeypatch, capsys):
        _, key = make_tenant(use)
        monkeypatch.setenv("CHORDWISE_API_KEY", key)
        for name in ("a.txt", "b.txt", "c.txt"):
            (tmp_path / name).write_text(SECOND["chinese"] if name == "c.txt" else FIRST["chinese"])
        assert run(["ingest", str(tmp_path), "--namespace", namespace, "--wait"]) == 0
        out = capsys.readouterr().out
        assert [line for line in out.splitlines() if "same bytes" in line] == ["b.txt has the same bytes as a.txt"]
        assert run(["ingest", str(tmp_path), "--namespace", namespace, "--wait", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["duplicates"] == [{"document_id": "b.txt", "duplicate_of": "a.txt"}]


class DescribeChunkingOfOneDocument:
    def it_is_used_in_place_of_the_requests_and_shown(self, client, namespace):
        text = " ".join(FIRST.values())
        job = upload(
            client,
            namespace,
            [document("own", text, chunking={"strategy": "window", "window": 2}), document("shared", text)],
            chunking={"strategy": "parent_child", "max_tokens": 64, "parent_tokens": 256},
        )
        upload(client, namespace, [document("usual", text)])
        assert job["succeeded"] == 2
        shown = {name: each["chunking"] for name, each in listed(client, namespace).items()}
        assert shown == {
            "own": {"strategy": "window", "max_tokens": 256, "window": 2},
            "shared": {"strategy": "parent_child", "max_tokens": 64, "overlap": 0.0, "parent_tokens": 256},
            "usual": {"strategy": "sentences", "max_tokens": 400, "overlap": 0.2},
        }
        kinds = {
            name: {
                chunk["chunk_type"]
                for chunk in client.get(f"/v1/documents/{name}/chunks?namespace={namespace}").json()["data"]
            }
            for name in shown
        }
        assert kinds == {"own": {"sentence"}, "shared": {"parent", "child"}, "usual": {"parent"}}

    def it_is_used_in_a_preview(self, client):
        sent = {
            "document": {"text": FIRST["english"], "chunking": {"strategy": "window"}},
            "chunking": {"max_tokens": 64},
        }
        previewed = client.post("/v1/chunks/preview", json=sent).raise_for_status().json()
        assert [chunk["chunk_type"] for chunk in previewed["chunks"]] == ["sentence"]

    def it_refuses_what_is_wrong_with_its_place_and_takes_the_others(self, client, namespace):
        wrong = {
            "/strategy": {"strategy": "sections"},
            "/window": {"strategy": "window", "window": 99},
            "/max_tokens": {"max_tokens": 4},
            "": "window",
        }
        bad = [document(f"b{number}", "Two.", chunking=value) for number, value in enumerate(wrong.values())]
        job = upload(client, namespace, [document("a", "One."), *bad])
        assert (job["succeeded"], job["failed"]) == (1, 4)
        places = [f"/documents/{number}/chunking{pointer}" for number, pointer in enumerate(wrong, start=1)]
        assert [error["pointer"] for error in job["errors"]] == places
        alone = problem(send(client, namespace, bad[0]), 422, "invalid_document")
        assert pointers(alone) == ["/documents/0/chunking/strategy"]

    def it_is_taken_from_a_line_of_a_file_and_from_the_client(self, use, namespace, tmp_path, monkeypatch):
        _, key = make_tenant(use)
        line = json.dumps({"id": "line", "text": FIRST["chinese"], "chunking": {"strategy": "window"}})
        with gateway(key) as client:
            answer = client.post("/v1/files", data={"namespace": namespace}, files={"file": ("a.jsonl", line.encode())})
            finished(client, answer.raise_for_status().json()["job_id"])
            assert described(client, namespace, "line")["chunking"]["strategy"] == "window"
        with Chordwise(os.environ["CHORDWISE_URL"], key) as client:
            sent = Document(document_id="typed", text=FIRST["english"], chunking={"max_tokens": 64})
            client.wait(client.ingest([sent], namespace=namespace))
            assert client.document("typed", namespace=namespace).chunking == {
                "strategy": "sentences",
                "max_tokens": 64,
                "overlap": 0.2,
            }
        monkeypatch.setenv("CHORDWISE_API_KEY", key)
        (tmp_path / "f.txt").write_text(FIRST["english"])
        path, cut = str(tmp_path / "f.txt"), '{"strategy": "window", "window": 1}'
        assert run(["ingest", path, "--namespace", namespace, "--wait", "--chunking", cut]) == 0
        with Chordwise(os.environ["CHORDWISE_URL"], key) as client:
            assert client.document("f.txt", namespace=namespace).chunking["window"] == 1
        assert run(["ingest", path, "--namespace", namespace, "--chunking", "{"]) == 2
