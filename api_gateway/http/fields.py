"""Types of single fields, shared by all requests."""

import dataclasses
import re
import unicodedata
from collections.abc import Mapping
from datetime import UTC, datetime
from types import UnionType
from typing import Annotated, Any, ClassVar, TypeVar, Union, get_args, get_origin, get_type_hints

import orjson
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    TypeAdapter,
    create_model,
    model_validator,
)
from pydantic.json_schema import WithJsonSchema

from api_gateway.http.problems import Problem
from chordwise.contract import document
from chordwise.contract.limits import Length, length_of
from pipeline.filters.readers import EVERY_DOCUMENT
from pipeline.keyword.normal_form import normal_form
from pipeline.records import Namespace

W = TypeVar("W", bound=BaseModel)


class Shape(BaseModel):
    """The base of all answers."""

    model_config = ConfigDict(extra="forbid")


def shown(shape: type[Any], record: object, **values: Any) -> dict[str, Any]:
    """Return the fields of ``shape`` in its order: those in ``values``, the others from attributes of ``record``."""
    is_model = issubclass(shape, BaseModel)
    names = shape.model_fields if is_model else [field.name for field in dataclasses.fields(shape)]
    return {name: values[name] if name in values else getattr(record, name) for name in names}


MAX_METADATA_BYTES = 16 * 1024
MAX_METADATA_DEPTH = 16  # MariaDB rejects JSON nested more than 32 levels deep
MOST_UNKNOWN_NAMES = 32  # per object, each reported with its own pointer; further ones are reported as one error
INT64 = 2**63
_UNNAMABLE = {"Cc", "Cs", "Zl", "Zp"}  # categories of characters that no name may hold

_RFC_3339 = re.compile(r"(\d{4}-\d{2}-\d{2})[Tt ](\d{2}:\d{2}:\d{2})(\.\d+)?([Zz]|[+-]\d{2}:\d{2})", re.ASCII)


class Body(BaseModel):
    """The base of what a body may be. ``example``: in its description; ``most_bytes``: capped by the installation's limit."""

    example: ClassVar[dict[str, Any]] = {}
    most_bytes: ClassVar[int] = 64 * 1024


