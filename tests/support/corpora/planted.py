"""One of everything that a tenant can have, made through the gateway, and the ids by which it is reached.

``Planted.ids`` are keyed by the part of a path that stands before the id: ``/v1/jobs/{job_id}`` is reached by ``jobs``.
Every text holds a marker that occurs nowhere else, so that wherever it turns up, something of this tenant has got out.
"""

from __future__ import annotations

import base64
import hashlib
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
from sqlalchemy import text

from pipeline.database.unit_of_work import unit_of_work
from pipeline.documents.followed_store import FollowedSources
from pipeline.jobs.computation import MOST_IN_REDIS, Computation, ComputationId, ComputationKind
from pipeline.jobs.computation_store import Computations
from pipeline.jobs.outbox_store import Outbox
from pipeline.records import Namespace, TenantId
from pipeline.resources import Resources
from pipeline.webhooks.endpoint_store import Webhooks
from tests.support.clients.operating import eventually
from tests.support.corpora.documents import finished, search, upload

PART = "application/vnd.chordwise.part"
QUESTION = "which pump needs oil"


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """The planted resources and their ids. ``marker`` stands in every text, ``ids`` lead to every thing."""

    tenant: TenantId
    marker: str
    ids: dict[str, str] = field(default_factory=dict)
    part: bytes = b""

    @property
    def namespace(self) -> str:
        return self.ids["namespaces"]

    def strings(self) -> Iterator[str]:
        """Return the strings that no other tenant may see. Short ids are no secrets: others may have the same."""
        yield self.marker
        yield self.tenant
        yield from (value for value in self.ids.values() if len(value) >= 8)


def plant(client: httpx.Client, tenant: TenantId, use: Resources) -> Planted:
    """Make one of everything with the client's key, which has all scopes but the operator's."""
    marker = f"Mark{uuid.uuid4().hex[:20]}"
    planted = Planted(tenant=tenant, marker=marker)
    made = planted.ids
    made["tenants"] = tenant
    made["namespaces"] = f"ns-{uuid.uuid4().hex[:12]}"
    made["documents"] = f"doc-{uuid.uuid4().hex[:12]}"
    made["sources"] = f"source-{uuid.uuid4().hex[:12]}"
    for put in (
        _corpus,
        _followed,
        _words,
        _query,
        _batch,
        _routing,
        _dead_letter,
        _webhook,
        _archive,
        _key,
        _stored_file,
        _computation,
    ):
        for name, value in put(client, planted, use).items():
            made[name] = value
    part = client.get(f"/v1/namespaces/{planted.namespace}/export", params={"limit": 1})
    made["pages"] = "1"
    made["workers"] = "no-host"
    return Planted(tenant=tenant, marker=marker, ids=made, part=part.content)


