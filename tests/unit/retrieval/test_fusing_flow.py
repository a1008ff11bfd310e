"""Fusion of arrived envelopes: a failing plug-in costs its order, not the answer; a weak channel is reported."""

from __future__ import annotations

import gc
import time
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from pipeline.distances import MEASURES
from pipeline.errors import FusionPluginFailed, Misconfigured
from pipeline.query.plan import ChannelPlan, FusionPlan, Plan, PlanFlaw, RetrievePlan
from pipeline.query.request import Envelope, Query
from pipeline.records import ChannelName, ChunkId
from pipeline.retrieval.arrived import Arrived, Journal
from pipeline.retrieval.build_plan import check_fusion, plan_of
from pipeline.retrieval.fuse import fuse, installed_fusions, load_fusion
from pipeline.settings import load
from tests.support.corpora.fusions import installed_package
from tests.support.corpora.queries import query_of
from tests.support.stacks.patience import SPARE_S

KEYWORD, SEMANTIC = ChannelName.KEYWORD, ChannelName.SEMANTIC
SAID = {
    KEYWORD: Envelope(channel=KEYWORD, status="ok", chunk_ids=("a", "b"), scores=(9.0, 5.0), upper_bound=10.0),
    SEMANTIC: Envelope(channel=SEMANTIC, status="ok", chunk_ids=("b", "c"), scores=(0.2, 0.1), upper_bound=1.0),
}


@pytest.fixture
def installed(tmp_path) -> Iterator[None]:
    with installed_package(tmp_path):
        yield


def arrived(fusion: FusionPlan, *, left_s: float = 3.0) -> Arrived:
    channels = {"keyword": ChannelPlan(weight=0.7), "semantic": ChannelPlan(weight=0.3)}
    query = query_of(plan=Plan(retrieve=RetrievePlan(channels=channels, fusion=fusion)), deadline_s=left_s)
    return Arrived(query=query, envelopes=SAID, elapsed_ms={})


def fused(fusion: FusionPlan, *, left_s: float = 3.0) -> tuple[str, Journal]:
    said = arrived(fusion, left_s=left_s)
    return " ".join(hit.chunk_id for hit in fuse(said, {})), said.journal


WEIGHTED = "a b c"


class DescribeACustomFusion:
    @pytest.mark.parametrize(("plugin", "order"), [("last_first", "b c a"), ("nothing", "")])
    def it_decides_the_order(self, installed, plugin, order):
        found, journal = fused(FusionPlan(strategy="custom", plugin=plugin))
        assert (sorted(found), journal.degradations) == (sorted(order), [])

    @pytest.mark.parametrize(
        ("plugin", "code", "words"),
        [
            ("broken", "fusion_plugin_failed", "RuntimeError"),
            ("inventor", "fusion_plugin_failed", "no channel recalled"),
            ("not_one", "fusion_plugin_failed", "cannot be called"),
            ("missing", "fusion_plugin_failed", "AttributeError"),
            ("unheard_of", "fusion_plugin_failed", "not installed"),
            ("asleep", "fusion_plugin_timeout", "asleep"),
        ],
    )
    def it_is_replaced_by_weighted_fusion_and_named_when_it_fails(self, installed, plugin, code, words):
        started = time.monotonic()
        order, journal = fused(FusionPlan(strategy="custom", plugin=plugin))
        [lost] = journal.degradations
        assert (order, lost.part, lost.code) == (WEIGHTED, "fuse", code)
        assert words in lost.detail
        assert time.monotonic() - started < 0.5 + SPARE_S

    def it_is_not_tried_when_the_deadline_has_passed(self, installed):
        order, journal = fused(FusionPlan(strategy="custom", plugin="last_first"), left_s=-1.0)
        assert (order, journal.degradations[0].code) == (WEIGHTED, "fusion_plugin_timeout")


