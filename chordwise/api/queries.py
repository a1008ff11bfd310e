"""Queries: the request, the answer, and how to wait for it."""

from __future__ import annotations

import functools
import json
import math
import re
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, TypedDict, Unpack

from chordwise.api.jobs import Job
from chordwise.contract import answer
from chordwise.errors import InvalidInput, QueryFailed, UnexpectedAnswer
from chordwise.records import Result, decode
from chordwise.resource import LONGEST_HOLD_S, Resource, as_content, given, operation, path
from chordwise.retries import PATIENT, exchange
from chordwise.transport import Call, Steps, plain

_UNFINISHED = frozenset({"queued", "running"})
_PATH = "/v1/queries"
_PASSED = ("top_k", "profile", "context", "highlight", "user_profile", "trace", "group_by", "group_size")
MOST_IN_A_BATCH = 10_000  # queries
_RESULTS_AT_ONCE = 200  # that one request reads
_LONGEST_ID = 128  # the server replaces a longer id by its own


class SettingKeywords(TypedDict, total=False):
    """Settings of a query. The server chooses for those left out or None.

    ``method`` is hybrid, full_text or semantic (short for that key of ``retrieve``). ``context``: add the hits as a text for
    a prompt; ``{}`` for the default one. ``highlight``: mark the words of the query in the hits. Times in ``filters`` may be
    datetime objects; those without a time zone are taken as UTC; a text is an expression, ``year > 2020 and tags:hr``.
    ``facets``: fields whose values are counted. ``group_by``: return the best ``top_k`` values of a field with up to
    ``group_size`` hits of each; ``**group.next`` asks for further ones. ``exclude``: ids of chunks to leave out.
    ``conversation``: the messages before the query, oldest first; ``user_profile``: facts about the user. ``extra`` has
    further fields of the request, passed through.
    """

    top_k: int | None
    filters: Mapping[str, Any] | str | None
    facets: Sequence[str] | None
    group_by: str | None
    group_size: int | None
    exclude: Sequence[str] | None
    method: str | None
    retrieve: Mapping[str, Any] | None
    rerank: bool | None
    expand: bool | None
    profile: str | None
    context: Mapping[str, Any] | None
    highlight: bool | None
    conversation: Sequence[str] | None
    user_profile: Mapping[str, Any] | None
    trace: bool | None
    extra: Mapping[str, Any] | None


class QueryKeywords(SettingKeywords, total=False):
    """Fields of a query beside its text. ``namespace`` and ``namespaces`` are synonyms; one of them is required."""

    namespace: str | None
    namespaces: Iterable[str] | str | None


class AskKeywords(QueryKeywords, total=False):
    """All options of ``query``."""

    timeout: float | None
    request_id: str | None
    fresh: bool


class BoundKeywords(SettingKeywords, total=False):
    """Options that adapters bind for all their queries. ``timeout`` in seconds, for one query."""

    timeout: float | None
    fresh: bool


HitSource = answer.HitSource
Rerank = answer.RerankMove
Hit = answer.AnswerChunk
FacetValue = answer.FacetValue
Facet = answer.Facet
Group = answer.Group
Citation = answer.Citation
Entity = answer.Entity
Context = answer.AnswerContext
Stats = answer.Stats


class QueryResult(Result):
    """The answer to one query; ``chunks`` are best first and may be empty. ``facets``, ``groups`` and ``context`` are empty
    or None unless asked for."""

    query_id: str
    status: str
    query: Mapping[str, Any] = field(default_factory=dict)
    chunks: tuple[Hit, ...] = ()
    facets: tuple[Facet, ...] = ()
    groups: tuple[Group, ...] = ()
    context: Context | None = None
    stats: Stats = field(default_factory=functools.partial(decode, Stats, {}))


PendingQuery = answer.QueryAccepted


class BatchedAnswer(Result):
    """The outcome of one query of a batch. ``index``: its position, from 0. ``id``: as it was sent. ``error`` has the ``code``
    and the ``detail`` of one that failed; ``answer`` is None then, and for one that was cancelled."""

    index: int
    id: str | None = None
    status: str = "succeeded"
    answer: QueryResult | None = None
    error: Mapping[str, Any] | None = None


