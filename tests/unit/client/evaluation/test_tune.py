"""Tuning against a server whose answers are a formula."""

from __future__ import annotations

import asyncio
import random
from dataclasses import asdict, replace

import pytest

from chordwise.errors import InvalidInput
from chordwise.evaluation.ask import Measured, Scores
from chordwise.evaluation.collection import JudgedQuery
from chordwise.evaluation.knobs import Knobs, overrides, read_knobs, split
from chordwise.evaluation.significance import Paired
from chordwise.evaluation.tune import choose, tune


def plan(**fusion):
    channels = {name: {"weight": weight, "pool": 100} for name, weight in (("keyword", 0.6), ("semantic", 0.2))}
    channels["faq"] = {"weight": 0.1, "pool": 100}
    chosen = {"strategy": "weighted", "normalisation": "min_max", "k": 60, "gate": None, **fusion}
    return {"retrieve": {"method": "hybrid", "channels": channels, "fusion": chosen}}


def queries(count, prefix="q"):
    return [JudgedQuery(query_id=f"{prefix}{n}", text=f"{n}", grades={"d": 1}) for n in range(count)]


class Server:
    """Answers as well as ``gain`` says of the overrides, with the same noise for a query every time."""

    def __init__(self, gain, *, noise=0.05):
        self.gain, self.noise, self.asked = gain, noise, 0

    async def __call__(self, over, asked):
        self.asked += len(asked)
        return [self._answer(over, query) for query in asked]

    def _answer(self, over, query):
        luck = random.Random(f"{query.query_id}{over}").gauss(0, self.noise)
        own = random.Random(query.query_id).random() * 0.2
        return Measured(
            query_id=query.query_id, way="tuned", scores=Scores(ndcg_at_10=0.5 + own + self.gain(over) + luck)
        )


def tuned(server, base=None, *, held_out=None):
    return asyncio.run(
        tune(server, base or read_knobs(plan()), plan(), tuning=queries(90), held_out=held_out or queries(90, "h"))
    )


def share(over):
    channels = over.get("channels", {"keyword": {"weight": 0.6}, "semantic": {"weight": 0.2}})
    weights = [channels[name]["weight"] for name in ("keyword", "semantic")]
    return weights[0] / sum(weights)


class DescribeTuning:
    def it_finds_the_hill(self):
        found = tuned(Server(lambda over: 0.2 - abs(share(over) - 0.5)))
        assert found.chosen.keyword == pytest.approx(0.5, abs=0.15)
        assert found.overrides["channels"]["keyword"]["weight"] == pytest.approx(0.8 * found.chosen.keyword)
        assert found.tuning.difference > 0.1
        assert found.held_out.difference > 0.1
        assert found.flaw is None

    def it_keeps_what_there_is_where_nothing_matters(self):
        found = tuned(Server(lambda _over: 0.0))
        assert found.chosen == read_knobs(plan())
        assert (found.overrides, found.held_out.difference) == ({}, 0.0)
        assert "nothing was better" in found.flaw

    def it_refuses_what_does_not_hold_on_other_queries(self):
        """A server that is better on the tuning queries alone, as an over-fitted choice would be."""
        server = Server(lambda over: 0.0)
        answer = server._answer
        server._answer = lambda over, query: (
            replace(answer(over, query), scores=Scores(ndcg_at_10=0.4 if query.query_id[0] == "h" else 0.9))
            if over.get("fusion", {}).get("strategy") == "rrf"
            else answer(over, query)
        )
        found = tuned(server)
        assert found.tuning.difference > 0.2
        assert found.held_out.difference < 0
        assert "worse on held-out queries" in found.flaw

    def it_refuses_figures_that_measure_the_load(self):
        server = Server(lambda over: 0.2 - abs(share(over) - 0.5))
        answer = server._answer
        server._answer = lambda over, query: replace(answer(over, query), degraded=query.query_id.endswith("7"))
        assert "had lost something" in tuned(server).flaw
        server._answer = lambda over, query: replace(answer(over, query), failed=query.query_id == "q7")
        assert "had no answer" in tuned(server).flaw

    def it_asks_nothing_twice_and_the_hopeless_only_a_few(self):
        server = Server(lambda over: -0.3 * (over.get("fusion", {}).get("strategy") == "rrf"), noise=0.01)
        found = tuned(server)
        assert server.asked == found.asked
        hopeless = [each for each in found.tried if each.knobs.strategy == "rrf"]
        assert hopeless
        assert {each.queries for each in hopeless} == {30}

    def it_asks_held_out_queries_of_two_settings_only(self):
        asked = set()
        server = Server(lambda over: 0.2 - abs(share(over) - 0.5))
        answer = server._answer
        server._answer = lambda over, query: (
            asked.add(str(over)) if query.query_id[0] == "h" else None,
            answer(over, query),
        )[1]
        assert tuned(server).overrides
        assert len(asked) == 2


class DescribeChoosing:
    def it_takes_the_middle_of_high_ground_not_the_peak(self):
        at = Knobs(strategy="weighted", keyword=0.2)
        gains = {0.2: 0.0, 0.35: 0.05, 0.5: -0.04, 0.6: 0.03, 0.7: 0.04, 0.8: 0.03}
        results = {replace(at, keyword=share): _result(gain) for share, gain in gains.items()}
        assert choose(results, at, ordered=True).keyword == 0.7
        assert choose(results, at, ordered=False).keyword == 0.35

    @pytest.mark.parametrize(("gain", "p"), [(0.02, 0.2), (0.0005, 0.001), (-0.1, 0.001)])
    def it_stays_where_a_gain_is_noise(self, gain, p):
        at = Knobs(strategy="weighted")
        results = {at: _result(0.0), replace(at, k=10): _result(gain, p)}
        assert choose(results, at, ordered=False) == at


class DescribeKnobs:
    def it_reads_a_plan_and_writes_what_differs(self):
        base = read_knobs(plan())
        assert asdict(base) == {
            "strategy": "weighted",
            "normalisation": "min_max",
            "k": 60,
            "keyword": 0.75,
            "gate": 0.0,
            "pool": 100,
        }
        assert overrides(base, base, plan()) == {}
        assert overrides(replace(base, strategy="rrf", k=30, keyword=0.5, gate=0.2, pool=50), base, plan()) == {
            "channels": {"keyword": {"weight": 0.4, "pool": 50}, "semantic": {"weight": 0.4, "pool": 50}},
            "fusion": {"strategy": "rrf", "k": 30, "gate": 0.2},
        }

    def it_refuses_a_plan_without_two_channels(self):
        with pytest.raises(InvalidInput, match="nothing to tune"):
            read_knobs({"retrieve": {**plan()["retrieve"], "method": "semantic"}})
        with pytest.raises(InvalidInput, match="plug-in"):
            read_knobs(plan(strategy="custom"))

    def it_divides_queries_the_same_way_whatever_else_is_there(self):
        tuning, held_out = split(queries(200), seed=0)
        assert 70 < len(tuning) < 130
        assert len(tuning) + len(held_out) == 200
        fewer, _ = split(queries(100), seed=0)
        assert {q.query_id for q in fewer} <= {q.query_id for q in tuning}
        other, _ = split(queries(200), seed=1)
        assert {q.query_id for q in other} != {q.query_id for q in tuning}


def _result(gain, p=0.01):
    return Paired(queries=50, mean_a=0.5, mean_b=0.5 + gain, difference=gain, error=0.01, p=p, better=1, worse=0)
