"""Tenants of the installation and their keys, for the operator."""

from typing import Annotated, ClassVar

from fastapi import APIRouter, Depends, Path, Response
from pydantic import AfterValidator, Field

from api_gateway.gateway import Gateway
from api_gateway.http import cursors
from api_gateway.http.auth import require_operator
from api_gateway.http.fields import Wire
from api_gateway.http.problems import Problem, invalid, quoted
from api_gateway.http.responses import json_response
from api_gateway.http.route_descriptions import Cursor, Limit, route
from api_gateway.resources import keys
from api_gateway.resources.keys import (
    KeyId,
    KeyPage,
    KeyRequest,
    KeyRotateRequest,
    key_json,
)
from api_gateway.resources.route_parts import CurrentGateway, OperatorJson, Page, existing, send_page
from api_gateway.resources.usage import send_quotas
from chordwise.contract.tenant import Key, KeyWithSecret, OwnQuotasView, QuotaUse, TenantErased, TenantView
from pipeline.administration import manage_tenants
from pipeline.maintenance.erase import erase_tenant, refuse_unfinished
from pipeline.records import TenantId
from pipeline.tenants.accounts import RESERVED, TENANT_ID


def _not_reserved(tenant_id: str) -> str:
    if tenant_id in RESERVED:
        raise ValueError("is a name of the installation itself")
    return tenant_id


QuotaNumber = Annotated[int, Field(ge=0, le=10**15)]


class QuotasIn(Wire):
    """A tenant's own quotas. An omitted quota or null is the installation's setting, 0 is no limit."""

    example: ClassVar = {"documents": 50_000, "requests_per_minute": 6000}
    most_bytes: ClassVar = 16 * 1024

    documents: QuotaNumber | None = None
    chunks: QuotaNumber | None = None
    queued: QuotaNumber | None = None
    tokens: QuotaNumber | None = None
    requests_per_minute: Annotated[int, Field(ge=0, le=10_000_000)] | None = None

    def own(self) -> OwnQuotasView:
        """Return the quotas in the form in which they are stored."""
        return OwnQuotasView(**self.model_dump())


class TenantRequest(Wire):
    """A new tenant. The id is part of each of its keys: lower-case letters, digits and hyphens. `chordwise` is reserved
    for the installation."""

    example: ClassVar = {"tenant_id": "acme", "name": "Acme Ltd."}
    most_bytes: ClassVar = 16 * 1024

    tenant_id: Annotated[str, Field(pattern=f"^{TENANT_ID.pattern}$"), AfterValidator(_not_reserved)]
    name: Annotated[str, Field(min_length=1, max_length=255)]
    quotas: QuotasIn | None = None


class TenantPage(Page[TenantView]):
    """One page of tenants, by id."""


router = APIRouter(tags=["admin"], dependencies=[Depends(require_operator)])


def _parse_id(tenant_id: str) -> TenantId:
    if not TENANT_ID.fullmatch(tenant_id):
        raise _not_found(tenant_id)
    return TenantId(tenant_id)


def _not_found(tenant_id: str) -> Problem:
    return Problem(404, "tenant_not_found", f"There is no tenant {quoted(tenant_id)}.")


Id = Annotated[TenantId, AfterValidator(_parse_id), Path(description="The tenant, as it stands in its keys.")]


@router.post("/v1/tenants", **route("Make a tenant", TenantView, "The tenant; it has no key yet.", 409, status=201))
async def make(gateway: CurrentGateway, body: OperatorJson[TenantRequest]) -> Response:
    """Create a tenant. An id that is taken is a 409. So is that of an erased tenant, until nothing of it is left in any
    store and nothing can be written any more, some 40 seconds later: `Retry-After` says when to repeat the request."""
    tenant_id = TenantId(body.tenant_id)
    quotas = None if body.quotas is None else body.quotas.own()

    def create() -> TenantView | None:
        refuse_unfinished(tenant_id, gateway.resources)
        return manage_tenants.create_tenant(tenant_id, body.name, quotas, gateway.resources)

    created = await gateway.run(create)
    tenant = existing(created, Problem(409, "tenant_exists", f"There is a tenant {tenant_id!r} already."))
    return json_response(tenant, status=201, headers={"Location": f"/v1/tenants/{tenant_id}"})


