"""Operations of the OpenAPI description, to check answers against."""

from __future__ import annotations

import functools
import json
import re
from typing import Any

import httpx

from api_gateway.app import create_app
from api_gateway.http.openapi import operations
from api_gateway.http.problem_codes import codes_of
from api_gateway.http.problems import MEDIA_TYPE
from pipeline.settings import load


@functools.cache
def document() -> dict[str, Any]:
    """The description of a gateway as it is set up if nobody says otherwise, made once a process."""
    found: dict[str, Any] = json.loads(json.dumps(create_app(load()).openapi()))
    return found


@functools.cache
def _operations() -> list[tuple[str, re.Pattern[str], dict[str, Any]]]:
    found = list(operations(document()))
    # Literal parts go before parameters, as in the routes.
    found.sort(key=lambda each: each[1].count("{"))
    return [(method, re.compile(re.sub(r"\{\w+\}", "[^/]+", path)), each) for method, path, each in found]


def described_codes(response: httpx.Response) -> list[str] | None:
    """The codes that a problem with this status may have there; None where nothing is described at all."""
    path = response.request.url.raw_path.decode().partition("?")[0]
    for method, pattern, operation in _operations():
        if method == response.request.method and pattern.fullmatch(path):
            content = operation["responses"].get(str(response.status_code), {}).get("content", {}).get(MEDIA_TYPE)
            if content is None:
                return []
            codes: list[str] | None = (
                content["schema"].get("allOf", [{}, {}])[1].get("properties", {}).get("code", {}).get("enum")
            )
            return codes
    return None


def every_code() -> set[str]:
    """Every code that some operation describes."""
    statuses = range(400, 600)
    return {
        code
        for method, path, _ in operations(document())
        for status in statuses
        for code in codes_of(method, path, status, idempotent=True)
    }
