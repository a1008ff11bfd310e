"""An OpenAI-compatible service on loopback, real HTTP, that can be told to fail.

Speaks `/v1/embeddings` and `/v1/chat/completions` and takes any API key. Embeddings are hashed words and character
pairs, so similar texts are near each other. As a script, ``python -m tests.support.servers.openai_server --port 8090
--dimension 256`` prints its base URL and serves until interrupted.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import itertools
import json
import re
import socket
import struct
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import numpy as np

from tests.support.servers.openai_answers import Answer, Json, choice

_WORDS = re.compile(r"[a-z0-9]+|[^\W\d_a-z]")


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A request as it arrived."""

    path: str
    body: Json
    headers: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class Counted:
    """Requests and tokens that the service would charge for."""

    requests: int = 0
    texts: int = 0
    tokens: int = 0


class OpenAIServer:
    """Answers honestly, unless a script says otherwise. A context manager; serves from threads of this process.

    ``script`` holds the next answers of a path (``embeddings`` or ``chat``), taken one for each request; ``always`` the
    answer to every request once the script is used up. Texts containing a word of ``poison`` are refused with 400.
    """

    def __init__(self, *, dimension: int = 64, port: int = 0) -> None:
        self.dimension = dimension
        self.script: dict[str, deque[Answer]] = {"embeddings": deque(), "chat": deque()}
        self.always: dict[str, Answer] = {}
        self.by_prompt: dict[str, Answer] = {}  # to chats whose instruction holds the word, before ``always``
        self.poison: set[str] = set()
        self.encodings: set[str] = {"base64", "float"}
        self.requests: list[Seen] = []
        self.connections: list[Any] = []  # addresses of the clients, one for each connection ever made
        self.under_way = 0
        self.most_under_way = 0
        self.limiter: Callable[[Seen], Answer] | None = None  # decides about requests that no script is for
        self.counted = Counted()
        self.arrived: list[float] = []  # when each request came, on the monotonic clock
        self.closing = threading.Event()
        self.lock = threading.Lock()
        # Ports are used again, and what Redis holds of the pace of a service goes by its address.
        self.prefix = "" if port else f"/{uuid.uuid4().hex}"
        self._http = _Http(("127.0.0.1", port), _Handler)
        self._http.service = self
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)

    @property
    def url(self) -> str:
        """Return the value for OPENAI_BASE_URL."""
        return f"http://127.0.0.1:{self._http.server_address[1]}{self.prefix}/v1"

    def next(self, path: str, *answers: Answer) -> None:
        """Append to the script of ``embeddings`` or ``chat``."""
        self.script[path].extend(answers)

    def seen(self, path: str) -> list[Json]:
        """Bodies of the requests so far, in order of arrival."""
        with self.lock:
            return [request.body for request in self.requests if request.path == path]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._http.shutdown()
        self._http.close_connections()
        self._http.server_close()
        self._thread.join()

    def take(self, request: Seen) -> Answer:
        """Record a request and say how to treat it."""
        with self.lock:
            self.requests.append(request)
            self.arrived.append(time.monotonic())
            script = self.script[request.path]
            if self.limiter is not None and request.path == "embeddings" and not script:
                return self.limiter(request)
            instruction = request.body["messages"][0]["content"] if request.path == "chat" and not script else ""
            if meant := [answer for word, answer in self.by_prompt.items() if word in instruction]:
                return meant[0]
            return script.popleft() if script else self.always.get(request.path, Answer())

    def honest(self, request: Seen) -> tuple[int, Json]:
        """The answer of a service in good health."""
        if request.path == "chat":
            return 200, self._say(request.body)
        texts = request.body["input"]
        texts = [texts] if isinstance(texts, str) else texts
        encoding = request.body.get("encoding_format", "float")
        if encoding not in self.encodings:
            return 400, {"error": {"message": f"encoding_format {encoding} is not supported"}}
        if any(text == "" or word in text for text in texts for word in self.poison):
            return 400, {"error": {"message": "input is invalid", "code": "invalid_input"}}
        dimension = request.body.get("dimensions", self.dimension)
        tokens = tokens_in(texts)
        with self.lock:
            self.counted = Counted(
                requests=self.counted.requests + 1,
                texts=self.counted.texts + len(texts),
                tokens=self.counted.tokens + tokens,
            )
        vectors = [hashed(text, dimension) * 3 for text in texts]  # clients have to normalise
        return 200, {
            "object": "list",
            "model": request.body["model"],
            "data": [
                {"object": "embedding", "index": index, "embedding": _encoded(vector, encoding)}
                for index, vector in enumerate(vectors)
            ],
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        }

    def _say(self, body: Json) -> Json:
        """Scores of candidates; to any other question an empty list, as if nothing came to mind."""
        judged = "<candidates>" in body["messages"][-1]["content"]
        return {
            "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": body["model"],
            "choices": [choice(json.dumps({"scores": self._scores(body)} if judged else []))],
        }  # fmt: skip

    def _scores(self, body: Json) -> list[Json]:
        """Every candidate line of the prompt scored by the words it shares with the question line."""
        lines = [_line(line) for line in body["messages"][-1]["content"].splitlines()]
        question = set(next((_WORDS.findall(line.lower()) for line in lines if isinstance(line, str)), ()))
        scores = []
        for candidate in (line for line in lines if isinstance(line, dict) and "text" in line):
            words = set(_WORDS.findall(f"{candidate.get('title', '')} {candidate['text']}".lower()))
            share = len(words & question) / max(1, len(question))
            scores.append({"id": candidate["id"], "relevance": 10 * share, "completeness": 10 * share, "timeliness": 5})
        return scores


