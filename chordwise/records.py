"""Decode JSON into records of the contract: unknown keys are kept, wrong types raise.

Keys that a record does not know are kept in its ``raw``, so a newer server never breaks an older client. How to convert
each field is determined once per class, because an answer may hold a hundred chunks.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, cast, dataclass_transform, get_args, get_origin, get_type_hints

from chordwise.contract.record import Answered
from chordwise.errors import UnexpectedAnswer

T = TypeVar("T")
Convert = Callable[[Any], Any]


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(dataclasses.field,))
class Result(Answered):
    """The base of records that only the client has. A subclass is a frozen dataclass with keywords only; an answer without
    one of its fields that have no default is refused."""

    def __init_subclass__(cls) -> None:
        """Make the dataclass."""
        dataclasses.dataclass(frozen=True, kw_only=True)(cls)


class _Misfit(Exception):
    """A value of a wrong type; ``path`` leads to it, innermost step first."""

    def __init__(self, value: str, *path: object) -> None:
        super().__init__(value)
        self.path = list(path)


def decode(kind: type[T], data: object) -> T:
    """Make a ``kind`` from a JSON object. A missing key or null takes the field's default.

    Raises UnexpectedAnswer with the path of a value of another type or of a missing field without default.
    """
    try:
        return cast(T, _to(cast(Any, kind))(data))
    except _Misfit as misfit:
        pointer = "/".join(str(step) for step in reversed(misfit.path))
        raise UnexpectedAnswer(f"the answer has {misfit} at /{pointer}") from None


@functools.cache
def _to(hint: Any) -> Convert:
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return lambda value: value
    if origin in (Union, UnionType):
        arms = [_to(arm) for arm in arguments if arm is not NoneType]
        return arms[0] if len(arms) == 1 else functools.partial(_first_fitting, arms)
    if origin is tuple:
        return functools.partial(_sequence, _to(arguments[0]))
    if origin is Mapping:
        return functools.partial(_mapping, _to(arguments[1]))
    if origin is Literal:
        return functools.partial(_exactly, type(arguments[0]))  # a newer server may have further values
    if dataclasses.is_dataclass(hint):
        return _to_record(cast(type, hint))
    if hint is datetime:
        return _time
    return functools.partial(_float if hint is float else _exactly, hint)


def _to_record(kind: type[Answered]) -> Convert:
    hints = get_type_hints(kind)
    fields = dataclasses.fields(cast(Any, kind))
    converters = [(field.name, _to(hints[field.name])) for field in fields]
    missing = dataclasses.MISSING
    needed = [each.name for each in fields if each.default is missing and each.default_factory is missing]
    # An older server may not send a field of the contract, but for ids.
    is_lenient = not issubclass(kind, Result)
    absent = {
        name: _empty(hints[name]) for name in needed if is_lenient and not (name.endswith("_id") and hints[name] is str)
    }

    def convert(data: Any) -> Any:
        if not isinstance(data, dict):
            raise _Misfit(_kind(data))
        values = {}
        for name, to in converters:
            if (value := data.get(name)) is not None:
                try:
                    values[name] = to(value)
                except _Misfit as misfit:
                    misfit.path.append(name)
                    raise
        for name in needed:
            if name not in values:
                if name not in absent:
                    raise _Misfit("nothing", name)
                values[name] = absent[name]()
        return kind(**values).received(data)

    return convert


def _empty(hint: Any) -> Callable[[], Any]:
    """Return what makes the value of an absent field: an empty one, the first of several constants, None for a time."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return lambda: arguments[0]
    if origin in (Union, UnionType):
        return NoneType if NoneType in arguments else _empty(arguments[0])
    if origin is Mapping:
        return dict
    if dataclasses.is_dataclass(hint):
        return functools.partial(decode, cast(type, hint), {})
    return origin or (hint if hint in (str, int, float, bool) else NoneType)


def _first_fitting(arms: Sequence[Convert], value: Any) -> Any:
    """Convert by the first arm of a union that takes the value. Raises the misfit of the last one."""
    for to in arms[:-1]:
        with contextlib.suppress(_Misfit):
            return to(value)
    return arms[-1](value)


def _sequence(to: Convert, value: Any) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise _Misfit(_kind(value))
    items = []
    for index, item in enumerate(value):
        try:
            items.append(to(item))
        except _Misfit as misfit:
            misfit.path.append(index)
            raise
    return tuple(items)


def _mapping(to: Convert, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _Misfit(_kind(value))
    return {key: to(item) for key, item in value.items() if item is not None}


def _time(value: Any) -> datetime:
    try:
        return datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise _Misfit(f"{_kind(value)} that is no RFC 3339 time") from None


def _float(kind: type[float], value: Any) -> float:
    return value if value.__class__ is kind else kind(_exactly(int, value))


def _exactly(kind: type, value: Any) -> Any:
    if value.__class__ is not kind:
        raise _Misfit(_kind(value))
    return value


def _kind(value: object) -> str:
    names = {NoneType: "null", str: "a string", bool: "a boolean", int: "a number", float: "a number", list: "an array"}
    return names.get(type(value), "an object")
