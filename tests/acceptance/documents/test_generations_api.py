"""Generations as a user meets them: through the gateway, the workers and the command line."""

from __future__ import annotations

import threading
from typing import Any

import httpx
import pytest

from chordwise.cli import run
from tests.conftest import gateway, make_tenant
from tests.support.clients.gateway_client import problem
from tests.support.corpora.documents import document, finished

REPLACEMENTS = 12


def hand_in(client: httpx.Client, namespace: str, *documents: dict[str, Any], **options: Any) -> dict[str, Any]:
    sent = client.post("/v1/documents", json={"namespace": namespace, "documents": list(documents), **options})
    assert sent.status_code == 202, sent.text
    return finished(client, sent.json()["job_id"])


def generations(client: httpx.Client, namespace: str) -> dict[str, Any]:
    answer = client.get("/v1/documents/a/generations", params={"namespace": namespace})
    assert (answer.status_code, answer.headers["ETag"]) == (200, answer.json()["etag"])
    return answer.json()


def text_of(client: httpx.Client, namespace: str) -> str:
    found = client.get("/v1/documents/a/chunks", params={"namespace": namespace}).json()["data"]
    return "\n".join(chunk["text"] for chunk in found)


class DescribeGenerations:
    def it_names_the_outcome_of_each_item(self, client, namespace):
        assert hand_in(client, namespace, document("a", "one"))["outcomes"] == {"created": 1}
        same = hand_in(client, namespace, document("a", "one"), document("b", "b"))
        assert (same["outcomes"], same["chunks"], same["reused"]) == ({"unchanged": 1, "created": 1}, 2, 1)
        skipped = hand_in(client, namespace, document("a", "two"), on_conflict="skip")
        refused = hand_in(client, namespace, document("a", "two"), document("c", "c"), on_conflict="error")
        assert (skipped["outcomes"], refused["outcomes"]) == ({"skipped": 1}, {"refused": 1, "created": 1})
        [first, _] = client.get(f"/v1/jobs/{refused['job_id']}/items").json()["data"]
        assert (first["status"], first["outcome"], first["code"]) == ("failed", "refused", "document_exists")
        assert text_of(client, namespace) == "one"

    def it_rolls_back_and_undoes_the_rollback(self, client, namespace):
        for text in ("one", "two"):
            hand_in(client, namespace, document("a", text))
        before = generations(client, namespace)
        assert [(each["generation"], each["state"]) for each in before["data"]] == [(2, "shown"), (1, "previous")]
        assert (before["data"][1]["bytes"], len(before["data"][1]["content_hash"])) == (3, 64)
        sent = client.post(
            "/v1/documents/a/rollback",
            json={"namespace": namespace, "generation": 1},
            headers={"If-Match": before["etag"]},
        )
        assert (sent.status_code, sent.headers["Location"]) == (202, f"/v1/jobs/{sent.json()['job_id']}")
        assert finished(client, sent.json()["job_id"])["outcomes"] == {"replaced": 1}
        assert text_of(client, namespace) == "one"
        stale = client.post(
            "/v1/documents/a/rollback", json={"namespace": namespace}, headers={"If-Match": before["etag"]}
        )
        problem(stale, 412, "precondition_failed")
        again = client.post("/v1/documents/a/rollback", json={"namespace": namespace})
        finished(client, again.json()["job_id"])
        assert text_of(client, namespace) == "two"

    def it_refuses_what_cannot_be_done(self, client, namespace, use):
        hand_in(client, namespace, document("a", "one"))
        path, body = "/v1/documents/a/rollback", {"namespace": namespace}
        problem(client.post(path, json=body), 409, "generation_not_kept")
        problem(client.post(path, json={**body, "generation": 0}), 422, "invalid_request")
        problem(client.post(path, json={**body, "else": 1}), 422, "invalid_request")
        problem(client.post("/v1/documents/none/rollback", json=body), 404, "document_not_found")
        with gateway(make_tenant(use)[1]) as stranger:
            problem(stranger.post(path, json=body), 404, "document_not_found")
            problem(stranger.get("/v1/documents/a/generations", params=body), 404, "document_not_found")

    def it_rolls_back_on_the_command_line(self, use, namespace, monkeypatch, capsys):
        _, key = make_tenant(use)
        monkeypatch.setenv("CHORDWISE_API_KEY", key)
        with gateway(key) as client:
            for text in ("one", "two"):
                hand_in(client, namespace, document("a", text))
            assert run(["documents", "generations", "a", "-n", namespace]) == 0
            assert "previous" in capsys.readouterr().out
            assert run(["documents", "rollback", "a", "-n", namespace, "--wait"]) == 0
            assert "rolled back" in capsys.readouterr().out
            assert text_of(client, namespace) == "one"
            assert run(["documents", "rollback", "a", "-n", namespace, "--generation", "77"]) == 1
            assert "generation 77 is not kept" in capsys.readouterr().err


class DescribeReplacing:
    @pytest.mark.timeout(180)
    def it_shows_every_search_the_old_or_the_new_and_never_both_or_neither(self, client, namespace, use):
        """Many replacements of a document of several chunks, with others around it, under two loops of queries."""
        hand_in(client, namespace, self._version(0), *(document(f"other-{n}", f"other {n}") for n in range(20)))
        stop, asked, wrong = threading.Event(), [0], []
        key = client.headers["Authorization"].removeprefix("Bearer ")

        def ask() -> None:
            with gateway(key) as mine:
                while not stop.is_set():
                    lowest = current[0]
                    answer = mine.post(
                        "/v1/rag/query",
                        json={"query_text": "which zebra is it", "namespaces": [namespace], "top_k": 20},
                    ).json()
                    highest = current[0] + 1
                    asked[0] += 1
                    found = {
                        int(word.removeprefix("version-"))
                        for chunk in answer.get("chunks", [])
                        if chunk["document_id"] == "a"
                        for word in chunk["text"].split()
                        if word.startswith("version-")
                    }
                    if not found and answer["stats"]["degraded"]:
                        continue  # a busy machine lost the channels to their deadline, and the answer says so
                    if len(found) != 1 or not lowest <= min(found) <= highest:
                        wrong.append((lowest, found, highest, answer.get("stats", answer)))

        current = [0]
        threads = [threading.Thread(target=ask) for _ in range(2)]
        for each in threads:
            each.start()
        try:
            for number in range(1, REPLACEMENTS + 1):
                job = hand_in(client, namespace, self._version(number))
                assert job["outcomes"] == {"replaced": 1}
                current[0] = number
        finally:
            stop.set()
            for each in threads:
                each.join()
        assert wrong == []
        assert asked[0] > REPLACEMENTS / 2

    @staticmethod
    def _version(number: int) -> dict[str, Any]:
        return document("a", "\n\n".join(f"The zebra is version-{number} in part {part}. " * 40 for part in range(3)))
