"""Profiles, trials and experiments: who gets what, always the same, and what each layer says of a plan."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis.strategies import floats, text
from pydantic import ValidationError

from pipeline.errors import Misconfigured
from pipeline.query.built_in_profiles import BUILT_IN, ProfileHead, ProfileVersion, position
from pipeline.query.configuration import (
    Assignment,
    Configuration,
    Experiment,
    UnknownProfile,
    arm_of,
    built_in_configuration,
    choose,
    internal,
    make_assigner,
    nobody,
    read_experiment,
)
from pipeline.query.growthbook_client import GrowthBookExperiments
from pipeline.query.plan import PlanFlaw, overlaid, plan_as_json, read_plan
from pipeline.records import TenantId
from pipeline.retrieval.build_plan import plan_of
from pipeline.settings import load

UNITS = [f"session-{number}" for number in range(2000)]


def version(number: int, **config: object) -> ProfileVersion:
    return ProfileVersion(name="p", version=number, config=config)


class DescribeAPlan:
    def it_is_checked_as_a_whole_and_says_every_place(self):
        with pytest.raises(PlanFlaw) as flawed:
            read_plan({"top_k": 0, "retrieve": {"channels": {"x": {}}, "fusion": {"k": "60"}}, "nope": 1})
        places = {pointer for pointer, _ in flawed.value.flaws}
        assert places == {"/top_k", "/retrieve/channels/x/[key]", "/retrieve/fusion/k", "/nope"}

    def it_reads_back_what_it_was(self):
        plan = read_plan({"retrieve": {"time_decay": {"half_life_days": 3}, "ladder": {}}, "top_k": 3})
        assert read_plan(plan_as_json(plan)) == plan

    @pytest.mark.parametrize(
        ("under", "over", "both"),
        [
            ({"a": 1}, {"b": 2}, {"a": 1, "b": 2}),
            ({"a": {"x": 1, "y": 2}}, {"a": {"y": 3}}, {"a": {"x": 1, "y": 3}}),
            ({"a": {"x": 1}}, {"a": 5}, {"a": 5}),
            ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ],
    )
    def it_lays_objects_over_each_other_key_by_key(self, under, over, both):
        assert overlaid(under, over) == both

    @pytest.mark.parametrize("name", ["vector", "dense"])
    def it_knows_channels_by_the_names_of_other_products(self, name):
        profile = {"retrieve": {"channels": {"semantic": {"weight": 2, "pool": 30}}}}
        request = {"retrieve": {"channels": {name: {"weight": 3}}, "method": name}}
        plan = plan_of(load(), profile, request).retrieve
        assert (plan.channels["semantic"].weight, plan.channels["semantic"].pool) == (3, 30)
        assert (name in plan.channels, plan.method) == (False, "semantic")

    @pytest.mark.parametrize("name", ["semantic", "dense"])
    def it_refuses_a_channel_under_two_names(self, name):
        request = {"retrieve": {"channels": {name: {"weight": 1}, "vector": {"weight": 3}}}}
        assert overlaid({}, request) == request
        with pytest.raises(PlanFlaw) as flawed:
            plan_of(load(), {}, request)
        assert ("/retrieve/channels/vector", "names the channel semantic a second time") in flawed.value.flaws

    @pytest.mark.parametrize("name", sorted(BUILT_IN))
    def it_comes_out_of_every_built_in_profile(self, name):
        plan = plan_of(load(), BUILT_IN[name], {})
        assert plan.channels

    def it_gives_the_designs_their_figures(self):
        settings = load()
        medical = plan_of(settings, BUILT_IN["medical_examples"], {})
        assert (medical.top_k, medical.retrieve.ladder.thresholds, medical.retrieve.ladder.min_results) == (
            15,
            (0.7, 0.6, 0.5),
            5,
        )
        novel = plan_of(settings, BUILT_IN["novel"], {}).retrieve
        assert (novel.time_decay.shape, novel.time_decay.scale, novel.time_decay.by) == (
            "hyperbolic",
            1e6,
            "story_time",
        )
        support = plan_of(settings, BUILT_IN["support"], {})
        weights = {name: channel.weight for name, channel in support.channels.items()}
        assert weights == {"keyword": 0.3, "semantic": 0.6, "faq": 0.1}
        assert (support.fallback.threshold, support.fallback.faq) == (0.4, True)

    def it_takes_the_request_over_the_profile_over_the_settings(self):
        profile = {"top_k": 7, "retrieve": {"channels": {"keyword": {"weight": 0.2}}}}
        plan = plan_of(load({"retrieval_topk": 3}), profile, {"top_k": 9})
        assert (plan.top_k, plan.channels["keyword"].weight, plan.channels["semantic"].weight) == (9, 0.2, 0.3)

    @pytest.mark.parametrize(
        ("settings", "asked", "read"),
        [
            ({}, {"top_k": 5}, 5),
            ({}, {"top_k": 50}, 20),
            ({}, {"top_k": 5, "rerank": {"top_n": 8}}, 8),
            ({}, {"top_k": 5, "rerank": {"weight": 0.5}}, 20),
            ({}, {"top_k": 5, "rerank": {"threshold": 0.1}}, 20),
            ({"rerank_url": "http://127.0.0.1:1", "rerank_dialect": "tei"}, {"top_k": 5}, 20),
        ],
        ids=["near-ties", "20 at most", "request", "weight", "threshold", "service"],
    )
    def it_has_the_local_reranker_read_what_is_returned_if_nobody_says_how_much(self, settings, asked, read):
        assert plan_of(load(settings), {}, asked).rerank.top_n == read


class DescribeATrial:
    def it_gives_the_share_to_the_same_sessions_every_time(self):
        head = ProfileHead(name="p", active=version(1), trial=version(2), trial_share=0.1)
        first = [head.version_for(unit).version for unit in UNITS]
        assert first == [head.version_for(unit).version for unit in UNITS]
        assert 0.07 < Counter(first)[2] / len(UNITS) < 0.13

    def it_moves_nobody_back_when_the_share_grows(self):
        small = ProfileHead(name="p", active=version(1), trial=version(2), trial_share=0.1)
        large = ProfileHead(name="p", active=version(1), trial=version(2), trial_share=0.5)
        moved = [unit for unit in UNITS if small.version_for(unit).version == 2]
        assert all(large.version_for(unit).version == 2 for unit in moved)

    @given(salt=text(max_size=20), unit=text(max_size=20))
    def it_places_every_unit_in_the_unit_interval(self, salt, unit):
        assert 0.0 <= position(salt, unit) < 1.0


class DescribeAnExperiment:
    def it_splits_by_share_whoever_takes_part(self):
        experiment = read_experiment({"arms": [{"name": "a", "share": 1}, {"name": "b", "share": 3}], "coverage": 0.5})
        arms = Counter(arm.name if (arm := arm_of("e", experiment, unit)) else None for unit in UNITS)
        assert 0.45 < arms[None] / len(UNITS) < 0.55
        assert 0.68 < arms["b"] / (arms["a"] + arms["b"]) < 0.82

    @given(coverage=floats(0, 1), unit=text(min_size=1, max_size=12))
    def it_moves_nobody_between_arms_when_more_take_part(self, coverage, unit):
        arms = [{"name": "a"}, {"name": "b"}]
        some = arm_of("e", read_experiment({"arms": arms, "coverage": coverage}), unit)
        everybody = arm_of("e", read_experiment({"arms": arms}), unit)
        assert some in (None, everybody)

    def it_draws_anew_for_another_salt(self):
        arms = [{"name": "a"}, {"name": "b"}]
        here, there = (read_experiment({"arms": arms, "salt": salt}) for salt in ("", "again"))
        moved = sum(arm_of("e", here, unit) != arm_of("e", there, unit) for unit in UNITS)
        assert 0.4 < moved / len(UNITS) < 0.6

    @pytest.mark.parametrize(
        "config",
        [
            {},
            {"arms": []},
            {"arms": [{"name": "a"}, {"name": "a"}]},
            {"arms": [{"name": "a", "share": 0}]},
            {"arms": [{"name": "a"}], "coverage": 1.5},
            {"arms": [{"name": "a", "weight": 1}]},
        ],
    )
    def it_is_refused_when_it_cannot_be(self, config):
        with pytest.raises(ValidationError):
            read_experiment(config)


class DescribeTheChoice:
    def it_is_the_default_profile_unless_something_is_named(self):
        choice = choose(built_in_configuration(), profile=None, experiment_id=None, unit="u", assign=nobody)
        assert (choice.profile, choice.version, choice.config, choice.bucket) == ("default", 1, {}, None)

    def it_lays_the_arm_over_the_profile(self):
        experiment = read_experiment({"arms": [{"name": "b", "profile": "p", "overrides": {"top_k": 3}}]})
        head = ProfileHead(name="p", active=version(4, top_k=9, deadline_ms=500))
        configuration = Configuration(profiles={"p": head}, experiments={"e": experiment})
        choice = choose(configuration, profile=None, experiment_id="e", unit="u", assign=internal(configuration))
        assert (choice.profile, choice.version, choice.bucket) == ("p", 4, "b")
        assert choice.config == {"top_k": 3, "deadline_ms": 500}

    def it_knows_no_profile_of_another_name(self):
        with pytest.raises(UnknownProfile):
            choose(built_in_configuration(), profile="fast", experiment_id=None, unit="u", assign=nobody)

    def it_has_nobody_in_an_experiment_that_is_not_there_or_where_they_are_off(self):
        configuration = built_in_configuration()
        assert internal(configuration)("gone", "u") is None
        assert make_assigner(load())(TenantId("t"), configuration)("e", "u") is None

    def it_uses_the_tenants_own_experiments_where_they_are_on(self):
        settings = load({"recall_experiment_enabled": True, "recall_experiment_platform": "internal"})
        experiments = {"e": Experiment(arms=read_experiment({"arms": [{"name": "a"}]}).arms)}
        configuration = Configuration(profiles={}, experiments=experiments)
        assert make_assigner(settings)(TenantId("t"), configuration)("e", "u") == Assignment(bucket="a")


class DescribeGrowthBook:
    def it_evaluates_the_rules_through_its_sdk(self, tmp_path):
        rule = {"variations": [{}, {"overrides": {"top_k": 3}}], "weights": [0.5, 0.5], "key": "ranking"}
        only = {"condition": {"tenant_id": "acme"}, **rule}
        path = tmp_path / "features.json"
        path.write_text(json.dumps({"features": {"ranking": {"defaultValue": {}, "rules": [only]}}}))
        found = GrowthBookExperiments(str(path))
        found.load()
        buckets = Counter(found.assign(TenantId("acme"), "ranking", unit).bucket for unit in UNITS)
        assert set(buckets) == {"0", "1"}
        assert 0.4 < buckets["1"] / len(UNITS) < 0.6
        treated = next(u for u in UNITS if found.assign(TenantId("acme"), "ranking", u).bucket == "1")
        assert found.assign(TenantId("acme"), "ranking", treated).overrides == {"top_k": 3}
        assert found.assign(TenantId("other"), "ranking", treated) is None
        assert found.assign(TenantId("acme"), "unknown", treated) is None

    @pytest.mark.parametrize("content", ["", "[]", "nonsense"])
    def it_stops_the_start_without_features(self, tmp_path, content):
        path = tmp_path / "features.json"
        path.write_text(content)
        with pytest.raises(Misconfigured, match="CHORDWISE_GROWTHBOOK_FEATURES"):
            GrowthBookExperiments(str(path)).load()

    def it_needs_to_know_where_the_features_are(self):
        with pytest.raises(Misconfigured, match="CHORDWISE_GROWTHBOOK_FEATURES"):
            load({"recall_experiment_platform": "growthbook"})
