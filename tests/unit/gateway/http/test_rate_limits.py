"""Limits of requests in front of every route, without the servers behind them."""

from __future__ import annotations

import time
from contextlib import AsyncExitStack, suppress

import httpx
import pytest
import structlog

from api_gateway.app import create_app
from api_gateway.http.auth import Keys
from api_gateway.http.problems import Problem
from api_gateway.http.rate_limits import headers_of
from api_gateway.live.admission import Admission
from pipeline.errors import StoreUnavailable
from pipeline.query.places import Place, Verdict, WorkKind
from pipeline.records import TenantId
from pipeline.settings import load
from pipeline.tenants.accounts import Principal
from pipeline.tenants.request_buckets import BucketReply, Rate
from tests.support.clients.attacks import code_of

KEY = {"Authorization": "Bearer cw_acme_" + "0" * 48}
NOWHERE = {
    "mysql_url": "mysql+pymysql://nobody@127.0.0.1:1/none",
    "redis_url": "redis://127.0.0.1:1/0",
    "quota_requests_per_minute": 60,
}


class Bucket:
    """Stand in for Redis: return the configured reply."""

    def __init__(self, allowance: BucketReply | None) -> None:
        self.allowance, self.asked = allowance, 0

    async def take(self, tenant_id, rate):
        self.asked += 1
        if self.allowance is None:
            raise StoreUnavailable("Redis: ConnectionError")
        return self.allowance


@pytest.fixture
def app():
    async def look_up(api_key):
        return (
            Principal(tenant_id=TenantId("acme"), scopes=frozenset({"read"})) if api_key.startswith("cw_acme") else None
        )

    made = create_app(load(NOWHERE))
    made.state.gateway.keys = Keys(look_up)
    return made


@pytest.fixture
async def client(app):
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as found:
        with structlog.testing.capture_logs():
            yield found


class DescribeLimits:
    async def it_refuses_before_the_route_is_asked(self, app, client):
        app.state.gateway.request_rates = Bucket(BucketReply(admitted=False, left=0, wait_s=2.4))
        for path in ("/v1/jobs/x", "/openai/v1/anything", "/nothing"):
            found = await client.get(path, headers=KEY)
            assert (found.status_code, code_of(found)) == (429, "too_many_requests")
            assert found.headers["retry-after"] == "3"
            assert found.headers["ratelimit"] == '"requests";r=0;t=3'

    @pytest.mark.parametrize("path", ["/v1/jobs/x", "/healthz/crowded"], ids=["limited", "route"])
    async def it_holds_a_refusal_back(self, app, client, path):
        """Clients that try again at once would otherwise take the processor time of answers."""

        @app.get("/healthz/crowded")
        async def crowded():
            raise Problem(429, "too_many_waiters", "Too many such requests of this tenant are under way.")

        app.state.gateway.request_rates = Bucket(BucketReply(admitted=False, left=0, wait_s=2.4))
        started = time.monotonic()
        assert (await client.get(path, headers=KEY)).status_code == 429
        assert time.monotonic() - started >= 0.09

    async def it_lets_everyone_through_while_redis_is_away_and_says_so_once(self, app, client):
        app.state.gateway.request_rates = bucket = Bucket(None)
        with structlog.testing.capture_logs() as lines:
            for _ in range(3):
                assert (await client.get("/v1/jobs/x", headers=KEY)).status_code == 404
        assert [line["event"] for line in lines].count("requests_not_limited") == 1
        assert bucket.asked == 1

    async def it_asks_for_nobody_it_does_not_know(self, app, client):
        app.state.gateway.request_rates = bucket = Bucket(BucketReply(admitted=False, left=0, wait_s=1))
        assert (await client.get("/v1/jobs")).status_code == 401
        assert (await client.get("/healthz", headers=KEY)).status_code == 200
        assert bucket.asked == 0


class DescribeACrowd:
    """Far more queries of a tenant are inside than its places and its time allow."""

    @pytest.fixture
    async def crowd(self, app):
        async def slots(_queue: str) -> int:
            return 2

        async def attempt(_place: Place) -> Verdict:
            return Verdict.TAKEN

        spawned = []
        admission = Admission(slots, spawn=spawned.append, usual_s=3.0, jitter=lambda: 0.0)
        await admission.enter(WorkKind.QUERY, TenantId("acme"), "acme/1", attempt, left_s=lambda: 3.0)
        async with AsyncExitStack() as inside:
            with suppress(Problem):
                while True:
                    await inside.enter_async_context(admission.counted(TenantId("acme")))
            app.state.gateway.admission = admission
            yield
        assert not spawned

    @pytest.mark.parametrize(
        ("path", "code"),
        [
            ("/v1/queries", "overloaded"),
            ("/dify/retrieval", "503"),  # its errors have numbers
            ("/openai/v1/vector_stores/vs_1/search", "overloaded"),
        ],
    )
    @pytest.mark.parametrize("is_verified", [True, False])
    async def it_is_refused_in_the_form_of_its_interface(self, crowd, client, path, code, is_verified):
        if is_verified:
            await client.get("/v1/jobs/x", headers=KEY)
        with structlog.testing.capture_logs() as lines:
            found = await client.post(path, headers=KEY | {"X-Request-ID": "mine"}, content=b"not read")
        assert (found.status_code, code_of(found)) == (503, code)
        assert int(found.headers["retry-after"]) >= 1
        assert found.headers["x-request-id"] == "mine"
        assert found.headers["x-content-type-options"] == "nosniff"
        assert found.headers["cache-control"] == "no-store"
        [line] = [line for line in lines if line["event"] == "request"]
        assert line["status"] == 503

    async def it_holds_up_no_other_request(self, crowd, client):
        await client.get("/v1/jobs/x", headers=KEY)
        assert (await client.get("/v1/jobs/x", headers=KEY)).status_code == 404
        others = {"Authorization": "Bearer cw_acme_" + "1" * 48}
        assert code_of(await client.get("/v1/queries", headers=others)) == "method_not_allowed"
        assert code_of(await client.post("/v1/queries")) == "missing_api_key"


class DescribeARate:
    def it_says_when_an_empty_bucket_is_full(self):
        assert Rate(per_minute=30_000, burst=5_000).window_s == 10
        assert Rate(per_minute=1, burst=1).window_s == 60

    @pytest.mark.parametrize(("own", "burst"), [(30, 5), (1, 1), (60_000, 10_000)])
    def it_lets_a_tenant_send_ten_seconds_worth_at_once(self, own, burst):
        assert Rate.of_tenant(own) == Rate(per_minute=own, burst=burst)

    def it_tells_when_what_was_taken_is_there_again(self):
        told = headers_of(Rate(per_minute=60, burst=10), BucketReply(admitted=True, left=7, wait_s=0))
        assert told == {"RateLimit-Policy": '"requests";q=10;w=10', "RateLimit": '"requests";r=7;t=3'}
