"""Understanding of queries, and the merge of a channel's rankings of several wordings."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis.strategies import dictionaries, floats, integers, lists, sampled_from, text, tuples

from pipeline.query.model_replies import Rewritten, Routed
from pipeline.query.plan import ChannelPlan, Plan, RerankPlan, RetrievePlan, UnderstandPlan
from pipeline.query.request import Envelope, Query
from pipeline.query.understanding import (
    ModelResults,
    Wording,
    has_sub_queries,
    merged,
    pool_share,
    understanding_deadline,
    understood_by_model,
    understood_by_rules,
    wordings_of,
)
from pipeline.records import ChannelName, Namespace, QueryId, TenantId

KEYWORD, SEMANTIC, FAQ, API = ChannelName.KEYWORD, ChannelName.SEMANTIC, ChannelName.FAQ, ChannelName.API
BOTH = {"keyword": ChannelPlan(weight=0.7), "semantic": ChannelPlan(weight=0.3)}
EVERYTHING = UnderstandPlan(router="llm", rewrite=True, keywords=True, entities=True, hyde=True)


def asked(
    query_text: str = "router reset",
    understand: UnderstandPlan | None = None,
    *,
    namespaces: int = 1,
    deadline_s: float = 3.0,
    **retrieve: object,
) -> Query:
    return Query(
        query_id=QueryId("q"),
        tenant_id=TenantId("t"),
        request_id="r",
        query_text=query_text,
        namespaces=tuple(Namespace(f"n{number}") for number in range(namespaces)),
        plan=Plan(
            retrieve=RetrievePlan(**{"channels": BOTH, **retrieve}),  # type: ignore[arg-type]
            understand=understand or UnderstandPlan(),
        ),
        created_at=1000.0,
        deadline_at=1000.0 + deadline_s,
    )


def ranking(scores: dict[str, float], *, bound: float | None = 1.0, channel: ChannelName = KEYWORD) -> Envelope:
    ordered = sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))
    return Envelope(
        channel=channel,
        status="ok",
        chunk_ids=tuple(chunk_id for chunk_id, _ in ordered),
        scores=tuple(score for _, score in ordered),
        upper_bound=bound,
    )


class DescribeWhatRulesDo:
    def it_does_nothing_that_was_not_asked_for(self):
        query = understood_by_rules(asked("你好 PPR-9087"), model=False)
        assert (query.understanding.keywords, query.understanding.entities, query.model_steps) == ((), (), ())
        assert query.channels == (KEYWORD, SEMANTIC)
        off = asked("你好", replace(EVERYTHING, enabled=False))
        assert understood_by_rules(off, model=True) is off

    @pytest.mark.parametrize(
        ("text", "plan", "steps"),
        [
            ("router reset", UnderstandPlan(), ("expand",)),
            ("router reset", UnderstandPlan(expand=0), ()),
            ("router reset", UnderstandPlan(expand=0, keywords=True), ("rewrite",)),
            ("router reset", UnderstandPlan(expand=0, entities=True), ("rewrite",)),
            ("router reset", EVERYTHING, ("expand", "rewrite", "route", "hyde")),
            ("router reset", replace(EVERYTHING, router="rules"), ("expand", "rewrite", "hyde")),
            ("how do I reset the router at home", EVERYTHING, ("expand", "rewrite", "hyde")),  # the rules are sure
            ("PPR-9087", EVERYTHING, ()),  # a code has no other words
            ("谢谢", EVERYTHING, ()),
        ],
    )
    def it_asks_a_model_only_what_is_left_open(self, text, plan, steps):
        assert understood_by_rules(asked(text, plan), model=True).model_steps == steps
        assert understood_by_rules(asked(text, plan), model=False).model_steps == ()

    @pytest.mark.parametrize(
        ("text", "plan", "has"),
        [
            ("router reset", UnderstandPlan(), True),
            ("router reset", UnderstandPlan(expand=0), False),
            ("PPR-9087", UnderstandPlan(router="rules"), False),
            ("PPR-9087", UnderstandPlan(), True),  # no rule is asked
            ("重置路由器", EVERYTHING, True),
        ],
    )
    def it_knows_which_queries_have_sub_queries(self, text, plan, has):
        assert has_sub_queries(asked(text, plan)) is has

    def it_needs_no_passage_where_nothing_is_searched_by_meaning(self):
        query = understood_by_rules(asked("router reset", EVERYTHING, method="full_text"), model=True)
        assert "hyde" not in query.model_steps

    def it_finds_keywords_and_names_itself(self):
        query = understood_by_rules(asked("《红楼梦》的作者", UnderstandPlan(rewrite=True, entities=True)), model=False)
        assert query.understanding.keywords == ("红楼梦", "作者")
        assert query.understanding.entities == ("红楼梦",)

    @pytest.mark.parametrize("text", ["PPR-9087", "谢谢！"])
    def it_remembers_what_was_asked_for(self, text):
        query = replace(asked(text, UnderstandPlan(router="rules")), remarks=("before",))
        routed = understood_by_rules(query, model=False)
        assert routed.plan != query.plan
        assert (routed.original.plan, routed.original.remarks) == (query.plan, ("before",))
        assert understood_by_rules(routed, model=False).original == routed.original

    def it_remembers_nothing_where_no_route_changed_anything(self):
        assert understood_by_rules(asked("a word", UnderstandPlan(router="rules")), model=False).before_routing is None

    def it_searches_small_talk_nowhere_and_says_so(self):
        query = understood_by_rules(asked("谢谢！", UnderstandPlan(router="rules")), model=False)
        assert (query.channels, query.understanding.route) == ((), None)
        assert query.remarks == ("nothing was searched: small talk",)

    def it_searches_a_code_by_its_words_and_keeps_answering_channels(self):
        channels = {**BOTH, "faq": ChannelPlan(), "api": ChannelPlan()}
        query = understood_by_rules(asked("PPR-9087", UnderstandPlan(router="rules"), channels=channels), model=False)
        assert query.channels == (KEYWORD, FAQ, API)
        assert (query.understanding.route, query.plan.rerank.enabled) == ("full_text", False)
        assert query.remarks == ("searched by full_text alone: an identifier",)

    def it_always_reads_hits_of_several_namespaces_together(self):
        query = understood_by_rules(asked("PPR-9087", UnderstandPlan(router="rules"), namespaces=2), model=False)
        assert query.plan.rerank == RerankPlan()

    @pytest.mark.parametrize("method", ["semantic", "full_text"])
    def it_does_not_overrule_a_method_that_was_chosen(self, method):
        query = understood_by_rules(asked("PPR-9087", UnderstandPlan(router="rules"), method=method), model=False)
        assert query.channels == asked(method=method).channels
        assert query.understanding.route == method

    def it_never_routes_to_a_channel_that_is_not_there(self):
        only = {"semantic": ChannelPlan(), "faq": ChannelPlan()}
        query = understood_by_rules(asked("PPR-9087", UnderstandPlan(router="rules"), channels=only), model=False)
        assert query.channels == (SEMANTIC, FAQ)


class DescribeWhatAModelAdds:
    MADE = ModelResults(
        sub_queries=("modem restart",),
        rewritten=Rewritten(expanded_query="restart a router", keywords=("modem",), entity_mentions=("Archer",)),
        hypothetical="Hold the button.",
    )

    def it_takes_over_what_the_plan_asks_for(self):
        found = understood_by_model(
            understood_by_rules(asked(understand=EVERYTHING), model=True), self.MADE
        ).understanding
        assert (found.rewritten, found.keywords, found.entities) == ("restart a router", ("modem",), ("Archer",))
        assert (found.sub_queries, found.hypothetical, found.route) == (
            ("modem restart",),
            "Hold the button.",
            "hybrid",
        )

    def it_leaves_the_rest(self):
        plan = UnderstandPlan(keywords=True)
        found = understood_by_model(understood_by_rules(asked(understand=plan), model=True), self.MADE).understanding
        assert (found.rewritten, found.keywords, found.entities) == (None, ("modem",), ())

    def it_keeps_its_own_keywords_where_the_model_has_none(self):
        query = understood_by_rules(asked(understand=EVERYTHING), model=True)
        found = understood_by_model(query, ModelResults(rewritten=Rewritten(expanded_query="x")))
        assert found.understanding.keywords == ("router", "reset")
        assert understood_by_model(query, ModelResults()) == query

    def it_follows_its_route(self):
        query = understood_by_rules(asked(understand=EVERYTHING), model=True)
        assert understood_by_model(query, ModelResults(routed=Routed(method="semantic"))).channels == (SEMANTIC,)
        nowhere = understood_by_model(query, ModelResults(routed=Routed(method=None)))
        assert (nowhere.channels, nowhere.understanding.route) == ((), None)

    @pytest.mark.parametrize(("budget_ms", "deadline_s", "until"), [(1200, 3.0, 1001.2), (1200, 1.0, 1000.5)])
    def it_is_waited_for_as_long_as_leaves_time_to_search(self, budget_ms, deadline_s, until):
        query = asked(understand=UnderstandPlan(budget_ms=budget_ms), deadline_s=deadline_s)
        assert understanding_deadline(query).at == pytest.approx(until)


class DescribeWordings:
    def understood(self, made: ModelResults, plan: UnderstandPlan = EVERYTHING) -> Query:
        return understood_by_model(understood_by_rules(asked(understand=plan), model=True), made)

    def it_gives_each_channel_what_it_can_search(self):
        query = self.understood(DescribeWhatAModelAdds.MADE)
        assert [wording.text for wording in wordings_of(query, KEYWORD)] == [
            "restart a router",
            "router reset modem",
            "modem restart",
        ]
        assert [(wording.text, wording.step) for wording in wordings_of(query, SEMANTIC)] == [
            ("restart a router", "rewrite"),
            ("modem restart", "expand"),
            ("Hold the button.", "hyde"),
        ]
        assert wordings_of(query, FAQ) == wordings_of(query, API) == ()

    def it_asks_nothing_twice(self):
        query = self.understood(ModelResults(rewritten=Rewritten(expanded_query="reset routers", keywords=("router",))))
        assert wordings_of(query, KEYWORD) == ()  # the same terms
        assert [wording.text for wording in wordings_of(query, SEMANTIC)] == ["reset routers"]

    @pytest.mark.parametrize(("pool", "wordings", "share"), [(100, 5, 20), (100, 3, 34), (2, 5, 1), (10, 0, 10)])
    def it_shares_a_pool_and_never_asks_for_none(self, pool, wordings, share):
        assert pool_share(pool, wordings) == share


SUB = Wording(text="x", step="expand", weight=0.8)
SAME = Wording(text="x", step="rewrite")
PASSAGE = Wording(text="x", step="hyde", is_passage=True)


class DescribeMerging:
    @pytest.mark.parametrize(
        ("raw", "raw_bound", "wording", "found", "bound", "order"),
        [
            ({"a": 4.0}, 10.0, SUB, {}, 10.0, {"a": 4.0}),
            ({"a": 4.0}, 10.0, SUB, {"b": 5.0}, 10.0, {"a": 4.0, "b": 4.0}),  # 0.8 * 5
            ({"a": 4.0}, 10.0, SAME, {"b": 5.0}, 10.0, {"b": 5.0, "a": 4.0}),
            ({"a": 4.0}, 10.0, SAME, {"a": 3.0}, 10.0, {"a": 4.0}),  # the better of both
            ({"a": 4.0}, 10.0, SAME, {"b": 9.0}, 20.0, {"b": 4.5, "a": 4.0}),  # more words say no more
            ({"a": 4.0}, 10.0, SAME, {"b": 3.0}, 3.0, {"a": 4.0, "b": 3.0}),  # fewer words are worth what they are
            ({"a": -0.2}, 1.0, SUB, {"b": -0.2}, 1.0, {"a": -0.2, "b": -0.2}),  # a weight must not raise
            ({"a": 0.5}, 1.0, PASSAGE, {"b": 0.9, "c": 0.45}, 1.0, {"a": 0.5, "b": 0.5, "c": 0.25}),
            ({"a": 0.5}, 1.0, PASSAGE, {"b": 0.4}, 1.0, {"a": 0.5, "b": 0.4}),
            ({}, 0.0, SUB, {"b": 5.0}, 8.0, {"b": 4.0}),  # a query without a word of its own
        ],
    )
    def it_keeps_the_scale_of_the_query(self, raw, raw_bound, wording, found, bound, order):
        both = merged(ranking(raw, bound=raw_bound), [(wording, ranking(found, bound=bound))], pool=10)
        assert dict(zip(both.chunk_ids, both.scores, strict=True)) == pytest.approx(order)
        assert list(both.chunk_ids) == list(order)
        assert both.upper_bound == (raw_bound or bound)

    @settings(max_examples=30)
    @given(
        raw=dictionaries(sampled_from("abcdefgh"), floats(0, 10)),
        found=lists(tuples(floats(0.1, 30), dictionaries(sampled_from("abcdefgh"), floats(0, 10)))),
        pool=integers(1, 10),
    )
    def it_loses_no_score_and_keeps_to_the_pool(self, raw, found, pool):
        lists_ = [(SUB, ranking(scores, bound=bound)) for bound, scores in found]
        both = merged(ranking(raw, bound=10.0), lists_, pool=pool)
        assert len(both.chunk_ids) == min(pool, len(set(raw).union(*(scores for _, scores in found))))
        assert list(both.scores) == sorted(both.scores, reverse=True)
        assert all(score >= raw.get(chunk, 0.0) for chunk, score in zip(both.chunk_ids, both.scores, strict=True))
        assert merged(ranking(raw, bound=10.0), lists_[::-1], pool=pool) == both

    @given(text())
    def it_understands_any_text(self, query_text):
        query = understood_by_rules(asked(query_text, EVERYTHING), model=True)
        assert understanding_deadline(query).has_passed
