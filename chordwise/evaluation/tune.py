"""Choose the settings of fusion by judged queries, and validate the choice on held-out ones.

Every candidate is evaluated by the server: the stages after fusion (feedback between candidates, selection, rerank)
depend on the fused order, so a client cannot compute their result.
"""

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any, Final

from chordwise.errors import InvalidInput
from chordwise.evaluation.ask import Measured
from chordwise.evaluation.collection import JudgedQuery
from chordwise.evaluation.significance import Paired, paired

_RRF_SHARE: Final = 0.5  # the start of a search by ranks, which needs no weights
_SHARES: Final = (0.2, 0.35, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
_GATES: Final = (0.0, 0.1, 0.2, 0.3, 0.4)
_POOLS: Final = (50, 100, 200, 400)


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """One setting of fusion. ``keyword``: the share of the keyword channel in the weight of both; 1 leaves the semantic
    channel out. ``k`` belongs to rrf, ``normalisation`` to weighted; ``gate`` 0 is none; ``pool``: the number of chunks
    that each channel recalls."""

    strategy: str
    normalisation: str = "min_max"
    k: int = 60
    keyword: float = 0.7
    gate: float = 0.0
    pool: int = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinate:
    """The values of one knob to try while the others stay. ``ordered``: neighbouring points should be about as good."""

    name: str
    points: tuple[Knobs, ...]
    ordered: bool = True


def read_knobs(plan: Mapping[str, Any]) -> Knobs:
    """Read the knobs from a plan of the server. Raises InvalidInput for a plan that does not use both channels."""
    retrieve = plan["retrieve"]
    fusion, channels = retrieve["fusion"], retrieve["channels"]
    weights = [channels.get(name, {}).get("weight", 0.0) for name in ("keyword", "semantic")]
    if retrieve["method"] != "hybrid" or min(weights) <= 0:
        raise InvalidInput(
            "the profile does not use both the keyword and the semantic channel: there is nothing to tune"
        )
    if fusion["strategy"] == "custom":
        raise InvalidInput("the profile fuses with a plug-in, which cannot be tuned")
    return Knobs(
        strategy=fusion["strategy"],
        normalisation=fusion["normalisation"],
        k=fusion["k"],
        keyword=round(weights[0] / sum(weights), 4),
        gate=fusion["gate"] or 0.0,
        pool=channels["keyword"].get("pool") or 100,
    )


def overrides(knobs: Knobs, base: Knobs, plan: Mapping[str, Any]) -> dict[str, Any]:
    """Return the overrides of ``plan``, which has the knobs ``base``, that give it ``knobs``; empty if they are equal. The
    weights of other channels do not change."""
    if knobs == base:
        return {}
    channels = plan["retrieve"]["channels"]
    total = channels["keyword"]["weight"] + channels["semantic"]["weight"]
    keyword: dict[str, Any] = {"weight": round(total * knobs.keyword, 4)}
    semantic: dict[str, Any] = {"weight": round(total - keyword["weight"], 4)}
    if knobs.pool != base.pool:
        keyword["pool"] = semantic["pool"] = knobs.pool
    fusion: dict[str, Any] = {"strategy": knobs.strategy}
    fusion |= {"k": knobs.k} if knobs.strategy == "rrf" else {"normalisation": knobs.normalisation}
    if knobs.gate != base.gate:
        fusion["gate"] = knobs.gate
    return {"channels": {"keyword": keyword, "semantic": semantic}, "fusion": fusion}


def coordinates(plan_pool: int) -> tuple[Callable[[Knobs], Coordinate], ...]:
    """Return the knobs in the order they are turned: each maps the current setting to the points to try."""
    pools = tuple(sorted({*_POOLS, plan_pool}))
    return (
        _fusions,
        lambda at: _ordered("weights", [replace(at, keyword=share) for share in sorted({*_SHARES, at.keyword})]),
        lambda at: _ordered("gate", [replace(at, gate=gate) for gate in sorted({*_GATES, at.gate})]),
        lambda at: _ordered("pool", [replace(at, pool=pool) for pool in pools]),
    )


def split(queries: Sequence[JudgedQuery], *, seed: int) -> tuple[list[JudgedQuery], list[JudgedQuery]]:
    """Split into queries to tune on and held-out ones, about half each, by a hash of the id, so that a query stays on
    its side whatever else is in the collection."""
    hashed = by_hash(queries, seed=seed)
    return [query for number, query in hashed if number < 0.5], [query for number, query in hashed if number >= 0.5]


def by_hash(queries: Sequence[JudgedQuery], *, seed: int) -> list[tuple[float, JudgedQuery]]:
    """Return each query with a pseudo-random number in [0, 1), in that order: any prefix is a sample."""
    hashed = [(_hash(query.query_id, seed), query) for query in queries]
    return sorted(hashed, key=lambda pair: (pair[0], pair[1].query_id))


def _fusions(at: Knobs) -> Coordinate:
    """Return the points of fusion by score and by rank; a strategy that is not the current one has its usual weights."""
    weighted = at if at.strategy == "weighted" else replace(at, strategy="weighted", keyword=0.7)
    ranks = at if at.strategy == "rrf" else replace(at, strategy="rrf", keyword=_RRF_SHARE)
    points = [replace(weighted, normalisation=name) for name in ("min_max", "z_score")]
    points += [replace(ranks, k=k) for k in (10, 30, 60, 120)]
    return Coordinate(name="fusion", points=tuple(dict.fromkeys([at, *points])), ordered=False)


def _ordered(name: str, points: Sequence[Knobs]) -> Coordinate:
    return Coordinate(name=name, points=tuple(points))


def _hash(query_id: str, seed: int) -> float:
    digest = hashlib.blake2b(f"{seed}:{query_id}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


AskQueries = Callable[[Mapping[str, Any], Sequence[JudgedQuery]], Awaitable[list[Measured]]]

ROUNDS: Final = 2  # passes over all knobs
NOISE_P: Final = 0.1  # a gain that is more likely by chance is noise
NOISE_GAIN: Final = 0.001  # of nDCG@10; a smaller gain is not noticeable
MOST_DEGRADED: Final = 0.05  # share of answers; beyond it, the load is measured and not the settings
_FIRST_LOOK: Final = 3  # a candidate is first evaluated on one in so many queries
_LEAST_LOOK: Final = 20  # but on at least so many
_HOPELESS: Final = 2.0  # standard errors below the current setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """One candidate against the current setting. ``queries``: the number it was evaluated on before it was dropped."""

    coordinate: str
    knobs: Knobs
    difference: float
    p: float
    queries: int
    taken: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Overrides for ``retrieve``, empty if none is better. ``tuning``, ``held_out``: nDCG@10 of base (a) and choice (b)."""

    chosen: Knobs
    overrides: Mapping[str, Any]
    tried: tuple[Tried, ...]
    tuning: Paired
    held_out: Paired
    asked: int
    degraded: int
    failed: int

    @property
    def flaw(self) -> str | None:
        """Return the reason not to store the choice; None if it may be stored."""
        if not self.overrides:
            return "nothing was better than the profile by more than noise"
        if self.failed:
            return f"{self.failed} queries had no answer"
        if self.degraded > MOST_DEGRADED * self.asked:
            return f"{self.degraded} of {self.asked} answers were degraded, so they measure the load"
        if self.held_out.difference < 0:
            return f"it is worse on held-out queries by {-self.held_out.difference:.4f} nDCG@10"
        return None


@dataclass(slots=True)
class _Answers:
    ask: AskQueries
    base: Knobs
    plan: Mapping[str, Any]
    measured: dict[tuple[Knobs, str], Measured] = field(default_factory=dict)

    async def ndcg(self, knobs: Knobs, queries: Sequence[JudgedQuery]) -> list[float]:
        """Return nDCG@10 of each query."""
        missing = [query for query in queries if (knobs, query.query_id) not in self.measured]
        if missing:
            for answer in await self.ask(overrides(knobs, self.base, self.plan), missing):
                self.measured[knobs, answer.query_id] = answer
        return [self.measured[knobs, query.query_id].scores.ndcg_at_10 for query in queries]


async def tune(
    ask: AskQueries,
    base: Knobs,
    plan: Mapping[str, Any],
    *,
    tuning: Sequence[JudgedQuery],
    held_out: Sequence[JudgedQuery],
) -> Outcome:
    """Turn one knob after the other while that helps on ``tuning``; evaluate ``held_out`` once, at the end."""
    answers = _Answers(ask=ask, base=base, plan=plan)
    at, tried = base, list[Tried]()
    for _ in range(ROUNDS):
        before = at
        for coordinate in coordinates(base.pool):
            at, candidates = await _turn(answers, coordinate(at), at, tuning)
            tried += candidates
        if at == before:
            break
    on_tuning, on_held_out = [
        paired(await answers.ndcg(base, queries), await answers.ndcg(at, queries)) for queries in (tuning, held_out)
    ]
    return Outcome(
        chosen=at,
        overrides=overrides(at, base, plan),
        tried=tuple(tried),
        tuning=on_tuning,
        held_out=on_held_out,
        asked=len(answers.measured),
        degraded=sum(answer.degraded for answer in answers.measured.values()),
        failed=sum(answer.failed for answer in answers.measured.values()),
    )


async def _turn(
    answers: _Answers, coordinate: Coordinate, at: Knobs, queries: Sequence[JudgedQuery]
) -> tuple[Knobs, list[Tried]]:
    """Return the setting after turning one knob, and the tries. A candidate that is hopeless on a sample is dropped."""
    sample = queries[: max(_LEAST_LOOK, len(queries) // _FIRST_LOOK)]
    results: dict[Knobs, Paired] = {}
    for knobs in coordinate.points:
        result = paired(await answers.ndcg(at, sample), await answers.ndcg(knobs, sample))
        if result.difference >= -_HOPELESS * result.error:
            result = paired(await answers.ndcg(at, queries), await answers.ndcg(knobs, queries))
        results[knobs] = result
    taken = choose(results, at, ordered=coordinate.ordered)
    return taken, [
        Tried(
            coordinate=coordinate.name,
            knobs=knobs,
            difference=result.difference,
            p=result.p,
            queries=result.queries,
            taken=knobs == taken,
        )
        for knobs, result in results.items()
        if knobs != at
    ]


def choose(results: Mapping[Knobs, Paired], at: Knobs, *, ordered: bool) -> Knobs:
    """Choose the next setting: the middle of a broad maximum, not the highest peak. Pure.

    ``results``: each candidate against ``at``, in order. If ``ordered``, a candidate counts as the mean of itself and its
    neighbours. The best one is taken if its gain is more than noise; else ``at`` stays.
    """
    knobs = list(results)
    gains = [result.difference for result in results.values()]
    wide = [gains[0], *gains, gains[-1]]  # repeat the values at both ends
    smooth = [round(fmean(wide[index : index + 3]), 9) for index in range(len(knobs))] if ordered else gains
    best = knobs[max(range(len(knobs)), key=lambda index: (smooth[index], gains[index]))]
    return best if results[best].difference > NOISE_GAIN and results[best].p <= NOISE_P else at