class DescribeInstalledFusions:
    def it_knows_their_names_without_loading_them(self, installed):
        import sys

        assert {"best_of", "missing"} <= set(installed_fusions())
        assert "strange_fusions" not in sys.modules

    def it_loads_each_once(self, installed):
        assert load_fusion("best_of") is load_fusion("best_of")
        with pytest.raises(FusionPluginFailed):
            load_fusion("not_one")

    def it_is_named_by_the_query_or_refused_where_several_are_installed(self, installed):
        with pytest.raises(PlanFlaw, match="not exactly one is installed here"):
            plan_of(load({"recall_merge_strategy": "custom"}), {}, {})
        asked = {"retrieve": {"fusion": {"strategy": "custom", "plugin": "last_first"}}}
        assert plan_of(load(), {}, asked).retrieve.fusion.plugin == "last_first"
        asked["retrieve"]["fusion"]["plugin"] = "unheard_of"
        with pytest.raises(PlanFlaw, match=r"/retrieve/fusion/plugin is no fusion that is installed.*best_of"):
            plan_of(load(), {}, asked)

    def it_stops_the_start_where_several_are_installed(self, installed):
        with pytest.raises(Misconfigured, match=r"needs exactly one installed fusion; installed: .*best_of"):
            check_fusion(load({"recall_merge_strategy": "custom"}))
        check_fusion(load())


class DescribeTheGateOfAQuery:
    def it_takes_a_weak_channel_out_and_says_so(self):
        order, journal = fused(FusionPlan(gate=0.3))
        assert order == "a b"
        assert journal.remarks == ["the semantic channel had no say: its best hit reaches 0.20, the gate is 0.3"]
        assert journal.degradations == []

    def it_takes_nobody_out_unless_it_is_asked_for(self):
        order, journal = fused(FusionPlan())
        assert (sorted(order.split()), journal.remarks) == (["a", "b", "c"], [])


def answered(channel: ChannelName, **found: object) -> Envelope:
    return Envelope(channel=channel, status="ok", **found)


class Scores:
    """A channel that scores what another one found: 0 for each."""

    def score(self, _query: Query, chunk_ids: Sequence[ChunkId]) -> dict[ChunkId, float]:
        return dict.fromkeys(chunk_ids, 0.0)


def order_of(
    *envelopes: Envelope, text: str = "", channels: dict[ChannelName, Scores] | None = None, **fusion: object
) -> tuple[dict[str, float], Journal]:
    recalled = {each.channel: each for each in envelopes}
    said = replace(arrived(FusionPlan(**fusion)), envelopes=recalled, journal=Journal(tracing=True))
    said = replace(said, query=replace(said.query, trace=True, query_text=text or said.query.query_text))
    return {hit.chunk_id: hit.score for hit in fuse(said, channels or {})}, said.journal


class DescribeAdmission:
    WORDS = answered(KEYWORD, chunk_ids=("a",), scores=(4.0,), upper_bound=10.0, zero=0.0)

    @pytest.mark.parametrize("strategy", ["weighted", "rrf"])
    @pytest.mark.parametrize(("zero", "below"), [(0.0, -0.1), (0.4142, 0.39)])
    def it_leaves_out_what_has_nothing_in_common_with_the_query(self, strategy, zero, below):
        meaning = answered(SEMANTIC, chunk_ids=("a", "b"), scores=(0.7, below), upper_bound=1.0, zero=zero)
        found, journal = order_of(self.WORDS, meaning, strategy=strategy)
        assert list(found) == ["a"]
        [drop] = journal.drops
        assert (drop.chunk_id, drop.stage, drop.reason, drop.value) == ("b", "fuse", "not_admitted", below)


class DescribeWhatATracedQueryLeaves:
    def it_is_freed_without_a_collection_of_garbage(self):
        said = replace(arrived(FusionPlan()), journal=Journal(tracing=True))
        left = weakref.ref(said)
        fuse(said, {})
        gc.disable()
        try:
            del said
            assert left() is None
        finally:
            gc.enable()


class DescribeTheScaleOfAChannelAlone:
    def it_is_that_of_its_own_scores(self):
        two = answered(KEYWORD, chunk_ids=("a", "b"), scores=(6.0, 3.0), upper_bound=10.0, zero=0.0)
        assert order_of(two)[0] == pytest.approx({"a": 0.6, "b": 0.3})

    def it_begins_where_two_vectors_have_nothing_in_common(self):
        zero = MEASURES["euclidean"].orthogonal
        two = answered(SEMANTIC, chunk_ids=("a", "b"), scores=(1.0, zero), upper_bound=1.0, zero=zero)
        assert order_of(two)[0] == pytest.approx({"a": 1.0, "b": 0.0})


class DescribeTheReadingGate:
    MEANING = answered(SEMANTIC, chunk_ids=("a", "b"), scores=(0.7, 0.1), upper_bound=1.0, zero=0.0, trust=0.1)
    WORDS = answered(KEYWORD, chunk_ids=("b", "a"), scores=(6.0, 3.0), upper_bound=10.0, zero=0.0)

    def it_is_off_unless_asked_for(self):
        found, journal = order_of(self.WORDS, self.MEANING)
        assert (found, journal.remarks) == (pytest.approx({"a": 0.3, "b": 0.7}), [])

    def it_says_where_it_acted(self):
        found, journal = order_of(self.WORDS, self.MEANING, reading_gate=True)
        assert found == pytest.approx({"a": 0.03 / 0.73, "b": 0.7 / 0.73})
        [remark] = journal.remarks
        assert remark == (
            "reading_gate: the semantic channel counts 0.030 instead of 0.300, because its model reads too little of the"
            " query (0.100)"
        )

    @pytest.mark.parametrize(
        ("model", "gate", "share"),
        [
            ("multilingual-e5-small-q4-384", True, 0.5),
            ("multilingual-e5-small-q4-384", False, 0.3),
            ("wordllama-l2-supercat-256", True, 0.3),
            (None, True, 0.3),
        ],
    )
    def it_comes_with_the_weights_of_the_model_that_compared(self, model, gate, share):
        meaning = replace(self.MEANING, model=model, trust=1.0)
        found, journal = order_of(self.WORDS, meaning, reading_gate=gate)
        assert (found, journal.remarks) == (pytest.approx({"a": share, "b": 1 - share}), [])

    @pytest.mark.parametrize(
        ("use", "asked", "gate"),
        [
            ({}, {}, True),
            ({}, {"retrieve": {"channels": {"keyword": {"pool": 50}}}}, True),
            ({}, {"retrieve": {"channels": {"keyword": {"weight": 0.4}, "semantic": {"weight": 0.6}}}}, False),
            ({"recall_source_weights": "keyword:0.4,semantic:0.6"}, {}, False),
            (
                {},
                {"retrieve": {"channels": {"keyword": {"weight": 0.4}}, "fusion": {"reading_gate": True}}},
                True,
            ),
        ],
    )
    def it_goes_with_the_default_weights(self, use, asked, gate):
        assert plan_of(load(use), {}, asked).retrieve.fusion.reading_gate is gate


