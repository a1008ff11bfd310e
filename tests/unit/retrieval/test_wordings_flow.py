"""A channel asked in several wordings: what it found counts, what is missing is named, and the raw query's hits stay."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from pipeline.channels.channel import Recalled
from pipeline.channels.semantic_channel import SemanticChannel
from pipeline.deadline import Deadline
from pipeline.errors import StoreUnavailable
from pipeline.query.plan import ChannelPlan, Plan, RetrievePlan, UnderstandPlan
from pipeline.query.request import Degradation, Envelope, Query, Understanding
from pipeline.query.understanding import ModelResults, Understood
from pipeline.records import ChannelName, ChunkId, QueryId, TenantId
from pipeline.resources import Resources
from pipeline.retrieval.answer_query import recall
from pipeline.retrieval.ask_channels import ask_other_wordings, losses_of
from pipeline.retrieval.understand import await_understanding
from tests.support.corpora.queries import query_of
from tests.support.stacks.patience import SPARE_S

TENANT, QUERY, KEYWORD = TenantId("t"), QueryId("q"), ChannelName.KEYWORD


class FakeChannel(SemanticChannel):
    """A channel at the edge: finds a chunk named after the wording, unless told to do something else for it."""

    name = KEYWORD
    __setattr__ = object.__setattr__  # the real one is frozen

    def __init__(self, **instead: Callable[[], Recalled]) -> None:
        self._instead = instead
        self.asked: list[tuple[str, int]] = []
        self.prepared: list[list[str]] = []

    def recall(self, query: Query) -> Recalled:
        self.asked.append((query.query_text, query.pool_of(self.name)))
        if query.query_text in self._instead:
            return self._instead[query.query_text]()
        return Recalled(chunk_ids=(ChunkId(query.query_text),), scores=(1.0,), upper_bound=2.0)

    def score(self, query: Query, chunk_ids: object) -> dict[ChunkId, float]:
        return {}

    def prepare(self, query: Query, texts: Sequence[str]) -> None:
        self.prepared.append(list(texts))


def fails() -> Recalled:
    raise StoreUnavailable("away")


def query(*sub_queries: str, deadline_s: float = 3.0, waits: bool = False, budget_ms: int = 200) -> Query:
    return query_of(
        "raw",
        query_id=QUERY,
        tenant_id=TENANT,
        plan=Plan(
            top_k=2,
            retrieve=RetrievePlan(channels={"keyword": ChannelPlan(pool=9, timeout_ms=150)}),
            understand=UnderstandPlan(budget_ms=budget_ms),
        ),
        understanding=Understanding(sub_queries=sub_queries),
        model_steps=("expand",) if waits else (),
        deadline_s=deadline_s,
    )


RAW = Envelope(channel=KEYWORD, status="ok", chunk_ids=("raw",), scores=(1.0,), upper_bound=2.0)


def asked(channel: FakeChannel, of: Query, envelope: Envelope = RAW) -> Envelope:
    return ask_other_wordings(of, {KEYWORD: envelope}, {KEYWORD: channel}, reserve_s=0.1)[KEYWORD]


class DescribeOtherWordings:
    def it_asks_them_all_with_a_share_of_the_pool_each(self):
        channel = FakeChannel()
        envelope = asked(channel, query("one", "two", "three"))
        assert channel.asked == [("one", 3), ("two", 3), ("three", 3)]
        assert channel.prepared == [["one", "two", "three"]]
        assert envelope.chunk_ids == ("raw", "one", "three", "two")
        assert envelope.unasked is None

    def it_leaves_a_channel_alone_that_failed_or_has_no_others(self):
        channel = FakeChannel()
        failed = Envelope(channel=KEYWORD, status="failed", code="store_unavailable")
        assert asked(channel, query("one"), failed) == failed
        assert asked(channel, query()) == RAW
        assert channel.asked == []

    def it_keeps_what_was_found_before_one_fails(self):
        of = query("one", "two", "three")
        envelope = asked(FakeChannel(two=fails), of)
        assert envelope.chunk_ids == ("raw", "one")
        assert envelope.unasked == "store_unavailable"
        assert [(lost.part, lost.code) for lost in losses_of(of, {KEYWORD: envelope})] == [
            ("expand", "store_unavailable")
        ]

    def it_does_not_wait_for_one_that_hangs(self):
        let_go, started = threading.Event(), time.monotonic()
        envelope = asked(FakeChannel(two=lambda: let_go.wait(30) and fails()), query("one", "two"))
        assert time.monotonic() - started < 1.0 + SPARE_S
        let_go.set()
        assert (envelope.chunk_ids, envelope.unasked) == (("raw", "one"), "timeout")

    @pytest.mark.parametrize(("deadline_s", "channels", "code"), [(0.05, True, "timeout"), (3.0, False, "no_answer")])
    def it_says_when_they_could_not_be_asked(self, deadline_s, channels, code):
        channel = FakeChannel()
        given = {KEYWORD: channel} if channels else {}
        envelope = ask_other_wordings(query("one", deadline_s=deadline_s), {KEYWORD: RAW}, given, reserve_s=0.1)[
            KEYWORD
        ]
        assert envelope == replace(RAW, unasked=code)
        assert channel.asked == []


class DescribeAHeaderTaskThatKnowsThem:
    def it_asks_them_together(self, use):
        use.queries(TENANT).open(query("one", "two"))
        assert recall(TENANT, QUERY, FakeChannel(), use)
        [envelope] = use.queries(TENANT).state(QUERY).envelopes
        assert set(envelope.chunk_ids) == {"raw", "one", "two"}

    def it_has_reported_the_raw_query_should_it_die_over_the_others(self, use):
        def look() -> Recalled:
            reported.extend(use.queries(TENANT).state(QUERY).envelopes)
            return Recalled()

        reported: list[Envelope] = []
        use.queries(TENANT).open(query("one"))
        recall(TENANT, QUERY, FakeChannel(one=look), use)
        assert reported == [replace(RAW, unasked="no_answer")]

    def it_leaves_them_to_the_callback_while_a_model_is_asked(self, use):
        channel = FakeChannel()
        use.queries(TENANT).open(query("one", waits=True))
        assert recall(TENANT, QUERY, channel, use)
        assert use.queries(TENANT).state(QUERY).envelopes[0].chunk_ids == ("raw",)
        assert [text for text, _ in channel.asked] == ["raw"]


class DescribeTheCallback:
    def open(self, use: Resources, of: Query) -> None:
        use.queries(TENANT).open(of)
        use.queries(TENANT).report(of, RAW, elapsed_ms=1.0)

    def understood(self, use: Resources, *sub_queries: str, lost: tuple[Degradation, ...] = ()) -> None:
        found = Understood(made=ModelResults(sub_queries=sub_queries), lost=lost)
        use.queries(TENANT).report_understood(QUERY, found, elapsed_ms=2.0)

    def it_waits_for_the_model_and_asks_again(self, use):
        self.open(use, query(waits=True, budget_ms=20_000, deadline_s=30.0))
        later = threading.Timer(0.2, self.understood, (use, "one"))
        later.start()
        started = time.monotonic()
        arrived = await_understanding(use.queries(TENANT).state(QUERY), use, {KEYWORD: FakeChannel()})
        later.join()
        assert time.monotonic() - started < 0.2 + SPARE_S
        assert arrived.envelopes[KEYWORD].chunk_ids == ("raw", "one")
        assert arrived.query.understanding.sub_queries == ("one",)
        assert arrived.losses == ()

    def it_goes_on_without_a_model_that_does_not_come_back(self, use):
        self.open(use, query(waits=True, budget_ms=200))
        started = time.monotonic()
        arrived = await_understanding(use.queries(TENANT).state(QUERY), use, {KEYWORD: FakeChannel()})
        assert 0.1 < time.monotonic() - started < 0.2 + SPARE_S
        assert arrived.envelopes == {KEYWORD: RAW}
        assert [(lost.part, lost.code) for lost in arrived.losses] == [("expand", "timeout")]

    def it_passes_on_what_the_model_lost(self, use):
        lost = Degradation(part="expand", code="rewriter_unavailable", detail="…")
        self.open(use, query(waits=True))
        self.understood(use, lost=(lost,))
        assert await_understanding(use.queries(TENANT).state(QUERY), use, {KEYWORD: FakeChannel()}).losses == (lost,)

    def it_waits_for_nothing_after_the_deadline(self, use):
        self.open(use, query("kept", waits=True, deadline_s=-0.1))
        started = time.monotonic()
        arrived = await_understanding(use.queries(TENANT).state(QUERY), use, {})
        assert time.monotonic() - started < SPARE_S
        assert arrived.envelopes[KEYWORD].chunk_ids == ("raw",)
        assert [(lost.part, lost.code) for lost in arrived.losses] == [("expand", "timeout"), ("expand", "no_answer")]

    def it_serves_everyone_who_waits(self, use):
        self.open(use, query(waits=True, budget_ms=20_000, deadline_s=30.0))
        found: list[object] = []
        deadline = Deadline.after(1.0)
        waiting = [
            threading.Thread(target=lambda: found.append(use.queries(TENANT).await_understood(QUERY, deadline)))
            for _ in range(3)
        ]
        for thread in waiting:
            thread.start()
        self.understood(use, "one")
        for thread in waiting:
            thread.join()
        assert found == [Understood(made=ModelResults(sub_queries=("one",)))] * 3

    def it_leaves_nothing_of_a_query_that_was_cancelled(self, use):
        self.open(use, query(waits=True))
        self.understood(use, "one")
        use.queries(TENANT).cancel(QUERY)
        self.understood(use, "late")
        assert use.redis.keys() == [f"{TENANT}:cancelled:{QUERY}".encode()]
