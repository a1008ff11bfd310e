"""Connections to Redis that a client keeps."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial

import pytest
from pydantic import SecretStr

from pipeline.database.engines import redis_client
from pipeline.settings import Settings
from tests.support.clients.operating import eventually


@pytest.fixture
def named(settings: Settings) -> tuple[Settings, Callable[[], int]]:
    """Settings whose connections have a name of their own, and a function that counts these."""
    name = f"test-{uuid.uuid4()}"
    url = settings.redis_url.get_secret_value()
    named = f"{url}{'&' if '?' in url else '?'}client_name={name}"

    def count() -> int:
        with closing(redis_client(settings)) as client:
            return [other["name"] for other in client.client_list()].count(name)

    return settings.model_copy(update={"redis_url": SecretStr(named)}), count


class DescribeAClient:
    def it_closes_connections_that_were_not_used_for_a_while(self, named):
        settings, count = named
        with closing(redis_client(settings, idle_s=0.3)) as client, ThreadPoolExecutor(6) as pool:
            wait = partial(client.blpop, [f"empty-{uuid.uuid4()}"], timeout=0.5)
            assert [future.result() for future in [pool.submit(wait) for _ in range(6)]] == [None] * 6
            assert count() == 6
            eventually(lambda: client.ping() and count() == 1, within_s=10)
            assert all(pool.map(lambda _: client.ping(), range(6)))
