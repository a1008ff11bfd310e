"""Dead letters: look at what failed for good, try it again, or let it go."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Request
from fastapi import Query as Parameter
from starlette.responses import Response

from api_gateway.gateway import gateway_of
from api_gateway.http import cursors
from api_gateway.http import responses as wire
from api_gateway.http.auth import Reader, Writer
from api_gateway.http.descriptions import Cursor, Limit, answers, json_body
from api_gateway.http.fields import namespace_parameter
from api_gateway.http.json_bodies import read_shape
from api_gateway.http.problems import Problem, invalid
from api_gateway.resources import dead_letter_shapes as shapes
from pipeline.administration import steer_jobs
from pipeline.database.unit_of_work import unit_of_work
from pipeline.jobs.dead_letter_store import DeadLetter, DeadLetterFilter, DeadLetters, LedgerPosition
from pipeline.records import FailureReason, JobId
from pipeline.tenants.audit_store import Audit
from workers.dispatch import ring_for

router = APIRouter(tags=["dead letters"])

_MAX_BODY_BYTES = 64 * 1024


@router.get(
    "/v1/dead-letters",
    responses=answers(200, shapes.DeadLetterPage, "One page of dead letters, the latest first.", 401, 403, 422, 503),
    summary="List dead letters",
)
async def list_dead_letters(
    request: Request,
    principal: Reader,
    job_id: Annotated[str | None, Parameter(description="Only those of this job.")] = None,
    namespace: Annotated[str | None, Parameter(description="Only those in this namespace.")] = None,
    code: Annotated[shapes.Code | None, Parameter(description="Only those with this error code.")] = None,
    reason: Annotated[shapes.Reason | None, Parameter(description="Only those that failed for this reason.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """Documents that were accepted and failed for good. Those refused in the request were never accepted: they are
    among the errors of their job and not here."""
    gateway = gateway_of(request)
    chosen = _selection(job_id, None if namespace is None else namespace_parameter(namespace), code, reason)
    before = _before(cursor)

    found, following = cursors.page(
        await gateway.ask(DeadLetters, principal, lambda store: store.page(chosen, before=before, limit=limit + 1)),
        limit,
        _cursor_after,
    )
    return wire.page_response([shapes.dead_letter(letter) for letter in found], following)


@router.get(
    "/v1/dead-letters/{letter_id}",
    responses=answers(200, shapes.DeadLetter, "The dead letter.", 401, 403, 404, 422, 503),
    summary="Look at a dead letter",
)
async def look(request: Request, principal: Reader, letter_id: str) -> Response:
    """Everything known of the failure; never the text of the document."""
    gateway = gateway_of(request)
    place = _place(letter_id)

    letter = await gateway.ask(DeadLetters, principal, lambda store: store.one(place))
    if letter is None:
        raise _not_found()
    return wire.json_response(shapes.dead_letter(letter))


@router.post(
    "/v1/dead-letters/replay",
    status_code=202,
    responses=answers(
        202, shapes.Replayed, "The documents are queued again.", *(400, 401, 403, 413, 415, 422, 429, 503)
    ),
    openapi_extra=json_body(shapes.ReplayRequest, {"reason": "gave_up"}),
    summary="Try dead letters again",
)
async def replay_selected(request: Request, principal: Writer) -> Response:
    """Those that fit every field given, or all with `{"all": true}`; an empty object is an error."""
    gateway = gateway_of(request)
    asked = await read_shape(request, principal, shapes.ReplayRequest, limit=_MAX_BODY_BYTES)
    chosen = _selection(asked.job_id, asked.namespace, asked.code, asked.reason)
    tenant_id, use = principal.tenant_id, gateway.resources
    replayed = await gateway.run_heavy(steer_jobs.replay_selected, tenant_id, chosen, use, ring=ring_for)
    return wire.json_response({"replayed": replayed}, status=202)


@router.post(
    "/v1/dead-letters/{letter_id}/replay",
    status_code=202,
    responses=answers(202, shapes.Replayed, "The document is queued again.", 401, 403, 404, 422, 429, 503),
    summary="Try a dead letter again",
)
async def replay(request: Request, principal: Writer, letter_id: str) -> Response:
    """Its attempts are counted anew, and its job is open again."""
    gateway = gateway_of(request)
    place = _place(letter_id)
    if not await gateway.run(steer_jobs.replay, principal.tenant_id, place, gateway.resources, ring=ring_for):
        raise _not_found()
    return wire.json_response({"replayed": 1}, status=202)


@router.delete(
    "/v1/dead-letters/{letter_id}",
    status_code=204,
    responses=answers(204, None, "It is gone.", 401, 403, 404, 422, 503),
    summary="Drop a dead letter",
)
async def drop(request: Request, principal: Writer, letter_id: str) -> Response:
    """The document's bytes are deleted and it cannot be tried again; in its job it stays among the failed."""
    gateway = gateway_of(request)
    place = _place(letter_id)

    def forget() -> bool:
        with unit_of_work(gateway.resources.mysql) as work:
            dropped = DeadLetters(work.connection, principal.tenant_id).drop(place)
            if dropped:
                Audit(work.connection, principal.tenant_id).wrote("dead_letter_drop", ids=[letter_id])
            return dropped

    if not await gateway.run(forget):
        raise _not_found()
    return Response(status_code=204)


def _selection(job_id: str | None, namespace: str | None, code: str | None, reason: str | None) -> DeadLetterFilter:
    try:
        known = None if job_id is None else JobId(str(uuid.UUID(job_id)))
    except ValueError:
        raise invalid([{"pointer": "/job_id", "detail": "is not the id of a job"}]) from None
    return DeadLetterFilter(
        job_id=known, namespace=namespace, code=code, reason=None if reason is None else FailureReason(reason)
    )


def _cursor_after(last: DeadLetter) -> str:
    return cursors.encode("dead", last.failed_at.isoformat(), last.place.job_id, last.place.ordinal)


def _before(cursor: str | None) -> tuple[datetime, str, int] | None:
    position: tuple[Any, ...] | None = cursors.decode(cursor, "dead", str, str, int)
    if position is None:
        return None
    try:
        return datetime.fromisoformat(position[0]), str(uuid.UUID(position[1])), position[2]
    except ValueError:
        raise cursors.foreign() from None


def _place(letter_id: str) -> LedgerPosition:
    place = LedgerPosition.from_id(letter_id)
    if place is None:
        raise _not_found()
    return place


def _not_found() -> Problem:
    return Problem(404, "dead_letter_not_found", "There is no such dead letter.")
