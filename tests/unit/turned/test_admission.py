"""Lines of tenants for places: early refusal by Little's law, turns between tenants, and places that come back. The clock
is the test's."""

from __future__ import annotations

import asyncio
import math
import statistics
from collections import Counter
from contextlib import AsyncExitStack, suppress

import pytest
from starlette.requests import ClientDisconnect

from api_gateway.http.problems import Problem
from api_gateway.live.admission import Admission
from pipeline.query.places import Place, Verdict, WorkKind, verdict
from pipeline.records import TenantId

pytestmark = pytest.mark.usefixtures("quiet")

BUSY, CALM = TenantId("busy"), TenantId("calm")
THREADS = 4
PLACES = 2 * THREADS
DEADLINE_S = 3.0
SECONDS = 10.0  # of overload


class SlowChannel:
    """Places of four threads. A piece of work ends after ``service_s``, or when the test says so (infinity)."""

    def __init__(self, service_s: float = math.inf) -> None:
        self.service_s = service_s
        self.held: dict[str, TenantId] = {}
        self.hung: dict[str, TenantId] = {}  # places beside those, while work hangs
        self.refused: dict[str, Problem] = {}
        self.took_s: dict[str, float] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.attempt_s = 0.0
        self.admission = Admission(self.slots, spawn=self.spawn, usual_s=DEADLINE_S, jitter=lambda: 0.0)
        self._beside: set[asyncio.Future[None]] = set()

    async def slots(self, _queue: str) -> int:
        return THREADS

    def spawn(self, work) -> None:  # type: ignore[no-untyped-def]
        self._beside.add(asyncio.ensure_future(work))

    async def ask(self, name: str, tenant: TenantId = BUSY, *, left_s: float = DEADLINE_S, **how: object) -> None:
        """Ask for a place, and go on when the reply would have come."""
        began = asyncio.get_running_loop().time()

        async def attempt(place: Place) -> Verdict:
            held = self.held if place.pool == WorkKind.QUERY else self.hung
            own = list(held.values()).count(tenant)
            reply = verdict(most=place.most, held=len(held), own=own)
            if reply is Verdict.TAKEN:
                held[name] = tenant
            await asyncio.sleep(self.attempt_s)
            return reply

        def left() -> float:
            return began + left_s - asyncio.get_running_loop().time()

        async def enter() -> None:
            try:
                if "only_begins" not in how:
                    patience_s = float(how.get("patience_s", math.inf))  # type: ignore[arg-type]
                    await self.admission.refuse_late(WorkKind.QUERY, tenant, left_s=left(), patience_s=patience_s)
                await self.admission.enter(WorkKind.QUERY, tenant, name, attempt, left_s=left, **how)  # type: ignore[arg-type]
            except Problem as problem:
                self.refused[name] = problem
            else:
                if self.service_s < math.inf:
                    self.spawn(self.work(name))
            finally:
                self.took_s[name] = asyncio.get_running_loop().time() - began

        self.tasks[name] = asyncio.create_task(enter())
        await asyncio.sleep(0.001)

    async def work(self, name: str) -> None:
        await asyncio.sleep(self.service_s)
        self._end(name)

    async def end(self, name: str) -> None:
        self._end(name)
        await asyncio.sleep(0.001)

    def _end(self, name: str) -> None:
        self.held.pop(name, None)
        self.hung.pop(name, None)
        self.admission.ended(name)

    async def stop(self) -> None:
        for task in (*self.tasks.values(), *self._beside):
            task.cancel()
        await asyncio.gather(*self.tasks.values(), *self._beside, return_exceptions=True)


class SharedProcessor(SlowChannel):
    """Places of ten threads. All work under way gets an equal share of a processor that ends ``rate`` pieces a second."""

    def __init__(self, rate: float) -> None:
        super().__init__(service_s=0.0)
        self.rate = rate
        self.ended_s: dict[str, float] = {}

    async def slots(self, _queue: str) -> int:
        return 10

    async def work(self, name: str) -> None:
        left = 1.0
        while left > 0:
            await asyncio.sleep(0.01)
            left -= 0.01 * self.rate / max(1, len(self.held))
        self.ended_s[name] = asyncio.get_running_loop().time()
        self._end(name)


