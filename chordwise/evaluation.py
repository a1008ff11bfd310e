"""Measure how well a namespace answers a judged collection: per channel, fused, and reranked."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from chordwise.async_client import AsyncChordwise
from chordwise.client import Chordwise
from chordwise.errors import ChordwiseError, InvalidInput, ProblemError, QueryFailed, Timeout
from chordwise.judged import Collection, JudgedQuery
from chordwise.measures import first_occurrences, ndcg, percentile, recall, reciprocal_rank
from chordwise.results import Ingestion, failures

TOP_K = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way of asking. ``name`` is its row in the table."""

    name: str
    method: str
    rerank: bool


WAYS = (
    Way(name="keyword", method="full_text", rerank=False),
    Way(name="semantic", method="semantic", rerank=False),
    Way(name="fused", method="hybrid", rerank=False),
    Way(name="reranked", method="hybrid", rerank=True),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """Means over the queries of one way; a query that failed counts as 0."""

    ndcg_at_10: float
    mrr_at_10: float
    recall_at_100: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What an evaluation found. Latencies are the client's, in ms, of the reranked queries under the load applied.

    ``degraded`` counts answers that had lost something on the way, ``failed`` queries that had no answer.
    """

    queries: int
    results: dict[str, Scores]
    degraded: int
    failed: int
    p50_ms: float
    p95_ms: float


@dataclass(slots=True)
class _Tally:
    """What the answers of one way add up to so far."""

    measured: list[Scores] = field(default_factory=list)
    elapsed_ms: list[float] = field(default_factory=list)
    degraded: int = 0
    failed: int = 0

    def scores(self, queries: int) -> Scores:
        """The means over ``queries``, of which some may have no measurement."""
        return Scores(
            ndcg_at_10=math.fsum(one.ndcg_at_10 for one in self.measured) / queries,
            mrr_at_10=math.fsum(one.mrr_at_10 for one in self.measured) / queries,
            recall_at_100=math.fsum(one.recall_at_100 for one in self.measured) / queries,
        )


def ingest_if_empty(
    client: Chordwise,
    collection: Collection,
    namespace: str,
    *,
    on_sent: Callable[[Ingestion], None],
    on_indexed: Callable[[Ingestion], None],
) -> Ingestion | None:
    """Fill the namespace with the collection, and wait until it is searchable; None if something was there already.

    Raises ChordwiseError if a document could not be ingested: the figures would not be the collection's.
    """
    if any(known.namespace == namespace and known.documents for known in client.namespaces()):
        return None
    sent = client.ingest(collection.documents(), namespace=namespace, on_progress=on_sent)
    if not sent.jobs:
        raise InvalidInput(f"{collection.corpus} has no document with text")
    done = client.wait(sent, on_progress=on_indexed)
    if done.status != "succeeded":
        raise ChordwiseError(f"{done.failed} of {done.total} documents were not ingested: {failures(done.errors)}")
    return done


async def evaluate(
    client: AsyncChordwise,
    queries: Sequence[JudgedQuery],
    namespace: str,
    *,
    concurrency: int,
    on_answer: Callable[[int], None],
) -> Report:
    """Ask every query in every way, ``concurrency`` at a time. ``on_answer`` is told how many have been answered.

    A query that fails by itself is counted; what concerns all of them (no connection, a refused key) is raised.
    """
    tallies = {way.name: _Tally() for way in WAYS}
    waiting = iter([(way, query) for way in WAYS for query in queries])
    answered = 0

    async def work() -> None:
        nonlocal answered
        for way, query in waiting:
            await _ask(client, way, query, namespace, tallies[way.name])
            answered += 1
            on_answer(answered)

    workers = [asyncio.create_task(work()) for _ in range(concurrency)]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
    elapsed_ms = tallies["reranked"].elapsed_ms
    return Report(
        queries=len(queries),
        results={name: tally.scores(len(queries)) for name, tally in tallies.items()},
        degraded=sum(tally.degraded for tally in tallies.values()),
        failed=sum(tally.failed for tally in tallies.values()),
        p50_ms=percentile(elapsed_ms, 50),
        p95_ms=percentile(elapsed_ms, 95),
    )


async def _ask(client: AsyncChordwise, way: Way, query: JudgedQuery, namespace: str, tally: _Tally) -> None:
    began = time.perf_counter()
    try:
        answer = await client.query(query.text, namespace=namespace, top_k=TOP_K, method=way.method, rerank=way.rerank)
    except (QueryFailed, Timeout, ProblemError) as error:
        if isinstance(error, ProblemError) and error.status < 500:
            raise
        tally.failed += 1
        return
    tally.elapsed_ms.append((time.perf_counter() - began) * 1000)
    tally.degraded += answer.stats.degraded
    ranking = first_occurrences(hit.document_id for hit in answer.chunks)
    tally.measured.append(
        Scores(
            ndcg_at_10=ndcg(ranking, query.grades, k=10),
            mrr_at_10=reciprocal_rank(ranking, query.grades, k=10),
            recall_at_100=recall(ranking, query.grades, k=100),
        )
    )
