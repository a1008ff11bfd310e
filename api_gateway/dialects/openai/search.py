"""Search in a vector store: a query like every other, in this dialect's form."""

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from fastapi import APIRouter, Response
from pydantic import ValidationError

from api_gateway.dialects.openai import objects
from api_gateway.dialects.openai.lookups import answered, namespace_of, store_of
from api_gateway.dialects.openai.requests import SearchRequest
from api_gateway.http.bodies import Decoded
from api_gateway.http.caller import Caller, Reader
from api_gateway.http.problems import invalid, places
from api_gateway.http.responses import json_response
from api_gateway.live.ask import answer_of, asked_query, read_by, retrieved
from api_gateway.resources.retrieval.conditions import to_condition
from api_gateway.resources.route_parts import Json
from chordwise.contract.answer import sureness
from pipeline.administration import edit_vector_stores
from pipeline.administration.edit_vector_stores import shown_attributes
from pipeline.answer.mask_answers import masked_value
from pipeline.privacy.redaction import MaskedKind
from pipeline.query.request import Query
from pipeline.records import Condition, Filters, Namespace
from pipeline.vector_stores.collection import Attached

router = APIRouter()


@dataclass(frozen=True, slots=True)
class _Result:
    """A passage with its score, in [0, 1]."""

    chunk_id: str
    document_id: str
    text: str
    score: float


@router.post(
    "/vector_stores/{vector_store_id}/search",
    **answered("Search a vector store", objects.SearchResultPage, "The results, best first.", 400, 404, 413, 429),
)
async def search(caller: Reader, vector_store_id: str, body: Json[SearchRequest]) -> Response:
    """Search a vector store.

    `score` is the highest confidence of a passage and those below it; `score_threshold` uses the same scale.
    `hybrid_search` fuses by ranks. `rewrite_query` needs a language model; without one the query stays as it is.
    """
    condition = None if body.filters is None else _condition(body.filters)
    namespace = namespace_of(vector_store_id)
    texts = [body.query] if isinstance(body.query, str) else list(dict.fromkeys(body.query))
    queries = [await _query(caller, namespace, text, body, condition) for text in texts]
    deadline_at = queries[0].deadline_at
    await read_by(deadline_at, caller.gateway, store_of, caller, vector_store_id, in_use=True)
    answers = await _all_answered(caller, queries)
    limit = body.max_num_results
    best = _together([_scored(answer, namespace) for answer in answers])[:limit]
    threshold = (body.ranking_options and body.ranking_options.score_threshold) or 0.0
    results = [result for result in best if result.score >= threshold]
    ids = list(dict.fromkeys(result.document_id for result in results))
    find = edit_vector_stores.find_files
    files = await read_by(deadline_at, caller.gateway, find, caller.tenant_id, caller.use, namespace, ids)
    private = [query.plan.privacy for query in queries if query.plan.privacy.mask_answers]
    kinds = {kind for privacy in private for kind in privacy.kinds}
    page = {
        "object": "vector_store.search_results.page",
        "search_query": [answer["query"].get("rewritten") or answer["query"]["query_text"] for answer in answers],
        "data": [
            _result_json(result, files[result.document_id], kinds) for result in results if result.document_id in files
        ],
        "has_more": False,
        "next_page": None,
    }
    return json_response(page, headers=_headers(answers))


def _condition(filters: dict[str, Any]) -> Condition:
    try:
        return to_condition(filters, attributes=True)
    except ValidationError as error:
        raise invalid(places(error, under=["filters"])) from None
    except ValueError as error:
        raise invalid([{"pointer": "/filters", "detail": str(error)}]) from None


async def _query(
    caller: Caller, namespace: Namespace, text: str, sent: SearchRequest, condition: Condition | None
) -> Query:
    """Return the query as /v1/queries would make it from the tenant's profile, with this dialect's parameters applied."""
    query = await asked_query(Decoded(_body(namespace, text, sent)), caller)
    return query if condition is None else replace(query, filters=Filters(where=condition))


def _body(namespace: Namespace, text: str, sent: SearchRequest) -> dict[str, Any]:
    body: dict[str, Any] = {
        "query_text": text,
        "namespaces": [namespace],
        "top_k": sent.max_num_results,
        "fallback": {"enabled": False},
    }
    ranking = sent.ranking_options
    if ranking is not None and ranking.ranker is not None:
        body["enable_rerank"] = ranking.ranker != "none"
    if sent.rewrite_query is not None:
        body["understand"] = {"rewrite": sent.rewrite_query}
    if ranking is not None and ranking.hybrid_search is not None:
        weights = ranking.hybrid_search
        body["retrieve"] = {
            "method": "hybrid",
            "fusion": {"strategy": "rrf"},
            "channels": {
                "semantic": {"weight": float(weights.embedding_weight)},
                "keyword": {"weight": float(weights.text_weight)},
            },
        }
    return body


async def _all_answered(caller: Caller, queries: Sequence[Query]) -> list[dict[str, Any]]:
    """Return the answers, in the order of the queries. Raises Problem(503) if no channel answered one of them."""
    cache_control = caller.request.headers.get("cache-control", "")
    tasks = [asyncio.ensure_future(answer_of(query, caller, cache_control=cache_control)) for query in queries]
    try:
        answers = await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
    return [retrieved(answer) for answer in answers]


def _scored(answer: dict[str, Any], namespace: Namespace) -> list[_Result]:
    """Return the passages of this vector store with their scores: the highest confidence of a passage and those below
    it, so that scores never increase down the list."""
    results: list[_Result] = []
    surest = 0.0
    for chunk in reversed(answer["chunks"]):
        if chunk["namespace"] == namespace:
            surest = max(surest, sureness(chunk["confidence"]))
            results.append(_Result(chunk["chunk_id"], chunk["document_id"], chunk["text"], surest))
    return results[::-1]


def _together(rankings: Sequence[Sequence[_Result]]) -> list[_Result]:
    """Merge several rankings: each passage once, with its best score; ties keep their order."""
    best: dict[str, _Result] = {}
    for result in chain.from_iterable(rankings):
        if result.chunk_id not in best or best[result.chunk_id].score < result.score:
            best[result.chunk_id] = result
    return sorted(best.values(), key=lambda result: -result.score)


def _result_json(result: _Result, file: Attached, kinds: Collection[MaskedKind]) -> dict[str, Any]:
    """Return a result as it is sent. Its text is masked already; the file's attributes are masked here."""
    return {
        "file_id": result.document_id,
        "filename": masked_value(file.filename, kinds),
        "score": result.score,
        "attributes": masked_value(shown_attributes(file.attributes), kinds),
        "content": [{"type": "text", "text": result.text}],
    }


def _headers(answers: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Return headers for facts without a field in this dialect: the ids of the queries, and degradations."""
    lost = dict.fromkeys(
        f"{loss['part']}:{loss['code']}" for answer in answers for loss in answer["stats"]["degradations"]
    )
    headers = {"X-Chordwise-Query-Id": ", ".join(answer["query_id"] for answer in answers)}
    return {**headers, "X-Chordwise-Degraded": ", ".join(lost)} if lost else headers
