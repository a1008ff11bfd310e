"""Choice of the reranker, its request, and the hits that a threshold drops."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis.strategies import dictionaries, floats, integers, none, sampled_from

from pipeline.errors import Misconfigured
from pipeline.models.make_models import make_reranker
from pipeline.models.rerank_client import HttpReranker
from pipeline.query.plan import DecayPlan, PlanFlaw, RetrievePlan
from pipeline.records import Filters
from pipeline.retrieval.build_plan import plan_of
from pipeline.retrieval.rerank import passing, rerank, rerank_lift, wishes
from pipeline.settings import load
from tests.unit.answer.test_answer_parts import fused_orders, hits, unit

SERVICE = {"rerank_url": "http://127.0.0.1:9", "rerank_model": "m"}


class DescribePassing:
    @pytest.mark.parametrize(
        ("scores", "threshold", "min_results", "stay"),
        [
            ({"a": 0.9, "b": 0.2, "c": 0.6}, 0.5, 1, "ac"),
            ({"a": 0.9, "b": 0.2, "c": 0.6}, None, 1, "acb"),
            ({"a": 0.1, "b": 0.2, "c": 0.3}, 0.5, 1, "c"),  # it never empties
            ({"a": 0.1, "b": 0.2, "c": 0.3}, 0.5, 2, "cb"),
            ({"a": 0.1, "b": 0.2, "c": 0.3}, 0.5, 0, ""),  # unless the minimum is 0
            ({"a": 0.1, "c": 0.9}, 0.5, 1, "c"),  # an unscored hit does not reach it
            ({"a": 0.1}, 0.5, 1, "a"),  # scored hits fill up before unscored ones
            ({"a": 0.1}, 0.5, 2, "ab"),
            ({}, 0.5, 1, "abc"),  # a reranker that failed leaves nothing out
            ({"a": 0.5}, 0.5, 1, "a"),  # the threshold itself is enough
        ],
    )
    def it_leaves_out_what_is_below(self, scores, threshold, min_results, stay):
        placed = rerank(hits([("a", 0.9), ("b", 0.5), ("c", 0.1)]), scores, weight=1.0)
        kept, dropped = passing(placed, threshold=threshold, min_results=min_results)
        assert "".join(hit.chunk_id for hit in kept) == stay
        assert sorted(hit.chunk_id for hit in [*kept, *dropped]) == ["a", "b", "c"]

    @settings(max_examples=30)
    @given(
        order=fused_orders,
        scores=dictionaries(sampled_from("abcdefgh"), unit),
        threshold=none() | floats(0, 1),
        least=integers(0, 9),
    )
    def it_keeps_enough_in_order_and_the_best_of_what_fell_short(self, order, scores, threshold, least):
        placed = rerank(hits(order), scores, weight=0.8)
        kept, dropped = passing(placed, threshold=threshold, min_results=least)
        assert len(kept) >= min(least, len(placed))
        assert [hit for hit in placed if hit in kept] == kept
        assert all(drop.value is None or drop.value < (threshold or 0.0) for drop in dropped)
        assert not dropped or scores.keys() & {hit.chunk_id for hit in placed}
        short = [hit.rerank for hit in kept if hit.rerank is not None and threshold and hit.rerank < threshold]
        assert not short or not dropped or min(short) >= max(drop.value or 0.0 for drop in dropped)


class DescribeAWeightOfZero:
    @pytest.mark.parametrize("scores", [{}, {"a": 0.1, "b": 0.2, "c": 0.9}, {"c": 0.9}])
    def it_keeps_order_and_scores_and_shows_what_the_reranker_says(self, scores):
        placed = rerank(hits([("a", 0.9), ("b", 0.5), ("c", 0.1)]), scores, weight=0.0)
        assert [(hit.chunk_id, hit.score) for hit in placed] == [("a", 0.9), ("b", 0.5), ("c", 0.1)]
        assert {hit.chunk_id: hit.rerank for hit in placed if hit.rerank is not None} == scores


class DescribeLift:
    def it_does_not_praise_a_reranker_for_giving_back_few(self):
        fused = hits([("a", 1.0), ("b", 0.9), ("c", 0.8)])
        assert rerank_lift(rerank(fused, {"c": 1.0}, weight=1.0), top_k=3) == 0.0


class DescribeWishes:
    @pytest.mark.parametrize(
        ("decay", "filters", "said"),
        [
            (None, Filters(), ""),
            (DecayPlan(half_life_days=30), Filters(), "越新越好，每过 30 天价值减半"),
            (DecayPlan(shape="window", scale=7 * 86_400), Filters(), "越新越好，7 天以内算新"),
            (DecayPlan(by="story_time", shape="hyperbolic"), Filters(story_time=5), ""),
            (
                None,
                Filters(type="手册", start=datetime(2024, 1, 2, tzinfo=UTC), end=datetime(2025, 3, 4, tzinfo=UTC)),
                "不早于 2024-01-02；不晚于 2025-03-04；文档类型：手册",
            ),
        ],
    )
    def it_puts_time_and_type_into_words(self, decay, filters, said):
        assert wishes(RetrievePlan(time_decay=decay), filters) == said


class DescribeWhoReranks:
    @pytest.mark.parametrize(
        ("settings", "auto", "llm", "http"),
        [
            ({}, "local", "local", "local"),
            ({"llm_model": "m"}, "llm", "llm", "local"),
            (SERVICE, "http", "local", "http"),
            ({**SERVICE, "llm_model": "m"}, "http", "llm", "http"),
        ],
    )
    def it_takes_what_is_configured(self, settings, auto, llm, http):
        found = load(settings)
        assert [found.reranker_for(asked) for asked in ("auto", "llm", "http", "local")] == [auto, llm, http, "local"]

    def it_makes_the_service_of_the_settings(self):
        reranker = make_reranker(load({**SERVICE, "rerank_dialect": "jina"}))
        assert isinstance(reranker, HttpReranker)
        assert reranker.name == "http:jina:m"
        reranker.close()

    @pytest.mark.parametrize("provider", ["llm", "http"])
    def it_refuses_a_request_for_what_is_not_there(self, provider):
        asked = {"rerank": {"provider": provider}}
        with pytest.raises(PlanFlaw) as refused:
            plan_of(load(), {}, asked)
        assert refused.value.flaws == (("/rerank/provider", f"is {provider}, which is not configured here"),)
        assert plan_of(load({**SERVICE, "llm_model": "m"}), {}, asked).rerank.provider == provider

    def it_lets_a_profile_outlive_what_it_names(self):
        assert plan_of(load(), {"rerank": {"provider": "http"}}, {}).rerank.provider == "http"

    @pytest.mark.parametrize(
        ("wrong", "variable"),
        [
            ({"rerank_url": "cohere"}, "CHORDWISE_RERANK_URL"),
            ({"rerank_url": "http://h"}, "CHORDWISE_RERANK_MODEL"),
            ({"rerank_url": "http://h", "rerank_dialect": "bge"}, "CHORDWISE_RERANK_DIALECT"),
            ({"rerank_timeout_s": 0}, "CHORDWISE_RERANK_TIMEOUT_S"),
            ({"context_tokenizer": "/no/such/tokenizer.json"}, "CHORDWISE_CONTEXT_TOKENIZER"),
        ],
    )
    def it_stops_the_start_with_a_sentence(self, wrong, variable):
        with pytest.raises(Misconfigured, match=variable):
            load(wrong)

    def it_needs_no_model_for_tei(self):
        assert load({"rerank_url": "https://h", "rerank_dialect": "tei"}).reranker_for("auto") == "http"
