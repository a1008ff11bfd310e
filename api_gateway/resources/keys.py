"""The tenant's own API keys: list, create, rotate, revoke; and the parts shared with the operator's routes."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, ClassVar, Literal

from fastapi import APIRouter, Response
from pydantic import AfterValidator, Field

from api_gateway.gateway import Gateway
from api_gateway.http import cursors
from api_gateway.http.caller import Admin, Caller, Reader
from api_gateway.http.fields import Label, Moment, Wire, shown
from api_gateway.http.problems import Problem, invalid
from api_gateway.http.responses import json_response
from api_gateway.http.route_descriptions import Cursor, Limit, route
from api_gateway.resources.route_parts import Json, Page, deleted, existing, send_page
from chordwise.contract.tenant import CurrentKey, Key, KeyWithSecret
from pipeline.administration import manage_tenants
from pipeline.errors import Rejected
from pipeline.filters.readers import EVERY_DOCUMENT, LONGEST_PRINCIPAL, MOST_PRINCIPALS
from pipeline.records import TenantId
from pipeline.tenants.accounts import OPERATOR, ApiKey, TooManyKeys

PrincipalOfKey = Annotated[str, Field(min_length=1, max_length=LONGEST_PRINCIPAL)]
LONGEST_OVERLAP_S = 30 * 86_400


ScopeName = Literal["read", "write", "admin", "impersonate"]


def _future(moment: datetime) -> datetime:
    if moment <= datetime.now(UTC):
        raise ValueError("lies in the past")
    return moment


class KeyRequest(Wire):
    """A new key. Without `expires_at` it works until it is revoked. `principals`: those of its callers; `*` sees every
    document, and a key without any sees the public ones. `signs_tokens`: also make a secret, with which its owner signs
    tokens of principals; with `jwks_url` the private keys sign them whose public keys are at that address."""

    example: ClassVar = {"name": "importer", "scopes": ["read", "write"], "expires_at": "2030-01-01T00:00:00Z"}
    most_bytes: ClassVar = 16 * 1024

    name: Label
    scopes: Annotated[list[ScopeName], Field(min_length=1, max_length=4)]
    principals: Annotated[list[PrincipalOfKey], Field(max_length=MOST_PRINCIPALS)] = Field(default_factory=list)
    signs_tokens: bool = False
    jwks_url: Annotated[str, Field(min_length=1, max_length=2048)] | None = None
    expires_at: Annotated[Moment, AfterValidator(_future)] | None = None
    tenant_id: str | None = None


class KeyRotateRequest(Wire):
    """`overlap_seconds`: how long the old key works beside the new one; a day by default."""

    example: ClassVar = {"overlap_seconds": 3600}
    most_bytes: ClassVar = 16 * 1024

    overlap_seconds: Annotated[int, Field(ge=0, le=LONGEST_OVERLAP_S)] = 86_400
    tenant_id: str | None = None


class KeyPage(Page[Key]):
    """One page of keys, the newest first."""


def key_json(stored: ApiKey) -> dict[str, Any]:
    """Return a key as it is sent; with its secrets only when it was just made."""
    sent = shown(Key, stored, scopes=list(stored.scopes), state=stored.state(datetime.now(UTC)))
    secrets = {"api_key": stored.secret, "token_secret": stored.token_secret}
    return {**sent, **secrets} if stored.secret else sent


router = APIRouter(tags=["keys"])

_KEY_ID = re.compile(r"[0-9a-f]{16}")


def _parse_key_id(key_id: str) -> str:
    if not _KEY_ID.fullmatch(key_id):
        raise _not_found()
    return key_id


def _not_found() -> Problem:
    return Problem(404, "key_not_found", "There is no such key.")


KeyId = Annotated[str, AfterValidator(_parse_key_id)]


@router.post("/v1/keys", **route("Create an API key", KeyWithSecret, "The key and its secret.", 409, status=201))
async def make(caller: Admin, body: Json[KeyRequest]) -> Response:
    """Create a key. Only this answer shows the key itself: the database holds its hash."""
    return await issue_key(caller.gateway, caller.tenant_id, body, under="/v1/keys")


@router.get("/v1/keys", **route("List API keys", KeyPage, "One page of keys, the newest first."))
async def list_keys(caller: Admin, limit: Limit = 50, cursor: Cursor = None) -> Response:
    """List the keys without their secrets, including those that have ended."""
    return await keys_page(caller.gateway, caller.tenant_id, limit, cursor)


@router.get("/v1/keys/current", **route("Get the key in use", CurrentKey, "The key of this request."))
async def current(caller: Reader) -> Response:
    """Return the tenant and the scopes of this key, and the principals of this request."""
    principals = (EVERY_DOCUMENT,) if caller.reads_as is None else tuple(sorted(caller.reads_as))
    principal = caller.principal
    sent = shown(CurrentKey, principal, name=principal.key_name, scopes=principal.actor.scopes, principals=principals)
    return json_response(sent)


@router.get("/v1/keys/{key_id}", **route("Get an API key", Key, "The key, without its secret.", 404))
async def get_key(caller: Admin, key_id: KeyId) -> Response:
    """Return a key with the times of its creation, last use and end."""
    return json_response(key_json(await caller.gateway.run(key_of, caller.gateway, caller.tenant_id, key_id)))


@router.post(
    "/v1/keys/{key_id}/rotate",
    **route("Rotate an API key", KeyWithSecret, "The new key and its secret.", 404, 409, status=201),
)
async def rotate(caller: Admin, key_id: KeyId, body: Json[KeyRotateRequest]) -> Response:
    """Create a key of the same name and scopes; the old one works until the end of the overlap, so that no request
    fails. A key that has ended, or was rotated before, is a 409."""
    await caller.gateway.run(_refuse_operators, caller, key_id)
    return await rotate_key(caller.gateway, caller.tenant_id, key_id, body, under="/v1/keys")


@router.delete("/v1/keys/{key_id}", **route("Revoke an API key", None, "The key has ended.", 404))
async def revoke(caller: Admin, key_id: KeyId) -> Response:
    """Revoke a key. Every gateway refuses it within three seconds. Revoking again changes nothing."""
    await caller.gateway.run(_refuse_operators, caller, key_id)
    return await revoke_key(caller.gateway, caller.tenant_id, key_id)


async def issue_key(gateway: Gateway, tenant_id: TenantId, sent: KeyRequest, *, under: str) -> Response:
    """Create a key for an existing tenant. Raises Problem 409 or 422, and Unavailable."""
    if sent.signs_tokens and sent.jwks_url is not None:
        raise invalid(
            [{"pointer": "/jwks_url", "detail": "cannot be combined with signs_tokens: one of them verifies tokens"}]
        )

    def issue() -> ApiKey:
        return manage_tenants.issue_key(
            tenant_id,
            gateway.resources,
            sent.name,
            tuple(sent.scopes),
            expires_at=sent.expires_at,
            principals=tuple(dict.fromkeys(sent.principals)),
            signs_tokens=sent.signs_tokens,
            jwks_url=sent.jwks_url,
        )

    return await _send_issued(gateway, issue, under)


async def keys_page(gateway: Gateway, tenant_id: TenantId, limit: int, cursor: str | None) -> Response:
    """Return one page of a tenant's keys. Raises Problem 422."""
    after = cursors.decode(cursor, "keys", datetime, str)
    if after is not None and not _KEY_ID.fullmatch(after[1]):
        raise cursors.foreign()

    def read() -> list[ApiKey]:
        return manage_tenants.list_keys(tenant_id, gateway.resources, after=after, limit=limit + 1)

    rows = await gateway.run(read)
    return send_page(rows, limit, "keys", lambda key: (key.created_at, key.key_id), key_json)


