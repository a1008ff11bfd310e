"""Jobs followed through the gateway while workers process them: no event is missed, with many clients and broken
ones."""

from __future__ import annotations

import asyncio
import json
import os
import time
import uuid
from typing import Any

import httpx
import pytest

from chordwise import Chordwise
from chordwise.cli import run
from tests.conftest import gateway, make_tenant
from tests.support.clients.gateway_client import VALID, ended, problem, send
from tests.support.servers.web_server import WebServer

BAD = {"text": "<!-- -->", "source": {"media_type": "text/html"}}


def batch(good: int, bad: int = 0) -> list[dict[str, Any]]:
    documents: list[dict[str, Any]] = [{"document_id": f"good-{n}", "text": f"The pump {n}."} for n in range(good)]
    return documents + [{"document_id": f"bad-{n}", **BAD} for n in range(bad)]


def events(response: httpx.Response, *, at_most: int = 100_000) -> list[dict[str, Any]]:
    """The events of a stream until it ends, or so many."""
    found: list[dict[str, Any]] = []
    fields: dict[str, str] = {}
    for line in response.iter_lines():
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
            continue
        if "data" in fields:
            found.append({"id": fields["id"], "event": fields["event"], "data": json.loads(fields["data"])})
            if len(found) == at_most:
                return found
        fields = {}
    return found


def follow(client: httpx.Client, path: str, *, last: str = "", at_most: int = 100_000) -> list[dict[str, Any]]:
    headers = {"Last-Event-ID": last} if last else {}
    with client.stream("GET", f"{path}/events", headers=headers) as response:
        assert response.status_code == 200, response.read()
        assert response.headers["content-type"].startswith("text/event-stream")
        assert "no-cache" in response.headers["cache-control"]
        assert response.headers["x-accel-buffering"] == "no"
        return events(response, at_most=at_most)


def failed_of(found: list[dict[str, Any]]) -> list[str]:
    return [event["data"]["document_id"] for event in found if event["event"] == "item_failed"]


class DescribeFollowing:
    def it_sends_every_event_until_the_job_ends(self, client, namespace):
        path = send(client, namespace, *batch(60, 3)).headers["location"]
        found = follow(client, path)
        assert found[0]["event"] == "progress"
        assert [event["event"] for event in found].count("finished") == 1
        last = found[-1]
        assert last["event"] == "finished"
        told = last["data"]
        assert (told["status"], told["total"], told["succeeded"], told["failed"]) == ("partly_failed", 63, 60, 3)
        assert told["stages"]["publish"] == 60
        assert sorted(failed_of(found)) == ["bad-0", "bad-1", "bad-2"]
        [code] = {event["data"]["code"] for event in found if event["event"] == "item_failed"}
        assert code == "empty_document"
        done = [event["data"]["succeeded"] for event in found if event["event"] == "progress"]
        assert done == sorted(done)
        assert "pump" not in json.dumps(found)

    def it_resumes_after_the_last_event_id(self, client, namespace):
        path = send(client, namespace, *batch(20, 90)).headers["location"]
        seen: list[str] = []
        last, rounds = "", 0
        while True:
            found = follow(client, path, last=last, at_most=20)  # and here the connection breaks
            seen += failed_of(found)
            last, rounds = found[-1]["id"], rounds + 1
            if found[-1]["event"] == "finished":
                break
        assert rounds > 3
        assert sorted(seen) == sorted(f"bad-{n}" for n in range(90))  # each once

    def it_sends_the_end_of_a_finished_job_once(self, client, namespace):
        job = ended(client, send(client, namespace, VALID, {"document_id": "bad", **BAD}))
        path = f"/v1/jobs/{job['job_id']}"
        found = follow(client, path)
        assert [event["event"] for event in found] == ["progress", "item_failed", "finished"]
        again = client.get(f"{path}/events", headers={"Last-Event-ID": found[-1]["id"]})
        assert (again.status_code, again.content) == (204, b"")
        assert [event["event"] for event in follow(client, path, last=found[1]["id"])] == ["progress", "finished"]
        assert failed_of(follow(client, path, last="nonsense")) == ["bad"]

    def it_follows_a_job_that_is_tried_again(self, client, namespace):
        with WebServer() as web:  # without a page: 404
            gone = {"document_id": "bad", "source": {"uri": web.url("/gone")}}
            job = ended(client, send(client, namespace, gone))
            path = f"/v1/jobs/{job['job_id']}"
            first = follow(client, path)
            assert client.post(f"{path}/retry").status_code == 200
            second = follow(client, path, last=first[-1]["id"])
        assert failed_of(second) == ["bad"]
        assert second[-1]["event"] == "finished"
        assert second[-1]["id"] != first[-1]["id"]

    def it_tells_of_pausing_and_cancelling(self, client, namespace):
        path = send(client, namespace, *batch(200)).headers["location"]
        assert client.post(f"{path}/pause").json()["paused_at"]
        with client.stream("GET", f"{path}/events") as response:
            assert events(response, at_most=1)[0]["data"]["paused_at"]
        client.post(f"{path}/cancel")
        found = follow(client, path)
        assert (found[-1]["event"], found[-1]["data"]["status"]) == ("finished", "cancelled")

    def it_answers_404_for_unknown_jobs_and_those_of_other_tenants(self, client, namespace, use):
        job = ended(client, send(client, namespace, VALID))
        with gateway(make_tenant(use)[1]) as stranger:
            problem(stranger.get(f"/v1/jobs/{job['job_id']}/events"), 404, "job_not_found")
        problem(client.get(f"/v1/jobs/{uuid.uuid4()}/events"), 404, "job_not_found")
        problem(client.get("/v1/jobs/nonsense/events"), 404, "job_not_found")


