"""Ask judged queries, many at a time, and measure each answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from chordwise.api.queries import QueryKeywords
from chordwise.async_client import AsyncChordwise
from chordwise.errors import ProblemError, QueryFailed, Timeout
from chordwise.evaluation.collection import JudgedQuery
from chordwise.evaluation.measures import first_occurrences, ndcg, recall, reciprocal_rank

_KEPT = 10  # documents of a ranking that are noted
_TRIES = 3  # for an answer that had lost something


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One query, asked in one way. ``options`` are those of ``Chordwise.query``."""

    way: str
    query: JudgedQuery
    options: QueryKeywords


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """How good one ranking was, or the means over several; a query that failed counts as 0."""

    ndcg_at_10: float = 0.0
    mrr_at_10: float = 0.0
    recall_at_100: float = 0.0

    def as_json(self, *, digits: int = 4) -> dict[str, float]:
        """Under the names that the measures go by."""
        named = {"ndcg@10": self.ndcg_at_10, "mrr@10": self.mrr_at_10, "recall@100": self.recall_at_100}
        return {name: round(value, digits) for name, value in named.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One answer to one query. ``elapsed_ms`` is the client's. ``documents``: the first ten. ``failed``: there was no
    answer; ``degraded``: something was lost on the way to it."""

    query_id: str
    way: str
    scores: Scores = field(default_factory=Scores)
    documents: tuple[str, ...] = ()
    elapsed_ms: float | None = None
    degraded: bool = False
    failed: bool = False

    def as_json(self) -> dict[str, Any]:
        """One line of a file with the answers of a run."""
        return {
            "query_id": self.query_id,
            "way": self.way,
            **self.scores.as_json(digits=6),
            "documents": list(self.documents),
            "elapsed_ms": None if self.elapsed_ms is None else round(self.elapsed_ms, 1),
            "degraded": self.degraded,
            "failed": self.failed,
        }


async def ask_all(
    client: AsyncChordwise, asks: Sequence[Ask], *, concurrency: int, on_answer: Callable[[int], None]
) -> list[Measured]:
    """Ask everything, ``concurrency`` at a time, and measure; in the order of ``asks``. ``on_answer`` is told how many
    have been answered.

    A query that fails by itself is noted; what concerns all of them (no connection, a refused key) is raised.
    """
    waiting = iter(list(enumerate(asks)))
    measured: dict[int, Measured] = {}

    async def work() -> None:
        for place, ask in waiting:
            measured[place] = await _measure(client, ask)
            on_answer(len(measured))

    workers = [asyncio.create_task(work()) for _ in range(concurrency)]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
    return [measured[place] for place in range(len(asks))]


async def _measure(client: AsyncChordwise, ask: Ask) -> Measured:
    """The answer to one query. One that had lost something is asked for again: it tells of the load and not of the
    ranking."""
    for _ in range(_TRIES):
        measured = await _measure_once(client, ask)
        if not measured.degraded:
            break
    return measured


async def _measure_once(client: AsyncChordwise, ask: Ask) -> Measured:
    query = ask.query
    began = time.perf_counter()
    try:
        answer = await client.query(query.text, **ask.options)
    except (QueryFailed, Timeout, ProblemError) as error:
        if isinstance(error, ProblemError) and error.status < 500:
            raise
        return Measured(query_id=query.query_id, way=ask.way, failed=True)
    ranking = first_occurrences(hit.document_id for hit in answer.chunks)
    return Measured(
        query_id=query.query_id,
        way=ask.way,
        scores=scores_of(ranking, query.grades),
        documents=tuple(ranking[:_KEPT]),
        elapsed_ms=(time.perf_counter() - began) * 1000,
        degraded=answer.stats.degraded,
    )


def scores_of(ranking: Sequence[str], grades: Mapping[str, int]) -> Scores:
    """The measures of one ranking."""
    return Scores(
        ndcg_at_10=ndcg(ranking, grades, k=10),
        mrr_at_10=reciprocal_rank(ranking, grades, k=10),
        recall_at_100=recall(ranking, grades, k=100),
    )


def mean_scores(measured: Iterable[Measured]) -> Scores:
    """The means of each measure; of nothing, 0."""
    found = [each.scores for each in measured]
    count = max(1, len(found))
    return Scores(
        ndcg_at_10=sum(each.ndcg_at_10 for each in found) / count,
        mrr_at_10=sum(each.mrr_at_10 for each in found) / count,
        recall_at_100=sum(each.recall_at_100 for each in found) / count,
    )
