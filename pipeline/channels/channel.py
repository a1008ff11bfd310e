"""The contract of every channel; tests/contract holds each of them to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from pipeline.errors import Misconfigured
from pipeline.query.request import Brought, Query
from pipeline.ranking.neighbours import Terms
from pipeline.records import ChannelName, ChunkId


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """The hits of a channel, best first. ``upper_bound`` is the highest score this query could have had in it, ``zero`` the
    score of a chunk that has nothing in common with it: less is no match. ``background``: the cosine of the query with
    texts that have nothing to do with it. ``model``: the embedding model that compared. ``trust``, in [0, 1]: how far the
    channel understood the query at all; with the plan's reading gate its weight is multiplied by it. ``brought``: the
    passages that stand in no store of ours. ``guard``: how it made sure that nothing was missed."""

    chunk_ids: tuple[ChunkId, ...] = ()
    scores: tuple[float, ...] = ()
    upper_bound: float | None = None
    zero: float | None = None
    background: float | None = None
    model: str | None = None
    trust: float = 1.0
    brought: tuple[Brought, ...] = ()
    guard: Mapping[str, Any] | None = None


@runtime_checkable
class Worded(Protocol):
    """A channel that knows which words of a text answer a query."""

    def terms(self, query: Query) -> tuple[str, ...]:
        """Return the terms it looks for, synonyms included. Raises Unavailable."""
        ...


@runtime_checkable
class Covering(Protocol):
    """A channel that knows how much of a query's words a chunk holds."""

    def coverage(self, query: Query, chunk_ids: Sequence[ChunkId]) -> dict[ChunkId, float]:
        """In [0, 1] for each of these chunks that it can tell it of. Raises Unavailable."""
        ...


@runtime_checkable
class TokenHolder(Protocol):
    """A channel that may hold the tokens of chunks in memory."""

    def indexed(self, query: Query, chunk_ids: Sequence[ChunkId]) -> dict[ChunkId, Terms] | None:
        """Return the tokens of these chunks as numbers that are comparable among them alone; None if some are
        missing."""
        ...


class Channel(Protocol):
    """One way of recalling chunks."""

    @property
    def name(self) -> ChannelName:
        """The channel's name in queries, weights and statistics."""
        ...

    def recall(self, query: Query) -> Recalled:
        """Up to ``query.pool_of(name)`` chunks of the query's tenant, namespaces and filters, best first, ties by chunk
        id, the same for the same query. Finding nothing is an ordinary result. Raises Unavailable."""
        ...

    def score(self, query: Query, chunk_ids: Sequence[ChunkId]) -> dict[ChunkId, float]:
        """This channel's score of chunks that another one found, on the same scale: what `recall` found gets the same
        score again. A chunk that it cannot tell anything of is not in the answer. Raises Unavailable."""
        ...


@runtime_checkable
class PreparingChannel(Channel, Protocol):
    """A channel that does once for several wordings of a query what it would else do for each."""

    def prepare(self, query: Query, texts: Sequence[str]) -> None:
        """Get ready to ``recall`` the query worded as each of ``texts``. Raises Unavailable."""
        ...


@dataclass(frozen=True, slots=True)
class AbsentChannel:
    """Stands for a channel that a query asks and that this process does not have."""

    name: ChannelName

    def recall(self, query: Query) -> Recalled:  # noqa: ARG002 - the port's arguments
        """Raises Misconfigured."""
        raise Misconfigured(f"the channel {self.name} is not installed on this worker")

    def score(self, query: Query, chunk_ids: Sequence[ChunkId]) -> dict[ChunkId, float]:  # noqa: ARG002 - the port's
        """Nothing."""
        return {}
