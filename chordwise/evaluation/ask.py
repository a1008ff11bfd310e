"""Ask judged queries, many at a time, and measure each answer."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from chordwise.api.queries import QueryKeywords, QueryResult, query_fields
from chordwise.async_client import AsyncChordwise
from chordwise.errors import InvalidInput
from chordwise.evaluation.collection import JudgedQuery
from chordwise.evaluation.measures import first_occurrences, ndcg, recall, reciprocal_rank

_RECORDED = 10  # documents of a ranking
_REFUSED = ("invalid_query", "namespace_not_found", "profile_not_found")
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
    """One answer to one query. ``elapsed_ms`` is the server's. ``documents``: the first ten. ``failed``: there was no
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


async def ask_all(client: AsyncChordwise, asks: Sequence[Ask], *, on_answer: Callable[[int], None]) -> list[Measured]:
    """Ask everything as a batch and measure, in the order of ``asks``. ``on_answer`` gets the number of answers so far.
    Degraded answers are asked for again: they measure the load and not the ranking.

    A query that fails by itself is recorded; an error that concerns all of them (no connection, a refused key) is raised.
    """
    measured: dict[int, Measured] = {}
    waiting = list(range(len(asks)))
    for _ in range(_TRIES):
        answers = await answers_of(client, [(asks[n].query.text, asks[n].options) for n in waiting], on_answer)
        on_answer = _unseen  # the others are answered already
        measured |= {n: _measure(asks[n], answer) for n, answer in zip(waiting, answers, strict=True)}
        waiting = [n for n in waiting if measured[n].degraded]
        if not waiting:
            break
    return [measured[n] for n in range(len(asks))]


async def answers_of(
    client: AsyncChordwise, questions: Sequence[tuple[str, QueryKeywords]], on_answer: Callable[[int], None]
) -> list[QueryResult | None]:
    """Ask all questions as a batch and return their answers in order, None for one that failed. ``on_answer`` gets the number
    of answers so far. Raises InvalidInput for a question that the server refuses."""
    bodies = [{"query_text": text, **query_fields(**options)} for text, options in questions]
    if not bodies:
        return []
    results = await client.query_many(bodies, on_result=lambda result: on_answer(result.index + 1))
    for result in results:
        if result.error and result.error.get("code") in _REFUSED:
            raise InvalidInput(str(result.error.get("detail")))
    return [result.answer for result in results]


def _unseen(_count: int) -> None:
    """Show nothing."""


def _measure(ask: Ask, answer: QueryResult | None) -> Measured:
    if answer is None:
        return Measured(query_id=ask.query.query_id, way=ask.way, failed=True)
    ranking = first_occurrences(hit.document_id for hit in answer.chunks)
    return Measured(
        query_id=ask.query.query_id,
        way=ask.way,
        scores=scores_of(ranking, ask.query.grades),
        documents=tuple(ranking[:_RECORDED]),
        elapsed_ms=answer.stats.latency_ms.get("total"),
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
