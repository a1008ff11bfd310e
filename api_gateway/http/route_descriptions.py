"""Shared parts of the route descriptions: parameters such as `limit`, `cursor` and `wait`, problems, and references to
schemas."""

from collections.abc import Mapping
from types import UnionType
from typing import Annotated, Any, Literal, get_args

import fastapi
from pydantic import ConfigDict
from pydantic.json_schema import JsonSchemaMode

from api_gateway.http.fields import Shape
from api_gateway.http.prefer import LONGEST_WAIT_S
from api_gateway.http.problems import MEDIA_TYPE

Parameter = fastapi.Query  # of a query string; in this service, a query is a search


class ErrorPlace(Shape):
    """The location of an error: a JSON Pointer into the body, or the name of a parameter when `in` names its kind."""

    model_config = ConfigDict(extra="allow")

    pointer: str
    detail: str


class UsedUp(Shape):
    """A quota that the request would exceed."""

    name: Literal["documents", "chunks", "queued"]
    limit: int
    used: int


class ProblemBody(Shape):
    """An error (RFC 9457). `code` is stable and meant for programs. Some problems have further members, as the RFC
    provides."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    detail: str
    instance: str
    code: str
    request_id: str
    errors: list[ErrorPlace] | None = None
    quota: UsedUp | None = None


Limit = Annotated[int, Parameter(ge=1, le=200, description="Entries per page.")]
Wait = Annotated[
    float,
    Parameter(ge=0, le=LONGEST_WAIT_S, description="Seconds to hold the answer for, unless it is settled sooner."),
]
Cursor = Annotated[str | None, Parameter(max_length=1024, description="`next_cursor` of the previous page.")]

PRINTABLE = r"^[\x20-\x7E]*$"  # compared with an ASCII column; a store rejects anything else

_MEANINGS = {
    400: "The request cannot be read: its body is not JSON, or not UTF-8, or a header or parameter is there too often.",
    401: "The API key is missing, malformed, unknown or revoked.",
    403: "The API key lacks a scope, the body names another tenant, or a quota is used up.",
    404: "This tenant has no such object.",
    408: "The body did not come in time.",
    412: "The etag is not that of the present state.",
    413: "The body, or every document in it, is too large.",
    415: "The media type is not accepted.",
    422: "The request is invalid; `errors` names the locations.",
    409: "The object's state does not allow this.",
    429: "The tenant sends too many requests, or too many of its documents are queued; `Retry-After` says when to retry.",
    431: "The request line and the headers are too large, or too many.",
    500: "An internal error; `request_id` identifies it in the log.",
    503: "A dependency does not answer; `Retry-After` says when to retry.",
}

# Schemas that FastAPI cannot discover, because routes read bodies and write events and problems themselves:
# "validation" for input, "serialization" for output.
DESCRIBED: dict[type, JsonSchemaMode] = {}


def reference(shape: type, mode: JsonSchemaMode = "validation") -> dict[str, str]:
    """Return a reference to the schema of ``shape``, which the OpenAPI document will contain."""
    DESCRIBED[shape] = mode
    return {"$ref": f"#/components/schemas/{shape.__name__}"}


PROBLEM = {MEDIA_TYPE: {"schema": reference(ProblemBody, "serialization")}}


def meaning_of(status: int) -> str:
    """Return the meaning of a problem with this status, which is the same for every route."""
    return _MEANINGS[status]


def answers(
    status: int,
    shape: type | UnionType | None,
    meaning: str,
    *problems: int,
    headers: Mapping[str, str] | None = None,
    content: Mapping[str, Any] | None = None,
    also: Mapping[int, str] | None = None,
) -> dict[int | str, dict[str, Any]]:
    """Return the ``responses`` of a route: its success, as ``shape`` or as ``content`` by media type, and its own
    problems. ``also``: the meaning of other statuses with the same answer. `openapi.complete` adds the
    problems that follow from keys, parameters and bodies."""
    model = {} if shape is None else {"model": shape}
    success: dict[str, Any] = {"description": meaning, **model}
    if headers:
        success["headers"] = {
            name: {"description": text, "schema": {"type": "string"}} for name, text in headers.items()
        }
    if content:
        success["content"] = content
    return {
        status: success,
        **{other: {"description": text, **model} for other, text in (also or {}).items()},
        **{problem: {"description": _MEANINGS[problem], "content": PROBLEM} for problem in (*problems, 500)},
    }


def route(
    summary: str,
    shape: type | UnionType | None,
    meaning: str,
    *problems: int,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    content: Mapping[str, Any] | None = None,
    also: Mapping[int, str] | None = None,
) -> dict[str, Any]:
    """Return the arguments that describe a route to its decorator; see `answers`. Without shape and content, the status
    is 204."""
    status = status if shape or content else 204
    responses = answers(status, shape, meaning, *problems, headers=headers, content=content, also=also)
    return {"summary": summary, "status_code": status, "responses": responses}


def header_parameter(name: str, text: str, example: str) -> dict[str, Any]:
    """Return the description of a request header that routes read themselves."""
    described = {"name": name, "in": "header", "required": False, "schema": {"type": "string"}, "description": text}
    return {**described, "example": example}


def json_body(shape: type | UnionType, example: dict[str, Any]) -> dict[str, Any]:
    """Return the ``openapi_extra`` of a route that reads a JSON body itself."""
    references = [reference(choice) for choice in get_args(shape) or (shape,)]
    schema = references[0] if len(references) == 1 else {"oneOf": references}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema, "example": example}}}}
