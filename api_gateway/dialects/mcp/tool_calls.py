"""The functions behind the MCP tools: calls of the interface with agents' arguments and results."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from starlette.types import Message

from api_gateway.dialects.mcp import tool_results, tool_shapes
from api_gateway.gateway import Gateway
from api_gateway.http.bodies import Decoded
from api_gateway.live.ask import answer_of, asked_query, current_state, retrieved, store_lost
from api_gateway.resources.ingestion.documents import accept_body
from api_gateway.resources.jobs import known_id, until_finished
from api_gateway.resources.retrieval.explanations import explanation, known_chunk_id, not_answered
from api_gateway.resources.retrieval.queries import known_id as known_query_id
from api_gateway.resources.route_parts import existing
from api_gateway.resources.shapes import renamed_json
from pipeline.errors import Unavailable
from pipeline.records import Namespace
from pipeline.tenants.accounts import Principal

_MOST_NAMESPACES = 32  # the limit of one query


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The caller of a tool, the gateway, and the address at which the caller reached it."""

    principal: Principal
    gateway: Gateway
    request_id: str
    base_url: str
    received_at: float  # seconds since the epoch


Call = Callable[[Caller, Any], Awaitable[dict[str, Any]]]


async def nobody_leaves() -> Message:
    """Never return: the ``receive`` of a request whose end the protocol's own code watches."""
    await asyncio.Event().wait()
    raise AssertionError("nobody sets it")


async def search(caller: Caller, asked: tool_shapes.SearchIn) -> dict[str, Any]:
    """Query the namespaces, and group the passages by document."""
    remarks: list[str] = []
    names = asked.namespaces
    if names is None:
        names, more = await _every_namespace(caller)
        if more:
            remarks.append(f"only the first {len(names)} namespaces were searched; name the ones to search")
    if not names:
        return {"results": [], "query_id": None, "degraded": False, "remarks": ["there is no namespace yet"]}
    body = {"query_text": asked.query, "namespaces": names, "top_k": asked.top_k}
    if asked.filters is not None:
        body["filters"] = asked.filters.model_dump(mode="json", exclude_none=True)
    query = await asked_query(
        Decoded(body, suspicious=True),
        caller.principal,
        caller.gateway,
        request_id=caller.request_id,
        received_at=caller.received_at,
    )
    answer = retrieved(await answer_of(query, caller.gateway, receive=nobody_leaves))
    stats = answer["stats"]
    remarks += [*stats["remarks"], *(f"{loss['part']}: {loss['detail']}" for loss in stats["degradations"])]
    return {
        "results": _by_document(answer["chunks"], caller.base_url),
        "query_id": answer["query_id"],
        "degraded": stats["degraded"],
        "remarks": remarks,
    }


async def fetch(caller: Caller, asked: tool_shapes.FetchIn) -> dict[str, Any]:
    """Read a document, masked as the tenant's default profile masks answers."""
    anything = Decoded({"query_text": "?", "namespaces": ["any"]})
    usual = await asked_query(anything, caller.principal, caller.gateway, request_id=caller.request_id)
    privacy = usual.plan.privacy
    hide = privacy.kinds if privacy.mask_answers else ()
    return await caller.gateway.run(
        lambda: tool_results.fetched(asked, caller.principal, caller.gateway, base_url=caller.base_url, hide=hide)
    )


async def list_namespaces(caller: Caller, asked: tool_shapes.NamespacesIn) -> dict[str, Any]:
    """Return one page of namespaces."""
    tenant_id = caller.principal.tenant_id
    return await caller.gateway.run(tool_results.namespaces, tenant_id, caller.gateway, after=asked.after)


async def explain(caller: Caller, asked: tool_shapes.ExplainIn) -> dict[str, Any]:
    """Explain the hits of an answer, and where a missing passage was lost."""
    known = known_query_id(asked.query_id)
    chunk_id = None if asked.chunk_id is None else known_chunk_id(asked.chunk_id)
    state = await caller.gateway.run(current_state, caller.principal.tenant_id, known, caller.gateway)
    answer: dict[str, Any] = orjson.loads(existing(state.answer, not_answered()))
    chunks = [chunk for chunk in answer["chunks"] if chunk_id in (None, chunk["chunk_id"])]
    why_not = None
    if chunk_id is not None and not chunks:
        why_not = await explanation(caller.gateway, state.query, chunk_id, receive=nobody_leaves)
    stats = answer["stats"]
    return {
        "query_id": answer["query_id"],
        "query": answer["query"],
        "degraded": stats["degraded"],
        "degradations": stats["degradations"],
        "remarks": stats["remarks"],
        "latency_ms": stats["latency_ms"],
        "passages": [{name: chunk[name] for name in tool_shapes.ExplainedPassage.model_fields} for chunk in chunks],
        "why_not": why_not,
    }


async def ingest(caller: Caller, asked: tool_shapes.IngestIn) -> dict[str, Any]:
    """Submit documents."""
    body = orjson.dumps(asked.model_dump(mode="json", exclude_none=True))
    ticket = await caller.gateway.run_heavy(accept_body, body, caller.principal, caller.request_id, caller.gateway)
    caller.gateway.namespaces.forget(caller.principal.tenant_id, Namespace(asked.namespace))
    return {"job_id": ticket.job_id, "status": "queued", "total": ticket.total, "renamed": renamed_json(ticket)}


async def job_status(caller: Caller, asked: tool_shapes.JobIn) -> dict[str, Any]:
    """Return a job's progress, now or at its end."""
    tenant_id, gateway = caller.principal.tenant_id, caller.gateway
    if asked.wait_s > 0:
        await until_finished(tenant_id, known_id(asked.job_id), asked.wait_s, gateway, receive=nobody_leaves)
    return await gateway.run(tool_results.job, tenant_id, asked.job_id, gateway)


async def _every_namespace(caller: Caller) -> tuple[list[str], bool]:
    """Return the tenant's first namespaces, and whether there are more. Raises Problem(503)."""
    gateway = caller.gateway
    try:
        names = await gateway.namespaces.every(caller.principal.tenant_id, limit=_MOST_NAMESPACES + 1)
    except Unavailable as error:
        raise store_lost(error, gateway) from None
    return list(names[:_MOST_NAMESPACES]), len(names) > _MOST_NAMESPACES


def _by_document(chunks: list[Mapping[str, Any]], base_url: str) -> list[dict[str, Any]]:
    """Return the documents in the order of their best passages."""
    documents: dict[str, dict[str, Any]] = {}
    for chunk in chunks:
        name, document_id, metadata = chunk["namespace"], chunk["document_id"], chunk["metadata"]
        identifier = tool_results.found_id(name, document_id)
        if identifier not in documents:
            address = metadata.get("source_uri") or metadata.get("url")
            documents[identifier] = {
                "id": identifier,
                "title": chunk["title"] or document_id,
                "url": tool_results.link(base_url, name, document_id, address),
                "namespace": name,
                "document_id": document_id,
                "text": chunk["text"],
                "passages": [],
            }
        passage = {field: chunk[field] for field in tool_shapes.Passage.model_fields}
        documents[identifier]["passages"].append(passage)
    return list(documents.values())
