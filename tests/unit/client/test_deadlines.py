"""A caller that gives a time limit gets an answer or an error by then, whatever the server does."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from chordwise import AsyncChordwise, Chordwise, ConnectionFailed, ProblemError, Timeout
from chordwise.api.jobs import Job
from tests.support.clients.answered import answered
from tests.support.servers.gateway_stub import KEY, GatewayStub, Reply, serve

LATE_S = 10.0  # far beyond every deadline below, far below the client's own timeout of 30 s
WAYS: dict[str, Callable[[Any], Any]] = {
    "wait": lambda client: client.wait("j", timeout=0.3),
    "wait for a known job": lambda client: client.wait(answered(Job, job_id="j"), timeout=0.3),
    "query": lambda client: client.query("x", namespace="kb", timeout=0.3),
    "query_result": lambda client: client.query_result("q", timeout=0.3),
}


@pytest.fixture
def silent() -> Iterator[str]:
    """A server that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


@pytest.fixture
def stub() -> Iterator[GatewayStub]:
    with serve() as running:
        yield running


@contextmanager
def in_time() -> Iterator[None]:
    began = time.monotonic()
    yield
    assert time.monotonic() - began < LATE_S


class DescribeADeadline:
    def it_holds_when_nothing_is_said(self, silent):
        def ask(way: Callable[[Any], Any]) -> None:
            with Chordwise(silent, KEY) as client, in_time(), pytest.raises(Timeout):
                way(client)

        with ThreadPoolExecutor(len(WAYS)) as side_by_side:
            assert list(side_by_side.map(ask, WAYS.values())) == [None] * len(WAYS)

    async def it_holds_for_the_asynchronous_client(self, silent):
        async with AsyncChordwise(silent, KEY) as client:
            with in_time(), pytest.raises(Timeout):
                await client.query("x", namespace="kb", timeout=0.3)

    @pytest.mark.parametrize("way", WAYS)
    def it_holds_when_nobody_is_there(self, way):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{free.getsockname()[1]}"
            with Chordwise(url, KEY) as client, in_time(), pytest.raises(ConnectionFailed):
                WAYS[way](client)

    def it_does_not_wait_for_a_time_that_lies_beyond(self, stub):
        stub.next.append(
            Reply(status=429, body={"code": "rate_limited", "detail": "slow"}, headers={"Retry-After": "20"})
        )
        with Chordwise(stub.url, KEY) as client, in_time(), pytest.raises(ProblemError) as refused:
            client.query("x", namespace="kb", timeout=5)
        assert refused.value.retry_after_s == 20
        assert len(stub.received) == 1

    def it_comes_back_when_it_was_told_to(self, stub):
        stub.next.append(
            Reply(status=429, body={"code": "rate_limited", "detail": "slow"}, headers={"Retry-After": "1"})
        )
        began = time.monotonic()
        with Chordwise(stub.url, KEY) as client:
            assert client.query("x", namespace="kb", timeout=5).chunks == ()
        assert time.monotonic() - began >= 1
        assert len(stub.received) == 2
