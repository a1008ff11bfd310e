"""Measure how well a namespace answers a judged collection: per channel, fused, and reranked."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chordwise.api.jobs import Ingestion, failures
from chordwise.api.queries import QueryKeywords
from chordwise.async_client import AsyncChordwise
from chordwise.client import Chordwise
from chordwise.errors import ChordwiseError, InvalidInput
from chordwise.evaluation.ask import Ask, Measured, Scores, ask_all, mean_scores
from chordwise.evaluation.collection import Collection, JudgedQuery
from chordwise.evaluation.measures import percentile

TOP_K = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way of asking. ``name`` is its row in the table. ``method`` None is that of the profile."""

    name: str
    method: str | None
    rerank: bool


WAYS = (
    Way(name="keyword", method="full_text", rerank=False),
    Way(name="semantic", method="semantic", rerank=False),
    Way(name="fused", method="hybrid", rerank=False),
    Way(name="reranked", method="hybrid", rerank=True),
)
_CHANNEL_OF = {"full_text": "keyword", "semantic": "semantic"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The result of an evaluation. Latencies in ms are the server's, of the reranked queries one after another.

    ``degraded`` counts answers with failed parts, ``failed`` queries without an answer. ``answers``
    has all of them, way by way.
    """

    queries: int
    results: dict[str, Scores]
    answers: tuple[Measured, ...]
    degraded: int
    failed: int
    p50_ms: float
    p95_ms: float


def ways_of(plan: Mapping[str, Any]) -> tuple[Way, ...]:
    """Return the ways of asking under a profile with this plan: each of the two channels alone if the plan uses it, then
    the profile without and with reranking, whether or not the profile itself reranks."""
    retrieve = plan.get("retrieve", {})
    weights = {name: channel.get("weight", 1) for name, channel in retrieve.get("channels", {}).items()}
    only = _CHANNEL_OF.get(retrieve.get("method", "hybrid"))
    used = {name for name, weight in weights.items() if weight > 0 and only in (None, name)}
    alone = tuple(way for way in WAYS if way.method in _CHANNEL_OF and way.name in used)
    return (*alone, Way(name="fused", method=None, rerank=False), Way(name="reranked", method=None, rerank=True))


def ingest_if_empty(
    client: Chordwise,
    collection: Collection,
    namespace: str,
    *,
    on_sent: Callable[[Ingestion], None],
    on_indexed: Callable[[Ingestion], None],
) -> Ingestion | None:
    """Fill the namespace with the collection and wait until it is searchable; None if it was not empty.

    Raises ChordwiseError if a document could not be ingested: the figures would not be the collection's.
    """
    if any(info.namespace == namespace and info.documents for info in client.namespaces()):
        return None
    sent = client.ingest(collection.documents(), namespace=namespace, on_progress=on_sent)
    if not sent.jobs:
        raise InvalidInput(f"the corpus of {collection.name} has no document with text")
    done = client.wait(sent, on_progress=on_indexed)
    if done.status != "succeeded":
        raise ChordwiseError(f"{done.failed} of {done.total} documents were not ingested{failures(done.errors)}")
    return done


async def evaluate(
    client: AsyncChordwise,
    queries: Sequence[JudgedQuery],
    namespace: str,
    *,
    profile: str | None = None,
    ways: Sequence[Way] = WAYS,
    on_answer: Callable[[int], None],
) -> Report:
    """Ask every query in every way, as one batch. ``on_answer`` gets the number of answers so far.

    A query that fails by itself is counted; an error that concerns all of them (no connection, a refused key) is raised.
    """
    common: QueryKeywords = {"namespace": namespace, "top_k": TOP_K, "profile": profile}
    asks = [
        Ask(way=way.name, query=query, options={**common, "method": way.method, "rerank": way.rerank})
        for way in ways
        for query in queries
    ]
    answers = await ask_all(client, asks, on_answer=on_answer)
    by_way = {way.name: [answer for answer in answers if answer.way == way.name] for way in ways}
    elapsed_ms = [answer.elapsed_ms for answer in by_way["reranked"] if answer.elapsed_ms is not None]
    return Report(
        queries=len(queries),
        results={name: mean_scores(of_way) for name, of_way in by_way.items()},
        answers=tuple(answers),
        degraded=sum(answer.degraded for answer in answers),
        failed=sum(answer.failed for answer in answers),
        p50_ms=percentile(elapsed_ms, 50),
        p95_ms=percentile(elapsed_ms, 95),
    )
