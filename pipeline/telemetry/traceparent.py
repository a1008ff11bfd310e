"""W3C trace context, level 1 (https://www.w3.org/TR/trace-context/): the headers `traceparent` and `tracestate`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

TRACEPARENT, TRACESTATE = "traceparent", "tracestate"
_LONGEST_STATE = 512  # characters that must be passed on; a longer list may be dropped whole
_PARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_STATE = re.compile(r"[\x20-\x7e]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceContext:
    """A position in a trace: ``trace_id`` (32 hex digits), ``span_id`` (16), ``sampled`` by the caller, other systems'
    ``state``."""

    trace_id: str
    span_id: str
    sampled: bool
    state: str = ""

    @property
    def traceparent(self) -> str:
        """As the header has it."""
        return f"00-{self.trace_id}-{self.span_id}-{'01' if self.sampled else '00'}"

    def headers(self) -> dict[str, str]:
        """What is sent on, to a task or back to the caller."""
        return {TRACEPARENT: self.traceparent} | ({TRACESTATE: self.state} if self.state else {})


def read(headers: Mapping[str, object]) -> TraceContext | None:
    """Return the context in lower-case headers, None if absent or malformed. Later versions are read as version 1 goes;
    a state needs a valid parent."""
    given = headers.get(TRACEPARENT)
    found = _PARENT.fullmatch(given.strip()) if isinstance(given, str) else None
    if found is None:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    if version == "ff" or (version == "00" and more) or not int(trace_id, 16) or not int(span_id, 16):
        return None
    state = headers.get(TRACESTATE)
    kept = state.strip() if isinstance(state, str) and len(state) <= _LONGEST_STATE else ""
    return TraceContext(
        trace_id=trace_id,
        span_id=span_id,
        sampled=bool(int(flags, 16) & 1),
        state=kept if _STATE.fullmatch(kept) else "",
    )