def _computation(client: httpx.Client, planted: Planted, use: Resources) -> dict[str, str]:
    """A preview of a large document that no worker has taken yet."""
    computation = Computation(
        tenant_id=planted.tenant,
        computation_id=ComputationId(uuid.uuid4().hex),
        kind=ComputationKind.PREVIEW,
        asked={"title": planted.marker},
        body=f"{planted.marker} ".encode() * (MOST_IN_REDIS // len(planted.marker)),
    )
    Computations(use.redis, lambda: use.mysql, planted.tenant).open(computation, begin_s=600)
    return {}


def sent(answer: httpx.Response) -> dict[str, Any]:
    """The body of an answer that has to be a success."""
    assert answer.is_success, f"{answer.request.method} {answer.request.url}: {answer.status_code} {answer.text}"
    return dict(answer.json()) if answer.content else {}


def put_part(client: httpx.Client, namespace: str, import_id: str, number: str, body: bytes) -> httpx.Response:
    """Send one part of an archive."""
    digest = f"sha-256=:{base64.b64encode(hashlib.sha256(body).digest()).decode()}:"
    headers = {"Content-Type": PART, "Content-Digest": digest}
    return client.put(f"/v1/namespaces/{namespace}/imports/{import_id}/parts/{number}", content=body, headers=headers)


def _corpus(client: httpx.Client, planted: Planted, use: Resources) -> dict[str, str]:
    marker, namespace = planted.marker, planted.namespace
    fields = {"title": f"Title {marker}", "author": f"Author {marker}", "tags": [marker], "type": f"t{marker}"}
    text = f"The pump needs oil, says {marker}.\n\nThe valve of {marker} is closed."
    source = {"source_id": planted.ids["sources"]}
    document = {"document_id": planted.ids["documents"], "text": text, "metadata": {"m": marker}, **fields}
    document["source"] = source
    upload(client, namespace, [{**document, "text": f"An older text of {marker}."}])
    chunking = {"strategy": "parent_child", "max_tokens": 40}
    job = upload(
        client,
        namespace,
        [document, {"document_id": "other", "text": f"A filter of {marker}.", "source": source}],
        chunking=chunking,
    )
    assert job["status"] == "succeeded", job
    examples = [
        {
            "user_input": f"How is {marker} oiled?",
            "agent_response": f"With the oil of {marker}.",
            "quality_grade": "优秀",
        }
    ]
    asked = {"namespace": namespace, "examples": {"qa_examples": examples}}
    examples_job = sent(client.post("/v1/examples", json=asked))["job_id"]
    finished(client, examples_job)
    chunks = sent(client.get("/v1/chunks", params={"namespace": namespace, "limit": 200}))["data"]
    parents = [chunk["parent_id"] for chunk in chunks if chunk.get("parent_id")]
    searched = next(chunk["chunk_id"] for chunk in chunks if chunk["chunk_id"] not in parents)
    found = {"jobs": job["job_id"], "examples_job": examples_job, "chunks": searched}
    return found | ({"parents": parents[0]} if parents else {})


def _followed(client: httpx.Client, planted: Planted, use: Resources) -> dict[str, str]:
    """By way of the store: a run would fail, and change what tests count."""
    namespace, source_id = Namespace(planted.namespace), planted.ids["sources"]
    with unit_of_work(use.mysql) as work:
        store = FollowedSources(work.connection, planted.tenant)
        store.put(namespace, source_id, f"http://127.0.0.1:9/{planted.marker}/", 3600, "[]", None)
        store.schedule(namespace, source_id, None)
    return {}


def _words(client: httpx.Client, planted: Planted, use: Resources) -> dict[str, str]:
    marker, namespace = planted.marker, planted.namespace
    words = {"synonyms": [[marker.lower(), "pump"]], "stop_words": [], "phrases": []}
    sent(client.put("/v1/dictionary", params={"namespace": namespace}, json=words))
    sent(client.put("/v1/dictionary", json=words))
    entity = {
        "entity_id": f"ent-{uuid.uuid4().hex[:8]}",
        "name": f"Pump {marker}",
        "story_time": 10,
        "state": {"is": marker},
    }
    sent(client.put("/v1/entities", json={"namespace": namespace, "entities": [entity]}))
    return {"entities": entity["entity_id"]}


def _query(client: httpx.Client, planted: Planted, use: Resources) -> dict[str, str]:
    asked = {"query_text": f"{QUESTION} {planted.marker}", "namespaces": [planted.namespace]}
    traced = sent(client.post("/v1/rag/debug", json={**asked, "session_id": planted.marker}))
    search(client, planted.namespace, QUESTION)  # without the marker: another tenant will ask the same
    said = {"rating": "good", "chunk_id": traced["chunks"][0]["chunk_id"], "note": f"Note {planted.marker}"}
    rated = sent(client.post(f"/v1/queries/{traced['query_id']}/feedback", json=said))
    return {"queries": traced["query_id"], "feedback": rated["feedback_id"]}


def _routing(client: httpx.Client, planted: Planted, use: Resources) -> dict[str, str]:
    profile, experiment, source = (f"{kind}-{uuid.uuid4().hex[:8]}" for kind in ("prof", "exp", "src"))
    sent(client.put(f"/v1/profiles/{profile}", json={"config": {"top_k": 2}, "note": f"Note {planted.marker}"}))
    arms = [{"name": "a", "share": 0.5}, {"name": f"b{planted.marker}", "share": 0.5}]
    sent(client.put(f"/v1/experiments/{experiment}", json={"experiment": {"arms": arms}}))
    mapping = {"items": "/orders", "id": "/no", "title": "/customer", "text": "/status"}
    body = {"url": f"http://127.0.0.1:9/{planted.marker}", "mapping": mapping, "headers": {"X-Key": planted.marker}}
    stored = client.put(f"/v1/api-sources/{source}", json=body)
    if stored.status_code == 422:  # without CHORDWISE_SECRET_KEY no header is kept
        stored = client.put(f"/v1/api-sources/{source}", json={**body, "headers": {}})
    sent(stored)
    return {"profiles": profile, "experiments": experiment, "api-sources": source}


def _dead_letter(client: httpx.Client, planted: Planted, use: Resources) -> dict[str, str]:
    empty = {
        "document_id": f"dead-{planted.marker}",
        "text": f"<!-- {planted.marker} -->",
        "source": {"media_type": "text/html"},
    }
    job = upload(client, planted.namespace, [empty])
    with unit_of_work(use.mysql) as work:  # a failure that another attempt may help, so that it can be replayed
        work.connection.execute(
            text("UPDATE job_items SET error_code = 'parser_memory' WHERE tenant_id = :tenant AND job_id = :job"),
            {"tenant": planted.tenant, "job": job["job_id"]},
        )
    letters = sent(client.get("/v1/dead-letters", params={"job_id": job["job_id"]}))["data"]
    return {"dead-letters": letters[0]["id"]}


def _webhook(client: httpx.Client, planted: Planted, use: Resources) -> dict[str, str]:
    """By way of the store: no address on loopback is taken, and none on the internet is to be called."""
    webhook_id, url = str(uuid.uuid4()), f"http://127.0.0.1:9/{planted.marker}"
    with unit_of_work(use.mysql) as work:
        Webhooks(work.connection, planted.tenant).add(webhook_id, url, ["job.failed"], b"sealed")
        delivery_id = Outbox(work.connection, planted.tenant).test(webhook_id)
    return {"webhooks": webhook_id, "deliveries": delivery_id}


def _archive(client: httpx.Client, planted: Planted, use: Resources) -> dict[str, str]:
    exported = client.get(f"/v1/namespaces/{planted.namespace}/export", params={"limit": 1})
    import_id = f"imp-{uuid.uuid4().hex[:12]}"
    finished(client, sent(put_part(client, planted.namespace, import_id, "1", exported.content))["job_id"])
    return {"imports": import_id, "parts": "1"}


def _batch(client: httpx.Client, planted: Planted, use: Resources) -> dict[str, str]:
    body = {"queries": [{"id": planted.marker, "query_text": QUESTION, "namespaces": [planted.namespace]}]}
    batch = sent(client.post("/v1/query-batches", json=body))["job_id"]
    finished(client, batch)
    return {"query-batches": batch}


def _key(client: httpx.Client, planted: Planted, use: Resources) -> dict[str, str]:
    made = sent(client.post("/v1/keys", json={"name": f"Key {planted.marker}", "scopes": ["read"]}))
    return {"keys": made["key_id"]}


def _stored_file(client: httpx.Client, planted: Planted, use: Resources) -> dict[str, str]:
    """A namespace is a vector store, called by its name; one made as a store has a name of its own beside it."""
    made = client.post(
        "/openai/v1/vector_stores",
        json={"name": f"Store {planted.marker}"},
        headers={"Idempotency-Key": planted.marker},
    )
    sent(made)
    file = {"file": (f"{planted.marker}.txt", f"A file of {planted.marker}.".encode(), "text/plain")}
    file_id = sent(client.post("/openai/v1/files", data={"purpose": "assistants"}, files=file))["id"]
    store = f"/openai/v1/vector_stores/{planted.namespace}"
    batch = sent(client.post(f"{store}/file_batches", json={"file_ids": [file_id]}))["id"]
    eventually(lambda: sent(client.get(f"{store}/file_batches/{batch}"))["status"] == "completed", within_s=60)
    return {"files": file_id, "vector_stores": planted.namespace, "file_batches": batch}


def audit_rows(client: httpx.Client) -> list[str]:
    """The ids of the audit's rows, once the planted searches are among them."""

    def look() -> list[str]:
        rows = sent(client.get("/v1/audit", params={"limit": 200}))["data"]
        return [row["audit_id"] for row in rows] if any(row["action"] == "search" for row in rows) else []

    return eventually(look, within_s=30)
