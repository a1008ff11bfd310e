"""A business API as a source of passages: its request, and the positions of passages in its answer."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, make_dataclass
from datetime import datetime
from typing import Annotated, Any, Literal

import orjson
from pydantic import AfterValidator, Field, TypeAdapter

from chordwise.contract.document import COMPARED
from pipeline.errors import FetchRefused
from pipeline.outbound.web import LONGEST_URI, web_address
from pipeline.query.plan import StrictRecord
from pipeline.setting_values import ChannelTime

_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")
_FORM = re.compile(r"(?:/(?:[^~/]|~[01])*)*")

MISSING = object()

_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}")
_HEADER_VALUE = re.compile(r"[\x20-\x7e\u00a0-\u00ff]{0,4096}")
# Headers of the connection or of our own; a source that could set them could smuggle a second request.
_OURS = frozenset(
    {"accept-encoding", "connection", "content-length", "content-type", "expect", "host", "keep-alive", "te", "trailer"}
    | {"transfer-encoding", "upgrade", "user-agent", "via", "x-request-id"}
)
_LONGEST_BODY = 16 * 1024  # bytes of a body's template as JSON

PLACEHOLDERS = ("query", "top_k", "namespaces", "filters")


def is_pointer(text: str) -> bool:
    """Return whether the text is a JSON Pointer; the empty one means the whole document."""
    return _FORM.fullmatch(text) is not None


def resolve(document: Any, pointer: str) -> Any:
    """Return the value at ``pointer``, `MISSING` if there is none. Never raises, whatever the document holds."""
    value = document
    for step in pointer.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict):
            value = value.get(name, MISSING)
        elif isinstance(value, list) and _INDEX.fullmatch(name) and int(name) < len(value):
            value = value[int(name)]
        else:
            return MISSING
    return value


def _pointer(text: str) -> str:
    if not is_pointer(text):
        raise ValueError("must be a JSON Pointer, such as /hits or /0/title; empty for the value itself")
    return text


def _url(text: str) -> str:
    try:
        return web_address(text).uri
    except FetchRefused as error:
        raise ValueError(str(error)) from None


def _header_name(name: str) -> str:
    if not _HEADER_NAME.fullmatch(name):
        raise ValueError("is not the name of an HTTP header")
    if name.lower() in _OURS or name.lower().startswith("proxy-"):
        raise ValueError("is a header that is set here, or that belongs to the connection")
    return name


def header_value(value: str) -> str:
    """Return the value of a header as it may be sent. Raises ValueError for one that would break the header."""
    if not _HEADER_VALUE.fullmatch(value):
        raise ValueError("must be printable text of Latin-1 with up to 4096 characters")
    return value


def _body(value: Any) -> Any:
    try:
        size = len(orjson.dumps(value))
    except orjson.JSONEncodeError:
        raise ValueError("is nested too deep") from None
    if size > _LONGEST_BODY:
        raise ValueError(f"has more than {_LONGEST_BODY} bytes as JSON")
    return value


def _rising(span: tuple[float, float]) -> tuple[float, float]:
    if not span[0] < span[1]:
        raise ValueError("must be the lowest and the highest score, in this order")
    return span


Pointer = Annotated[str, Field(max_length=256), AfterValidator(_pointer)]
HeaderName = Annotated[str, AfterValidator(_header_name)]
SecretName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$")]
Template = Annotated[str, Field(max_length=2048)]
Score = Annotated[float, Field(allow_inf_nan=False)]


_TEXTS = make_dataclass(
    "DocumentTexts",
    [(name, Pointer | None, field(default=None)) for name in COMPARED],
    bases=(StrictRecord,),
    frozen=True,
    slots=True,
    kw_only=True,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiMapping(_TEXTS):  # type: ignore[misc,valid-type]  # computed from the contract
    """The positions of values in an answer, as JSON Pointers: ``items`` into the answer, the others into an item.
    ``metadata``: values to keep beside the text. ``score_range``: the API's lowest and highest score; without ``score``
    the order counts."""

    items: Pointer = ""
    text: Pointer
    id: Pointer | None = None
    title: Pointer | None = None
    score: Pointer | None = None
    url: Pointer | None = None
    published_at: Pointer | None = None
    tags: Pointer | None = None
    metadata: Annotated[Mapping[Annotated[str, Field(min_length=1, max_length=64)], Pointer], Field(max_length=32)] = (
        field(default_factory=dict)
    )
    score_range: Annotated[tuple[Score, Score], AfterValidator(_rising)] = (0.0, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiSource(StrictRecord):
    """One business API of one tenant. ``params`` and strings in ``body`` may hold ``{query}``, ``{top_k}``,
    ``{namespaces}`` and ``{filters}``. ``headers``: name to an environment secret, None for a stored one.
    ``namespaces``: those whose queries call it, empty for all. ``applies_filters``: the API applies filters, else its
    passages are checked."""

    url: Annotated[str, Field(max_length=LONGEST_URI), AfterValidator(_url)]
    method: Literal["GET", "POST"] = "GET"
    params: Annotated[Mapping[Annotated[str, Field(min_length=1, max_length=128)], Template], Field(max_length=32)] = (
        field(default_factory=dict)
    )
    body: Annotated[Any, AfterValidator(_body)] = None
    headers: Annotated[Mapping[HeaderName, SecretName | None], Field(max_length=16)] = field(default_factory=dict)
    mapping: ApiMapping
    namespaces: Annotated[tuple[Annotated[str, Field(min_length=1, max_length=64)], ...], Field(max_length=32)] = ()
    timeout_ms: ChannelTime = 700
    max_items: Annotated[int, Field(ge=1, le=100)] = 20
    max_bytes: Annotated[int, Field(ge=1, le=8 * 1024 * 1024)] = 1024 * 1024
    max_text: Annotated[int, Field(ge=1, le=20_000)] = 4000
    min_score: Annotated[float, Field(ge=0, le=1)] = 0.0
    applies_filters: bool = False
    enabled: bool = True

    def serves(self, namespaces: Sequence[str]) -> str | None:
        """Return the first of these namespaces that the source serves, None if it serves none."""
        return next((name for name in namespaces if not self.namespaces or name in self.namespaces), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSource:
    """A source and its name. ``secrets``: the encrypted values of those headers that are stored."""

    name: str
    source: ApiSource
    secrets: bytes | None = field(default=None, repr=False)
    created_at: datetime
    updated_at: datetime


_SOURCE: TypeAdapter[ApiSource] = TypeAdapter(ApiSource)


def read_source(document: bytes | str) -> ApiSource:
    """Return the source in a JSON form. Raises pydantic's ValidationError, with the location of each flaw."""
    return _SOURCE.validate_json(document, strict=True)


def source_as_json(source: ApiSource) -> bytes:
    """Return the JSON form of a source, without secrets."""
    return _SOURCE.dump_json(source)
