"""The contract of the webhook sender, against a receiver on loopback."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from pipeline.outbound.addresses import parse_networks
from pipeline.outbound.post_client import NotAllowed, Poster, Reply, require_host
from tests.support.servers.receiver import LOOPBACK, Receiver, receiving
from tests.support.stacks.patience import SPARE_S


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as made:
        yield made


def posted(*urls: str) -> list[Reply]:
    """Return the answers to consecutive calls of one sender."""

    async def call() -> list[Reply]:
        async with Poster(permitted=parse_networks(LOOPBACK)) as poster:
            return [await poster.post(url, {"webhook-id": "m"}, b"{}") for url in urls]

    return asyncio.run(call())


class DescribeThePoster:
    @pytest.mark.parametrize("cookie", ["session=first; Path=/", "session=first; Path=/; Max-Age=600"])
    def it_brings_no_endpoint_what_another_has_set(self, receiver, cookie):
        """Two names at one address are two tenants behind one proxy."""
        receiver.answer(204, Set_Cookie=cookie)
        other = receiver.url.replace("127.0.0.1", "localhost")
        assert other != receiver.url
        assert [reply.status for reply in posted(receiver.url, other, receiver.url)] == [204] * 3
        assert [call.headers.get("cookie") for call in receiver.calls] == [None] * 3


class DescribeANewEndpoint:
    def it_is_refused_if_its_name_is_not_found_in_time(self, monkeypatch):
        released = threading.Event()
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: released.wait(30) and [])
        began = time.monotonic()
        with pytest.raises(
            NotAllowed, match=r"slow\.example has no address that this installation may call"
        ) as refused:
            require_host("slow.example", permitted=(), within_s=0.2)
        assert time.monotonic() - began < 0.2 + SPARE_S
        assert refused.value.code == "address_not_allowed"
        released.set()
