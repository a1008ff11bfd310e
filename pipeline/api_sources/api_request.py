"""From a source's templates and a query to the request that is sent."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote, urlencode

import orjson

from pipeline.api_sources.api_source import PLACEHOLDERS, ApiSource
from pipeline.errors import ApiSourceFailed
from pipeline.outbound.web import WebAddress, web_address
from pipeline.query.request import Query, filters_as_sent

LONGEST_TARGET = 16 * 1024  # bytes of path and query; more is refused by most servers
_PLACEHOLDER = re.compile("|".join(rf"\{{{name}\}}" for name in PLACEHOLDERS))


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRequest:
    """A request without its headers."""

    method: str
    address: WebAddress
    body: bytes | None = None


def values_of(query: Query) -> dict[str, Any]:
    """Return the value of each placeholder."""
    filters = filters_as_sent(query.filters)
    return {"query": query.text, "top_k": query.top_k, "namespaces": list(query.namespaces), "filters": filters}


def request_of(source: ApiSource, values: Mapping[str, Any]) -> ApiRequest:
    """Return the request. Raises ApiSourceFailed for an address that gets too long."""
    address = web_address(source.url)
    target = address.target
    if source.params:
        sent = urlencode({name: _text(template, values) for name, template in source.params.items()}, quote_via=quote)
        target += ("&" if "?" in target else "?") + sent
    if len(target) > LONGEST_TARGET:
        raise ApiSourceFailed("the query makes the address too long; a source with a body takes longer ones")
    body = None if source.method == "GET" or source.body is None else orjson.dumps(filled(source.body, values))
    return ApiRequest(method=source.method, address=replace(address, target=target), body=body)


def filled(template: Any, values: Mapping[str, Any]) -> Any:
    """Fill in the placeholders of a JSON value. A string that is only a placeholder becomes the value itself (number,
    array, object); inside other text it becomes text. Values are not filled again; field names stay."""
    if isinstance(template, str):
        return values[template[1:-1]] if _PLACEHOLDER.fullmatch(template) else _text(template, values)
    if isinstance(template, dict):
        return {name: filled(value, values) for name, value in template.items()}
    if isinstance(template, list):
        return [filled(value, values) for value in template]
    return template


def _text(template: str, values: Mapping[str, Any]) -> str:
    return _PLACEHOLDER.sub(lambda match: _as_text(values[match[0][1:-1]]), template)


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return ",".join(value) if isinstance(value, list) else orjson.dumps(value).decode()
