"""Asking and waiting for the answer: one way for every route and every dialect."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from starlette.types import Receive

from api_gateway.bodies import Decoded
from api_gateway.gateway import Gateway
from api_gateway.problems import Problem
from api_gateway.wire.queries import to_query
from pipeline.core.query import Query
from pipeline.errors import Unavailable
from pipeline.flows.recall import finish
from pipeline.flows.understanding import understand_at_once
from pipeline.records import QueryId, TenantId
from pipeline.stores.queries import QueryState, wake_name
from pipeline.stores.tenants import Principal
from workers import dispatch

GRACE_S: Final = 1.0  # after its deadline a query still has to be put together from what arrived
_INDISPENSABLE: Final = frozenset({"hydrate", "answer"})  # without them, what the channels found cannot be shown


async def asked_query(body: Decoded, principal: Principal, gateway: Gateway, *, request_id: str) -> Query:
    """The query that a body of `/v1/queries` asks. Raises Problem."""
    configuration = await gateway.configurations.of(principal.tenant_id)
    return to_query(
        body,
        tenant_id=principal.tenant_id,
        request_id=request_id,
        use=gateway.settings,
        configuration=configuration,
        assign=gateway.assigner(principal.tenant_id, configuration),
        asked_by=principal.actor,
    )


async def answer_of(query: Query, gateway: Gateway, *, receive: Receive, cache_control: str = "") -> bytes:
    """The answer to a query that is sent now; there is one at its deadline at the latest.

    ``receive`` is the request's, whose body has been read. Raises Problem, Unavailable, or ClientDisconnect.
    """

    async def look() -> bytes | None:
        return await gateway.run(answer_so_far, query.tenant_id, query.query_id, gateway)

    left_s = query.deadline_at - time.time()
    with gateway.wakes.watch(wake_name("query", query.tenant_id, query.query_id)) as waiter:
        answer = await send(query, gateway, cache_control=cache_control)
        if answer is not None:
            return answer
        found = await gateway.wakes.until(
            waiter, look, seconds=left_s + GRACE_S, receive=receive, look_first=False, alarm_in_s=left_s
        )
    if found is None:
        detail = "The query was not answered by its deadline."
        raise Problem(503, "query_not_answered", detail, headers={"Retry-After": "2"})
    return found


async def send(query: Query, gateway: Gateway, *, cache_control: str = "") -> bytes | None:
    """Keep a query and hand it to the workers; or answer it at once, if the same was asked before and nothing has
    changed since, unless ``cache_control`` says no-cache or no-store.

    Gives the answer if there is one already. Raises Problem 404 for a namespace, or Unavailable.
    """
    await gateway.namespaces.require(query.tenant_id, query.namespaces)
    return await gateway.run(_send, query, gateway, cache_control=cache_control)


def _send(query: Query, gateway: Gateway, *, cache_control: str) -> bytes | None:
    queries = gateway.resources.queries(query.tenant_id)
    with suppress(Unavailable):  # then each part takes the active space as it knows it
        query = replace(query, embedding_space=gateway.quick.spaces.live().active.number)
    wanted = {directive.strip().lower() for directive in cache_control.split(",")}
    query = gateway.kept_answers.keyed(query, keep="no-store" not in wanted)
    if "no-cache" not in wanted and (answer := gateway.kept_answers.answer(query)) is not None:
        return answer
    query = understand_at_once(query, gateway.resources)
    queries.open(query)
    if not query.channels:  # small talk: there is nothing to ask and nothing to wait for
        finish(query.tenant_id, query.query_id, gateway.resources)
        return None
    try:
        dispatch.ask(query)
    except Unavailable:
        with suppress(Unavailable):
            queries.cancel(query.query_id)
        raise
    return None


def current_state(tenant_id: TenantId, query_id: QueryId, gateway: Gateway) -> QueryState:
    """What is known of a query, with an answer once its deadline has passed. Blocking.

    Whoever looks keeps the deadline: should no worker be alive, the answer is made here, of what arrived.
    Raises Problem 404, or Unavailable.
    """
    queries = gateway.resources.queries(tenant_id)
    state = queries.state(query_id)
    if state is not None and state.overdue:
        finish(tenant_id, query_id, gateway.resources)
        state = queries.state(query_id)
    if state is None:
        raise not_found()
    return state


def answer_so_far(tenant_id: TenantId, query_id: QueryId, gateway: Gateway) -> bytes | None:
    """The answer to a query; None while there is none. Blocking. Reads nothing else where there is one, and keeps the
    deadline where there is none. Raises Problem 404, or Unavailable."""
    answer = gateway.resources.queries(tenant_id).noted(query_id, "answer")
    return current_state(tenant_id, query_id, gateway).answer if answer is None else answer


def is_unanswered(answer: Mapping[str, Any]) -> bool:
    """Whether an answer is empty because what would have filled it did not work: something was lost of every channel
    that was asked, or what makes passages of their hits. For dialects that cannot say beside nothing why it is nothing.
    """
    channels = answer["query"]["channels"]
    lost = {loss["part"] for loss in answer["stats"]["degradations"]}
    broken = lost.issuperset(channels) or not lost.isdisjoint(_INDISPENSABLE)
    return bool(channels) and not answer["chunks"] and broken


def not_found() -> Problem:
    """404."""
    return Problem(404, "query_not_found", "There is no such query; it may have been cancelled, or have expired.")