async def rotate_key(
    gateway: Gateway, tenant_id: TenantId, key_id: str, sent: KeyRotateRequest, *, under: str
) -> Response:
    """Rotate a key. Raises Problem 404 or 409."""

    def rotate() -> ApiKey:
        key_of(gateway, tenant_id, key_id)
        overlap = timedelta(seconds=sent.overlap_seconds)
        issued = manage_tenants.rotate_key(tenant_id, gateway.resources, key_id, overlap=overlap)
        return existing(issued, Problem(409, "key_not_rotatable", "The key has ended, or it was rotated before."))

    return await _send_issued(gateway, rotate, under)


async def revoke_key(gateway: Gateway, tenant_id: TenantId, key_id: str) -> Response:
    """Revoke a key. Raises Problem 404."""

    def revoke() -> bool:
        return manage_tenants.revoke_key(tenant_id, gateway.resources, key_id)

    return deleted(await gateway.run(revoke), _not_found())


def key_of(gateway: Gateway, tenant_id: TenantId, key_id: str) -> ApiKey:
    """Return the key. Blocking. Raises Problem 404."""
    return existing(manage_tenants.find_key(tenant_id, gateway.resources, key_id), _not_found())


def _refuse_operators(caller: Caller, key_id: str) -> None:
    """Raise Problem(403) or Problem(404) for an operator's key: an administrator of a tenant must not become an
    operator by rotating such a key, nor lock an operator out."""
    if OPERATOR in key_of(caller.gateway, caller.tenant_id, key_id).scopes and OPERATOR not in caller.principal.scopes:
        raise Problem(403, "insufficient_scope", "An operator's key can be changed with an operator's key only.")


async def _send_issued(gateway: Gateway, issue: Callable[[], ApiKey], under: str) -> Response:
    try:
        issued = await gateway.run_calling(issue)
    except Rejected as error:
        raise invalid([{"pointer": "/jwks_url", "detail": str(error)}]) from None
    except TooManyKeys as error:
        raise Problem(409, "too_many_keys", str(error)) from None
    location = {"Location": f"{under}/{issued.key_id}"}
    return json_response(key_json(issued), status=201, headers=location)
