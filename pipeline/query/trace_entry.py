"""An entry of a tenant's list of kept traces, and a filter on the list."""

from dataclasses import dataclass

from chordwise.contract.explanation import TraceMark


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceEntry:
    """An entry of the list. ``asked_at``: seconds since the epoch; ``marks``: why it is kept; ``total_ms``: from the
    request to the answer; ``text``: the beginning of the question."""

    query_id: str
    asked_at: float
    text: str
    namespaces: tuple[str, ...]
    profile: str
    marks: tuple[TraceMark, ...]
    total_ms: float
    chunks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceFilter:
    """A filter on entries; ``since`` is inclusive, ``until`` exclusive, in seconds since the epoch."""

    mark: TraceMark | None = None
    namespace: str | None = None
    profile: str | None = None
    since: float | None = None
    until: float | None = None

    def matches(self, entry: TraceEntry) -> bool:
        """Return whether an entry of the right time matches."""
        return (
            (self.mark is None or self.mark in entry.marks)
            and (self.namespace is None or self.namespace in entry.namespaces)
            and (self.profile is None or self.profile == entry.profile)
        )
