"""An answer without Redis is late: it is ready after its caller got `failed`, and counts as failed."""

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
from pipeline.retrieval.answer_query import answer_before_storing
from tests.support.corpora.queries import query_of


class _Empty:
    """A channel that finds nothing."""

    name = ChannelName.KEYWORD

    def recall(self, _query: Query) -> Recalled:
        return Recalled(chunk_ids=(), scores=(), upper_bound=1.0)

    def score(self, _query: Query, _chunk_ids: object) -> dict[ChunkId, float]:
        return {}


@pytest.mark.parametrize("text", ["a pump", "水泵"])
@pytest.mark.parametrize(("late_s", "status"), [(0.0, "succeeded"), (3.3, "failed")])
def it_is_reported_as_it_was_told(
    use: Resources, monkeypatch: pytest.MonkeyPatch, text: str, late_s: float, status: str
):
    plan = Plan(retrieve=RetrievePlan(channels={"keyword": ChannelPlan()}))
    query = query_of(text, tenant_id=TenantId("acme"), plan=plan, deadline_s=3.0)
    now = SimpleNamespace(time=lambda: time.time() + late_s, perf_counter=time.perf_counter)
    monkeypatch.setattr("pipeline.retrieval.answer_query.time", now)
    counts: list[tuple[str, dict[str, str]]] = []
    use.__dict__["meter"] = SimpleNamespace(
        count=lambda name, _by=1.0, **labels: counts.append((name, labels)), observe=lambda *_, **__: None
    )
    sent: list[bytes] = []
    answer_before_storing(query, use, {ChannelName.KEYWORD: _Empty()}, sent.append)
    assert orjson.loads(sent[0])["status"] == status
    assert [labels["status"] for name, labels in counts if name == "chordwise_queries"] == [status]
