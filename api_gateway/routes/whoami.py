"""Whose key this is."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.responses import Response

from api_gateway.auth import Requires
from api_gateway.routes.documenting import answers
from api_gateway.wire.answers import json_response
from api_gateway.wire.shapes import Shape
from pipeline.stores.tenants import Principal

router = APIRouter(tags=["operation"])

Reader = Annotated[Principal, Depends(Requires("read"))]


class Whoami(Shape):
    """The tenant a key belongs to, the key's name, and what it may do."""

    tenant_id: str
    key_name: str
    scopes: list[str]


@router.get(
    "/v1/whoami",
    responses=answers(200, Whoami, "The tenant, the key's name, its scopes.", 401, 403, 503),
    summary="Whose key is this?",
)
async def whoami(principal: Reader) -> Response:
    """The key itself is never shown."""
    return json_response(
        {
            "tenant_id": principal.tenant_id,
            "key_name": principal.key_name,
            "scopes": sorted(principal.scopes),
        }
    )