class QueryOperations(Resource):
    """Operations on queries."""

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

        ``request_id`` identifies this request in the server's logs and tasks; ``fresh`` bypasses the answer cache.
        Raises QueryFailed if the query ends without an answer, and Timeout after ``timeout`` seconds (default: the
        client's).
        """
        body = query_body(text, **options)
        limit_s = self._timeout_s if timeout is None else timeout
        hold_s = math.ceil(min(LONGEST_HOLD_S, limit_s))
        headers = {"Prefer": f"wait={hold_s}", **query_headers(request_id, fresh=fresh)}
        call = Call(method="POST", path=_PATH, headers=headers, content=as_content(body), hold_s=hold_s)
        began = self._clock()
        deadline = began + limit_s
        answer = yield from exchange(call, self._policy, deadline=deadline, clock=self._clock)
        return (yield from self._await_result(answer.json(), began, deadline))

    @operation
    def submit_query(
        self, text: str, *, request_id: str | None = None, fresh: bool = False, **options: Unpack[QueryKeywords]
    ) -> Steps[PendingQuery]:
        """Submit a query and return at once with its id, for ``query_result``."""
        body = query_body(text, **options)
        headers = {"Prefer": "respond-async", **query_headers(request_id, fresh=fresh)}
        return self._one(PendingQuery, "POST", _PATH, body=body, headers=headers)

    @operation
    def query_result(
        self, query: PendingQuery | QueryResult | str, *, timeout: float | None = None
    ) -> Steps[QueryResult]:
        """Wait up to ``timeout`` seconds (default: the client's; 0 only looks) for the answer to a query.

        Raises Timeout if there is none by then, QueryFailed if the query failed, and ProblemError with status 404 for an
        expired or cancelled query.
        """
        began = self._clock()
        deadline = began + (self._timeout_s if timeout is None else timeout)
        body = yield from self._poll(query_id_of(query), began, deadline)
        return (yield from self._await_result(body, began, deadline))

    @operation
    def cancel_query(self, query: PendingQuery | QueryResult | str) -> Steps[None]:
        """Cancel a query, or delete its answer. ProblemError with status 404 if there is none."""
        return self._delete(path("queries", query_id_of(query)))

    @operation
    def submit_queries(
        self,
        queries: Iterable[str | Mapping[str, Any]],
        *,
        request_id: str | None = None,
        **options: Unpack[QueryKeywords],
    ) -> Steps[Job]:
        """Submit up to 10,000 queries to be answered behind the queries of callers that wait, and return the batch, which is a
        job: ``wait``, ``events``, ``pause_job`` and the others take it. ``queries``: texts, or bodies of queries with an ``id``
        each if you like; ``options`` hold for those that leave them out."""
        return self._submit_batch(queries, request_id, options)

    @operation
    def query_batch(self, batch: Job | str) -> Steps[Job]:
        """Return the counts of a batch."""
        return self._one(Job, "GET", path("query-batches", _batch_id(batch)))

    @operation
    def batch_results(
        self, batch: Job | str, *, after: int = -1, limit: int = _RESULTS_AT_ONCE, wait: float = 0
    ) -> Steps[list[BatchedAnswer]]:
        """Return the results after the index ``after`` in the order of the queries, up to the first that is not answered yet.
        ``wait``: seconds to wait for one if there is none. Each query has a result in the end."""
        return self._batch_results(_batch_id(batch), after, limit, wait)

    @operation
    def cancel_batch(self, batch: Job | str) -> Steps[Job]:
        """Cancel the queries of a batch that are not answered. ProblemError with status 409 if it has already ended."""
        return self._one(Job, "POST", path("query-batches", _batch_id(batch), "cancel"))

    @operation
    def delete_batch(self, batch: Job | str) -> Steps[None]:
        """Delete the queries and answers of a batch before they expire; one that runs is cancelled."""
        return self._delete(path("query-batches", _batch_id(batch)))

    @operation
    def query_many(
        self,
        queries: Iterable[str | Mapping[str, Any]],
        *,
        timeout: float | None = None,
        request_id: str | None = None,
        on_result: Callable[[BatchedAnswer], object] | None = None,
        **options: Unpack[QueryKeywords],
    ) -> Steps[list[BatchedAnswer]]:
        """Submit any number of queries as ``submit_queries`` does, in batches of 10,000, and return the results of all in their
        order. ``on_result`` gets each as it comes. A query that fails is returned, not raised. Each batch is deleted once its
        results are read. Raises Timeout after ``timeout`` seconds without all results; None waits without limit."""
        waiting, results = list(queries), list[BatchedAnswer]()
        deadline = self._clock() + (math.inf if timeout is None else timeout)
        for start in range(0, len(waiting), MOST_IN_A_BATCH):
            some = waiting[start : start + MOST_IN_A_BATCH]
            batch = yield from self._submit_batch(some, request_id, options)
            read = 0
            while read < len(some):
                began = self._clock()
                hold_s = max(0, math.ceil(min(LONGEST_HOLD_S, deadline - began)))
                found = yield from self._batch_results(batch.job_id, read - 1, _RESULTS_AT_ONCE, hold_s)
                read += len(found)
                for result in found:
                    results.append(replace(result, index=start + result.index).received(result.raw))
                    if on_result:
                        on_result(results[-1])
                if not found:
                    yield from self._pause_between_polls(began, deadline, f"batch {batch.job_id}", "running")
            yield from self._delete(path("query-batches", batch.job_id))
        return results

    def _submit_batch(
        self, queries: Iterable[str | Mapping[str, Any]], request_id: str | None, options: QueryKeywords
    ) -> Steps[Job]:
        bodies = [{"query_text": query} if isinstance(query, str) else dict(query) for query in queries]
        body = {"queries": bodies, "defaults": query_fields(**options)}
        headers = {"Idempotency-Key": str(uuid.uuid4()), **query_headers(request_id, fresh=False)}
        return self._one(Job, "POST", "/v1/query-batches", body=body, headers=headers)

    def _batch_results(self, batch_id: str, after: int, limit: int, wait: float) -> Steps[list[BatchedAnswer]]:
        params = (("after", str(after)), ("limit", str(limit)), *([("wait", f"{wait:g}")] if wait else []))
        call = Call(method="GET", path=path("query-batches", batch_id, "results"), params=params, hold_s=wait)
        lines = (yield from exchange(call, PATIENT, clock=self._clock)).content.splitlines()
        return [_batched(line) for line in lines]

    def _await_result(self, body: Any, began: float, deadline: float) -> Steps[QueryResult]:
        """Poll until the query has ended. ``began`` is the start of the last poll, ``body`` its answer."""
        while True:
            status = body.get("status") if isinstance(body, dict) else None
            if status not in _UNFINISHED:
                return _result(body, status)
            query_id = str(body.get("query_id"))
            yield from self._pause_between_polls(began, deadline, f"query {query_id}", str(status))
            began = self._clock()
            body = yield from self._poll(query_id, began, deadline)

    def _poll(self, query_id: str, now: float, deadline: float) -> Steps[Any]:
        hold_s = max(0, math.ceil(min(LONGEST_HOLD_S, deadline - now)))
        params = (("wait", str(hold_s)),) if hold_s else ()
        call = Call(method="GET", path=path("queries", query_id), params=params, hold_s=hold_s)
        return (yield from exchange(call, self._policy, deadline=deadline, clock=self._clock)).json()


def query_body(text: str, **options: Unpack[QueryKeywords]) -> dict[str, Any]:
    """Return the body of a query, without fields that are None.

    Raises InvalidInput if no namespace is named, and TypeError for an unknown option.
    """
    fields = query_fields(**options)
    if "namespaces" not in fields:
        raise InvalidInput("a query must name at least one namespace")
    return {"query_text": text, **fields}


def query_fields(**options: Unpack[QueryKeywords]) -> dict[str, Any]:
    """Return the fields of a body beside its text, without those that are None. Raises TypeError for an unknown option."""
    if unknown := sorted(options.keys() - QueryKeywords.__annotations__.keys()):
        raise TypeError(f"query_body() got an unexpected keyword argument {unknown[0]!r}")
    named, filters, messages = options.get("namespaces"), options.get("filters"), options.get("conversation")
    names = options.get("namespace") if named is None else named
    names = [names] if isinstance(names, str) else list(names or ())
    fields = {
        "namespaces": names or None,
        "filters": {name: plain(value) for name, value in filters.items()} if isinstance(filters, Mapping) else filters,
        "retrieve": {**(options.get("retrieve") or {}), **given(method=options.get("method") or None)} or None,
        "enable_rerank": options.get("rerank"),
        "enable_expand": options.get("expand"),
        "conversation": None if messages is None else list(messages),
        **{name: options.get(name) for name in _PASSED},
    }
    lists: dict[str, Sequence[str] | None] = {"facets": options.get("facets"), "exclude": options.get("exclude")}
    lists = {name: list(value) for name, value in lists.items() if value}
    return given(**{**fields, **lists, **(options.get("extra") or {})})


def query_headers(request_id: str | None, *, fresh: bool) -> dict[str, str]:
    """Return the headers of a query. Raises InvalidInput for a ``request_id`` that no header can hold."""
    headers = {"Cache-Control": "no-cache"} if fresh else {}
    if request_id is None:
        return headers
    if not re.fullmatch(rf"[!-~]{{1,{_LONGEST_ID}}}", request_id):
        raise InvalidInput(f"a request id has 1 to {_LONGEST_ID} visible ASCII characters")
    return {**headers, "X-Request-ID": request_id}


def _result(body: Any, status: object) -> QueryResult:
    if status == "succeeded":
        return decode(QueryResult, body)
    if not isinstance(status, str):
        raise UnexpectedAnswer("the answer to a query has no status")
    error = body.get("error")
    reason = error.get("detail") if isinstance(error, dict) else error
    query_id = str(body.get("query_id"))
    raise QueryFailed(
        f"query {query_id} {status}" + (f": {reason}" if reason else ""), query_id=query_id, status=status
    )


def _batched(line: bytes) -> BatchedAnswer:
    try:
        return decode(BatchedAnswer, json.loads(line))
    except ValueError:
        raise UnexpectedAnswer("a result of a batch is not JSON") from None


def _batch_id(batch: Job | str) -> str:
    return batch if isinstance(batch, str) else batch.job_id


def query_id_of(query: PendingQuery | QueryResult | str) -> str:
    """Return the id of a query that is given as such or by id."""
    return query if isinstance(query, str) else query.query_id
