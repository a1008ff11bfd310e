"""Sources: what documents came from, to be listed, looked at and taken away."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request
from fastapi import Query as Parameter
from starlette.responses import Response

from api_gateway.gateway import gateway_of
from api_gateway.http import cursors
from api_gateway.http import responses as wire
from api_gateway.http.auth import Reader, Writer
from api_gateway.http.descriptions import Cursor, Limit, answers
from api_gateway.http.fields import namespace_parameter, tidy_document_id
from api_gateway.http.problems import Problem
from api_gateway.http.request_context import SLASH
from api_gateway.resources.shapes import SourceDeleted, SourceInfo, SourcePage
from pipeline.administration.delete_documents import delete_source
from pipeline.document_sources import SourceKind
from pipeline.documents.source_view_store import SourceViews

router = APIRouter(tags=["sources"])

InNamespace = Annotated[str, Parameter(description="The namespace the source is in.")]
Id = Annotated[str, Path(description="The source's id; a slash in it is written `%2F`.")]


@router.get(
    "/v1/sources",
    responses=answers(200, SourcePage, "One page of sources, by id.", 401, 403, 422, 503),
    summary="List sources",
)
async def list_sources(
    request: Request,
    principal: Reader,
    namespace: InNamespace,
    kind: Annotated[SourceKind | None, Parameter(description="Only those of this kind.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """Sources with a document that is searchable or on its way."""
    gateway = gateway_of(request)
    within = namespace_parameter(namespace)
    after = cursors.decode(cursor, "sources", str)

    found, following = cursors.page(
        await gateway.ask(
            SourceViews,
            principal,
            lambda store: store.page(within, kind=kind, after=after[0] if after else "", limit=limit + 1),
        ),
        limit,
        lambda last: cursors.encode("sources", last.source_id),
    )
    return wire.page_response([wire.source(view) for view in found], following)


@router.get(
    "/v1/sources/{source_id}",
    responses=answers(200, SourceInfo, "The source, with counts of what came from it.", 401, 403, 404, 422, 503),
    summary="Look at a source",
)
async def look(request: Request, principal: Reader, source_id: Id, namespace: InNamespace) -> Response:
    """One whose only documents failed or were cancelled is found too."""
    gateway = gateway_of(request)
    within, known = namespace_parameter(namespace), _known_id(source_id)

    found = await gateway.ask(SourceViews, principal, lambda store: store.one(within, known))
    if found is None:
        raise _not_found(known)
    return wire.json_response(wire.source(found))


@router.delete(
    "/v1/sources/{source_id}",
    responses=answers(
        200, SourceDeleted, "No search finds its documents any more; how many they were.", 401, 403, 404, 422, 503
    ),
    summary="Delete a source",
)
async def delete(request: Request, principal: Writer, source_id: Id, namespace: InNamespace) -> Response:
    """With all its documents, also those that are still on their way. If the answer does not come, ask again: it goes on."""
    gateway = gateway_of(request)
    within, known = namespace_parameter(namespace), _known_id(source_id)
    deleted = await gateway.run_heavy(delete_source, principal.tenant_id, within, known, gateway.resources)
    if deleted is None:
        raise _not_found(known)
    return wire.json_response({"source_id": known, "namespace": within, "documents": deleted})


def _known_id(segment: str) -> str:
    """The id as it stands in a path. Raises Problem 404 for what can be none."""
    source_id = segment.replace(SLASH, "/")
    try:
        return tidy_document_id(source_id)
    except ValueError:
        raise _not_found(source_id) from None


def _not_found(source_id: str) -> Problem:
    return Problem(404, "source_not_found", f"There is no source {source_id[:64]!r} in this namespace.")
