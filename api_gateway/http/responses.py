"""JSON responses."""

from collections.abc import Sequence
from typing import Any

import orjson
from starlette.responses import Response


def json_response(value: Any, *, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return ``value`` as a JSON response; times end in Z."""
    content = orjson.dumps(value, option=orjson.OPT_UTC_Z)
    return Response(content, status_code=status, headers=headers, media_type="application/json")


def page_response(entries: Sequence[Any], cursor: str | None) -> Response:
    """Return one page of a list."""
    return json_response({"data": entries, "next_cursor": cursor})
