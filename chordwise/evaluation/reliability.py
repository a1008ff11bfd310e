"""How well the confidence of answers agrees with what is relevant, and how well it tells questions apart."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chordwise.async_client import AsyncChordwise
from chordwise.evaluation.collection import JudgedQuery

BINS = 10
_TOP_K = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One hit: its confidence, in [0, 1], and whether its document is judged relevant. ``place`` counts from 1."""

    confidence: float
    relevant: bool
    place: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Bin:
    """Hits with confidence in [``low``, ``low`` + 0.1): their number, mean confidence and share of relevant ones."""

    low: float
    hits: int
    confidence: float
    relevant: float


def bins_of(hits: Sequence[Judged]) -> list[Bin]:
    """Return the reliability diagram: the bins that hold hits, from the least to the most confident."""
    by_bin: dict[int, list[Judged]] = {}
    for hit in hits:
        by_bin.setdefault(min(BINS - 1, int(hit.confidence * BINS)), []).append(hit)
    return [
        Bin(
            low=number / BINS,
            hits=len(held),
            confidence=sum(hit.confidence for hit in held) / len(held),
            relevant=sum(hit.relevant for hit in held) / len(held),
        )
        for number, held in sorted(by_bin.items())
    ]


def expected_calibration_error(hits: Sequence[Judged]) -> float:
    """Return the mean of ``|relevant - confidence|`` over the ten bins, each weighted by its hits; 0 for no hits
    (Naeini, Cooper and Hauskrecht, Obtaining well calibrated probabilities using Bayesian binning, AAAI 2015)."""
    total = max(1, len(hits))
    return sum(each.hits * abs(each.relevant - each.confidence) for each in bins_of(hits)) / total


def threshold_that_keeps(best: Sequence[float], share: float) -> float:
    """Return the highest threshold that at least ``share`` of the confidences ``best`` reach; 0 for none."""
    ordered = sorted(best)
    return ordered[int((1 - share) * len(ordered))] if ordered else 0.0


async def ask_judged(
    client: AsyncChordwise,
    queries: Sequence[JudgedQuery],
    *,
    concurrency: int,
    options: Mapping[str, Any],
    on_answer: Callable[[int], None],
) -> list[list[Judged]]:
    """Ask every query for ten chunks and judge them; a query without relevant documents judges all of them not relevant.
    ``options`` are those of ``Chordwise.query``. In the order of ``queries``. Raises ChordwiseError."""
    waiting = iter(list(enumerate(queries)))
    found: dict[int, list[Judged]] = {}

    async def work() -> None:
        for number, query in waiting:
            answer = await client.query(query.text, **{"top_k": _TOP_K, **options})
            found[number] = [
                Judged(
                    confidence=hit.confidence or 0.0,
                    relevant=query.grades.get(hit.document_id, 0) > 0,
                    place=place,
                )
                for place, hit in enumerate(answer.chunks, start=1)
            ]
            on_answer(len(found))

    async with asyncio.TaskGroup() as group:
        for _ in range(concurrency):
            group.create_task(work())
    return [found[number] for number in range(len(queries))]


def best_of(answers: Sequence[Sequence[Judged]]) -> list[float]:
    """Return the highest confidence of each answer, 0 for an empty one."""
    return [max((hit.confidence for hit in answer), default=0.0) for answer in answers]
