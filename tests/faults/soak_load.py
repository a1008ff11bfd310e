"""The load of `make soak`: everything users do, over and over on the same documents, so that nothing has a reason to grow.

Documents come from fixed sets of names, which are replaced and deleted in turn. Namespaces and tenants that come and go
have new names every time: whatever a process remembers by name would grow with them.
"""

from __future__ import annotations

import os
import random
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from tempfile import TemporaryDirectory
from typing import Any

import httpx

from benchmarks.corpus import Corpus
from chordwise import Chordwise, ChordwiseError
from pipeline.resources import Resources
from tests.conftest import make_tenant
from tests.support.corpora.formats import docx, paragraph, pdf
from tests.support.servers.receiver import Receiver, receiving

_NAMES = 200  # documents of a tenant
_TENANTS = 2
_BATCH = 8
_POOL = 200  # paragraphs of the texts of which documents are made: the bounded caches are full after some minutes
_LANES = ("chord", "in_process")
_CONSOLE = (
    *("/v1/jobs?limit=20", "/v1/namespaces", "/v1/documents?limit=50", "/v1/dead-letters", "/v1/traces", "/v1/audit"),
    *(
        "/v1/usage",
        "/v1/quotas",
        "/v1/metrics",
        "/v1/metrics/history?range=1h",
        "/v1/webhooks",
        "/readyz",
    ),
)
_BROKEN = b"%PDF-1.7\nno objects"
_PATIENCE_S = 30.0
_QUESTIONS = 300


@dataclass(slots=True)
class Tenant:
    """A tenant, its client, and the ids that one action leaves to another."""

    client: httpx.Client
    key: str
    namespace: str
    jobs: list[str] = field(default_factory=list)
    queries: list[str] = field(default_factory=list)
    import_id: str = ""


