"""API keys of the asking tenant: listed, made, rotated, revoked. Also what the operator's routes share with these."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta

from fastapi import APIRouter, Request
from starlette.responses import Response

from api_gateway.gateway import Gateway, gateway_of
from api_gateway.http import cursors
from api_gateway.http.auth import Admin, Reader
from api_gateway.http.descriptions import Cursor, Limit, answers, json_body
from api_gateway.http.json_bodies import read_shape
from api_gateway.http.problems import Problem
from api_gateway.http.responses import json_response, page_response
from api_gateway.resources import tenant_shapes as shapes
from pipeline.database.unit_of_work import unit_of_work
from pipeline.records import TenantId
from pipeline.tenants.api_key_store import ApiKey, ApiKeys, IssuedKey, TooManyKeys
from pipeline.tenants.tenant_store import OPERATOR, Principal

router = APIRouter(tags=["keys"])

MAX_BODY_BYTES = 16 * 1024
PROBLEMS = (401, 403, 404, 422, 503)
BODY_PROBLEMS = (400, 401, 403, 409, 413, 415, 422, 503)
EXAMPLE = {"name": "importer", "scopes": ["read", "write"], "expires_at": "2030-01-01T00:00:00Z"}

_KEY_ID = re.compile(r"[0-9a-f]{16}")


@router.post(
    "/v1/keys",
    status_code=201,
    responses=answers(201, shapes.KeyWithSecret, "The key and its secret.", *BODY_PROBLEMS),
    openapi_extra=json_body(shapes.KeyRequest, EXAMPLE),
    summary="Make an API key",
)
async def make(request: Request, principal: Admin) -> Response:
    """The answer is the only place where the key itself is ever shown: what is stored is its hash."""
    asked = await read_shape(request, principal, shapes.KeyRequest, limit=MAX_BODY_BYTES)
    return await issue_key(gateway_of(request), principal.tenant_id, asked, under="/v1/keys")


@router.get(
    "/v1/keys",
    responses=answers(200, shapes.KeyPage, "One page of keys, the newest first.", 401, 403, 422, 503),
    summary="List API keys",
)
async def list_keys(request: Request, principal: Admin, limit: Limit = 50, cursor: Cursor = None) -> Response:
    """Without their secrets, and those that have ended included."""
    return await keys_page(gateway_of(request), principal.tenant_id, limit, cursor)


@router.get(
    "/v1/keys/current",
    responses=answers(200, shapes.CurrentKey, "The key of this request.", 401, 403, 503),
    summary="Look at the key in use",
)
async def current(principal: Reader) -> Response:
    """Whose it is and what it may do."""
    scopes = list(principal.actor.scopes)
    said = {"key_id": principal.key_id, "name": principal.key_name, "scopes": scopes}
    return json_response({"tenant_id": principal.tenant_id, **said})


@router.get(
    "/v1/keys/{key_id}",
    responses=answers(200, shapes.Key, "The key, without its secret.", *PROBLEMS),
    summary="Look at an API key",
)
async def look(request: Request, principal: Admin, key_id: str) -> Response:
    """When it was made and used, and when it ends."""
    found = await gateway_of(request).run(key_of, gateway_of(request), principal.tenant_id, key_id)
    return json_response(shapes.key(found))


@router.post(
    "/v1/keys/{key_id}/rotate",
    status_code=201,
    responses=answers(201, shapes.KeyWithSecret, "The new key and its secret.", 404, *BODY_PROBLEMS),
    openapi_extra=json_body(shapes.KeyRotateRequest, {"overlap_seconds": 3600}),
    summary="Rotate an API key",
)
async def rotate(request: Request, principal: Admin, key_id: str) -> Response:
    """A new key of the same name and scopes; the old one goes on for the overlap, so that no request fails meanwhile.
    One that has ended, or was rotated before, is a 409."""
    gateway = gateway_of(request)
    asked = await read_shape(request, principal, shapes.KeyRotateRequest, limit=MAX_BODY_BYTES)
    await gateway.run(_refuse_operators, gateway, principal, key_id)
    return await rotate_key(gateway, principal.tenant_id, key_id, asked, under="/v1/keys")


@router.delete(
    "/v1/keys/{key_id}",
    status_code=204,
    responses=answers(204, None, "The key has ended.", *PROBLEMS),
    summary="Revoke an API key",
)
async def revoke(request: Request, principal: Admin, key_id: str) -> Response:
    """Every gateway refuses it within three seconds. Revoking again changes nothing."""
    gateway = gateway_of(request)
    await gateway.run(_refuse_operators, gateway, principal, key_id)
    return await revoke_key(gateway, principal.tenant_id, key_id)


async def issue_key(gateway: Gateway, tenant_id: TenantId, asked: shapes.KeyRequest, *, under: str) -> Response:
    """Make a key for a tenant that is there. Raises Problem 409."""

    def make_it() -> IssuedKey:
        with unit_of_work(gateway.resources.mysql) as work:
            return ApiKeys(work.connection, tenant_id).issue(
                asked.name, tuple(asked.scopes), expires_at=asked.expires_at
            )

    return _made(await _within_bounds(gateway, make_it), under)


async def keys_page(gateway: Gateway, tenant_id: TenantId, limit: int, cursor: str | None) -> Response:
    """One page of a tenant's keys. Raises Problem 422."""
    after = _after(cursor)

    def read() -> list[ApiKey]:
        with unit_of_work(gateway.resources.mysql) as work:
            return ApiKeys(work.connection, tenant_id).page(after=after, limit=limit + 1)

    found, following = cursors.page(
        await gateway.run(read),
        limit,
        lambda last: cursors.encode("keys", last.created_at.isoformat(), last.key_id),
    )
    return page_response([shapes.key(one) for one in found], following)


