"""How one tenant reaches for what another has: for every operation, a request over ids that are not its own.

Three tables say what cannot be read off the description of the interface: which query parameters are ids, what a body
has to hold so that it names another's things, and which operations make something of the asker's own under that name.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx

from tests.support.corpora.planted import QUESTION, Planted, put_part
from tests.support.repository.described import Operation

Body = Callable[[Planted], dict[str, Any]]

# The parameters of queries that name things; the others choose, order or cut what is the asker's own.
ID_PARAMETERS = {
    **{"namespace": "namespaces", "job_id": "jobs", "document_id": "documents", "parent_id": "parents"},
    **{"source_id": "sources", "key_id": "keys", "text": "documents"},
}
OTHER_PARAMETERS = {
    *("limit", "cursor", "wait", "status", "dry_run", "sample", "code", "reason", "state", "since", "until", "rating"),
    *("min_votes", "enabled", "chunk_type", "order_by", "as_of", "name", "on_conflict", "from", "to", "by", "action"),
    *("order", "after", "before", "purpose", "filter", "filters", "offset", "examples", "duplicates", "kind", "range"),
    *("warned", "followed"),
    *("contains", "sizes", "width", "generation", "keep_documents"),
    *("mark", "profile", "name[]", "defaults"),
}

# The operation's own object belongs to the caller, even if another tenant's has the same name.
OWN: dict[str, Body] = {
    "POST /v1/documents": lambda its: {
        "namespace": its.namespace,
        "documents": [{"document_id": its.ids["documents"], "text": "The pump needs oil, says somebody else."}],
    },
    "POST /v1/files": lambda its: {"namespace": its.namespace},
    "POST /v1/examples": lambda its: {
        "namespace": its.namespace,
        "examples": {"qa_examples": [{"user_input": "Mine?", "agent_response": "Mine."}]},
    },
    "POST /v1/webhooks": lambda its: {"url": "http://127.0.0.1:9/"},
    "POST /v1/sources": lambda its: {
        "url": "http://127.0.0.1:9/",
        "namespace": its.namespace,
        "source_id": its.ids["sources"],
    },
    "PUT /v1/api-sources/{name}": lambda its: {
        "url": "http://127.0.0.1:9/",
        "mapping": {"items": "/orders", "id": "/no", "text": "/status"},
    },
    "POST /v1/query-batches": lambda its: {"queries": [_query(its)]},
    "PUT /v1/profiles/{name}": lambda its: {"config": {"top_k": 3}},
    "PUT /v1/experiments/{experiment_id}": lambda its: {
        "experiment": {"arms": [{"name": "a", "share": 0.5}, {"name": "b", "share": 0.5}]}
    },
    "PUT /v1/dictionary": lambda its: {"synonyms": [["mine", "own"]], "stop_words": [], "phrases": []},
    "PUT /v1/entities": lambda its: {
        "namespace": its.namespace,
        "entities": [{"entity_id": its.ids["entities"], "name": "Mine", "story_time": 10, "state": {"is": "mine"}}],
    },
    "POST /v1/chunks/preview": lambda its: {"document": {"document_id": its.ids["documents"], "text": "Mine."}},
    "POST /v1/keys": lambda its: {"name": "mine", "scopes": ["read"]},
    "PUT /v1/namespaces/{namespace}/imports/{import_id}/parts/{part}": lambda its: {},
    "POST /openai/v1/files": lambda its: {"purpose": "assistants"},
    "POST /openai/v1/vector_stores": lambda its: {"name": "mine"},
}

# Everything else that takes a body: another's things are not there.
BODIES: dict[str, Body] = {
    "POST /v1/documents/{document_id}/rollback": lambda its: {"namespace": its.namespace},
    "PATCH /v1/documents": lambda its: {"namespace": its.namespace, "document_ids": [its.ids["documents"]]},
    "DELETE /v1/documents": lambda its: {"namespace": its.namespace, "document_ids": [its.ids["documents"]]},
    "PUT /v1/documents/readers": lambda its: {
        "namespace": its.namespace,
        "document_ids": [its.ids["documents"]],
        "readers": ["user:mine"],
    },
    "POST /v1/dead-letters/replay": lambda its: {"job_id": its.ids["jobs"]},
    "POST /v1/webhooks/{webhook_id}/rotate": lambda its: {},
    "POST /v1/api-sources/{name}/test": lambda its: _query(its),
    "POST /v1/queries": lambda its: _query(its),
    "POST /v1/rag/query": lambda its: _query(its),
    "POST /v1/rag/debug": lambda its: _query(its),
    "POST /internal/recall/test": lambda its: _query(its),
    "POST /v1/queries/{query_id}/why-not": lambda its: {"chunk_id": its.ids["chunks"]},
    "POST /v1/queries/{query_id}/replay": lambda its: {},
    "POST /v1/queries/{query_id}/answer": lambda its: {},
    "POST /v1/chunks/lookup": lambda its: {"chunk_ids": [its.ids["chunks"]]},
    "POST /v1/queries/{query_id}/feedback": lambda its: {"rating": "good", "chunk_id": its.ids["chunks"]},
    "POST /v1/profiles/{name}/activate": lambda its: {"version": 1},
    "POST /v1/verify": lambda its: {"namespaces": [its.namespace], "repair": True},
    "PUT /v1/chunks": lambda its: {"chunks": [{"chunk_id": its.ids["chunks"], "text": "Mine."}]},
    "DELETE /v1/chunks": lambda its: {"chunk_ids": [its.ids["chunks"]]},
    "DELETE /v1/entities": lambda its: {"namespace": its.namespace, "entity_ids": [its.ids["entities"]]},
    "POST /v1/keys/{key_id}/rotate": lambda its: {"overlap_seconds": 0},
    "POST /v1/tenants": lambda its: {"tenant_id": its.tenant, "name": "mine"},
    "PUT /v1/tenants/{tenant_id}/quotas": lambda its: {"documents": 1},
    "POST /v1/tenants/{tenant_id}/keys": lambda its: {"name": "mine", "scopes": ["admin"]},
    "POST /v1/tenants/{tenant_id}/keys/{key_id}/rotate": lambda its: {},
    "POST /v1/admin/embedding-migrations": lambda its: {"provider": "local", "model": "x", "dimension": 64},
    "POST /v1/admin/embedding-migrations/{number}/compare": lambda its: {},
    "POST /v1/admin/embedding-migrations/{number}/switch": lambda its: {},
}

_STORE = "/openai/v1/vector_stores/{vector_store_id}"
BODIES |= {
    f"POST {_STORE}": lambda its: {"name": "mine"},
    f"POST {_STORE}/search": lambda its: {"query": QUESTION},
    f"POST {_STORE}/files": lambda its: {"file_id": its.ids["files"]},
    f"POST {_STORE}/files/{{file_id}}": lambda its: {"attributes": {"mine": "yes"}},
    f"POST {_STORE}/file_batches": lambda its: {"file_ids": [its.ids["files"]]},
    "POST /dify/retrieval": lambda its: {
        "knowledge_id": its.namespace,
        "query": QUESTION,
        "retrieval_setting": {"top_k": 5, "score_threshold": 0.0},
    },
}

# Many tools behind one address, each with its own test of strangers: test_mcp_api.
MANY_IN_ONE = {"POST /mcp"}

FOR_OPERATORS = ("/v1/tenants", "/v1/admin/", "/v1/doctor", "/v1/workers/")

# Operations other than GET for keys with the scope read: queries and ratings, and their deletion.
READING = {
    *("POST /v1/queries", "POST /v1/rag/query", "POST /v1/rag/debug", "DELETE /v1/queries/{query_id}"),
    "POST /internal/recall/test",
    *("POST /v1/query-batches", "DELETE /v1/query-batches/{batch_id}", "POST /v1/query-batches/{batch_id}/cancel"),
    *("POST /v1/queries/{query_id}/why-not", "POST /v1/queries/{query_id}/replay"),
    *("POST /v1/queries/{query_id}/answer", "POST /v1/chunks/lookup"),
    *("POST /v1/queries/{query_id}/feedback", f"POST {_STORE}/search", "POST /dify/retrieval"),
}


def _query(its: Planted) -> dict[str, Any]:
    return {"query_text": QUESTION, "namespaces": [its.namespace]}


def attack(client: httpx.Client, operation: Operation, its: Planted) -> httpx.Response:
    """The operation over another's ids."""
    path = operation.at({"embedding-migrations": "1", **its.ids})
    if operation.media_types == ("application/vnd.chordwise.part",):
        return put_part(client, its.namespace, its.ids["imports"], its.ids["parts"], its.part)
    named = {name: its.ids[key] for name, key in ID_PARAMETERS.items() if name in operation.query}
    if operation.path == "/v1/examples/verification":
        named["job_id"] = its.ids["examples_job"]
    body = (OWN | BODIES).get(str(operation))
    if body is None:
        return client.request(operation.method, path, params=named)
    if operation.media_types == ("multipart/form-data",):
        files = {"file": ("note.txt", b"Mine.", "text/plain")}
        return client.request(operation.method, path, params=named, data=body(its), files=files)
    headers = {"Prefer": "wait=10", "Content-Type": "application/json"}
    return client.request(operation.method, path, params=named, content=json.dumps(body(its)), headers=headers)


