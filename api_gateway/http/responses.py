"""JSON responses."""

import re
from collections.abc import Sequence
from typing import Any, Final

import orjson
from starlette.requests import Request
from starlette.responses import Response

_REFUSED: Final = re.compile(r"q\s*=\s*0(\.0*)?\s*$")


def json_response(value: Any, *, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return ``value`` as a JSON response; times end in Z."""
    content = orjson.dumps(value, option=orjson.OPT_UTC_Z)
    return Response(content, status_code=status, headers=headers, media_type="application/json")


def page_response(entries: Sequence[Any], cursor: str | None) -> Response:
    """Return one page of a list."""
    return json_response({"data": entries, "next_cursor": cursor})


def takes_deflate(request: Request) -> bool:
    """Return whether a client accepts an answer in the encoding `deflate`. One that may be repeated to another client, under
    an `Idempotency-Key`, is sent as it is."""
    if "idempotency-key" in request.headers:
        return False
    encodings = (entry.partition(";") for entry in request.headers.get("accept-encoding", "").lower().split(","))
    return any(name.strip() == "deflate" and not _REFUSED.search(quality) for name, _, quality in encodings)
