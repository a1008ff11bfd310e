"""Idempotency keys of failed requests: the next attempt continues the same work or begins anew."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Annotated, Any

import httpx
import pytest
from fastapi import Depends, FastAPI, Request
from starlette.responses import Response

from api_gateway.http.auth import Keys, Requires
from api_gateway.http.idempotency import IdempotentPosts, claim_key, work_id
from pipeline.database.write_fence import set_fence
from pipeline.records import TenantId
from pipeline.resources import Resources
from pipeline.setting_values import StorePair
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
        self.meanwhile: Callable[[], object] = lambda: None


@pytest.fixture
def outcome() -> Outcome:
    return Outcome()


@pytest.fixture
def stores(use: Resources) -> Iterator[Resources]:
    """The stack's stores as one of two pairs, so that tenants have fences."""
    other = StorePair(mysql_url=use.settings.mysql_url, postgres_url=use.settings.postgres_url)
    own = Resources(use.settings.model_copy(update={"store_pairs": {"b": other}}))
    yield own
    own.close()


@pytest.fixture
async def client(stores, tenant, outcome):
    async def look_up(_: str) -> Principal:
        return Principal(tenant_id=tenant, scopes=frozenset({"write"}))

    app = FastAPI(dependencies=[Depends(with_an_id), Depends(claim_key)])
    app.add_middleware(IdempotentPosts)

    async def serve(_: TenantId) -> None:
        """All tenants are on one pair of stores here."""

    app.state.gateway = SimpleNamespace(
        resources=stores,
        placed=stores.placed,
        serve=serve,
        settings=stores.settings,
        keys=Keys(look_up),
        run=asyncio.to_thread,
    )

    @app.post("/v1/things")
    async def make(request: Request, _: Writer) -> Response:
        await request.body()
        outcome.works.append(work_id(request))
        outcome.meanwhile()
        if outcome.raises:
            raise RuntimeError("the commit may have come through")
        return Response(status_code=outcome.status)

    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    headers = {"Authorization": f"Bearer cw_{tenant}_{'f' * 48}", "Idempotency-Key": str(uuid.uuid4())}
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway", headers=headers) as found:
        yield found


class DescribeAKeyOfATenantThatMoves:
    async def it_is_free_for_the_next_attempt_once_the_tenant_writes_again(self, client, outcome, stores, tenant):
        outcome.status = 503
        opening = threading.Timer(0.6, lambda: _set_fence(stores, tenant, is_closed=False))

        def freeze() -> None:
            _set_fence(stores, tenant, is_closed=True)
            opening.start()

        outcome.meanwhile = freeze
        assert (await client.post("/v1/things", content=b"{}")).status_code == 503
        opening.join()
        outcome.status, outcome.meanwhile = 202, lambda: None
        assert (await client.post("/v1/things", content=b"{}")).status_code == 202
        first, again = outcome.works
        assert first == again is not None


def _set_fence(stores: Resources, tenant: TenantId, *, is_closed: bool) -> None:
    with stores.mysql.begin() as connection:
        set_fence(connection, tenant, is_closed=is_closed)


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
