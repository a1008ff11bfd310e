"""The functions behind the MCP tools and resources: calls of the interface with agents' arguments and results."""

import uuid
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, get_type_hints
from urllib.parse import quote

import orjson
from mcp import types
from pydantic import BaseModel

from api_gateway.dialects.mcp import tool_shapes
from api_gateway.http.bodies import Decoded
from api_gateway.http.caller import Caller
from api_gateway.http.fields import shown, tidy_document_id, tidy_namespace
from api_gateway.http.problems import Problem
from api_gateway.live.ask import answer_of, asked_query, current_state, retrieved, store_lost
from api_gateway.resources.ingestion.documents import accept_body
from api_gateway.resources.jobs import parse_job_id, until_finished, view_of
from api_gateway.resources.retrieval.explanations import explanation, not_answered, parse_chunk_id
from api_gateway.resources.retrieval.queries import parse_query_id, require_own_query
from api_gateway.resources.route_parts import existing, parse
from api_gateway.resources.shapes import document_json
from chordwise.contract.document import COMPARED
from pipeline.administration import list_documents
from pipeline.administration.list_documents import read_passages
from pipeline.answer.mask_answers import masked_value
from pipeline.documents.clean_text import joined
from pipeline.documents.document_view_store import DocumentViews
from pipeline.documents.document_views import DocumentSelection, DocumentView
from pipeline.outages import raise_for_outage
from pipeline.privacy.redaction import MaskedKind
from pipeline.records import ChunkId, DocumentId, Namespace

_MOST_NAMESPACES = 32  # the limit of one query
NAMESPACES_PER_PAGE = 100
_DOCUMENTS_SHOWN = 50
_JOB_FIELDS = ("job_id", "namespace", "status", "total", "succeeded", "failed", "cancelled", "chunks")
_JOB_ERRORS = 20


