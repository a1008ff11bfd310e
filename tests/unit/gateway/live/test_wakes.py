"""Waiting: woken at once, at the latest after a second, and never longer than there is anybody to be answered."""

from __future__ import annotations

import asyncio

import fakeredis
import pytest
from starlette.requests import ClientDisconnect

from api_gateway.http.problems import Problem
from api_gateway.live import wakes as waiting
from api_gateway.live.wakes import Wakes
from pipeline.query.wake_names import WAKE_CHANNEL


async def connected():
    """A client that stays."""
    await asyncio.Event().wait()


async def went():
    """A client that is gone."""
    return {"type": "http.disconnect"}


class Thing:
    """Something that is waited for."""

    def __init__(self):
        self.value: str | None = None
        self.looks = 0

    async def look(self):
        self.looks += 1
        return self.value


class DescribeUntil:
    async def it_gives_what_is_there_already(self):
        wakes, thing = Wakes(), Thing()
        thing.value = "there"
        with wakes.watch("t") as waiter:
            assert await wakes.until(waiter, thing.look, seconds=5, receive=connected) == "there"
        assert thing.looks == 1

    async def it_looks_when_woken_and_not_before(self):
        wakes, thing = Wakes(), Thing()

        def arrive():
            thing.value = "there"
            wakes.wake("t")

        with wakes.watch("t") as waiter:
            asyncio.get_running_loop().call_later(0.01, arrive)
            found = await wakes.until(waiter, thing.look, seconds=5, receive=connected, look_first=False)
        assert found == "there"
        assert thing.looks == 1

    async def it_does_not_miss_what_came_before_it_began_to_wait(self):
        wakes, thing = Wakes(), Thing()
        with wakes.watch("t") as waiter:
            thing.value = "there"
            wakes.wake("t")
            assert await wakes.until(waiter, thing.look, seconds=5, receive=connected, look_first=False) == "there"

    async def it_looks_by_itself_should_the_message_be_lost(self, monkeypatch):
        monkeypatch.setattr(waiting, "LOOK_AGAIN_S", 0.01)
        wakes, thing = Wakes(), Thing()
        asyncio.get_running_loop().call_later(0.02, setattr, thing, "value", "there")
        with wakes.watch("t") as waiter:
            assert await wakes.until(waiter, thing.look, seconds=5, receive=connected) == "there"

    async def it_looks_when_the_alarm_rings(self):
        wakes, thing = Wakes(), Thing()
        asyncio.get_running_loop().call_later(0.005, setattr, thing, "value", "there")
        with wakes.watch("t") as waiter:
            waiting_for = wakes.until(waiter, thing.look, seconds=5, receive=connected, alarm_in_s=0.03)
            assert await asyncio.wait_for(waiting_for, 0.5) == "there"

    async def it_looks_again_soon_should_the_alarm_have_rung_too_early(self):
        wakes, thing = Wakes(), Thing()

        async def look():
            thing.looks += 1
            return "there" if thing.looks == 4 else None

        with wakes.watch("t") as waiter:
            waiting_for = wakes.until(waiter, look, seconds=5, receive=connected, alarm_in_s=0.01)
            assert await asyncio.wait_for(waiting_for, 0.5) == "there"

    async def it_gives_nothing_when_the_seconds_are_over(self):
        wakes, thing = Wakes(), Thing()
        with wakes.watch("t") as waiter:
            assert await wakes.until(waiter, thing.look, seconds=0.3, receive=connected) is None
        assert thing.looks == 2

    async def it_stops_when_the_client_is_gone(self):
        wakes, thing = Wakes(), Thing()
        with pytest.raises(ClientDisconnect), wakes.watch("t") as waiter:
            await wakes.until(waiter, thing.look, seconds=5, receive=went)
        assert wakes.count == 0

    async def it_ends_for_everyone_at_release(self):
        wakes, thing = Wakes(), Thing()
        with wakes.watch("t") as waiter:
            asyncio.get_running_loop().call_later(0.01, wakes.release)
            found = await asyncio.wait_for(wakes.until(waiter, thing.look, seconds=60, receive=connected), 1)
        assert found is None


class DescribeWatching:
    async def it_wakes_all_of_a_name_and_nobody_else(self):
        wakes = Wakes()
        with wakes.watch("a") as first, wakes.watch("a") as second, wakes.watch("b") as other:
            wakes.wake("a")
            assert [waiter._woken.done() for waiter in (first, second, other)] == [True, True, False]
        assert wakes.count == 0

    async def it_takes_only_so_many(self):
        wakes = Wakes(most_waiters=1)
        with wakes.watch("a"), pytest.raises(Problem) as refused, wakes.watch("b"):
            pass
        assert (refused.value.status, refused.value.code) == (503, "too_many_waiters")
        with wakes.watch("b"):
            assert wakes.count == 1

    async def it_gives_a_tenant_a_fourth_of_the_places(self):
        wakes = Wakes(most_waiters=8)
        for _ in range(2):  # places are given back
            with wakes.watch("acme:query:1"), wakes.watch("acme:job:2"):
                with pytest.raises(Problem) as refused, wakes.watch("acme:query:3"):
                    pass
                with wakes.watch("other:query:4"):
                    assert wakes.count == 3
        assert (refused.value.status, refused.value.code) == (429, "too_many_waiters")

    async def it_gives_no_place_to_one_who_does_not_wait(self):
        wakes = Wakes(most_waiters=1)
        with wakes.watch_for("a", seconds=5), wakes.watch_for("b", seconds=0) as waiter:
            assert (waiter, wakes.count) == (None, 1)
            with pytest.raises(Problem), wakes.watch_for("b", seconds=5):
                pass


class DescribeListening:
    async def it_passes_on_what_is_said(self):
        server = fakeredis.FakeServer()
        wakes = Wakes()
        async with _listening(wakes, server) as client:
            with wakes.watch("acme:query:1") as waiter:
                await client.publish(WAKE_CHANNEL, "acme:query:1")
                await _soon(waiter._woken.done)

    async def it_wakes_everyone_when_the_connection_is_lost_and_again_when_it_is_back(self):
        server = fakeredis.FakeServer()
        wakes = Wakes()
        stays = asyncio.get_running_loop().create_future()
        with wakes.watch("acme:query:1") as waiter:
            server.connected = False
            async with _listening(wakes, server, wait=False):
                async with asyncio.timeout(3):
                    await waiter.sleep(10, stays)
                await asyncio.sleep(0.02)
                assert not waiter._woken.done()
                server.connected = True
                await _soon(waiter._woken.done)


class _listening:
    """A subscriber at work on a fake server; gives another client of it."""

    def __init__(self, wakes, server, *, wait=True):
        self._wakes, self._server, self._wait = wakes, server, wait

    async def __aenter__(self):
        self._client = fakeredis.FakeAsyncRedis(server=self._server)
        self._other = fakeredis.FakeAsyncRedis(server=self._server)
        self._task = asyncio.create_task(self._wakes.listen(self._client))
        while self._wait and not (await self._other.pubsub_numsub(WAKE_CHANNEL))[0][1]:
            await asyncio.sleep(0.005)
        return self._other

    async def __aexit__(self, *_):
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._client.aclose()
        await self._other.aclose()


async def _soon(happened):
    async with asyncio.timeout(3):
        while not happened():
            await asyncio.sleep(0.005)
