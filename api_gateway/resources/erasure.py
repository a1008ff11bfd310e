"""A whole tenant, erased: for the operator."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Request
from starlette.responses import Response

from api_gateway.gateway import gateway_of
from api_gateway.http.auth import require_operator
from api_gateway.http.descriptions import answers
from api_gateway.http.problems import Problem
from api_gateway.http.responses import json_response
from api_gateway.resources.shapes import TenantErased
from pipeline.maintenance.erase import erase_tenant
from pipeline.records import TenantId
from pipeline.tenants.tenant_store import TENANT_ID

router = APIRouter(tags=["admin"])


@router.delete(
    "/v1/tenants/{tenant_id}",
    dependencies=[Depends(require_operator)],
    responses=answers(200, TenantErased, "What went from where, and a recount.", 401, 403, 404, 422, 503),
    summary="Erase a tenant",
)
async def erase(
    request: Request, tenant_id: Annotated[str, Path(description="The tenant, as it stands in its keys.")]
) -> Response:
    """Everything it has, in every store; only an operator may. Asked again, it goes on and tells the same sums.
    `remaining` is empty once nothing is left."""
    gateway = gateway_of(request)
    known = TENANT_ID.fullmatch(tenant_id) is not None
    gone = await gateway.run_heavy(erase_tenant, TenantId(tenant_id), gateway.resources) if known else None
    if gone is None:
        raise Problem(404, "tenant_not_found", f"There is no tenant {tenant_id[:63]!r}.")
    return json_response({"tenant_id": gone.tenant_id, "erased": gone.erased, "remaining": gone.remaining})
