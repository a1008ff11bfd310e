"""Guessing keys: the gateway slows the guesser down and delays no other client."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator

import httpx
import pytest

from api_gateway.http.auth import WRONG_KEYS_RATE
from tests.conftest import gateway, make_tenant
from tests.support.clients.gateway_client import problem


@pytest.fixture
def address() -> str:
    """Return a client address, as a trusted proxy names it, that no other test uses."""
    number = uuid.uuid4().int
    return f"2001:db8:{number >> 16 & 0xFFFF:x}:{number & 0xFFFF:x}::1"


@pytest.fixture
def guesser(address) -> Iterator[httpx.Client]:
    """Yield a client that sends wrong keys from ``address``."""
    with gateway("cw_nobody_" + "0" * 48) as made:
        made.headers["X-Forwarded-For"] = address
        yield made


def guessed(client: httpx.Client) -> httpx.Response:
    """Send one request with a new wrong key."""
    return client.get("/v1/jobs", headers={"Authorization": f"Bearer cw_nobody_{uuid.uuid4().hex}"})


def limited(client: httpx.Client, *, most: int) -> httpx.Response:
    """Return the first answer that is not 401, within ``most`` guesses."""
    for _ in range(most):
        found = guessed(client)
        if found.status_code != 401:
            return found
    raise AssertionError("nothing limits wrong keys")


class DescribeWrongKeys:
    def it_is_429_after_too_many_from_one_address_and_correct_ones_are_served(self, guesser, address, settings, use):
        assert guessed(guesser).status_code == 401
        began = time.monotonic()
        refused = limited(guesser, most=WRONG_KEYS_RATE.burst * 3)
        body = problem(refused, 429, "too_many_wrong_keys")
        assert body["limit"] == {"name": "wrong_keys_per_minute", "limit": WRONG_KEYS_RATE.per_minute}
        assert int(refused.headers["retry-after"]) >= 1

        _, key = make_tenant(use)  # which no gateway has seen before
        with gateway(key) as customer:
            customer.headers["X-Forwarded-For"] = address
            for _ in range(3):
                limited(guesser, most=WRONG_KEYS_RATE.burst // 2)  # a busy machine lets the bucket fill a little
                assert customer.get("/v1/jobs").status_code == 200
        assert time.monotonic() - began > 3.5  # each of the four refusals was held back for a second

    @pytest.mark.thorough
    def it_is_counted_by_network_and_for_each_address(self, guesser, address, settings):
        limited(guesser, most=WRONG_KEYS_RATE.burst * 3)
        guesser.headers["X-Forwarded-For"] = address.removesuffix("::1") + "::beef"
        limited(guesser, most=WRONG_KEYS_RATE.burst // 2)
        guesser.headers["X-Forwarded-For"] = f"{address}, 2001:db8:ffff:{uuid.uuid4().int & 0xFFFF:x}::2"
        assert guessed(guesser).status_code == 401  # any client may write the entries before the last one

    def it_does_not_count_the_operators_key(self, address, settings):
        with gateway(settings.admin_key.get_secret_value()) as operator:
            operator.headers["X-Forwarded-For"] = address
            assert operator.get("/v1/tenants").status_code == 200
        lines = httpx.get(f"{operator.base_url}/v1/metrics").text.splitlines()
        assert any(line.startswith("chordwise_gateway_wrong_keys_total{") for line in lines)