@router.get("/v1/tenants", **route("List tenants", TenantPage, "One page of tenants, by id."))
async def list_tenants(gateway: CurrentGateway, limit: Limit = 50, cursor: Cursor = None) -> Response:
    """List all tenants of the installation, including disabled ones."""
    position = cursors.decode(cursor, "tenants", str)
    if position is not None and not TENANT_ID.fullmatch(position[0]):
        raise cursors.foreign()
    after = None if position is None else position[0]
    rows = await gateway.run(manage_tenants.list_tenants, after, limit + 1, gateway.resources)
    return send_page(rows, limit, "tenants", lambda tenant: (tenant.tenant_id,))


@router.get("/v1/tenants/{tenant_id}", **route("Get a tenant", TenantView, "The tenant.", 404))
async def get_tenant(gateway: CurrentGateway, tenant_id: Id) -> Response:
    """Return a tenant's name, and whether its keys work."""
    return json_response(await gateway.run(_tenant, gateway, tenant_id))


@router.get(
    "/v1/tenants/{tenant_id}/quotas",
    **route("Get a tenant's own quotas", OwnQuotasView, "The tenant's own quotas.", 404),
)
async def get_quotas(gateway: CurrentGateway, tenant_id: Id) -> Response:
    """Return a tenant's own quotas; null where the installation's setting applies. `GET /v1/quotas` shows the tenant
    the effective ones, and its use."""

    def read() -> OwnQuotasView:
        _tenant(gateway, tenant_id)
        return manage_tenants.own_quotas(tenant_id, gateway.resources)

    return json_response(await gateway.run(read))


@router.get(
    "/v1/tenants/{tenant_id}/quotas/use",
    **route("Get a tenant's use of its quotas", QuotaUse, "Each quota with its effective limit and its use.", 404),
)
async def get_use(gateway: CurrentGateway, tenant_id: Id) -> Response:
    """Return the effective quotas of a tenant and its use, as the tenant sees them at `GET /v1/quotas`."""
    await gateway.run(_tenant, gateway, tenant_id)
    return await send_quotas(gateway, tenant_id)


@router.put(
    "/v1/tenants/{tenant_id}/quotas",
    **route("Set a tenant's own quotas", OwnQuotasView, "The tenant's own quotas, as they are now.", 404),
)
async def set_quotas(gateway: CurrentGateway, tenant_id: Id, body: OperatorJson[QuotasIn]) -> Response:
    """Replace all quotas of a tenant: an omitted one follows the installation's setting again. Gateways apply a new
    request rate within 30 seconds, and the others at once."""
    quotas = body.own()

    def write() -> None:
        _tenant(gateway, tenant_id)
        manage_tenants.set_own_quotas(tenant_id, quotas, gateway.resources)

    await gateway.run(write)
    return json_response(quotas)


@router.post(
    "/v1/tenants/{tenant_id}/disable", **route("Disable a tenant", TenantView, "The tenant; no key of it works.", 404)
)
async def disable(gateway: CurrentGateway, tenant_id: Id) -> Response:
    """Disable a tenant. Every gateway refuses its keys within three seconds. No data is deleted, and accepted documents
    are still ingested. Disabling again changes nothing."""
    return await _admit(gateway, tenant_id, admitted=False)


@router.post(
    "/v1/tenants/{tenant_id}/enable", **route("Enable a tenant", TenantView, "The tenant; its keys work.", 404)
)
async def enable(gateway: CurrentGateway, tenant_id: Id) -> Response:
    """Enable a tenant. Keys that were revoked or have expired meanwhile stay so. A tenant that is being erased stays
    disabled."""
    return await _admit(gateway, tenant_id, admitted=True)


