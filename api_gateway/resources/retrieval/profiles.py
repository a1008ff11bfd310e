"""Profiles: named and versioned settings of queries."""

import re
from typing import Annotated, Any, ClassVar

from fastapi import APIRouter, Response
from pydantic import Field

from api_gateway.http.caller import Caller, Reader, Writer
from api_gateway.http.fields import DescribedBy, Wire, shown
from api_gateway.http.problems import Problem, invalid
from api_gateway.http.responses import json_response, page_response
from api_gateway.http.route_descriptions import route
from api_gateway.resources.retrieval.query_body import flaws
from api_gateway.resources.route_parts import CompleteList, Json, deleted, existing
from chordwise.contract.profile import ProfileDetail, ProfileShape, ProfileVersionShape
from pipeline.administration import edit_profiles as flow
from pipeline.query.built_in_profiles import BUILT_IN, ProfileHead
from pipeline.query.plan import Plan, PlanFlaw, plan_as_json
from pipeline.retrieval.build_plan import plan_of
from pipeline.settings import Settings

Share = Annotated[float, Field(ge=0, le=1)]


class ProfileRequest(Wire):
    """A new version of a profile. `config` is a partial plan; the installation's settings fill the rest. `share`: 1
    applies it to every query, less tries it beside the active version, 0 only stores it."""

    example: ClassVar = {
        "config": {"top_k": 5, "retrieve": {"fusion": {"strategy": "rrf"}}},
        "note": "ranks only",
        "share": 0.1,
    }

    config: Annotated[dict[str, Any], DescribedBy(Plan)]
    note: Annotated[str, Field(max_length=255)] = ""
    share: Share = 1.0
    tenant_id: str | None = None


class ActivateRequest(Wire):
    """The version to activate, and its share of the queries; less than 1 is a trial beside the active one."""

    example: ClassVar = {"version": 3, "share": 0.1}

    version: Annotated[int, Field(ge=1)]
    share: Annotated[float, Field(gt=0, le=1)] = 1.0
    tenant_id: str | None = None


class ProfileList(CompleteList[ProfileShape]):
    """All profiles available to queries."""


class ProfileVersionList(CompleteList[ProfileVersionShape]):
    """Every version, newest first."""


def profile(head: ProfileHead) -> dict[str, Any]:
    """Return one profile in a list."""
    return shown(
        ProfileShape,
        head,
        config_version=head.active.version,
        built_in=head.name in BUILT_IN,
        note=head.active.note,
        trial_version=head.trial.version if head.trial else None,
    )


def profile_detail(head: ProfileHead, settings: Settings) -> dict[str, Any]:
    """Return one profile with its plan."""
    plan = plan_of(settings, head.active.config, {})
    return {**profile(head), "config": dict(head.active.config), "plan": plan_as_json(plan)}


router = APIRouter(tags=["profiles"])

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@router.get("/v1/profiles", **route("List profiles", ProfileList, "Every profile, built-in ones included."))
async def list_profiles(caller: Reader) -> Response:
    """List the profiles with their active version and their trial, if there is one."""
    heads = await caller.gateway.run(flow.list_profiles, caller.tenant_id, caller.gateway.quick)
    return page_response([profile(head) for head in heads.values()], None)


@router.get(
    "/v1/profiles/{name}", **route("Get a profile", ProfileDetail, "The profile, and the resulting complete plan.", 404)
)
async def get_profile(caller: Reader, name: str) -> Response:
    """Return a profile. `config` is the stored part; `plan` is complete, including the installation's settings."""
    heads = await caller.gateway.run(flow.list_profiles, caller.tenant_id, caller.gateway.quick)
    return json_response(profile_detail(existing(heads.get(name), _not_found(name)), caller.gateway.settings))


