"""W3C trace context, incoming and outgoing, and exported spans."""

from __future__ import annotations

import subprocess
import sys

import httpx
import pytest
import structlog
from fastapi import FastAPI
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, use_span

from api_gateway.app import create_app
from pipeline.errors import Misconfigured
from pipeline.settings import load
from pipeline.telemetry import tracing
from pipeline.telemetry.tracing import read, recording
from workers import dispatch
from workers.base import LoggedTask
from workers.names import TaskName

pytestmark = pytest.mark.usefixtures("quiet")

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
GIVEN = f"00-{TRACE}-{SPAN}-01"


def sent_on(caller: SpanContext) -> dict[str, str]:
    with use_span(NonRecordingSpan(caller)):
        return tracing.outgoing()


@pytest.fixture
def spans():
    """A collector in memory, in the place of one that is sent to."""
    exporter = InMemorySpanExporter()
    provider = recording(SimpleSpanProcessor(exporter), service="test")
    tracing.record_with(provider)
    yield exporter
    tracing.record_with(None)
    provider.shutdown()


@pytest.fixture(scope="module")
def app() -> FastAPI:
    app = create_app(load())

    @app.get("/sends")
    async def sends() -> dict[str, object]:
        made = dispatch._signature(TaskName.SWEEP, {}, request_id="r", expires_s=1.0)
        return {**made.options["headers"], **structlog.contextvars.get_contextvars()}

    @app.get("/broken")
    async def broken() -> None:
        raise RuntimeError

    return app


@pytest.fixture
async def client(app):
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://gateway") as found:
        yield found


class DescribeReading:
    @pytest.mark.parametrize(
        ("header", "trace_id"),
        [
            (GIVEN, TRACE),
            (f" {GIVEN} ", TRACE),
            (f"cc-{TRACE}-{SPAN}-01-what-comes-later", TRACE),
            (f"00-{TRACE}-{SPAN}-01-more", None),
            (f"ff-{TRACE}-{SPAN}-01", None),
            (f"00-{'0' * 32}-{SPAN}-01", None),
            (f"00-{TRACE}-{'0' * 16}-01", None),
            (GIVEN.upper(), None),
            (f"00-{TRACE}-{SPAN}", None),
            ("", None),
            (None, None),
            (7, None),
        ],
    )
    def it_takes_what_the_recommendation_allows(self, header, trace_id):
        found = read({"traceparent": header})
        assert (found and f"{found.trace_id:032x}") == trace_id

    def it_keeps_whether_the_caller_records_and_what_others_want_handed_on(self):
        found = read({"traceparent": GIVEN, "tracestate": "rojo=00f067aa0ba902b7"})
        assert found is not None
        assert (f"{found.trace_id:032x}", f"{found.span_id:016x}", found.trace_flags.sampled) == (TRACE, SPAN, True)
        assert sent_on(found) == {"traceparent": GIVEN, "tracestate": "rojo=00f067aa0ba902b7"}

    @pytest.mark.parametrize("state", ["a=b\r\nX-Evil: 1", "x" * 513, ""])
    def it_hands_on_no_state_that_is_none(self, state):
        found = read({"traceparent": GIVEN, "tracestate": state})
        assert found is not None
        assert found.trace_state.to_header() == ""

    @settings(max_examples=30)
    @given(st.text(max_size=80), st.text(max_size=80))
    def it_never_fails_and_never_gives_what_could_break_a_header(self, parent, state):
        found = read({"traceparent": parent, "tracestate": state})
        assert found is None or all(value.isprintable() for value in sent_on(found).values())


