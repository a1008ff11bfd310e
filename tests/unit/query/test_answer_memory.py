"""Bytes of queries in Redis: counted when written, given back when they expire or are deleted, refused beyond the limit."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import fakeredis
import pytest

from pipeline.database.redis_memory import RedisMemory
from pipeline.errors import QuotaExceeded, StoreFull
from pipeline.query.plan import Plan
from pipeline.query.query_store import Queries, query_key
from pipeline.query.request import Envelope, Query
from pipeline.records import ChannelName, Namespace, QueryId, TenantId
from pipeline.tenants.answer_memory_store import account_key, answer_bytes, answer_limit
from tests.support.corpora.queries import query_of

A, B = TenantId("a"), TenantId("b")
MIB = 2**20
TEXT = "绿茶用八十度的水冲泡，茶汤清亮。Green tea is steeped at 80 degrees."


def asked(query_id: str, *, tenant_id: TenantId = A, top_k: int = 5) -> Query:
    return query_of(
        "绿茶",
        query_id=QueryId(query_id),
        tenant_id=tenant_id,
        namespaces=(Namespace("kb"),),
        plan=Plan(top_k=top_k),
        deadline_s=3.0,
    )


def noise(size: int) -> bytes:
    """Bytes that no compression makes smaller."""
    return b"{" + random.Random(size).randbytes(size)


def until_refused(ask: Callable[[int], object]) -> tuple[int, QuotaExceeded]:
    """The number of the first query that is refused, and the error."""
    for number in range(99):
        try:
            ask(number)
        except QuotaExceeded as error:
            return number, error
    raise AssertionError("no query was refused")


@pytest.fixture
def of(redis: fakeredis.FakeRedis) -> Callable[..., Queries]:
    def queries(tenant_id: TenantId = A, *, quota: int = 0, used: int = 0, limit: int = 0, ttl_s: int = 900) -> Queries:
        memory = RedisMemory(used=used, limit=limit)
        return Queries(redis, tenant_id, ttl_s=ttl_s, cached_s=900, quota=quota, memory=lambda: memory)

    return queries


class DescribeAStoredAnswer:
    def it_is_small_and_gives_back_the_same_bytes(self, of, redis):
        queries, query, answer = of(), asked("q"), ("{" + TEXT * 300 + "}").encode()
        found = Envelope(channel=ChannelName.KEYWORD, status="ok", chunk_ids=("c",) * 99, scores=(1.0,) * 99)
        queries.open(query)
        queries.report(query, found, elapsed_ms=1)
        assert queries.answer(query, answer)
        state = queries.state(QueryId("q"))
        assert (state.answer, queries.field(QueryId("q"), "answer")) == (answer, answer)
        assert state.query == queries.stored(QueryId("q")) == query
        assert [(step.channel, step.status, step.hits) for step in state.steps] == [("keyword", "ok", 99)]
        assert sum(map(len, redis.hvals(query_key(A, QueryId("q"))))) < len(answer) / 5


class DescribeTheAccount:
    def it_replaces_the_estimate_by_the_bytes_of_the_answer(self, of, redis):
        queries = of()
        queries.open(asked("q", top_k=1000))
        assert answer_bytes(redis, A) > 1_000_000
        queries.answer(asked("q", top_k=1000), noise(50_000))
        assert 50_000 < answer_bytes(redis, A) < 65_000

    def it_gets_the_bytes_of_a_deleted_query_back(self, of, redis):
        queries = of()
        queries.open(asked("open"))
        queries.open(asked("done"))
        queries.answer(asked("done"), noise(50_000))
        for query_id in ("open", "done"):
            assert queries.cancel(QueryId(query_id))
        assert answer_bytes(redis, A) == 0

    def it_falls_as_answers_expire(self, of, redis):
        for seconds, size in ((60, 10_000), (900, 30_000)):
            queries = of(ttl_s=seconds)
            queries.open(asked(f"q{seconds}"))
            queries.answer(asked(f"q{seconds}"), noise(size))
        account = account_key(A)
        slots = sorted(redis.hkeys(account), key=int)
        assert len(slots) == 2
        for slot, expected in zip(slots, (30_000, 0), strict=True):  # as if its time had come
            redis.hset(account, "1", redis.hget(account, slot))
            redis.hdel(account, slot)
            assert expected <= answer_bytes(redis, A) <= expected * 1.3

    def it_is_gone_with_the_last_answer(self, of, redis):
        queries = of()
        queries.open(asked("q"))
        queries.answer(asked("q"), b"{}")
        assert redis.ttl(query_key(A, QueryId("q"))) <= redis.ttl(account_key(A)) <= 900 * 17 / 16 + 2

    def it_stays_short_whatever_the_lifetimes(self, of, redis):
        for seconds in range(60, 3600, 10):
            queries = of(ttl_s=seconds)
            queries.open(asked(str(seconds)))
            queries.answer(asked(str(seconds)), b"{}")
        assert redis.hlen(account_key(A)) < 110


class DescribeTheLimit:
    @pytest.mark.parametrize(
        ("quota", "used", "limit", "expected"),
        [
            (0, 5, 0, 0),  # neither a quota nor a limit of Redis
            (70, 5, 0, 70),
            (0, 40, 100, 30),  # half of what is free
            (70, 40, 100, 30),
            (20, 40, 100, 20),
            (0, 100, 100, 1),
        ],
    )
    def it_is_the_quota_or_half_of_what_is_free(self, quota, used, limit, expected):
        assert answer_limit(RedisMemory(used=used, limit=limit), quota) == expected

    def it_refuses_the_tenant_who_is_over_it_and_no_other(self, of, redis):
        queries = of(quota=MIB)

        def ask(number: int) -> None:
            queries.open(asked(f"q{number}"))
            queries.answer(asked(f"q{number}"), noise(25_000))

        number, error = until_refused(ask)
        assert 30 <= number <= 40
        assert (error.quota["name"], error.quota["limit"]) == ("answer_bytes", MIB)
        assert 0.9 * MIB < error.quota["used"] <= MIB
        assert 1 <= error.retry_after_s <= 60
        assert queries.state(QueryId(f"q{number}")) is None
        of(B, quota=MIB).open(asked("other", tenant_id=B))
        queries.cancel(QueryId("q0"))
        queries.open(asked("again"))

    def it_refuses_a_tenant_that_uses_nothing_because_redis_is_full(self, of):
        full = of(B, quota=MIB, used=100 * MIB, limit=100 * MIB)
        with pytest.raises(StoreFull) as refused:
            full.open(asked("q", tenant_id=B))
        assert refused.value.public == "Redis has no space left"

    def it_refuses_one_answer_that_is_larger_than_the_quota(self, of):
        with pytest.raises(QuotaExceeded):
            of(quota=MIB, used=MIB, limit=100 * MIB).open(asked("q", top_k=1000))

    def it_holds_for_queries_under_way(self, of):
        queries = of(quota=16 * MIB)
        number, _ = until_refused(lambda number: queries.open(asked(f"q{number}", top_k=1000)))
        assert 6 <= number <= 8

    def it_holds_for_repeated_answers(self, of):
        queries = of(quota=MIB)
        number, _ = until_refused(lambda number: queries.open_answered(asked(f"q{number}"), noise(25_000), note=None))
        assert number < 40
        assert queries.state(QueryId(f"q{number}")) is None


class DescribeTheLifetime:
    @pytest.mark.parametrize(
        ("share", "kept_s", "cached_s"),
        [(0.2, 900, 900), (0.5, 900, 900), (0.7, 480, 480), (0.9, 63, 0), (0.99, 63, 0)],  # a minute after the deadline
    )
    def it_shrinks_as_redis_fills_and_nothing_is_cached_at_the_end(self, of, redis, share, kept_s, cached_s):
        queries = of(used=int(share * 10_000 * MIB), limit=10_000 * MIB)
        query = replace(asked("q"), cache_key="k")
        queries.open(query)
        queries.answer(query, b"{}", keep=True)
        assert redis.ttl(query_key(A, QueryId("q"))) == pytest.approx(kept_s, abs=2)
        assert max(0, redis.ttl("a:answer:k")) == pytest.approx(cached_s, abs=2)

    def it_shrinks_as_the_tenants_own_share_fills(self, of, redis):
        queries = of(quota=MIB)
        lifetimes = []
        for number in range(9):
            queries.open(asked(f"q{number}"))
            queries.answer(asked(f"q{number}"), noise(100_000))
            lifetimes.append(redis.ttl(query_key(A, QueryId(f"q{number}"))))
        assert lifetimes == sorted(lifetimes, reverse=True)
        assert (lifetimes[0], lifetimes[-1] < 400) == (900, True)
