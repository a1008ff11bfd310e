"""Providers of recorded spans, by the OpenTelemetry SDK. Imported only where `CHORDWISE_OTLP_ENDPOINT` is set."""

from __future__ import annotations

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased


def recording(processor: SpanProcessor, *, service: str, ratio: float = 1.0) -> TracerProvider:
    """Return a provider of its own: the process-wide one is left to a program that embeds this one.

    ``ratio``: the share of traces that begin here and are recorded; a caller's own decision is kept.
    """
    resource = Resource.create({"service.name": service})
    sampler = ParentBased(TraceIdRatioBased(ratio))
    provider = TracerProvider(sampler=sampler, resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(processor)
    return provider


def to_collector(endpoint: str, *, service: str, ratio: float) -> TracerProvider:
    """Return a provider that sends to an OTLP/HTTP collector in batches, in the background; refused spans are dropped."""
    exporter = OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces", timeout=5)
    return recording(BatchSpanProcessor(exporter), service=service, ratio=ratio)
