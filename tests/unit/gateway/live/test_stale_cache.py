"""Cached values in front of every request: fresh while MySQL answers, stale while it does not, and never awaited for long."""

from __future__ import annotations

import asyncio

import pytest

from api_gateway.http.problems import Problem
from api_gateway.live.stale_cache import PATIENCE_S, PAUSE_S, STALE_S, StaleCache
from pipeline.errors import StoreUnavailable

FRESH_S = 2.0


class Source:
    """A source of values: how often it was read, and whether it answers."""

    def __init__(self) -> None:
        self.now = 0.0
        self.reads = 0
        self.value: object = "first"
        self.answers = asyncio.Event()
        self.answers.set()

    async def read(self) -> object:
        self.reads += 1
        await self.answers.wait()
        if isinstance(self.value, Exception):
            raise self.value
        return self.value


@pytest.fixture
def source():
    return Source()


@pytest.fixture
def known(source):
    return StaleCache("value", fresh_s=FRESH_S, clock=lambda: source.now)


async def _timed(asked) -> tuple[object, float]:
    loop = asyncio.get_running_loop()
    begun = loop.time()
    return await asked, loop.time() - begun


class DescribeStaleCache:
    async def it_reads_once_for_everyone_who_asks_at_once(self, known, source):
        assert set(await asyncio.gather(*(known.of("k", source.read) for _ in range(50)))) == {"first"}
        assert source.reads == 1

    async def it_gives_the_new_value_when_the_old_one_is_not_fresh(self, known, source):
        await known.of("k", source.read)
        source.now, source.value = FRESH_S, "second"
        assert await known.of("k", source.read) == "second"

    async def it_lets_nobody_wait_who_asks_often(self, known, source):
        """A tenant that asks every 0.8 s: what is read beside one request serves the next ones."""
        await known.of("k", source.read)
        source.value = "second"
        for _ in range(10):
            source.now += 0.8
            source.answers.clear()
            value, took_s = await _timed(known.of("k", source.read))
            assert took_s < PATIENCE_S / 2
            source.answers.set()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        assert value == "second"
        assert source.reads <= 6

    async def it_waits_shortly_for_what_hangs_and_then_for_a_while_not_at_all(self, known, source):
        await known.of("k", source.read)
        source.now, source.value = FRESH_S, "second"
        source.answers.clear()
        value, took_s = await _timed(known.of("k", source.read))
        assert (value, source.reads) == ("first", 2)
        assert PATIENCE_S * 0.9 <= took_s < PATIENCE_S + 0.2
        value, took_s = await _timed(known.of("k", source.read))
        assert (value, source.reads) == ("first", 2)
        assert took_s < PATIENCE_S / 2
        source.answers.set()
        await asyncio.sleep(0.01)
        assert await known.of("k", source.read) == "second"  # the reading went on, and was the only one
        assert source.reads == 2

    async def it_does_not_wait_for_what_another_waited_for_in_vain(self, source):
        first = StaleCache("first", fresh_s=FRESH_S, clock=lambda: source.now)
        second = StaleCache("second", fresh_s=FRESH_S, away=first.is_away, clock=lambda: source.now)
        await asyncio.gather(first.of("k", source.read), second.of("k", source.read))
        source.now = FRESH_S
        source.answers.clear()
        assert (await _timed(first.of("k", source.read)))[1] >= PATIENCE_S * 0.9
        assert (await _timed(second.of("k", source.read)))[1] < PATIENCE_S / 2
        assert not second.is_away()  # only the one who waited knows
        source.answers.set()

    async def it_waits_as_long_as_it_is_told_to(self, source):
        known = StaleCache("key", fresh_s=FRESH_S, patience_s=5.0, clock=lambda: source.now)
        await known.of("k", source.read)
        source.now, source.value = FRESH_S, None
        source.answers.clear()
        asked = asyncio.ensure_future(known.of("k", source.read))
        await asyncio.sleep(2 * PATIENCE_S)
        source.answers.set()
        assert await asked is None  # revoked, and MySQL was only slow to say so

    async def it_notices_beside_its_askers_that_it_is_back(self, known, source):
        await known.of("k", source.read)
        source.now, source.value = FRESH_S, StoreUnavailable("MySQL: gone")
        for _ in range(5):
            assert await known.of("k", source.read) == "first"
            await asyncio.sleep(0.01)
        source.value = "second"
        assert await known.of("k", source.read) == "first"  # and a reading begins
        await asyncio.sleep(0.01)
        assert await known.of("k", source.read) == "second"
        assert not known.is_away()

    async def it_reads_one_key_at_a_time_while_it_is_away(self, known, source):
        names = [f"k{number}" for number in range(20)]
        for name in names:
            await known.of(name, source.read)
        source.now = FRESH_S
        source.answers.clear()
        await known.of("k0", source.read)
        reads = source.reads
        assert [await known.of(name, source.read) for name in names] == ["first"] * 20
        await asyncio.sleep(0)
        assert source.reads == reads
        source.answers.set()

    async def it_forgets_after_a_pause_that_it_was_away(self, known, source):
        await known.of("k", source.read)
        source.now, source.value = FRESH_S, StoreUnavailable("MySQL: gone")
        assert await known.of("k", source.read) == "first"
        source.now += PAUSE_S
        source.value = None  # gone while nobody asked
        assert await known.of("k", source.read) is None

    async def it_lets_what_is_known_hold_for_minutes_and_not_for_ever(self, known, source):
        await known.of("k", source.read)
        source.value = StoreUnavailable("MySQL: gone")
        source.now = STALE_S
        assert await known.of("k", source.read) == "first"
        source.now = STALE_S + PAUSE_S
        with pytest.raises(StoreUnavailable):
            await known.of("k", source.read)

    async def it_tells_how_long_a_value_holds(self, known, source):
        assert not known.holds_for("k", 0.0)
        await known.of("k", source.read)
        assert known.holds_for("k", STALE_S)
        source.now = 1.0
        assert (known.holds_for("k", STALE_S - 1.0), known.holds_for("k", STALE_S)) == (True, False)

    async def it_does_not_hold_on_to_there_being_nothing(self, known, source):
        source.value = None
        assert await known.of("k", source.read) is None
        source.now, source.value = FRESH_S, StoreUnavailable("MySQL: gone")
        with pytest.raises(StoreUnavailable):
            await known.of("k", source.read)

    @pytest.mark.parametrize("late", [False, True])
    async def it_forgets_what_turns_out_to_be_gone(self, known, source, late):
        await known.of("k", source.read)
        source.now, source.value = FRESH_S, Problem(404, "gone", "It is gone.")
        if late:
            source.answers.clear()
            assert await known.of("k", source.read) == "first"
            source.answers.set()
            await asyncio.sleep(0.01)
        with pytest.raises(Problem):
            await known.of("k", source.read)
        assert len(known) == 0

    async def it_keeps_nothing_that_was_read_before_a_change(self, known, source):
        source.answers.clear()
        early = asyncio.ensure_future(known.of("k", source.read))
        await asyncio.sleep(0)
        known.forget(lambda key: key == "k")
        source.answers.set()
        assert await early == "first"
        source.value = "second"
        assert await known.of("k", source.read) == "second"

    async def it_goes_on_for_others_when_who_asked_first_leaves(self, known, source):
        source.answers.clear()
        first, second = (asyncio.ensure_future(known.of("k", source.read)) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        source.answers.set()
        assert (await second, source.reads) == ("first", 1)

    async def it_does_not_grow_without_bound(self, source):
        known = StaleCache("value", fresh_s=FRESH_S, most=10, clock=lambda: source.now)
        for number in range(30):
            await known.of(number, source.read)
        assert len(known) == 10
