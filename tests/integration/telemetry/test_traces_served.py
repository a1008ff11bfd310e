"""One trace from the caller through gateway, broker and workers to a collector, with every process as it is run."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from sqlalchemy import make_url

from pipeline.resources import Resources
from tests.conftest import make_tenant
from tests.support.clients.operating import eventually
from tests.support.corpora.documents import document, upload
from tests.support.servers.http_server import serving
from tests.support.stacks.processes import free_port, process, wait_for_http, wait_for_log, worker

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SECRET = "zwiebelkuchen"


class Collector:
    """What was sent to it, by trace."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.bodies: list[bytes] = []
        self._lock = threading.Lock()

    def take(self, body: bytes) -> None:
        sent = ExportTraceServiceRequest.FromString(body)
        with self._lock:
            self.bodies.append(body)
            self.spans += [
                span for resource in sent.resource_spans for scope in resource.scope_spans for span in scope.spans
            ]

    def of(self, trace_id: str) -> list[Span]:
        with self._lock:
            return [span for span in self.spans if span.trace_id.hex() == trace_id]


@pytest.fixture
def collector() -> Iterator[tuple[Collector, str]]:
    collected = Collector()

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.path == "/v1/traces"
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                import gzip

                body = gzip.decompress(body)
            collected.take(body)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with serving(Receiver) as url:
        yield collected, url


@pytest.mark.thorough
@pytest.mark.timeout(300)
def it_is_one_trace_from_the_caller_to_the_stores(use: Resources, tmp_path, collector):
    collected, url = collector
    redis_url = make_url(use.settings.redis_url.get_secret_value()).set(database="13").render_as_string(False)
    _, key = make_tenant(use)
    port = free_port()
    environment = {
        "CHORDWISE_REDIS_URL": redis_url,
        "CHORDWISE_BROKER_URL": redis_url,
        "CHORDWISE_GATEWAY_PORT": str(port),
        "CHORDWISE_QUERY_DEADLINE_MS": "10000",
        "CHORDWISE_OTLP_ENDPOINT": url,
        "OTEL_BSP_SCHEDULE_DELAY": "200",
    }
    bearer = {"Authorization": f"Bearer {key}"}
    with (
        process("api_gateway", log=tmp_path / "gateway.log", **environment),
        worker("t-ingest", "ingest", pool="prefork", log=tmp_path / "ingest.log", **environment),
        worker("t-queries", "recall,answer", log=tmp_path / "queries.log", **environment),
        httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=bearer, timeout=60) as client,
    ):
        wait_for_http(f"http://127.0.0.1:{port}/healthz", seconds=90)
        for name in ("ingest", "queries"):
            wait_for_log(tmp_path / f"{name}.log", " ready.", seconds=90)
        job = upload(client, "kb", [document("d1", f"The kettle boils, {SECRET}.")])
        assert job["status"] == "succeeded"
        body = {"query_text": f"kettle {SECRET}", "namespaces": ["kb"]}
        headers = {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01", "Prefer": "wait=20"}
        answer = client.post("/v1/queries", json=body, headers=headers)
        assert answer.status_code == 200, answer.text
        assert answer.headers["traceparent"].split("-")[1] == TRACE

        def named() -> set[str] | None:
            names = {span.name for span in collected.of(TRACE)}
            wanted = {"request", "recall.channel", "recall.answer", "redis", "mysql SELECT", "postgresql SELECT"}
            return names if wanted <= names else None

        try:
            eventually(named, within_s=20)
        except AssertionError:
            raise AssertionError(sorted({span.name for span in collected.of(TRACE)})) from None
        eventually(lambda: [span for span in collected.spans if span.name == "ingest.batch"], within_s=20)
        spans = {span.span_id: span for span in collected.of(TRACE)}
        [request] = [span for span in spans.values() if span.name == "request"]
        tasks = [span for span in spans.values() if span.name.startswith("recall.")]
        assert {span.parent_span_id for span in tasks} == {request.span_id}
        assert all(span.parent_span_id in spans for span in spans.values() if span is not request)
        assert not any(SECRET.encode() in sent or key.encode() in sent for sent in collected.bodies)
    for name in ("gateway", "queries"):
        assert TRACE in (tmp_path / f"{name}.log").read_text()