@pytest.fixture
async def channel():
    made = SlowChannel()
    yield made
    await made.stop()


class DescribeAdmission:
    async def it_admits_a_calm_tenant_at_once_beside_a_busy_one(self, channel):
        for number in range(12):
            await channel.ask(f"busy{number}")
        await channel.ask("calm", CALM)
        assert channel.tasks["calm"].done()
        assert channel.held["calm"] == CALM
        assert list(channel.held.values()).count(BUSY) == PLACES // 2

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

    async def it_lets_tenants_take_turns(self, channel):
        for number in range(8):
            await channel.ask(f"busy{number}")
        for number in range(4):
            await channel.ask(f"calm{number}", CALM)
        for number in range(4):
            await channel.end(f"busy{number}")
        held = Counter(channel.held.values())
        assert held[CALM] >= 3
        assert sum(held.values()) <= PLACES

    async def it_reports_a_client_that_closes_its_connection_while_it_waits(self, channel):
        async def receive() -> dict[str, str]:
            await asyncio.sleep(0.2)
            return {"type": "http.disconnect"}

        for number in range(4):
            await channel.ask(f"busy{number}")
        await channel.ask("gone", receive=receive)
        with pytest.raises(ClientDisconnect):
            await channel.tasks["gone"]
        assert channel.admission.waiting == {"query": 0}

    async def it_notes_no_beginning_of_work_that_ended_before_its_place_was_known(self, channel):
        """An answer may be announced before the reply of Redis has come through its thread."""
        channel.attempt_s = 0.05
        await channel.ask("quick")
        channel.admission.ended("quick")
        await asyncio.sleep(0.1)
        assert channel.tasks["quick"].done()
        assert not channel.admission._work
        assert not channel.admission._pool(WorkKind.QUERY).of(BUSY).began

    async def it_forgets_one_who_leaves_while_its_place_is_taken(self, channel):
        channel.attempt_s = 0.05
        await channel.ask("left")
        channel.tasks["left"].cancel()
        await asyncio.sleep(0.1)
        channel.held.clear()
        for number in range(4):
            await channel.ask(f"busy{number}")
        await channel.ask("next")
        channel.tasks["next"].cancel()  # perhaps while the line's head is tried
        await asyncio.sleep(0.2)
        for number in range(4):
            await channel.end(f"busy{number}")
        assert not channel.admission._work


