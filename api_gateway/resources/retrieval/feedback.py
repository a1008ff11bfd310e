"""Feedback: users' ratings of hits, and the judgments and results derived from them."""

from datetime import datetime
from typing import Annotated, ClassVar, Self
from uuid import UUID

from fastapi import APIRouter, Response
from pydantic import Field, TypeAdapter, ValidationError, model_validator

from api_gateway.http import cursors
from api_gateway.http.caller import FullReader, Reader, Writer
from api_gateway.http.fields import Label, Moment, NamespaceName, NamespaceParameter, Shape, Wire
from api_gateway.http.problems import Problem
from api_gateway.http.responses import json_response, page_response
from api_gateway.http.route_descriptions import Cursor, Limit, Parameter, route
from api_gateway.live.ask import current_state
from api_gateway.resources.retrieval.queries import QueryInPath
from api_gateway.resources.route_parts import Json, Page, deleted, existing, parse, parse_uuid, send_page
from chordwise.contract.ratings import ArmResult, FeedbackShape, JudgedQuery, RatingName
from pipeline.administration import rate as flow
from pipeline.feedback.judgments import DEFAULT_MIN_VOTES

HitId = Annotated[str, Field(min_length=1, max_length=255)]


class FeedbackRequest(Wire):
    """A rating of one hit: `good`, `bad`, or `click` for having opened it. Either `chunk_id` or `document_id`
    identifies the hit. `namespace`: the document's, if several namespaces of the query contain it. `session_id`: the
    rater, by default the query's session."""

    example: ClassVar = {"rating": "good", "chunk_id": "0b0f6a52-6c0a-5d4e-9f57-2a4f9c1d7e10"}

    rating: RatingName
    chunk_id: HitId | None = None
    document_id: HitId | None = None
    namespace: NamespaceName | None = None
    note: Annotated[str, Field(max_length=2000)] | None = None
    session_id: Label | None = None
    tenant_id: str | None = None

    @model_validator(mode="after")
    def _names_one_thing(self) -> Self:
        if (self.chunk_id is None) == (self.document_id is None):
            raise ValueError("must name either chunk_id or document_id")
        return self


class FeedbackPage(Page[FeedbackShape]):
    """Feedback, newest first."""


class JudgmentPage(Page[JudgedQuery]):
    """Judged questions, in the order of their ids. A page may hold fewer than requested."""


class ExperimentResults(Shape):
    """The results of searches and feedback, by arm; the first is the baseline."""

    experiment_id: str
    buckets: list[ArmResult]


router = APIRouter(tags=["feedback"])

Since = Annotated[
    str | None, Parameter(max_length=64, description="RFC 3339: only what was first given then or later.")
]

_MOMENT: TypeAdapter[datetime] = TypeAdapter(Moment)
_REPEATED = {200: "The same rating existed already; it is stored once."}


@router.post(
    "/v1/queries/{query_id}/feedback",
    **route("Rate a hit", FeedbackShape, "It is kept.", 404, 409, also=_REPEATED, status=201),
)
async def give(caller: Reader, query_id: QueryInPath, sent: Json[FeedbackRequest]) -> Response:
    """Rate a hit of a query while the query is stored, an hour by default. The same rating of the same hit by the same
    session counts once; of different ones the newest counts. A document missing from the answer may be rated `good` or
    `bad` too."""
    rating = flow.RatingRequest(**sent.model_dump(exclude={"tenant_id"}))
    request_id: str = caller.request_id

    def rate() -> tuple[FeedbackShape, bool]:
        state = current_state(caller.tenant_id, query_id, caller.gateway)
        return flow.rate(caller.tenant_id, state, rating, request_id=request_id, use=caller.use)

    given, new = await caller.gateway.run(rate)
    return json_response(given, status=201 if new else 200)


@router.get("/v1/feedback", **route("List feedback", FeedbackPage, "One page of feedback, the newest first."))
async def list_feedback(
    caller: FullReader,
    since: Since = None,
    namespace: Annotated[NamespaceParameter | None, Parameter(description="Only on hits of this namespace.")] = None,
    rating: Annotated[RatingName | None, Parameter(description="Only these.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """List the feedback that was not withdrawn."""
    start, before = _since(since), cursors.decode(cursor, "feedback", datetime, UUID)
    ratings = await caller.gateway.run(
        flow.list_ratings,
        caller.tenant_id,
        caller.use,
        since=start,
        namespace=namespace,
        rating=rating,
        before=before,
        limit=limit + 1,
    )
    return send_page(ratings, limit, "feedback", lambda given: (given.created_at, given.feedback_id))


@router.delete("/v1/feedback/{feedback_id}", **route("Withdraw a rating", None, "It is gone.", 404))
async def take_back(caller: Writer, feedback_id: str) -> Response:
    """Withdraw a rating from judgments and results."""
    not_found = Problem(404, "feedback_not_found", "There is no such feedback.")
    parsed_id = parse_uuid(feedback_id, not_found)
    return deleted(await caller.gateway.run(flow.take_back, caller.tenant_id, caller.use, parsed_id), not_found)


@router.get(
    "/v1/feedback/judgments", **route("List judgments from feedback", JudgmentPage, "One page of judged questions.")
)
async def judgments(
    caller: FullReader,
    namespace: Annotated[NamespaceParameter, Parameter(description="The namespace of the judged documents.")],
    min_votes: Annotated[
        float, Parameter(ge=0.5, le=1000, description="Least total weight of the votes: a rating 1, a click 0.5.")
    ] = DEFAULT_MIN_VOTES,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """Return judged questions. Questions that differ only in case or white space count as one. Between answers the
    newest explicit rating decides, clicks only without any. Deleted documents are left out."""
    position = cursors.decode(cursor, "judgments", str)
    after = None if position is None else parse(bytes.fromhex, position[0], cursors.foreign())
    questions, last = await caller.gateway.run(
        flow.judgment_page, caller.tenant_id, namespace, min_votes=min_votes, after=after, limit=limit, use=caller.use
    )
    following = None if last is None else cursors.encode("judgments", last.hex())
    return page_response(questions, following)


@router.get(
    "/v1/experiments/{experiment_id}/results",
    **route("Get the results of an experiment", ExperimentResults, "The results, by arm.", 404),
)
async def results(caller: Reader, experiment_id: str) -> Response:
    """Return the results of each arm: its searches, counted from the audit a few seconds after their answers (among the
    tenant's newest 200,000), and feedback on their answers. Both outlive the experiment."""
    arms = await caller.gateway.run(flow.experiment_results, caller.tenant_id, experiment_id, caller.use)
    not_found = Problem(404, "experiment_not_found", "There is no such experiment, and nothing is known of one.")
    return json_response({"experiment_id": experiment_id, "buckets": existing(arms, not_found)})


def _since(value: str | None) -> datetime | None:
    if value is None:
        return None
    try:
        return _MOMENT.validate_python(value)
    except ValidationError as error:
        detail = str(error.errors()[0]["ctx"]["error"])
        errors = [{"pointer": "/since", "in": "query", "detail": detail}]
        raise Problem(422, "invalid_request", f"The parameter since {detail}.", errors=errors) from None
