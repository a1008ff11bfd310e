"""Send a query and wait for its answer; used by every route and every dialect."""

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, ParamSpec, TypeVar

import orjson
import structlog
from starlette.types import Receive

from api_gateway.gateway import Gateway
from api_gateway.http.auth import PRINCIPALS, impersonated
from api_gateway.http.bodies import Decoded
from api_gateway.http.caller import Caller
from api_gateway.http.problems import Problem, invalid
from api_gateway.live.wakes import Waiter
from api_gateway.resources.retrieval.query_body import to_query
from pipeline.answer.result import RETRIEVAL_UNAVAILABLE, sent_problem
from pipeline.errors import StoreUnavailable, Unavailable
from pipeline.filters.readers import Principals
from pipeline.outages import raise_for_outage
from pipeline.query.compression import decompressed
from pipeline.query.places import Place, Verdict, WorkKind, lane_pool, place_id
from pipeline.query.request import Query
from pipeline.query.understanding import QueryState
from pipeline.query.wake_names import wake_name
from pipeline.records import QueryId, TenantId
from pipeline.retrieval.answer_query import LAST_S, fail, failed_answer, lost_answer
from pipeline.retrieval.answer_query import answer as answer_now
from pipeline.retrieval.measure import count_unsent
from pipeline.retrieval.understand import understand_at_once
from workers import dispatch

P = ParamSpec("P")
T = TypeVar("T")

log = structlog.get_logger(__name__)

_ABANDONED_S: Final = 1.0  # after the deadline; a query still unanswered then has lost its gateway


async def asked_query(body: Decoded, caller: Caller, *, request_id: str | None = None) -> Query:
    """Parse a body of `/v1/queries` into a query under ``request_id`` or the request's own. Its deadline counts from
    the arrival of the request. Raises Problem."""
    return (await query_maker(caller, request_id=request_id))(body)


async def query_maker(caller: Caller, *, request_id: str | None = None) -> Callable[[Decoded], Query]:
    """Return a function that parses bodies into queries of this caller, as `asked_query` does; it raises Problem."""
    gateway = caller.gateway
    configuration = await gateway.configurations.of(caller.tenant_id)
    return partial(
        to_query,
        tenant_id=caller.tenant_id,
        request_id=request_id or caller.request_id,
        use=gateway.settings,
        configuration=configuration,
        assign=gateway.assigner(caller.tenant_id, configuration),
        asked_by=caller.principal.actor,
        reads_as=partial(_reads_as, caller),
        received_at=caller.request.state.received_at,
    )


def _reads_as(caller: Caller, named: Sequence[str] | None) -> Principals:
    """Return the principals of a query whose body names these. Raises Problem."""
    if named is None:
        return caller.reads_as
    if PRINCIPALS in caller.request.headers:
        detail = "names the callers whom the header Chordwise-Principals names already"
        raise invalid([{"pointer": "/principals", "detail": detail}])
    return impersonated(caller.principal, named).reads_as


async def answer_of(query: Query, caller: Caller, *, cache_control: str = "") -> bytes:
    """Send a query and return its answer within its deadline plus LAST_S, once the request's body was read. The answer
    to a failed query has status `failed`. Raises Problem, Unavailable, or ClientDisconnect."""
    gateway = caller.gateway
    with gateway.wakes.watch(wake_name("query", query.tenant_id, query.query_id)) as waiter:
        answer = await send(query, gateway, cache_control=cache_control, receive=caller.request.receive)
        if answer is None:
            answer = await await_answer(query, waiter, caller)
    if answer is None:
        detail = "The gateway is about to stop, and the query was not answered before."
        raise Problem(503, "query_not_answered", detail, headers={"Retry-After": "2"})
    return answer


