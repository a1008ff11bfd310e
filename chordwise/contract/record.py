"""The base of what the server answers with."""

from collections.abc import Mapping
from typing import Any, ClassVar


class Answered:
    """The base of answers. A field without a default is in every answer; one with a default may be absent."""

    __slots__ = ()
    __pydantic_config__: ClassVar[Mapping[str, Any]] = {"extra": "forbid"}  # read by pydantic alone


def absent_not_null(schema: dict[str, Any]) -> None:
    """Describe a field that an answer leaves out rather than sends as null."""
    present = schema.pop("anyOf")[0]
    del schema["default"]
    schema.update(present)


def describe_as_complete(schema: dict[str, Any]) -> None:
    """Describe every field of an answer as present, whatever defaults its record inherits."""
    for described in schema["properties"].values():
        described.pop("default", None)
    schema["required"] = list(schema["properties"])


class Complete(Answered):
    """The base of answers that have every field, although their records have defaults for those who make them."""

    __slots__ = ()
    __pydantic_config__: ClassVar[Mapping[str, Any]] = {
        **Answered.__pydantic_config__,
        "json_schema_extra": describe_as_complete,
    }
