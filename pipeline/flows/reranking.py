"""The best hits read once more."""

from __future__ import annotations

import time
from collections.abc import Sequence

from pipeline.core.hits import Hit
from pipeline.core.reranking import rerank
from pipeline.errors import PipelineError
from pipeline.flows.arrived import Arrived
from pipeline.flows.journal import Journal
from pipeline.flows.resources import Resources
from pipeline.records import Candidate, ChunkId


def reranked(arrived: Arrived, hits: Sequence[Hit], use: Resources, journal: Journal) -> list[Hit]:
    """The hits in the order that the reranker's reading makes of theirs; as they were when it fails or is late."""
    plan = arrived.query.plan.rerank
    if not plan.enabled or not hits:
        return rerank(hits, {}, weight=0.0)
    started = time.perf_counter()
    candidates = [
        Candidate(
            chunk_id=ChunkId(hit.chunk_id),
            title=hit.passage.title,
            text=hit.passage.text,
            published_at=hit.passage.published_at,
        )
        for hit in hits[: plan.top_n]
    ]
    limit_s = min(plan.budget_ms / 1000, use.settings.llm_timeout_s, arrived.left_s)
    try:
        if limit_s <= 0:
            raise TimeoutError
        scores = use.reranker.rerank(arrived.query.query_text, candidates, timeout_s=limit_s)
    except TimeoutError:
        journal.lost("rerank", "timeout", "reranking did not end in time; the fused order stands")
        scores = {}
    except PipelineError as error:
        journal.lost("rerank", error.code, "reranking failed; the fused order stands")
        scores = {}
    journal.took("rerank", started)
    if not scores:  # and then the model's client, which takes long to load, is not loaded for its weight
        return rerank(hits, {}, weight=0.0)
    return rerank(hits, scores, weight=use.reranker.weight if plan.weight is None else plan.weight)