def code_of(answer: httpx.Response) -> str:
    """The code of a refusal, in whichever dialect it was said."""
    said = answer.json()
    return str(said.get("code") or said.get("error_code") or said["error"]["code"])


def leaks(answer: httpx.Response, its: Planted) -> list[str]:
    """Return the other tenant's strings in an answer, without those that the caller sent itself."""
    said = _said(answer)
    told = f"{answer.text} {dict(answer.headers)}"
    return [each for each in its.strings() if each.lower() in told.lower() and each.lower() not in said.lower()]


def says_nothing(answer: httpx.Response) -> bool:
    """Whether a success holds no entry and counts nothing, beside what the asker itself said."""
    if answer.status_code == 200 and not answer.content:  # no line of a list of lines
        return True
    if answer.status_code == 204 or "json" not in answer.headers.get("content-type", ""):
        return False
    said = _said(answer)
    return all(leaf in (0, None, False) or str(leaf) in said for leaf in _leaves(answer.json()))


def _said(answer: httpx.Response) -> str:
    try:
        body = answer.request.content.decode(errors="replace")
    except httpx.RequestNotRead:  # a form with files, which names no more than the address does
        body = ""
    return f"{answer.request.url} {body}"


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for each in value.values():
            yield from _leaves(each)
    elif isinstance(value, list):
        for each in value:
            yield from _leaves(each)
    else:
        yield value