async def await_answer(
    query: Query, waiter: Waiter, caller: Caller, *, seconds: float = math.inf, as_stored: bool = False
) -> bytes | None:
    """Wait for the answer to a query that was sent. ``as_stored``: it may be compressed (`query.compression`).

    Return None if ``seconds`` end before its deadline, or if the gateway is about to stop. LAST_S after the deadline
    return an answer even if Redis hangs: it then reports that nothing answered. A query that Redis has lost by its
    deadline is answered as failed. Raises Problem(404) for a cancelled query, and ClientDisconnect.
    """
    gateway = caller.gateway

    async def look() -> bytes | None:
        if waiter.brought is not None:
            return waiter.brought if as_stored else decompressed(waiter.brought)
        with suppress(Unavailable):  # Redis may recover before the deadline
            return await gateway.run_or_leave(answer_so_far, query, gateway, as_stored=as_stored)
        return None

    left_s = query.deadline_at - time.time()
    last_s = max(0.0, left_s + LAST_S)
    if seconds >= left_s:  # one more request while Redis hangs would come back long after the deadline
        seconds = last_s
    answer = await gateway.wakes.until(
        waiter, look, seconds=min(seconds, last_s), receive=caller.request.receive, look_first=False, alarm_in_s=left_s
    )
    if answer is None and seconds >= last_s and not gateway.wakes.released:
        return failed_answer(query)
    return answer


