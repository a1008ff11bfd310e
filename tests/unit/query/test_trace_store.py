"""Kept traces: the newest ones, in order, by their filters, and gone with what they belong to."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import fakeredis
import pytest
from redis import Redis

from chordwise.contract.explanation import TraceSummary
from pipeline.database.redis_memory import RedisMemory
from pipeline.query.query_store import Queries, query_key, trace_key
from pipeline.query.trace_entry import TraceFilter
from pipeline.query.trace_store import KeptTraces
from pipeline.records import QueryId, TenantId
from tests.support.corpora.traces import query

TENANT, OTHER = TenantId("acme"), TenantId("zeta")
NOW = round(time.time(), 6)


@pytest.fixture
def redis() -> Redis:
    return fakeredis.FakeRedis()


def kept(redis: Redis, tenant_id: TenantId = TENANT, *, most: int = 100, ttl_s: int = 3600) -> KeptTraces:
    return KeptTraces(redis, tenant_id, most=most, ttl_s=ttl_s, requested_ttl_s=60)


def moment(ago_s: float) -> datetime:
    return datetime.fromtimestamp(NOW - ago_s, UTC)


def entry(name: str, *, ago_s: float = 0.0, **changed: object) -> TraceSummary:
    fields = {
        "query_id": name,
        "asked_at": moment(ago_s),
        "text": "what was asked",
        "namespaces": ("kb",),
        "profile": "default",
        "marks": ("slow",),
        "total_ms": 1200.5,
        "chunks": 3,
    }
    return TraceSummary(**fields | changed)


def keep(traces: KeptTraces, kept_entry: TraceSummary, trace: bytes) -> None:
    """Keep the trace of a query that is still there."""
    traces._redis.hset(query_key(traces._tenant_id, QueryId(kept_entry.query_id)), "query", "x")
    traces.keep(kept_entry, query(), trace)


def listed(traces: KeptTraces, *, before=None, limit: int = 50, **chosen: object) -> str:
    return " ".join(each.query_id for each in traces.page(TraceFilter(**chosen), before=before, limit=limit))


class DescribeTheList:
    def it_returns_entries_as_they_were_kept_newest_first(self, redis):
        traces = kept(redis)
        for name, ago_s in (("b", 20), ("a", 30), ("c", 10)):
            keep(traces, entry(name, ago_s=ago_s), b"packed")
        assert listed(traces) == "c b a"
        assert traces.page(TraceFilter(), before=None, limit=1) == [entry("c", ago_s=10)]

    @pytest.mark.parametrize(
        ("chosen", "names"),
        [
            ({"mark": "slow"}, "a c"),
            ({"mark": "empty"}, "b c"),
            ({"mark": "failed"}, ""),
            ({"namespace": "faq"}, "b"),
            ({"profile": "deep"}, "c"),
            ({"since": moment(20)}, "a b"),
            ({"until": moment(20)}, "c"),
            ({"since": moment(20), "mark": "slow"}, "a"),
        ],
    )
    def it_filters(self, redis, chosen, names):
        traces = kept(redis)
        keep(traces, entry("a", ago_s=10), b"")
        keep(traces, entry("b", ago_s=20, marks=("empty",), namespaces=("kb", "faq")), b"")
        keep(traces, entry("c", ago_s=30, marks=("slow", "empty"), profile="deep"), b"")
        assert listed(traces, **chosen) == names

    def it_pages_without_gap_or_repetition_even_at_equal_times(self, redis):
        traces = kept(redis, most=1000)
        names = [f"{number:03}" for number in range(450)]
        for name in names:
            keep(traces, entry(name, ago_s=int(name) // 100), b"")
        found: list[TraceSummary] = []
        before = None
        while page := traces.page(TraceFilter(), before=before, limit=7):
            found += page
            before = (datetime.fromisoformat(page[-1].asked_at.isoformat()), page[-1].query_id)  # as a cursor has it
        assert sorted(each.query_id for each in found) == names
        assert found == sorted(found, key=lambda each: (each.asked_at, each.query_id), reverse=True)

    def it_shows_one_tenant_its_own(self, redis):
        keep(kept(redis), entry("a"), b"packed")
        theirs = kept(redis, OTHER)
        assert (listed(theirs), theirs.trace(QueryId("a")), theirs.query(QueryId("a"))) == ("", None, None)


class DescribeTheLimits:
    def it_drops_the_oldest_with_their_traces(self, redis):
        traces = kept(redis, most=2)
        for name, ago_s in (("a", 30), ("b", 20), ("c", 10)):
            keep(traces, entry(name, ago_s=ago_s), b"packed")
        assert listed(traces) == "c b"
        assert traces.trace(QueryId("a")) is None
        assert (traces.trace(QueryId("c")), traces.query(QueryId("c"))) == (b"packed", query())

    def it_leaves_a_requested_trace_its_time_when_it_leaves_the_list(self, redis):
        traces = kept(redis, most=1)
        redis.hset(trace_key(TENANT, QueryId("a")), mapping={"trace": b"asked for", "requested": "1"})
        keep(traces, entry("a", ago_s=20), b"")
        keep(traces, entry("b", ago_s=10), b"packed")
        assert listed(traces) == "b"
        assert traces.trace(QueryId("a")) == b"asked for"
        assert 0 < redis.ttl(trace_key(TENANT, QueryId("a"))) <= 60

    def it_shows_none_beyond_its_lifetime_and_drops_them(self, redis):
        traces = kept(redis, ttl_s=50_000)
        keep(traces, entry("old", ago_s=100_000), b"packed")
        assert listed(traces) == ""
        keep(traces, entry("new"), b"packed")
        assert (listed(traces), redis.zcard("acme:traces"), redis.hlen("acme:traces:entries")) == (
            "new",
            1,
            3,
        )  # with its bytes and the sum

    def it_keeps_no_more_bytes_than_it_may_the_oldest_go_first(self, redis):
        traces = KeptTraces(redis, TENANT, most=100, ttl_s=3600, requested_ttl_s=60, most_bytes=38_000)
        for number in range(9):
            keep(traces, entry(f"t{number}", ago_s=9 - number), b"x" * 7000)
        assert listed(traces) == "t8 t7 t6 t5"
        counted = [int(redis.hget("acme:traces:entries", f"bytes:t{number}")) for number in range(5, 9)]
        assert int(redis.hget("acme:traces:entries", "bytes")) == sum(counted) <= 38_000
        keep(traces, entry("large"), b"x" * 9_501)
        assert listed(traces) == "t8 t7 t6 t5"
        for number in range(5, 9):
            Queries(redis, TENANT, ttl_s=60).cancel(QueryId(f"t{number}"))
        assert redis.hlen("acme:traces:entries") == 0

    @pytest.mark.parametrize(("share", "longest_s"), [(0.5, 3600), (0.7, 1830), (0.89, 150), (0.9, 0)])
    def it_gives_way_as_redis_fills(self, redis, share, longest_s):
        memory = RedisMemory(used=int(share * 1000), limit=1000)
        traces = KeptTraces(redis, TENANT, most=9, ttl_s=3600, requested_ttl_s=60, memory=lambda: memory)
        keep(traces, entry("a"), b"packed")
        assert max(0, redis.ttl("acme:trace:a")) == pytest.approx(longest_s, abs=2)

    def it_gives_every_key_a_lifetime(self, redis):
        keep(kept(redis), entry("a"), b"packed")
        assert {key: 0 < redis.ttl(key) <= 3600 for key in redis.keys("*:trace*")} == {
            b"acme:trace:a": True,
            b"acme:traces": True,
            b"acme:traces:entries": True,
        }

    def it_goes_with_a_deleted_query(self, redis):
        traces = kept(redis)
        keep(traces, entry("a"), b"packed")
        assert Queries(redis, TENANT, ttl_s=60).cancel(QueryId("a"))
        marked = [b"acme:cancelled:a"]
        assert (listed(traces), traces.trace(QueryId("a")), redis.keys("*")) == ("", None, marked)
        assert not Queries(redis, TENANT, ttl_s=60).cancel(QueryId("a"))
        traces.keep(entry("a"), query(), b"packed")
        assert listed(traces) == "", "its answer was stored while it was deleted"
