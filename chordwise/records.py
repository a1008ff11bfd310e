"""Decode JSON into frozen dataclasses: unknown keys are kept, wrong types raise.

Keys that a class does not know are kept in its ``raw``, so a newer server never breaks an older client. How to convert
each field is determined once per class, because an answer may hold a hundred chunks.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, cast, dataclass_transform, get_args, get_origin, get_type_hints

from chordwise.contract.record import Answered
from chordwise.errors import UnexpectedAnswer

T = TypeVar("T")
Convert = Callable[[Any], Any]


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(dataclasses.field,))
@dataclasses.dataclass(frozen=True, kw_only=True)
class Result:
    """The base of all records decoded from an answer. A subclass is a frozen dataclass as well, with keywords only. ``raw``
    is the JSON object as received."""

    raw: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False, compare=False)

    def __init_subclass__(cls) -> None:
        """Make the dataclass. Below a record of the contract, the fields that every answer has get a default, but for ids:
        an older server may not send them."""
        for base in cls.__bases__:
            if issubclass(base, Answered) and not issubclass(base, Result):
                _RESULTS[base] = cls
                _default_all(cls, base)
        dataclasses.dataclass(frozen=True, kw_only=True)(cls)


_RESULTS: dict[type, type] = {}  # the record of the client by that of the contract


def _default_all(cls: type, base: type) -> None:
    hints, own = get_type_hints(base), inspect.get_annotations(cls)
    missing = dataclasses.MISSING
    for field in dataclasses.fields(cast(Any, base)):
        always_sent = field.default is missing and field.default_factory is missing
        is_id = field.name.endswith("_id") and hints[field.name] is str
        if always_sent and field.name not in own and not is_id:
            cls.__annotations__ = {**inspect.get_annotations(cls), field.name: hints[field.name]}
            setattr(cls, field.name, _empty(hints[field.name]))


def _empty(hint: Any) -> Any:
    """Return the default of a field of this type: its empty value, the first of several constants, None for a time."""
    if get_origin(hint) is Literal:
        return get_args(hint)[0]
    if get_origin(hint) in (Union, UnionType):
        return None if NoneType in get_args(hint) else _empty(get_args(hint)[0])
    if get_origin(hint) is tuple:
        return ()
    if get_origin(hint) is Mapping:
        return dataclasses.field(default_factory=dict)
    if dataclasses.is_dataclass(hint):
        return dataclasses.field(default_factory=functools.partial(decode, cast(type, hint), {}))
    return hint() if hint in (str, int, float, bool) else None


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
        return _to_record(_result_of(cast(type, hint)))
    if hint is datetime:
        return _time
    return functools.partial(_float if hint is float else _exactly, hint)


def _result_of(kind: type) -> type:
    """Return the record that a record of the contract is decoded into."""
    if issubclass(kind, Answered) and not issubclass(kind, Result) and kind not in _RESULTS:
        type(kind.__name__, (kind, Result), {"__doc__": kind.__doc__})  # registers itself
    return _RESULTS.get(kind, kind)


def _to_record(kind: type) -> Convert:
    hints = get_type_hints(kind)
    fields = [field for field in dataclasses.fields(kind) if field.name != "raw"]
    converters = [(field.name, _to(hints[field.name])) for field in fields]
    missing = dataclasses.MISSING
    required = [field.name for field in fields if field.default is missing and field.default_factory is missing]

    def convert(data: Any) -> Any:
        if not isinstance(data, dict):
            raise _Misfit(_kind(data))
        values = {"raw": data}
        for name, to in converters:
            if (value := data.get(name)) is not None:
                try:
                    values[name] = to(value)
                except _Misfit as misfit:
                    misfit.path.append(name)
                    raise
        for name in required:
            if name not in values:
                raise _Misfit("nothing", name)
        return kind(**values)

    return convert


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
