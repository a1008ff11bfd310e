"""Every way a request can fail, as RFC 9457 problems: one table from error classes to status and title."""

import http
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

import orjson
from pydantic import ValidationError
from starlette.responses import Response
from starlette.types import Scope

import pipeline.errors as failures
from pipeline.errors import Misconfigured, PipelineError, QuotaExceeded, Unavailable

MEDIA_TYPE = "application/problem+json"
MOST_ERRORS = 100  # entries of ``errors`` in one answer
LONGEST_POINTER = 255  # as many characters as the ledger stores
_RETRY_AFTER_S = 2
_QUOTED = 64  # characters of a name in a sentence
_UNITS = {"queued": "documents", "answer_bytes": "content-bytes"}  # of quotas that a retry may find free

# The first matching base class decides. An error class of ours without a line is a bug and answers 500.
_TABLE: dict[type[PipelineError], tuple[int, str]] = {
    failures.MigrationRefused: (409, "The migration is in another state"),
    QuotaExceeded: (403, "A quota of the tenant is used up"),
    failures.PreconditionFailed: (412, "The precondition is not met"),
    failures.GenerationNotKept: (409, "That generation is not available for a rollback"),
    failures.NotReingestible: (409, "The document cannot be ingested again like this"),
    failures.PartKnown: (409, "The part was accepted before"),
    failures.ErasureUnfinished: (409, "The tenant is being erased"),
    failures.TenantGone: (403, "The tenant has been erased"),
    failures.ApiSourceFailed: (422, "The API source cannot be used as it is"),
    failures.NoSuchName: (404, "There is no such resource"),
    failures.NothingRated: (404, "There is no such hit"),
    failures.QueryUnanswered: (409, "The query has no answer yet"),
    failures.StoreMisconfigured: (503, "A dependency is not set up completely"),
    failures.VectorTableMissing: (503, "A dependency is not set up completely"),
    Unavailable: (503, "A dependency is not answering"),
    failures.StatementTooLarge: (413, "The request is too large"),
    failures.UnsupportedMediaType: (415, "This media type is not accepted"),
    failures.DocumentTooLarge: (413, "The document is too large"),
    failures.Rejected: (422, "The document cannot be accepted"),
}

TITLES = {
    400: "The request cannot be read",
    401: "A valid API key is needed",
    403: "The API key does not allow this",
    404: "There is no such resource",
    405: "This method is not supported here",
    408: "The request did not arrive in time",
    409: "The request conflicts with the current state",
    412: "The precondition is not met",
    413: "The request is too large",
    415: "This media type is not accepted",
    422: "The request is not valid",
    429: "Too many requests",
    431: "The head of the request is too large",
    500: "Something went wrong on our side",
    503: "The service cannot answer now",
}

# Pydantic's messages in the terms of JSON, with fields of their context.
_SENTENCES = {
    "missing": "is required",
    "extra_forbidden": "is not a known field",
    "unexpected_keyword_argument": "is not a known field",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "dataclass_type": "must be an object",
    "list_type": "must be an array",
    "bool_type": "must be true or false",
    "int_type": "must be an integer",
    "float_type": "must be a number",
    "string_type": "must be a string",
    "string_unicode": "contains a lone surrogate, which UTF-8 cannot encode",
    "invalid_key": "has a key that is not a string",
    "string_too_long": "has more than {max_length} characters",
    "too_long": "has more than {max_length} entries",
    "greater_than_equal": "is below {ge}",
    "less_than_equal": "is above {le}",
    "greater_than": "must be above {gt}",
    "less_than": "must be below {lt}",
    "literal_error": "must be {expected}",
    "value_error": "{error}",
}


def quoted(name: str) -> str:
    """Return a name from a request in quotation marks for a sentence; a long one is cut and ends in an ellipsis."""
    return repr(name if len(name) <= _QUOTED else f"{name[:_QUOTED]}…")


