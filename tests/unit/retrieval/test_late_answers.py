"""An answer that is there only after its caller got `failed` counts as failed."""

from __future__ import annotations

import time
from types import SimpleNamespace

import orjson
import pytest

from pipeline.channels.channel import Recalled
from pipeline.query.plan import ChannelPlan, Plan, RetrievePlan
from pipeline.query.request import Query
from pipeline.records import ChannelName, ChunkId, TenantId
from pipeline.resources import Resources
from pipeline.retrieval.answer_query import answer, answer_before_storing, recall
from tests.support.corpora.queries import query_of


class _Empty:
    """A channel that finds nothing."""

    name = ChannelName.KEYWORD

    def recall(self, _query: Query) -> Recalled:
        return Recalled(chunk_ids=(), scores=(), upper_bound=1.0)

    def score(self, _query: Query, _chunk_ids: object) -> dict[ChunkId, float]:
        return {}


@pytest.fixture
def counted(use: Resources) -> list[str]:
    """The statuses of the queries that were counted."""
    statuses: list[str] = []

    def count(name: str, _by: float = 1.0, **labels: str) -> None:
        if name == "chordwise_queries":
            statuses.append(labels["status"])

    use.__dict__["meter"] = SimpleNamespace(count=count, observe=lambda *_, **__: None)
    return statuses


@pytest.fixture(params=["a pump", "水泵"])
def query(request: pytest.FixtureRequest) -> Query:
    plan = Plan(retrieve=RetrievePlan(channels={"keyword": ChannelPlan()}))
    return query_of(request.param, tenant_id=TenantId("acme"), plan=plan, deadline_s=3.0)


def turn_clock(monkeypatch: pytest.MonkeyPatch, late_s: float) -> None:
    now = SimpleNamespace(time=lambda: time.time() + late_s, perf_counter=time.perf_counter)
    monkeypatch.setattr("pipeline.retrieval.answer_query.time", now)


MOMENTS = pytest.mark.parametrize(("late_s", "status"), [(0.0, "succeeded"), (3.3, "failed")])


@MOMENTS
def it_is_reported_as_it_was_told_without_redis(use, monkeypatch, query, counted, late_s, status):
    turn_clock(monkeypatch, late_s)
    sent: list[bytes] = []
    answer_before_storing(query, use, {ChannelName.KEYWORD: _Empty()}, sent.append)
    assert orjson.loads(sent[0])["status"] == status
    assert counted == [status]


@MOMENTS
def it_is_counted_as_it_was_told_where_redis_takes_long(use, monkeypatch, query, counted, late_s, status):
    use.queries(query.tenant_id).open(query)
    assert recall(query.tenant_id, query.query_id, _Empty(), use) is not None
    turn_clock(monkeypatch, late_s)
    assert answer(query.tenant_id, query.query_id, use, {ChannelName.KEYWORD: _Empty()})
    assert counted == [status]
