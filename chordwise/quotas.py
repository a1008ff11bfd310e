"""What a tenant may store and queue, as the server answers it."""

from __future__ import annotations

from dataclasses import dataclass

from chordwise.decoding import Result


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota(Result):
    """How much there may be, None for any number, and how much there is."""

    limit: int | None = None
    used: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotas(Result):
    """What the tenant may store, and how many documents may wait for a worker."""

    documents: Quota = Quota()
    chunks: Quota = Quota()
    queued: Quota = Quota()
    tokens: Quota = Quota()
