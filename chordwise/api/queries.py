"""Asking, with the answer awaited or fetched later."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final, Unpack

from chordwise.api.options import QueryKeywords
from chordwise.api.query_body import query_body, query_headers
from chordwise.api.results import QueryResult
from chordwise.errors import QueryFailed, Timeout, UnexpectedAnswer
from chordwise.records import Result, decode
from chordwise.resource import Requesting, as_content, segment
from chordwise.retries import exchange
from chordwise.transport import Call, Pause, Steps

LONGEST_HOLD_S: Final = 10.0  # how long one request asks the server to wait for a job or a query
SHORTEST_ROUND_S: Final = 0.25  # between two looks, should the server answer at once instead of waiting
_UNFINISHED = frozenset({"queued", "running"})
_PATH = "/v1/queries"


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingQuery(Result):
    """A query that was sent and is answered by itself; ``query_result`` fetches the answer."""

    query_id: str
    status: str = "queued"


class QueryOperations(Requesting):
    """The part of ``Operations`` that asks."""

    _timeout_s: float

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

    def submit_query(
        self, text: str, *, request_id: str | None = None, fresh: bool = False, **options: Unpack[QueryKeywords]
    ) -> Steps[PendingQuery]:
        """Ask as ``query`` does and return at once, with the id under which the answer can be fetched."""
        body = query_body(text, **options)
        headers = {"Prefer": "respond-async", **query_headers(request_id, fresh=fresh)}
        return self._one(PendingQuery, "POST", _PATH, body=body, headers=headers)

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
            yield from self._next_round(began, deadline, f"query {query_id}", str(status))
            began = self._clock()
            said = yield from self._look(query_id, began, deadline)

    def _look(self, query_id: str, now: float, deadline: float) -> Steps[Any]:
        hold_s = max(0, math.ceil(min(LONGEST_HOLD_S, deadline - now)))
        params = (("wait", str(hold_s)),) if hold_s else ()
        call = Call(method="GET", path=f"{_PATH}/{segment(query_id)}", params=params, hold_s=hold_s)
        return (yield from exchange(call, self._policy, deadline=deadline, clock=self._clock)).json()

    def _next_round(self, began: float, deadline: float, what: str, status: str) -> Steps[None]:
        """Before looking again; raises Timeout once there is no time left for it."""
        now = self._clock()
        if now >= deadline:
            raise Timeout(f"{what} is still {status}; it goes on without being waited for")
        if now - began < SHORTEST_ROUND_S:
            yield Pause(seconds=min(SHORTEST_ROUND_S, deadline - now))


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
