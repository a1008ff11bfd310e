"""Problems in this dialect, ``{"error": {"message", "type", "param", "code"}}``, and their description in routes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson
from pydantic import BaseModel
from starlette.responses import Response
from starlette.types import Scope

from api_gateway.http.descriptions import answers
from api_gateway.http.problems import Problem

# OpenAI's clients expect 400 for every invalid request.
_STATUS: Final = {415: 400, 422: 400, 412: 409}
_TYPES: Final = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}


class OpenAIErrorDetail(BaseModel):
    """An error. ``param``: the field at fault, with dots between its parts."""

    message: str
    type: str
    param: str | None
    code: str | None


class OpenAIError(BaseModel):
    """An error in this dialect."""

    error: OpenAIErrorDetail


def error_response(problem: Problem, scope: Scope) -> Response:
    """Return a problem in this dialect, with its headers."""
    status = _STATUS.get(problem.status, problem.status)
    first = problem.errors[0] if problem.errors else {}
    kind = "server_error" if status >= 500 else _TYPES.get(status, "invalid_request_error")
    message = problem.detail
    if status >= 500:
        message = f"{message} (request {scope.get('state', {}).get('request_id', '')})"
    param = str(first.get("pointer", "")).strip("/").replace("/", ".") or None
    body = {"error": {"message": message, "type": kind, "param": param, "code": problem.code}}
    return Response(orjson.dumps(body), status_code=status, headers=problem.headers, media_type="application/json")


def answered(
    summary: str,
    shape: type[BaseModel] | None,
    meaning: str,
    *problems: int,
    content: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the arguments that describe a route to its decorator, with this dialect's status numbers; 401, 403, 500 and
    503 always."""
    described = answers(200, shape, meaning, *sorted({401, 403, 503, *problems}), content=content)
    described["default"] = {"description": "Every error has this form."}  # otherwise the framework adds one of its own
    for status, response in described.items():
        if status != 200:
            response.pop("content", None)
            response["model"] = OpenAIError
    return {"summary": summary, "responses": described}


def wrong(param: str, detail: str) -> Problem:
    """Return Problem(400) for one invalid field."""
    return Problem(422, "invalid_value", f"{param} {detail}.", errors=[{"pointer": f"/{param}", "detail": detail}])


def no_file(file_id: str) -> Problem:
    """Return Problem(404) for a file."""
    return Problem(404, "file_not_found", f"There is no file {file_id[:64]!r}.")


def no_store(store_id: str) -> Problem:
    """Return Problem(404) for a vector store."""
    return Problem(404, "vector_store_not_found", f"There is no vector store {store_id[:64]!r}.")


def no_batch(batch_id: str) -> Problem:
    """Return Problem(404) for a batch of files."""
    return Problem(404, "file_batch_not_found", f"There is no batch of files {batch_id[:64]!r}.")
