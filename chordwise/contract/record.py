"""The base of what the server answers with."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Self, cast


class Answered:
    """The base of answers. A field without a default is in every answer; one with a default may be absent."""

    __pydantic_config__: ClassVar[Mapping[str, Any]] = {"extra": "forbid"}  # read by pydantic alone

    @property
    def raw(self) -> Mapping[str, Any]:
        """Return the JSON object that a client read this from, with the fields of a newer server; else an empty one."""
        return cast(Mapping[str, Any], vars(self).get("raw", {}))

    def received(self, raw: Mapping[str, Any]) -> Self:
        """Keep the JSON object that this was read from as ``raw``, which is no field: no answer has it."""
        vars(self)["raw"] = raw
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle ``raw`` too; a dataclass with slots would copy its fields alone."""
        names = [field.name for field in dataclasses.fields(cast(Any, self))]
        return _restore, (type(self), {name: getattr(self, name) for name in names}, self.raw)


def _restore(kind: type[Answered], values: Mapping[str, Any], raw: Mapping[str, Any]) -> Answered:
    return kind(**values).received(raw)


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

    __pydantic_config__: ClassVar[Mapping[str, Any]] = {
        **Answered.__pydantic_config__,
        "json_schema_extra": describe_as_complete,
    }
