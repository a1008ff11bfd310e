"""Queries in Redis: the first answer wins, what is cancelled stays gone, and no tenant sees another's."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence

import fakeredis
import pytest

from pipeline.query.compression import compressed
from pipeline.query.plan import ChannelPlan, Plan, RetrievePlan
from pipeline.query.query_store import Queries, query_key
from pipeline.query.request import Envelope, Query
from pipeline.query.wake_names import WAKE_CHANNEL
from pipeline.records import ChannelName, Filters, Namespace, QueryId, TenantId
from tests.support.corpora.queries import query_of

A, B = TenantId("a"), TenantId("b")
UUIDS = tuple(str(uuid.uuid5(uuid.NAMESPACE_DNS, str(number))) for number in range(100))


@pytest.fixture
def queries(redis: fakeredis.FakeRedis) -> Queries:
    return Queries(redis, A, ttl_s=60)


def asked(query_id: str = "q1", *, deadline_s: float = 3.0, channels: Sequence[str] = ("keyword",)) -> Query:
    return query_of(
        "绿茶 \U0001f375",
        query_id=QueryId(query_id),
        tenant_id=A,
        namespaces=(Namespace("kb"),),
        plan=Plan(top_k=5, retrieve=RetrievePlan(channels=dict.fromkeys(channels, ChannelPlan(weight=0.7)))),
        filters=Filters(tags=("a",), metadata={"k": [1, None]}),
        deadline_s=deadline_s,
    )


def heard(channel: ChannelName) -> Envelope:
    return Envelope(channel=channel, status="ok", chunk_ids=("c1", "c2"), scores=(2.0, 1.5), upper_bound=4.0)


class DescribeQueries:
    def it_gives_back_what_was_asked(self, queries):
        query = asked()
        queries.open(query)
        assert queries.load(QueryId("q1")) == query

    def it_reads_a_query_of_a_later_release(self, queries, redis):
        query = asked()
        queries.open(query)
        key = query_key(A, QueryId("q1"))
        document = json.loads(queries.field(QueryId("q1"), "query"))
        for part in (document, document["plan"], document["plan"]["retrieve"]["channels"]["keyword"]):
            part["later"] = {"option": 1}
        redis.hset(key, "query", compressed(json.dumps(document).encode()))
        assert queries.load(QueryId("q1")) == query

    @pytest.mark.parametrize(
        "ids", [UUIDS, [f"商品-{number}" for number in range(100)], [id.upper() for id in UUIDS], []]
    )
    def it_gives_back_the_hits_of_a_channel_as_they_were(self, queries, ids):
        queries.open(asked())
        scores = tuple(1 / (place + 3) for place in range(len(ids)))
        found = Envelope(channel=ChannelName.KEYWORD, status="ok", chunk_ids=tuple(ids), scores=scores, zero=0.0)
        queries.report(queries.load(QueryId("q1")), found, elapsed_ms=1)
        assert queries.state(QueryId("q1")).envelopes == (found,)

    def it_stores_the_hits_of_a_channel_in_less_than_half_of_their_json(self, queries, redis):
        queries.open(asked())
        found = Envelope(channel=ChannelName.KEYWORD, status="ok", chunk_ids=UUIDS, scores=(1 / 3,) * 100)
        queries.report(queries.load(QueryId("q1")), found, elapsed_ms=1)
        assert len(redis.hget(query_key(A, QueryId("q1")), "envelope:keyword")) < 2_700

    def it_goes_from_queued_to_running_to_succeeded(self, queries):
        queries.open(asked())
        assert queries.state(QueryId("q1")).status == "queued"
        queries.report(asked(), heard(ChannelName.KEYWORD), elapsed_ms=1.25)
        state = queries.state(QueryId("q1"))
        assert (state.status, state.envelopes, state.elapsed_ms) == (
            "running",
            (heard(ChannelName.KEYWORD),),
            {"keyword": 1.25},
        )
        assert queries.answer(asked("q1"), b'{"x": 1}')
        state = queries.state(QueryId("q1"))
        assert (state.status, state.answer) == ("succeeded", b'{"x": 1}')
        assert queries.load(QueryId("q1")) is None

    @pytest.mark.parametrize("first", [True, False])
    def it_keeps_what_a_channel_found_when_its_task_runs_again_and_fails(self, queries, first):
        found, failed = heard(ChannelName.KEYWORD), Envelope(channel=ChannelName.KEYWORD, status="timeout")
        queries.open(asked())
        for envelope in (found, failed) if first else (failed, found):
            queries.report(asked(), envelope, elapsed_ms=1.0)
        assert queries.state(QueryId("q1")).envelopes == (found,)

    def it_tells_the_last_channel_that_reports(self, queries):
        query = asked(channels=("keyword", "semantic"))
        queries.open(query)
        assert not queries.report(query, heard(ChannelName.KEYWORD), elapsed_ms=1.0)
        assert not queries.report(query, heard(ChannelName.KEYWORD), elapsed_ms=1.0), "its task was delivered twice"
        assert not queries.report(query, heard(ChannelName.SEMANTIC), elapsed_ms=1.0, more=True)
        assert queries.report(query, heard(ChannelName.SEMANTIC), elapsed_ms=2.0)
        assert queries.report(query, heard(ChannelName.KEYWORD), elapsed_ms=1.0), "the reply may have been lost"
        queries.answer(query, b"{}")
        assert not queries.report(query, heard(ChannelName.KEYWORD), elapsed_ms=1.0)

    def it_counts_a_part_that_ended_without_a_result(self, queries):
        query = asked(channels=("keyword", "semantic"))
        queries.open(query)
        assert not queries.end_part(QueryId("q1"), 1)
        assert not queries.end_part(QueryId("q1"), 1), "its task was delivered twice"
        assert not queries.report(query, heard(ChannelName.SEMANTIC), elapsed_ms=1.0), "one of its deliveries raised"
        assert queries.report(query, heard(ChannelName.KEYWORD), elapsed_ms=1.0)
        assert [envelope.channel for envelope in queries.state(QueryId("q1")).envelopes] == ["keyword", "semantic"]
        assert not queries.end_part(QueryId("gone"), 0)

    def it_counts_a_channel_that_failed(self, queries):
        query = asked()
        queries.open(query)
        assert queries.report(query, Envelope(channel=ChannelName.KEYWORD, status="failed"), elapsed_ms=1.0)

    @pytest.mark.parametrize("followed", [True, False])
    def it_announces_the_channels_to_who_follows_the_query(self, queries, redis, followed):
        listener = redis.pubsub(ignore_subscribe_messages=True)
        listener.subscribe(WAKE_CHANNEL)
        listener.get_message(timeout=1)
        queries.open(asked())
        if followed:
            queries.follow(QueryId("q1"))
        queries.report(asked(), heard(ChannelName.KEYWORD), elapsed_ms=1.0)
        queries.answer(asked(), b"{}")
        told = [message["data"] for message in iter(lambda: listener.get_message(timeout=0.1), None)]
        assert told == [b"a:query-step:q1"] * followed + [b"a:query:q1"]

    def it_follows_no_query_that_is_gone(self, queries, redis):
        queries.follow(QueryId("q1"))
        assert redis.keys() == []

    def it_keeps_the_first_answer(self, queries):
        queries.open(asked())
        assert queries.answer(asked("q1"), b"first")
        assert not queries.answer(asked("q1"), b"second")
        assert queries.state(QueryId("q1")).answer == b"first"

    def it_tells_a_lost_query_from_a_cancelled_one(self, queries, redis):
        for query_id in ("lost", "cancelled"):
            queries.open(asked(query_id))
            assert not queries.is_lost(QueryId(query_id))
        redis.delete(query_key(A, QueryId("lost")))
        queries.cancel(QueryId("cancelled"))
        assert queries.is_lost(QueryId("lost"))
        assert not queries.is_lost(QueryId("cancelled"))
        assert 0 < redis.ttl(f"{A}:cancelled:cancelled") <= 120

    def it_does_not_bring_back_what_was_cancelled(self, queries, redis):
        queries.open(asked())
        assert queries.cancel(QueryId("q1"))
        queries.report(asked(), heard(ChannelName.SEMANTIC), elapsed_ms=1.0)
        assert not queries.answer(asked("q1"), b"late")
        assert not queries.cancel(QueryId("q1"))
        assert redis.keys() == [b"a:cancelled:q1"]

    def it_hides_queries_from_other_tenants(self, queries, redis):
        queries.open(asked())
        others = Queries(redis, B, ttl_s=60)
        assert others.state(QueryId("q1")) is None
        assert others.load(QueryId("q1")) is None
        assert not others.cancel(QueryId("q1"))
        assert not others.answer(asked("q1"), b"forged")
        assert all(key.startswith(b"a:") for key in redis.scan_iter())

    def it_keeps_nothing_for_ever(self, queries, redis):
        queries.open(asked())
        queries.report(asked(), heard(ChannelName.KEYWORD), elapsed_ms=1.0)
        queries.answer(asked("q1"), b"{}")
        assert all(0 < redis.ttl(key) <= 70 for key in redis.scan_iter())

    def it_wakes_who_waits_when_the_answer_is_there(self, queries, redis):
        listener = redis.pubsub(ignore_subscribe_messages=True)
        listener.subscribe(WAKE_CHANNEL)
        listener.get_message(timeout=1)
        queries.open(asked())
        queries.answer(asked("q1"), b"{}")
        assert listener.get_message(timeout=1)["data"] == b"a:query:q1"
        listener.close()

    @pytest.mark.parametrize(("deadline_s", "overdue"), [(3.0, False), (-0.1, True)])
    def it_is_overdue_after_its_deadline_unless_answered(self, queries, deadline_s, overdue):
        queries.open(asked(deadline_s=deadline_s))
        assert (queries.state(QueryId("q1")).overdue_s > 0) is overdue
        queries.answer(asked("q1"), b"{}")
        assert queries.state(QueryId("q1")).overdue_s == 0.0
