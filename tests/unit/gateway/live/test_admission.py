"""Lines of tenants for places: early refusal by Little's law, turns between tenants, and places that come back."""

from __future__ import annotations

import asyncio

import pytest

from api_gateway.http.problems import Problem
from api_gateway.live.admission import Admission
from pipeline.query.places import Place, Verdict, WorkKind, verdict
from pipeline.records import TenantId

pytestmark = pytest.mark.usefixtures("quiet")

BUSY, CALM = TenantId("busy"), TenantId("calm")
SLOTS = 8


class SlowChannel:
    """Eight threads whose work ends when the test says so."""

    def __init__(self) -> None:
        self.held: dict[str, TenantId] = {}
        self.refused: dict[str, Problem] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.admission = Admission(self.slots, spawn=self.spawn, usual_s=3.0, jitter=lambda: 0.0)
        self._beside: set[asyncio.Task[None]] = set()

    async def slots(self, _queue: str) -> int:
        return SLOTS

    def spawn(self, work) -> None:  # type: ignore[no-untyped-def]
        self._beside.add(asyncio.ensure_future(work))

    async def ask(self, name: str, tenant: TenantId = BUSY, *, left_s: float = 3.0) -> None:
        async def attempt(place: Place) -> Verdict:
            own = list(self.held.values()).count(tenant)
            reply = verdict(most=place.most, held=len(self.held), own=own)
            if reply is Verdict.TAKEN:
                self.held[name] = tenant
            return reply

        async def enter() -> None:
            try:
                await self.admission.enter(WorkKind.QUERY, tenant, name, attempt, left_s=lambda: left_s)
            except Problem as problem:
                self.refused[name] = problem

        self.tasks[name] = asyncio.create_task(enter())
        await asyncio.sleep(0.01)

    async def end(self, name: str) -> None:
        del self.held[name]
        self.admission.ended(name)
        await asyncio.sleep(0.01)


@pytest.fixture
async def channel():
    made = SlowChannel()
    yield made
    for task in (*made.tasks.values(), *made._beside):
        task.cancel()
    await asyncio.gather(*made.tasks.values(), *made._beside, return_exceptions=True)


class DescribeAdmission:
    async def it_admits_half_of_the_places_of_one_tenant_and_refuses_what_would_end_late(self, channel):
        for number in range(4):
            await channel.ask(f"busy{number}")
        await channel.ask("late", left_s=0.15)  # 0.1 s for a place and 0.1 s of service
        await channel.tasks["late"]
        refusal = channel.refused["late"]
        assert sorted(channel.held) == [f"busy{number}" for number in range(4)]
        assert (refusal.status, refusal.code, refusal.headers) == (503, "overloaded", {"Retry-After": "1"})

    async def it_admits_a_calm_tenant_at_once_beside_a_busy_one(self, channel):
        for number in range(12):
            await channel.ask(f"busy{number}")
        await channel.ask("calm", CALM)
        assert channel.tasks["calm"].done()
        assert channel.held["calm"] == CALM

    async def it_admits_those_who_wait_in_their_order_as_places_come_back(self, channel):
        for number in range(6):
            await channel.ask(f"busy{number}")
        assert channel.admission.waiting == {"query": 2}
        await channel.end("busy0")
        assert "busy4" in channel.held
        assert "busy5" not in channel.held
        await channel.end("busy1")
        assert "busy5" in channel.held
        assert not channel.refused
        assert channel.admission.waiting == {"query": 0}

    async def it_passes_over_one_who_has_left(self, channel):
        for number in range(6):
            await channel.ask(f"busy{number}")
        channel.tasks["busy4"].cancel()
        await asyncio.sleep(0)
        await channel.end("busy0")
        assert "busy5" in channel.held
        assert "busy4" not in channel.held

    async def it_refuses_the_next_requests_of_a_refused_tenant_unread(self, channel):
        for number in range(40):
            await channel.ask(f"busy{number}")
        with pytest.raises(Problem):
            await channel.admission.refuse_late(WorkKind.QUERY, BUSY, left_s=2.8, patience_s=20.0)
        with pytest.raises(Problem) as refused:
            await channel.admission.refuse_crowd(BUSY)
        assert refused.value.code == "overloaded"
        await channel.admission.refuse_crowd(CALM)