async def read_by(deadline_at: float, gateway: Gateway, read: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call ``read``, which reads a store for a query, in a thread.

    Raises Problem(503) if the store cannot be read, at the latest LAST_S after the deadline (seconds since the epoch),
    and counts the query as failed. Every error of ``read`` except Unavailable passes through.
    """
    with raise_for_outage(partial(store_lost, gateway=gateway), also=(TimeoutError,)):
        async with asyncio.timeout(_seconds_until(deadline_at)):
            return await gateway.run_or_leave(read, *args, **kwargs)


def store_lost(error: Exception, gateway: Gateway) -> Problem:
    """Return Problem(503) for a query that could not be sent because a store was not read, and count it as failed."""
    count_unsent(gateway.resources)
    return _unavailable(f"A store that the search needs did not answer ({getattr(error, 'code', 'timeout')}).")


def _unavailable(detail: str) -> Problem:
    return Problem(503, RETRIEVAL_UNAVAILABLE, detail, headers={"Retry-After": "2"})


def _seconds_until(deadline_at: float) -> float:
    """Return the seconds until LAST_S after a deadline, in seconds since the epoch."""
    return max(0.0, deadline_at - time.time()) + LAST_S


async def send(
    query: Query,
    gateway: Gateway,
    *,
    cache_control: str = "",
    waits: bool = True,
    patience_s: float = math.inf,
    receive: Receive | None = None,
) -> bytes | None:
    """Store a query and send it to the workers before its deadline, or serve it from the answer cache. If the caller
    ``waits``, and the plan says so or the broker or Redis refuses the query, send it to the in-process lane instead.

    Return the cached answer, or None if the query was sent; ``cache_control`` with no-cache or no-store bypasses the
    cache. The query waits up to ``patience_s`` seconds for a place; ``receive`` is the request's, after its body was read.

    Raises Problem(404) for an unknown namespace, Problem(503) if the query finds no place in time (`overloaded`) or the
    deadline passes before it is sent, Unavailable, or ClientDisconnect. A query that could not be sent counts as failed,
    one that was refused does not.
    """
    in_lane = waits and gateway.lane.is_for(query)
    pool, slots = _pool_of(query, gateway, in_lane=in_lane)
    await gateway.admission.refuse_late(pool, query.tenant_id, left_s=query.deadline.left_s(), patience_s=patience_s)
    timer = gateway.deadlines.start(query)
    answer: bytes | None = None
    sending: _Sending | None = None
    sent = False
    try:
        async with asyncio.timeout(_seconds_until(query.deadline_at)):
            query = await _without_missing_namespaces(query, gateway)
            sending = _Sending(query, gateway, cache_control=cache_control, chord=not in_lane, waits=waits)

            async def attempt(place: Place) -> Verdict:
                return await gateway.run_or_leave(sending.attempt, place)

            if gateway.admission.has_line(pool, query.tenant_id) and not gateway.looking.locked():
                async with gateway.looking:
                    await gateway.run_or_leave(sending.prepare)  # a cached answer needs no place
            if not sending.is_over:
                await gateway.admission.enter(
                    pool,
                    query.tenant_id,
                    place_id(query.tenant_id, query.query_id),
                    attempt,
                    slots=slots,
                    left_s=query.deadline.left_s,
                    patience_s=patience_s,
                    receive=receive,
                )
            query, answer = sending.query, sending.answer
            if not sending.chord and answer is None:
                await gateway.lane.reach()
                if not gateway.lane.take(query):
                    await gateway.run_or_leave(_enqueue, query, gateway)
        timer.opened(query)
        sent = True
    except TimeoutError:
        count_unsent(gateway.resources)
        detail = "The query could not be sent to the workers within its deadline: a store or the broker hangs."
        raise _unavailable(detail) from None
    except Unavailable:
        # Without its preparation a query lacks the filter of its readers.
        if waits and sending is not None and sending.is_prepared:
            sent = await gateway.lane.answer(sending.query, step="answer_unstored")
            if sent:
                return None
        count_unsent(gateway.resources)
        raise
    finally:
        if not sent or answer is not None:
            timer.stop()
    return answer


async def _without_missing_namespaces(query: Query, gateway: Gateway) -> Query:
    """Return the query without its optional namespaces that do not exist. Raises Problem(404) for any other missing
    one.

    While MySQL is away and the cache is empty, the workers use the namespaces that their index has.
    """
    optional = query.plan.retrieve.optional_namespaces
    try:
        missing = await gateway.namespaces.require(query.tenant_id, query.namespaces, optional=optional)
    except Unavailable as error:
        if gateway.settings.keyword_engine != "tantivy":
            raise
        log.warning("namespaces_not_read", tenant_id=query.tenant_id, code=error.code)
        return query
    if not missing:
        return query
    existing = tuple(name for name in query.namespaces if name not in missing)
    return replace(query, namespaces=existing, missing_namespaces=missing)


def _pool_of(query: Query, gateway: Gateway, *, in_lane: bool) -> tuple[str, int | None]:
    """Return the pool in which the query needs a place, and the threads that serve it if they are this gateway's own."""
    if dispatch.waits_for_model(query):
        return WorkKind.MODEL, None
    if in_lane:
        return lane_pool(gateway.sign.process_id), gateway.lane.threads
    return WorkKind.QUERY, None


@dataclass(slots=True)
class _Sending:
    """A query on its way to a place. Its methods block. ``chord``: whether it goes to the workers, false as well once the
    broker has refused it and the lane can answer. ``waits``: whether the caller waits for the answer."""

    query: Query
    gateway: Gateway
    cache_control: str
    chord: bool
    waits: bool
    answer: bytes | None = None
    is_prepared: bool = False

    @property
    def is_over(self) -> bool:
        """Whether the query was answered from the answer cache."""
        return self.answer is not None

    def prepare(self) -> None:
        """Look for a cached answer, and apply the rules of understanding. Raises Unavailable."""
        gateway, query = self.gateway, self.query
        with suppress(Unavailable):  # then each part uses the active space as it knows it
            patient = not gateway.keys.is_away()
            query = replace(query, embedding_space=gateway.quick.spaces.live(patient=patient).active.number)
        directives = {directive.strip().lower() for directive in self.cache_control.split(",")}
        query = gateway.answer_cache.keyed(query, keep="no-store" not in directives)
        if "no-cache" not in directives:
            self.answer = gateway.answer_cache.answer(query)
        self.query = query if self.is_over else understand_at_once(query, gateway.resources)
        self.is_prepared = True

    def attempt(self, place: Place) -> Verdict:
        """Store the query as it is understood if there is a place for it, and enqueue it if it goes to the workers."""
        if not self.is_prepared:
            self.prepare()
        if self.is_over:
            return Verdict.NOT_NEEDED
        query, gateway = self.query, self.gateway
        queries = gateway.resources.queries(query.tenant_id)
        if not query.channels:  # small talk: nothing to retrieve and nothing to wait for
            queries.open(query)
            answer_now(query.tenant_id, query.query_id, gateway.resources, {})
            self.answer = queries.field(query.query_id, "answer")
            return Verdict.NOT_NEEDED
        verdict = queries.open(query, place, waits=gateway.wakes.own_channel if self.waits else "")
        if verdict is Verdict.TAKEN and self.chord:
            self.chord = _enqueue(query, gateway, waits=self.waits)
        return verdict


def _enqueue(query: Query, gateway: Gateway, *, waits: bool = False) -> bool:
    """Send an open query to the workers. Return False if the broker refuses one whose caller ``waits`` and the lane can answer
    it. On StoreUnavailable, which is raised else, the query is deleted."""
    try:
        dispatch.ask(query)
    except Unavailable:
        if waits and gateway.lane.may_reach():
            return False
        with suppress(Unavailable):
            gateway.resources.queries(query.tenant_id).cancel(query.query_id)
        raise
    return True


def current_state(tenant_id: TenantId, query_id: QueryId, gateway: Gateway) -> QueryState:
    """Return the state of a query. Blocking.

    The gateway that sent a query enforces its deadline. A query overdue by more than `_ABANDONED_S` has lost that
    gateway, so this call fails it. Raises Problem(404), or Unavailable.
    """
    state = _state(tenant_id, query_id, gateway)
    if state is None:
        raise not_found()
    return state


def state_of_sent(query: Query, gateway: Gateway) -> QueryState:
    """Return the state of a query that was stored; if Redis has lost it, as by a failover, queued until its deadline, since the
    gateway that sent it opens it again, and failed afterwards. Blocking. Raises Problem(404) if it was cancelled, or
    Unavailable."""
    for _ in range(2):  # it may be opened again in between
        state = _state(query.tenant_id, query.query_id, gateway)
        if state is not None:
            return state
        if gateway.resources.queries(query.tenant_id).is_lost(query.query_id):
            lost = QueryState(query=query, status="queued", envelopes=(), elapsed_ms={}, answer=None)
            return replace(lost, status="failed", answer=lost_answer(query)) if query.deadline.has_passed else lost
    raise not_found()


def _state(tenant_id: TenantId, query_id: QueryId, gateway: Gateway) -> QueryState | None:
    """Return the state of a query, failed if it is overdue; None if it is gone."""
    queries = gateway.resources.queries(tenant_id)
    state = queries.state(query_id)
    if state is not None and state.overdue_s > _ABANDONED_S:
        fail(tenant_id, query_id, gateway.resources)
        state = queries.state(query_id)
    return state


def _is_heard(tenant_id: TenantId, gateway: Gateway) -> bool:
    """Return whether the server that is read is the one that this gateway listens to: for a second two may be primary."""
    return gateway.resources.queries(tenant_id).hears(gateway.wakes.own_channel)


def followed_state(tenant_id: TenantId, query_id: QueryId, gateway: Gateway) -> QueryState:
    """Return the state of a query as ``current_state`` does, and have the next ones announced to this gateway as well."""
    gateway.resources.queries(tenant_id).follow(query_id)
    return current_state(tenant_id, query_id, gateway)


async def state_in_time(tenant_id: TenantId, query_id: QueryId, gateway: Gateway, *, follows: bool) -> QueryState:
    """Return the state of a query as ``current_state`` does, or as ``followed_state``. Raises Problem(503) LAST_S after its
    deadline, where this gateway sent it and so knows the deadline though Redis hangs; StoreUnavailable for an unknown query
    while the gateway that sent it may open it again."""
    read = followed_state if follows else current_state
    deadline_at = gateway.deadlines.of(tenant_id, query_id)
    try:
        async with asyncio.timeout(None if deadline_at is None else _seconds_until(deadline_at)):
            try:
                return await gateway.run_or_leave(read, tenant_id, query_id, gateway)
            except Problem:  # gone
                query = gateway.deadlines.sent(tenant_id, query_id)
                if (
                    query is None
                    and gateway.wakes.is_settled
                    and await gateway.run_or_leave(_is_heard, tenant_id, gateway)
                ):
                    raise
                if query is None:
                    raise StoreUnavailable(
                        "Redis: it has just come back; a query that it lost may be opened again"
                    ) from None
                return await gateway.run_or_leave(state_of_sent, query, gateway)
    except TimeoutError:
        raise _unavailable("The store that holds the answer did not respond by the query's deadline.") from None


def answer_so_far(query: Query, gateway: Gateway, *, as_stored: bool = False) -> bytes | None:
    """Return the answer to a query that was stored, or None if it is not answered yet. ``as_stored``: it may be compressed.
    Blocking. Raises Problem(404) if it was cancelled, or Unavailable."""
    answer = gateway.resources.queries(query.tenant_id).compressed_answer(query.query_id)
    if answer is None:
        return state_of_sent(query, gateway).answer
    return answer if as_stored else decompressed(answer)


def retrieved(answer: bytes) -> dict[str, Any]:
    """Parse an answer for a dialect that reports an outage as an error. Raises Problem if the query failed."""
    body: dict[str, Any] = orjson.loads(answer)
    problem = sent_problem(body)
    if problem is not None:
        raise Problem(problem["status"], problem["code"], problem["detail"], headers={"Retry-After": "2"})
    return body


def not_found() -> Problem:
    """Return Problem(404) for an unknown query."""
    return Problem(404, "query_not_found", "There is no such query; it may have been cancelled, or have expired.")
