"""Namespaces and the alignment of the two stores."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Request
from fastapi import Query as Parameter
from pydantic import Field
from starlette.responses import Response

from api_gateway.gateway import gateway_of
from api_gateway.http import cursors
from api_gateway.http import responses as wire
from api_gateway.http.auth import Reader, require_scope
from api_gateway.http.descriptions import Cursor, Limit, answers, json_body
from api_gateway.http.fields import NamespaceName, Wire
from api_gateway.http.json_bodies import read_shape
from api_gateway.live.computations import compute
from api_gateway.resources.shapes import Alignment, NamespacePage
from pipeline.jobs.computation import ComputationKind
from pipeline.records import Namespace
from pipeline.tenants.namespace_store import Namespaces

router = APIRouter(tags=["namespaces"])

_MAX_BODY_BYTES = 1024 * 1024


class VerifyRequest(Wire):
    """Which namespaces to compare, all if none are named, and whether to put right what differs. `delete_share` confirms
    that a repair may delete up to this share of the tenant's vectors and of its rows of chunks."""

    tenant_id: str | None = None
    namespaces: Annotated[list[NamespaceName], Field(min_length=1, max_length=1000)] | None = None
    repair: bool = False
    delete_share: Annotated[float, Field(ge=0, le=1)] | None = None


@router.get(
    "/v1/namespaces",
    responses=answers(200, NamespacePage, "One page of namespaces, by name.", 401, 403, 422, 503),
    summary="List namespaces",
)
async def list_namespaces(
    request: Request,
    principal: Reader,
    limit: Limit = 50,
    cursor: Cursor = None,
    examples: Annotated[bool, Parameter(description="Only those that hold examples of the library.")] = False,
) -> Response:
    """A namespace is made by the first document that names it."""
    gateway = gateway_of(request)
    after = cursors.decode(cursor, "namespaces", str)

    found, following = cursors.page(
        await gateway.ask(
            Namespaces,
            principal,
            lambda store: store.views(after=after[0] if after else None, limit=limit + 1, examples=examples),
        ),
        limit,
        lambda last: cursors.encode("namespaces", last.namespace),
    )
    return wire.page_response([wire.namespace(view) for view in found], following)


@router.post(
    "/v1/verify",
    responses=answers(200, Alignment, "How the stores compare.", 400, 401, 403, 404, 413, 415, 422, 429, 503),
    openapi_extra=json_body(VerifyRequest, {"namespaces": ["kb"], "repair": False}),
    summary="Compare both stores",
)
async def verify_stores(request: Request, principal: Reader) -> Response:
    """Every chunk against every vector; it may take a while. `repair` needs the scope `write`."""
    gateway = gateway_of(request)
    asked = await read_shape(request, principal, VerifyRequest, limit=_MAX_BODY_BYTES)
    if asked.repair:
        require_scope(principal, "write")
    names = None if asked.namespaces is None else [Namespace(name) for name in dict.fromkeys(asked.namespaces)]
    if names is not None:
        await gateway.namespaces.require(principal.tenant_id, names)
    done = await compute(
        gateway,
        ComputationKind.VERIFY,
        principal.tenant_id,
        {"namespaces": names, "repair": asked.repair, "delete_share": asked.delete_share},
        receive=request.receive,
        actor=principal.actor,
        request_id=request.state.request_id,
    )
    return Response(done.body, media_type="application/json")
