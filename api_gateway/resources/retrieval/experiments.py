"""Experiments: arms of retrieval that are compared on real queries."""

from __future__ import annotations

import re
from typing import Any

from fastapi import APIRouter, Request
from pydantic import ValidationError
from starlette.responses import Response

from api_gateway.gateway import gateway_of
from api_gateway.http import responses as wire
from api_gateway.http.auth import Reader, Writer
from api_gateway.http.descriptions import answers, json_body
from api_gateway.http.json_bodies import read_shape
from api_gateway.http.problems import Problem, invalid, places
from api_gateway.resources.retrieval import profile_shapes as shapes
from api_gateway.resources.retrieval.query_body import flaws
from pipeline.administration import edit_profiles as flow
from pipeline.database.unit_of_work import reading, unit_of_work
from pipeline.query.experiments import read_experiment
from pipeline.query.plan import PlanFlaw
from pipeline.query.profile_store import Experiments

router = APIRouter(tags=["profiles"])

_MAX_BODY_BYTES = 64 * 1024
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_EXAMPLE = {
    "experiment": {
        "arms": [
            {"name": "control", "share": 1},
            {
                "name": "semantic-first",
                "share": 1,
                "overrides": {"retrieve": {"channels": {"semantic": {"weight": 2}}}},
            },
        ],
        "coverage": 0.2,
    }
}


@router.get(
    "/v1/experiments",
    responses=answers(200, shapes.ExperimentList, "Every experiment.", 401, 403, 503),
    summary="List experiments",
)
async def list_experiments(request: Request, principal: Reader) -> Response:
    """Whether they run at all, `CHORDWISE_RECALL_EXPERIMENT_ENABLED` says."""
    gateway = gateway_of(request)

    def read() -> dict[str, tuple[dict[str, Any], bool]]:
        with reading(gateway.quick.mysql) as connection:
            return Experiments(connection, principal.tenant_id).all()

    found = await gateway.run(read)
    rows = [{"experiment_id": name, "active": active, "experiment": config} for name, (config, active) in found.items()]
    return wire.page_response(rows, None)


@router.put(
    "/v1/experiments/{experiment_id}",
    responses=answers(200, shapes.ExperimentShape, "It is stored.", 400, 401, 403, 413, 415, 422, 503),
    openapi_extra=json_body(shapes.ExperimentRequest, _EXAMPLE),
    summary="Store an experiment",
)
async def store(request: Request, principal: Writer, experiment_id: str) -> Response:
    """A query takes part by naming `experiment_id`. The arm is drawn from its `session_id`, or from its text where it has
    none: always the same arm for the same session. Every arm is checked before anything is stored."""
    if not _ID.fullmatch(experiment_id):
        raise invalid([{"pointer": "/experiment_id", "detail": "may hold 1 to 64 letters, digits, '.', '_' and '-'"}])
    gateway = gateway_of(request)
    asked = await read_shape(request, principal, shapes.ExperimentRequest, limit=_MAX_BODY_BYTES)
    try:
        experiment = read_experiment(asked.experiment)
    except ValidationError as error:
        raise invalid(places(error, under=["experiment"])) from None
    try:
        await gateway.run(
            flow.store_experiment,
            principal.tenant_id,
            experiment_id,
            experiment,
            asked.experiment,
            active=asked.active,
            use=gateway.resources,
        )
    except PlanFlaw as flaw:
        raise invalid([{**each, "pointer": f"/experiment{each['pointer']}"} for each in flaws(flaw)]) from None
    gateway.configurations.forget(principal.tenant_id)
    return wire.json_response({"experiment_id": experiment_id, "active": asked.active, "experiment": asked.experiment})


@router.delete(
    "/v1/experiments/{experiment_id}",
    status_code=204,
    responses=answers(
        204, None, "It is gone; queries that name it are asked as if there were none.", 401, 403, 404, 422, 503
    ),
    summary="Remove an experiment",
)
async def remove(request: Request, principal: Writer, experiment_id: str) -> Response:
    """What was measured stays in the logs and in the audit."""
    gateway = gateway_of(request)

    def forget() -> bool:
        with unit_of_work(gateway.resources.mysql) as work:
            return Experiments(work.connection, principal.tenant_id).remove(experiment_id)

    if not await gateway.run(forget):
        raise Problem(404, "experiment_not_found", f"There is no experiment {experiment_id}.")
    gateway.configurations.forget(principal.tenant_id)
    return Response(status_code=204)