class Wire(Body):
    """The base of all requests: no conversions, no unknown fields."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _has_few_names(cls, value: Any) -> Any:
        """Reject an object with far more names than the shape has, before pydantic reports each unknown name."""
        if isinstance(value, dict) and len(value) > len(cls.model_fields) + MOST_UNKNOWN_NAMES:
            most = len(cls.model_fields) + MOST_UNKNOWN_NAMES
            raise ValueError(f"has {len(value)} names, more than the {most} that are looked at")
        return value


class TenantWire(Wire):
    """The base of requests that may name the tenant of their key."""

    tenant_id: str | None = None


class DescribedBy:
    """Mark a field that is accepted as sent and validated after merging with the values below it; OpenAPI describes it
    as ``shape``."""

    def __init__(self, shape: type[Any]) -> None:
        self._shape: TypeAdapter[Any] = TypeAdapter(shape)

    def __get_pydantic_json_schema__(self, _schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return handler(self._shape.core_schema)


def tidy_namespace(value: str) -> str:
    """Return a namespace in normal form C. Raises ValueError for an invalid one."""
    name = normal_form("NFC", value)
    if not 1 <= len(name) <= 64:
        raise ValueError("must have 1 to 64 characters")
    if not all(character in "._-" or unicodedata.category(character)[0] in "LMN" for character in name):
        raise ValueError("may hold letters, digits, '.', '_' and '-' only")
    return name


def tidy_document_id(value: str) -> str:
    """Return a document id, unchanged. Raises ValueError for an invalid one."""
    if not 1 <= len(value) <= 64:
        raise ValueError("must have 1 to 64 characters")
    if value[0].isspace() or value[-1].isspace():
        raise ValueError("must not begin or end with white space")
    if holds_control_characters(value):
        raise ValueError("must not hold control characters")
    return value


def addressable(name: str) -> str:
    """Return a new name or id, unchanged. Raises ValueError for ``.`` and ``..``: clients and proxies fold such segments
    of an address, also if they are percent-encoded, so the object could not be reached."""
    if name in (".", ".."):
        raise ValueError("must not be '.' or '..', which stand for folders in an address")
    return name


def holds_control_characters(name: str) -> bool:
    """Return whether a name has control characters, line ends or surrogates. Spaces of every kind and invisible joiners
    are allowed: names in some languages contain them."""
    return not name.isprintable() and any(unicodedata.category(character) in _UNNAMABLE for character in name)


def not_blank(value: str) -> str:
    """Return the text, unchanged. Raises ValueError for a text without any visible character."""
    if value.isspace():
        raise ValueError("holds nothing but white space")
    return value


def _moment(value: Any) -> Any:
    """Parse an RFC 3339 time with an offset into a time in UTC."""
    if not isinstance(value, str):
        raise ValueError("must be a string with an RFC 3339 time")
    match = _RFC_3339.fullmatch(value)
    if match is None:
        raise ValueError("must be an RFC 3339 time with an offset, such as 2026-01-02T00:00:00Z")
    date, time, fraction, offset = match.groups()
    try:
        moment = datetime.fromisoformat(f"{date}T{time}{(fraction or '')[:7]}{offset.upper()}").astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError("is not a time that exists") from None
    if moment.year < 1000:
        raise ValueError("must not lie before the year 1000")
    return moment


def _metadata(value: dict[str, Any]) -> dict[str, Any]:
    """Return the object if both databases can store it. Raises ValueError."""
    if not value:
        return value
    level: list[Any] = [value]
    for _ in range(MAX_METADATA_DEPTH):
        level = [inner for outer in level for inner in _inner(outer)]
        if not level:
            break
    else:
        raise ValueError(f"is nested more than {MAX_METADATA_DEPTH} levels deep")
    try:
        size = len(orjson.dumps(value))
    except orjson.JSONEncodeError:
        raise ValueError("must hold no integer beyond 64 bits and no text that is not UTF-8") from None
    if size > MAX_METADATA_BYTES:
        raise ValueError(f"has more than {MAX_METADATA_BYTES} bytes as JSON")
    return value


def _object_or_text(value: Any) -> dict[str, Any] | str:
    """Return an object or a text that both databases can store. Raises ValueError."""
    if isinstance(value, str):
        _metadata({"": value})
        return value
    if not isinstance(value, dict):
        raise ValueError("must be an object or a string")
    return _metadata(value)


def _inner(value: dict[str, Any] | list[Any]) -> list[Any]:
    entries = value.values() if isinstance(value, dict) else value
    return [entry for entry in entries if isinstance(entry, dict | list)]


TEXT_MEDIA_TYPES = ("text/plain", "text/markdown", "text/html")

NamespaceName = Annotated[
    str, AfterValidator(tidy_namespace), WithJsonSchema({"type": "string", "minLength": 1, "maxLength": 64})
]
DocumentIdText = Annotated[
    str, AfterValidator(tidy_document_id), WithJsonSchema({"type": "string", "minLength": 1, "maxLength": 64})
]
# Of something that may come to be by the request. The types above also name what an earlier version has accepted.
NewNamespaceName = Annotated[NamespaceName, AfterValidator(addressable)]
NewDocumentId = Annotated[DocumentIdText, AfterValidator(addressable)]
NewSourceId = NewDocumentId
Moment = Annotated[datetime, BeforeValidator(_moment), WithJsonSchema({"type": "string", "format": "date-time"})]
Metadata = Annotated[dict[str, Any], AfterValidator(_metadata)]
ObjectOrText = Annotated[
    Any,
    AfterValidator(_object_or_text),
    WithJsonSchema({"anyOf": [{"type": "object", "additionalProperties": True}, {"type": "string"}]}),
]
Integer64 = Annotated[int, Field(ge=-INT64, le=INT64 - 1)]
QueryText = Annotated[str, Field(min_length=1, max_length=8000), AfterValidator(not_blank)]
Label = Annotated[str, Field(min_length=1, max_length=128)]


def namespace_parameter(value: str) -> Namespace:
    """Return the namespace from a query string. Raises Problem(422)."""
    try:
        return Namespace(tidy_namespace(value))
    except ValueError as error:
        errors = [{"pointer": "/namespace", "in": "query", "detail": str(error)}]
        raise Problem(422, "invalid_request", f"The parameter namespace {error}.", errors=errors) from None


def _limit(length: Length | None) -> Any:
    return length and Field(min_length=length.least or None, max_length=length.most)


def _principal(value: str) -> str:
    if holds_control_characters(value) or value != value.strip():
        raise ValueError("must not hold control characters, nor begin or end with white space")
    if value == EVERY_DOCUMENT:
        raise ValueError("must not be '*', which stands for the callers who see every document")
    return value


Title = Annotated[str, _limit(document.LENGTHS["title"])]
TypeName = Annotated[str, _limit(document.LENGTHS["type"])]
Tags = Annotated[list[Annotated[str, _limit(length_of(document.Tag))]], _limit(document.LENGTHS["tags"])]

ReaderNames = Annotated[
    list[Annotated[str, _limit(length_of(document.PrincipalName)), AfterValidator(_principal)]],
    Field(min_length=1, max_length=1000),
]


def sent_as(hint: Any) -> Any:
    """Return the type in which requests send what the contract describes by ``hint``."""
    if isinstance(hint, UnionType) or get_origin(hint) is Union:
        return Union[*(sent_as(arm) for arm in get_args(hint))]
    if get_origin(hint) is Annotated:
        return Annotated[sent_as(get_args(hint)[0]), _limit(length_of(hint))]
    if get_origin(hint) is tuple:
        return list[sent_as(get_args(hint)[0])]  # type: ignore[misc]  # computed
    if get_origin(hint) is Mapping:
        return Metadata
    return {datetime: Moment, int: Integer64}.get(hint, hint)


def request_of(record: type, base: type[W], **further: Any) -> type[W]:
    """Return the request with the fields of a record of the contract and ``further`` ones, by type; null and absence mean
    their defaults."""
    hints = {
        name: ReaderNames if name == "readers" else sent_as(hint)
        for name, hint in get_type_hints(record, include_extras=True).items()
    }
    fields = {name: (hint | None, None) for name, hint in (hints | further).items()}
    return create_model(record.__name__, __base__=base, **fields)  # type: ignore[call-overload,no-any-return]


NamespaceParameter = Annotated[Namespace, AfterValidator(namespace_parameter)]
