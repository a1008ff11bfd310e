"""Profiles: how queries are answered, by name and version."""

from __future__ import annotations

import re

from fastapi import APIRouter, Request
from starlette.responses import Response

from api_gateway.gateway import gateway_of
from api_gateway.http import responses as wire
from api_gateway.http.auth import Reader, Writer
from api_gateway.http.descriptions import answers, json_body
from api_gateway.http.json_bodies import read_shape
from api_gateway.http.problems import Problem, invalid
from api_gateway.resources.retrieval import profile_shapes as shapes
from api_gateway.resources.retrieval.query_body import flaws
from pipeline.administration import edit_profiles as flow
from pipeline.database.unit_of_work import reading, unit_of_work
from pipeline.query.plan import PlanFlaw
from pipeline.query.profile_store import Profiles
from pipeline.query.profiles import BUILT_IN, ProfileHead, ProfileVersion
from pipeline.retrieval.build_plan import plan_of
from pipeline.tenants.tenant_store import Principal

router = APIRouter(tags=["profiles"])

_MAX_BODY_BYTES = 64 * 1024
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_PROBLEMS = (401, 403, 404, 422, 503)
_BODY_PROBLEMS = (400, 401, 403, 413, 415, 422, 503)
_EXAMPLE = {"config": {"top_k": 5, "retrieve": {"fusion": {"strategy": "rrf"}}}, "note": "ranks only", "share": 0.1}


@router.get(
    "/v1/profiles",
    responses=answers(200, shapes.ProfileList, "Every profile, built-in ones included.", 401, 403, 503),
    summary="List profiles",
)
async def list_profiles(request: Request, principal: Reader) -> Response:
    """With the version that counts, and a trial if there is one."""
    gateway = gateway_of(request)

    def read() -> list[ProfileHead]:
        with reading(gateway.quick.mysql) as connection:
            return list(Profiles(connection, principal.tenant_id).heads().values())

    return wire.page_response([shapes.profile(head) for head in await gateway.run(read)], None)


@router.get(
    "/v1/profiles/{name}",
    responses=answers(200, shapes.ProfileDetail, "What it says, and the whole plan that this makes.", *_PROBLEMS),
    summary="Look at a profile",
)
async def look(request: Request, principal: Reader, name: str) -> Response:
    """`config` is what was stored; `plan` is what holds, the installation's settings included."""
    gateway = gateway_of(request)

    def read() -> ProfileHead | None:
        with reading(gateway.quick.mysql) as connection:
            return Profiles(connection, principal.tenant_id).heads().get(name)

    head = await gateway.run(read)
    if head is None:
        raise _not_found(name)
    return wire.json_response(shapes.profile_detail(head, plan_of(gateway.settings, head.active.config, {})))


@router.put(
    "/v1/profiles/{name}",
    status_code=201,
    responses=answers(201, shapes.ProfileDetail, "The version was added.", *_BODY_PROBLEMS),
    openapi_extra=json_body(shapes.ProfileRequest, _EXAMPLE),
    summary="Store a new version of a profile",
)
async def store(request: Request, principal: Writer, name: str) -> Response:
    """Checked as a whole before it is stored: a profile that cannot work is refused with its places. Versions are never
    changed; the ones before stay, to go back to. Queries have the new one within two seconds."""
    if not _NAME.fullmatch(name):
        raise invalid([{"pointer": "/name", "detail": "may hold 1 to 64 letters, digits, '.', '_' and '-'"}])
    gateway = gateway_of(request)
    asked = await read_shape(request, principal, shapes.ProfileRequest, limit=_MAX_BODY_BYTES)

    def write() -> ProfileHead | None:
        version, _ = flow.store_profile(
            principal.tenant_id,
            name,
            asked.config,
            note=asked.note,
            by=principal.actor.key_name,
            share=asked.share,
            use=gateway.resources,
        )
        with unit_of_work(gateway.resources.mysql) as work:
            profiles = Profiles(work.connection, principal.tenant_id)
            added = next(each for each in profiles.versions(name) if each.version == version)
            head = profiles.heads().get(name)
        return head if head is not None and asked.share >= 1 else ProfileHead(name=name, active=added)

    try:
        head = await gateway.run(write)
    except PlanFlaw as flaw:
        errors = [{**each, "pointer": f"/config{each['pointer']}"} for each in flaws(flaw)]
        raise invalid(errors) from None
    gateway.configurations.forget(principal.tenant_id)
    assert head is not None  # it was written just now
    body = shapes.profile_detail(head, plan_of(gateway.settings, head.active.config, {}))
    return wire.json_response(body, status=201, headers={"Location": f"/v1/profiles/{name}"})


