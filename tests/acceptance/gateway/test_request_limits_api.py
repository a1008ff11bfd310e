"""Rate limits of a tenant's requests: the headers, and the refusal beyond the limit."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from pipeline.resources import Resources
from tests.conftest import gateway, make_tenant
from tests.support.clients.gateway_client import problem
from tests.support.stacks.connections import in_mysql


@contextmanager
def slow_tenant(use: Resources) -> Iterator[httpx.Client]:
    """A new tenant that may send 30 requests a minute, 5 at once."""
    tenant_id, key = make_tenant(use)
    in_mysql(use, "UPDATE tenants SET quota_requests_per_minute = 30 WHERE tenant_id = :tenant", tenant=tenant_id)
    with gateway(key) as found:
        yield found


@pytest.fixture
def slow(use: Resources) -> Iterator[httpx.Client]:
    with slow_tenant(use) as found:
        yield found


class DescribeRequestLimits:
    def it_tells_every_caller_how_much_is_left(self, client):
        first, second = client.get("/v1/jobs"), client.get("/v1/jobs/none")
        assert first.headers["ratelimit-policy"] == second.headers["ratelimit-policy"] == '"requests";q=5000;w=10'
        assert re.fullmatch(r'"requests";r=\d{4};t=\d', second.headers["ratelimit"])

    def it_refuses_what_is_too_much_and_says_when_to_come_back(self, slow):
        found = [slow.get("/v1/jobs") for _ in range(8)]
        assert [each.status_code for each in found[:5]] == [200] * 5
        refused = next(each for each in found if each.status_code == 429)
        body = problem(refused, 429, "too_many_requests")
        assert body["quota"]["name"] == "requests_per_minute"
        assert body["quota"]["limit"] == 30
        assert 1 <= int(refused.headers["retry-after"]) <= 2
        assert refused.headers["ratelimit-policy"] == '"requests";q=5;w=10'
        assert refused.headers["ratelimit"].startswith('"requests";r=0;t=')

    def it_limits_no_other_tenant_and_no_probe(self, slow, use):
        for _ in range(8):
            slow.get("/v1/jobs")
        with slow_tenant(use) as other:
            assert other.get("/v1/jobs").status_code == 200
        assert "ratelimit" not in slow.get("/healthz").headers
        assert slow.get("/healthz").status_code == 200

    def it_has_nothing_to_say_to_strangers(self):
        with gateway("cw_nobody_" + "0" * 48) as stranger:
            found = stranger.get("/v1/jobs")
        problem(found, 401, "invalid_api_key")
        assert "ratelimit" not in found.headers
