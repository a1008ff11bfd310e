"""Searches on their way into the audit: noted with the answer, taken away only once they stand elsewhere."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import fakeredis
import pytest

from chordwise.contract.tenant import AuditActor, AuditEntry
from pipeline.query.query_store import Queries
from pipeline.query.request import Query
from pipeline.records import Namespace, QueryId, TenantId
from pipeline.tenants import audit_store
from pipeline.tenants.audit import query_hash
from pipeline.tenants.audit_store import WAITING, AuditQueue, packed, unpacked
from tests.support.corpora.queries import query_of

A = TenantId("a")


@pytest.fixture
def queries(redis: fakeredis.FakeRedis) -> Queries:
    return Queries(redis, A, ttl_s=60, cached_s=30)


def asked(query_id: str) -> Query:
    return query_of("绿茶", query_id=QueryId(query_id), tenant_id=A, namespaces=(Namespace("kb"),))


def row(audit_id: str = "q1", **changes: Any) -> AuditEntry:
    return AuditEntry(
        **{
            "audit_id": audit_id,
            "tenant_id": A,
            "at": datetime(2026, 3, 1, 12, 0, 0, 5, tzinfo=UTC),
            "action": "search",
            "actor": AuditActor(key_id="0123456789abcdef", key_name="李", scopes=("read",)),
            "request_id": "r",
            "namespaces": ("kb", "茶"),
            "ids": ("d1", "d2"),
            "count": 2,
            "query_hash": "f" * 64,
            "detail": {"source_share": {"keyword": 1.0}, "degraded": False},
            **changes,
        }
    )


def answered(queries: Queries, query_id: str, *, cache_key: str = "") -> bool:
    query = replace(asked(query_id), cache_key=cache_key)
    queries.open(query)
    return queries.answer(query, b"{}", note=row(query_id), keep=bool(cache_key))


class DescribeAWaitingRow:
    @pytest.mark.parametrize("changes", [{}, {"query_text": "绿茶 \U0001f375"}, {"status": "failed", "ids": ()}])
    def it_comes_back_as_it_was(self, changes):
        assert unpacked(packed(row(**changes))) == row(**changes)


class DescribeTheQueue:
    def it_gets_a_search_with_its_answer_once(self, queries, redis):
        assert answered(queries, "q1")
        assert not queries.answer(asked("q1"), b"{}", note=row("again"))
        queue = AuditQueue(redis)
        assert queue.tenants() == [A]
        assert [unpacked(each) for each in queue.oldest(A, limit=10)] == [row("q1")]
        assert (queue.waiting(), queue.lost()) == (1, 0)

    def it_gets_nothing_of_a_query_that_was_cancelled(self, queries, redis):
        queries.open(asked("q1"))
        queries.cancel(QueryId("q1"))
        assert not queries.answer(asked("q1"), b"{}", note=row("q1"))
        assert AuditQueue(redis).tenants() == []

    def it_lets_two_drainers_take_each_row_away_once(self, queries, redis):
        for number in range(5):
            answered(queries, f"q{number}")
        queue = AuditQueue(redis)
        mine, others = queue.oldest(A, limit=3), queue.oldest(A, limit=3)
        queue.take_away(A, mine)
        queue.take_away(A, others)
        assert [unpacked(each).audit_id for each in queue.oldest(A, limit=9)] == ["q3", "q4"]

    def it_forgets_a_tenant_with_nothing_waiting(self, queries, redis):
        answered(queries, "q1")
        queue = AuditQueue(redis)
        queue.take_away(A, queue.oldest(A, limit=9))
        assert redis.smembers(WAITING) == set()
        answered(queries, "q2")
        redis.delete(audit_store.list_key(A))  # as an erasure does
        assert queue.oldest(A, limit=9) == []
        assert queue.tenants() == []

    def it_drops_the_oldest_and_counts_them_when_too_many_wait(self, queries, redis, monkeypatch):
        monkeypatch.setattr("pipeline.query.query_store.MOST_WAITING", 2)
        for number in range(4):
            answered(queries, f"q{number}")
        queue = AuditQueue(redis)
        assert [unpacked(each).audit_id for each in queue.oldest(A, limit=9)] == ["q2", "q3"]
        assert queue.lost() == 2


class DescribeAKeptAnswer:
    def it_is_found_under_its_key_by_its_tenant_alone(self, queries, redis):
        assert answered(queries, "q1", cache_key="k")
        assert queries.cached_answer("k") == b"{}"
        assert Queries(redis, TenantId("b"), ttl_s=60).cached_answer("k") is None
        assert 0 < redis.ttl("a:answer:k") <= 30

    def it_is_not_kept_by_who_came_second_or_without_a_key(self, queries):
        answered(queries, "q1")
        queries.answer(replace(asked("q1"), cache_key="k"), b"{}", keep=True)
        assert queries.cached_answer("k") is None
        assert queries.cached_answer("") is None

    def it_opens_and_answers_a_query_in_one_journey(self, queries, redis):
        query = replace(asked("q9"), cache_key="k")
        queries.open_answered(query, b'{"x": 1}', note=row("q9"))
        state = queries.state(QueryId("q9"))
        assert (state.query, state.status, state.answer) == (query, "succeeded", b'{"x": 1}')
        assert 0 < redis.ttl("a:query:q9") <= 64  # a minute after its deadline
        assert AuditQueue(redis).waiting() == 1


class DescribeTheHashOfAQuestion:
    def it_is_the_same_for_the_same_question_of_one_tenant_alone(self):
        assert query_hash(A, "tea", secret=None) == query_hash(A, "tea", secret=None)
        assert query_hash(A, "tea", secret=None) != query_hash(TenantId("b"), "tea", secret=None)
        assert query_hash(A, "tea", secret=None) != query_hash(A, "Tea", secret=None)

    def it_cannot_be_tried_out_without_the_secret(self):
        assert query_hash(A, "tea", secret="s") != query_hash(A, "tea", secret=None)
        assert query_hash(A, "tea", secret="s") != query_hash(A, "tea", secret="t")
        assert len(query_hash(A, "tea", secret="s")) == 64
