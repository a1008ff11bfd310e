"""What each MCP tool does: the calls of the interface, in the words of agents."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from starlette.types import Message

from api_gateway.dialects.mcp import tool_results as reading
from api_gateway.dialects.mcp import tool_shapes as shapes
from api_gateway.gateway import Gateway
from api_gateway.http.bodies import Decoded
from api_gateway.http.problems import Problem
from api_gateway.http.responses import renamed
from api_gateway.live.ask import answer_of, asked_query, current_state, retrieved, store_lost
from api_gateway.resources.ingestion.documents import accept_body
from api_gateway.resources.jobs import known_id, until_finished
from api_gateway.resources.retrieval.explanations import explanation, known_chunk_id
from api_gateway.resources.retrieval.queries import known_id as known_query_id
from pipeline.errors import Unavailable
from pipeline.records import Namespace
from pipeline.tenants.tenant_store import Principal

_MOST_NAMESPACES = 32  # as many as one query takes


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who calls a tool, through which gateway, and the address by which he knows it."""

    principal: Principal
    gateway: Gateway
    request_id: str
    base_url: str
    received_at: float  # seconds since the epoch


Call = Callable[[Caller, Any], Awaitable[dict[str, Any]]]


async def nobody_leaves() -> Message:
    """Stands for the ``receive`` of a request whose end the protocol's own code watches."""
    await asyncio.Event().wait()
    raise AssertionError("nobody sets it")


async def search(caller: Caller, asked: shapes.SearchIn) -> dict[str, Any]:
    """Ask, and put the passages together by document."""
    remarks: list[str] = []
    names = asked.namespaces
    if names is None:
        every, more = await _every_namespace(caller)
        names = list(every)
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


async def fetch(caller: Caller, asked: shapes.FetchIn) -> dict[str, Any]:
    """Read a document; what the tenant's default profile masks in answers is masked here."""
    anything = Decoded({"query_text": "?", "namespaces": ["any"]})
    usual = await asked_query(anything, caller.principal, caller.gateway, request_id=caller.request_id)
    privacy = usual.plan.privacy
    hide = privacy.kinds if privacy.mask_answers else ()
    return await caller.gateway.run(
        lambda: reading.fetched(asked, caller.principal, caller.gateway, base_url=caller.base_url, hide=hide)
    )


async def list_namespaces(caller: Caller, asked: shapes.NamespacesIn) -> dict[str, Any]:
    """One page of namespaces."""
    tenant_id = caller.principal.tenant_id
    return await caller.gateway.run(reading.namespaces, tenant_id, caller.gateway, after=asked.after)


async def explain(caller: Caller, asked: shapes.ExplainIn) -> dict[str, Any]:
    """Why an answer is as it is, and where a passage was lost that is not in it."""
    known = known_query_id(asked.query_id)
    chunk_id = None if asked.chunk_id is None else known_chunk_id(asked.chunk_id)
    state = await caller.gateway.run(current_state, caller.principal.tenant_id, known, caller.gateway)
    if state.answer is None:
        raise Problem(409, "query_not_answered", "The query is not answered yet.")
    answer: dict[str, Any] = orjson.loads(state.answer)
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
        "passages": [{name: chunk[name] for name in shapes.ExplainedPassage.model_fields} for chunk in chunks],
        "why_not": why_not,
    }


async def ingest(caller: Caller, asked: shapes.IngestIn) -> dict[str, Any]:
    """Hand in documents."""
    body = orjson.dumps(asked.model_dump(mode="json", exclude_none=True))
    ticket = await caller.gateway.run_heavy(accept_body, body, caller.principal, caller.request_id, caller.gateway)
    caller.gateway.namespaces.forget(caller.principal.tenant_id, Namespace(asked.namespace))
    return {"job_id": ticket.job_id, "status": "queued", "total": ticket.total, "renamed": renamed(ticket)}


async def job_status(caller: Caller, asked: shapes.JobIn) -> dict[str, Any]:
    """Look at a job, or wait for its end."""
    tenant_id, gateway = caller.principal.tenant_id, caller.gateway
    if asked.wait_s > 0:
        await until_finished(tenant_id, known_id(asked.job_id), asked.wait_s, gateway, receive=nobody_leaves)
    return await gateway.run(reading.job, tenant_id, asked.job_id, gateway)


async def _every_namespace(caller: Caller) -> tuple[Sequence[str], bool]:
    """Return the tenant's first namespaces, and whether there are more. Raises Problem(503)."""
    gateway = caller.gateway
    try:
        names = await gateway.namespaces.every(caller.principal.tenant_id, limit=_MOST_NAMESPACES + 1)
    except Unavailable as error:
        raise store_lost(error, gateway) from None
    return names[:_MOST_NAMESPACES], len(names) > _MOST_NAMESPACES


def _by_document(chunks: list[Mapping[str, Any]], base_url: str) -> list[dict[str, Any]]:
    """Documents in the order of their best passages."""
    found: dict[str, dict[str, Any]] = {}
    for chunk in chunks:
        name, document_id, metadata = chunk["namespace"], chunk["document_id"], chunk["metadata"]
        document = found.setdefault(
            reading.found_id(name, document_id),
            {
                "id": reading.found_id(name, document_id),
                "title": chunk["title"] or document_id,
                "url": reading.link(base_url, name, document_id, metadata.get("source_uri") or metadata.get("url")),
                "namespace": name,
                "document_id": document_id,
                "text": chunk["text"],
                "passages": [],
            },
        )
        document["passages"].append({field: chunk[field] for field in shapes.Passage.model_fields})
    return list(found.values())
