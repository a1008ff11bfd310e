"""Experiments: retrieval settings that are compared on real queries."""

import re
from functools import partial
from typing import Annotated, Any, ClassVar

from fastapi import APIRouter, Response
from pydantic import ValidationError

from api_gateway.http.caller import Reader, Writer
from api_gateway.http.fields import DescribedBy, Wire
from api_gateway.http.problems import Problem, invalid, places
from api_gateway.http.responses import json_response, page_response
from api_gateway.http.route_descriptions import route
from api_gateway.resources.retrieval.query_body import flaws
from api_gateway.resources.route_parts import CompleteList, Json, deleted, existing
from chordwise.contract.profile import ExperimentShape
from pipeline.administration import edit_profiles as flow
from pipeline.query.configuration import Experiment, read_experiment
from pipeline.query.plan import PlanFlaw


class ExperimentRequest(Wire):
    """An experiment; the first arm is the baseline."""

    example: ClassVar = {
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

    experiment: Annotated[dict[str, Any], DescribedBy(Experiment)]
    active: bool = True
    tenant_id: str | None = None


class ExperimentList(CompleteList[ExperimentShape]):
    """Every experiment of the tenant."""


router = APIRouter(tags=["profiles"])

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@router.get("/v1/experiments", **route("List experiments", ExperimentList, "Every experiment."))
async def list_experiments(caller: Reader) -> Response:
    """List the experiments. `CHORDWISE_RECALL_EXPERIMENT_ENABLED` decides whether they run at all."""
    experiments = await caller.gateway.run(flow.list_experiments, caller.tenant_id, caller.gateway.quick)
    rows = [
        {"experiment_id": name, "active": active, "experiment": config}
        for name, (config, active) in experiments.items()
    ]
    return page_response(rows, None)


@router.get("/v1/experiments/{experiment_id}", **route("Get an experiment", ExperimentShape, "The experiment.", 404))
async def get_experiment(caller: Reader, experiment_id: str) -> Response:
    """Return an experiment. Its `ETag` is the `If-Match` of a change."""
    experiments = await caller.gateway.run(flow.list_experiments, caller.tenant_id, caller.gateway.quick)
    config, active = existing(experiments.get(experiment_id), _not_found(experiment_id))
    return json_response({"experiment_id": experiment_id, "active": active, "experiment": config})


@router.put("/v1/experiments/{experiment_id}", **route("Store an experiment", ExperimentShape, "It is stored."))
async def store(caller: Writer, experiment_id: str, body: Json[ExperimentRequest]) -> Response:
    """Create or replace an experiment. A query takes part by naming `experiment_id`. Its `session_id`, or else its
    text, selects the arm: always the same arm for the same session. Every arm is checked before anything is stored."""
    if not _ID.fullmatch(experiment_id):
        raise invalid([{"pointer": "/experiment_id", "detail": "may hold 1 to 64 letters, digits, '.', '_' and '-'"}])
    try:
        experiment = read_experiment(body.experiment)
    except ValidationError as error:
        raise invalid(places(error, under=["experiment"])) from None
    try:
        store = partial(flow.store_experiment, caller.tenant_id, experiment_id, experiment, body.experiment)
        await caller.gateway.run(store, active=body.active, use=caller.use)
    except PlanFlaw as flaw:
        raise invalid(flaws(flaw, under="/experiment")) from None
    caller.gateway.configurations.forget(caller.tenant_id)
    return json_response({"experiment_id": experiment_id, "active": body.active, "experiment": body.experiment})


@router.delete(
    "/v1/experiments/{experiment_id}",
    **route("Remove an experiment", None, "Deleted; queries that name it run without an experiment.", 404),
)
async def remove(caller: Writer, experiment_id: str) -> Response:
    """Delete an experiment. Its results stay in the logs and in the audit."""
    removed = await caller.gateway.run(flow.remove_experiment, caller.tenant_id, caller.use, experiment_id)
    caller.gateway.configurations.forget(caller.tenant_id)
    return deleted(removed, _not_found(experiment_id))


def _not_found(experiment_id: str) -> Problem:
    return Problem(404, "experiment_not_found", f"There is no experiment {experiment_id}.")
