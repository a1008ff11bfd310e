"""What every route does with a JSON body: read it within a limit, see whose it is, and check its shape."""

from __future__ import annotations

from typing import TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError

from api_gateway.auth import require_same_tenant
from api_gateway.bodies import decode_json, read_json_body, refuse_flaws
from api_gateway.gateway import gateway_of
from api_gateway.problems import invalid, places
from pipeline.stores.tenants import Principal

M = TypeVar("M", bound=BaseModel)


async def read_shape(request: Request, principal: Principal, shape: type[M], *, limit: int | None = None) -> M:
    """The body as ``shape``; of at most ``limit`` bytes, and never more than the installation takes. Raises Problem."""
    most = gateway_of(request).settings.max_body_bytes
    decoded = decode_json(await read_json_body(request, most if limit is None else min(limit, most)))
    require_same_tenant(principal, decoded.value.get("tenant_id"))
    try:
        return shape.model_validate(refuse_flaws(decoded))
    except ValidationError as error:
        raise invalid(places(error)) from None
