"""What tuning may turn, read out of a plan and written as overrides of one. Pure functions."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from chordwise.errors import InvalidInput
from chordwise.evaluation.collection import JudgedQuery

_RRF_SHARE: Final = 0.5  # where a search by ranks begins: ranks alone need no weights
_SHARES: Final = (0.2, 0.35, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
_GATES: Final = (0.0, 0.1, 0.2, 0.3, 0.4)
_POOLS: Final = (50, 100, 200, 400)


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """One way of putting the two channels together. ``keyword``: the share of the keyword channel in the weight of both;
    1 leaves meaning out. ``k`` belongs to rrf, ``normalisation`` to weighted; ``gate`` 0 is none; ``pool``: how many
    chunks each channel recalls."""

    strategy: str
    normalisation: str = "min_max"
    k: int = 60
    keyword: float = 0.7
    gate: float = 0.0
    pool: int = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinate:
    """What is tried while everything else stays. ``ordered``: points beside each other should be about as good."""

    name: str
    points: tuple[Knobs, ...]
    ordered: bool = True


def read_knobs(plan: Mapping[str, Any]) -> Knobs:
    """How a plan, as the server shows it, puts the channels together. Raises InvalidInput for one without two of them."""
    retrieve = plan["retrieve"]
    fusion, channels = retrieve["fusion"], retrieve["channels"]
    weights = [channels.get(name, {}).get("weight", 0.0) for name in ("keyword", "semantic")]
    if retrieve["method"] != "hybrid" or min(weights) <= 0:
        raise InvalidInput(
            "the profile does not ask the keyword and the semantic channel both: there is nothing to tune"
        )
    if fusion["strategy"] == "custom":
        raise InvalidInput("the profile fuses by a plug-in, whose settings are its own")
    return Knobs(
        strategy=fusion["strategy"],
        normalisation=fusion["normalisation"],
        k=fusion["k"],
        keyword=round(weights[0] / sum(weights), 4),
        gate=fusion["gate"] or 0.0,
        pool=channels["keyword"].get("pool") or 100,
    )


def overrides(knobs: Knobs, base: Knobs, plan: Mapping[str, Any]) -> dict[str, Any]:
    """What to lay over ``plan``, which has the knobs ``base``, so that it has ``knobs``; nothing for the same. Weights of
    other channels stay what they are beside these two."""
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
    """What is turned, one after the other: each gives the points to try from where the search stands."""
    pools = tuple(sorted({*_POOLS, plan_pool}))
    return (
        _fusions,
        lambda at: _ordered("weights", [replace(at, keyword=each) for each in sorted({*_SHARES, at.keyword})]),
        lambda at: _ordered("gate", [replace(at, gate=each) for each in sorted({*_GATES, at.gate})]),
        lambda at: _ordered("pool", [replace(at, pool=each) for each in pools]),
    )


def split(queries: Sequence[JudgedQuery], *, seed: int) -> tuple[list[JudgedQuery], list[JudgedQuery]]:
    """Queries to tune on and queries to judge by, about half each: by a hash of the id, so that a query stays on its
    side whatever else is in the collection."""
    ranked = by_hash(queries, seed=seed)
    tuning = [query for place, query in ranked if place < 0.5]
    return tuning, [query for place, query in ranked if place >= 0.5]


def by_hash(queries: Sequence[JudgedQuery], *, seed: int) -> list[tuple[float, JudgedQuery]]:
    """Each query with its place in [0, 1), in that order: the first of them are a sample of all."""
    placed = [(_place(query.query_id, seed), query) for query in queries]
    return sorted(placed, key=lambda each: (each[0], each[1].query_id))


def _fusions(at: Knobs) -> Coordinate:
    """By score or by rank. What is not the way the search stands at begins with its own usual weights."""
    weighted = at if at.strategy == "weighted" else replace(at, strategy="weighted", keyword=0.7)
    ranks = at if at.strategy == "rrf" else replace(at, strategy="rrf", keyword=_RRF_SHARE)
    points = [replace(weighted, normalisation=each) for each in ("min_max", "z_score")]
    points += [replace(ranks, k=each) for each in (10, 30, 60, 120)]
    return Coordinate(name="fusion", points=tuple(dict.fromkeys([at, *points])), ordered=False)


def _ordered(name: str, points: Sequence[Knobs]) -> Coordinate:
    return Coordinate(name=name, points=tuple(points))


def _place(query_id: str, seed: int) -> float:
    digest = hashlib.blake2b(f"{seed}:{query_id}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64
