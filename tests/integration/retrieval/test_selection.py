"""Decay, selection, the ladder and the second retrieval on real stores, in one process."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from sqlalchemy import event

from chordwise.contract.answer import Rung, SecondRetrieval
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
from tests.support.stacks.corner import Corner, documents, timeless

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
    def it_lets_the_newer_of_equal_documents_go_first(self, corner):
        same = "The turbine gearbox needs oil once a year."
        corner.fill(
            {"old": same, "older": same, "new": same, "undated": same},
            {
                "old": {"published_at": days_ago(60)},
                "older": {"published_at": days_ago(120)},
                "new": {"published_at": days_ago(1)},
            },
        )
        plain = corner.ask(corner.query("turbine gearbox oil"))
        assert {chunk.decay for chunk in plain.chunks} == {None}
        found = corner.ask(
            corner.query("turbine gearbox oil", retrieve={"time_decay": {"half_life_days": 30}}, rerank=NO_RERANK)
        )
        assert documents(found)[0] == "undated"  # keeps its score
        assert documents(found)[1:] == ["new", "old", "older"]
        decay = {chunk.document_id: chunk.decay for chunk in found.chunks}
        assert (decay["undated"], decay["old"]) == (None, pytest.approx(0.25, rel=0.01))
        old = next(chunk for chunk in found.chunks if chunk.document_id == "old")
        assert "age left 0.250 of its score" in old.reason

    def it_counts_story_time(self, corner):
        same = "The captain leaves the harbour."
        corner.fill(
            {"early": same, "late": same, "future": same},
            {"early": {"story_time": 0}, "late": {"story_time": 900_000}, "future": {"story_time": 2_000_000}},
        )
        decay = {"time_decay": {"shape": "hyperbolic", "by": "story_time"}}
        found = corner.ask(
            corner.query("captain harbour", filters=Filters(story_time=1_000_000), retrieve=decay, rerank=NO_RERANK)
        )
        assert [(chunk.document_id, round(chunk.decay, 4)) for chunk in found.chunks] == [
            ("late", 0.9091),
            ("early", 0.5),
        ]

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


class DescribeSelection:
    def it_merges_passages_with_the_same_text(self, corner):
        corner.fill(
            {"a": "Green tea is brewed at 80 degrees.", "b": "green tea  is brewed at 80 DEGREES.", "c": "Tea."}
        )
        found = corner.ask(corner.query("green tea degrees", retrieve={"selection": {"dedupe": "content"}}))
        assert sorted(documents(found)) in (["a", "c"], ["b", "c"])
        assert "stands for 1 more" in found.chunks[0].reason
        both = corner.ask(corner.query("green tea degrees"))
        assert sorted(documents(both)) == ["a", "b", "c"]

    @pytest.mark.parametrize(("selection", "most"), [({"per_document": 2}, 2), ({"dedupe": "document"}, 1), ({}, 5)])
    def it_gives_no_document_more_than_its_share(self, corner, selection, most):
        paragraphs = "\n\n".join(f"Reactor coolant note {n}. " + "coolant loop detail " * 40 for n in range(8))
        corner.fill(
            {"long": paragraphs, "short": "Reactor coolant in brief.", "other": "Coolant of the other reactor."}
        )
        found = corner.ask(
            corner.query("reactor coolant", retrieve={"selection": selection}, rerank=NO_RERANK, top_k=5)
        )
        if not selection:
            assert documents(found).count("long") > 2
            return
        assert documents(found).count("long") == most
        assert {"short", "other"} <= set(documents(found))

    def it_looks_for_what_was_not_said_yet(self, corner):
        corner.fill(
            {
                "one": "The reactor coolant pump failed in unit two on Monday.",
                "copy": "The reactor coolant pump failed in unit two on a Monday.",
                "other": "Coolant pump seals wear out after ten thousand hours.",
            }
        )
        asked = {"top_k": 2, "rerank": NO_RERANK}
        plain = corner.ask(corner.query("reactor coolant pump failed", **asked))
        assert set(documents(plain)) == {"one", "copy"}
        diverse = corner.ask(
            corner.query("reactor coolant pump failed", retrieve={"selection": {"diversity": 0.7}}, **asked)
        )
        assert "other" in documents(diverse)

    def it_puts_the_better_grade_first_and_spares_the_worst(self, corner):
        grades = ["一般"] * 12 + ["优秀"] * 4
        same = "发烧三十八度应该多喝水"
        corner.fill(
            {f"d{n:02}": same for n in range(len(grades))},
            {f"d{n:02}": {"metadata": {"quality_grade": grade}} for n, grade in enumerate(grades)},
        )
        asked = {"rerank": NO_RERANK, "top_k": 15}
        found = corner.ask(corner.query("发烧喝水", retrieve={"selection": {"quality": {}}}, **asked))
        assert [chunk.metadata["quality_grade"] for chunk in found.chunks] == ["优秀"] * 4
        enough = {"quality": {"enough": 16}}
        found = corner.ask(corner.query("发烧喝水", retrieve={"selection": enough}, **asked))
        assert [chunk.metadata["quality_grade"] for chunk in found.chunks] == ["优秀"] * 4 + ["一般"] * 11


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

    def it_steps_down_on_similarity_and_says_where_it_ended(self, corner):
        corner.fill(self.TEXTS)
        question = "reset the controller with the red button"
        semantic = {"method": "semantic"}
        plain = corner.ask(corner.query(question, retrieve=semantic, rerank=NO_RERANK))
        similarity = {chunk.document_id: chunk.sources[0].score for chunk in plain.chunks}
        order = sorted(similarity.values(), reverse=True)
        between = [(one + other) / 2 for one, other in pairwise(order)]
        for wanted, rung, hits in ((1, 0, 1), (2, 1, 2), (3, 2, 3)):
            ladder = {"thresholds": between, "min_results": wanted}
            found = corner.ask(corner.query(question, retrieve={**semantic, "ladder": ladder}, rerank=NO_RERANK))
            assert found.stats.ladder == Rung(threshold=pytest.approx(between[rung]), hits=hits, enough=True)
            assert len(found.chunks) == hits
        ladder = {"thresholds": between[:1], "min_results": 5}
        found = corner.ask(corner.query(question, retrieve={**semantic, "ladder": ladder}))
        assert (documents(found), found.stats.ladder.enough) == (["exact"], False)
        assert plain.stats.ladder is None

    def it_recalls_nothing_again(self, corner, use_alone):
        corner.fill(self.TEXTS)
        channels = watched(use_alone)
        ladder = {"thresholds": [0.99, 0.98, 0.01], "min_results": 4}
        corner.ask(corner.query("red button", retrieve={"ladder": ladder}), channels)
        assert [len(channel.asked) for channel in channels.values()] == [1, 1]


@pytest.mark.calm
class DescribeASecondRetrieval:
    TEXTS: Mapping[str, str] = {
        f"d{n}": f"Centrifugal pump number {n} feeds the cooling tower through valve {n}." for n in range(12)
    }

    @staticmethod
    def second(**fields: Any) -> dict[str, Any]:
        return {"second": fields}

    def it_finds_more_with_a_larger_pool_and_tells_what_it_did(self, corner, use_alone):
        corner.fill(self.TEXTS)
        channels = watched(use_alone)
        retrieve = {"allocation": "balanced", **self.second(min_score=1.0, pool=50)}
        query = corner.query("centrifugal pump cooling", retrieve=retrieve, rerank=NO_RERANK, top_k=11)
        found = corner.ask(query, channels)
        assert [channel.asked for channel in channels.values()] == [[11, 50], [11, 50]]
        assert found.stats.second == SecondRetrieval(
            reason=found.stats.second.reason, changed={"pool": 50}, hits_before=11, hits_after=11
        )
        assert found.stats.second.reason.endswith(" of 1")
        assert (len(found.chunks), found.stats.degraded) == (11, False)
        assert found.query.channels == ("keyword", "semantic")

    def it_leaves_a_good_result_alone(self, corner, use_alone):
        corner.fill(self.TEXTS)
        channels = watched(use_alone)
        found = corner.ask(corner.query("centrifugal pump", retrieve=self.second(min_hits=2, pool=500)), channels)
        assert [len(channel.asked) for channel in channels.values()] == [1, 1]
        assert found.stats.second is None

    def it_relaxes_a_threshold_without_asking_anybody(self, corner, use_alone):
        corner.fill(self.TEXTS)
        channels = watched(use_alone)
        retrieve = {"score_threshold": 0.999, **self.second(min_hits=5, score_threshold=0.0)}
        found = corner.ask(corner.query("centrifugal pump cooling", retrieve=retrieve, rerank=NO_RERANK), channels)
        assert [len(channel.asked) for channel in channels.values()] == [1, 1]
        assert found.stats.second.changed == {"score_threshold": 0.0}
        assert found.stats.second.hits_before < 5 < found.stats.second.hits_after == len(found.chunks)

    def it_asks_the_other_channel_too_when_the_method_changes(self, corner, use_alone):
        corner.fill({"tea": "绿茶冲泡水温八十度", "wind": "A wind turbine drives a generator."})
        channels = watched(use_alone)
        retrieve = {"method": "full_text", **self.second(min_hits=1, method="hybrid")}
        found = corner.ask(corner.query("renewable electricity windmill", retrieve=retrieve), channels)
        assert [len(channels[name].asked) for name in (KEYWORD, SEMANTIC)] == [1, 1]
        assert documents(found)[0] == "wind"
        assert (found.stats.second.hits_before, found.stats.second.changed) == (0, {"method": "hybrid"})
        assert set(found.stats.hits) == {"keyword", "semantic"}
        assert found.query.method == "full_text"  # as it was asked

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

    def it_does_not_wait_longer_for_a_hanging_channel_than_the_deadline(self, corner, use_alone):
        corner.fill(self.TEXTS)
        let_go = threading.Event()
        channels = watched(use_alone, None, lambda: let_go.wait(15))
        slow = {name: {"timeout_ms": 2000, "retry": 0} for name in ("keyword", "semantic")}
        retrieve = {"channels": slow, "allocation": "balanced", **self.second(min_score=1.0, pool=50)}
        query = corner.query("centrifugal pump", retrieve=retrieve, deadline_s=1.5)
        found = corner.ask(query, channels)
        over = time.time() - query.deadline_at
        let_go.set()
        assert over < 0.25
        assert ("second", "timeout") in {(lost.part, lost.code) for lost in found.stats.degradations}
        assert found.chunks


@pytest.mark.calm
class DescribeTheInProcessMode:
    def it_names_what_fails_and_answers_all_the_same(self, corner, use_alone):
        corner.fill({"a": "Green tea."})
        channels = watched(use_alone)
        channels[SEMANTIC] = Watched(make_channels(use_alone)[SEMANTIC], *[unavailable] * 5)
        found = corner.ask(corner.query("green tea"), channels)
        assert documents(found) == ["a"]
        assert [(lost.part, lost.code) for lost in found.stats.degradations] == [("semantic", "store_unavailable")]

    def it_gives_the_same_answer_every_time(self, corner):
        corner.fill({f"d{n}": f"Green tea number {n % 3}." for n in range(8)})
        query = corner.query("green tea")
        assert timeless(corner.ask(query)) == timeless(corner.ask(query))

    def it_asks_its_channels_side_by_side(self, corner, use_alone):
        corner.fill({"a": "Green tea."})
        together = threading.Barrier(2, timeout=10)
        found = corner.ask(corner.query("green tea"), watched(use_alone, together.wait))
        assert set(found.stats.hits) == {"keyword", "semantic"}
