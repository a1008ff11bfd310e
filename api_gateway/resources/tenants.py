"""Tenants of the installation and their keys: for the operator."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Request
from starlette.responses import Response

from api_gateway.gateway import Gateway, gateway_of
from api_gateway.http import cursors
from api_gateway.http.auth import require_operator
from api_gateway.http.descriptions import Cursor, Limit, answers, json_body
from api_gateway.http.json_bodies import read_shape
from api_gateway.http.problems import Problem, invalid
from api_gateway.http.responses import json_response, page_response
from api_gateway.resources import keys
from api_gateway.resources import tenant_shapes as shapes
from pipeline.database.unit_of_work import unit_of_work
from pipeline.records import TenantId
from pipeline.tenants.audit_store import Audit
from pipeline.tenants.quota_store import OwnQuotas, own_quotas, set_own_quotas
from pipeline.tenants.tenant_store import TENANT_ID, Tenant, Tenants, tenants_page

router = APIRouter(tags=["admin"], dependencies=[Depends(require_operator)])

Id = Annotated[str, Path(description="The tenant, as it stands in its keys.")]


@router.post(
    "/v1/tenants",
    status_code=201,
    responses=answers(201, shapes.TenantView, "The tenant; it has no key yet.", *keys.BODY_PROBLEMS),
    openapi_extra=json_body(shapes.TenantRequest, {"tenant_id": "acme", "name": "Acme Ltd."}),
    summary="Make a tenant",
)
async def make(request: Request) -> Response:
    """An id that is taken is a 409. One that was erased may be taken anew, once nothing of it is left."""
    gateway = gateway_of(request)
    asked = await read_shape(request, None, shapes.TenantRequest, limit=keys.MAX_BODY_BYTES)
    tenant_id = TenantId(asked.tenant_id)

    def make_it() -> Tenant | None:
        with unit_of_work(gateway.resources.mysql) as work:
            tenants = Tenants(work.connection, tenant_id)
            if not tenants.create(asked.name):
                return None
            Audit(work.connection, tenant_id).wrote("tenant_create", ids=[tenant_id])
            if asked.quotas is not None:
                set_own_quotas(work.connection, tenant_id, asked.quotas.own())
            return tenants.find()

    made = await gateway.run(make_it)
    if made is None:
        raise Problem(409, "tenant_exists", f"There is a tenant {tenant_id!r} already.")
    return json_response(shapes.tenant(made), status=201, headers={"Location": f"/v1/tenants/{tenant_id}"})


@router.get(
    "/v1/tenants",
    responses=answers(200, shapes.TenantPage, "One page of tenants, by id.", 401, 403, 422, 503),
    summary="List tenants",
)
async def list_tenants(request: Request, limit: Limit = 50, cursor: Cursor = None) -> Response:
    """All of the installation's, disabled ones included."""
    gateway = gateway_of(request)
    position = cursors.decode(cursor, "tenants", str)
    if position is not None and not TENANT_ID.fullmatch(position[0]):
        raise cursors.foreign()

    def read() -> list[Tenant]:
        with unit_of_work(gateway.resources.mysql) as work:
            return tenants_page(work.connection, after=None if position is None else position[0], limit=limit + 1)

    found, following = cursors.page(
        await gateway.run(read), limit, lambda last: cursors.encode("tenants", last.tenant_id)
    )
    return page_response([shapes.tenant(one) for one in found], following)


@router.get(
    "/v1/tenants/{tenant_id}",
    responses=answers(200, shapes.TenantView, "The tenant.", *keys.PROBLEMS),
    summary="Look at a tenant",
)
async def look(request: Request, tenant_id: Id) -> Response:
    """Its name, and whether its keys work."""
    gateway = gateway_of(request)
    return json_response(shapes.tenant(await gateway.run(_found, gateway, tenant_id)))


@router.get(
    "/v1/tenants/{tenant_id}/quotas",
    responses=answers(200, shapes.OwnQuotasView, "The tenant's own quotas.", *keys.PROBLEMS),
    summary="Look at a tenant's own quotas",
)
async def look_at_quotas(request: Request, tenant_id: Id) -> Response:
    """Null where the installation's setting holds. `GET /v1/quotas` shows the tenant itself what holds, and its use."""
    gateway = gateway_of(request)

    def read() -> OwnQuotas:
        known = _found(gateway, tenant_id).tenant_id
        with unit_of_work(gateway.resources.mysql) as work:
            return own_quotas(work.connection, known)

    return json_response(shapes.own_quotas(await gateway.run(read)))


@router.put(
    "/v1/tenants/{tenant_id}/quotas",
    responses=answers(
        200,
        shapes.OwnQuotasView,
        "The tenant's own quotas, as they are now.",
        *(400, 401, 403, 404, 413, 415, 422, 503),
    ),
    openapi_extra=json_body(shapes.QuotasIn, {"documents": 50_000, "requests_per_minute": 6000}),
    summary="Set a tenant's own quotas",
)
async def set_quotas(request: Request, tenant_id: Id) -> Response:
    """Replaces all of them: a quota that is left out follows the installation's setting again. Gateways count requests
    by the new number within 30 seconds; the others hold at once."""
    gateway = gateway_of(request)
    asked = (await read_shape(request, None, shapes.QuotasIn, limit=keys.MAX_BODY_BYTES)).own()

    def change() -> None:
        known = _found(gateway, tenant_id).tenant_id
        with unit_of_work(gateway.resources.mysql) as work:
            set_own_quotas(work.connection, known, asked)
            Audit(work.connection, known).wrote("tenant_quotas", ids=[known], **asdict(asked))

    await gateway.run(change)
    return json_response(shapes.own_quotas(asked))


