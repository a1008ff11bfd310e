"""What a retrieval was, inside of an agent's own answer: a step among its steps, passages among its passages.

Pure functions, forgiving what is missing, as those of `chordwise.prompting`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from chordwise.api.queries import QueryResult

STEP: Final = "retrieval"

Answered = QueryResult | Mapping[str, Any] | None


def retrieval_step(result: Answered) -> dict[str, Any]:
    """One step: what was asked, how many hits each channel had, the share of each, how long each stage took
    (milliseconds), and what was lost on the way. ``status`` is missing where there is no answer."""
    answer = _answer(result)
    stats = _mapping(answer.get("stats"))
    found = {
        "step": STEP,
        "query_id": answer.get("query_id"),
        "status": answer.get("status", "missing"),
        "query": answer.get("query"),
        "hits": stats.get("hits"),
        "source_share": stats.get("source_share"),
        "expanded_queries": stats.get("expanded_queries"),
        "latency_ms": stats.get("latency_ms"),
        "rerank_lift": stats.get("rerank_lift"),
        "degraded": stats.get("degraded", False),
        "degradations": stats.get("degradations"),
    }
    return {name: value for name, value in found.items() if value not in (None, [], {})}


def intermediate_chunks(result: Answered) -> list[dict[str, Any]]:
    """The passages with their scores and sources, best first; ``rank`` counts from 1."""
    chunks = _answer(result).get("chunks")
    listed = [each for each in chunks if isinstance(each, Mapping)] if isinstance(chunks, list | tuple) else []
    names = ("chunk_id", "document_id", "namespace", "title", "text", "score", "confidence", "source", "sources")
    return [
        {"rank": rank, **{name: chunk[name] for name in names if chunk.get(name) is not None}}
        for rank, chunk in enumerate(listed, start=1)
    ]


def with_retrieval(response: Mapping[str, Any] | None, result: Answered) -> dict[str, Any]:
    """An agent's response with the retrieval in its ``data``: ``intermediate_steps`` gets a step more and
    ``intermediate_chunks`` its passages. Nothing of the response that was given is changed."""
    told = dict(response or {})
    data = dict(_mapping(told.get("data")))
    data["intermediate_steps"] = [*_list(data.get("intermediate_steps")), retrieval_step(result)]
    data["intermediate_chunks"] = [*_list(data.get("intermediate_chunks")), *intermediate_chunks(result)]
    return {**told, "data": data}


def _answer(result: Answered) -> Mapping[str, Any]:
    return result.raw if isinstance(result, QueryResult) else _mapping(result)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []
