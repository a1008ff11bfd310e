"""Move the installation to another embedding model: for whoever operates it, not for a tenant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Request
from starlette.responses import Response

from api_gateway.gateway import Gateway, gateway_of
from api_gateway.http.auth import require_operator
from api_gateway.http.descriptions import answers, json_body
from api_gateway.http.json_bodies import read_shape
from api_gateway.http.problems import Problem, invalid
from api_gateway.http.responses import json_response
from api_gateway.resources.embedding_migration_shapes import (
    CompareRequest,
    EmbeddingMigration,
    EmbeddingMigrationList,
    StartRequest,
    SwitchRequest,
    embedding_migration,
)
from pipeline.errors import Misconfigured
from pipeline.maintenance import migrate_model
from pipeline.maintenance.compare_models import compare_models

router = APIRouter(tags=["admin"], dependencies=[Depends(require_operator)])

Number = Annotated[int, Path(ge=1, le=2**31, description="The migration, as the start gave it.")]

_ROOT = "/v1/admin/embedding-migrations"
_MAX_BODY_BYTES = 4 * 1024 * 1024
_STEERED = (401, 403, 404, 409, 422, 503)
_WITH_BODY = (400, 401, 403, 404, 409, 413, 415, 422, 503)
_GOLDEN = {
    "queries": [
        {"tenant_id": "acme", "namespaces": ["kb"], "query_text": "reset the controller", "relevant": {"d1": 2}}
    ],
    "max_ndcg_loss": 0.02,
}


@router.post(
    _ROOT,
    status_code=202,
    responses=answers(202, EmbeddingMigration, "The move has begun; `Location` says how far it is.", *_WITH_BODY),
    openapi_extra=json_body(StartRequest, {"provider": "openai", "model": "bge-m3", "dimension": 1024}),
    summary="Begin to move to another embedding model",
)
async def start(request: Request) -> Response:
    """The new model is asked for one vector first. Searches go on as before; what is ingested is written for both
    models from now on. Asked again for the same model, it gives the move that is under way."""
    gateway = gateway_of(request)
    asked = await read_shape(request, None, StartRequest, limit=_MAX_BODY_BYTES)

    def begin() -> Response:
        try:
            begun = migrate_model.start(asked.provider, asked.model, asked.dimension, asked.service, gateway.resources)
        except Misconfigured as error:
            raise invalid([{"pointer": "/model", "detail": f"cannot be used: {error}"}]) from None
        return _told(begun.space.number, gateway, status=202)

    return await gateway.run_heavy(begin)


@router.get(
    _ROOT,
    responses=answers(200, EmbeddingMigrationList, "Every move, the latest first.", 401, 403, 503),
    summary="List moves to other embedding models",
)
async def list_migrations(request: Request) -> Response:
    """Empty as long as the model is the one of the settings."""
    gateway = gateway_of(request)
    found = await gateway.run(migrate_model.every_status, gateway.resources)
    return json_response({"data": [embedding_migration(status) for status in found]})


@router.get(
    _ROOT + "/{number}",
    responses=answers(200, EmbeddingMigration, "How far it is.", 401, 403, 404, 422, 503),
    summary="Look at a move",
)
async def look(request: Request, number: Number) -> Response:
    """`ready` means that every shown chunk has a vector of the new model, of the text it has now."""
    gateway = gateway_of(request)
    return await gateway.run(_told, number, gateway)


@router.post(
    _ROOT + "/{number}/compare",
    responses=answers(200, EmbeddingMigration, "The move with what came out.", *_WITH_BODY),
    openapi_extra=json_body(CompareRequest, _GOLDEN),
    summary="Compare both models",
)
async def compare(request: Request, number: Number) -> Response:
    """Asks both models the same questions. With judgments nDCG decides, otherwise how many of the first hits they
    share. The numbers are kept, the texts are not."""
    asked = await read_shape(request, None, CompareRequest, limit=_MAX_BODY_BYTES)

    def do(gateway: Gateway) -> None:
        compare_models(number, asked.golden, asked.gate, gateway.resources, sample=asked.sample)

    return await _steer(request, number, do)


@router.post(
    _ROOT + "/{number}/switch",
    responses=answers(200, EmbeddingMigration, "Searches use the new model.", *_WITH_BODY),
    openapi_extra=json_body(SwitchRequest, {}),
    summary="Switch to the new model",
)
async def switch(request: Request, number: Number) -> Response:
    """One row is changed, and every process follows within about a second. Refused while vectors are missing, and
    unless the latest comparison has passed. Both models' vectors are kept up to date until `finish`."""
    asked = await read_shape(request, None, SwitchRequest, limit=_MAX_BODY_BYTES)

    def do(gateway: Gateway) -> None:
        migrate_model.switch(number, gateway.resources, skip_gate=asked.skip_gate, accept_missing=asked.accept_missing)

    return await _steer(request, number, do)


@router.post(
    _ROOT + "/{number}/rollback",
    responses=answers(200, EmbeddingMigration, "Searches use the old model again.", *_STEERED),
    summary="Go back to the old model",
)
async def rollback(request: Request, number: Number) -> Response:
    """At once, as often as needed, until `finish`. `behind` counts documents the old model failed to embed since."""
    return await _steer(request, number, lambda gateway: migrate_model.rollback(number, gateway.resources))


@router.post(
    _ROOT + "/{number}/finish",
    responses=answers(200, EmbeddingMigration, "The old vectors go.", *_STEERED),
    summary="Drop the old model's vectors",
)
async def finish(request: Request, number: Number) -> Response:
    """Once no query can need them any more, about half a minute later. There is no way back."""
    return await _steer(request, number, lambda gateway: migrate_model.finish(number, gateway.resources))


@router.post(
    _ROOT + "/{number}/abort",
    responses=answers(200, EmbeddingMigration, "The new vectors go.", *_STEERED),
    summary="Give a move up",
)
async def abort(request: Request, number: Number) -> Response:
    """Searches never noticed it. After a switch, go back first."""
    return await _steer(request, number, lambda gateway: migrate_model.abort(number, gateway.resources))


async def _steer(request: Request, number: int, what: Callable[[Gateway], object]) -> Response:
    """Do it, and show the move as it is afterwards."""
    gateway = gateway_of(request)

    def run() -> Response:
        _told(number, gateway)
        what(gateway)
        return _told(number, gateway)

    return await gateway.run_heavy(run)


def _told(number: int, gateway: Gateway, *, status: int = 200) -> Response:
    found = migrate_model.status(number, gateway.resources)
    if found is None:
        raise Problem(404, "migration_not_found", f"There is no migration {number}.")
    headers = {"Location": f"{_ROOT}/{number}"} if status == 202 else None
    return json_response(embedding_migration(found), status=status, headers=headers)
