"""Webhooks as a user has them: a stack that may call loopback, and a receiver there."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Iterator
from typing import NamedTuple

import httpx
import pytest

from chordwise import NotGenuine, verify_webhook
from chordwise.cli import run
from pipeline.resources import Resources
from tests.conftest import make_tenant
from tests.support.clients.gateway_client import VALID, ended, pointers, problem, send
from tests.support.repository.guides import blocks
from tests.support.servers.receiver import Receiver, receiving
from tests.support.stacks.stack_logs import nobody_wrote


class Served(NamedTuple):
    """A gateway and a key for it, of another tenant too."""

    url: str
    key: str
    stranger: str


@pytest.fixture(scope="module")
def served(use: Resources) -> Iterator[Served]:
    """Two tenants of the stack, whose webhooks `make test` allows to call loopback."""
    yield Served(os.environ["CHORDWISE_URL"], *(make_tenant(use)[1] for _ in range(2)))
    assert nobody_wrote("whsec_")


def connect(served: Served, key: str) -> httpx.Client:
    return httpx.Client(base_url=served.url, headers={"Authorization": f"Bearer {key}"}, timeout=60)


@pytest.fixture
def client(served) -> Iterator[httpx.Client]:
    with connect(served, served.key) as made:
        yield made
        for hook in made.get("/v1/webhooks").json()["data"]:
            made.delete(f"/v1/webhooks/{hook['webhook_id']}")


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as made:
        yield made


def add(client: httpx.Client, url: str, **more: object) -> tuple[str, str]:
    """The path of a new endpoint, and its secret."""
    response = client.post("/v1/webhooks", json={"url": url, **more})
    assert response.status_code == 201, response.text
    return response.headers["location"], response.json()["secret"]


def settled(client: httpx.Client, path: str) -> dict:
    ends = time.monotonic() + 20
    while (found := client.get(path).json())["state"] == "pending" and time.monotonic() < ends:
        time.sleep(0.05)
    return found


class DescribeWebhooks:
    def it_tells_how_a_job_ended_within_a_moment(self, client, receiver, namespace):
        path, secret = add(client, receiver.url)
        job = ended(client, send(client, namespace, VALID))
        began = time.monotonic()
        [call] = receiver.wait_for(1)
        assert time.monotonic() - began < 5
        told = verify_webhook(call.headers, call.body, secret)
        assert (told["type"], told["data"]["job_id"]) == ("job.succeeded", job["job_id"])
        assert told["data"]["succeeded"] == 1
        [shown] = blocks("docs/signals.md", "json")
        example = json.loads(shown.text.replace(", …", ""))
        assert (set(example), set(example["data"]) - set(told["data"])) == (set(told), set())
        with pytest.raises(NotGenuine):
            verify_webhook(call.headers, call.body + b" ", secret)
        with pytest.raises(NotGenuine):
            verify_webhook(call.headers, call.body, secret, now=time.time() + 400)
        delivery = settled(client, f"{path}/deliveries/{call.message_id}")
        assert (delivery["state"], delivery["last_status"], delivery["attempts"]) == ("delivered", 204, 1)
        assert delivery["body"].encode() == call.body
        assert client.get(path).json()["delivered_at"]

    def it_shows_a_secret_once(self, client, receiver):
        path, secret = add(client, receiver.url, events=["job.failed", "job.failed"])
        assert secret.startswith("whsec_")
        shown = client.get(path)
        assert shown.json()["events"] == ["job.failed"]
        listed = client.get("/v1/webhooks")
        assert listed.json()["data"] == [shown.json()]
        assert "whsec_" not in shown.text + listed.text

    def it_tests_rotates_and_sends_again(self, client, receiver):
        path, old = add(client, receiver.url)
        receiver.answer(500)
        first = client.post(f"{path}/test").json()["delivery_id"]
        assert settled(client, f"{path}/deliveries/{first}")["last_error"] == "answered 500"
        new = client.post(f"{path}/rotate", json={"overlap_seconds": 60}).json()
        assert new["previous_secret_until"]
        assert client.post(f"{path}/deliveries/{first}/redeliver").status_code == 202
        receiver.wait_for(2)
        assert settled(client, f"{path}/deliveries/{first}")["state"] == "delivered"
        assert [call.message_id for call in receiver.calls] == [first, first]
        assert [receiver.calls[1].signed_with(secret) for secret in (old, new["secret"])] == [True, True]
        client.post(f"{path}/rotate", json={"overlap_seconds": 0})
        client.post(f"{path}/test")
        assert not receiver.wait_for(3)[2].signed_with(new["secret"])
        page = client.get(f"{path}/deliveries", params={"limit": 1}).json()
        rest = client.get(f"{path}/deliveries", params={"limit": 1, "cursor": page["next_cursor"]}).json()
        assert [page["data"][0]["event"], rest["data"][0]["delivery_id"]] == ["webhook.test", first]
        assert client.get(f"{path}/deliveries", params={"state": "dead"}).json()["data"] == []

    def it_sends_nothing_while_it_is_disabled(self, client, receiver, namespace):
        path, _ = add(client, receiver.url)
        disabled = client.post(f"{path}/disable").json()
        assert (disabled["disabled_reason"], disabled["disabled_at"] is None) == ("requested", False)
        assert client.post(f"{path}/disable").json()["disabled_at"] == disabled["disabled_at"]
        ended(client, send(client, namespace, VALID))
        assert client.get(f"{path}/deliveries").json()["data"] == []
        enabled = client.post(f"{path}/enable").json()
        assert (enabled["disabled_at"], enabled["disabled_reason"]) == (None, None)
        ended(client, send(client, namespace, {**VALID, "document_id": "later"}))
        [call] = receiver.wait_for(1)
        assert json.loads(call.body)["type"] == "job.succeeded"

    @pytest.mark.parametrize(
        ("url", "code"),
        [
            ("http://169.254.169.254/latest/meta-data", "address_not_allowed"),
            ("http://10.0.0.1/", "address_not_allowed"),
            ("http://[fd00::1]/", "address_not_allowed"),
            ("http://0.0.0.0/", "address_not_allowed"),
            ("https://nowhere.invalid/", "address_not_allowed"),
            ("ftp://example.com/", "invalid_url"),
            ("https://user:secret@example.com/", "invalid_url"),
            ("http://", "invalid_url"),
            ("", "invalid_request"),
        ],
    )
    def it_refuses_what_it_would_not_call(self, client, url, code):
        body = problem(client.post("/v1/webhooks", json={"url": url}), 422, code)
        assert pointers(body) == ["/url"]
        assert "secret@" not in str(body)

    @pytest.mark.parametrize("body", [{}, {"url": 5}, {"url": "http://127.0.0.1/", "events": []}, {"events": ["x"]}])
    def it_refuses_what_it_does_not_understand(self, client, body):
        problem(client.post("/v1/webhooks", json=body), 422, "invalid_request")

    def it_takes_twenty_and_no_more(self, client, receiver):
        for _ in range(20):
            add(client, receiver.url)
        problem(client.post("/v1/webhooks", json={"url": receiver.url}), 409, "too_many_webhooks")

    def it_shows_nobody_elses_and_nothing_that_is_not_there(self, client, receiver, served):
        path, _ = add(client, receiver.url)
        delivery = client.post(f"{path}/test").json()["delivery_id"]
        receiver.wait_for(1)
        with connect(served, served.stranger) as stranger:
            for refused in (
                stranger.get(path),
                stranger.delete(path),
                stranger.post(f"{path}/test"),
                stranger.post(f"{path}/enable"),
                stranger.post(f"{path}/disable"),
                stranger.post(f"{path}/rotate", json={}),
                stranger.get(f"{path}/deliveries"),
                client.get(f"/v1/webhooks/{uuid.uuid4()}"),
                client.get("/v1/webhooks/nonsense"),
            ):
                problem(refused, 404, "webhook_not_found")
            for refused in (
                stranger.get(f"{path}/deliveries/{delivery}"),
                stranger.post(f"{path}/deliveries/{delivery}/redeliver"),
                client.get(f"{path}/deliveries/nonsense"),
            ):
                problem(refused, 404, "delivery_not_found")
            assert stranger.get("/v1/webhooks").json()["data"] == []
        assert client.delete(path).status_code == 204
        problem(client.get(path), 404, "webhook_not_found")


class DescribeTheCommandLine:
    def it_does_all_of_it(self, client, receiver, served, monkeypatch, capsys):
        monkeypatch.setenv("CHORDWISE_URL", served.url)
        monkeypatch.setenv("CHORDWISE_API_KEY", served.key)
        monkeypatch.setitem(os.environ, "NO_COLOR", "1")
        assert run(["webhooks", "list"]) == 0
        assert "No webhooks." in capsys.readouterr().out
        assert run(["webhooks", "add", receiver.url, "--event", "job.failed"]) == 0
        lines = dict(line.split() for line in capsys.readouterr().out.splitlines())
        assert lines["secret"].startswith("whsec_")
        assert run(["webhooks", "test", lines["id"]]) == 0
        assert "answered 204" in capsys.readouterr().out
        assert run(["webhooks", "deliveries", lines["id"], "--json"]) == 0
        [sent] = json.loads(capsys.readouterr().out)["data"]
        assert run(["webhooks", "redeliver", lines["id"], sent["delivery_id"]]) == 0
        assert receiver.wait_for(2)[1].message_id == sent["delivery_id"]
        assert run(["webhooks", "disable", lines["id"]]) == 0
        assert run(["webhooks", "list"]) == 0
        assert "disabled: requested" in capsys.readouterr().out
        assert run(["webhooks", "enable", lines["id"]]) == 0
        receiver.answer(404)
        assert run(["webhooks", "test", lines["id"]]) == 1
        assert "answered 404" in capsys.readouterr().err
        assert run(["webhooks", "rotate", lines["id"]]) == 0
        assert lines["secret"] not in capsys.readouterr().out
        assert run(["webhooks", "deliveries", lines["id"]]) == 0
        assert "webhook.test" in capsys.readouterr().out
        assert run(["webhooks", "remove", lines["id"]]) == 0
        assert run(["webhooks", "test", lines["id"]]) == 1
