"""Jobs steered and dead letters handled through the gateway, with workers behind it."""

from __future__ import annotations

import uuid
from typing import Any

import httpx
import pytest

from chordwise.cli import run
from tests.conftest import gateway, make_tenant
from tests.support.clients.gateway_client import VALID, ended, problem, send
from tests.support.servers.web_server import WebServer

PUMPS = 100  # more than workers finish while a job is paused and cancelled


def failed(client: httpx.Client, namespace: str, *names: str) -> dict[str, Any]:
    """A job whose documents, named so, all fail: they hold nothing but a comment, and that is found out when parsing."""
    documents = [{"document_id": name, "text": "<!-- -->", "source": {"media_type": "text/html"}} for name in names]
    job = ended(client, send(client, namespace, *documents))
    assert (job["status"], job["failed"]) == ("failed", len(names)), job
    return job


def letters(client: httpx.Client, **chosen: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get("/v1/dead-letters", params=chosen).json()["data"]
    return found


class DescribeSteering:
    def it_pauses_cancels_and_retries(self, client, namespace):
        documents = [{"document_id": f"d{n}", "text": f"The pump number {n}."} for n in range(PUMPS)]
        path = send(client, namespace, *documents).headers["location"]
        paused = client.post(f"{path}/pause").json()
        assert paused["paused_at"]
        cancelled = client.post(f"{path}/cancel").json()
        assert cancelled["finished_at"]
        assert cancelled["cancelled"] + cancelled["succeeded"] == PUMPS
        assert client.post(f"{path}/cancel").json()["cancelled"] == cancelled["cancelled"]
        retried = client.post(f"{path}/retry").json()
        assert (retried["cancelled"], retried["finished_at"]) == (0, None)
        job = client.get(path, params={"wait": 60}).json()
        if job["finished_at"] is None:  # some were cancelled in a worker's hands: their rows go first
            job = client.get(path, params={"wait": 60}).json()
        assert (job["status"], job["succeeded"]) == ("succeeded", PUMPS)

    def it_refuses_what_has_ended_and_what_is_not_there(self, client, namespace, use):
        job = ended(client, send(client, namespace, VALID))
        for step in ("cancel", "retry", "pause", "resume"):
            code = "nothing_to_retry" if step == "retry" else "job_finished"
            problem(client.post(f"/v1/jobs/{job['job_id']}/{step}"), 409, code)
            problem(client.post(f"/v1/jobs/{uuid.uuid4()}/{step}"), 404, "job_not_found")
            problem(client.post(f"/v1/jobs/nonsense/{step}"), 404, "job_not_found")
            with gateway(make_tenant(use)[1]) as stranger:
                problem(stranger.post(f"/v1/jobs/{job['job_id']}/{step}"), 404, "job_not_found")


class DescribeDeadLetters:
    def it_shows_what_failed_without_its_text(self, client, namespace):
        job = failed(client, namespace, "a", "b")
        found = letters(client, job_id=job["job_id"])
        assert {letter["document_id"] for letter in found} == {"a", "b"}
        letter = client.get(f"/v1/dead-letters/{found[0]['id']}").json()
        assert letter == found[0]
        assert (letter["reason"], letter["code"], letter["attempts"]) == ("rejected", "empty_document", 1)
        assert letter["payload"]["available"]
        assert "<!--" not in str(letter)

    def it_pages_and_filters(self, client, namespace):
        failed(client, namespace, *"abcde")
        seen, cursor = [], None
        while True:
            parameters = {"limit": 2, **({"cursor": cursor} if cursor else {})}
            page = client.get("/v1/dead-letters", params=parameters).json()
            seen += [letter["document_id"] for letter in page["data"]]
            cursor = page["next_cursor"]
            if cursor is None:
                break
        assert sorted(seen) == list("abcde")
        assert letters(client, reason="gave_up") == []
        assert letters(client, code="empty_document", namespace=namespace, reason="rejected") != []
        problem(client.get("/v1/dead-letters", params={"reason": "whim"}), 422, "invalid_request")
        problem(client.get("/v1/dead-letters", params={"job_id": "x"}), 422, "invalid_request")
        problem(client.get("/v1/dead-letters", params={"cursor": "x"}), 422, "invalid_cursor")

    def it_replays_what_can_succeed_and_counts_anew(self, client, namespace):
        with WebServer() as web:  # without a page: 404
            gone = {"document_id": "page", "source": {"uri": web.url("/gone")}}
            job = ended(client, send(client, namespace, gone))
            self._replays(client, namespace, job)

    def _replays(self, client, namespace, job):
        empty = failed(client, namespace, "a", "b")
        one = letters(client, code="fetch_failed")[0]
        assert (one["retryable"], one["advice"]) == (
            True,
            "Replay it once the address delivers the document, or upload the document itself.",
        )
        assert client.post(f"/v1/dead-letters/{one['id']}/replay").json() == {"replayed": 1}
        assert client.get(f"/v1/jobs/{job['job_id']}", params={"wait": 30}).json()["failed"] == 1
        assert client.post("/v1/dead-letters/replay", json={"code": "other"}).json() == {"replayed": 0}
        assert client.post("/v1/dead-letters/replay", json={"all": True}).json() == {"replayed": 1}
        assert client.post("/v1/dead-letters/replay", json={"code": "empty_document"}).json() == {"replayed": 2}
        assert client.get(f"/v1/jobs/{empty['job_id']}", params={"wait": 30}).json()["failed"] == 2

    def it_says_what_to_do_where_another_attempt_cannot_help(self, client, namespace):
        job = failed(client, namespace, "a")
        [letter] = letters(client)
        refused = problem(client.post(f"/v1/dead-letters/{letter['id']}/replay"), 409, "not_retryable")
        assert (letter["retryable"], refused["detail"]) == (False, letter["advice"])
        assert letter["advice"].startswith("The same upload fails again: upload a corrected document")
        problem(client.post(f"/v1/jobs/{job['job_id']}/retry"), 409, "nothing_to_retry")
        assert client.post("/v1/dead-letters/replay", json={"all": True}).json() == {"replayed": 0}

    def it_counts_a_document_once_until_an_upload_succeeds(self, client, namespace):
        for _ in range(3):
            failed(client, namespace, "a", "b")
        assert sorted((each["document_id"], each["generation"]) for each in letters(client)) == [("a", 3), ("b", 3)]
        ended(client, send(client, namespace, {"document_id": "a", "text": "A pump."}))
        assert [each["document_id"] for each in letters(client)] == ["b"]
        client.delete("/v1/documents/b", params={"namespace": namespace})
        assert letters(client) == []

    @pytest.mark.parametrize("body", [{}, {"all": False}, {"all": True, "code": "x"}, {"reason": "whim"}, {"code": 5}])
    def it_replays_nothing_that_was_not_named(self, client, namespace, body):
        problem(client.post("/v1/dead-letters/replay", json=body), 422, "invalid_request")

    def it_drops_a_dead_letter(self, client, namespace):
        job = failed(client, namespace, "a")
        [letter] = letters(client)
        assert client.delete(f"/v1/dead-letters/{letter['id']}").status_code == 204
        for refused in (
            client.delete(f"/v1/dead-letters/{letter['id']}"),
            client.get(f"/v1/dead-letters/{letter['id']}"),
            client.post(f"/v1/dead-letters/{letter['id']}/replay"),
        ):
            problem(refused, 404, "dead_letter_not_found")
        assert client.get(f"/v1/jobs/{job['job_id']}").json()["failed"] == 1

    def it_hides_dead_letters_of_other_tenants(self, client, namespace, use):
        failed(client, namespace, "a")
        [letter] = letters(client)
        with gateway(make_tenant(use)[1]) as stranger:
            assert letters(stranger) == []
            problem(stranger.get(f"/v1/dead-letters/{letter['id']}"), 404, "dead_letter_not_found")
            assert stranger.post("/v1/dead-letters/replay", json={"all": True}).json() == {"replayed": 0}

    def it_can_be_done_from_the_command_line(self, use, namespace, monkeypatch, capsys):
        _, key = make_tenant(use)
        monkeypatch.setenv("CHORDWISE_API_KEY", key)
        with gateway(key) as client:
            job = failed(client, namespace, "a")
            [letter] = letters(client)
            for arguments, said in (
                (["dead-letters"], letter["id"]),
                (["dead-letters", letter["id"]], "empty_document"),
                (["dead-letters", letter["id"]], "upload a corrected document"),
                (
                    ["dead-letters", "--replay", "--all"],
                    "0 documents queued again; 1 left, because another attempt fails",
                ),
            ):
                assert run(arguments) == 0
                assert said in capsys.readouterr().out
            client.get(f"/v1/jobs/{job['job_id']}", params={"wait": 30})
            assert run(["jobs", job["job_id"], "--cancel"]) == 1
            assert "has ended already" in capsys.readouterr().err
            assert run(["dead-letters", letter["id"], "--drop"]) == 0
            assert run(["dead-letters", "--replay"]) == 2
