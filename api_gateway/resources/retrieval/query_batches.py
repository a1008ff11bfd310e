"""Batches of queries: many questions at once, answered behind those that callers wait for."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Final

import orjson
from fastapi import APIRouter, Response
from pydantic import AfterValidator, Field, TypeAdapter, ValidationError
from starlette.requests import Request
from starlette.responses import StreamingResponse

from api_gateway.http import fields
from api_gateway.http.bodies import MAX_BODY_BYTES, Decoded, decode_json, limited, refuse_flaws, require_identity
from api_gateway.http.caller import Caller, Reader
from api_gateway.http.fields import TenantWire
from api_gateway.http.idempotency import work_id
from api_gateway.http.problems import MOST_ERRORS, Problem, invalid, places
from api_gateway.http.responses import json_response
from api_gateway.http.route_descriptions import Parameter, Wait, json_body, reference, route
from api_gateway.live import poll
from api_gateway.live.ask import query_maker
from api_gateway.resources import jobs
from api_gateway.resources.retrieval.queries import Answer
from api_gateway.resources.retrieval.query_body import QueryRequest
from api_gateway.resources.route_parts import decode_own, media_type_of_body, parse_uuid, refuse_repeated, validated
from api_gateway.resources.shapes import accepted_response
from chordwise.contract.job import Job, JobAccepted, JobError
from pipeline.administration import steer_jobs
from pipeline.ingestion.accept import AcceptedJob
from pipeline.jobs.batch_view_store import BatchViews, repeated
from pipeline.query.compression import decompressed
from pipeline.query.request import Query
from pipeline.records import ItemState, JobId
from pipeline.retrieval.submit_batch import submit_batch
from workers import dispatch

MOST_QUERIES: Final = 10_000
_ROWS_AT_ONCE: Final = 100
_LINES: Final = "application/x-ndjson"
_OWN_ID: TypeAdapter[str] = TypeAdapter(Annotated[str, AfterValidator(fields.tidy_document_id)])

EXAMPLE: Final = {
    "defaults": {"namespaces": ["kb"], "top_k": 5},
    "queries": [
        {"id": "q1", "query_text": "How do I reset the controller?"},
        {"id": "q2", "query_text": "怎样重置控制器？", "top_k": 3},
    ],
}


class BatchedQuery(QueryRequest):
    """A query of a batch, with an `id` that its sender chose; the results repeat it."""

    id: Annotated[str, Field(min_length=1, max_length=64)] | None = None


class QueryBatchRequest(TenantWire):
    """Up to 10,000 queries. A field that a query leaves out has the value in `defaults`."""

    example: ClassVar[dict[str, Any]] = EXAMPLE

    queries: Annotated[list[Any], Field(min_length=1)]
    defaults: dict[str, Any] = Field(default_factory=dict)


# A line of the results.
_RESULT = {
    "type": "object",
    "required": ["index", "id", "status", "answer", "error"],
    "properties": {
        "index": {"type": "integer", "description": "The position of the query in the batch, from 0."},
        "id": {"anyOf": [{"type": "string"}, {"type": "null"}], "description": "As it was sent."},
        "status": {"enum": ["succeeded", "failed", "cancelled"]},
        "answer": {"anyOf": [reference(Answer, "serialization"), {"type": "null"}]},
        "error": {"anyOf": [{"type": "object", "additionalProperties": {"type": "string"}}, {"type": "null"}]},
    },
}


def parse_batch_id(batch_id: str) -> JobId:
    """Return the id in its usual form. Raises Problem(404) for an invalid one."""
    return JobId(parse_uuid(batch_id, not_found()))


def not_found() -> Problem:
    """Return Problem(404) for a batch that this tenant does not have."""
    return Problem(404, "batch_not_found", "There is no such batch of queries.")


router = APIRouter(tags=["retrieval"])

BatchInPath = Annotated[JobId, AfterValidator(parse_batch_id)]

Defaults = Annotated[
    str | None,
    Parameter(
        max_length=16_000,
        description='With a body of JSON lines: fields for queries that leave them out, as in `{"namespaces": ["kb"]}`.',
    ),
]


def _described_body() -> dict[str, Any]:
    described = json_body(QueryBatchRequest, EXAMPLE)
    lines = "\n".join(orjson.dumps({**EXAMPLE["defaults"], **query}).decode() for query in EXAMPLE["queries"])  # type: ignore[dict-item]
    described["requestBody"]["content"][_LINES] = {"schema": {"type": "string"}, "example": lines}
    reference(BatchedQuery)
    return described


@router.post(
    "/v1/query-batches",
    **route(
        "Submit many queries",
        JobAccepted,
        "The queries are durable; workers answer them. Invalid ones are among the errors of the job.",
        headers={"Location": "The batch."},
        status=202,
    ),
    openapi_extra=_described_body(),
)
async def submit(caller: Reader, defaults: Defaults = None) -> Response:
    """Submit up to 10,000 queries, as `queries` of a JSON object or one a line. They are answered behind the queries of callers
    that wait; equal ones are answered once. If none is valid, the answer is an error and nothing was stored."""
    body = await _body_of(caller.request, caller.gateway.settings.max_body_bytes)
    in_lines = media_type_of_body(caller.request) == _LINES
    make = await query_maker(caller)
    accepted = await caller.gateway.run_heavy(_accept, caller, body, make, in_lines, defaults, work_id(caller.request))
    return accepted_response(accepted, path="query-batches")


@router.get(
    "/v1/query-batches/{batch_id}",
    **route("Get a batch of queries, or wait for it", Job, "The batch, as the job that it is.", 404),
)
async def get_batch(caller: Reader, batch_id: BatchInPath, wait: jobs.Wait = 0) -> Response:
    """Return the counts of a batch. With `wait`, the answer comes when it has ended or the seconds have passed. Everything else
    that applies to jobs, such as events, pausing and retrying, is found under the same id at `/v1/jobs`."""
    await caller.gateway.run(_require, caller, batch_id)
    if wait > 0:
        await jobs.until_finished(caller, batch_id, wait)
    return json_response(await caller.gateway.run(jobs.view_of, caller, batch_id))


@router.get(
    "/v1/query-batches/{batch_id}/results",
    **route(
        "Read the results of a batch",
        None,
        "One JSON object a line, in the order of the queries, up to the first that is not answered yet.",
        404,
        content={_LINES: {"schema": _RESULT}},
    ),
)
async def read_results(
    caller: Reader,
    batch_id: BatchInPath,
    after: Annotated[
        int, Parameter(ge=-1, le=MOST_QUERIES, description="Only those after this `index`: that of the last one read.")
    ] = -1,
    limit: Annotated[int, Parameter(ge=1, le=MOST_QUERIES, description="Lines at most.")] = MOST_QUERIES,
    wait: Wait = 0,
) -> Response:
    """Return the results so far. A reader goes on after the last `index` that it has, until it has those of all queries: each
    query has one line, also if it failed or was cancelled. Answers are kept for three days."""

    def read() -> bool:
        return bool(_ended(caller, batch_id, after, 1))

    await caller.gateway.run(_require, caller, batch_id)
    name = f"{caller.tenant_id}:results:{batch_id}:{after}"
    await poll.until(caller, name, read, bool, wait)
    return StreamingResponse(_result_lines(caller, batch_id, after, limit), media_type=_LINES)


@router.post(
    "/v1/query-batches/{batch_id}/cancel",
    **route("Cancel a batch of queries", Job, "The batch; none of its queries is pending.", 404, 409),
)
async def cancel(caller: Reader, batch_id: BatchInPath) -> Response:
    """Cancel a batch. Answers stay; the other queries are cancelled. Cancelling again changes nothing. A batch that ended by
    itself is a 409."""
    await caller.gateway.run(_require, caller, batch_id)
    return await jobs.steer(caller, batch_id, steer_jobs.cancel)


@router.delete(
    "/v1/query-batches/{batch_id}", **route("Delete a batch of queries", None, "Its queries and answers are gone.", 404)
)
async def delete(caller: Reader, batch_id: BatchInPath) -> Response:
    """Delete the queries and answers of a batch before they expire; one that runs is cancelled. The job stays listed with its
    counts."""
    await caller.gateway.run(_require, caller, batch_id)
    await caller.gateway.run(steer_jobs.drop_batch, caller.tenant_id, batch_id, caller.use)
    return Response(status_code=204)


async def _body_of(request: Request, limit: int) -> bytes:
    """Return the bytes of the body. Raises Problem for one that is neither JSON nor JSON lines, or is too large."""
    require_identity(request.headers)
    if (sent := media_type_of_body(request)) not in ("application/json", _LINES):
        detail = f"This route does not take a body of type {sent or 'unknown'}; it takes application/json or {_LINES}."
        raise Problem(415, "unsupported_media_type", detail)
    receive = limited(request.receive, request.headers, limit, setting=MAX_BODY_BYTES)
    return await Request(request.scope, receive).body()


def _accept(
    caller: Caller,
    body: bytes,
    make: Callable[[Decoded], Query],
    in_lines: bool,
    defaults: str | None,
    job_id: JobId | None,
) -> AcceptedJob:
    """Accept the queries of a body as a job. Heavy. Raises Problem, or the errors of `submit_batch`."""
    intake = _Intake(caller, make, {} if defaults is None else _parameter(defaults))
    entries = intake.lines(body) if in_lines else intake.object(body)
    if len(entries) > MOST_QUERIES:
        detail = f"A batch may have at most {MOST_QUERIES} queries, this one has {len(entries)}."
        raise Problem(422, "too_many_queries", detail)
    queries = [intake.query(entry, f"/queries/{index}", index) for index, entry in enumerate(entries)]
    intake.require_one(queries)
    own_ids = [own_id or index for index, (own_id, _) in enumerate(queries)]
    refuse_repeated(own_ids, "/queries/{}/id", "is the id of an earlier query")
    return submit_batch(
        caller.tenant_id,
        queries,
        caller.use,
        owner=_owner(caller),
        request_id=caller.request_id,
        notify=dispatch.notify,
        job_id=job_id,
    )


class _Intake:
    """Converts the entries of a batch to queries, or to refusals with their reasons."""

    def __init__(self, caller: Caller, make: Callable[[Decoded], Query], defaults: Mapping[str, Any]) -> None:
        self._caller, self._make, self._defaults = caller, make, defaults
        self._suspicious = False
        self._lines: list[int] = []  # the number of each entry's line, without a body of lines none
        self._places: list[dict[str, Any]] = []

    def object(self, body: bytes) -> Sequence[Any]:
        """Return the entries of a JSON object. Raises Problem."""
        decoded = decode_own(body, self._caller.principal)
        sent = validated(QueryBatchRequest, decoded.value)
        self._defaults = {**self._defaults, **sent.defaults}
        self._suspicious = decoded.suspicious
        return sent.queries

    def lines(self, body: bytes) -> Sequence[bytes]:
        """Return the lines that are not blank."""
        lines = enumerate(body.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1)
        filled = [(number, line) for number, line in lines if line.strip()]
        self._lines = [number for number, _ in filled]
        return [line for _, line in filled]

    def query(self, entry: Any, where: str, index: int) -> tuple[str | None, Query | JobError]:
        """Return the query in an entry with its own id, or the refusal."""
        own_id: str | None = None
        try:
            decoded = decode_own(entry, self._caller.principal) if self._lines else Decoded(entry, self._suspicious)
            if not isinstance(decoded.value, dict):
                raise invalid([{"pointer": "", "detail": "must be a JSON object"}])
            value = dict(decoded.value)
            own_id = _own_id(value.pop("id", None))
            if value.get("trace"):
                raise invalid([{"pointer": "/trace", "detail": "is for single queries"}])
            return own_id, self._make(Decoded({**self._defaults, **value}, decoded.suspicious))
        except Problem as problem:
            return own_id, self._refusal(problem, where, index)

    def require_one(self, queries: Sequence[tuple[str | None, Query | JobError]]) -> None:
        """Raise Problem if every query was refused."""
        refusals = [query for _, query in queries if isinstance(query, JobError)]
        if len(refusals) < len(queries):
            return
        if not refusals:
            raise invalid([{"pointer": "/queries", "detail": "is empty"}])
        detail = f"None of the {len(refusals)} queries can be taken."
        if len(refusals) == 1:
            detail = refusals[0].detail or detail
        raise Problem(422, "no_valid_query", detail, errors=self._places)

    def _refusal(self, problem: Problem, where: str, index: int) -> JobError:
        """Return a refusal that names the position and the field at fault."""
        first = problem.errors[0] if problem.errors else {"pointer": "", "detail": problem.detail}
        place = where + first["pointer"]
        self._places += [{"pointer": place, "detail": first["detail"]}][: MOST_ERRORS - len(self._places)]
        detail = f"{first['pointer']} {first['detail']}".strip()
        if self._lines:  # a line knows nothing of the others
            detail = detail.removeprefix("The body ").replace(" line 1 column ", " column ")
        named = f"line {self._lines[index]}" if self._lines else f"query {index}"
        code = "invalid_query" if problem.status == 422 else problem.code
        return JobError(document_id=None, code=code, detail=f"{named}: {detail}", pointer=place)


def _own_id(value: Any) -> str | None:
    if value is None:
        return None
    try:
        return _OWN_ID.validate_python(value, strict=True)
    except ValidationError as error:
        raise invalid([{**each, "pointer": "/id"} for each in places(error)]) from None


def _parameter(text: str) -> dict[str, Any]:
    """Return the defaults in a query string. Raises Problem(422)."""
    try:
        return refuse_flaws(decode_json(text.encode("utf-8", "replace")))
    except Problem as error:
        raise invalid([{"pointer": "/defaults", "in": "query", "detail": error.detail}]) from None


def _require(caller: Caller, batch_id: JobId) -> None:
    """Raise Problem(404) without such a batch, and for one of a caller with other principals."""

    def read(batches: BatchViews) -> bool:
        is_seen = not caller.principal.is_limited or batches.is_for(batch_id, _owner(caller), caller.reads_as)
        return is_seen and batches.is_batch(batch_id)

    if not caller.read(BatchViews, read):
        raise not_found()


def _owner(caller: Caller) -> str:
    """Return what tells a caller from others: its key and principals, as the users of one key that signs tokens differ."""
    named = [caller.principal.key_id, None if caller.reads_as is None else sorted(caller.reads_as)]
    return hashlib.sha256(orjson.dumps(named)).hexdigest()


def _ended(caller: Caller, batch_id: JobId, after: int, limit: int) -> list[tuple[Any, bytes | None]]:
    """Return the rows of ended queries with the answers."""

    def read(batches: BatchViews) -> list[tuple[Any, bytes | None]]:
        rows = batches.ended(batch_id, after=after, limit=limit)
        bodies = {row.ordinal: row.body for row in rows if row.body is not None}
        others = {ordinal: other for ordinal, body in bodies.items() if (other := repeated(body)) is not None}
        answers = batches.of(batch_id, set(others.values()))
        return [(row, answers.get(others[row.ordinal]) if row.ordinal in others else row.body) for row in rows]

    return caller.read(BatchViews, read)


async def _result_lines(caller: Caller, batch_id: JobId, after: int, limit: int) -> AsyncIterator[bytes]:
    """Yield the lines page by page, so that neither side holds more than one."""
    while limit > 0:
        size = min(limit, _ROWS_AT_ONCE)
        lines, last = await caller.gateway.run(_page, caller, batch_id, after, size)
        yield b"".join(lines)
        if len(lines) < size or last is None:
            return
        after, limit = last, limit - size


def _page(caller: Caller, batch_id: JobId, after: int, size: int) -> tuple[list[bytes], int | None]:
    rows = _ended(caller, batch_id, after, size)
    return [_line(row, body) for row, body in rows], rows[-1][0].ordinal if rows else None


def _line(row: Any, body: bytes | None) -> bytes:
    status, answer, error = row.state, None, None
    if row.state == ItemState.SUCCEEDED and body is not None:
        answer = orjson.Fragment(decompressed(body))
    elif row.state == ItemState.SUCCEEDED:
        status, error = "failed", {"code": "answer_expired", "detail": "The answer is not kept any longer."}
    elif row.state == ItemState.FAILED:
        error = {"code": row.code, "detail": row.detail, **({"pointer": row.pointer} if row.pointer else {})}
    line = {"index": row.ordinal, "id": row.id, "status": status, "answer": answer, "error": error}
    return orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)
