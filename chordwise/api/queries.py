"""Queries: the request, the answer, and how to wait for it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict, Unpack

from chordwise.errors import InvalidInput, QueryFailed, UnexpectedAnswer
from chordwise.records import Result, decode
from chordwise.resource import LONGEST_HOLD_S, Resource, as_content, operation, segment
from chordwise.retries import exchange
from chordwise.transport import Call, Steps, plain

_UNFINISHED = frozenset({"queued", "running"})
_PATH = "/v1/queries"
_LONGEST_ID = 128  # the server makes an id of its own in place of a longer one


class SettingKeywords(TypedDict, total=False):
    """How ``query`` is to answer. What is left out, or None, is the server's choice.

    ``method`` is hybrid, full_text or semantic (short for that key of ``retrieve``). Times in ``filters`` may be datetime
    objects; those without a time zone are taken as UTC. ``conversation``: the messages before the query, oldest first;
    ``user_profile``: what is known of the user. ``extra`` has further fields of the request as they are.
    """

    top_k: int | None
    filters: Mapping[str, Any] | None
    method: str | None
    retrieve: Mapping[str, Any] | None
    rerank: bool | None
    expand: bool | None
    profile: str | None
    context: Mapping[str, Any] | None
    conversation: Sequence[str] | None
    user_profile: Mapping[str, Any] | None
    trace: bool | None
    extra: Mapping[str, Any] | None


class QueryKeywords(SettingKeywords, total=False):
    """Fields of a query beside its text. ``namespace`` and ``namespaces`` are synonyms; one of them is required."""

    namespace: str | None
    namespaces: Iterable[str] | str | None


class AskKeywords(QueryKeywords, total=False):
    """Everything that ``query`` takes beside the text."""

    timeout: float | None
    request_id: str | None
    fresh: bool


class BoundKeywords(SettingKeywords, total=False):
    """What may be settled for all queries over the same namespaces. ``timeout`` in seconds, for one query."""

    timeout: float | None
    fresh: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HitSource(Result):
    """How one channel saw a chunk. ``rank`` counts from 1; None: it only scored what another channel had found."""

    channel: str
    rank: int | None = None
    score: float | None = None
    normalized: float | None = None
    contribution: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rerank(Result):
    """What reranking did to a chunk: its new score, and the place it came from (counted from 1)."""

    score: float | None = None
    from_rank: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit(Result):
    """A chunk that answers a query. ``source`` is the strongest channel, ``sources`` are all of them."""

    chunk_id: str
    document_id: str
    namespace: str = ""
    title: str | None = None
    text: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    score: float = 0.0
    confidence: float | None = None
    source: str | None = None
    sources: tuple[HitSource, ...] = ()
    reason: str | None = None
    rerank: Rerank | None = None
    feedback: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Citation(Result):
    """Which chunk a marker in the context stands for, and where in its document that is. ``edited``: the chunk's text was
    changed by hand, and the place is that of the passage it replaces."""

    marker: str = ""
    chunk_id: str = ""
    document_id: str = ""
    namespace: str = ""
    start: int | None = None
    end: int | None = None
    page: int | None = None
    page_start: int | None = None
    page_end: int | None = None
    title: str | None = None
    source_uri: str | None = None
    edited: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Entity(Result):
    """What an entity that the hits name is like; ``story_time`` is since when, None from the beginning."""

    id: str = ""
    name: str = ""
    type: str | None = None
    state: Mapping[str, Any] = field(default_factory=dict)
    story_time: int | None = None
    namespace: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context(Result):
    """The chunks as text for a language model, within the token budget that was asked for."""

    text: str = ""
    token_count: int = 0
    citations: tuple[Citation, ...] = ()
    entities: tuple[Entity, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats(Result):
    """How an answer came about. ``latency_ms`` is in milliseconds per stage, ``source_share`` adds up to 1."""

    hits: Mapping[str, int] = field(default_factory=dict)
    source_share: Mapping[str, float] = field(default_factory=dict)
    expanded_queries: tuple[Any, ...] = ()
    latency_ms: Mapping[str, float] = field(default_factory=dict)
    rerank_lift: float | None = None
    degraded: bool = False
    degradations: tuple[Any, ...] = ()
    profile: str | None = None
    config_version: Any = None
    experiment_bucket: Any = None
    cached: bool = False
    index_age_s: float | None = None
    recall: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryResult(Result):
    """The answer to one query; ``chunks`` are best first and may be none."""

    query_id: str
    status: str
    query: Mapping[str, Any] = field(default_factory=dict)
    chunks: tuple[Hit, ...] = ()
    context: Context | None = None
    stats: Stats = Stats()


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingQuery(Result):
    """A query that was sent and is answered by itself; ``query_result`` fetches the answer."""

    query_id: str
    status: str = "queued"


class QueryOperations(Resource):
    """Operations on queries."""

    _timeout_s: float

    @operation
    def query(
        self,
        text: str,
        *,
        timeout: float | None = None,
        request_id: str | None = None,
        fresh: bool = False,
        **options: Unpack[QueryKeywords],
    ) -> Steps[QueryResult]:
        """Find the chunks that answer ``text``, in the namespaces that ``options`` name.

        ``request_id`` is what the server's logs and tasks call this request; ``fresh`` asks again what may have been
        answered before. Raises QueryFailed if the query ends without an answer, and Timeout after ``timeout`` seconds
        (default: the client's).
        """
        body = query_body(text, **options)
        patience_s = self._timeout_s if timeout is None else timeout
        deadline = self._clock() + patience_s
        hold_s = math.ceil(min(LONGEST_HOLD_S, patience_s))
        headers = {"Prefer": f"wait={hold_s}", **query_headers(request_id, fresh=fresh)}
        call = Call(method="POST", path=_PATH, headers=headers, content=as_content(body), hold_s=hold_s)
        began = self._clock()
        answer = yield from exchange(call, self._policy, deadline=deadline, clock=self._clock)
        return (yield from self._awaited(answer.json(), began, deadline))

    @operation
    def submit_query(
        self, text: str, *, request_id: str | None = None, fresh: bool = False, **options: Unpack[QueryKeywords]
    ) -> Steps[PendingQuery]:
        """Ask as ``query`` does and return at once, with the id under which the answer can be fetched."""
        body = query_body(text, **options)
        headers = {"Prefer": "respond-async", **query_headers(request_id, fresh=fresh)}
        return self._one(PendingQuery, "POST", _PATH, body=body, headers=headers)

    @operation
    def query_result(
        self, query: PendingQuery | QueryResult | str, *, timeout: float | None = None
    ) -> Steps[QueryResult]:
        """The answer to a query, waited for up to ``timeout`` seconds (default: the client's; 0 only looks).

        Raises Timeout if there is none by then, QueryFailed if there will be none, and ProblemError with status 404 for
        a query that is forgotten or was cancelled.
        """
        deadline = self._clock() + (self._timeout_s if timeout is None else timeout)
        began = self._clock()
        return (yield from self._awaited((yield from self._look(_id(query), began, deadline)), began, deadline))

    @operation
    def cancel_query(self, query: PendingQuery | QueryResult | str) -> Steps[None]:
        """Stop a query, or forget its answer; ProblemError with status 404 if there is none."""
        yield from self._request("DELETE", f"{_PATH}/{segment(_id(query))}")

    def _awaited(self, said: Any, began: float, deadline: float) -> Steps[QueryResult]:
        """Look until the query has ended. ``began`` is when the last look did."""
        while True:
            status = said.get("status") if isinstance(said, dict) else None
            if status not in _UNFINISHED:
                return _result(said, status)
            query_id = str(said.get("query_id"))
            yield from self._pause_between_polls(began, deadline, f"query {query_id}", str(status))
            began = self._clock()
            said = yield from self._look(query_id, began, deadline)

    def _look(self, query_id: str, now: float, deadline: float) -> Steps[Any]:
        hold_s = max(0, math.ceil(min(LONGEST_HOLD_S, deadline - now)))
        params = (("wait", str(hold_s)),) if hold_s else ()
        call = Call(method="GET", path=f"{_PATH}/{segment(query_id)}", params=params, hold_s=hold_s)
        return (yield from exchange(call, self._policy, deadline=deadline, clock=self._clock)).json()


def query_body(
    text: str,
    *,
    namespace: str | None = None,
    namespaces: Iterable[str] | str | None = None,
    top_k: int | None = None,
    filters: Mapping[str, Any] | None = None,
    method: str | None = None,
    retrieve: Mapping[str, Any] | None = None,
    rerank: bool | None = None,
    expand: bool | None = None,
    profile: str | None = None,
    context: Mapping[str, Any] | None = None,
    conversation: Sequence[str] | None = None,
    user_profile: Mapping[str, Any] | None = None,
    trace: bool | None = None,
    extra: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """What is None is left out, so that the server's defaults hold. See options.QueryKeywords.

    Raises InvalidInput if no namespace is named.
    """
    named = namespace if namespaces is None else namespaces
    chosen = [named] if isinstance(named, str) else list(named or ())
    if not chosen:
        raise InvalidInput("a query must name at least one namespace")
    body = {
        "query_text": text,
        "namespaces": chosen,
        "top_k": top_k,
        "filters": None if filters is None else {name: plain(value) for name, value in filters.items()},
        "retrieve": {**(retrieve or {}), **({"method": method} if method else {})} or None,
        "enable_rerank": rerank,
        "enable_expand": expand,
        "profile": profile,
        "context": context,
        "conversation": None if conversation is None else list(conversation),
        "user_profile": user_profile,
        "trace": trace,
        **(extra or {}),
    }
    return {name: value for name, value in body.items() if value is not None}


def query_headers(request_id: str | None, *, fresh: bool) -> dict[str, str]:
    """What a query is sent with. Raises InvalidInput for a ``request_id`` that no header can hold."""
    headers = {"Cache-Control": "no-cache"} if fresh else {}
    if request_id is None:
        return headers
    if not (
        0 < len(request_id) <= _LONGEST_ID
        and request_id.isascii()
        and request_id.isprintable()
        and " " not in request_id
    ):
        raise InvalidInput(f"a request id has 1 to {_LONGEST_ID} visible ASCII characters")
    return {**headers, "X-Request-ID": request_id}


def _result(said: Any, status: object) -> QueryResult:
    if status == "succeeded":
        return decode(QueryResult, said)
    if not isinstance(status, str):
        raise UnexpectedAnswer("the answer to a query has no status")
    error = said.get("error")
    reason = error.get("detail") if isinstance(error, dict) else error
    query_id = str(said.get("query_id"))
    raise QueryFailed(
        f"query {query_id} {status}" + (f": {reason}" if reason else ""), query_id=query_id, status=status
    )


def _id(query: PendingQuery | QueryResult | str) -> str:
    return query if isinstance(query, str) else query.query_id
