"""The position of a thread or request in a trace, and spans for OpenTelemetry.

Without CHORDWISE_OTLP_ENDPOINT nothing is recorded or imported; ids still travel through broker, tasks and logs. With
it each span entered is recorded, and OpenTelemetry's ids travel.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Protocol

import structlog

from pipeline.errors import Misconfigured
from pipeline.settings import Settings, settings
from pipeline.telemetry.traceparent import TraceContext, read

if TYPE_CHECKING:
    from pipeline.telemetry.otel import Recorder

Attribute = str | int | float | bool

_CURRENT: ContextVar[TraceContext | None] = ContextVar("chordwise_trace", default=None)
_LOCK = threading.Lock()
_NEEDED = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")


class Span(Protocol):
    """What may be said of a span while it lasts."""

    def set(self, name: str, value: Attribute) -> None:
        """Note a fact; ids and numbers only, never text of documents or questions."""

    def failed(self, kind: str) -> None:
        """Mark it as failed; ``kind`` is the error's class or a status, never its message."""


class _Unrecorded:
    """A span that nobody collects."""

    def set(self, name: str, value: Attribute) -> None:
        """Nothing happens."""

    def failed(self, kind: str) -> None:
        """Nothing happens."""


UNRECORDED = _Unrecorded()


def current() -> TraceContext | None:
    """Where we are; None outside of any request or task."""
    return _CURRENT.get()


def outgoing() -> dict[str, str]:
    """The headers to send on with a message or a request; empty outside of any trace."""
    here = _CURRENT.get()
    return {} if here is None else here.headers()


class _Recording:
    """This process' recorder, made at first use and so after the fork; False: not looked for yet."""

    def __init__(self) -> None:
        self.recorder: Recorder | bool | None = False

    def get(self) -> Recorder | None:
        """The recorder, None if nobody collects. Raises Misconfigured."""
        known = self.recorder
        if not isinstance(known, bool):
            return known
        with _LOCK:
            if self.recorder is False:
                self.recorder = _make(settings())
            assert not isinstance(self.recorder, bool)
            return self.recorder


_RECORDING = _Recording()


def check(use: Settings) -> None:
    """Raises Misconfigured if spans are to be sent and the packages for it are not installed."""
    if use.otlp_endpoint and not all(_installed(name) for name in _NEEDED):
        raise Misconfigured("CHORDWISE_OTLP_ENDPOINT needs the extra otel: pip install 'chordwise[otel]'")


def _installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def _make(use: Settings) -> Recorder | None:
    if not use.otlp_endpoint:
        return None
    check(use)
    from pipeline.telemetry.otel import Recorder  # only now: it takes a tenth of a second, and an extra

    return Recorder.to_collector(use.otlp_endpoint, service="chordwise", ratio=use.otlp_sample_ratio)


def record_with(recorder: Recorder | None) -> None:
    """Have spans of this process recorded there from now on; None: nowhere."""
    _RECORDING.recorder = recorder


def warm_up() -> None:
    """Load what recording needs, so that nobody's first request waits for it. Not before a fork."""
    _RECORDING.get()


def close() -> None:
    """Send what was recorded; the process is about to end."""
    recorder = _RECORDING.recorder
    if recorder and not isinstance(recorder, bool):
        recorder.close()


@contextmanager
def entered(name: str, headers: Mapping[str, object], *, kind: str, **attributes: Attribute) -> Iterator[Span]:
    """Enter a trace at a request (``kind`` server) or task (consumer): that of ``headers``, else a new one. Log lines
    carry its ids."""
    caller = read(headers)
    recorder = _RECORDING.get()
    if recorder is None:
        with _at(_next(caller)):
            yield UNRECORDED
    else:
        with recorder.span(name, kind=kind, parent=caller, attributes=attributes) as (span, here), _at(here):
            yield span


def edge(name: str, **attributes: Attribute) -> AbstractContextManager[Span]:
    """A call to something outside: a store, a model. Nothing outside of a trace, and nothing when nobody collects."""
    here = _CURRENT.get()
    recorder = None if here is None else _RECORDING.get()
    return nullcontext(UNRECORDED) if recorder is None else _edge(recorder, name, attributes)


@contextmanager
def _edge(recorder: Recorder, name: str, attributes: Mapping[str, Attribute]) -> Iterator[Span]:
    with recorder.span(name, kind="client", parent=_CURRENT.get(), attributes=attributes) as (span, here):
        token = _CURRENT.set(here)
        try:
            yield span
        except Exception as error:
            span.failed(type(error).__name__)
            raise
        finally:
            _CURRENT.reset(token)


@contextmanager
def _at(here: TraceContext) -> Iterator[None]:
    token = _CURRENT.set(here)
    try:
        with structlog.contextvars.bound_contextvars(traceparent=here.traceparent):
            yield
    finally:
        _CURRENT.reset(token)


def _next(caller: TraceContext | None) -> TraceContext:
    """A new span in the caller's trace, or in a new one that nobody records."""
    span_id = secrets.token_hex(8)
    if caller is None:
        return TraceContext(trace_id=secrets.token_hex(16), span_id=span_id, sampled=False)
    return replace(caller, span_id=span_id)