class DescribeQueryWeights:
    """Twelve hits of meaning; of the words two."""

    LONG = " ".join(f"word{number}" for number in range(48))
    HALF = " ".join(f"word{number}" for number in range(32))
    WORDS = answered(KEYWORD, chunk_ids=("b", "a"), scores=(6.0, 3.0), upper_bound=10.0, zero=0.0)

    @pytest.mark.parametrize(("second", "weight"), [(0.89, 0.3 * 0.6258), (0.74, 0.3), (0.2, 0.3 * 1.6487)])
    def it_trusts_a_vector_search_as_far_as_its_first_hit_stands_out(self, second, weight):
        scores = (0.9, second, *(0.19 - place / 1000 for place in range(9)), 0.1)
        ids = ("a", *(f"c{place:02}" for place in range(11)))
        meaning = answered(SEMANTIC, chunk_ids=ids, scores=scores, upper_bound=1.0, zero=0.0)
        found, journal = order_of(self.WORDS, meaning, query_weights=True, text=self.LONG)
        said = f"query_weights: the semantic channel counts {weight / (0.7 + weight):.3f} instead of 0.300"
        assert [remark[: len(said)] for remark in journal.remarks] == [said] * (weight != 0.3)
        assert found["a"] == pytest.approx(weight / (0.7 + weight), abs=1e-3)
        assert order_of(self.WORDS, meaning, text=self.LONG)[0]["a"] == pytest.approx(0.3)

    @pytest.mark.parametrize(("text", "weight"), [("how do owls hunt", 0.3), (HALF, 0.3 * 1.6487**0.5)])
    def it_does_so_as_far_as_the_query_is_long(self, text, weight):
        scores = (0.9, 0.2, *(0.19 - place / 1000 for place in range(9)), 0.1)
        ids = ("a", *(f"c{place:02}" for place in range(11)))
        meaning = answered(SEMANTIC, chunk_ids=ids, scores=scores, upper_bound=1.0, zero=0.0)
        found, _ = order_of(self.WORDS, meaning, query_weights=True, text=text)
        assert found["a"] == pytest.approx(weight / (0.7 + weight), abs=1e-3)

    @pytest.mark.parametrize(("beyond_words", "first"), [(1.0, "a"), (0.0, "b")])
    def it_lets_meaning_decide_what_words_cannot_judge(self, beyond_words, first):
        """The passage is in another language than the question, and another one holds a number of it."""
        ids = ("a", *(f"c{place:02}" for place in range(11)))
        scores = (0.9, 0.7, *(0.6 - place / 100 for place in range(10)))
        meaning = answered(SEMANTIC, chunk_ids=ids, scores=scores, zero=0.0, beyond_words=beyond_words)
        words = answered(KEYWORD, chunk_ids=("b",), scores=(1.0,), upper_bound=10.0, zero=0.0)
        found, journal = order_of(words, meaning, query_weights=True, channels={KEYWORD: Scores()})
        assert next(iter(found)) == first
        told = [
            remark for remark in journal.remarks if remark.startswith("query_weights: the semantic channel counts 0.9")
        ]
        assert bool(told) is (beyond_words > 0)
        assert all("covers 0.10 of the query" in remark and "1.0 of the first hits" in remark for remark in told)

    def it_changes_nothing_for_a_few_hits_or_equal_ones(self):
        few = answered(SEMANTIC, chunk_ids=("a", "b"), scores=(0.7, 0.1), upper_bound=1.0, zero=0.0)
        alike = answered(SEMANTIC, chunk_ids=tuple(map(str, range(12))), scores=(0.5,) * 12, upper_bound=1.0, zero=0.0)
        for meaning in (few, alike):
            assert order_of(self.WORDS, meaning, query_weights=True)[0] == order_of(self.WORDS, meaning)[0]

    @pytest.mark.parametrize(
        ("use", "asked", "on"),
        [
            ({}, {}, True),
            ({}, {"retrieve": {"channels": {"semantic": {"weight": 0.6}}}}, False),
            ({"recall_source_weights": "keyword:0.4,semantic:0.6"}, {}, False),
        ],
    )
    def it_leaves_stated_weights_as_they_are(self, use, asked, on):
        assert plan_of(load(use), {}, asked).retrieve.fusion.query_weights is on


SERVICE = {"rerank_url": "http://127.0.0.1:9", "rerank_model": "m"}


class DescribeWhetherHitsAreReranked:
    @pytest.mark.parametrize(
        ("use", "asked", "namespaces", "reranked"),
        [
            ({}, {}, 1, False),
            ({}, {}, 2, True),
            ({}, {"rerank": {"top_n": 5}}, 1, True),
            ({}, {"rerank": {"enabled": False, "top_n": 5}}, 1, False),
            (SERVICE, {}, 1, True),
        ],
    )
    def it_takes_a_reranker_that_earns_its_time_or_a_wish(self, use, asked, namespaces, reranked):
        assert plan_of(load(use), {}, asked, namespaces=namespaces).rerank.enabled is reranked