def tokens_in(texts: list[str]) -> int:
    """The tokens of this service: one for each word."""
    return sum(max(1, len(text.split())) for text in texts)


def hashed(text: str, dimension: int) -> np.ndarray:
    """A unit vector made of the hashes of a text's words and character pairs."""
    words = _WORDS.findall(text.lower()) or [text]
    pairs = ["".join(pair) for pair in itertools.pairwise(text.lower())]
    vector = np.zeros(dimension, dtype=np.float64)
    for feature, weight in [*((word, 1.0) for word in words), *((f"#{pair}", 0.2) for pair in pairs)]:
        number = int.from_bytes(hashlib.blake2b(feature.encode(), digest_size=8).digest())
        vector[number % dimension] += weight if number >> 63 else -weight
    length = np.linalg.norm(vector)
    vector = vector / length if length else np.full(dimension, dimension**-0.5)
    return vector.astype(np.float32)


def _encoded(vector: np.ndarray, encoding: str) -> Any:
    return base64.b64encode(vector.astype("<f4").tobytes()).decode() if encoding == "base64" else vector.tolist()


def _line(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None


def _events(body: Any, request: Json) -> list[bytes]:
    """The same reply as a stream: its words one by one, its usage, and the end."""
    choices = body.get("choices") if isinstance(body, dict) else None
    if not choices or not isinstance(content := choices[0]["message"].get("content"), str):
        return [b"data: " + json.dumps(body).encode() + b"\n\n"]
    words = re.findall(r"\s*\S+\s*", content)
    deltas = [{"delta": {"content": word}, "finish_reason": None} for word in words]
    chunks: list[Json] = [{"choices": [{"index": 0, **delta}]} for delta in deltas]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    if request.get("stream_options", {}).get("include_usage"):
        told = tokens_in([message["content"] for message in request["messages"]])
        usage = {"prompt_tokens": told, "completion_tokens": len(words), "total_tokens": told + len(words)}
        chunks.append({"choices": [], "usage": usage})
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": request["model"]}
    return [*(f"data: {json.dumps({**head, **chunk})}\n\n".encode() for chunk in chunks), b"data: [DONE]\n\n"]


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64
    service: OpenAIServer

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(address, handler)
        self._open: set[socket.socket] = set()
        self._handlers: list[threading.Thread] = []

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        self.service.connections.append(client_address)
        thread = threading.Thread(target=self.process_request_thread, args=(request, client_address), daemon=True)
        self._handlers.append(thread)
        thread.start()

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def close_connections(self) -> None:
        for connection in list(self._open):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # its handler was quicker
        for thread in self._handlers:
            thread.join(5)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that give up are part of the tests; their going away is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # headers and body are two writes, which would otherwise be 40 ms apart
    server: _Http

    def do_POST(self) -> None:
        service = self.server.service
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        called = self.path.removeprefix(service.prefix)
        path = {"/v1/embeddings": "embeddings", "/v1/chat/completions": "chat"}.get(called)
        if path is None:
            self._send(Answer(status=404), json.dumps({"error": {"message": "no such route"}}).encode())
            return
        with service.lock:
            service.under_way += 1
            service.most_under_way = max(service.most_under_way, service.under_way)
        try:
            self._answer(Seen(path=path, body=body, headers=dict(self.headers)))
        finally:
            with service.lock:
                service.under_way -= 1

    def _answer(self, request: Seen) -> None:
        service = self.server.service
        answer = service.take(request)
        if answer.delay_s:
            service.closing.wait(answer.delay_s)
        if answer.drop:
            # Lingering for zero seconds turns the close into a reset.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True
            return
        if answer.raw is not None:
            self._send(answer, answer.raw)
            return
        status, body = service.honest(request)
        changed_body = answer.change(body) if answer.change else body
        if status == 200 and request.body.get("stream"):
            self._stream(answer, _events(changed_body, request.body))
            return
        self._send(answer if status == 200 else Answer(status=status), json.dumps(changed_body).encode())

    def _stream(self, answer: Answer, events: list[bytes]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for event in events[: answer.most_events]:
            for at in range(len(event)) if answer.trickle_s else ():
                if self.server.service.closing.wait(answer.trickle_s):
                    return
                self.wfile.write(event[at : at + 1])
            if not answer.trickle_s:
                self.wfile.write(event)
            if self.server.service.closing.wait(answer.pause_s):
                return

    def _send(self, answer: Answer, body: bytes) -> None:
        self.send_response(answer.status)
        for name, value in {"Content-Type": "application/json", **answer.headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if not answer.trickle_s:
            self.wfile.write(body)
            return
        for at in range(len(body)):
            if self.server.service.closing.wait(answer.trickle_s):
                return
            self.wfile.write(body[at : at + 1])

    def log_message(self, format: str, *args: object) -> None:
        """Silent."""


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--dimension", type=int, default=256)
    arguments = parser.parse_args()
    with OpenAIServer(dimension=arguments.dimension, port=arguments.port) as server:
        print(server.url, flush=True)  # noqa: T201 - what a script that starts it has to know
        try:
            server.closing.wait()
        except KeyboardInterrupt:
            return


if __name__ == "__main__":
    main()
