"""Tokens of the rate limit that wait for one message to Redis, with a client that breaks."""

from __future__ import annotations

import asyncio

import pytest

from pipeline.records import TenantId
from pipeline.tenants.request_buckets import Rate
from pipeline.tenants.request_rate_store import RequestRates


class BrokenClient:
    """Stand in for a client of Redis with a fault of its own."""

    def register_script(self, _text: str):
        async def call(*_arguments: object):
            raise RuntimeError("the client is broken")

        return call


class DescribeAFaultOfTheClient:
    async def it_leaves_no_request_waiting(self):
        rates = RequestRates(BrokenClient())
        for _ in range(2):
            with pytest.raises(asyncio.CancelledError):
                await asyncio.wait_for(rates.take(TenantId("t"), Rate(per_minute=60, burst=3)), 5)
        assert isinstance(rates._sender.exception(), RuntimeError)
