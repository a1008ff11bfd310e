"""Recall as an agent that a main agent calls with a function: a request in, hits with source and reason out.

from chordwise.recall_agent import RecallAgent, RecallRequest

recall = RecallAgent(["kb"])
result = recall.invoke(RecallRequest(query="…", session_id="s-1", trace_id="t-1"))
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Unpack, cast

from chordwise.agents.asker import Asker, listed
from chordwise.agents.passages import passage_metadata
from chordwise.api.queries import AskKeywords, BoundKeywords, Hit, QueryResult
from chordwise.async_client import AsyncChordwise
from chordwise.client import Chordwise
from chordwise.errors import InvalidInput

_MOST_MESSAGES: Final = 20  # the server reads the last eight
_LONGEST_MESSAGE: Final = 8_000  # characters
_TOP_K: Final = 5  # hits, where neither the request nor the agent says how many


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallRequest:
    """What a main agent wants to know. ``trace_id`` (visible ASCII) is the request id in the server's logs and tasks;
    ``session_id`` decides the arm of ``experiment_id``. ``context``, the messages before the query, oldest first, and
    ``user_profile`` have a part in how the server understands it. ``top_k``: how many hits;
    without it as many as the agent's ``options`` say, else 5."""

    query: str
    session_id: str = ""
    trace_id: str = ""
    user_profile: Mapping[str, Any] | None = None
    context: tuple[str, ...] | list[str] | None = None
    experiment_id: str | None = None
    top_k: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallHit:
    """A passage with its strongest channel (``source``), ``score``, ``confidence`` from 0 to 1, and ``reason``."""

    source: str
    score: float
    confidence: float
    reason: str
    content: str
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallResult:
    """The hits, best first. ``degraded``: something was lost on the way, named in ``degradations``. ``latency_ms`` is what
    the caller waited. ``answer`` has everything that the server said."""

    hits: tuple[RecallHit, ...]
    latency_ms: float
    degraded: bool
    trace_id: str
    experiment_id: str | None = None
    experiment_bucket: str | None = None
    degradations: tuple[Any, ...] = ()
    answer: QueryResult | None = field(default=None, repr=False, compare=False)


class RecallAgent:
    """Recall over the namespaces it is bound to. Call it, ``invoke`` or ``ainvoke`` it; each is one query.

    A request may be a `RecallRequest` or a mapping with the same names. ``options`` are those of ``Chordwise.query``
    and hold for every request. ``prepare`` is given each request first and gives the one that is asked: the place to
    choose an experiment, or to leave out what the server need not know. Raises ChordwiseError as
    any client; InvalidInput for a request without a question.
    """

    def __init__(
        self,
        namespaces: Iterable[str] | str,
        *,
        prepare: Callable[[RecallRequest], RecallRequest] | None = None,
        client: Chordwise | None = None,
        async_client: AsyncChordwise | None = None,
        url: str | None = None,
        api_key: str | None = None,
        **options: Unpack[BoundKeywords],
    ) -> None:
        self._namespaces, self._options = listed(namespaces), options
        self._prepare = prepare
        timeout = options.get("timeout") or 30.0
        self._asker = Asker(client=client, async_client=async_client, url=url, api_key=api_key, timeout=timeout)

    def __call__(self, request: RecallRequest | Mapping[str, Any]) -> RecallResult:
        """See ``invoke``."""
        return self.invoke(request)

    def invoke(self, request: RecallRequest | Mapping[str, Any]) -> RecallResult:
        """Recall what answers the request."""
        asked, began = self._prepared(request), time.perf_counter()
        return _result(asked, self._asker.ask(asked.query, **self._asked(asked)), began)

    async def ainvoke(self, request: RecallRequest | Mapping[str, Any]) -> RecallResult:
        """The same, to be awaited."""
        asked, began = self._prepared(request), time.perf_counter()
        return _result(asked, await self._asker.aask(asked.query, **self._asked(asked)), began)

    def close(self) -> None:
        """Close the connections that the agent made for itself."""
        self._asker.close()

    async def aclose(self) -> None:
        """The same, with those of this event loop."""
        await self._asker.aclose()

    def _prepared(self, request: RecallRequest | Mapping[str, Any]) -> RecallRequest:
        asked = recall_request(request)
        return asked if self._prepare is None else recall_request(self._prepare(asked))

    def _asked(self, request: RecallRequest) -> AskKeywords:
        named = {"session_id": request.session_id or None, "experiment_id": request.experiment_id}
        extra = {**(self._options.get("extra") or {}), **{name: value for name, value in named.items() if value}}
        of_request = {
            "namespaces": self._namespaces,
            "top_k": next(each for each in (request.top_k, self._options.get("top_k"), _TOP_K) if each is not None),
            "request_id": request.trace_id or None,
            "extra": extra,
            **_background(request),
        }
        return cast(AskKeywords, {**self._options, **of_request})


def _background(request: RecallRequest) -> AskKeywords:
    """Return the newest messages, each as much as the server takes, and the profile, as far as there are any."""
    found: AskKeywords = {}
    if request.context:
        found["conversation"] = [message[:_LONGEST_MESSAGE] for message in request.context[-_MOST_MESSAGES:]]
    if request.user_profile:
        found["user_profile"] = request.user_profile
    return found


def recall_request(request: RecallRequest | Mapping[str, Any]) -> RecallRequest:
    """The request that a mapping describes; names it does not know are left aside. Raises InvalidInput."""
    if isinstance(request, Mapping):
        known = {name: request[name] for name in RecallRequest.__dataclass_fields__ if request.get(name) is not None}
        request = RecallRequest(**{"query": "", **known})
    if not isinstance(request.query, str) or not request.query.strip():
        raise InvalidInput("the request asks nothing: its query is empty")
    return request


def _result(request: RecallRequest, answer: QueryResult, began: float) -> RecallResult:
    stats = answer.stats
    bucket = stats.experiment_bucket
    return RecallResult(
        hits=tuple(_hit(hit, answer.query_id) for hit in answer.chunks),
        latency_ms=(time.perf_counter() - began) * 1000,
        degraded=stats.degraded,
        trace_id=request.trace_id,
        experiment_id=request.experiment_id,
        experiment_bucket=None if bucket is None else str(bucket),
        degradations=stats.degradations,
        answer=answer,
    )


def _hit(hit: Hit, query_id: str) -> RecallHit:
    return RecallHit(
        source=hit.source or "",
        score=hit.score,
        confidence=hit.confidence or 0.0,
        reason=hit.reason or "",
        content=hit.text,
        metadata=passage_metadata(hit, query_id),
    )
