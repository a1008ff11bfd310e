"""The client follows a job across broken connections, and a receiver tells what is genuine."""

from __future__ import annotations

import json
import time

import pytest

from chordwise import (
    AsyncChordwise,
    Chordwise,
    ConnectionFailed,
    NotGenuine,
    ProblemError,
    UnexpectedAnswer,
    verify_webhook,
)
from chordwise.api.jobs import Follower
from chordwise.cli import run
from chordwise.retries import RetryPolicy
from pipeline.webhooks.standard_webhooks import secret_text, signatures
from tests.support.servers.gateway_stub import KEY, Reply, problem, serve


def event(kind: str, event_id: str, **data: object) -> str:
    return f"id: {event_id}\nevent: {kind}\ndata: {json.dumps({'job_id': 'j', **data})}\n\n"


def stream(*events: str) -> Reply:
    return Reply(body="retry: 1\n\n: still here\n\n" + "".join(events), headers={"Content-Type": "text/event-stream"})


@pytest.fixture
def stub():
    with serve() as running:
        yield running


BROKEN_OFF = [
    stream(
        event("progress", "0-0", total=2), event("item_failed", "2-1", document_id="a", code="c"), "id: 3-1\nevent: it"
    ),
    Reply(drop=True),
    problem(503, "dependency_unavailable", "MySQL is away"),
    stream(event("progress", "2-1", total=2, failed=1, rate=2.5, eta_seconds=4), event("finished", "5-end", total=2)),
]


class DescribeEvents:
    def it_goes_on_behind_the_last_event(self, stub):
        stub.next += BROKEN_OFF
        with Chordwise(stub.url, KEY) as client:
            found = list(client.events("j"))
        assert [(each.kind, each.id) for each in found] == [
            ("progress", "0-0"),
            ("item_failed", "2-1"),
            ("progress", "2-1"),
            ("finished", "5-end"),
        ]
        assert [request.headers.get("last-event-id") for request in stub.received] == [None, "2-1", "2-1", "2-1"]
        assert found[1].error is not None
        assert (found[1].error.document_id, found[1].job.total) == ("a", 2)
        assert (found[2].rate, found[2].eta_seconds) == (2.5, 4)

    async def it_does_so_asynchronously(self, stub):
        stub.next += BROKEN_OFF
        async with AsyncChordwise(stub.url, KEY) as client:
            assert [each.kind async for each in client.events("j")][-1] == "finished"

    def it_is_over_when_there_is_nothing_more_to_tell(self, stub):
        stub.next.append(Reply(status=204))
        with Chordwise(stub.url, KEY) as client:
            assert list(client.events("j")) == []

    @pytest.mark.parametrize(
        ("reply", "error"),
        [
            (problem(404, "job_not_found", "none"), ProblemError),
            (Reply(body={}), UnexpectedAnswer),
            (stream("id: 1-1\nevent: progress\ndata: {no\n\n"), UnexpectedAnswer),
        ],
    )
    def it_gives_up_on_what_will_not_get_better(self, stub, reply, error):
        stub.next.append(reply)
        with Chordwise(stub.url, KEY) as client, pytest.raises(error):
            list(client.events("j"))

    def it_gives_up_when_nothing_comes_through_at_all(self):
        import httpx

        follower = Follower("j", RetryPolicy(retries=2))
        error = httpx.ReadTimeout("", request=httpx.Request("GET", "http://x"))
        assert [follower.broken(error), follower.broken(error)] == [2.0, 2.0]
        with pytest.raises(ConnectionFailed, match="the stream of events broke"):
            follower.broken(error)

    def it_asks_again_and_again_where_there_are_no_streams(self, stub, monkeypatch, capsys):
        monkeypatch.setenv("CHORDWISE_URL", stub.url)
        monkeypatch.setenv("CHORDWISE_API_KEY", KEY)
        stub.jobs["j"] = {"job_id": "j", "status": "succeeded", "total": 1, "succeeded": 1}
        stub.looks_until_done = 2
        assert run(["jobs", "j", "--watch"]) == 0
        assert stub.paths() == ["GET /v1/jobs/j/events", *["GET /v1/jobs/j"] * 2, "GET /v1/jobs/j/items"]