@router.post(
    "/v1/tenants/{tenant_id}/keys",
    **route("Create an API key for a tenant", KeyWithSecret, "The key and its secret.", 404, 409, status=201),
)
async def make_key(gateway: CurrentGateway, tenant_id: Id, body: OperatorJson[KeyRequest]) -> Response:
    """Create a key. With the scope `admin`, the tenant can create further keys itself."""
    if body.tenant_id not in (None, tenant_id):
        raise invalid([{"pointer": "/tenant_id", "detail": "is not the tenant in the path"}])
    await gateway.run(_tenant, gateway, tenant_id)
    return await keys.issue_key(gateway, tenant_id, body, under=f"/v1/tenants/{tenant_id}/keys")


@router.get(
    "/v1/tenants/{tenant_id}/keys",
    **route("List a tenant's API keys", KeyPage, "One page of keys, the newest first.", 404),
)
async def list_keys(gateway: CurrentGateway, tenant_id: Id, limit: Limit = 50, cursor: Cursor = None) -> Response:
    """List a tenant's keys without their secrets, including those that have ended."""
    await gateway.run(_tenant, gateway, tenant_id)
    return await keys.keys_page(gateway, tenant_id, limit, cursor)


@router.get(
    "/v1/tenants/{tenant_id}/keys/{key_id}",
    **route("Get an API key of a tenant", Key, "The key, without its secret.", 404),
)
async def get_key(gateway: CurrentGateway, tenant_id: Id, key_id: KeyId) -> Response:
    """Return a key with the times of its creation, last use and end."""
    await gateway.run(_tenant, gateway, tenant_id)
    return json_response(key_json(await gateway.run(keys.key_of, gateway, tenant_id, key_id)))


@router.post(
    "/v1/tenants/{tenant_id}/keys/{key_id}/rotate",
    **route("Rotate an API key of a tenant", KeyWithSecret, "The new key and its secret.", 404, 409, status=201),
)
async def rotate_key(
    gateway: CurrentGateway,
    tenant_id: Id,
    key_id: KeyId,
    body: OperatorJson[KeyRotateRequest],
) -> Response:
    """Rotate a key, as the tenant can do itself."""
    await gateway.run(_tenant, gateway, tenant_id)
    return await keys.rotate_key(gateway, tenant_id, key_id, body, under=f"/v1/tenants/{tenant_id}/keys")


@router.delete(
    "/v1/tenants/{tenant_id}/keys/{key_id}", **route("Revoke an API key of a tenant", None, "The key has ended.", 404)
)
async def revoke_key(gateway: CurrentGateway, tenant_id: Id, key_id: KeyId) -> Response:
    """Revoke a key. Every gateway refuses it within three seconds."""
    await gateway.run(_tenant, gateway, tenant_id)
    return await keys.revoke_key(gateway, tenant_id, key_id)


async def _admit(gateway: Gateway, tenant_id: TenantId, *, admitted: bool) -> Response:

    def change() -> TenantView:
        _tenant(gateway, tenant_id)
        manage_tenants.admit_tenant(tenant_id, gateway.resources, admitted)
        return _tenant(gateway, tenant_id)

    return json_response(await gateway.run(change))


def _tenant(gateway: Gateway, tenant_id: TenantId) -> TenantView:
    """Return the tenant. Blocking. Raises Problem 404."""
    return existing(manage_tenants.find_tenant(tenant_id, gateway.resources), _not_found(tenant_id))


@router.delete(
    "/v1/tenants/{tenant_id}",
    **route("Erase a tenant", TenantErased, "The deleted rows by store and table, and a recount.", 404),
)
async def erase(gateway: CurrentGateway, tenant_id: Id) -> Response:
    """Delete all data of a tenant, in every store; for operators only. Its keys are refused and nothing is written for it
    from the start. A repeated request continues and returns the totals so far. `remaining` is empty once nothing is left.
    The id is free some 40 seconds after the request, when no query or upload of the tenant can be under way."""

    erased = await gateway.run_heavy(lambda: erase_tenant(tenant_id, gateway.resources))
    return json_response(existing(erased, _not_found(tenant_id)))
