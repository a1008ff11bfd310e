"""Ask judged queries, many at a time, and measure each answer."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from chordwise.api.queries import QueryKeywords
from chordwise.async_client import AsyncChordwise
from chordwise.errors import ProblemError, QueryFailed, Timeout
from chordwise.evaluation.collection import JudgedQuery
from chordwise.evaluation.measures import first_occurrences, ndcg, recall, reciprocal_rank

A = TypeVar("A")
R = TypeVar("R")
_RECORDED = 10  # documents of a ranking
_TRIES = 3  # attempts to get an answer that is not degraded


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One query to ask in one way. ``options`` are those of ``Chordwise.query``."""

    way: str
    query: JudgedQuery
    options: QueryKeywords


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """The measures of one ranking, or their means over several; a failed query counts as 0."""

    ndcg_at_10: float = 0.0
    mrr_at_10: float = 0.0
    recall_at_100: float = 0.0

    def as_json(self, *, digits: int = 4) -> dict[str, float]:
        """Return the measures under their usual names."""
        named = {"ndcg@10": self.ndcg_at_10, "mrr@10": self.mrr_at_10, "recall@100": self.recall_at_100}
        return {name: round(value, digits) for name, value in named.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One answer to one query. ``elapsed_ms`` is the client's. ``documents``: the first ten. ``failed``: there was no
    answer; ``degraded``: parts of the retrieval failed."""

    query_id: str
    way: str
    scores: Scores = field(default_factory=Scores)
    documents: tuple[str, ...] = ()
    elapsed_ms: float | None = None
    degraded: bool = False
    failed: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return the answer as one line of the file of a run."""
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
    """Ask everything and measure, in the order of ``asks``; see ``ask_concurrently``.

    A query that fails by itself is recorded; an error that concerns all of them (no connection, a refused key) is raised.
    """
    return await ask_concurrently(lambda ask: _measure(client, ask), asks, concurrency=concurrency, on_answer=on_answer)


async def ask_concurrently(
    ask: Callable[[A], Awaitable[R]], questions: Sequence[A], *, concurrency: int, on_answer: Callable[[int], None]
) -> list[R]:
    """Return the answers in the order of ``questions``, asked ``concurrency`` at a time. The first error ends all and is
    raised. ``on_answer`` gets the number of answers so far."""
    waiting = iter(enumerate(questions))
    answers: dict[int, R] = {}

    async def work() -> None:
        for position, question in waiting:
            answers[position] = await ask(question)
            on_answer(len(answers))

    workers = [asyncio.create_task(work()) for _ in range(concurrency)]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
    return [answers[position] for position in range(len(questions))]


async def _measure(client: AsyncChordwise, ask: Ask) -> Measured:
    """Measure one answer. A degraded one is asked again: it measures the load and not the ranking."""
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
        documents=tuple(ranking[:_RECORDED]),
        elapsed_ms=(time.perf_counter() - began) * 1000,
        degraded=answer.stats.degraded,
    )


def scores_of(ranking: Sequence[str], grades: Mapping[str, int]) -> Scores:
    """Return the measures of one ranking."""
    return Scores(
        ndcg_at_10=ndcg(ranking, grades, k=10),
        mrr_at_10=reciprocal_rank(ranking, grades, k=10),
        recall_at_100=recall(ranking, grades, k=100),
    )


def mean_scores(measured: Iterable[Measured]) -> Scores:
    """Return the mean of each measure; 0 for no answers."""
    scores = [answer.scores for answer in measured] or [Scores()]
    names = [field.name for field in fields(Scores)]
    return Scores(**{name: sum(getattr(score, name) for score in scores) / len(scores) for name in names})