class Load:
    """Threads that act, each at its interval. ``done`` counts actions, ``refused`` what did not go as it should."""

    def __init__(self, use: Resources, receiver: Receiver, *, seed: int) -> None:
        self._random = random.Random(seed)
        self._pool = Corpus(seed=seed).take(_POOL)
        self._questions = [self._excerpt() for _ in range(_QUESTIONS)]
        self._stop = threading.Event()
        self._receiver = receiver
        self._operator = _client(os.environ["CHORDWISE_ADMIN_KEY"])
        self._tenants = [self._tenant(make_tenant(use)[1]) for _ in range(_TENANTS)]
        self.done: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()

    def actions(self) -> list[tuple[float, Callable[[Tenant], None]]]:
        """Return every action with its interval in seconds."""
        return [
            (2.0, self.upload),
            (0.5, self.query),
            (0.7, self.query),
            (1.1, self.query),
            (3.0, self.hang_up),
            (2.5, self.submit_and_fetch),
            (3.0, self.delete),
            (5.0, self.follow_job),
            (5.0, self.follow_query),
            (7.0, self.send_files),
            (8.0, self.send_broken),
            (5.0, self.watch_console),
            (6.0, self.speak_dialects),
            (7.0, self.compute),
            (15.0, self.cancel),
            (20.0, self.come_and_go),
            (45.0, self.export_and_import),
            (40.0, self.be_erased),
            (3.0, self.err),
            (30.0, self.fail_webhooks),
        ]

    @contextmanager
    def running(self) -> Iterator[None]:
        """Act while the block runs."""
        threads = [
            threading.Thread(target=self._repeat, args=(action, every_s), daemon=True)
            for every_s, action in self.actions()
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            for thread in threads:
                thread.join(timeout=_PATIENCE_S)

    def _repeat(self, action: Callable[[Tenant], None], every_s: float) -> None:
        name = action.__name__
        began = time.monotonic()
        while not self._stop.wait(max(0.0, began + every_s * self._random.uniform(0.5, 1.5) - time.monotonic())):
            began = time.monotonic()
            try:
                action(self._random.choice(self._tenants))
            except httpx.HTTPError as error:
                self.refused[f"{name}: {type(error).__name__} {error.request.method} {error.request.url.path}"] += 1
            except (ChordwiseError, AssertionError, KeyError) as error:
                self.refused[f"{name}: {type(error).__name__} {str(error)[:160]}"] += 1
            self.done[name] += 1

    def _tenant(self, key: str) -> Tenant:
        tenant = Tenant(_client(key), key, namespace="soak")
        for lane in _LANES:
            tenant.client.put(f"/v1/profiles/{lane}", json={"config": {"lane": lane}}).raise_for_status()
        body = {"url": self._receiver.url, "events": ["job.succeeded", "job.partly_failed", "job.progress"]}
        tenant.client.post("/v1/webhooks", json=body).raise_for_status()
        names = [f"d{number}" for number in range(_NAMES)]
        self._send(tenant, tenant.namespace, names)
        return tenant

    def _text(self) -> str:
        """Return one of the texts, with a number of five hundred: neither words nor vectors are ever new for long."""
        return f"{self._random.choice(self._pool).text}\n\nTurn {self._random.randrange(500)}."

    def _send(self, tenant: Tenant, namespace: str, names: list[str]) -> str:
        """Send documents under these names; return the job."""
        documents = [
            {"document_id": name, "text": self._text(), "title": name, "metadata": {"turn": self._random.randrange(20)}}
            for name in names
        ]
        answer = tenant.client.post(
            "/v1/documents",
            json={"namespace": namespace, "documents": documents},
            headers={"Idempotency-Key": str(uuid.uuid4())},
        )
        job = str(_expected(answer, 202)["job_id"])
        if namespace == tenant.namespace:
            tenant.jobs = [*tenant.jobs[-9:], job]
        return job

    def upload(self, tenant: Tenant) -> None:
        """Replace documents."""
        self._send(tenant, tenant.namespace, self._names())

    def delete(self, tenant: Tenant) -> None:
        """Delete a document, which an upload will bring back."""
        for name in self._names()[:3]:
            answer = tenant.client.delete(f"/v1/documents/{name}", params={"namespace": tenant.namespace})
            _expected(answer, 204, 404)

    def query(self, tenant: Tenant) -> None:
        """Ask on either lane, every second time past the answer cache."""
        body = self._question(tenant, trace=self._random.random() < 0.1)
        headers = {"Prefer": "wait=10", **({"Cache-Control": "no-cache"} if self._random.random() < 0.5 else {})}
        answer = _expected(tenant.client.post("/v1/queries", json=body, headers=headers), 200)
        assert answer["status"] == "succeeded", answer["status"]
        tenant.queries = [*tenant.queries[-9:], str(answer["query_id"])]

    def submit_and_fetch(self, tenant: Tenant) -> None:
        """Submit a query, then fetch it, cancel it or leave it."""
        accepted = _expected(tenant.client.post("/v1/queries", json=self._question(tenant)), 202, 200)
        path = f"/v1/queries/{accepted['query_id']}"
        match self._random.randrange(3):
            case 0:
                _expected(tenant.client.get(path, params={"wait": 10}), 200)
            case 1:
                _expected(tenant.client.delete(path), 204, 404, 409)

    def hang_up(self, tenant: Tenant) -> None:
        """Close the connection before the answer comes."""
        for path, body in (("/v1/queries", self._question(tenant)), ("/v1/chunks/preview", self._preview())):
            try:
                headers = {"Prefer": "wait=10", "Cache-Control": "no-cache"}
                with _client(tenant.key) as own:
                    own.post(path, json=body, headers=headers, timeout=httpx.Timeout(5, read=0.02))
            except httpx.TimeoutException:
                continue

    def follow_job(self, tenant: Tenant) -> None:
        """Follow a job to its end, or leave after some events."""
        job = self._send(tenant, tenant.namespace, self._names())
        self._follow(tenant, f"/v1/jobs/{job}/events")

    def follow_query(self, tenant: Tenant) -> None:
        """Follow a query in the same way."""
        accepted = _expected(tenant.client.post("/v1/queries", json=self._question(tenant)), 202, 200)
        self._follow(tenant, f"/v1/queries/{accepted['query_id']}/events")

    def _follow(self, tenant: Tenant, path: str) -> None:
        leave_after = self._random.choice((1, 3, 1000))
        with _client(tenant.key) as own, own.stream("GET", path) as response:
            for number, _ in enumerate(response.iter_lines()):
                if number >= leave_after:
                    break

    def send_files(self, tenant: Tenant) -> None:
        """Upload files of three formats."""
        words = self._text()
        files = [
            ("file", ("f1.md", f"# Title\n\n{words}".encode(), "text/markdown")),
            ("file", ("f2.pdf", pdf(words[:400].encode("ascii", "replace").decode()), "application/pdf")),
            ("file", ("f3.docx", docx(paragraph(words[:2000])), "application/octet-stream")),
        ]
        _expected(tenant.client.post("/v1/files", files=files, data={"namespace": tenant.namespace}), 202)

    def send_broken(self, tenant: Tenant) -> None:
        """Upload documents that fail, then drop or replay a dead letter."""
        files = [("file", (f"broken{number}.pdf", _BROKEN + os.urandom(8), "application/pdf")) for number in range(2)]
        _expected(tenant.client.post("/v1/files", files=files, data={"namespace": tenant.namespace}), 202)
        for letter in _expected(tenant.client.get("/v1/dead-letters", params={"limit": 5}), 200)["data"]:
            path = f"/v1/dead-letters/{letter.get('dead_letter_id') or letter.get('letter_id') or letter['id']}"
            if self._random.random() < 0.3:
                _expected(tenant.client.post(f"{path}/replay"), 202, 404, 409)
            else:
                _expected(tenant.client.delete(path), 204, 404, 409)

    def watch_console(self, tenant: Tenant) -> None:
        """Fetch what the pages of the console fetch."""
        for path in _CONSOLE:
            _expected(tenant.client.get(path), 200, 503)
        _expected(self._operator.get("/v1/doctor" if self._random.random() < 0.1 else "/v1/tenants"), 200)
        for job in tenant.jobs[-2:]:
            _expected(tenant.client.get(f"/v1/jobs/{job}/items"), 200)
        for query in tenant.queries[-2:]:
            _expected(tenant.client.get(f"/v1/queries/{query}/trace"), 200, 404)

    def speak_dialects(self, tenant: Tenant) -> None:
        """Ask through Dify's, OpenAI's and the agents' protocol."""
        words = self._words()
        body = {
            "knowledge_id": tenant.namespace,
            "query": words,
            "retrieval_setting": {"top_k": 3, "score_threshold": 0},
        }
        _expected(tenant.client.post("/dify/retrieval", json=body), 200)
        store = f"/openai/v1/vector_stores/{tenant.namespace}/search"
        _expected(tenant.client.post(store, json={"query": words}), 200)
        call = {"name": "search", "arguments": {"query": words, "namespaces": [tenant.namespace]}}
        headers = {"Accept": "application/json, text/event-stream"}
        for method, params in (("tools/list", {}), ("tools/call", call)):
            message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            _expected(tenant.client.post("/mcp", json=message, headers=headers), 200)

    def compute(self, tenant: Tenant) -> None:
        """Preview a document, edit a chunk, explain a query, rate a hit."""
        _expected(tenant.client.post("/v1/chunks/preview", json=self._preview()), 200)
        body = self._question(tenant, trace=True)
        answer = _expected(tenant.client.post("/v1/queries", json=body, headers={"Prefer": "wait=10"}), 200)
        if not answer["chunks"]:
            return
        chunk = answer["chunks"][-1]["chunk_id"]
        path = f"/v1/queries/{answer['query_id']}"
        _expected(tenant.client.post(f"{path}/why-not", json={"chunk_id": chunk}), 200, 404, 409)
        _expected(tenant.client.post(f"{path}/feedback", json={"rating": "good", "chunk_id": chunk}), 200, 201, 404)
        edits = {"chunks": [{"chunk_id": chunk, "text": self._words()}]}
        _expected(tenant.client.put("/v1/chunks", json=edits), 200, 404, 409)

    def cancel(self, tenant: Tenant) -> None:
        """Pause, resume and cancel a job."""
        job = self._send(tenant, tenant.namespace, self._names())
        for action in ("pause", "resume", "cancel"):
            _expected(tenant.client.post(f"/v1/jobs/{job}/{action}"), 200, 202, 409)

    def come_and_go(self, tenant: Tenant) -> None:
        """Fill a new namespace, ask it, delete it."""
        namespace = f"short-{uuid.uuid4().hex[:12]}"
        try:
            job = self._send(tenant, namespace, self._names())
            _expected(tenant.client.get(f"/v1/jobs/{job}", params={"wait": 20}), 200)
            body = self._question(tenant) | {"namespaces": [namespace]}
            for _ in range(3):
                _expected(tenant.client.post("/v1/queries", json=body, headers={"Prefer": "wait=10"}), 200)
        finally:
            _expected(tenant.client.delete(f"/v1/namespaces/{namespace}"), 200, 404)

    def be_erased(self, _: Tenant) -> None:
        """Create a tenant, let it do a little, erase it."""
        tenant_id = f"soak-{uuid.uuid4().hex[:12]}"
        _expected(self._operator.post("/v1/tenants", json={"tenant_id": tenant_id, "name": "short-lived"}), 201)
        try:
            wanted = {"name": "soak", "scopes": ["read", "write"]}
            issued = _expected(self._operator.post(f"/v1/tenants/{tenant_id}/keys", json=wanted), 201)
            with _client(issued["api_key"]) as client:
                visitor = Tenant(client, issued["api_key"], namespace="soak")
                job = self._send(visitor, visitor.namespace, self._names())
                _expected(client.get(f"/v1/jobs/{job}", params={"wait": 20}), 200)
                body = self._question(visitor) | {"profile": "default"}
                _expected(client.post("/v1/queries", json=body, headers={"Prefer": "wait=10"}), 200)
        finally:
            _expected(self._operator.delete(f"/v1/tenants/{tenant_id}"), 200)

    def export_and_import(self, tenant: Tenant) -> None:
        """Export the namespace, import it as another, delete that."""
        copy = f"copy-{uuid.uuid4().hex[:12]}"
        try:
            with (
                Chordwise(os.environ["CHORDWISE_URL"], tenant.key) as client,
                TemporaryDirectory(prefix="chordwise-soak-") as folder,
            ):
                client.export(tenant.namespace, f"{folder}/archive")
                imported = client.import_archive(f"{folder}/archive", namespace=copy)
                client.wait(imported.ingestion, timeout=_PATIENCE_S)
        finally:
            _expected(tenant.client.delete(f"/v1/namespaces/{copy}"), 200, 404)

    def err(self, tenant: Tenant) -> None:
        """Make the mistakes of callers: a wrong key, a wrong body, a route that does not exist."""
        with _client(f"cw_{uuid.uuid4().hex}") as stranger:
            _expected(stranger.get("/v1/namespaces"), 401, 429)
        _expected(tenant.client.get(f"/v1/{uuid.uuid4().hex}"), 404)
        _expected(tenant.client.get(f"/v1/jobs/{uuid.uuid4()}"), 404)
        _expected(tenant.client.post("/v1/queries", json={uuid.uuid4().hex: 1}), 422)
        body = {"query_text": self._words(), "namespaces": [f"none-{uuid.uuid4().hex[:8]}"]}
        _expected(tenant.client.post("/v1/queries", json=body), 404)

    def fail_webhooks(self, _: Tenant) -> None:
        """Let the receiver refuse two deliveries, and forget what it received."""
        self._receiver.answer(500)
        self._receiver.answer(503, Retry_After="1")
        self._receiver.calls.clear()

    def _names(self) -> list[str]:
        return [f"d{number}" for number in self._random.sample(range(_NAMES), _BATCH)]

    def _words(self) -> str:
        """Return one of some hundred questions: what is known of each query's words and vectors fills its caches early."""
        return self._random.choice(self._questions)

    def _excerpt(self) -> str:
        """Return some whole words, or Chinese characters; a cut word would be a new one every time."""
        text = self._random.choice(self._pool).text
        if text.isascii():
            words = text.split()
            begin = self._random.randrange(max(1, len(words) - 8))
            return " ".join(words[begin : begin + 8])
        begin = 20 * self._random.randrange(max(1, len(text) // 20 - 2))
        return text[begin : begin + 40].strip()

    def _question(self, tenant: Tenant, **more: Any) -> dict[str, Any]:
        words = self._words()
        return {"query_text": words, "namespaces": [tenant.namespace], "profile": self._random.choice(_LANES), **more}

    def _preview(self) -> dict[str, Any]:
        return {"document": {"title": "Preview", "text": self._text()}, "chunking": {"max_tokens": 128}}


@contextmanager
def loaded(use: Resources, *, seed: int) -> Iterator[Load]:
    """Prepare tenants and a receiver of webhooks; act while the block runs."""
    with receiving() as receiver:
        load = Load(use, receiver, seed=seed)
        time.sleep(2)
        with load.running():
            yield load


def _client(key: str) -> httpx.Client:
    url, headers = os.environ["CHORDWISE_URL"], {"Authorization": f"Bearer {key}"}
    return httpx.Client(base_url=url, headers=headers, timeout=_PATIENCE_S)


def _expected(answer: httpx.Response, *statuses: int) -> dict[str, Any]:
    assert answer.status_code in statuses, (
        f"{answer.request.method} {answer.url.path} {answer.status_code} {answer.text[:90]}"
    )
    content = answer.json() if answer.headers.get("content-type", "").startswith("application/json") else {}
    return content if isinstance(content, dict) else {}
