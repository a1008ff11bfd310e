"""Feedback: what people thought of hits, and what follows from it."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Request
from fastapi import Query as Parameter
from pydantic import TypeAdapter, ValidationError
from starlette.responses import Response

from api_gateway.gateway import gateway_of
from api_gateway.http import cursors
from api_gateway.http import responses as wire
from api_gateway.http.auth import Reader, Writer
from api_gateway.http.descriptions import Cursor, Limit, answers, json_body
from api_gateway.http.fields import Moment, namespace_parameter
from api_gateway.http.json_bodies import read_shape
from api_gateway.http.problems import Problem
from api_gateway.live.ask import current_state
from api_gateway.resources.retrieval import feedback_shapes as shapes
from pipeline.administration import rate as flow
from pipeline.database.unit_of_work import reading
from pipeline.feedback.judgments import DEFAULT_MIN_VOTES, Feedback, Rating
from pipeline.feedback.rating_store import FeedbackStore
from pipeline.records import QueryId

router = APIRouter(tags=["feedback"])

Since = Annotated[
    str | None, Parameter(max_length=64, description="RFC 3339: only what was first given then or later.")
]

_MAX_BODY_BYTES = 64 * 1024
_MOMENT: TypeAdapter[datetime] = TypeAdapter(Moment)
_EXAMPLE = {"rating": "good", "chunk_id": "0b0f6a52-6c0a-5d4e-9f57-2a4f9c1d7e10"}


@router.post(
    "/v1/queries/{query_id}/feedback",
    status_code=201,
    responses={
        **answers(201, shapes.FeedbackShape, "It is kept.", 400, 401, 403, 404, 409, 413, 415, 422, 503),
        200: {"model": shapes.FeedbackShape, "description": "The same was said before; it is kept once."},
    },
    openapi_extra=json_body(shapes.FeedbackRequest, _EXAMPLE),
    summary="Say what a hit was worth",
)
async def give(request: Request, principal: Reader, query_id: str) -> Response:
    """As long as the query is remembered, an hour by default. The same rating of the same hit by the same session counts
    once; of different ones the newest counts. What the answer missed may be rated `good` or `bad` too."""
    gateway = gateway_of(request)
    known = _known(query_id, "query_not_found", "There is no such query; it may have been cancelled, or have expired.")
    said = (await read_shape(request, principal, shapes.FeedbackRequest, limit=_MAX_BODY_BYTES)).said
    request_id: str = request.state.request_id

    def rate() -> tuple[Feedback, bool]:
        state = current_state(principal.tenant_id, QueryId(known), gateway)
        return flow.rate(principal.tenant_id, state, said, request_id=request_id, use=gateway.resources)

    given, new = await gateway.run(rate)
    return wire.json_response(shapes.feedback(given), status=201 if new else 200)


@router.get(
    "/v1/feedback",
    responses=answers(200, shapes.FeedbackPage, "One page of feedback, the newest first.", 401, 403, 422, 503),
    summary="List feedback",
)
async def list_feedback(
    request: Request,
    principal: Reader,
    since: Since = None,
    namespace: Annotated[str | None, Parameter(description="Only on hits of this namespace.")] = None,
    rating: Annotated[shapes.RatingName | None, Parameter(description="Only these.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """Everything that was said and not taken back."""
    gateway = gateway_of(request)
    chosen = None if namespace is None else namespace_parameter(namespace)
    start, before = _since(since), cursors.before(cursor, "feedback")

    def read() -> list[Feedback]:
        with reading(gateway.resources.mysql) as connection:
            return FeedbackStore(connection, principal.tenant_id).page(
                since=start,
                namespace=chosen,
                rating=None if rating is None else Rating(rating),
                before=before,
                limit=limit + 1,
            )

    found, following = cursors.page(
        await gateway.run(read),
        limit,
        lambda last: cursors.encode("feedback", last.created_at.isoformat(), last.feedback_id),
    )
    return wire.page_response([shapes.feedback(each) for each in found], following)


@router.delete(
    "/v1/feedback/{feedback_id}",
    status_code=204,
    responses=answers(204, None, "It is gone.", 401, 403, 404, 422, 503),
    summary="Take a rating back",
)
async def take_back(request: Request, principal: Writer, feedback_id: str) -> Response:
    """It has no part in judgments and results any more."""
    gateway = gateway_of(request)
    known = _known(feedback_id, "feedback_not_found", "There is no such feedback.")

    if not await gateway.ask(FeedbackStore, principal, lambda store: store.remove(known)):
        raise Problem(404, "feedback_not_found", "There is no such feedback.")
    return Response(status_code=204)


@router.get(
    "/v1/feedback/judgments",
    responses=answers(200, shapes.JudgmentPage, "One page of judged questions.", 401, 403, 422, 503),
    summary="Read the judgments that feedback makes",
)
async def judgments(
    request: Request,
    principal: Reader,
    namespace: Annotated[str, Parameter(description="Whose documents are judged.")],
    min_votes: Annotated[
        float, Parameter(ge=0.5, le=1000, description="Least weight of what was said: a rating 1, a click 0.5.")
    ] = DEFAULT_MIN_VOTES,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """Questions that differ in case or white space only are one. Between answers the newest explicit rating decides,
    clicks only where nobody has said anything. Documents that are gone are left out."""
    gateway = gateway_of(request)
    chosen = namespace_parameter(namespace)
    position = cursors.decode(cursor, "judgments", str)
    try:
        after = None if position is None else bytes.fromhex(position[0])
    except ValueError:
        raise cursors.foreign() from None
    found, last = await gateway.run(
        flow.judgment_page,
        principal.tenant_id,
        chosen,
        min_votes=min_votes,
        after=after,
        limit=limit,
        use=gateway.resources,
    )
    following = None if last is None else cursors.encode("judgments", last.hex())
    return wire.page_response([shapes.judged_query(principal.tenant_id, chosen, each) for each in found], following)


@router.get(
    "/v1/experiments/{experiment_id}/results",
    responses=answers(200, shapes.ExperimentResults, "What came of it, by arm.", 401, 403, 404, 422, 503),
    summary="Look at what an experiment has shown",
)
async def results(request: Request, principal: Reader, experiment_id: str) -> Response:
    """The searches of each arm, counted from the audit, a few seconds after they were answered (among the tenant's newest
    200,000); and feedback on their answers. Both outlive the experiment."""
    gateway = gateway_of(request)
    found = await gateway.run(flow.experiment_results, principal.tenant_id, experiment_id, gateway.resources)
    if found is None:
        raise Problem(404, "experiment_not_found", "There is no such experiment, and nothing is known of one.")
    return wire.json_response({"experiment_id": experiment_id, "buckets": [shapes.arm(each) for each in found]})


def _known(identifier: str, code: str, detail: str) -> str:
    try:
        return str(uuid.UUID(identifier))
    except ValueError:
        raise Problem(404, code, detail) from None


def _since(value: str | None) -> datetime | None:
    if value is None:
        return None
    try:
        return _MOMENT.validate_python(value)
    except ValidationError as error:
        detail = str(error.errors()[0]["ctx"]["error"])
        errors = [{"pointer": "/since", "in": "query", "detail": detail}]
        raise Problem(422, "invalid_request", f"The parameter since {detail}.", errors=errors) from None
