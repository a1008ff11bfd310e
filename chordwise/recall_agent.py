"""Recall as an agent that a main agent calls as a function: a request in, hits with source and reason out.

from chordwise.recall_agent import RecallAgent, RecallRequest

recall = RecallAgent(["kb"])
result = recall.invoke(RecallRequest(query="…", session_id="s-1", trace_id="t-1"))
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Unpack, cast

from chordwise.agents.asker import Asker, OwnsConnections, listed
from chordwise.agents.passages import passage_metadata
from chordwise.api.queries import AskKeywords, BoundKeywords, Hit, QueryResult
from chordwise.async_client import AsyncChordwise
from chordwise.client import Chordwise
from chordwise.contract.answer import RecallHit as RecallHit
from chordwise.errors import InvalidInput
from chordwise.resource import given

_MOST_MESSAGES: Final = 20  # the server reads the last eight
_LONGEST_MESSAGE: Final = 8_000  # characters
_TOP_K: Final = 5  # hits, unless the request or the agent sets their number


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallRequest:
    """A request of a main agent. ``trace_id`` (visible ASCII) is the request id in the server's logs and tasks;
    ``session_id`` decides the arm of ``experiment_id``. The server uses ``context``, the messages before the query, oldest
    first, and ``user_profile`` to understand it. ``top_k``: the number of hits, by default that of the agent's
    ``options``, else 5."""

    query: str
    session_id: str = ""
    trace_id: str = ""
    user_profile: Mapping[str, Any] | None = None
    context: tuple[str, ...] | list[str] | None = None
    experiment_id: str | None = None
    top_k: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallResult:
    """The hits, best first. ``degraded``: parts of the retrieval failed, listed in ``degradations``. ``latency_ms`` is the
    caller's waiting time. ``answer`` is the whole answer of the server."""

    hits: tuple[RecallHit, ...]
    latency_ms: float
    degraded: bool
    trace_id: str
    experiment_id: str | None = None
    experiment_bucket: str | None = None
    degradations: tuple[Any, ...] = ()
    answer: QueryResult | None = field(default=None, repr=False, compare=False)


class RecallAgent(OwnsConnections):
    """Recall over bound namespaces. Calling it, ``invoke`` and ``ainvoke`` each run one query.

    A request may be a `RecallRequest` or a mapping with the same names. ``options`` are those of ``Chordwise.query``
    and hold for every request. ``prepare`` maps each request before it is sent, for example to choose an
    experiment or to remove private data. Raises ChordwiseError as any client, and InvalidInput for an empty query.
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
        """Return the hits that answer the request."""
        prepared, began = self._prepared(request), time.perf_counter()
        return _result(prepared, self._asker.ask(prepared.query, **self._query_options(prepared)), began)

    async def ainvoke(self, request: RecallRequest | Mapping[str, Any]) -> RecallResult:
        """Return the hits that answer the request, asynchronously."""
        prepared, began = self._prepared(request), time.perf_counter()
        return _result(prepared, await self._asker.aask(prepared.query, **self._query_options(prepared)), began)

    def _prepared(self, request: RecallRequest | Mapping[str, Any]) -> RecallRequest:
        prepared = recall_request(request)
        return prepared if self._prepare is None else recall_request(self._prepare(prepared))

    def _query_options(self, request: RecallRequest) -> AskKeywords:
        top_k = request.top_k if request.top_k is not None else self._options.get("top_k")
        session = given(session_id=request.session_id or None, experiment_id=request.experiment_id or None)
        options = {
            **self._options,
            "namespaces": self._namespaces,
            "top_k": _TOP_K if top_k is None else top_k,
            "request_id": request.trace_id or None,
            "extra": {**(self._options.get("extra") or {}), **session},
        }
        if request.context:
            options["conversation"] = [message[:_LONGEST_MESSAGE] for message in request.context[-_MOST_MESSAGES:]]
        if request.user_profile:
            options["user_profile"] = request.user_profile
        return cast(AskKeywords, options)


def recall_request(request: RecallRequest | Mapping[str, Any]) -> RecallRequest:
    """Convert a mapping to a request; unknown names are ignored. Raises InvalidInput for an empty query."""
    if isinstance(request, Mapping):
        values = {name: request[name] for name in RecallRequest.__dataclass_fields__ if request.get(name) is not None}
        request = RecallRequest(**{"query": "", **values})
    if not isinstance(request.query, str) or not request.query.strip():
        raise InvalidInput("the query of the request is empty")
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
        confidence=hit.confidence,
        reason=hit.reason or "",
        content=hit.text,
        metadata=passage_metadata(hit, query_id),
    )
