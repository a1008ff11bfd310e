"""Conditional writes: the look that comes before them is no write, and waits for nothing."""

from __future__ import annotations

import asyncio
import uuid
from types import SimpleNamespace
from typing import Annotated, Any

import fakeredis
import httpx
import pytest
from fastapi import Depends, FastAPI, Request, Response

from api_gateway.http.auth import Keys, Requires
from api_gateway.http.conditional_requests import ConditionalRequests, check_preconditions
from pipeline.records import TenantId
from pipeline.tenants.accounts import Principal

API_KEY = f"cw_acme_{'f' * 48}"
ACME = Principal(tenant_id=TenantId("acme"), scopes=frozenset({"read", "write"}))

Reader = Annotated[Principal, Depends(Requires("read"))]
Writer = Annotated[Principal, Depends(Requires("write"))]


async def look_up(_: str) -> Principal:
    return ACME


async def with_an_id(request: Request) -> None:
    request.state.request_id = str(uuid.uuid4())


@pytest.fixture
def looks() -> list[dict[str, Any]]:
    """The parts of each request that the reading route saw."""
    return []


@pytest.fixture
def app(looks) -> FastAPI:
    made = FastAPI(dependencies=[Depends(with_an_id), Depends(check_preconditions)])
    made.add_middleware(ConditionalRequests)
    made.state.gateway = SimpleNamespace(
        resources=SimpleNamespace(async_redis=fakeredis.FakeAsyncRedis()), keys=Keys(look_up)
    )

    @made.get("/v1/things/{name}")
    async def look(request: Request, _: Reader, name: str) -> dict[str, str]:
        gone = asyncio.ensure_future(_leaves(request))
        await asyncio.sleep(0.02)
        looks.append(
            {"query": dict(request.query_params), "prefer": request.headers.get("prefer"), "gone": gone.done()}
        )
        gone.cancel()
        return {"name": name}

    @made.delete("/v1/things/{name}")
    async def forget(_: Writer, name: str, of: str = "", empty: str = "", wait: int = 0) -> Response:
        return Response(status_code=204)

    return made


async def _leaves(request: Request) -> int:
    """How often the client spoke before it was gone; ends after a while, so that one who never sleeps is noticed."""
    for spoken in range(1000):
        if (await request.receive())["type"] == "http.disconnect":
            return spoken
    return 1000


@pytest.fixture
async def client(app):
    transport = httpx.ASGITransport(app)
    headers = {"Authorization": f"Bearer {API_KEY}"}
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway", headers=headers) as found:
        yield found


class DescribeTheLookBeforeAWrite:
    async def it_is_that_of_a_client_that_stays_and_lets_others_be_served(self, client, looks):
        response = await client.delete("/v1/things/a", headers={"If-Match": "*"})
        assert response.status_code == 204
        assert [look["gone"] for look in looks] == [False]

    @pytest.mark.parametrize("target", ["a?of=x%26y&wait=5&empty=", "a?w%61it=5&of=x%26y&empty=&wait=7"])
    async def it_does_not_wait_whatever_the_writer_asks_for(self, client, looks, target):
        headers = {"If-Match": "*", "Prefer": "wait=5"}
        assert (await client.delete(f"/v1/things/{target}", headers=headers)).status_code == 204
        assert looks == [{"query": {"of": "x&y", "empty": ""}, "prefer": None, "gone": False}]
