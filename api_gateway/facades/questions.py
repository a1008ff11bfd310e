"""The one way in which façades ask: the query that `/v1/queries` would make of the same body, sent and waited for."""

from __future__ import annotations

import time
from typing import Any

import orjson
from starlette.types import Receive

from api_gateway.bodies import Decoded
from api_gateway.gateway import Gateway
from api_gateway.problems import Problem
from api_gateway.routes.queries import current_state, send
from api_gateway.wire.queries import to_query
from pipeline.core.query import Query
from pipeline.stores.queries import QueryState, wake_name
from pipeline.stores.tenants import Principal

_GRACE_S = 1.0  # after its deadline a query still has to be put together from what arrived


async def question(body: dict[str, Any], principal: Principal, gateway: Gateway, *, request_id: str) -> Query:
    """The query that a body of `/v1/queries` asks. Raises Problem."""
    configuration = await gateway.configurations.of(principal.tenant_id)
    return to_query(
        Decoded(body, suspicious=True),
        tenant_id=principal.tenant_id,
        request_id=request_id,
        use=gateway.settings,
        configuration=configuration,
        assign=gateway.assigner(principal.tenant_id, configuration),
        asked_by=principal.actor,
    )


async def answered(query: Query, gateway: Gateway, *, receive: Receive, cache_control: str = "") -> dict[str, Any]:
    """The answer to a query that is sent now; there is one at its deadline at the latest.

    ``receive`` is the request's, whose body has been read. Raises Problem, Unavailable, or ClientDisconnect.
    """

    async def look() -> QueryState | None:
        state = await gateway.run(current_state, query.tenant_id, query.query_id, gateway)
        return state if state.answer is not None else None

    left_s = query.deadline_at - time.time()
    with gateway.wakes.watch(wake_name("query", query.tenant_id, query.query_id)) as waiter:
        answer = await gateway.run(send, query, gateway, cache_control=cache_control)
        if answer is None:
            found = await gateway.wakes.until(
                waiter, look, seconds=left_s + _GRACE_S, receive=receive, look_first=False, alarm_in_s=left_s
            )
            answer = found.answer if found is not None else None
    if answer is None:
        raise Problem(503, "query_not_answered", "The query was not answered by its deadline.")
    told: dict[str, Any] = orjson.loads(answer)
    return told
