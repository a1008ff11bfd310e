"""Add a retrieval to the response of an agent: a step to its steps, passages to its passages.

Pure functions that tolerate missing fields, as those of `chordwise.prompting`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from chordwise.prompting import Answered, answer_of, hits_of, mapping

STEP: Final = "retrieval"
_STATISTICS: Final = ("hits", "source_share", "expanded_queries", "latency_ms", "rerank_lift")


def retrieval_step(result: Answered) -> dict[str, Any]:
    """Return one step: the query, the hits and share of each channel, the milliseconds of each stage, and the
    degradations. Without an answer, ``status`` is "missing"."""
    answer = answer_of(result)
    stats = mapping(answer.get("stats"))
    step = {
        "step": STEP,
        "query_id": answer.get("query_id"),
        "status": answer.get("status", "missing"),
        "query": answer.get("query"),
        **{name: stats.get(name) for name in _STATISTICS},
        "degraded": stats.get("degraded", False),
        "degradations": stats.get("degradations"),
    }
    return {name: value for name, value in step.items() if value not in (None, [], {})}


def intermediate_chunks(result: Answered) -> list[dict[str, Any]]:
    """Return the passages with their scores and sources, best first; ``rank`` counts from 1."""
    names = ("chunk_id", "document_id", "namespace", "title", "text", "score", "confidence", "source", "sources")
    return [
        {"rank": rank, **{name: chunk[name] for name in names if chunk.get(name) is not None}}
        for rank, chunk in enumerate(hits_of(result), start=1)
    ]


def with_retrieval(response: Mapping[str, Any] | None, result: Answered) -> dict[str, Any]:
    """Return a copy of an agent's response with the retrieval in its ``data``: one more of ``intermediate_steps``, and its
    passages in ``intermediate_chunks``."""
    data = dict(mapping((response or {}).get("data")))
    data["intermediate_steps"] = [*_list(data.get("intermediate_steps")), retrieval_step(result)]
    data["intermediate_chunks"] = [*_list(data.get("intermediate_chunks")), *intermediate_chunks(result)]
    return {**(response or {}), "data": data}


def _list(value: object) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []
