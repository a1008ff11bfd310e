"""Dead letters: list, replay or drop documents that failed for good."""

from datetime import datetime
from typing import Annotated, ClassVar, Self
from uuid import UUID

from fastapi import APIRouter, Response
from pydantic import Field, model_validator

from api_gateway.http import cursors
from api_gateway.http.caller import JobReader, Writer
from api_gateway.http.fields import NamespaceName, NamespaceParameter, Shape, TenantWire
from api_gateway.http.problems import Problem, invalid
from api_gateway.http.responses import json_response
from api_gateway.http.route_descriptions import Cursor, Limit, Parameter, route
from api_gateway.resources.route_parts import Json, Page, deleted, existing, parse_uuid, send_page
from chordwise.contract.job import DeadLetter, FailureReasonName
from pipeline.administration import steer_jobs
from pipeline.jobs.job_views import DeadLetterFilter, LedgerPosition
from pipeline.records import FailureReason, JobId
from workers.dispatch import notify_workers

Code = Annotated[str, Field(min_length=1, max_length=64, pattern="^[a-z0-9_]+$")]


class DeadLetterPage(Page[DeadLetter]):
    """Dead letters, newest first."""


class Replayed(Shape):
    """How many documents are queued again."""

    replayed: int


class ReplayRequest(TenantWire):
    """The dead letters to replay: those that match every field given, or all with `{"all": true}`."""

    example: ClassVar = {"reason": "gave_up"}

    all: bool = False
    job_id: str | None = None
    namespace: NamespaceName | None = None
    code: Code | None = None
    reason: FailureReasonName | None = None

    @model_validator(mode="after")
    def _says_which(self) -> Self:
        chosen = any(value is not None for value in (self.job_id, self.namespace, self.code, self.reason))
        if self.all == chosen:
            raise ValueError('must name job_id, namespace, code or reason, or else be {"all": true}')
        return self


router = APIRouter(tags=["dead letters"])


@router.get(
    "/v1/dead-letters", **route("List dead letters", DeadLetterPage, "One page of dead letters, the latest first.")
)
async def list_dead_letters(
    caller: JobReader,
    job_id: Annotated[str | None, Parameter(description="Only those of this job.")] = None,
    namespace: Annotated[NamespaceParameter | None, Parameter(description="Only those in this namespace.")] = None,
    code: Annotated[Code | None, Parameter(description="Only those with this error code.")] = None,
    reason: Annotated[
        FailureReasonName | None, Parameter(description="Only those that failed for this reason.")
    ] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """List documents that were accepted and failed for good, each once, by its newest upload: until a later upload is
    published, or the document or the letter is deleted. Documents refused in the request were never accepted: they
    are listed among the errors of their job."""
    chosen = _selection(job_id, namespace, code, reason)
    before = cursors.decode(cursor, "dead", datetime, UUID, int)
    tenant_id, use = caller.tenant_id, caller.use
    letters = await caller.gateway.run(
        steer_jobs.list_dead_letters, tenant_id, use, chosen, before=before, limit=limit + 1
    )
    return send_page(letters, limit, "dead", _position_in_list)


@router.get("/v1/dead-letters/{letter_id}", **route("Get a dead letter", DeadLetter, "The dead letter.", 404))
async def get_dead_letter(caller: JobReader, letter_id: str) -> Response:
    """Return the details of a failure, without the document's text."""
    position = _position(letter_id)
    letter = await caller.gateway.run(steer_jobs.find_dead_letter, caller.tenant_id, caller.use, position)
    return json_response(existing(letter, _not_found()))


@router.post(
    "/v1/dead-letters/replay", **route("Replay dead letters", Replayed, "The documents are queued again.", status=202)
)
async def replay_selected(caller: Writer, body: Json[ReplayRequest]) -> Response:
    """Replay the dead letters that match every field given, or all with `{"all": true}`; an empty object is an error.
    Those that are not `retryable` are left out, unless `code` names theirs: after an update, for example, whose parser
    reads more."""
    chosen = _selection(body.job_id, body.namespace, body.code, body.reason)
    tenant_id, use = caller.tenant_id, caller.use
    replayed = await caller.gateway.run_heavy(steer_jobs.replay_selected, tenant_id, chosen, use, notify=notify_workers)
    return json_response({"replayed": replayed}, status=202)


@router.post(
    "/v1/dead-letters/{letter_id}/replay",
    **route("Replay a dead letter", Replayed, "The document is queued again.", 404, 409, status=202),
)
async def replay(caller: Writer, letter_id: str) -> Response:
    """Replay one dead letter: its attempts start again, and its job is open again. One that is not `retryable` is a 409."""
    position = _position(letter_id)
    try:
        replayed = await caller.gateway.run(
            steer_jobs.replay, caller.tenant_id, position, caller.use, notify=notify_workers
        )
    except steer_jobs.WrongJobState as error:
        raise Problem(409, error.code, str(error)) from None
    existing(replayed, _not_found())
    return json_response({"replayed": 1}, status=202)


@router.delete("/v1/dead-letters/{letter_id}", **route("Delete a dead letter", None, "It is gone.", 404))
async def drop(caller: Writer, letter_id: str) -> Response:
    """Delete the document's bytes, so that it cannot be replayed; its job still lists it as failed."""
    position = _position(letter_id)
    dropped = await caller.gateway.run(steer_jobs.drop_dead_letter, caller.tenant_id, position, caller.use)
    return deleted(dropped, _not_found())


def _selection(job_id: str | None, namespace: str | None, code: str | None, reason: str | None) -> DeadLetterFilter:
    not_an_id = invalid([{"pointer": "/job_id", "detail": "is not the id of a job"}])
    return DeadLetterFilter(
        job_id=None if job_id is None else JobId(parse_uuid(job_id, not_an_id)),
        namespace=namespace,
        code=code,
        reason=None if reason is None else FailureReason(reason),
    )


def _position_in_list(letter: DeadLetter) -> tuple[datetime, str, int]:
    return letter.failed_at, letter.job_id, letter.ordinal


def _position(letter_id: str) -> LedgerPosition:
    return existing(LedgerPosition.from_id(letter_id), _not_found())


def _not_found() -> Problem:
    return Problem(404, "dead_letter_not_found", "There is no such dead letter.")
