"""Limit on wrong API keys by client address: 401 within the limit, then 429 after a delay of one second.

A correct key is always served, whatever else its address sends. While an address exceeds the limit, the gateway looks
up only a few keys at a time from there that this process has not verified before, so that guessing cannot occupy the
database.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import Any, Final, Protocol

import structlog
from cachetools import FIFOCache

from api_gateway.http.metrics import WRONG_KEYS
from api_gateway.http.problems import Problem
from pipeline.deadline import Deadline
from pipeline.errors import Unavailable
from pipeline.outbound.addresses import Network, is_within
from pipeline.tenants.request_buckets import BucketReply, LocalBuckets, Rate

log = structlog.get_logger(__name__)

_LOOK_UPS: Final = 4  # at a time, of keys this process has not verified, from one address beyond the limit
_HELD_S: Final = 1.0  # delay of the refusal of such a key
_MOST_HELD: Final = 256  # refusals delayed at the same time; further ones are sent at once
_MOST_ADDRESSES: Final = 10_000
_WITHOUT_REDIS_S: Final = 2.0  # pause before asking Redis again after it did not answer


class Buckets(Protocol):
    """The store of the token buckets that all gateways share."""

    async def take_named(self, name: str, rate: Rate) -> BucketReply:
        """Take one token from a bucket. Raises Unavailable."""


@dataclass(frozen=True, slots=True)
class _Excess:
    """An address beyond the limit ``until`` a time of the clock, and the turns of its look-ups."""

    until: float
    turns: asyncio.Semaphore


class WrongKeys:
    """A counter of wrong keys by client address, in Redis, or in this process while Redis is unavailable."""

    def __init__(
        self,
        buckets: Buckets,
        rate: Rate,
        *,
        proxies: Sequence[Network] = (),
        clock: Callable[[], float] = time.monotonic,
        held_s: float = _HELD_S,
    ) -> None:
        self._buckets = buckets
        self._rate = rate
        self._proxies = tuple(proxies)
        self._clock = clock
        self._held_s = held_s
        self._local = LocalBuckets(most=_MOST_ADDRESSES, clock=clock)
        self._excesses: FIFOCache[str, _Excess] = FIFOCache(_MOST_ADDRESSES)
        self._held = 0
        self._redis_pause = Deadline(-math.inf, clock)

    def address_of(self, scope: Mapping[str, Any], headers: Mapping[str, str]) -> str:
        """Return the address of the client; for IPv6 its /64 network, because one customer has all of that.

        Behind a proxy that the settings trust, return the last entry of X-Forwarded-For that is not such a proxy.
        """
        client = scope.get("client")
        peer = str(client[0]) if client else ""
        if self._proxies and is_within(peer, self._proxies):
            for entry in reversed(headers.get("x-forwarded-for", "").split(",")):
                if not _is_address(entry.strip()):
                    break
                peer = entry.strip()
                if not is_within(peer, self._proxies):
                    break
        return _network(peer)

    def turn(self, scope: Mapping[str, Any], headers: Mapping[str, str]) -> asyncio.Semaphore | None:
        """Return the semaphore for key look-ups from this client if its address exceeds the limit, else None."""
        if not self._excesses:
            return None
        address = self.address_of(scope, headers)
        excess = self._excesses.get(address)
        if excess is None:
            return None
        if self._clock() < excess.until:
            return excess.turns
        del self._excesses[address]
        return None

    async def refusal(self, address: str) -> Problem | None:
        """Count one wrong key. Return None within the address's limit; beyond it wait, then return the Problem."""
        if not self._rate.per_minute:
            return None
        allowance = await self._take(address)
        WRONG_KEYS.labels("refused" if allowance.admitted else "limited").inc()
        if allowance.admitted:
            return None
        excess = self._excesses.get(address)
        turns = excess.turns if excess else asyncio.Semaphore(_LOOK_UPS)
        self._excesses[address] = _Excess(self._clock() + max(allowance.wait_s, 1.0), turns)
        log.info("wrong_keys_limited", client=address)
        if self._held < _MOST_HELD:
            self._held += 1
            try:
                await asyncio.sleep(self._held_s)
            finally:
                self._held -= 1
        most = self._rate.per_minute
        limit = {"name": "wrong_keys_per_minute", "limit": most}
        detail = f"This address sends wrong API keys, more than {most} a minute; a correct one is served."
        headers = {"Retry-After": str(max(1, math.ceil(allowance.wait_s))), "WWW-Authenticate": "Bearer"}
        return Problem(429, "too_many_wrong_keys", detail, headers=headers, extensions={"limit": limit})

    async def _take(self, address: str) -> BucketReply:
        if self._redis_pause.has_passed:
            try:
                return await self._buckets.take_named(f"chordwise:wrong-keys:{address}", self._rate)
            except Unavailable as error:
                self._redis_pause = Deadline.after(_WITHOUT_REDIS_S, clock=self._clock)
                log.warning("wrong_keys_counted_locally", code=error.code)
        return self._local.take(address, self._rate)


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _network(peer: str) -> str:
    try:
        address = ip_address(peer)
    except ValueError:
        return "unknown"
    if not isinstance(address, IPv6Address):
        return str(address)
    return str(address.ipv4_mapped or f"{IPv6Address(int(address) >> 64 << 64)}/64")
