"""From JSON to frozen dataclasses, forgiving what is new and strict about what is wrong.

Keys that a class does not know are kept in its ``raw``, so a newer server never breaks an older client.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Hashable, Mapping
from datetime import datetime
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from chordwise.errors import UnexpectedAnswer

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The base of everything decoded from an answer. ``raw`` is the JSON object as it came."""

    raw: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False, compare=False)


def decode(kind: type[T], data: object, *, where: str = "") -> T:
    """Make a ``kind`` from a JSON object. A missing key or null takes the field's default.

    Raises UnexpectedAnswer, naming the place, when a value has another type or a field without default is missing.
    """
    if not isinstance(data, Mapping):
        raise UnexpectedAnswer(f"the answer has {_named(data)} where an object belongs, at {where or '/'}")
    values: dict[str, Any] = {"raw": data}
    for field, hint in _fields(cast(Hashable, kind)):
        value = data.get(field.name)
        if value is not None:
            values[field.name] = _value(hint, value, f"{where}/{field.name}")
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise UnexpectedAnswer(f"the answer lacks {where}/{field.name}")
    return kind(**values)


@functools.cache
def _fields(kind: Any) -> tuple[tuple[dataclasses.Field[Any], Any], ...]:
    hints = get_type_hints(kind)
    return tuple((field, hints[field.name]) for field in dataclasses.fields(kind) if field.name != "raw")


def _value(hint: Any, value: Any, where: str) -> Any:
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return _value(next(arm for arm in get_args(hint) if arm is not NoneType), value, where)
    if hint is Any:
        return value
    if origin is tuple and isinstance(value, list):
        return tuple(_value(get_args(hint)[0], item, f"{where}/{place}") for place, item in enumerate(value))
    if origin is Mapping and isinstance(value, Mapping):
        inner = get_args(hint)[1]
        return {key: _value(inner, item, f"{where}/{key}") for key, item in value.items() if item is not None}
    if dataclasses.is_dataclass(hint):
        return decode(cast(type, hint), value, where=where)
    if hint is datetime and isinstance(value, str):
        return _time(value, where)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(hint, type) and origin is None and isinstance(value, hint):
        return value
    raise UnexpectedAnswer(f"the answer has {_named(value)} at {where}")


def _time(value: str, where: str) -> datetime:
    try:
        return datetime.fromisoformat(value)
    except ValueError:
        raise UnexpectedAnswer(f"the answer has no RFC 3339 time at {where}") from None


def _named(value: object) -> str:
    names = {NoneType: "null", str: "a string", bool: "a boolean", int: "a number", float: "a number", list: "an array"}
    return names.get(type(value), "an object")
