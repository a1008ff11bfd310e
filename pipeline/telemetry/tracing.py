"""Spans of requests, tasks and calls to stores, by the OpenTelemetry API.

Without CHORDWISE_OTLP_ENDPOINT no span is recorded and no SDK is imported; ids still travel through the broker, tasks and
log lines. The API's own no-op tracer would give neither a new trace nor a new span id, so they are generated here.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog
from opentelemetry import trace
from opentelemetry.trace import INVALID_SPAN, NonRecordingSpan, Span, SpanContext, SpanKind, StatusCode, TraceFlags
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from pipeline.errors import Misconfigured
from pipeline.settings import Settings, settings

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

Attribute = str | int | float | bool

TRACEPARENT, TRACESTATE = "traceparent", "tracestate"
UNRECORDED: Final[Span] = INVALID_SPAN

_W3C = TraceContextTextMapPropagator()
_MOST_CALLS: Final = 60  # of one part of a query; its trace shows the first ones


class OutsideCall(NamedTuple):
    """A call to a store or a model: `mysql SELECT`, `redis`. ``at``: seconds since the epoch."""

    name: str
    at: float
    ms: float


_CALLS: ContextVar[list[OutsideCall] | None] = ContextVar("chordwise_outside_calls", default=None)
_LOCK = threading.Lock()
_REQUIRED = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")
_FLUSH_MS = 2000


def read(headers: Mapping[str, object]) -> SpanContext | None:
    """Return the caller's span from the W3C headers in lower case, None if absent or malformed.

    ``tracestate`` needs a valid ``traceparent``; it is dropped whole if malformed or longer than 512 characters.
    """
    texts = {name: value for name in (TRACEPARENT, TRACESTATE) if isinstance(value := headers.get(name), str)}
    if TRACEPARENT not in texts:
        return None
    caller = trace.get_current_span(_W3C.extract(texts)).get_span_context()
    return caller if caller.is_valid else None


def current() -> SpanContext | None:
    """Return the ids of the current span; None outside any request or task."""
    context = trace.get_current_span().get_span_context()
    return context if context.is_valid else None


def outgoing() -> dict[str, str]:
    """Return the headers to send with a message or a request; empty outside any trace."""
    headers: dict[str, str] = {}
    _W3C.inject(headers)
    return headers


# The tracer provider of this process, made at first use and so after the fork; None in it: no span is recorded.
_MADE: list[TracerProvider | None] = []


def _provider() -> TracerProvider | None:
    """Return the provider, None if no span is recorded. Raises Misconfigured."""
    if not _MADE:
        with _LOCK:
            if not _MADE:
                _MADE.append(_make(settings()))
    return _MADE[0]


def check(use: Settings) -> None:
    """Raise Misconfigured if spans are to be sent and the packages for it are not installed."""
    if use.otlp_endpoint and not all(_installed(name) for name in _REQUIRED):
        raise Misconfigured(
            "CHORDWISE_OTLP_ENDPOINT needs the extra otel:"
            " pip install opentelemetry-sdk opentelemetry-exporter-otlp-proto-http"
        )


def _installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def _make(use: Settings) -> TracerProvider | None:
    if not use.otlp_endpoint:
        return None
    check(use)
    # The SDK is imported here: it takes a tenth of a second, and an extra.
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    # Spans leave in batches, in the background; refused ones are dropped.
    exporter = OTLPSpanExporter(endpoint=f"{use.otlp_endpoint.rstrip('/')}/v1/traces", timeout=5)
    return recording(BatchSpanProcessor(exporter), service="chordwise")


def recording(processor: SpanProcessor, *, service: str) -> TracerProvider:
    """Return a provider of recorded spans of its own: the process-wide one is left to a program that embeds this
    one. OTEL_TRACES_SAMPLER chooses those that are recorded."""
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider

    resource = Resource.create({"service.name": service})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(processor)
    return provider


def record_with(provider: TracerProvider | None) -> None:
    """Record the spans of this process with ``provider`` from now on; None: record none."""
    _MADE[:] = [provider]


def warm_up() -> None:
    """Load the packages that recording needs, so that no request waits for them. Not before a fork."""
    _provider()


def close() -> None:
    """Send the recorded spans; the process is about to end."""
    provider = _MADE[0] if _MADE else None
    if provider:
        provider.force_flush(_FLUSH_MS)
        provider.shutdown()


@contextmanager
def entered(name: str, headers: Mapping[str, object], *, kind: SpanKind, **attributes: Attribute) -> Iterator[Span]:
    """Run the block in a span of the trace in ``headers``, else of a new trace. Log lines carry its ids."""
    caller = read(headers)
    provider = _provider()
    span = NonRecordingSpan(_next(caller)) if provider is None else _started(provider, name, kind, caller, attributes)
    with (
        trace.use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False),
        structlog.contextvars.bound_contextvars(traceparent=outgoing()[TRACEPARENT]),
    ):
        yield span


def edge(name: str, **attributes: Attribute) -> AbstractContextManager[Span]:
    """Run the block in a span for a call to a store or a model, if any is recorded, and in `recorded_calls`."""
    provider, calls = _provider(), _CALLS.get()
    here = None if provider is None else current()
    span = nullcontext(UNRECORDED) if provider is None or here is None else _edge(provider, name, here, attributes)
    return span if calls is None or len(calls) >= _MOST_CALLS else _timed(name, span, calls)


@contextmanager
def recorded_calls() -> Iterator[list[OutsideCall]]:
    """Record the calls of the block to stores and models, in threads that copy its context too."""
    calls: list[OutsideCall] = []
    before = _CALLS.set(calls)
    try:
        yield calls
    finally:
        _CALLS.reset(before)


@contextmanager
def _timed(name: str, span: AbstractContextManager[Span], calls: list[OutsideCall]) -> Iterator[Span]:
    at, started = time.time(), time.perf_counter()
    try:
        with span as entered_span:
            yield entered_span
    finally:
        calls.append(OutsideCall(name, at, (time.perf_counter() - started) * 1000))


@contextmanager
def _edge(
    provider: TracerProvider, name: str, here: SpanContext, attributes: Mapping[str, Attribute]
) -> Iterator[Span]:
    span = _started(provider, name, SpanKind.CLIENT, here, attributes)
    with trace.use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
        try:
            yield span
        except Exception as error:
            fail(span, type(error).__name__)
            raise


def fail(span: Span, kind: str) -> None:
    """Mark a span as failed; ``kind`` is the error's class or a status, never its message."""
    span.set_attribute("error.type", kind)
    span.set_status(StatusCode.ERROR)


def _started(
    provider: TracerProvider,
    name: str,
    kind: SpanKind,
    parent: SpanContext | None,
    attributes: Mapping[str, Attribute],
) -> Span:
    context = None if parent is None else trace.set_span_in_context(NonRecordingSpan(parent))
    return provider.get_tracer("chordwise").start_span(name, context=context, kind=kind, attributes=dict(attributes))


def _next(caller: SpanContext | None) -> SpanContext:
    """Return a new span's ids in the caller's trace, or in a new one that is not sampled. The system's random numbers take
    a call each, in which another thread gets the interpreter."""
    span_id = random.getrandbits(64) or 1
    if caller is None:
        return SpanContext(random.getrandbits(128) or 1, span_id, is_remote=False)
    flags = TraceFlags(caller.trace_flags & TraceFlags.SAMPLED)  # flags of later versions are not passed on
    return SpanContext(caller.trace_id, span_id, is_remote=False, trace_flags=flags, trace_state=caller.trace_state)
