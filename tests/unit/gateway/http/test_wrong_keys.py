"""The address that a wrong key counts for, and counting without Redis."""

from __future__ import annotations

import pytest

from api_gateway.http.auth import WrongKeys
from pipeline.errors import StoreUnavailable
from pipeline.outbound.addresses import parse_networks
from pipeline.tenants.request_buckets import BucketReply, LocalBuckets, Rate

RATE = Rate(per_minute=60, burst=3)


class Shared:
    """A stand-in for Redis: shared buckets, or no answer."""

    def __init__(self) -> None:
        self.away = False
        self.asked: list[str] = []
        self._buckets = LocalBuckets(most=100)

    async def take_named(self, name: str, rate: Rate) -> BucketReply:
        self.asked.append(name)
        if self.away:
            raise StoreUnavailable("Redis: ConnectionError")
        return self._buckets.take(name, rate)


@pytest.fixture
def shared() -> Shared:
    return Shared()


def wrong_keys(shared: Shared, proxies: str = "") -> WrongKeys:
    return WrongKeys(shared.take_named, RATE, proxies=parse_networks(proxies), held_s=0.0)


class DescribeTheAddress:
    @pytest.mark.parametrize(
        ("proxies", "peer", "forwarded", "address"),
        [
            ("", "203.0.113.9", "198.51.100.1", "203.0.113.9"),  # nobody is believed
            ("10.0.0.0/8", "10.0.0.1", "198.51.100.1", "198.51.100.1"),
            ("10.0.0.0/8", "203.0.113.9", "198.51.100.1", "203.0.113.9"),  # no proxy of ours
            ("10.0.0.0/8", "10.0.0.1", "1.2.3.4, 198.51.100.1", "198.51.100.1"),  # anybody may write the first
            ("10.0.0.0/8", "10.0.0.1", "198.51.100.1, 10.0.0.2", "198.51.100.1"),  # two proxies of ours
            ("10.0.0.0/8", "10.0.0.1", "", "10.0.0.1"),
            ("10.0.0.0/8", "10.0.0.1", "nonsense", "10.0.0.1"),
            ("", "2001:db8:1:2:3:4:5:6", "", "2001:db8:1:2::/64"),
            ("", "::ffff:203.0.113.9", "", "203.0.113.9"),
            ("", None, "", "unknown"),
        ],
    )
    def it_is_the_peers_or_what_a_trusted_proxy_says(self, shared, proxies, peer, forwarded, address):
        scope = {"client": None if peer is None else (peer, 1)}
        assert wrong_keys(shared, proxies).address_of(scope, {"x-forwarded-for": forwarded}) == address


class DescribeTheLimit:
    async def it_refuses_after_the_burst_and_only_there(self, shared):
        keys = wrong_keys(shared)
        assert [await keys.refusal("a") for _ in range(3)] == [None] * 3
        refused = await keys.refusal("a")
        assert (refused.status, refused.code) == (429, "too_many_wrong_keys")
        assert await keys.refusal("b") is None
        assert set(shared.asked) == {"chordwise:wrong-keys:a", "chordwise:wrong-keys:b"}

    async def it_counts_in_the_process_while_redis_is_away(self, shared):
        shared.away = True
        keys = wrong_keys(shared)
        found = [await keys.refusal("a") for _ in range(4)]
        assert [each is None for each in found] == [True, True, True, False]
        assert len(shared.asked) == 1  # it is not waited for again and again

    async def it_lets_keys_wait_for_their_turn_only_where_too_many_were_wrong(self, shared):
        keys = wrong_keys(shared)
        guesser, other = {"client": ("203.0.113.9", 1)}, {"client": ("203.0.113.10", 1)}
        assert keys.turn(guesser, {}) is None
        for _ in range(4):
            await keys.refusal("203.0.113.9")
        assert keys.turn(guesser, {}) is not None
        assert keys.turn(other, {}) is None

    async def it_is_off_at_zero(self, shared):
        keys = WrongKeys(shared.take_named, Rate(per_minute=0, burst=1))
        assert [await keys.refusal("a") for _ in range(5)] == [None] * 5


class DescribeLocalBuckets:
    def it_fills_again_with_time(self):
        now = 0.0
        buckets = LocalBuckets(most=10, clock=lambda: now)
        assert [buckets.take("a", RATE).admitted for _ in range(4)] == [True, True, True, False]
        now = 1.0
        assert [buckets.take("a", RATE).admitted for _ in range(2)] == [True, False]

    def it_forgets_the_oldest(self):
        buckets = LocalBuckets(most=2)
        for name in ("a", "a", "a", "b", "c"):
            buckets.take(name, RATE)
        assert buckets.take("a", RATE).left == 2
