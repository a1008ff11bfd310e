"""The contract of every channel, checked by tests/contract, and the channels of installed packages: gateway and workers know
their names; only workers load their code."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Final, Protocol, TypedDict

import structlog

from pipeline.errors import Misconfigured
from pipeline.query.request import Query
from pipeline.query.request import Recalled as Recalled  # channels of packages import it from here
from pipeline.records import ChannelName, ChunkId


class Loss(TypedDict):
    """A part of a channel that failed while the rest of it worked."""

    code: str
    detail: str


# The servers that a channel of ours asks, for sentences about one that fails or does not answer.
ASKED: Final[Mapping[ChannelName, str]] = {
    ChannelName.KEYWORD: "the keyword index or MySQL",
    ChannelName.SEMANTIC: "the embedding model or PostgreSQL",
    ChannelName.FAQ: "the embedding model, MySQL or PostgreSQL",
    ChannelName.API: "the business API",
}


class Channel(Protocol):
    """One method of recalling chunks."""

    @property
    def name(self) -> ChannelName:
        """The channel's name in queries, weights and statistics."""
        ...

    def recall(self, query: Query) -> Recalled:
        """Return up to ``query.pool_of(name)`` chunks of the query's tenant, namespaces and filters, best first, ties
        by chunk id, the same for the same query. An empty result is valid. Raises Unavailable."""
        ...

    def score(self, query: Query, chunk_ids: Sequence[ChunkId]) -> dict[ChunkId, float]:
        """Return this channel's score of chunks that another one found, on the same scale: hits of `recall` get the
        same score again. Chunks that it cannot score are left out. Raises Unavailable."""
        ...


@dataclass(frozen=True, slots=True)
class AbsentChannel:
    """Stand-in for a channel that a query names and that this process does not have."""

    name: ChannelName

    def recall(self, query: Query) -> Recalled:  # noqa: ARG002 - the port's arguments
        """Raise Misconfigured."""
        raise Misconfigured(f"the channel {self.name} is not installed on this worker")

    def score(self, query: Query, chunk_ids: Sequence[ChunkId]) -> dict[ChunkId, float]:  # noqa: ARG002 - the port's
        """Return nothing."""
        return {}


log = structlog.get_logger(__name__)

GROUP = "chordwise.channels"


@functools.cache
def installed_channels() -> dict[ChannelName, EntryPoint]:
    """Return the installed channels' entry points by name, unloaded; invalid and taken names are logged."""
    entry_points_by_name: dict[ChannelName, EntryPoint] = {}
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value)):
        try:
            taken = entry.name in set(ChannelName) or entry.name in entry_points_by_name
            if taken:
                raise ValueError(f"a channel named {entry.name} exists already")
            entry_points_by_name[ChannelName.admit(entry.name)] = entry
        except ValueError as error:
            log.error("channel_not_registered", plugin=entry.name, error=type(error).__name__, detail=str(error))
    return entry_points_by_name
