"""What may happen to a part of a query, done to it at its edge."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NoReturn

from pipeline.channels.channel import Channel, Recalled
from pipeline.errors import StoreUnavailable
from pipeline.query.request import Query
from pipeline.records import ChannelName, ChunkId
from tests.support.servers.business_api import says, slowly
from tests.support.servers.openai_answers import Answer, hangs, raw, refused
from tests.support.servers.openai_answers import says as chat_says

# What each means stands above the table of tests/faults/test_fault_matrix.py. ``overtaken``: redelivered while the first
# delivery hangs. ``unscored``: a channel that recalls as it should, and whose scores of others' finds run into a bug.
# ``broken``: a client of a model that runs into one.
Fault = Literal["exception", "bug", "hang", "killed", "redelivered", "empty", "slow", "overtaken", "unscored", "broken"]

SUB_QUERY = "factory defaults of a gateway device"

_SLOW_S = 0.12  # of the limit of a part at fault
_HANG_S = 5.0  # much longer than anybody waits


class Killed(BaseException):
    """The process is gone: whatever would have come after does not happen, and nobody hears of it."""


@dataclass(frozen=True)
class Faulty:
    """A channel whose calls run into the fault; it is itself otherwise."""

    channel: Channel
    fault: Fault
    let_go: threading.Event
    calls: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    @property
    def name(self) -> ChannelName:
        """Whose place it takes."""
        return self.channel.name

    def __getattr__(self, name: str) -> Any:
        return getattr(self.channel, name)

    def recall(self, query: Query) -> Recalled:
        """What the channel recalls, if it gets that far."""
        if self.fault == "overtaken" and next(self.calls) == 1:
            strike("hang", self.let_go)
        strike(self.fault, self.let_go)
        return Recalled() if self.fault == "empty" else self.channel.recall(query)

    def score(self, query: Query, chunk_ids: Sequence[ChunkId]) -> dict[ChunkId, float]:
        """The same for scores."""
        strike("bug" if self.fault == "unscored" else self.fault, self.let_go)
        return {} if self.fault == "empty" else self.channel.score(query, chunk_ids)


@dataclass(frozen=True)
class Raising:
    """Stands for a client of a model that runs into ``error`` while it asks; also for what keeps such clients."""

    error: BaseException
    weight: float = 0.5

    def of(self, *_: Any) -> Raising:
        """Itself."""
        return self

    def expand(self, *_: Any, **__: Any) -> NoReturn:
        """Raises it."""
        raise self.error

    rerank = expand

    def close(self) -> None:
        """Nothing is open."""


def strike(fault: Fault, let_go: threading.Event) -> None:
    """What the fault does to a call before it is made."""
    if fault == "exception":
        raise StoreUnavailable("the store is away")
    if fault == "bug":
        raise LookupError("nobody thought of this")
    if fault == "killed":
        raise Killed
    if fault == "hang":
        let_go.wait(_HANG_S)
    if fault == "slow":
        let_go.wait(_SLOW_S)


def expanding(fault: Fault | None) -> Answer:
    """How a language model answers that is asked for other words."""
    if fault in (None, "slow", "empty"):
        said = chat_says("[]" if fault == "empty" else json.dumps([SUB_QUERY]))
        return replace(said, delay_s=_SLOW_S if fault == "slow" else 0.0)
    return _OF_SERVICES[fault]


def judging(fault: Fault | None) -> Answer:
    """How a rerank service answers."""
    return Answer() if fault is None else _OF_SERVICES[fault]


def serving_hits(fault: Fault | None, namespace: str) -> Callable[..., None]:
    """How a business API answers that knows one passage of a namespace."""
    return says(_from_the_api(namespace)) if fault is None else _OF_APIS[fault](namespace)


def _from_the_api(namespace: str) -> dict[str, Any]:
    return {"hits": [{"id": f"ticket-{namespace}", "body": "The router was reset by the help desk.", "score": 8}]}


# Those of a service; the others happen to whoever asks it.
SERVICES_FAIL: tuple[Fault, ...] = ("exception", "bug", "hang", "empty", "slow")

_OF_SERVICES: Mapping[Fault, Answer] = {
    "exception": refused(500),
    "bug": raw(b"<html>not what was agreed</html>"),
    "hang": hangs(),
    "empty": raw(b'{"results": []}'),
    "slow": Answer(delay_s=_SLOW_S),
}
_OF_APIS: Mapping[Fault, Callable[[str], Callable[..., None]]] = {
    "exception": lambda _: says({"message": "no"}, status=500),
    "bug": lambda _: says(b"<html>not what was agreed</html>"),
    "hang": lambda namespace: slowly(_HANG_S, _from_the_api(namespace)),
    "empty": lambda _: says({"hits": []}),
    "slow": lambda namespace: slowly(_SLOW_S, _from_the_api(namespace)),
}
