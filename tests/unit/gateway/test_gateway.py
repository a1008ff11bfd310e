"""Looks that are shared: few of them, and none older than the question."""

from __future__ import annotations

import asyncio

import pytest

from api_gateway.gateway import SharedReads


class Counter:
    def __init__(self) -> None:
        self.looks = 0
        self.state = "before"

    async def look(self) -> str:
        self.looks += 1
        seen = self.state
        await asyncio.sleep(0.01)
        return seen


class DescribeSharedReads:
    async def it_looks_once_for_a_crowd(self):
        shared, counter = SharedReads(), Counter()
        found = await asyncio.gather(*(shared.read("job", counter.look) for _ in range(300)))
        assert set(found) == {"before"}
        assert counter.looks == 1

    async def it_never_gives_what_was_seen_before_the_question(self):
        shared, counter = SharedReads(), Counter()
        early = asyncio.ensure_future(shared.read("job", counter.look))
        await asyncio.sleep(0.005)
        counter.state = "after"
        late = await asyncio.gather(*(shared.read("job", counter.look) for _ in range(10)))
        assert (await early, set(late), counter.looks) == ("before", {"after"}, 2)

    async def it_keeps_names_apart_and_forgets_them(self):
        shared, counter = SharedReads(), Counter()
        await asyncio.gather(shared.read("a", counter.look), shared.read("b", counter.look))
        await shared.read("a", counter.look)
        assert counter.looks == 3

    async def it_tells_everyone_what_went_wrong_and_goes_on(self):
        async def fail():
            raise OSError("away")

        shared, counter = SharedReads(), Counter()
        found = await asyncio.gather(*(shared.read("a", fail) for _ in range(3)), return_exceptions=True)
        assert [type(each) for each in found] == [OSError] * 3
        assert await shared.read("a", counter.look) == "before"

    async def it_goes_on_when_one_of_them_leaves(self):
        shared, counter = SharedReads(), Counter()
        one, other = (asyncio.ensure_future(shared.read("a", counter.look)) for _ in range(2))
        await asyncio.sleep(0)
        one.cancel()
        assert await other == "before"
        with pytest.raises(asyncio.CancelledError):
            await one
