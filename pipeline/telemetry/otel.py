"""Spans recorded by OpenTelemetry and sent to a collector. Imported only where `CHORDWISE_OTLP_ENDPOINT` is set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, StatusCode, TraceFlags, TraceState
from opentelemetry.trace import Span as ApiSpan
from opentelemetry.trace.propagation import set_span_in_context

from pipeline.telemetry.traceparent import TraceContext
from pipeline.telemetry.tracing import Attribute, Span

_KINDS = {"server": SpanKind.SERVER, "consumer": SpanKind.CONSUMER, "client": SpanKind.CLIENT}
_FLUSH_MS = 2000


class _Recorded:
    """A span that is collected."""

    def __init__(self, span: ApiSpan) -> None:
        self._span = span

    def set(self, name: str, value: Attribute) -> None:
        self._span.set_attribute(name, value)

    def failed(self, kind: str) -> None:
        self._span.set_attribute("error.type", kind)
        self._span.set_status(StatusCode.ERROR)


class Recorder:
    """Records spans with a provider of its own: the process-wide one is left to whoever embeds us."""

    def __init__(self, processor: SpanProcessor, *, service: str, ratio: float = 1.0) -> None:
        """``ratio``: the share of traces that begin here and are recorded; a caller's own decision is kept."""
        resource = Resource.create({"service.name": service})
        self._provider = TracerProvider(
            sampler=ParentBased(TraceIdRatioBased(ratio)), resource=resource, shutdown_on_exit=False
        )
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("chordwise")

    @classmethod
    def to_collector(cls, endpoint: str, *, service: str, ratio: float) -> Recorder:
        """Send to an OTLP/HTTP collector in batches, in the background. What it does not take is dropped."""
        exporter = OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces", timeout=5)
        return cls(BatchSpanProcessor(exporter), service=service, ratio=ratio)

    @contextmanager
    def span(
        self, name: str, *, kind: str, parent: TraceContext | None, attributes: Mapping[str, Attribute]
    ) -> Iterator[tuple[Span, TraceContext]]:
        """A span, and the context that goes with what is called within it."""
        context = None if parent is None else set_span_in_context(NonRecordingSpan(_remote(parent)))
        span = self._tracer.start_span(name, context=context, kind=_KINDS[kind], attributes=dict(attributes))
        try:
            yield _Recorded(span), _here(span, parent)
        finally:
            span.end()

    def close(self) -> None:
        """Send what is left and end."""
        self._provider.force_flush(_FLUSH_MS)
        self._provider.shutdown()


def _remote(parent: TraceContext) -> SpanContext:
    flags = TraceFlags(TraceFlags.SAMPLED if parent.sampled else TraceFlags.DEFAULT)
    state = TraceState.from_header([parent.state]) if parent.state else None
    return SpanContext(int(parent.trace_id, 16), int(parent.span_id, 16), True, flags, state)


def _here(span: ApiSpan, parent: TraceContext | None) -> TraceContext:
    made = span.get_span_context()
    return TraceContext(
        trace_id=f"{made.trace_id:032x}",
        span_id=f"{made.span_id:016x}",
        sampled=made.trace_flags.sampled,
        state="" if parent is None else parent.state,
    )