class Problem(Exception):
    """An error answer. ``errors``: the locations at fault, each with ``pointer`` and ``detail``. ``extensions``: further
    members, such as ``quota``: an exhausted one with its ``name``, ``limit`` and ``used``."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        title: str | None = None,
        errors: Sequence[Mapping[str, Any]] = (),
        extensions: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.title = title or TITLES.get(status) or http.HTTPStatus(status).phrase
        self.errors = tuple(errors)
        self.extensions = dict(extensions or {})
        self.headers = dict(headers or {})

    def response(self, scope: Scope) -> Response:
        """Return the problem as a response: in RFC 9457 form, or in the dialect of the path."""
        for prefix, respond in DIALECTS.items():
            if scope.get("path", "").startswith(prefix):
                return respond(self, scope)
        body: dict[str, Any] = {
            "type": f"urn:chordwise:problem:{self.code}",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            "instance": instance_of(scope),
            "code": self.code,
            "request_id": scope.get("state", {}).get("request_id", ""),
        }
        if self.errors:
            body["errors"] = self.errors[:MOST_ERRORS]
        body |= self.extensions
        return Response(orjson.dumps(body), status_code=self.status, headers=self.headers, media_type=MEDIA_TYPE)


# Path prefixes with another error format; each dialect registers its own.
DIALECTS: dict[str, Callable[[Problem, Scope], Response]] = {}


def from_error(error: PipelineError) -> Problem:
    """Return the problem for an error. Details of an error without a line in the table are withheld."""
    line = next((_TABLE[base] for base in type(error).__mro__ if base in _TABLE), None)
    if line is None:
        return misconfigured() if isinstance(error, Misconfigured) else internal()
    status, title = line
    quota = error.quota if isinstance(error, QuotaExceeded) else {}
    is_full_now = isinstance(error, QuotaExceeded) and error.retry_after_s is not None
    if is_full_now:
        status, title = 429, "A quota of the tenant is used up for now"
    headers = {}
    if is_full_now or isinstance(error, Unavailable | failures.ErasureUnfinished):
        headers["Retry-After"] = str(math.ceil(getattr(error, "retry_after_s", None) or _RETRY_AFTER_S))
    if is_full_now and quota:
        name, limit, left = quota["name"], int(quota["limit"]), max(0, int(quota["limit"]) - int(quota["used"]))
        headers["RateLimit-Policy"] = f'"{name}";q={limit};qu="{_UNITS[str(name)]}"'
        headers["RateLimit"] = f'"{name}";r={left};t={headers["Retry-After"]}'
    return Problem(
        status, error.code, error.public, title=title, headers=headers, extensions={"quota": quota} if quota else {}
    )


def internal() -> Problem:
    """Return the problem for a bug; the log has the details under the request's id."""
    return Problem(500, "internal_error", "The request failed through no fault of yours; its id helps to find out why.")


def misconfigured() -> Problem:
    """Return the problem for an incorrectly configured installation; the log has the details for its operator."""
    return Problem(
        500, "misconfigured", "This installation is not set up completely; its operator finds why in the log."
    )


def invalid(
    errors: Sequence[Mapping[str, str]], *, code: str = "invalid_request", detail: str | None = None
) -> Problem:
    """Return Problem(422) with the locations at fault."""
    first = errors[0] if errors else {"pointer": "", "detail": "is not valid"}
    sentence = detail or f"{first['pointer'] or 'the body'} {first['detail']}" + (
        f", and {len(errors) - 1} more." if len(errors) > 1 else "."
    )
    return Problem(422, code, sentence, errors=errors)


def pointer(path: Iterable[str | int]) -> str:
    """Return a JSON Pointer (RFC 6901) that can be stored and sent whatever field names the sender used."""
    text = "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)
    return printable(text)[:LONGEST_POINTER]


def printable(text: str) -> str:
    """Return the text without characters that UTF-8 or a log line cannot hold."""
    return "".join(character if character.isprintable() else "\ufffd" for character in text)


def places(error: ValidationError, *, under: Sequence[str | int] = ()) -> list[dict[str, str]]:
    """Return the first errors of a validation error, up to the limit; ``under`` is the path of the validated value."""
    return [
        {"pointer": pointer([*under, *(part for part in flaw["loc"] if part != "[key]")]), "detail": sentence(flaw)}
        for flaw in islice(error.errors(include_url=False, include_input=False), MOST_ERRORS)
    ]


def sentence(flaw: Mapping[str, Any]) -> str:
    """Return one validation error of pydantic as a sentence in the terms of JSON."""
    kind, context = flaw["type"], flaw.get("ctx", {})
    if template := _SENTENCES.get(kind):
        return template.format_map(context)
    if kind in ("string_too_short", "too_short"):
        unit = "characters" if kind == "string_too_short" else "entries"
        return "is empty" if context["min_length"] == 1 else f"has fewer than {context['min_length']} {unit}"
    message = str(flaw["msg"])
    return message[:1].lower() + message[1:]


def instance_of(scope: Scope) -> str:
    """Return the requested path as it came over the wire."""
    raw = scope.get("raw_path") or b""
    return printable(raw.partition(b"?")[0].decode("latin-1"))
