"""API sources, as they are asked for and answered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal

import orjson
from pydantic import Field, ValidationError

from api_gateway.http.fields import Wire
from api_gateway.http.problems import invalid, places
from api_gateway.resources.shapes import Shape
from pipeline.administration.edit_api_sources import SourceTrial
from pipeline.api_sources.api_source import ApiMapping, ApiSource, header_value, read_source, source_as_json
from pipeline.api_sources.api_source_store import StoredSource
from pipeline.channel_time import ChannelTime

# What an answer has beside the source; whoever sends one back need not take it out.
_NOT_OF_THE_SOURCE = frozenset({"tenant_id", "name", "created_at", "updated_at"})


class HeaderIn(Wire):
    """A header whose value is not in the request: `from` names a secret that the environment gives the installation,
    `kept` leaves what is stored as it is."""

    from_: Annotated[str | None, Field(alias="from")] = None
    kept: bool | None = None


class ApiSourceRequest(Wire):
    """A business API. `mapping` says, in JSON Pointers, where the passages are in its answers; strings of `params` and
    `body` may hold `{query}`, `{top_k}`, `{namespaces}` and `{filters}`. The value of a header is text, which is never
    shown again, or an object that says where it is."""

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


class HeaderOut(Shape):
    """Where a header's value is: in the environment, under the name `from`, or stored."""

    from_: Annotated[str | None, Field(alias="from")] = None
    kept: bool | None = None


class ApiSourceOut(Shape):
    """A source without the values of its headers; it may be sent back as it is."""

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


class ApiSourceList(Shape):
    """Every source of the tenant, by name."""

    data: list[ApiSourceOut]
    next_cursor: None


class TriedPassage(Shape):
    """A passage as a query would get it."""

    chunk_id: str
    document_id: str
    namespace: str
    title: str | None
    text: str
    metadata: dict[str, Any]
    score: float


class TriedSource(Shape):
    """What came of asking once. `left_out`: how many items were not taken, by reason. `code` and `detail`: why there is
    nothing; null if the source answered."""

    ok: bool
    code: str | None
    detail: str | None
    elapsed_ms: float
    passages: list[TriedPassage]
    left_out: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """A source out of a request: what to keep, and which values of headers were given or stay."""

    source: ApiSource
    values: Mapping[str, str]
    kept: tuple[str, ...]


def described(body: Mapping[str, Any]) -> Described:
    """The source in a body. Raises Problem 422."""
    fields = {name: value for name, value in body.items() if name not in _NOT_OF_THE_SOURCE}
    given = fields.pop("headers", None)
    values: dict[str, str] = {}
    kept: list[str] = []
    headers: dict[str, str | None] = {}
    errors = [] if isinstance(given, dict | None) else [{"pointer": "/headers", "detail": "must be an object"}]
    seen: set[str] = set()
    for name, value in (given if isinstance(given, dict) else {}).items():
        place = "/headers/" + name.replace("~", "~0").replace("/", "~1")
        headers[name] = None
        if name.lower() in seen:
            errors.append({"pointer": place, "detail": "is given twice"})
        seen.add(name.lower())
        if isinstance(value, str):
            try:
                values[name] = header_value(value)
            except ValueError as error:
                errors.append({"pointer": place, "detail": str(error)})
        elif value == {"kept": True}:
            kept.append(name)
        elif isinstance(value, dict) and set(value) == {"from"} and isinstance(value["from"], str):
            headers[name] = value["from"]
        else:
            errors.append({"pointer": place, "detail": 'must be text, {"from": "NAME"} or {"kept": true}'})
    if errors:
        raise invalid(errors)
    try:
        source = read_source(orjson.dumps({**fields, "headers": headers}))
    except ValidationError as error:
        raise invalid(places(error)) from None
    return Described(source=source, values=values, kept=tuple(kept))


def api_source(stored: StoredSource) -> dict[str, Any]:
    """A source as it is sent."""
    sent: dict[str, Any] = orjson.loads(source_as_json(stored.source))
    sent["headers"] = {
        name: {"kept": True} if secret is None else {"from": secret} for name, secret in stored.source.headers.items()
    }
    return {"name": stored.name, **sent, "created_at": stored.created_at, "updated_at": stored.updated_at}


def tried(found: SourceTrial) -> dict[str, Any]:
    """What came of asking, as it is sent."""
    return {
        "ok": found.error is None,
        "code": found.error.code if found.error else None,
        "detail": str(found.error) if found.error else None,
        "elapsed_ms": round(found.elapsed_ms, 3),
        "passages": [
            {
                "chunk_id": passage.chunk_id,
                "document_id": passage.document_id,
                "namespace": passage.namespace,
                "title": passage.title,
                "text": passage.text,
                "metadata": dict(passage.metadata),
                "score": score,
            }
            for passage, score in found.passages.found
        ],
        "left_out": dict(found.passages.left_out),
    }
