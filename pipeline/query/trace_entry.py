"""A filter on the list of a tenant's kept traces."""

from dataclasses import dataclass
from datetime import datetime

from chordwise.contract.explanation import TraceMark, TraceSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceFilter:
    """A filter on entries; ``since`` is inclusive, ``until`` exclusive."""

    mark: TraceMark | None = None
    namespace: str | None = None
    profile: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    def matches(self, entry: TraceSummary) -> bool:
        """Return whether an entry of the right time matches."""
        return (
            (self.mark is None or self.mark in entry.marks)
            and (self.namespace is None or self.namespace in entry.namespaces)
            and (self.profile is None or self.profile == entry.profile)
        )