@router.put(
    "/v1/profiles/{name}",
    **route("Store a new version of a profile", ProfileDetail, "The version was added.", status=201),
)
async def store(caller: Writer, name: str, sent: Json[ProfileRequest]) -> Response:
    """Store a new version, after a complete check: an invalid profile is refused with the locations of its errors.
    Versions never change, and earlier ones stay for a rollback. Queries use the new one within two seconds."""
    if not _NAME.fullmatch(name):
        raise invalid([{"pointer": "/name", "detail": "may hold 1 to 64 letters, digits, '.', '_' and '-'"}])

    def write() -> ProfileHead:
        version, _ = flow.store_profile(
            caller.tenant_id,
            name,
            sent.config,
            note=sent.note,
            by=caller.principal.actor.key_name,
            share=sent.share,
            use=caller.use,
        )
        versions = flow.list_versions(caller.tenant_id, caller.use, name)
        added = next(stored for stored in versions if stored.version == version)
        head = flow.list_profiles(caller.tenant_id, caller.use).get(name)
        return head if head is not None and sent.share >= 1 else ProfileHead(name=name, active=added)

    try:
        head = await caller.gateway.run(write)
    except PlanFlaw as flaw:
        raise invalid(flaws(flaw, under="/config")) from None
    caller.gateway.configurations.forget(caller.tenant_id)
    body = profile_detail(head, caller.gateway.settings)
    return json_response(body, status=201, headers={"Location": f"/v1/profiles/{name}"})


@router.get(
    "/v1/profiles/{name}/versions", **route("List the versions of a profile", ProfileVersionList, "Every version.", 404)
)
async def versions(caller: Reader, name: str) -> Response:
    """List the versions, newest first; the built-in one, if there is one, is the oldest."""
    stored = await caller.gateway.run(flow.list_versions, caller.tenant_id, caller.gateway.quick, name)
    rows = [
        shown(ProfileVersionShape, row, config_version=row.version, config=dict(row.config))
        for row in existing(stored or None, _not_found(name))
    ]
    return page_response(rows, None)


@router.post(
    "/v1/profiles/{name}/activate",
    **route("Activate or try a version", ProfileShape, "Queries use it within two seconds.", 404),
)
async def activate(caller: Writer, name: str, body: Json[ActivateRequest]) -> Response:
    """Activate a version. A share below 1 applies it to that part of the sessions, always the same ones, beside the
    active version."""
    done = await caller.gateway.run(
        flow.activate, caller.tenant_id, name, body.version, share=body.share, use=caller.use
    )
    existing(done, _not_found(f"{name} of version {body.version}"))
    return await _current(caller, name)


@router.post(
    "/v1/profiles/{name}/rollback",
    **route("Roll back a profile", ProfileShape, "The previous version is active again.", 404, 409),
)
async def roll_back(caller: Writer, name: str) -> Response:
    """End a trial if there is one; else activate the previous version again."""
    version = await caller.gateway.run(flow.roll_back, caller.tenant_id, name, caller.use)
    if version is None:
        if name not in (await caller.gateway.configurations.of(caller.tenant_id)).profiles:
            raise _not_found(name)
        raise Problem(409, "nothing_to_roll_back", f"The profile {name} has no previous version.")
    return await _current(caller, name)


@router.delete("/v1/profiles/{name}", **route("Remove a profile", None, "Every stored version is gone.", 404))
async def remove(caller: Writer, name: str) -> Response:
    """Delete a profile's stored versions. A built-in profile returns to its original form."""
    removed = await caller.gateway.run(flow.remove_profile, caller.tenant_id, caller.use, name)
    caller.gateway.configurations.forget(caller.tenant_id)
    return deleted(removed, _not_found(name))


async def _current(caller: Caller, name: str) -> Response:
    caller.gateway.configurations.forget(caller.tenant_id)
    configuration = await caller.gateway.configurations.of(caller.tenant_id)
    return json_response(profile(configuration.profiles[name]))


def _not_found(name: str) -> Problem:
    kind = "built in" if name in BUILT_IN else "stored"
    return Problem(404, "profile_not_found", f"There is no profile {name} {kind} for this tenant.")