class DescribeRefusals:
    async def it_refuses_at_once_what_would_end_late_by_littles_law(self):
        """Work of 0.5 s and four places of one tenant: a turn every 0.125 s. 3 s hold (0.5 x 3 - 0.5) / 0.125 = 8 turns."""
        channel = SlowChannel(service_s=0.5)
        for number in range(4):  # measures the service time
            await channel.ask(f"first{number}")
        await asyncio.sleep(0.6)
        for number in range(4):
            await channel.ask(f"served{number}")
        await asyncio.sleep(0.4)
        for number in range(40):
            await channel.ask(f"next{number}")
        await asyncio.sleep(0.2)
        refused = [name for name in channel.refused if name.startswith("next")]
        assert 24 <= len(refused) <= 32
        assert all(channel.took_s[name] <= 0.2 for name in refused)
        refusal = channel.refused["next39"]
        assert (refusal.status, refusal.code, refusal.headers) == (503, "overloaded", {"Retry-After": "2"})
        await asyncio.sleep(DEADLINE_S)
        admitted = [seconds for name, seconds in channel.took_s.items() if name not in channel.refused]
        assert len(admitted) == 48 - len(channel.refused)
        assert max(admitted) + 0.5 <= DEADLINE_S
        await channel.stop()

    @pytest.mark.parametrize(
        ("clients", "service_s", "attempt_s"), [(64, 0.02, 0.0), (64, 0.3, 0.0), (150, 1.0, 0.0), (64, 0.05, 0.08)]
    )
    async def it_goes_on_serving_as_fast_under_overload(self, clients, service_s, attempt_s):
        """Clients that ask again at once: all that was admitted ends in time, nothing idles, and a calm
        tenant waits for no line. The processor of a busy gateway makes attempts slow."""
        channel = SlowChannel(service_s=service_s)
        channel.attempt_s = attempt_s
        loop = asyncio.get_running_loop()
        ends = loop.time() + SECONDS

        async def client(name: str, tenant: TenantId, pause_s: float) -> None:
            number = 0
            while loop.time() < ends:
                work = f"{name}/{number}"
                await channel.ask(work, tenant)
                await asyncio.wait([channel.tasks[work]])
                if work not in channel.refused:
                    await asyncio.sleep(service_s)
                await asyncio.sleep(pause_s)
                number += 1

        busy = [asyncio.create_task(client(f"busy{number}", BUSY, 0.0)) for number in range(clients)]
        await client("calm", CALM, 0.3)
        await asyncio.wait(busy)
        calm = [seconds for name, seconds in channel.took_s.items() if name.startswith("calm")]
        assert not [name for name in channel.refused if name.startswith("calm")]
        assert max(calm) <= attempt_s + 0.01
        admitted = [seconds for name, seconds in channel.took_s.items() if name not in channel.refused]
        assert max(admitted) + service_s <= DEADLINE_S
        full = SECONDS * (PLACES / 2) / (service_s + attempt_s)  # a tenant alone holds half of the places
        assert len(admitted) >= 0.8 * full  # fewer at a time are tried now and then
        promptly_s = max(0.2, clients / 300 + 0.02)  # a gateway refuses 300 a second at most
        late = sum(channel.took_s[name] > promptly_s for name in channel.refused)
        assert late <= max(0.02 * len(channel.refused), clients)  # the first ones, before anything was measured
        await channel.stop()

    @pytest.mark.parametrize("rate", [2.5, 4.0, 40.0])
    async def it_answers_what_it_admits_on_a_host_that_others_keep_busy(self, rate):
        """Ten threads share a processor that ends ``rate`` queries a second, however many are under way."""
        channel = SharedProcessor(rate)
        loop = asyncio.get_running_loop()
        began, asked = loop.time(), {}

        async def client(name: str) -> None:
            for number in range(10_000):
                if loop.time() - began >= 3 * SECONDS:
                    return
                work = f"{name}/{number}"
                asked[work] = loop.time() - began
                await channel.ask(work)
                await asyncio.wait([channel.tasks[work]])
                while work in channel.held:
                    await asyncio.sleep(0.05)

        await asyncio.gather(*(client(f"busy{number}") for number in range(40)))
        measured = {name: end for name, end in channel.ended_s.items() if asked[name] > SECONDS}
        late = [name for name, end in measured.items() if end - began - asked[name] > DEADLINE_S]
        assert len(late) <= 0.01 * len(measured)
        assert len(measured) >= 0.8 * 2 * SECONDS * rate
        await channel.stop()

    @pytest.mark.parametrize(("rate", "tenants", "at_most_s"), [(14.0, 1, 0.4), (40.0, 1, 0.15), (40.0, 3, 0.2)])
    async def it_sends_no_more_than_a_processor_is_better_for(self, rate, tenants, at_most_s):
        """Twenty queries at a time share a processor, and the one of a calm tenant would get a twentieth of it. A few at a
        time are as many a second."""
        channel = SharedProcessor(rate)
        loop = asyncio.get_running_loop()
        began, calm_s = loop.time(), []

        async def client(name: str, tenant: TenantId, pause_s: float) -> None:
            number = 0
            while (asked_s := loop.time() - began) < 4 * SECONDS:
                work, number = f"{name}/{number}", number + 1
                await channel.ask(work, tenant)
                await asyncio.wait([channel.tasks[work]])
                while work in channel.held:
                    await asyncio.sleep(0.01)
                if tenant == CALM and asked_s > SECONDS:
                    calm_s.append(loop.time() - began - asked_s)
                await asyncio.sleep(pause_s)

        busy = [client(f"busy{number}", TenantId(f"busy{number % tenants}"), 0.0) for number in range(40)]
        await asyncio.gather(client("calm", CALM, 0.3), *busy)
        assert not [name for name in channel.refused if name.startswith("calm")]
        assert statistics.median(calm_s) <= at_most_s
        assert sum(end - began > SECONDS for end in channel.ended_s.values()) >= 0.9 * 3 * SECONDS * rate
        await channel.stop()

    @pytest.mark.parametrize("rate", [2.0, 3.0, 6.0])
    async def it_answers_what_it_admits_of_a_first_wave(self, rate):
        """Sixty queries come at once to a gateway that has measured nothing, on a host that others keep busy."""
        channel = SharedProcessor(rate)
        began = asyncio.get_running_loop().time()
        for number in range(60):
            await channel.ask(f"first{number}")
        await asyncio.sleep(2 * DEADLINE_S)
        late = [name for name, end in channel.ended_s.items() if end - began > DEADLINE_S + 0.1]
        in_time = len(channel.ended_s) - len(late)
        assert not late
        assert not channel.held
        assert in_time >= 0.5 * DEADLINE_S * rate
        assert in_time + len(channel.refused) == 60
        await channel.stop()

    async def it_keeps_a_burst_of_one_more_round_while_everything_hangs(self, channel):
        for number in range(4 + PLACES):
            await channel.ask(f"busy{number}")
        await asyncio.sleep(1.5)
        assert not channel.refused
        for number in range(4):
            await channel.end(f"busy{number}")
        assert set(channel.held) == {f"busy{number}" for number in range(4, 8)}

    async def it_lets_more_through_beside_quick_work_that_hangs(self, channel):
        """Work that took 20 ms hangs, as for a store: another round is sent, and the places of others stay free."""
        await channel.ask("quick")
        await asyncio.sleep(0.02)
        await channel.end("quick")
        for number in range(4 + PLACES):
            await channel.ask(f"busy{number}")
        await asyncio.sleep(0.5)
        assert len(channel.hung) == PLACES
        assert len(channel.held) == 4
        assert not channel.refused

    async def it_refuses_the_rest_of_a_crowd_soon_while_everything_hangs(self, channel):
        for number in range(4 + PLACES + 40):
            await channel.ask(f"busy{number}")
        await asyncio.sleep(1.0)
        assert len(channel.refused) == 40
        await asyncio.sleep(1.5)
        assert set(channel.refused) == {f"busy{number}" for number in range(4, 4 + PLACES + 40)}
        assert max(channel.took_s[name] for name in channel.refused) <= 0.7 * DEADLINE_S

    async def it_does_not_take_one_slow_query_for_a_stall(self, channel):
        """The places of others turn quickly, while one query of the tenant is slow."""
        await channel.ask("slow")
        await asyncio.sleep(2.0)
        for number in range(PLACES - 1):
            await channel.ask(f"other{number}", TenantId(f"other{number}"))
        await channel.ask("next")
        await asyncio.sleep(0.15)
        await channel.end("other0")
        await channel.end("other1")
        assert "next" in channel.held

    async def it_notices_a_stall_of_places_that_other_gateways_hold(self, channel):
        channel.held |= {f"foreign{number}": CALM for number in range(PLACES)}
        for number in range(PLACES + 20):
            await channel.ask(f"busy{number}")
        await asyncio.sleep(0.5)
        assert len(channel.refused) == 20

    async def it_refuses_at_once_what_has_no_time_left_to_wait(self, channel):
        for number in range(4):
            await channel.ask(f"busy{number}")
        await channel.ask("late", left_s=0.12)  # 0.1 s of service are assumed
        await asyncio.sleep(0.15)
        assert channel.refused["late"].code == "overloaded"

    async def it_waits_no_longer_than_the_callers_patience(self, channel):
        for number in range(5):
            await channel.ask(f"busy{number}", left_s=60.0, patience_s=2.0)
        await asyncio.sleep(1.9)
        assert not channel.refused
        await asyncio.sleep(0.2)
        assert set(channel.refused) == {"busy4"}

    async def it_lets_work_that_only_begins_wait_although_it_lasts_longer_than_its_time(self):
        channel = SlowChannel(service_s=30.0)
        for number in range(4):
            await channel.ask(f"first{number}", left_s=20.0, only_begins=True)
        await asyncio.sleep(29.0)
        await channel.ask("next", left_s=20.0, only_begins=True)
        await asyncio.sleep(2.0)
        assert "next" in channel.held
        await channel.stop()

    async def it_refuses_the_requests_of_a_tenant_with_a_long_line_unread(self, channel):
        for number in range(60):
            await channel.ask(f"busy{number}")
        await asyncio.sleep(1.5)
        await channel.ask("refused")
        async with AsyncExitStack() as inside:
            entered: Counter[TenantId] = Counter()
            with suppress(Problem):
                for tenant in (CALM, BUSY) * 60:
                    await inside.enter_async_context(channel.admission.counted(tenant))
                    entered[tenant] += 1
        assert entered[CALM] == entered[BUSY] + 1
        assert entered[BUSY] < 20
        await asyncio.sleep(0.6)
        async with channel.admission.counted(BUSY):  # which may have more time
            pass

    async def it_refuses_nobody_of_a_burst_while_the_first_attempts_are_under_way(self):
        channel = SlowChannel(service_s=0.1)
        channel.attempt_s = 0.04
        for number in range(30):
            await channel.ask(f"burst{number}")
        await asyncio.sleep(3.0)
        assert not channel.refused
        await channel.stop()

    async def it_does_not_hold_up_a_calm_tenant_by_the_attempts_of_a_busy_one(self):
        channel = SlowChannel(service_s=0.1)
        channel.attempt_s = 0.5
        for number in range(8):
            await channel.ask(f"busy{number}")
        await channel.ask("calm", CALM)
        assert channel.held["calm"] == CALM
        await channel.stop()

    async def it_refuses_a_crowd_while_nobody_waits_yet(self, channel):
        """Requests that are read or prepared are no line, and take the same threads."""
        await channel.ask("first")
        await asyncio.sleep(5.0)
        async with AsyncExitStack() as inside:
            entered = 0
            with suppress(Problem):
                for entered in range(500):  # noqa: B007 - the number of the refused one counts
                    await inside.enter_async_context(channel.admission.counted(BUSY))
            assert PLACES <= entered <= 4 * PLACES + 1  # one of them has a place

    async def it_lets_a_burst_in_after_slow_queries(self, channel):
        """As many as get a place at once, and a round of further ones, are no crowd, however slow the last ones were."""
        for number in range(PLACES):
            await channel.ask(f"slow{number}", TenantId(f"slow{number}") if number % 2 else BUSY)
        await asyncio.sleep(0.9 * DEADLINE_S)
        for number in range(PLACES):
            await channel.end(f"slow{number}")
        async with AsyncExitStack() as inside:
            for _ in range(PLACES + PLACES // 2):
                await inside.enter_async_context(channel.admission.counted(BUSY))

    async def it_does_not_count_queries_that_wait_for_a_model_as_a_crowd(self, channel):
        async def attempt(_place: Place) -> Verdict:
            return Verdict.TAKEN

        await channel.ask("first")
        await asyncio.sleep(5.0)
        async with AsyncExitStack() as inside:
            for number in range(200):
                await inside.enter_async_context(channel.admission.counted(BUSY))
                await channel.admission.enter(WorkKind.MODEL, BUSY, f"model{number}", attempt, left_s=lambda: 60.0)
            await inside.enter_async_context(channel.admission.counted(BUSY))

    async def it_hands_the_error_of_an_attempt_to_its_request(self, channel):
        async def attempt(_place: Place) -> Verdict:
            if len(channel.held) < 4:
                raise OSError("Redis is away.")
            return Verdict.SHARE_TAKEN

        for number in range(4):
            await channel.ask(f"busy{number}")
        entering = asyncio.create_task(
            channel.admission.enter(WorkKind.QUERY, BUSY, "failing", attempt, left_s=lambda: DEADLINE_S)
        )
        await asyncio.sleep(0.1)
        await channel.end("busy0")
        with pytest.raises(OSError, match="Redis"):
            await entering
