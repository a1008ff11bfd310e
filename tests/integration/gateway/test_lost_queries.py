"""A query whose state is gone while its client waits: Redis has lost it, or it was cancelled."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from api_gateway.http.problems import Problem
from api_gateway.live.ask import await_answer, current_state, state_in_time
from api_gateway.live.wakes import Wakes, stays_connected
from pipeline.database.redis_connections import async_redis_of
from pipeline.errors import StoreUnavailable
from pipeline.query.places import Verdict
from pipeline.query.plan import ChannelPlan, Plan, RetrievePlan
from pipeline.query.query_store import query_key
from pipeline.query.request import Query
from pipeline.query.wake_names import wake_name
from pipeline.records import Namespace, QueryId, TenantId
from pipeline.resources import Resources
from tests.support.corpora.queries import query_of

_BOTH = {"keyword": ChannelPlan(weight=0.7), "semantic": ChannelPlan(weight=0.3)}


class Waiting:
    """A query that is stored, and that no worker answers."""

    def __init__(self, use: Resources, tenant: TenantId, text: str = "green tea", *, deadline_s: float = 10) -> None:
        self.use = use
        self.query: Query = query_of(
            text,
            query_id=QueryId(str(uuid.uuid4())),
            tenant_id=tenant,
            namespaces=(Namespace("kb"),),
            plan=Plan(retrieve=RetrievePlan(channels=_BOTH)),
            deadline_s=deadline_s,
        )
        self.gateway: Any = SimpleNamespace(wakes=Wakes(), resources=use, run_or_leave=asyncio.to_thread)
        use.queries(tenant).open(self.query)

    async def answer_after(self, happens: Callable[[], object]) -> dict[str, Any]:
        """Return what a waiting client gets after something has happened and all waiters were woken."""
        caller: Any = SimpleNamespace(gateway=self.gateway, request=SimpleNamespace(receive=stays_connected))
        with self.gateway.wakes.watch(wake_name("query", self.query.tenant_id, self.query.query_id)) as waiter:
            waiting = asyncio.ensure_future(await_answer(self.query, waiter, caller))
            await asyncio.sleep(0.05)
            happens()
            self.gateway.wakes.wake_all()  # as after a reconnection
            answer = await asyncio.wait_for(waiting, timeout=5)
        assert answer is not None
        found: dict[str, Any] = orjson.loads(answer)
        return found

    def forget(self) -> None:
        """Lose the query as a restarted Redis does."""
        self.use.redis.delete(query_key(self.query.tenant_id, self.query.query_id))

    def cancel(self) -> None:
        """Cancel the query as its client does."""
        assert self.use.queries(self.query.tenant_id).cancel(self.query.query_id)


class _Timers:
    """Of a gateway that has sent this query, or none."""

    def __init__(self, query: Query | None) -> None:
        self._query = query

    def of(self, *_ids: str) -> float | None:
        return None if self._query is None else self._query.deadline_at

    def sent(self, *_ids: str) -> Query | None:
        return self._query


class DescribeAQueryThatIsGone:
    @pytest.mark.parametrize("text", ["green tea", "绿茶"])
    async def it_has_failed_at_its_deadline_if_redis_lost_it(self, use, tenant, text):
        waiting = Waiting(use, tenant, text, deadline_s=0.5)
        answer = await waiting.answer_after(waiting.forget)
        assert (answer["query_id"], answer["query"]["query_text"]) == (waiting.query.query_id, text)
        assert (answer["status"], answer["chunks"], answer["stats"]["degraded"]) == ("failed", [], True)
        assert (answer["error"]["status"], answer["error"]["code"]) == (503, "retrieval_unavailable")
        losses = [(lost["part"], lost["code"]) for lost in answer["stats"]["degradations"]]
        assert losses == [("keyword", "query_lost"), ("semantic", "query_lost")]

    async def it_is_answered_if_it_is_opened_again_by_then(self, use, tenant):
        waiting = Waiting(use, tenant, deadline_s=5)

        def happen() -> None:
            waiting.forget()
            queries = use.queries(tenant)
            assert queries.open(waiting.query) is Verdict.TAKEN
            assert queries.open(waiting.query) is Verdict.NOT_NEEDED  # as by another gateway, whose query this stays
            queries.answer(waiting.query, b'{"status": "succeeded"}')

        assert await waiting.answer_after(happen) == {"status": "succeeded"}

    async def it_is_not_found_if_it_was_cancelled(self, use, tenant):
        waiting = Waiting(use, tenant)
        with pytest.raises(Problem) as raised:
            await waiting.answer_after(waiting.cancel)
        assert (raised.value.status, raised.value.code) == (404, "query_not_found")

    async def it_is_queued_for_a_client_that_polls_the_gateway_that_sent_it(self, use, tenant):
        waiting = Waiting(use, tenant)
        waiting.forget()
        waiting.gateway.deadlines = _Timers(waiting.query)
        state = await state_in_time(tenant, waiting.query.query_id, waiting.gateway, follows=False)
        assert (state.status, state.answer) == ("queued", None)

    async def it_is_asked_for_again_at_another_gateway_that_has_just_found_redis(self, use, tenant):
        waiting = Waiting(use, tenant)
        waiting.forget()
        waiting.gateway.deadlines = _Timers(None)
        with pytest.raises(StoreUnavailable):
            await state_in_time(tenant, waiting.query.query_id, waiting.gateway, follows=False)

    async def it_is_asked_for_again_at_another_gateway_until_that_listens_to_the_server_that_it_reads(
        self, use, tenant
    ):
        """Where one server hands over to another both are primary for a while, and no connection breaks."""
        waiting = Waiting(use, tenant)
        waiting.forget()
        waiting.gateway.deadlines = _Timers(None)
        waiting.gateway.wakes = wakes = Wakes(uuid.uuid4().hex)
        client = async_redis_of(use.settings.redis_url.get_secret_value())
        listening = asyncio.create_task(wakes.listen(client))
        async with asyncio.timeout(5):
            while not wakes.is_settled:
                await asyncio.sleep(0.005)
        read = partial(state_in_time, tenant, waiting.query.query_id, waiting.gateway, follows=False)
        with pytest.raises(Problem) as raised:
            await read()
        assert raised.value.status == 404
        wakes.own_channel = "heard by nobody at this server"
        with pytest.raises(StoreUnavailable):
            await read()
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
        await client.aclose()

    async def it_is_not_found_by_a_client_that_did_not_wait(self, use, tenant):
        waiting = Waiting(use, tenant)
        waiting.forget()
        with pytest.raises(Problem) as raised:
            current_state(tenant, waiting.query.query_id, waiting.gateway)
        assert (raised.value.status, raised.value.code) == (404, "query_not_found")
