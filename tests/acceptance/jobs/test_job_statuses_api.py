"""Jobs listed by their status: over HTTP, by the client and on the command line."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from chordwise import Chordwise
from chordwise.cli import run
from tests.conftest import gateway
from tests.support.clients.gateway_client import pointers, problem, send
from tests.support.corpora.documents import begun, document, finished

BROKEN = {"document_id": "broken", "source": {"bytes": "JVBERi0xLjQKbm8=", "media_type": "application/pdf"}}


@pytest.fixture(scope="module")
def client(key):
    with gateway(key) as found:
        yield found


@pytest.fixture(scope="module")
def jobs(client) -> dict[str, str]:
    """A job in each state that a job can end in, and one that is paused before it begins."""
    sent = {
        "succeeded": [document("a", "The pump.")],
        "failed": [BROKEN],
        "partly_failed": [document("b", "水泵。"), BROKEN],
    }
    found = {}
    for status, documents in sent.items():
        job = finished(client, send(client, "kb", *documents).json()["job_id"])
        assert job["status"] == status
        found[status] = job["job_id"]
    job_id = begun(client, "late", 150)
    client.post(f"/v1/jobs/{job_id}/cancel")
    assert finished(client, job_id)["status"] == "cancelled"
    return {**found, "cancelled": job_id}


def listed(client: httpx.Client, *statuses: str, limit: int = 1) -> list[str]:
    """The ids of the jobs of every page."""
    found: list[str] = []
    cursor = None
    while True:
        params: list[tuple[str, Any]] = [("limit", limit), *(("status", status) for status in statuses)]
        page = (
            client.get("/v1/jobs", params=params + ([("cursor", cursor)] if cursor else [])).raise_for_status().json()
        )
        found += [job["job_id"] for job in page["data"]]
        if (cursor := page["next_cursor"]) is None:
            return found


class DescribeJobsByStatus:
    def it_lists_those_of_one_status(self, client, jobs):
        assert {status: listed(client, status) for status in jobs} == {status: [job] for status, job in jobs.items()}
        assert listed(client, "running") == listed(client, "queued") == []

    def it_lists_those_of_several_newest_first(self, client, jobs):
        assert listed(client, "failed", "partly_failed") == [jobs["partly_failed"], jobs["failed"]]
        assert listed(client, *jobs, "running", "queued") == listed(client) == list(jobs.values())[::-1]

    def it_agrees_with_what_a_job_says_while_it_is_worked_on(self, client):
        job_id = begun(client, "now", 100)
        seen = set()
        while True:
            before = client.get(f"/v1/jobs/{job_id}").json()["status"]
            among = {
                status for status in ("queued", "running", "succeeded") if job_id in listed(client, status, limit=50)
            }
            after = client.get(f"/v1/jobs/{job_id}").json()["status"]
            if before == after:
                assert among == {before}
                seen.add(before)
            if after == "succeeded":
                break
        assert "running" in seen or "queued" in seen

    def it_refuses_an_unknown_status(self, client):
        answer = client.get("/v1/jobs", params={"status": "失败"})
        assert pointers(problem(answer, 422, "invalid_request")) == ["/status/0"]

    def it_is_known_to_the_client_and_the_command_line(self, client, jobs, key, monkeypatch, capsys):
        monkeypatch.setenv("CHORDWISE_API_KEY", key)
        with Chordwise(api_key=key) as chordwise:
            assert [job.job_id for job in chordwise.jobs(status="failed")] == [jobs["failed"]]
            both = chordwise.jobs(status=["failed", "cancelled"])
            assert {job.job_id for job in both} == {jobs["failed"], jobs["cancelled"]}
        assert run(["jobs", "--status", "failed", "--status", "partly_failed", "--json"]) == 0
        told = [job["job_id"] for job in json.loads(capsys.readouterr().out)["data"]]
        assert told == [jobs["partly_failed"], jobs["failed"]]
        assert run(["jobs", "--status", "broken"]) == 2
        assert run(["jobs", jobs["failed"], "--status", "failed"]) == 2
