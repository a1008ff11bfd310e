"""API sources: business APIs that queries may call."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

import orjson
from fastapi import APIRouter, Response
from pydantic import AfterValidator, Field, ValidationError

from api_gateway.http.bodies import refuse_flaws
from api_gateway.http.caller import Caller, Writer
from api_gateway.http.fields import Shape, Wire
from api_gateway.http.problems import Problem, invalid, places
from api_gateway.http.responses import json_response, page_response
from api_gateway.http.route_descriptions import json_body, route
from api_gateway.resources.retrieval.query_body import QueryRequest, to_query
from api_gateway.resources.route_parts import CompleteList, deleted, existing, read_object
from chordwise.contract.api_source import TriedSource
from pipeline.administration import edit_api_sources as flow
from pipeline.api_sources.api_source import (
    ApiMapping,
    ApiSource,
    StoredSource,
    header_value,
    read_source,
    source_as_json,
)
from pipeline.query.channel_options import SOURCE_NAME
from pipeline.setting_values import ChannelTime

# Fields that an answer adds to the source; a client may send them back.
_NOT_OF_THE_SOURCE = frozenset({"tenant_id", "name", "created_at", "updated_at"})


class HeaderOut(Shape):
    """The location of a header's value: in the environment, under the name `from`, or stored."""

    from_: Annotated[str | None, Field(alias="from")] = None
    kept: bool | None = None


class HeaderIn(HeaderOut, Wire):
    """A header whose value is not in the request: `from` names a secret in the installation's environment, `kept` keeps
    the stored value."""


class ApiSourceRequest(Wire):
    """A business API. `mapping` gives, in JSON Pointers, where the passages are in its answers; strings of `params` and
    `body` may contain `{query}`, `{top_k}`, `{namespaces}` and `{filters}`. The value of a header is a text, which is
    never shown again, or an object that says where it is."""

    url: str
    method: Literal["GET", "POST"] = "GET"
    params: Annotated[dict[str, str], Field(default_factory=dict)]
    body: Any = None
    headers: Annotated[dict[str, str | HeaderIn], Field(default_factory=dict)]
    mapping: ApiMapping
    namespaces: Annotated[list[str], Field(default_factory=list)]
    timeout_ms: ChannelTime = 700
    max_items: Annotated[int, Field(ge=1, le=100)] = 20
    max_bytes: Annotated[int, Field(ge=1, le=8 * 1024 * 1024)] = 1024 * 1024
    max_text: Annotated[int, Field(ge=1, le=20_000)] = 4000
    min_score: Annotated[float, Field(ge=0, le=1)] = 0.0
    applies_filters: bool = False
    enabled: bool = True
    tenant_id: str | None = None


class ApiSourceOut(Shape):
    """A source without the values of its headers; it may be sent back unchanged."""

    name: str
    url: str
    method: Literal["GET", "POST"]
    params: dict[str, str]
    body: Any
    headers: dict[str, HeaderOut]
    mapping: dict[str, Any]
    namespaces: list[str]
    timeout_ms: int
    max_items: int
    max_bytes: int
    max_text: int
    min_score: float
    applies_filters: bool
    enabled: bool
    created_at: datetime
    updated_at: datetime


class ApiSourceList(CompleteList[ApiSourceOut]):
    """Every source of the tenant, by name."""


def described(body: Mapping[str, Any]) -> tuple[ApiSource, dict[str, str], list[str]]:
    """Return the source in a body, the given values of its headers, and the headers that keep their value. Raises
    Problem(422)."""
    fields = {name: value for name, value in body.items() if name not in _NOT_OF_THE_SOURCE}
    given = fields.pop("headers", None)
    values: dict[str, str] = {}
    unchanged: list[str] = []
    headers: dict[str, str | None] = {}
    errors = [] if isinstance(given, dict | None) else [{"pointer": "/headers", "detail": "must be an object"}]
    names: set[str] = set()
    for name, value in (given if isinstance(given, dict) else {}).items():
        location = "/headers/" + name.replace("~", "~0").replace("/", "~1")
        headers[name] = None
        if name.lower() in names:
            errors.append({"pointer": location, "detail": "is given twice"})
        names.add(name.lower())
        if isinstance(value, str):
            try:
                values[name] = header_value(value)
            except ValueError as error:
                errors.append({"pointer": location, "detail": str(error)})
        elif value == {"kept": True}:
            unchanged.append(name)
        elif isinstance(value, dict) and set(value) == {"from"} and isinstance(value["from"], str):
            headers[name] = value["from"]
        else:
            errors.append({"pointer": location, "detail": 'must be text, {"from": "NAME"} or {"kept": true}'})
    if errors:
        raise invalid(errors)
    try:
        source = read_source(orjson.dumps({**fields, "headers": headers}))
    except ValidationError as error:
        raise invalid(places(error)) from None
    return source, values, unchanged


