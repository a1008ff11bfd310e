"""Generations of a document: list what is left of them, go back to the one before."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Request
from starlette.responses import Response

from api_gateway.auth import Reader, Writer
from api_gateway.gateway import gateway_of
from api_gateway.routes.documenting import answers, json_body
from api_gateway.routes.documents import Id, InNamespace, known_document_id, not_found
from api_gateway.routes.reading import read_shape
from api_gateway.wire import generations as wire
from api_gateway.wire.answers import accepted_response, json_response
from api_gateway.wire.fields import namespace_parameter
from api_gateway.wire.generations import GenerationList, RollbackRequest
from api_gateway.wire.shapes import JobAccepted
from pipeline.flows.intake import Ticket
from pipeline.flows.rollback import roll_back
from pipeline.records import Namespace
from pipeline.stores.generations import Generations
from workers import dispatch

_MAX_BODY_BYTES = 64 * 1024

router = APIRouter(tags=["documents"])


@router.get(
    "/v1/documents/{document_id}/generations",
    responses=answers(
        200,
        GenerationList,
        "The generations of which something is left.",
        *(401, 403, 404, 422, 503),
        headers={"ETag": "The present state, for `If-Match` of a rollback."},
    ),
    summary="List a document's generations",
)
async def list_generations(request: Request, principal: Reader, document_id: Id, namespace: InNamespace) -> Response:
    """The newest first: what is shown, what can be gone back to, what is on its way, and what failed."""
    gateway = gateway_of(request)
    within, known = namespace_parameter(namespace), known_document_id(document_id)

    found = await gateway.ask(Generations, principal, lambda store: store.history(within, known))
    if found is None:
        raise not_found(known)
    return json_response(wire.history(within, known, found), headers={"ETag": found.etag})


@router.post(
    "/v1/documents/{document_id}/rollback",
    status_code=202,
    responses=answers(
        202,
        JobAccepted,
        "The generation is accepted once more, as the latest upload of the document; searches see what is shown now "
        "until it is ingested.",
        *(400, 401, 403, 404, 409, 412, 413, 415, 422, 429, 503),
        headers={"Location": "The job."},
    ),
    openapi_extra=json_body(RollbackRequest, {"namespace": "kb"}),
    summary="Go back to the generation before",
)
async def rollback(
    request: Request,
    principal: Writer,
    document_id: Id,
    if_match: Annotated[
        str | None, Header(description="Only if the document's generations are still those this etag came with.")
    ] = None,
) -> Response:
    """What was uploaded then is ingested again, by the rules of today; edits of single chunks do not come back. What
    is shown now becomes the generation before, so a second rollback undoes the first. A 409 if nothing is kept."""
    gateway = gateway_of(request)
    known = known_document_id(document_id)
    sent = await read_shape(request, principal, RollbackRequest, limit=_MAX_BODY_BYTES)

    def run() -> Ticket | None:
        return roll_back(
            principal.tenant_id,
            Namespace(sent.namespace),
            known,
            gateway.resources,
            to=sent.generation,
            etag=None if if_match in (None, "*") else if_match,
            request_id=request.state.request_id,
            ring=dispatch.ring,
        )

    ticket = await gateway.run(run)
    if ticket is None:
        raise not_found(known)
    return accepted_response(ticket)
