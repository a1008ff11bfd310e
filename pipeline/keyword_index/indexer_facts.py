"""The state of a host's keyword indexes, as its indexer reports it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexerFacts:
    """The state of one host's keyword indexes. ``lag_s``: the oldest change's wait; ``lag_revisions``: waiting changes;
    ``built``: the share of all chunks in indexed namespaces; ``failing``: tenants whose last attempt failed."""

    host: str
    lag_s: float
    lag_revisions: int
    built: float
    failing: int
    disk_bytes: int
