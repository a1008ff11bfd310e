"""How much the tenant may store and queue, and how much it does."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from api_gateway.gateway import gateway_of
from api_gateway.http.auth import Reader
from api_gateway.http.descriptions import answers
from api_gateway.http.responses import json_response
from api_gateway.resources.shapes import QuotaUse
from pipeline.ingestion.accept import quota_use

router = APIRouter(tags=["operation"])


@router.get(
    "/v1/quotas",
    responses=answers(200, QuotaUse, "Each quota with its limit and its use.", 401, 403, 503),
    summary="Look at the quotas",
)
async def look(request: Request, principal: Reader) -> Response:
    """`limit` is null where there is none. Counted when asked; a request that goes beyond one is refused as a whole."""
    gateway = gateway_of(request)
    found = await gateway.run(quota_use, principal.tenant_id, gateway.resources)
    return json_response({name: {"limit": limit or None, "used": used} for name, (limit, used) in found.items()})