@router.post(
    "/v1/tenants/{tenant_id}/disable",
    responses=answers(200, shapes.TenantView, "The tenant; no key of it works.", *keys.PROBLEMS),
    summary="Shut a tenant out",
)
async def disable(request: Request, tenant_id: Id) -> Response:
    """Every gateway refuses its keys within three seconds. Nothing of it is deleted, and what was handed in before is
    still worked on. Doing it again changes nothing."""
    return await _admit(request, tenant_id, admitted=False)


@router.post(
    "/v1/tenants/{tenant_id}/enable",
    responses=answers(200, shapes.TenantView, "The tenant; its keys work.", *keys.PROBLEMS),
    summary="Let a tenant in again",
)
async def enable(request: Request, tenant_id: Id) -> Response:
    """Keys that were revoked or have expired meanwhile stay so. A tenant that is being erased stays shut out."""
    return await _admit(request, tenant_id, admitted=True)


@router.post(
    "/v1/tenants/{tenant_id}/keys",
    status_code=201,
    responses=answers(201, shapes.KeyWithSecret, "The key and its secret.", 404, *keys.BODY_PROBLEMS),
    openapi_extra=json_body(shapes.KeyRequest, {**keys.EXAMPLE, "scopes": ["read", "write", "admin"]}),
    summary="Make an API key for a tenant",
)
async def make_key(request: Request, tenant_id: Id) -> Response:
    """With the scope `admin`, the tenant can make the others itself."""
    gateway = gateway_of(request)
    asked = await read_shape(request, None, shapes.KeyRequest, limit=keys.MAX_BODY_BYTES)
    if asked.tenant_id not in (None, tenant_id):
        raise invalid([{"pointer": "/tenant_id", "detail": "is not the tenant in the path"}])
    tenant = await gateway.run(_found, gateway, tenant_id)
    return await keys.issue_key(gateway, tenant.tenant_id, asked, under=f"/v1/tenants/{tenant_id}/keys")


@router.get(
    "/v1/tenants/{tenant_id}/keys",
    responses=answers(200, shapes.KeyPage, "One page of keys, the newest first.", *keys.PROBLEMS),
    summary="List a tenant's API keys",
)
async def list_keys(request: Request, tenant_id: Id, limit: Limit = 50, cursor: Cursor = None) -> Response:
    """Without their secrets, and those that have ended included."""
    gateway = gateway_of(request)
    tenant = await gateway.run(_found, gateway, tenant_id)
    return await keys.keys_page(gateway, tenant.tenant_id, limit, cursor)


@router.get(
    "/v1/tenants/{tenant_id}/keys/{key_id}",
    responses=answers(200, shapes.Key, "The key, without its secret.", *keys.PROBLEMS),
    summary="Look at an API key of a tenant",
)
async def look_at_key(request: Request, tenant_id: Id, key_id: str) -> Response:
    """When it was made and used, and when it ends."""
    gateway = gateway_of(request)
    tenant = await gateway.run(_found, gateway, tenant_id)
    return json_response(shapes.key(await gateway.run(keys.key_of, gateway, tenant.tenant_id, key_id)))


@router.post(
    "/v1/tenants/{tenant_id}/keys/{key_id}/rotate",
    status_code=201,
    responses=answers(201, shapes.KeyWithSecret, "The new key and its secret.", 404, *keys.BODY_PROBLEMS),
    openapi_extra=json_body(shapes.KeyRotateRequest, {"overlap_seconds": 3600}),
    summary="Rotate an API key of a tenant",
)
async def rotate_key(request: Request, tenant_id: Id, key_id: str) -> Response:
    """As the tenant can do itself."""
    gateway = gateway_of(request)
    asked = await read_shape(request, None, shapes.KeyRotateRequest, limit=keys.MAX_BODY_BYTES)
    tenant = await gateway.run(_found, gateway, tenant_id)
    return await keys.rotate_key(gateway, tenant.tenant_id, key_id, asked, under=f"/v1/tenants/{tenant_id}/keys")


@router.delete(
    "/v1/tenants/{tenant_id}/keys/{key_id}",
    status_code=204,
    responses=answers(204, None, "The key has ended.", *keys.PROBLEMS),
    summary="Revoke an API key of a tenant",
)
async def revoke_key(request: Request, tenant_id: Id, key_id: str) -> Response:
    """Every gateway refuses it within three seconds. Revoking again changes nothing."""
    gateway = gateway_of(request)
    tenant = await gateway.run(_found, gateway, tenant_id)
    return await keys.revoke_key(gateway, tenant.tenant_id, key_id)


async def _admit(request: Request, tenant_id: str, *, admitted: bool) -> Response:
    gateway = gateway_of(request)

    def change() -> Tenant:
        known = _found(gateway, tenant_id).tenant_id
        with unit_of_work(gateway.resources.mysql) as work:
            Tenants(work.connection, known).admit(admitted)
        return _found(gateway, tenant_id)

    return json_response(shapes.tenant(await gateway.run(change)))


def _found(gateway: Gateway, tenant_id: str) -> Tenant:
    """The tenant. Blocking. Raises Problem 404."""
    found = None
    if TENANT_ID.fullmatch(tenant_id):
        with unit_of_work(gateway.resources.mysql) as work:
            found = Tenants(work.connection, TenantId(tenant_id)).find()
    if found is None:
        raise Problem(404, "tenant_not_found", f"There is no tenant {tenant_id[:63]!r}.")
    return found
