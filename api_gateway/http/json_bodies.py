"""Read a JSON body within a limit, and check its tenant and its shape."""

from __future__ import annotations

from typing import Final, TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError

from api_gateway.gateway import gateway_of
from api_gateway.http.auth import require_same_tenant
from api_gateway.http.bodies import decode_json, read_json_body, refuse_flaws
from api_gateway.http.problems import invalid, places
from pipeline.tenants.accounts import Principal

MOST_SHAPE_BYTES: Final = 64 * 1024 * 1024  # of a body that is not an upload; room for a dictionary of 10,000 groups
_AT_ONCE_BYTES: Final = 256 * 1024  # a larger body is parsed in a thread, off the event loop

M = TypeVar("M", bound=BaseModel)


async def read_shape(
    request: Request, principal: Principal | None, shape: type[M], *, limit: int = MOST_SHAPE_BYTES
) -> M:
    """Return the body as ``shape``.

    ``limit`` is in bytes and is capped by the installation's limit. ``principal`` is None for an operator, who may name
    any tenant. Raises Problem.
    """
    gateway = gateway_of(request)
    body = await read_json_body(request, min(limit, gateway.settings.max_body_bytes))
    if len(body) <= _AT_ONCE_BYTES:
        return _shaped(body, principal, shape)
    return await gateway.run_heavy(_shaped, body, principal, shape)


def _shaped(body: bytes, principal: Principal | None, shape: type[M]) -> M:
    decoded = decode_json(body)
    if principal is not None:
        require_same_tenant(principal, decoded.value.get("tenant_id"))
    try:
        return shape.model_validate(refuse_flaws(decoded))
    except ValidationError as error:
        raise invalid(places(error)) from None
