"""API sources: the business APIs that queries may ask."""

from __future__ import annotations

import re

from fastapi import APIRouter, Request
from starlette.responses import Response

from api_gateway.gateway import Gateway, gateway_of
from api_gateway.http import responses as wire
from api_gateway.http.auth import Writer, require_same_tenant
from api_gateway.http.bodies import Decoded, decode_json, read_json_body, refuse_flaws
from api_gateway.http.descriptions import answers, json_body
from api_gateway.http.problems import Problem, invalid
from api_gateway.resources import api_source_shapes as shapes
from api_gateway.resources.retrieval.query_body import QueryRequest, to_query
from pipeline.administration import edit_api_sources as flow
from pipeline.api_sources.api_source_store import ApiSources, StoredSource
from pipeline.database.unit_of_work import unit_of_work
from pipeline.query.channel_options import SOURCE_NAME
from pipeline.tenants.tenant_store import Principal

# Reading takes the scope write too: address and parameters of a business API often are secrets.
router = APIRouter(tags=["api sources"])

_MAX_BODY_BYTES = 64 * 1024
_PROBLEMS = (401, 403, 404, 422, 503)
_BODY_PROBLEMS = (400, 401, 403, 413, 415, 422, 503)
_EXAMPLE = {
    "url": "https://crm.example.com/search",
    "params": {"q": "{query}", "limit": "{top_k}"},
    "headers": {"Authorization": "Bearer …"},
    "mapping": {"items": "/results", "id": "/id", "title": "/name", "text": "/summary", "score": "/relevance"},
}


@router.get(
    "/v1/api-sources",
    responses=answers(200, shapes.ApiSourceList, "Every source, without the values of its headers.", 401, 403, 503),
    summary="List API sources",
)
async def list_api_sources(request: Request, principal: Writer) -> Response:
    """There are twenty at most."""
    gateway = gateway_of(request)

    return wire.page_response(
        [shapes.api_source(found) for found in await gateway.ask(ApiSources, principal, lambda store: store.all())],
        None,
    )


@router.get(
    "/v1/api-sources/{name}",
    responses=answers(200, shapes.ApiSourceOut, "The source, without the values of its headers.", *_PROBLEMS),
    summary="Look at an API source",
)
async def look(request: Request, principal: Writer, name: str) -> Response:
    """What is answered may be changed and put back: headers that say `kept` keep their value."""
    gateway = gateway_of(request)
    return wire.json_response(shapes.api_source(await gateway.run(_found, principal, name, gateway)))


@router.put(
    "/v1/api-sources/{name}",
    responses={
        **answers(200, shapes.ApiSourceOut, "The source was changed.", 409, *_BODY_PROBLEMS),
        201: {"model": shapes.ApiSourceOut, "description": "The source is new."},
    },
    openapi_extra=json_body(shapes.ApiSourceRequest, _EXAMPLE),
    summary="Add or change an API source",
)
async def put(request: Request, principal: Writer, name: str) -> Response:
    """The next query asks it as it is described now. The host must be on the public internet, unless the operator
    permits its network; over plain http only permitted networks are called. Stored values of headers are encrypted
    with `CHORDWISE_SECRET_KEY`, and given again when the source moves to another server."""
    gateway = gateway_of(request)
    if not re.fullmatch(SOURCE_NAME, name):
        detail = "must be 1 to 64 lower-case letters, digits, '-' and '_', a letter or digit first"
        raise invalid([{"pointer": "/name", "in": "path", "detail": detail}])
    asked = shapes.described(refuse_flaws(await _body(request, principal)))
    try:
        stored, new = await gateway.run(
            flow.put,
            principal.tenant_id,
            name,
            asked.source,
            gateway.resources,
            values=asked.values,
            kept=asked.kept,
        )
    except flow.SourceFlaw as flaw:
        raise invalid([{"pointer": flaw.pointer, "detail": str(flaw)}]) from None
    except flow.TooManySources as error:
        raise Problem(409, "too_many_api_sources", str(error)) from None
    headers = {"Location": f"/v1/api-sources/{name}"} if new else None
    return wire.json_response(shapes.api_source(stored), status=201 if new else 200, headers=headers)


@router.delete(
    "/v1/api-sources/{name}",
    status_code=204,
    responses=answers(204, None, "It is gone, with the values of its headers.", *_PROBLEMS),
    summary="Remove an API source",
)
async def remove(request: Request, principal: Writer, name: str) -> Response:
    """Queries that name it go on without it, and say so."""
    gateway = gateway_of(request)

    if not re.fullmatch(SOURCE_NAME, name) or not await gateway.ask(
        ApiSources, principal, lambda store: store.remove(name)
    ):
        raise _not_found()
    return Response(status_code=204)


@router.post(
    "/v1/api-sources/{name}/test",
    responses=answers(200, shapes.TriedSource, "What came of it, also if it failed.", 404, *_BODY_PROBLEMS),
    openapi_extra=json_body(QueryRequest, {"query_text": "open invoices", "namespaces": ["kb"]}),
    summary="Try out an API source",
)
async def test(request: Request, principal: Writer, name: str) -> Response:
    """Asks it now, as this query would, and shows the passages that were read from its answer."""
    gateway = gateway_of(request)
    query = to_query(
        await _body(request, principal),
        tenant_id=principal.tenant_id,
        request_id=request.state.request_id,
        use=gateway.settings,
    )
    stored = await gateway.run(_found, principal, name, gateway)
    found = await gateway.run_calling(flow.try_out, principal.tenant_id, stored, query, gateway.resources)
    return wire.json_response(shapes.tried(found))


async def _body(request: Request, principal: Principal) -> Decoded:
    limit = min(_MAX_BODY_BYTES, gateway_of(request).settings.max_body_bytes)
    decoded = decode_json(await read_json_body(request, limit))
    require_same_tenant(principal, decoded.value.get("tenant_id"))
    return decoded


def _found(principal: Principal, name: str, gateway: Gateway) -> StoredSource:
    if not re.fullmatch(SOURCE_NAME, name):
        raise _not_found()
    with unit_of_work(gateway.resources.mysql) as work:
        found = ApiSources(work.connection, principal.tenant_id).one(name)
    if found is None:
        raise _not_found()
    return found


def _not_found() -> Problem:
    return Problem(404, "api_source_not_found", "There is no such API source.")
