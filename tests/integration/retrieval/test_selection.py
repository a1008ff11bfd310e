"""Decay, selection, the ladder and the second retrieval on real stores, in one process."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import event

from pipeline.channels.channel import Channel, Recalled
from pipeline.errors import StoreUnavailable
from pipeline.query.request import Query
from pipeline.records import ChannelName, ChunkId, Filters, Namespace
from pipeline.resources import Resources
from pipeline.retrieval.arrived import Arrived
from pipeline.retrieval.ask_channels import ask_side_by_side
from pipeline.retrieval.compose import compose
from pipeline.retrieval.make_channels import make_channels
from tests.conftest import make_tenant
from tests.support.stacks.connections import in_postgres
from tests.support.stacks.corner import Corner, documents

KEYWORD, SEMANTIC = ChannelName.KEYWORD, ChannelName.SEMANTIC
NO_RERANK = {"enabled": False}
NOW = datetime.now(UTC)


def days_ago(days: float) -> datetime:
    return NOW - timedelta(days=days)


@pytest.fixture
def corner(use_alone: Resources, namespace: Namespace) -> Corner:
    return Corner(use_alone, make_tenant(use_alone)[0], namespace)


@pytest.fixture
def statements(use_alone: Resources) -> Iterator[list[str]]:
    """Collect the statements sent to MySQL."""
    seen: list[str] = []

    def see(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        seen.append(statement)

    event.listen(use_alone.mysql, "before_cursor_execute", see)
    yield seen
    event.remove(use_alone.mysql, "before_cursor_execute", see)


class Watched:
    """A channel that notes how often it is asked, and does something first."""

    def __init__(self, channel: Channel, *before: Any) -> None:
        self._channel, self._before = channel, list(before)
        self.name = channel.name
        self.asked: list[int] = []

    def recall(self, query: Query) -> Recalled:
        self.asked.append(query.pool_of(self.name))
        if len(self._before) >= len(self.asked) and self._before[len(self.asked) - 1] is not None:
            self._before[len(self.asked) - 1]()
        return self._channel.recall(query)

    def score(self, query: Query, chunk_ids: Sequence[ChunkId]) -> dict[ChunkId, float]:
        return self._channel.score(query, chunk_ids)


def watched(use: Resources, *before: Any) -> dict[ChannelName, Watched]:
    usual = (ChannelName.KEYWORD, ChannelName.SEMANTIC)
    return {name: Watched(channel, *before) for name, channel in make_channels(use).items() if name in usual}


def unavailable() -> None:
    raise StoreUnavailable("away")


class DescribeDecay:
    def it_reads_as_far_as_the_young_may_stand_and_not_further(self, corner, statements):
        """60 old documents say it better than one new one, which is far down the fused order."""
        texts = {f"old{n:02}": "pump valve pressure " + "and so on " * n for n in range(60)}
        texts["new"] = "pump valve pressure " + "and so on " * 45
        texts["worst"] = "Whales sing in deep water, which no pump does, and nobody knows what all of it is about. " * 3
        fields: Mapping[str, Any] = {name: {"published_at": days_ago(400)} for name in texts if name != "new"}
        corner.fill(texts, {**fields, "new": {"published_at": days_ago(0.01)}})
        asked = {"retrieve": {"time_decay": {"half_life_days": 10}}, "rerank": NO_RERANK, "top_k": 3}
        plain = corner.ask(corner.query("pump valve pressure", rerank=NO_RERANK, top_k=3))
        assert "new" not in documents(plain)
        assert documents(corner.ask(corner.query("pump valve pressure", **asked)))[0] == "new"

        def reads(**given: Any) -> int:
            statements.clear()
            corner.ask(corner.query("pump valve pressure", **given))
            return sum("LEFT JOIN retired_generations" in statement for statement in statements)

        assert reads(rerank=NO_RERANK, top_k=3) == 1
        # Age cannot lift what is further down when nothing is older: the first batch is enough.
        young = {"time_decay": {"half_life_days": 100_000}}
        assert reads(retrieve=young, rerank=NO_RERANK, top_k=3) <= 2
        assert reads(**asked) > 2


class DescribeTheSafetyNet:
    def it_drops_what_a_stale_column_lets_through(self, corner, use_alone):
        corner.fill(
            {
                "manual": "Reset the controller with the red button.",
                "note": "Reset the controller with the green button.",
            },
            {"manual": {"type": "manual"}, "note": {"type": "note"}},
        )
        in_postgres(
            use_alone, "UPDATE chunk_embeddings SET type = 'manual' WHERE tenant_id = :tenant", tenant=corner.tenant
        )
        query = corner.query("reset the controller", filters=Filters(type="manual"), retrieve={"method": "semantic"})
        envelopes, _ = ask_side_by_side(query, make_channels(use_alone))
        assert len(envelopes[SEMANTIC].chunk_ids) == 2, "the vector store has to be wrong for this to mean anything"
        assert documents(corner.ask(query)) == ["manual"]


class DescribeTheLadder:
    TEXTS: Mapping[str, str] = {
        "exact": "reset the controller with the red button",
        "near": "the controller is reset with a button",
        "far": "a button is red",
        "off": "whales sing in deep water",
    }

    def it_recalls_nothing_again(self, corner, use_alone):
        corner.fill(self.TEXTS)
        channels = watched(use_alone)
        ladder = {"thresholds": [0.99, 0.98, 0.01], "min_results": 4}
        corner.ask(corner.query("red button", retrieve={"ladder": ladder}), channels)
        assert [len(channel.asked) for channel in channels.values()] == [1, 1]


class DescribeASecondRetrieval:
    TEXTS: Mapping[str, str] = {
        f"d{n}": f"Centrifugal pump number {n} feeds the cooling tower through valve {n}." for n in range(12)
    }

    @staticmethod
    def second(**fields: Any) -> dict[str, Any]:
        return {"second": fields}

    def it_happens_once_however_poor_the_result_stays(self, corner, use_alone):
        corner.fill({"only": "Centrifugal pump."})
        channels = watched(use_alone)
        retrieve = {"allocation": "balanced", **self.second(min_hits=9, pool=50)}
        found = corner.ask(corner.query("centrifugal pump", retrieve=retrieve, top_k=2), channels)
        assert max(len(channel.asked) for channel in channels.values()) <= 2
        assert (found.stats.second.hits_before, found.stats.second.hits_after) == (1, 1)

    def it_is_skipped_and_named_when_no_time_is_left(self, corner, use_alone):
        corner.fill(self.TEXTS)
        query = corner.query("centrifugal pump", retrieve=self.second(min_documents=10, method="hybrid", pool=200))
        query = replace(query, plan=replace(query.plan, top_k=10))
        envelopes, elapsed = ask_side_by_side(query, make_channels(use_alone))
        few = {
            name: replace(each, chunk_ids=each.chunk_ids[:2], scores=each.scores[:2])
            for name, each in envelopes.items()
        }
        late = Arrived(query=replace(query, deadline_at=time.time() - 1), envelopes=few, elapsed_ms=elapsed)
        found = compose(late, use_alone, make_channels(use_alone))
        assert ("second", "no_time") in {(lost.part, lost.code) for lost in found.stats.degradations}
        assert (found.stats.second.changed, bool(found.chunks)) == ({}, True)

    def it_is_skipped_and_named_where_channels_cannot_be_asked(self, corner, use_alone):
        corner.fill(self.TEXTS)
        query = corner.query("centrifugal pump", retrieve=self.second(min_hits=10, pool=200), rerank=NO_RERANK)
        envelopes, elapsed = ask_side_by_side(query, make_channels(use_alone))
        few = {
            name: replace(each, chunk_ids=each.chunk_ids[:2], scores=each.scores[:2])
            for name, each in envelopes.items()
        }
        found = compose(Arrived(query=query, envelopes=few, elapsed_ms=elapsed), use_alone, {})
        assert ("second", "no_channels") in {(lost.part, lost.code) for lost in found.stats.degradations}
        assert len(found.chunks) >= 2

    def it_keeps_what_it_had_when_a_channel_fails_the_second_time(self, corner, use_alone):
        corner.fill(self.TEXTS)
        channels = watched(use_alone, None, unavailable, unavailable)
        retrieve = {"allocation": "balanced", **self.second(min_score=1.0, pool=50)}
        found = corner.ask(corner.query("centrifugal pump", retrieve=retrieve, rerank=NO_RERANK), channels)
        assert {(lost.part, lost.code) for lost in found.stats.degradations} == {("second", "store_unavailable")}
        assert found.stats.second.hits_after == found.stats.second.hits_before == len(found.chunks) > 0

    @pytest.mark.apart
    def it_does_not_wait_longer_for_a_hanging_channel_than_the_deadline(self, corner, use_alone):
        corner.fill(self.TEXTS)
        let_go = threading.Event()

        def hang() -> None:
            let_go.wait(15)
            unavailable()

        channels = watched(use_alone, None, hang)
        slow = {name: {"timeout_ms": 2000, "retry": 0} for name in ("keyword", "semantic")}
        retrieve = {"channels": slow, "allocation": "balanced", **self.second(min_score=1.0, pool=50)}
        query = corner.query("centrifugal pump", retrieve=retrieve, deadline_s=1.5)
        found = corner.ask(query, channels)
        over = time.time() - query.deadline_at
        let_go.set()
        assert over < 0.25
        assert ("second", "timeout") in {(lost.part, lost.code) for lost in found.stats.degradations}
        assert found.chunks


class DescribeTheInProcessMode:
    def it_asks_its_channels_side_by_side(self, corner, use_alone):
        corner.fill({"a": "Green tea."})
        together = threading.Barrier(2, timeout=10)
        found = corner.ask(corner.query("green tea"), watched(use_alone, together.wait))
        assert set(found.stats.hits) == {"keyword", "semantic"}