@router.get(
    "/v1/profiles/{name}/versions",
    responses=answers(200, shapes.ProfileVersionList, "Every version.", *_PROBLEMS),
    summary="List the versions of a profile",
)
async def versions(request: Request, principal: Reader, name: str) -> Response:
    """The newest first; the built-in one, if there is one, is the first that was."""
    gateway = gateway_of(request)

    def read() -> list[ProfileVersion]:
        with reading(gateway.quick.mysql) as connection:
            return Profiles(connection, principal.tenant_id).versions(name)

    found = await gateway.run(read)
    if not found:
        raise _not_found(name)
    return wire.page_response([shapes.profile_version(each) for each in found], None)


@router.post(
    "/v1/profiles/{name}/activate",
    responses=answers(200, shapes.ProfileShape, "Queries have it within two seconds.", 404, *_BODY_PROBLEMS),
    openapi_extra=json_body(shapes.ActivateRequest, {"version": 3, "share": 0.1}),
    summary="Choose the version that counts, or try one",
)
async def activate(request: Request, principal: Writer, name: str) -> Response:
    """A share below 1 gives the version to that part of the sessions, always the same ones, beside the active version."""
    gateway = gateway_of(request)
    asked = await read_shape(request, principal, shapes.ActivateRequest, limit=_MAX_BODY_BYTES)
    done = await gateway.run(
        flow.activate, principal.tenant_id, name, asked.version, share=asked.share, use=gateway.resources
    )
    if not done:
        raise _not_found(f"{name} of version {asked.version}")
    return await _shown(request, principal, name)


@router.post(
    "/v1/profiles/{name}/rollback",
    responses=answers(200, shapes.ProfileShape, "The version from before counts again.", 409, *_PROBLEMS),
    summary="Go back to the version from before",
)
async def roll_back(request: Request, principal: Writer, name: str) -> Response:
    """Ends a trial, if there is one; else the version that was active before is active again."""
    gateway = gateway_of(request)
    version = await gateway.run(flow.roll_back, principal.tenant_id, name, gateway.resources)
    if version is None:
        if name not in (await gateway.configurations.of(principal.tenant_id)).profiles:
            raise _not_found(name)
        raise Problem(409, "nothing_to_roll_back", f"The profile {name} has no version from before.")
    return await _shown(request, principal, name)


@router.delete(
    "/v1/profiles/{name}",
    status_code=204,
    responses=answers(204, None, "Every stored version is gone.", *_PROBLEMS),
    summary="Remove a profile",
)
async def remove(request: Request, principal: Writer, name: str) -> Response:
    """A built-in profile is as it was built in again."""
    gateway = gateway_of(request)

    def forget() -> bool:
        with unit_of_work(gateway.resources.mysql) as work:
            return Profiles(work.connection, principal.tenant_id).remove(name)

    if not await gateway.run(forget):
        raise _not_found(name)
    gateway.configurations.forget(principal.tenant_id)
    return Response(status_code=204)


async def _shown(request: Request, principal: Principal, name: str) -> Response:
    gateway = gateway_of(request)
    gateway.configurations.forget(principal.tenant_id)
    configuration = await gateway.configurations.of(principal.tenant_id)
    return wire.json_response(shapes.profile(configuration.profiles[name]))


def _not_found(name: str) -> Problem:
    kind = "built in" if name in BUILT_IN else "stored"
    return Problem(404, "profile_not_found", f"There is no profile {name} {kind} for this tenant.")
