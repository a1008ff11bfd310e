"""Idempotency keys of failed requests: the next attempt continues the same work or begins anew."""

from __future__ import annotations

import asyncio
import uuid
from types import SimpleNamespace
from typing import Annotated, Any

import httpx
import pytest
from fastapi import Depends, FastAPI, Request
from starlette.responses import Response

from api_gateway.http.auth import Keys, Requires
from api_gateway.http.idempotency import IdempotentPosts, claim_key, work_id
from pipeline.tenants.accounts import Principal

Writer = Annotated[Principal, Depends(Requires("write"))]


async def with_an_id(request: Request) -> None:
    request.state.request_id = str(uuid.uuid4())


class Outcome:
    """The next outcome of the route."""

    def __init__(self) -> None:
        self.status = 202
        self.raises = False
        self.works: list[Any] = []


@pytest.fixture
def outcome() -> Outcome:
    return Outcome()


@pytest.fixture
async def client(use, tenant, outcome):
    async def look_up(_: str) -> Principal:
        return Principal(tenant_id=tenant, scopes=frozenset({"write"}))

    app = FastAPI(dependencies=[Depends(with_an_id), Depends(claim_key)])
    app.add_middleware(IdempotentPosts)

    app.state.gateway = SimpleNamespace(resources=use, settings=use.settings, keys=Keys(look_up), run=asyncio.to_thread)

    @app.post("/v1/things")
    async def make(request: Request, _: Writer) -> Response:
        await request.body()
        outcome.works.append(work_id(request))
        if outcome.raises:
            raise RuntimeError("the commit may have come through")
        return Response(status_code=outcome.status)

    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    headers = {"Authorization": f"Bearer cw_{tenant}_{'f' * 48}", "Idempotency-Key": str(uuid.uuid4())}
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway", headers=headers) as found:
        yield found


class DescribeAKeyAfterItsRequest:
    @pytest.mark.parametrize("status", [500, 503])
    async def it_stands_for_the_same_work_if_nobody_knows_what_was_made(self, client, outcome, status):
        outcome.status = status
        assert (await client.post("/v1/things", content=b"{}")).status_code == status
        outcome.status = 202
        assert (await client.post("/v1/things", content=b"{}")).status_code == 202
        first, again = outcome.works
        assert first == again is not None

    async def it_stands_for_the_same_work_if_there_was_no_answer(self, client, outcome):
        outcome.raises = True
        await client.post("/v1/things", content=b"{}")
        outcome.raises = False
        assert (await client.post("/v1/things", content=b"{}")).status_code == 202
        first, again = outcome.works
        assert first == again is not None

    async def it_may_stand_for_another_body_after_a_failure(self, client, outcome):
        outcome.status = 503
        await client.post("/v1/things", content=b"{}")
        outcome.status = 202
        assert (await client.post("/v1/things", content=b'{"a": 1}')).status_code == 202
        first, again = outcome.works
        assert first != again

    async def it_stands_for_new_work_after_a_refusal(self, client, outcome):
        outcome.status = 409
        await client.post("/v1/things", content=b"{}")
        outcome.status = 202
        assert (await client.post("/v1/things", content=b"{}")).status_code == 202
        first, again = outcome.works
        assert first != again
