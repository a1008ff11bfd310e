"""What the description of every route has in common."""

from __future__ import annotations

from types import UnionType
from typing import Annotated, Any, get_args

from fastapi import Query as Parameter
from pydantic import BaseModel

from api_gateway.http.prefer import LONGEST_WAIT_S
from api_gateway.http.problems import MEDIA_TYPE

Limit = Annotated[int, Parameter(ge=1, le=200, description="Entries per page.")]
Wait = Annotated[
    float,
    Parameter(ge=0, le=LONGEST_WAIT_S, description="Seconds to hold the answer for, unless it is settled sooner."),
]
Cursor = Annotated[str | None, Parameter(max_length=1024, description="`next_cursor` of the page before.")]

PRINTABLE = r"^[\x20-\x7E]*$"  # what is compared with a column that holds ASCII; a store refuses anything else

_MEANINGS = {
    400: "The request cannot be read: its body is not JSON, or not UTF-8, or a header or parameter is there too often.",
    401: "The API key is missing, malformed, unknown or revoked.",
    403: "The API key lacks a scope, the body names another tenant, or a quota is used up.",
    404: "There is no such thing for this tenant.",
    408: "The body did not come in time.",
    412: "The etag is not that of the present state.",
    413: "The body, or every document in it, is too large.",
    415: "The media type is not accepted.",
    422: "The request is understood and wrong; `errors` says where.",
    409: "The thing is in a state in which this cannot be done.",
    429: "The tenant asks too often, or too much of it is waiting already; `Retry-After` says when to come back.",
    431: "The request line and the headers are too large, or too many.",
    500: "A fault of ours; `request_id` helps to find it.",
    503: "A dependency does not answer; `Retry-After` says when to come back.",
}

_PROBLEM = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemBody"}}}


def meaning_of(status: int) -> str:
    """What a problem with this status means, whatever the route."""
    return _MEANINGS[status]


def answers(
    status: int,
    shape: type[BaseModel] | UnionType | None,
    meaning: str,
    *problems: int,
    headers: dict[str, str] | None = None,
) -> dict[int | str, dict[str, Any]]:
    """The ``responses`` of a route: its success, and the problems it may end in."""
    success: dict[str, Any] = {"description": meaning}
    if shape is not None:
        success["model"] = shape
    if headers:
        success["headers"] = {
            name: {"description": text, "schema": {"type": "string"}} for name, text in headers.items()
        }
    found: dict[int | str, dict[str, Any]] = {status: success}
    for problem in (*problems, 500):
        found[problem] = {"description": _MEANINGS[problem], "content": _PROBLEM}
    return found


def json_body(shape: type[BaseModel] | UnionType, example: dict[str, Any]) -> dict[str, Any]:
    """The ``openapi_extra`` of a route that reads a JSON body itself."""
    references = [{"$ref": f"#/components/schemas/{each.__name__}"} for each in get_args(shape) or (shape,)]
    schema = references[0] if len(references) == 1 else {"oneOf": references}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema, "example": example}}}}