async def rotate_key(
    gateway: Gateway, tenant_id: TenantId, key_id: str, asked: shapes.KeyRotateRequest, *, under: str
) -> Response:
    """Rotate a key. Raises Problem 404 or 409."""

    def rotate_it() -> IssuedKey:
        key_of(gateway, tenant_id, key_id)
        with unit_of_work(gateway.resources.mysql) as work:
            overlap = timedelta(seconds=asked.overlap_seconds)
            made = ApiKeys(work.connection, tenant_id).rotate(key_id, overlap=overlap)
        if made is None:
            raise Problem(409, "key_not_rotatable", "The key has ended, or it was rotated before.")
        return made

    return _made(await _within_bounds(gateway, rotate_it), under)


async def revoke_key(gateway: Gateway, tenant_id: TenantId, key_id: str) -> Response:
    """Revoke a key. Raises Problem 404."""

    def end() -> bool:
        with unit_of_work(gateway.resources.mysql) as work:
            return ApiKeys(work.connection, tenant_id).revoke(key_id)

    if not _KEY_ID.fullmatch(key_id) or not await gateway.run(end):
        raise _not_found()
    return Response(status_code=204)


def key_of(gateway: Gateway, tenant_id: TenantId, key_id: str) -> ApiKey:
    """The key. Blocking. Raises Problem 404."""
    found = None
    if _KEY_ID.fullmatch(key_id):
        with unit_of_work(gateway.resources.mysql) as work:
            found = ApiKeys(work.connection, tenant_id).one(key_id)
    if found is None:
        raise _not_found()
    return found


def _refuse_operators(gateway: Gateway, principal: Principal, key_id: str) -> None:
    """Whoever administers a tenant must neither become an operator by rotating an operator's key nor shut one out.
    Raises Problem 403 or 404."""
    if OPERATOR in key_of(gateway, principal.tenant_id, key_id).scopes and OPERATOR not in principal.scopes:
        raise Problem(403, "insufficient_scope", "An operator's key can be changed with an operator's key only.")


async def _within_bounds(gateway: Gateway, make_it: Callable[[], IssuedKey]) -> IssuedKey:
    try:
        return await gateway.run(make_it)
    except TooManyKeys as error:
        raise Problem(409, "too_many_keys", str(error)) from None


def _made(issued: IssuedKey, under: str) -> Response:
    location = {"Location": f"{under}/{issued.key.key_id}"}
    return json_response(shapes.key(issued.key, secret=issued.secret), status=201, headers=location)


def _after(cursor: str | None) -> tuple[datetime, str] | None:
    position = cursors.decode(cursor, "keys", str, str)
    if position is None:
        return None
    try:
        at = datetime.fromisoformat(position[0])
    except ValueError:
        raise cursors.foreign() from None
    if not _KEY_ID.fullmatch(position[1]):
        raise cursors.foreign()
    return at, position[1]


def _not_found() -> Problem:
    return Problem(404, "key_not_found", "There is no such key.")
