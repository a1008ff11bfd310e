"""Sources of documents: list and read them."""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Path, Response
from pydantic import AfterValidator

from api_gateway.http import cursors
from api_gateway.http.caller import Caller, FullReader
from api_gateway.http.fields import NamespaceParameter, tidy_document_id
from api_gateway.http.problems import Problem, quoted
from api_gateway.http.request_context import SLASH
from api_gateway.http.responses import json_response
from api_gateway.http.route_descriptions import Cursor, Limit, Parameter, route
from api_gateway.resources.route_parts import Page, existing, parse, send_page
from chordwise.contract.source import SourceInfo
from pipeline.document_sources import SourceKind
from pipeline.documents.document_view_store import SourceViews
from pipeline.records import Namespace


class SourcePage(Page[SourceInfo]):
    """Sources by id."""


def _parse_id(segment: str) -> str:
    """Return the id in a path. Raises Problem(404) for an invalid one."""
    source_id = segment.replace(SLASH, "/")
    return parse(tidy_document_id, source_id, not_found(source_id))


def not_found(source_id: str) -> Problem:
    """Return the problem of an id without a source."""
    return Problem(404, "source_not_found", f"There is no source {quoted(source_id)} in this namespace.")


router = APIRouter(tags=["sources"])

InNamespace = Annotated[NamespaceParameter, Parameter(description="The namespace the source is in.")]
Id = Annotated[str, AfterValidator(_parse_id), Path(description="The source's id; a slash in it is written `%2F`.")]


@router.get("/v1/sources", **route("List sources", SourcePage, "One page of sources, by id."))
async def list_sources(
    caller: FullReader,
    namespace: InNamespace,
    kind: Annotated[SourceKind | None, Parameter(description="Only those of this kind.")] = None,
    followed: Annotated[bool | None, Parameter(description="Only those that are followed, or that are not.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """List sources that are followed, or have a document that is searchable or being ingested."""
    after = cursors.decode(cursor, "sources", str)
    read = partial(SourceViews.page, kind=kind, followed=followed, after=after[0] if after else "", limit=limit + 1)
    views = await caller.gateway.run(caller.read, SourceViews, read, namespace)
    return send_page(views, limit, "sources", lambda view: (view.source_id,))


@router.get(
    "/v1/sources/{source_id}", **route("Get a source", SourceInfo, "The source, with counts of what came from it.", 404)
)
async def get_source(caller: FullReader, source_id: Id, namespace: InNamespace) -> Response:
    """Return a source, even if all its documents failed or were cancelled."""
    return json_response(await source_view(caller, namespace, source_id))


async def source_view(caller: Caller, namespace: Namespace, source_id: str) -> SourceInfo:
    """Return a source with its counts. Raises Problem(404)."""
    view = await caller.gateway.run(caller.read, SourceViews, SourceViews.one, namespace, source_id)
    return existing(view, not_found(source_id))