Call = Callable[[Caller, Any], Awaitable[dict[str, Any]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolEntry:
    """A tool as it is listed, the shape of its arguments, its function, and the scope that a key needs for it."""

    name: str
    listed: types.Tool
    takes: type[BaseModel]
    call: Call
    scope: str


TOOLS: Final[dict[str, ToolEntry]] = {}


def tool(
    title: str, description: str, gives: type[BaseModel], *, scope: str = "read", idempotent: bool = True
) -> Callable[[Call], Call]:
    """Offer a function to agents as a tool of its name; its second parameter has the arguments."""

    def offer(call: Call) -> Call:
        name, takes = call.__name__, get_type_hints(call)["arguments"]
        listed = types.Tool(
            name=name,
            title=title,
            description=description,
            input_schema={**takes.model_json_schema(mode="validation"), "type": "object"},
            output_schema={**gives.model_json_schema(mode="serialization"), "type": "object"},
            annotations=types.ToolAnnotations(
                title=title,
                read_only_hint=scope == "read" or name == "job_status",
                destructive_hint=name == "ingest",  # it may replace a document with the same id
                idempotent_hint=idempotent,
                open_world_hint=False,
            ),
        )
        TOOLS[name] = ToolEntry(name=name, listed=listed, takes=takes, call=call, scope=scope)
        return call

    return offer


@tool(
    "Search the knowledge bases",
    "Finds passages that answer a question, by words and by meaning, and names the documents they are from. "
    "Read a whole document with fetch.",
    tool_shapes.SearchOut,
)
async def search(caller: Caller, arguments: tool_shapes.SearchIn) -> dict[str, Any]:
    """Query the namespaces, and group the passages by document."""
    remarks: list[str] = []
    names = arguments.namespaces
    if names is None:
        names, more = await _every_namespace(caller)
        if more:
            remarks.append(f"only the first {len(names)} namespaces were searched; name the ones to search")
    if not names:
        return {"results": [], "query_id": None, "degraded": False, "remarks": ["there is no namespace yet"]}
    body = {"query_text": arguments.query, "namespaces": names, "top_k": arguments.top_k}
    if arguments.filters is not None:
        body["filters"] = arguments.filters.model_dump(mode="json", exclude_none=True)
    query = await asked_query(Decoded(body, suspicious=True), caller)
    answer = retrieved(await answer_of(query, caller))
    stats = answer["stats"]
    remarks += [*stats["remarks"], *(f"{loss['part']}: {loss['detail']}" for loss in stats["degradations"])]
    return {
        "results": _by_document(answer["chunks"], str(caller.request.base_url)),
        "query_id": answer["query_id"],
        "degraded": stats["degraded"],
        "remarks": remarks,
    }


@tool(
    "Read a document",
    "Gives the text of a document that search has found, or of a single passage.",
    tool_shapes.FetchOut,
)
async def fetch(caller: Caller, arguments: tool_shapes.FetchIn) -> dict[str, Any]:
    """Read a document, masked as the tenant's default profile masks answers."""
    anything = Decoded({"query_text": "?", "namespaces": ["any"]})
    usual = await asked_query(anything, caller)
    privacy = usual.plan.privacy
    hide = privacy.kinds if privacy.mask_answers else ()
    return await caller.gateway.run(fetched, arguments, caller, hide=hide)


@tool(
    "List the knowledge bases",
    "Names the knowledge bases (namespaces) that can be searched, and how much is in each.",
    tool_shapes.NamespacesOut,
)
async def list_namespaces(caller: Caller, arguments: tool_shapes.NamespacesIn) -> dict[str, Any]:
    """Return one page of namespaces."""
    return await caller.gateway.run(namespaces, caller, after=arguments.after)


@tool(
    "Explain an answer",
    "Says why the passages of an earlier search stand where they do; for a passage that was expected and not "
    "found, at which stage it was lost.",
    tool_shapes.ExplainOut,
)
async def explain(caller: Caller, arguments: tool_shapes.ExplainIn) -> dict[str, Any]:
    """Explain the hits of an answer, and where a missing passage was lost."""
    parsed_id = parse_query_id(arguments.query_id)
    chunk_id = None if arguments.chunk_id is None else parse_chunk_id(arguments.chunk_id)
    await require_own_query(caller, parsed_id)
    state = await caller.gateway.run(current_state, caller.tenant_id, parsed_id, caller.gateway)
    answer: dict[str, Any] = orjson.loads(existing(state.answer, not_answered()))
    chunks = [chunk for chunk in answer["chunks"] if chunk_id in (None, chunk["chunk_id"])]
    why_not = None
    if chunk_id is not None and not chunks:
        why_not = await explanation(caller, state.query, chunk_id)
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


@tool(
    "Add documents",
    "Stores documents in a knowledge base. A document replaces an earlier one with the same id. "
    "Searches see them when job_status says succeeded, usually within seconds.",
    tool_shapes.IngestOut,
    scope="write",
    idempotent=False,  # a document without an id gets a new one each time
)
async def ingest(caller: Caller, arguments: tool_shapes.IngestIn) -> dict[str, Any]:
    """Submit documents."""
    body = orjson.dumps(arguments.model_dump(mode="json", exclude_none=True))
    accepted = await caller.gateway.run_heavy(accept_body, caller, body)
    caller.gateway.namespaces.forget(caller.tenant_id, Namespace(arguments.namespace))
    return {"job_id": accepted.job_id, "status": "queued", "total": accepted.total, "renamed": accepted.renamed}


@tool(
    "Follow an ingestion",
    "Reports the progress of an ingest call, and the documents that failed, with the reasons.",
    tool_shapes.JobOut,
    scope="write",
)
async def job_status(caller: Caller, arguments: tool_shapes.JobIn) -> dict[str, Any]:
    """Return a job's progress, now or at its end."""
    if arguments.wait_s > 0:
        await until_finished(caller, parse_job_id(arguments.job_id), arguments.wait_s)
    return await caller.gateway.run(job, caller, arguments.job_id)


async def _every_namespace(caller: Caller) -> tuple[list[str], bool]:
    """Return the tenant's first namespaces, and whether there are more. Raises Problem(503)."""
    gateway = caller.gateway
    with raise_for_outage(partial(store_lost, gateway=gateway)):
        names = await gateway.namespaces.every(caller.tenant_id, limit=_MOST_NAMESPACES + 1)
    return list(names[:_MOST_NAMESPACES]), len(names) > _MOST_NAMESPACES


def _by_document(chunks: list[Mapping[str, Any]], base_url: str) -> list[dict[str, Any]]:
    """Return the documents in the order of their best passages."""
    documents: dict[str, dict[str, Any]] = {}
    for chunk in chunks:
        name, document_id, metadata = chunk["namespace"], chunk["document_id"], chunk["metadata"]
        identifier = found_id(name, document_id)
        if identifier not in documents:
            address = metadata.get("source_uri") or metadata.get("url")
            documents[identifier] = {
                "id": identifier,
                "title": chunk["title"] or document_id,
                "url": link(base_url, name, document_id, address),
                "namespace": name,
                "document_id": document_id,
                "text": chunk["text"],
                "passages": [],
            }
        passage = {field: chunk[field] for field in tool_shapes.Passage.model_fields}
        documents[identifier]["passages"].append(passage)
    return list(documents.values())


def found_id(namespace: str, document_id: str) -> str:
    """Return the id of a document in search results. Unambiguous, because no namespace contains a slash."""
    return f"{namespace}/{document_id}"


def link(base_url: str, namespace: str, document_id: str, source_uri: object) -> str:
    """Return a link for people: the document's own address, or its page in the interface."""
    if isinstance(source_uri, str) and source_uri.startswith(("http://", "https://")):
        return source_uri
    return f"{base_url}v1/documents/{quote(document_id, safe='')}?namespace={quote(namespace, safe='')}"


def namespaces(caller: Caller, *, after: str | None = None, limit: int = NAMESPACES_PER_PAGE) -> dict[str, Any]:
    """Return one page of namespaces, and the name to continue after."""
    reads_as = caller.reads_as if caller.principal.is_limited else None
    views = list_documents.list_namespaces(
        caller.tenant_id, caller.use, reads_as=reads_as, after=after, limit=limit + 1
    )
    rows = [shown(tool_shapes.NamespaceOut, view) for view in views[:limit]]
    return {"namespaces": rows, "next": rows[-1]["namespace"] if len(views) > limit else None}


async def namespace(caller: Caller, name: str) -> dict[str, Any]:
    """Return a namespace with its first documents. Raises Problem 404."""
    not_found = Problem(404, "namespace_not_found", "There is no such namespace.")
    valid_name = Namespace(parse(tidy_namespace, name, not_found))
    await caller.gateway.namespaces.require(caller.tenant_id, [valid_name])
    selection = DocumentSelection(namespace=valid_name)
    read = partial(DocumentViews.views, reads_as=caller.reads_as, limit=_DOCUMENTS_SHOWN + 1)
    views = await caller.gateway.run(caller.read, DocumentViews, read, selection)
    documents = [
        {"id": found_id(valid_name, view.document_id), "title": view.fields.title, "chunks": view.chunk_count}
        for view in views[:_DOCUMENTS_SHOWN]
    ]
    return {"namespace": valid_name, "documents": documents, "more": len(views) > _DOCUMENTS_SHOWN}


def job(caller: Caller, job_id: str) -> dict[str, Any]:
    """Return a job's progress. Raises Problem(404)."""
    view = view_of(caller, parse_job_id(job_id))
    return {**{name: getattr(view, name) for name in _JOB_FIELDS}, "errors": view.errors[:_JOB_ERRORS]}


def fetched(arguments: tool_shapes.FetchIn, caller: Caller, *, hide: Collection[MaskedKind]) -> dict[str, Any]:
    """Return a section of the text of a document or passage, masked by ``hide``. Raises Problem(404)."""
    chunk_id = _chunk_id(arguments.id)
    passages = read_passages(
        caller.tenant_id, chunk_id or _document(arguments.id), caller.use, reads_as=caller.reads_as
    )
    view, chunks = existing(passages, _not_found())
    text = joined(chunk.passage for chunk in chunks)
    content: dict[str, Any] = {
        "title": view.fields.title or view.document_id,
        "text": text,
        "metadata": _metadata(view, caller),
    }
    if hide:
        content = masked_value(content, hide)
    section = content["text"][arguments.offset : arguments.offset + arguments.max_chars]
    end, length = arguments.offset + len(section), len(content["text"])
    size = {"characters": length, **({"next_offset": end} if end < length else {})}
    return {
        "id": arguments.id,
        "title": content["title"],
        "text": section,
        "url": link(str(caller.request.base_url), view.namespace, view.document_id, view.source_uri),
        "metadata": {**content["metadata"], **size, **({"chunk_id": chunk_id} if chunk_id else {})},
    }


def _chunk_id(given: str) -> ChunkId | None:
    """Return the id if it is a passage's, None if it is a document's."""
    try:
        return ChunkId(str(uuid.UUID(given)))
    except ValueError:
        return None


def _document(given: str) -> tuple[Namespace, DocumentId]:
    name, _, document_id = given.partition("/")
    namespace = Namespace(parse(tidy_namespace, name, _not_found()))
    return namespace, DocumentId(parse(tidy_document_id, document_id, _not_found()))


def _metadata(view: DocumentView, caller: Caller) -> dict[str, Any]:
    document = document_json(view, reads_as=caller.reads_as)
    names = ("namespace", "document_id", *COMPARED, "tags", "published_at", "generation", "updated_at")
    described = {name: document[name] for name in names if document[name] not in (None, [], ())}
    return {**view.fields.metadata, **described}


def _not_found() -> Problem:
    detail = "There is no such document; use the id of a search result, which is namespace/document_id."
    return Problem(404, "document_not_found", detail)