class DescribeRequests:
    async def it_goes_on_with_the_callers_trace(self, client):
        answer = await client.get("/sends", headers={"traceparent": GIVEN, "tracestate": "a=1", "X-Request-ID": "mine"})
        version, trace_id, span_id, flags = answer.headers["traceparent"].split("-")
        assert (version, trace_id, flags) == ("00", TRACE, "01")
        assert span_id != SPAN
        assert answer.headers["tracestate"] == "a=1"
        sent = answer.json()
        assert sent["traceparent"] == answer.headers["traceparent"]  # in the message and in every log line
        assert (sent["tracestate"], answer.headers["x-request-id"]) == ("a=1", "mine")

    async def it_begins_one_that_nobody_records_where_there_is_none(self, client):
        first, second = [await client.get("/sends") for _ in range(2)]
        traces = {answer.headers["traceparent"].split("-")[1] for answer in (first, second)}
        assert len(traces) == 2
        assert first.headers["traceparent"].endswith("-00")

    async def it_takes_no_side_when_there_are_two(self, client):
        headers = [("traceparent", GIVEN), ("traceparent", GIVEN.replace("4bf9", "5bf9"))]
        answer = await client.get("/sends", headers=headers)
        assert answer.headers["traceparent"].split("-")[1] not in (TRACE, TRACE.replace("4bf9", "5bf9"))

    async def it_is_a_span_with_route_and_status(self, client, spans):
        answer = await client.get("/v1/jobs/x", headers={"traceparent": GIVEN})
        [span] = spans.get_finished_spans()
        assert f"{span.context.trace_id:032x}" == TRACE
        assert f"{span.parent.span_id:016x}" == SPAN
        assert span.attributes["http.route"] == "/v1/jobs/{job_id}"
        assert span.attributes["http.response.status_code"] == answer.status_code == 401
        assert answer.headers["traceparent"] == f"00-{TRACE}-{span.context.span_id:016x}-01"
        assert "Authorization" not in str(dict(span.attributes))

    async def it_fails_with_the_request(self, client, spans):
        await client.get("/broken")
        [span] = spans.get_finished_spans()
        assert not span.status.is_ok
        assert span.attributes["error.type"] == "500"

    async def it_records_nothing_the_caller_does_not(self, client, spans):
        await client.get("/sends", headers={"traceparent": GIVEN[:-2] + "00"})
        assert spans.get_finished_spans() == ()


class DescribeTasks:
    @pytest.fixture
    def task(self):
        """A task of the project's own kind, run as a worker runs one, without a broker."""
        from celery import Celery

        app = Celery("traced", set_as_current=False, broker="memory://", backend="cache+memory://")

        @app.task(base=LoggedTask, name="upkeep.sweep", shared=False)
        def doing(fails: bool = False) -> dict[str, object]:
            if fails:
                raise RuntimeError("a document's text")
            with tracing.edge("redis"):
                return {**tracing.outgoing(), **structlog.contextvars.get_contextvars()}

        return doing

    def it_goes_on_with_the_trace_of_who_sent_it(self, task):
        seen = task.apply(headers={"traceparent": GIVEN, "request_id": "r"}).result
        assert seen["traceparent"].split("-")[1] == TRACE
        assert seen["request_id"] == "r"
        assert tracing.current() is None

    def it_is_a_span_with_the_calls_it_made_below_it(self, task, spans):
        task.apply(headers={"traceparent": GIVEN})
        call, doing = spans.get_finished_spans()
        assert (doing.name, call.name) == ("upkeep.sweep", "redis")
        assert f"{doing.parent.span_id:016x}" == SPAN
        assert call.parent.span_id == doing.context.span_id

    def it_fails_without_saying_what_was_in_the_error(self, task, spans):
        task.apply(kwargs={"fails": True}, headers={"traceparent": GIVEN})
        [span] = spans.get_finished_spans()
        assert not span.status.is_ok
        assert "a document's text" not in span.to_json()


class DescribeEdges:
    def it_is_nothing_outside_of_a_trace(self, spans):
        with tracing.edge("redis"):
            pass
        assert spans.get_finished_spans() == ()

    def it_names_the_kind_of_an_error_and_not_its_words(self, spans):
        with (
            pytest.raises(ValueError),
            tracing.entered("t", {}, kind=SpanKind.CONSUMER),
            tracing.edge("redis"),
        ):
            raise ValueError("a secret")
        call = spans.get_finished_spans()[0]
        assert call.attributes["error.type"] == "ValueError"
        assert "a secret" not in call.to_json()


class DescribeTheExtra:
    def it_is_not_imported_unless_spans_are_sent_somewhere(self):
        """Nor is what only migrates: every process would start later for it."""
        code = (
            "import sys; import api_gateway.app, workers.app; from pipeline.telemetry import tracing; tracing.warm_up();"
            "sys.exit(any(name.startswith(('opentelemetry.sdk', 'alembic'))"
            " for name in sys.modules))"
        )
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

    def it_is_asked_for_in_a_sentence_when_it_is_not_there(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "opentelemetry.sdk", None)
        with pytest.raises(Misconfigured, match=r"CHORDWISE_OTLP_ENDPOINT needs the extra otel"):
            tracing.check(load({"otlp_endpoint": "http://collector:4318"}))
        tracing.check(load())