def part(text: str) -> str:
    return f"id: 1\nevent: text\ndata: {json.dumps({'delta': text})}\n\n"


WRITTEN = {"query_id": "q", "status": "succeeded", "found": True, "text": "Hold it [1].", "citations": []}
FINISHED = f"id: finished\nevent: finished\ndata: {json.dumps(WRITTEN)}\n\n"
AWAY = {"type": "about:blank", "title": "Away", "status": 503, "code": "dependency_unavailable", "detail": "No worker."}


class DescribeAnAnswerAsItIsWritten:
    def it_yields_the_parts_and_then_the_checked_answer(self, stub):
        stub.next += [
            problem(429, "rate_limited", "wait", headers={"Retry-After": "0"}),
            stream(part("Hold "), part("it [1]."), FINISHED),
        ]
        with Chordwise(stub.url, KEY) as client:
            *parts, last = client.stream_answer("q", timeout=5)
        assert "".join(each.delta for each in parts) == "Hold it [1]."
        assert last.kind == "finished"
        assert last.answer is not None
        assert last.answer.text == "Hold it [1]."
        assert [request.body for request in stub.received] == [b'{"deadline_ms":5000}'] * 2

    async def it_does_so_asynchronously(self, stub):
        stub.next.append(stream(part("Hold "), FINISHED))
        async with AsyncChordwise(stub.url, KEY) as client:
            assert [each.kind async for each in client.stream_answer("q")] == ["text", "finished"]

    @pytest.mark.parametrize(
        ("reply", "error", "words"),
        [
            (stream(part("Hold "), f"event: error\ndata: {json.dumps(AWAY)}\n\n"), ProblemError, "No worker"),
            (stream(part("Hold ")), ConnectionFailed, "ended too early"),
            (Reply(drop=True), ConnectionFailed, "broke"),
            (problem(409, "no_language_model", "none"), ProblemError, "none"),
            (problem(503, "dependency_unavailable", "away"), ProblemError, "away"),
        ],
    )
    def it_is_written_once_whatever_breaks(self, stub, reply, error, words):
        stub.next.append(reply)
        with Chordwise(stub.url, KEY) as client, pytest.raises(error, match=words):
            list(client.stream_answer("q"))
        assert len(stub.received) == 1


class DescribeVerifying:
    def signed(self, body: bytes, *secrets: bytes) -> dict[str, str]:
        moment = int(time.time())
        signature = signatures(secrets, message_id="msg_1", timestamp=moment, body=body)
        return {"Webhook-Id": "msg_1", "Webhook-Timestamp": str(moment), "Webhook-Signature": signature}

    def it_takes_what_was_signed_with_either_secret(self):
        headers = self.signed(b'{"type": "job.failed"}', b"new", b"old")
        for secret in (b"new", b"old"):
            assert verify_webhook(headers, b'{"type": "job.failed"}', secret_text(secret))["type"] == "job.failed"

    @pytest.mark.parametrize(
        "change",
        [{"Webhook-Id": "msg_2"}, {"Webhook-Timestamp": "1"}, {"Webhook-Timestamp": ""}, {"Webhook-Signature": "v1,é"}],
    )
    def it_refuses_what_was_changed(self, change):
        headers = {**self.signed(b"{}", b"secret"), **change}
        with pytest.raises(NotGenuine):
            verify_webhook(headers, b"{}", secret_text(b"secret"))

    @pytest.mark.parametrize("secret", ["", "whsec_"])
    def it_refuses_everything_without_a_secret(self, secret):
        with pytest.raises(NotGenuine, match="the secret is empty"):
            verify_webhook(self.signed(b"{}", b""), b"{}", secret)

    def it_refuses_another_secret_and_another_body(self):
        headers = self.signed(b"{}", b"secret")
        for body, secret in ((b"{}", secret_text(b"other")), (b"{ }", secret_text(b"secret")), (b"{}", "whsec_*")):
            with pytest.raises(NotGenuine):
                verify_webhook(headers, body, secret)