class DescribeManyFollowers:
    @pytest.mark.thorough  # more than twice as many follow a job in test_crowd
    async def it_serves_two_hundred_at_once(self, client, namespace):
        path = send(client, namespace, *batch(500, 5)).headers["location"]
        headers = dict(client.headers)
        limits = httpx.Limits(max_connections=None)

        async def one(http: httpx.AsyncClient, place: int) -> tuple[list[str], str, int]:
            failed, last, progress, name = [], "", 0, ""
            async with http.stream("GET", f"{path}/events") as response:
                assert response.status_code == 200
                async for line in response.aiter_lines():
                    if line.startswith("event: "):
                        name = last = line[7:]
                        progress += name == "progress"
                    elif line.startswith("data: ") and name == "item_failed":
                        failed.append(json.loads(line[6:])["document_id"])
                    if place % 10 == 0 and progress == 2:
                        return [], "hung up", progress
            return failed, last, progress

        base = os.environ["CHORDWISE_URL"]
        async with httpx.AsyncClient(base_url=base, headers=headers, limits=limits, timeout=60) as http:
            found = await asyncio.gather(*(one(http, place) for place in range(200)))
        stayed = [each for each in found if each[1] != "hung up"]
        assert len(stayed) >= 180
        assert {last for _, last, _ in stayed} == {"finished"}
        assert {tuple(sorted(failed)) for failed, _, _ in stayed} == {tuple(f"bad-{n}" for n in range(5))}
        metrics = client.get("/v1/metrics").text
        ends = time.monotonic() + 5
        while "chordwise_gateway_streams 0.0" not in metrics and time.monotonic() < ends:
            await asyncio.sleep(0.1)
            metrics = client.get("/v1/metrics").text
        assert "chordwise_gateway_streams 0.0" in metrics


class DescribeTheClient:
    @pytest.fixture
    def key(self, use) -> str:
        return make_tenant(use)[1]

    def it_iterates_over_events(self, key, namespace):
        with Chordwise(api_key=key) as chordwise, gateway(key) as client:
            job = send(client, namespace, *batch(20, 2)).json()["job_id"]
            found = list(chordwise.events(job))
        assert {event.kind for event in found} == {"progress", "item_failed", "finished"}
        assert (found[-1].kind, found[-1].job.status, found[-1].job.succeeded) == ("finished", "partly_failed", 20)
        assert sorted(event.error.document_id for event in found if event.error) == ["bad-0", "bad-1"]

    def it_watches_from_the_command_line(self, key, namespace, monkeypatch, capsys):
        monkeypatch.setenv("CHORDWISE_API_KEY", key)
        with gateway(key) as client:
            job = send(client, namespace, *batch(30)).json()["job_id"]
        assert run(["jobs", job, "--watch"]) == 0
        assert "30 succeeded" in capsys.readouterr().out