def api_source(stored: StoredSource) -> dict[str, Any]:
    """Return a source as it is sent."""
    sent: dict[str, Any] = orjson.loads(source_as_json(stored.source))
    sent["headers"] = {
        name: {"kept": True} if secret is None else {"from": secret} for name, secret in stored.source.headers.items()
    }
    return {"name": stored.name, **sent, "created_at": stored.created_at, "updated_at": stored.updated_at}


def _parse_name(name: str) -> str:
    if not re.fullmatch(SOURCE_NAME, name):
        raise _not_found()
    return name


def _not_found() -> Problem:
    return Problem(404, "api_source_not_found", "There is no such API source.")


# Reading takes the scope write too: the address and parameters of a business API often contain secrets.
router = APIRouter(tags=["api sources"])

Name = Annotated[str, AfterValidator(_parse_name)]

_MAX_BODY_BYTES = 64 * 1024
_EXAMPLE = {
    "url": "https://crm.example.com/search",
    "params": {"q": "{query}", "limit": "{top_k}"},
    "headers": {"Authorization": "Bearer …"},
    "mapping": {"items": "/results", "id": "/id", "title": "/name", "text": "/summary", "score": "/relevance"},
}


@router.get(
    "/v1/api-sources", **route("List API sources", ApiSourceList, "Every source, without the values of its headers.")
)
async def list_api_sources(caller: Writer) -> Response:
    """List the sources; at most twenty exist."""
    sources = await caller.gateway.run(flow.list_api_sources, caller.tenant_id, caller.use)
    return page_response([api_source(source) for source in sources], None)


@router.get(
    "/v1/api-sources/{name}",
    **route("Get an API source", ApiSourceOut, "The source, without the values of its headers.", 404),
)
async def get_api_source(caller: Writer, name: Name) -> Response:
    """Return a source. It may be changed and sent back: headers with `kept` keep their value."""
    return json_response(api_source(await caller.gateway.run(_stored, caller, name)))


@router.put(
    "/v1/api-sources/{name}",
    **route(
        "Add or change an API source", ApiSourceOut, "The source was changed.", 409, also={201: "The source is new."}
    ),
    openapi_extra=json_body(ApiSourceRequest, _EXAMPLE),
)
async def put(caller: Writer, name: str) -> Response:
    """Create or replace a source; the next query uses it. The host must be on the public internet, unless the operator
    permits its network; plain http is limited to permitted networks. Stored header values are encrypted with
    `CHORDWISE_SECRET_KEY`, and must be sent again when the source moves to another server."""
    if not re.fullmatch(SOURCE_NAME, name):
        detail = "must be 1 to 64 lower-case letters, digits, '-' and '_', a letter or digit first"
        raise invalid([{"pointer": "/name", "in": "path", "detail": detail}])
    source, values, unchanged = described(refuse_flaws(await read_object(caller, _MAX_BODY_BYTES)))
    try:
        stored, new = await caller.gateway.run(
            flow.put, caller.tenant_id, name, source, caller.use, values=values, kept=unchanged
        )
    except flow.SourceFlaw as flaw:
        raise invalid([{"pointer": flaw.pointer, "detail": str(flaw)}]) from None
    except flow.TooManySources as error:
        raise Problem(409, "too_many_api_sources", str(error)) from None
    headers = {"Location": f"/v1/api-sources/{name}"} if new else None
    return json_response(api_source(stored), status=201 if new else 200, headers=headers)


@router.delete(
    "/v1/api-sources/{name}", **route("Delete an API source", None, "Deleted, with the values of its headers.", 404)
)
async def remove(caller: Writer, name: Name) -> Response:
    """Delete a source. Queries that name it continue without it and report that."""
    return deleted(await caller.gateway.run(flow.remove_api_source, caller.tenant_id, caller.use, name), _not_found())


@router.post(
    "/v1/api-sources/{name}/test",
    **route("Test an API source", TriedSource, "The outcome of the call, also if it failed.", 404),
    openapi_extra=json_body(QueryRequest, {"query_text": "open invoices", "namespaces": ["kb"]}),
)
async def test(caller: Writer, name: Name) -> Response:
    """Call the source as this query would, and return the passages in its answer."""
    body, use = await read_object(caller, _MAX_BODY_BYTES), caller.gateway.settings
    query = to_query(body, tenant_id=caller.tenant_id, request_id=caller.request_id, use=use)
    stored = await caller.gateway.run(_stored, caller, name)
    trial: TriedSource = await caller.gateway.run_calling(flow.try_out, caller.tenant_id, stored, query, caller.use)
    return json_response(trial)


def _stored(caller: Caller, name: str) -> StoredSource:
    return existing(flow.find_api_source(caller.tenant_id, caller.use, name), _not_found())
