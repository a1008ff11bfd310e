"""A small HTTP server that speaks the contract, for tests of the client: in memory, and told what to do wrong."""

from __future__ import annotations

import email.parser
import email.policy
import json
import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.support.servers.http_server import serving

KEY = "demo-key"


@dataclass(frozen=True)
class Received:
    """One request as the server saw it."""

    method: str
    path: str
    params: dict[str, list[str]]
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    def parts(self) -> list[tuple[str, str | None, str, bytes]]:
        """The parts of a multipart body: field name, file name, media type, content."""
        head = f"Content-Type: {self.headers['content-type']}\r\n\r\n".encode()
        message = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(head + self.body)
        return [
            (
                part.get_param("name", header="content-disposition"),
                part.get_filename(),
                part.get_content_type(),
                part.get_payload(decode=True),
            )
            for part in message.iter_parts()
        ]


@dataclass
class Reply:
    """One scripted answer. ``drop`` closes the connection instead."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    drop: bool = False

    @property
    def is_problem(self) -> bool:
        return self.status >= 400 and "Content-Type" not in self.headers


def problem(status: int, code: str, detail: str, **more: Any) -> Reply:
    body = {"type": "about:blank", "title": code, "status": status, "code": code, "detail": detail, **more}
    return Reply(status=status, body=body)


class GatewayStub:
    """Holds documents, jobs and queries. ``next`` answers requests out of turn, first in first out; ``received`` is a
    log. A job is final at its ``looks_until_done``-th look; a document whose text is "bad" fails."""

    def __init__(self) -> None:
        self.received: list[Received] = []
        self.next: deque[Reply] = deque()
        self.documents: dict[str, dict[str, dict[str, Any]]] = {}
        self.jobs: dict[str, dict[str, Any]] = {}
        self.looks_until_done = 1
        self.items: dict[str, list[dict[str, Any]]] = {}
        self.late_queries = False
        self.answer: Callable[[dict[str, Any]], dict[str, Any]] | None = None
        self.explained: list[str] = []
        self.drift = {"missing": 0, "orphaned": 0, "stale": 0}
        self.withheld = 0  # of what is orphaned, until its deletion is confirmed
        self.dependencies: dict[str, dict[str, Any]] = {
            name: {"status": "ok", "latency_ms": 1.2} for name in ("mysql", "postgres", "redis", "broker", "workers")
        }
        self.findings: list[dict[str, str]] | None = [
            {"check": "queues", "severity": "ok", "detail": "5", "advice": ""}
        ]
        self._queries: dict[str, dict[str, Any]] = {}
        self._batches: dict[str, list[dict[str, Any]]] = {}
        self.asked: list[dict[str, Any]] = []  # the bodies of all queries, of batches too
        self._looks: dict[str, int] = {}
        self._lock = threading.Lock()
        self.url = ""

    def paths(self) -> list[str]:
        return [f"{request.method} {request.path}" for request in self.received]

    def reply(self, request: Received) -> Reply:
        with self._lock:
            self.received.append(request)
            if self.next:
                return self.next.popleft()
            if request.path == "/v1/doctor":
                refused = problem(403, "insufficient_scope", "The API key does not have the scope operator.")
                return refused if self.findings is None else Reply(body={"ok": True, "findings": self.findings})
            public = request.path in ("/readyz", "/healthz", "/openapi.json")
            if not public and request.headers.get("authorization") != f"Bearer {KEY}":
                return problem(401, "unauthorized", "the API key is not valid", request_id="r-1")
            return self._route(request)

    def _usage(self, request: Received) -> Reply:
        """Two days, a page each."""
        counts = {"tokens": 1200, "requests": 3, "texts": 40, "cached": 5, "saved_tokens": 150, "cost": 0.000024}
        second = "cursor" in request.params
        rows = [{"key": "2026-03-02" if second else "2026-03-01", **counts}]
        total = {**counts, "tokens": 2400}
        body = {"from": "2026-03-01", "to": "2026-03-31", "by": "day", "total": total, "data": rows}
        return Reply(body={**body, "next_cursor": None if second else "two"})

    def _route(self, request: Received) -> Reply:
        match [request.method, *map(unquote, request.path.strip("/").split("/"))]:
            case ["POST", "v1", "documents"]:
                body = request.json()
                return self._accept(body["namespace"], body["documents"])
            case ["POST", "v1", "files"]:
                parts = request.parts()
                namespace = next(content.decode() for name, _, _, content in parts if name == "namespace")
                named = [(name, content) for _, name, _, content in parts if name]
                return self._accept(namespace, [{"document_id": n, "text": c.decode("latin-1")} for n, c in named])
            case ["GET", "v1", "jobs"]:
                return self._page(request, list(self.jobs.values()))
            case ["GET", "v1", "usage"]:
                return self._usage(request)
            case ["GET", "v1", "jobs", job_id]:
                return self._job(job_id)
            case ["GET", "v1", "jobs", job_id, "items"]:
                return self._page(request, self.items.get(job_id, []))
            case ["POST", "v1", "queries"]:
                return self._query(request)
            case ["POST", "v1", "query-batches"]:
                return self._batch(request.json())
            case ["GET", "v1", "query-batches", batch_id, "results"]:
                rest = self._batches[batch_id][int(request.params["after"][0]) + 1 :]
                lines = "".join(json.dumps(line) + "\n" for line in rest[: int(request.params["limit"][0])])
                return Reply(body=lines, headers={"Content-Type": "application/x-ndjson"})
            case ["DELETE", "v1", "query-batches", _]:
                return Reply(status=204)
            case ["GET", "v1", "queries", query_id]:
                return Reply(body=self._queries[query_id])
            case ["GET", "v1", "queries", query_id, "trace"]:
                return Reply(body={"query_id": query_id, "explained": self.explained})
            case ["GET", "v1", "documents"]:
                wanted = request.params.get("namespace", list(self.documents))
                listed = [{"namespace": n, **d} for n in wanted for d in self.documents.get(n, {}).values()]
                return self._page(request, listed)
            case ["DELETE", "v1", "documents", document_id]:
                held = self.documents.get(request.params["namespace"][0], {})
                gone = held.pop(document_id, None)
                return Reply(status=204) if gone else problem(404, "not_found", "there is no such document")
            case ["GET", "v1", "namespaces"]:
                sizes = [{"namespace": n, "documents": len(d), "chunks": len(d)} for n, d in self.documents.items()]
                return self._page(request, sizes)
            case ["POST", "v1", "verify"]:
                return self._verify(request.json())
            case ["GET", "readyz"]:
                ready = all(dependency["status"] == "ok" for dependency in self.dependencies.values())
                body = {"status": "ready" if ready else "not_ready", "dependencies": self.dependencies}
                kind = {"Content-Type": "application/json"}
                return Reply(status=200 if ready else 503, body=body, headers=kind)
            case ["GET", "openapi.json"]:
                return Reply(body={"openapi": "3.1.0", "info": {"title": "Chordwise", "version": "0.2.0"}})
        return problem(404, "not_found", f"there is no {request.path}")

    def _accept(self, namespace: str, documents: list[dict[str, Any]]) -> Reply:
        held = self.documents.setdefault(namespace, {})
        errors = []
        for document in documents:
            document_id = document.get("document_id") or str(uuid.uuid4())
            if document.get("text") == "bad":
                errors.append({"document_id": document_id, "code": "empty_document", "detail": "there is no text"})
            else:
                held[document_id] = {**document, "document_id": document_id}
        job_id = f"job-{len(self.jobs) + 1}"
        failed = len(errors)
        status = "succeeded" if not failed else "failed" if failed == len(documents) else "partly_failed"
        self.jobs[job_id] = {
            "job_id": job_id,
            "status": status,
            "total": len(documents),
            "succeeded": len(documents) - failed,
            "failed": failed,
            "cancelled": 0,
            "chunks": len(documents) - failed,
            "created_at": "2026-01-02T00:00:00Z",
            "updated_at": "2026-01-02T00:00:01Z",
            "finished_at": "2026-01-02T00:00:01.5Z",
            "stages": {"parse": len(documents), "embed": len(documents) - failed},
            "errors": errors,
            "from_the_future": True,
        }
        accepted = {"job_id": job_id, "status": "queued", "total": len(documents)}
        return Reply(status=202, body=accepted, headers={"Location": f"/v1/jobs/{job_id}"})

    def _job(self, job_id: str) -> Reply:
        if job_id not in self.jobs:
            return problem(404, "not_found", "there is no such job")
        looks = self._looks[job_id] = self._looks.get(job_id, 0) + 1
        if looks >= self.looks_until_done:
            return Reply(body=self.jobs[job_id])
        unfinished = {"status": "running", "succeeded": 0, "failed": 0, "errors": [], "finished_at": None}
        return Reply(body={**self.jobs[job_id], **unfinished})

    def _batch(self, sent: dict[str, Any]) -> Reply:
        lines = []
        for index, query in enumerate(sent["queries"]):
            body = {**sent["defaults"], **query}
            own_id = body.pop("id", None)
            answer = self._answered(body)
            failed = answer["status"] == "failed"
            error = {"code": "retrieval_unavailable", "detail": "nothing answered"} if failed else None
            line = {"index": index, "id": own_id, "status": answer["status"], "answer": None if failed else answer}
            lines.append({**line, "error": error})
        batch_id = f"batch-{len(self._batches) + 1}"
        self._batches[batch_id] = lines
        accepted = {"job_id": batch_id, "status": "queued", "total": len(lines)}
        return Reply(status=202, body=accepted, headers={"Location": f"/v1/query-batches/{batch_id}"})

    def _answered(self, body: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(body)
        query_id = f"query-{len(self._queries) + 1}"
        result = {"query_id": query_id, "status": "succeeded", **(self.answer or self._search)(body)}
        self._queries[query_id] = result
        return result

    def _query(self, request: Received) -> Reply:
        result = self._answered(request.json())
        query_id = result["query_id"]
        if self.late_queries:
            return Reply(status=202, body={"query_id": query_id, "status": "queued"}, headers={"Retry-After": "1"})
        return Reply(body=result)

    def _search(self, body: dict[str, Any]) -> dict[str, Any]:
        """Documents by the number of words they share with the question."""
        words = set(body["query_text"].lower().split())
        scored = []
        for namespace in body["namespaces"]:
            for document in self.documents.get(namespace, {}).values():
                text = f"{document.get('title', '')} {document.get('text', '')}"
                if shared := len(words.intersection(text.lower().split())):
                    scored.append((-shared, document["document_id"], namespace, document))
        return {
            "query": body,
            "chunks": [
                {
                    "chunk_id": f"{document_id}/0",
                    "document_id": document_id,
                    "namespace": namespace,
                    "title": document.get("title"),
                    "text": document.get("text", ""),
                    "metadata": {},
                    "score": -score / len(words),
                    "source": "keyword",
                    "sources": [{"channel": "keyword", "rank": rank, "score": -score}],
                }
                for rank, (score, document_id, namespace, document) in enumerate(
                    sorted(scored, key=lambda one: one[:2])[: body.get("top_k", 10)], start=1
                )
            ],
            "stats": {"hits": {"keyword": len(scored)}, "latency_ms": {"total": 3.5}, "degraded": False},
        }

    def _verify(self, body: dict[str, Any]) -> Reply:
        drift = dict(self.drift)
        withheld = self.withheld if body["repair"] and "delete_share" not in body else 0
        repaired = sum(drift.values()) - withheld if body["repair"] else 0
        if body["repair"]:
            self.drift = {"missing": 0, "orphaned": withheld, "stale": 0}
        wanted = body["namespaces"] or list(self.documents) or ["kb"]
        sizes = {name: len(self.documents.get(name, {})) for name in wanted}
        rows = [{"namespace": n, "documents": s, "chunks": s, "vectors": s, **drift} for n, s in sizes.items()]
        return Reply(body={"namespaces": rows, **drift, "repaired": repaired, "withheld": withheld})

    def _page(self, request: Received, entries: list[Any]) -> Reply:
        start = int(request.params.get("cursor", ["0"])[0])
        end = start + int(request.params.get("limit", ["50"])[0])
        return Reply(body={"data": entries[start:end], "next_cursor": str(end) if end < len(entries) else None})


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    stub: GatewayStub

    def handle_any(self) -> None:
        split = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        reply = self.stub.reply(Received(self.command, split.path, parse_qs(split.query), headers, body))
        if reply.drop:
            self.close_connection = True
            return
        content = b"" if reply.body is None else json.dumps(reply.body).encode()
        if isinstance(reply.body, str):
            content = reply.body.encode()
        kind = "application/problem+json" if reply.is_problem else "application/json"
        self.send_response(reply.status)
        for name, value in {"Content-Type": kind, **reply.headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any  # noqa: N815 - the names that http.server looks for

    def log_message(self, *_: object) -> None:
        """Say nothing: the log of a test is ``received``."""


@contextmanager
def serve() -> Iterator[GatewayStub]:
    """A running stub on a free loopback port."""
    stub = GatewayStub()
    handler = type("Handler", (_Handler,), {"stub": stub})
    with serving(handler) as url:
        stub.url = url
        yield stub
