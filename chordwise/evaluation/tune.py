"""Choose how the channels are put together by judged queries, and prove the choice on others.

Every candidate is asked of the server: what comes after fusion there (feedback between candidates, selection, rerank)
depends on the fused order, so no client can work out what an answer would have been.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, Final

from chordwise.evaluation.ask import Measured
from chordwise.evaluation.collection import JudgedQuery
from chordwise.evaluation.knobs import Coordinate, Knobs, coordinates, overrides
from chordwise.evaluation.significance import Paired, paired

Asker = Callable[[Mapping[str, Any], Sequence[JudgedQuery]], Awaitable[list[Measured]]]

ROUNDS: Final = 2  # times that everything is turned once
NOISE_P: Final = 0.1  # a gain that chance gives more often than this is none
NOISE_GAIN: Final = 0.001  # of nDCG@10: nobody would notice less
MOST_DEGRADED: Final = 0.05  # of the answers; with more of them, what was lost is measured and not the settings
_FIRST_LOOK: Final = 3  # a candidate is first asked this part of the queries
_LEAST_LOOK: Final = 20  # but at least so many
_HOPELESS: Final = 2.0  # standard errors below where the search stands


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """One candidate against where the search stood. ``queries``: how many it was asked before it was given up."""

    coordinate: str
    knobs: Knobs
    difference: float
    p: float
    queries: int
    taken: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Overrides for ``retrieve``, empty if none is better. ``tuning``, ``held_out``: nDCG@10 of the choice (b) and of (a)."""

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
        """Why the choice must not be stored; None if it may."""
        if not self.overrides:
            return "nothing was better than what there is, beyond noise"
        if self.failed:
            return f"{self.failed} queries had no answer"
        if self.degraded > MOST_DEGRADED * self.asked:
            return f"{self.degraded} of {self.asked} answers had lost something, so they measure the load"
        if self.held_out.difference < 0:
            return f"it is worse on held-out queries by {-self.held_out.difference:.4f} nDCG@10"
        return None


@dataclass(slots=True)
class _Asked:
    """Everything that was asked, each candidate and query once."""

    ask: Asker
    base: Knobs
    plan: Mapping[str, Any]
    known: dict[tuple[Knobs, str], Measured] = field(default_factory=dict)

    async def ndcg(self, knobs: Knobs, queries: Sequence[JudgedQuery]) -> list[float]:
        """nDCG@10 of each query."""
        missing = [query for query in queries if (knobs, query.query_id) not in self.known]
        if missing:
            over = overrides(knobs, self.base, self.plan)
            for measured in await self.ask(over, missing):
                self.known[knobs, measured.query_id] = measured
        return [self.known[knobs, query.query_id].scores.ndcg_at_10 for query in queries]


async def tune(
    ask: Asker,
    base: Knobs,
    plan: Mapping[str, Any],
    *,
    tuning: Sequence[JudgedQuery],
    held_out: Sequence[JudgedQuery],
) -> Outcome:
    """Turn one knob after the other, as long as that helps on ``tuning``; ask ``held_out`` once, at the end."""
    asked = _Asked(ask=ask, base=base, plan=plan)
    at, tried = base, list[Tried]()
    for _ in range(ROUNDS):
        before = at
        for coordinate in coordinates(base.pool):
            at, looked_at = await _turn(asked, coordinate(at), at, tuning)
            tried += looked_at
        if at == before:
            break
    on_tuning = paired(await asked.ndcg(base, tuning), await asked.ndcg(at, tuning))
    on_held_out = paired(await asked.ndcg(base, held_out), await asked.ndcg(at, held_out))
    return Outcome(
        chosen=at,
        overrides=overrides(at, base, plan),
        tried=tuple(tried),
        tuning=on_tuning,
        held_out=on_held_out,
        asked=len(asked.known),
        degraded=sum(each.degraded for each in asked.known.values()),
        failed=sum(each.failed for each in asked.known.values()),
    )


async def _turn(
    asked: _Asked, coordinate: Coordinate, at: Knobs, queries: Sequence[JudgedQuery]
) -> tuple[Knobs, list[Tried]]:
    """Return the state of the search after one knob, and the tries. Drop a candidate that is hopeless at first look."""
    sample = queries[: max(_LEAST_LOOK, len(queries) // _FIRST_LOOK)]
    results: dict[Knobs, Paired] = {}
    for knobs in coordinate.points:
        result = paired(await asked.ndcg(at, sample), await asked.ndcg(knobs, sample))
        if result.difference >= -_HOPELESS * result.error:
            result = paired(await asked.ndcg(at, queries), await asked.ndcg(knobs, queries))
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
    """The candidate to go on with: the middle of the flattest high ground, not the highest peak. Pure.

    ``results``: each candidate against ``at``, in order. Where neighbours are alike, a candidate counts as the mean of
    itself and those beside it. The best one is taken if its gain is more than noise; else all stays as it is.
    """
    knobs = list(results)
    gains = [results[each].difference for each in knobs]
    wide = [gains[0], *gains, gains[-1]]  # beyond either end it goes on as it ended
    smooth = [round(fmean(wide[place : place + 3]), 9) for place in range(len(knobs))] if ordered else gains
    best = max(range(len(knobs)), key=lambda place: (smooth[place], gains[place]))
    found = results[knobs[best]]
    return knobs[best] if found.difference > NOISE_GAIN and found.p <= NOISE_P else at
