"""A rerank service on loopback that speaks the dialects of Cohere, Jina, Voyage and TEI, and can be told to fail.

Its requests are checked against what each service documents, so a client that sends anything else is refused.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

from pipeline.models.rerank_client import HttpReranker
from tests.support.servers.http_server import serving
from tests.support.servers.openai_answers import Answer

SECRET = "rk-0123456789abcdef"
_WORDS = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*|[^\W\d_a-z]")

# Fields of a request: those that must be there, and those that may.
_FIELDS = {
    "cohere": ({"model", "query", "documents"}, {"top_n", "max_tokens_per_doc", "priority"}),
    "jina": ({"model", "query", "documents"}, {"top_n", "return_documents", "truncation"}),
    "voyage": ({"model", "query", "documents"}, {"top_k", "return_documents", "truncation"}),
    "tei": ({"query", "texts"}, {"raw_scores", "return_text", "truncate", "truncation_direction"}),
}
_PATHS = {"cohere": "/v2/rerank", "jina": "/v1/rerank", "voyage": "/v1/rerank", "tei": "/rerank"}
_LIST = {"cohere": "results", "jina": "results", "voyage": "data", "tei": None}
SCORE = {"cohere": "relevance_score", "jina": "relevance_score", "voyage": "relevance_score", "tei": "score"}


class RerankServer:
    """Recorded requests and scripted answers: the script first, then ``always``."""

    def __init__(self, dialect: str) -> None:
        self.dialect = dialect
        self.url = ""
        self.script: deque[Answer] = deque()
        self.always = Answer()
        self.poison: tuple[str, Answer] | None = None  # a word, and the answer to every request with it in a text
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.closing = threading.Event()

    def next(self, *answers: Answer) -> None:
        """Append to the script."""
        self.script.extend(answers)

    def entries(self, answer: Any) -> list[dict[str, Any]]:
        """The list in an answer of this dialect."""
        name = _LIST[self.dialect]
        found: list[dict[str, Any]] = answer if name is None else answer[name]
        return found

    def with_entries(self, answer: Any, entries: Any) -> Any:
        """The answer with another list."""
        name = _LIST[self.dialect]
        return entries if name is None else {**answer, name: entries}

    def honest(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        """The answer of a service in good health."""
        needed, known = _FIELDS[self.dialect]
        texts = body.get("texts" if self.dialect == "tei" else "documents")
        if path != _PATHS[self.dialect]:
            return 404, {"message": "no such route"}
        if not needed <= set(body) <= needed | known:
            return 422, {"message": f"unexpected fields: {sorted(set(body) ^ needed)}"}
        if not texts or not body["query"].strip() or any(not text.strip() for text in texts):
            return 400, {"message": "blank query or document"}
        if self.dialect == "tei" and len(texts) > 32:
            return 413, {"error": "batch size > maximum allowed batch size 32", "error_type": "Validation"}
        question = set(_WORDS.findall(body["query"].lower()))
        shares = [len(question & set(_WORDS.findall(text.lower()))) / max(1, len(question)) for text in texts]
        scores = [8 * share - 4 if body.get("raw_scores") else share for share in shares]
        ranked = sorted(range(len(texts)), key=lambda place: -scores[place])
        entries = [{"index": place, SCORE[self.dialect]: scores[place]} for place in ranked]
        entries = entries[: body.get("top_n", body.get("top_k", len(entries)))]
        if self.dialect == "tei":
            return 200, entries
        if self.dialect == "voyage":
            return 200, {"object": "list", "data": entries, "model": body["model"], "usage": {"total_tokens": 9}}
        about = {"id": "1", "meta": {"api_version": {"version": "2"}, "billed_units": {"search_units": 1}}}
        return 200, {"results": entries, **(about if self.dialect == "cohere" else {"usage": {"total_tokens": 9}})}


@contextmanager
def rerank_service(dialect: str) -> Iterator[RerankServer]:
    """The service, while the block runs."""
    service = RerankServer(dialect)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            service.bodies.append(body)
            service.headers.append(dict(self.headers))
            answer = service.script.popleft() if service.script else service.always
            if service.poison is not None and service.poison[0] in json.dumps(body):
                answer = service.poison[1]
            if answer.delay_s:
                service.closing.wait(answer.delay_s)
            if answer.drop:
                self.close_connection = True
                return
            status, found = service.honest(self.path, body)
            if answer.raw is None:
                changed = answer.change(found) if answer.change and status == 200 else found
                self._send(answer if status == 200 else Answer(status=status), json.dumps(changed).encode())
            else:
                self._send(answer, answer.raw)

        def _send(self, answer: Answer, content: bytes) -> None:
            self.send_response(answer.status)
            for name, value in {"Content-Type": "application/json", **answer.headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            for at in range(0, len(content), 1 if answer.trickle_s else len(content)):
                if answer.trickle_s and service.closing.wait(answer.trickle_s):
                    return
                self.wfile.write(content[at : at + (1 if answer.trickle_s else len(content))])

        def log_message(self, format: str, *args: object) -> None:
            """Silent."""

    with serving(Handler) as url:
        service.url = url
        try:
            yield service
        finally:
            service.closing.set()
            time.sleep(0.01)  # answers that were held back end before the sockets do


@contextmanager
def http_reranker_on(service: RerankServer, **options: Any) -> Iterator[HttpReranker]:
    """Our client of it, set to wait for little."""
    defaults = {"model": "" if service.dialect == "tei" else "judge", "timeout_s": 10.0, "api_key": SECRET}
    reranker = HttpReranker(url=service.url, dialect=service.dialect, **{**defaults, **options})
    try:
        yield reranker
    finally:
        reranker.close()
