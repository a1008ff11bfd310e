"""Cached model results for queries: they expire, belong to one tenant, and are bounded."""

from __future__ import annotations

from collections.abc import Iterator

import fakeredis
import pytest

from pipeline.query.understanding_store import Understandings, digest_of
from pipeline.records import TenantId

A, B = TenantId("a"), TenantId("b")


@pytest.fixture
def server() -> fakeredis.FakeServer:
    return fakeredis.FakeServer()


@pytest.fixture
def redis(server: fakeredis.FakeServer) -> Iterator[fakeredis.FakeRedis]:
    client = fakeredis.FakeRedis(server=server)
    yield client
    client.close()


class DescribeUnderstandings:
    def it_gives_back_what_is_kept(self, redis):
        kept = Understandings(redis, A, ttl_s=60)
        kept.put({"x": b"1", "y": b"2"})
        assert kept.get(["x", "z", "y"]) == {"x": b"1", "y": b"2"}
        assert kept.get([]) == {}

    def it_shows_nothing_to_other_tenants(self, redis):
        Understandings(redis, A, ttl_s=60).put({"x": b"1"})
        assert Understandings(redis, B, ttl_s=60).get(["x"]) == {}
        assert all(key.startswith(b"a:") for key in redis.scan_iter())

    def it_keeps_nothing_for_ever(self, redis):
        Understandings(redis, A, ttl_s=60).put({"x": b"1"})
        assert all(0 < redis.ttl(key) <= 60 for key in redis.scan_iter())

    def it_forgets_the_oldest_beyond_its_bound(self, redis):
        kept = Understandings(redis, A, ttl_s=60, most=3)
        for number in range(9):
            kept.put({f"x{number}": b"1"})
        assert len(list(redis.scan_iter())) == 4  # three results and their index
        assert "x8" in kept.get([f"x{number}" for number in range(9)])

    def it_keeps_nothing_too_long_and_nothing_when_turned_off(self, redis):
        Understandings(redis, A, ttl_s=60).put({"x": b"1" * 100_000})
        Understandings(redis, A, ttl_s=0).put({"y": b"1"})
        assert list(redis.scan_iter()) == []

    def it_has_nothing_when_redis_is_away(self, server, redis):
        kept = Understandings(redis, A, ttl_s=60)
        server.connected = False
        kept.put({"x": b"1"})
        assert kept.get(["x"]) == {}


class DescribeDigests:
    def it_tells_all_parts_apart(self):
        digests = {digest_of(*parts) for parts in [("ab", "c"), ("a", "bc"), ("abc",), ("a", "b", "c"), ("\ud800", "")]}
        assert len(digests) == 5
        assert digest_of("a", 1) == digest_of("a", "1")
