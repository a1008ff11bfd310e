"""Filters as terms of an index outside the databases: a field and a value, or a metadata path and a value.

As in `filters.python_filters.unmet`, a list meets a single value of ``metadata`` that it holds; ``where`` compares the value
itself. Comparisons by order use `sortable_values`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from chordwise.contract.document import COMPARED
from pipeline.chunking.strategies.question_answer import ANSWER_KEY, PAIR_TYPE, QUESTION_KEY
from pipeline.filters.python_filters import METADATA, OWN_FIELDS, choices_of, is_exact, kind_of, moment_in
from pipeline.filters.used_fields import COUNTED, plain_number, values_of
from pipeline.records import Comparison, Condition, DocumentFields, Filters, Scalar

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PAIR = "pair"
_NOT_PUBLIC = "not public"
_MOST = 2**63 - 1  # of a story time
_SORTED_BYTES = 64  # of a text; what follows cannot decide a comparison with a shorter text
_ORDERED = ("gt", "gte", "lt", "lte")
_SIGN_BIT, _ALL_BITS = 1 << 63, (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Having:
    """The chunk has this term."""

    term: str


@dataclass(frozen=True, slots=True)
class Between:
    """A number of the chunk, ``published_at`` in microseconds since 1970 or ``story_time``, is there and within bounds."""

    field: str
    least: int | None
    most: int | None


@dataclass(frozen=True, slots=True)
class Ordered:
    """The sortable value of a metadata key is within these bounds, which are inclusive unless excluded."""

    key: str
    least: str
    most: str
    excludes_least: bool = False
    excludes_most: bool = False


@dataclass(frozen=True, slots=True)
class Every:
    """All of these hold."""

    parts: tuple[Clause, ...]


@dataclass(frozen=True, slots=True)
class Either:
    """A disjunction of conditions."""

    parts: tuple[Clause, ...]


@dataclass(frozen=True, slots=True)
class Never:
    """This does not hold."""

    part: Clause


Clause = Having | Between | Ordered | Every | Either | Never
EVERYTHING = Every(())


def terms_of_fields(fields: DocumentFields, *, chunk_type: str) -> list[str]:
    """Return the terms of a chunk's fields, each once."""
    terms = [f"tag:{tag}" for tag in fields.tags]
    if fields.readers:
        terms += (_NOT_PUBLIC, *(f"reader:{reader}" for reader in fields.readers))
    terms += (f"{name}:{getattr(fields, name)}" for name in COMPARED if getattr(fields, name) is not None)
    if chunk_type == PAIR_TYPE or (QUESTION_KEY in fields.metadata and ANSWER_KEY in fields.metadata):
        terms.append(_PAIR)
    terms += (
        _term("where", (key,), value) for key, value in fields.metadata.items() if isinstance(value, str | int | float)
    )
    terms += _metadata_terms(fields.metadata, ())
    terms += (f"exists:{name}" for name in OWN_FIELDS if getattr(fields, name) not in (None, ()))
    terms += (_term("exists", (key,), None) for key in fields.metadata)
    return list(dict.fromkeys(terms))


def sortable_values(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Return the numbers and texts of ``metadata`` as texts that sort as `filters.python_filters` compares them."""
    return {key: _sortable(value) for key, value in metadata.items() if kind_of(value) in ("number", "string")}


def _sortable(value: Any) -> str:
    """Return ``s`` and a text's first bytes in hexadecimal, or ``n`` and a double's bits, inverted so that they
    sort."""
    if isinstance(value, str):
        return "s" + value.encode("utf-8", "surrogatepass")[:_SORTED_BYTES].hex()
    (bits,) = struct.unpack(">Q", struct.pack(">d", float(value) + 0.0))  # -0.0 becomes 0.0
    return f"n{bits ^ (_ALL_BITS if bits & _SIGN_BIT else _SIGN_BIT):016x}"


def listed_values(fields: DocumentFields) -> dict[str, list[str]]:
    """Return the values of each field that can be counted, as JSON, without those that `sortable_values` gives back."""
    names = [name for name in COUNTED if getattr(fields, name)]
    names += (METADATA + key for key, value in fields.metadata.items() if not _is_given_back(value))
    listed = {name: values_of(fields, name) for name in names}
    return {name: [orjson.dumps(value).decode() for value in values] for name, values in listed.items() if values}


def _is_given_back(value: Any) -> bool:
    kind = kind_of(value)
    if kind == "string":
        return len(value.encode("utf-8", "surrogatepass")) < _SORTED_BYTES
    return kind == "number" and is_exact(value)


def value_of(text: str) -> Scalar | None:
    """Return the value of a sortable text; None where the text does not give it back: it is cut off, or no exact number."""
    if text[0] == "s":
        held = bytes.fromhex(text[1:])
        return held.decode("utf-8", "surrogatepass") if len(held) < _SORTED_BYTES else None
    bits = int(text[1:], 16)
    (number,) = struct.unpack(">d", struct.pack(">Q", bits ^ (_SIGN_BIT if bits & _SIGN_BIT else _ALL_BITS)))
    return plain_number(number) if is_exact(number) else None


def clause_of(filters: Filters) -> Clause | None:
    """Return what a chunk must be like to meet the filters; None if terms cannot say it."""
    parts: list[Clause] = [Having(f"tag:{tag}") for tag in filters.tags]
    parts += (Having(f"{name}:{getattr(filters, name)}") for name in COMPARED if getattr(filters, name) is not None)
    if filters.pairs:
        parts.append(Having(_PAIR))
    if filters.start is not None or filters.end is not None:
        bounds = [None if moment is None else microseconds(moment) for moment in (filters.start, filters.end)]
        parts.append(Between("published_at", *bounds))
    if filters.story_time is not None and filters.story_time < _MOST:
        parts.append(Never(Between("story_time", filters.story_time + 1, None)))
    if filters.readers is not None:
        parts.append(Either((Never(Having(_NOT_PUBLIC)), *(Having(f"reader:{reader}") for reader in filters.readers))))
    clauses = [_metadata_clause(path, value) for path, value in leaves(filters.metadata, ())]
    condition = None if filters.where is None else _condition_clause(filters.where)
    if None in clauses or (condition is None and filters.where is not None):
        return None
    parts += [part for part in (*clauses, condition) if part is not None]
    return Every(tuple(parts))


def microseconds(moment: datetime) -> int:
    """Return a moment as microseconds since 1970; one without a zone is taken as UTC."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(microseconds=1)


def _metadata_terms(value: Any, path: tuple[str, ...]) -> Iterator[str]:
    if isinstance(value, Mapping):
        yield _term("object", path, None)
        for key, inner in value.items():
            yield from _metadata_terms(inner, (*path, key))
    elif isinstance(value, Sequence) and not isinstance(value, str):
        yield _term("list", path, None)
        for scalar in _scalars(value):
            yield _term("has", path, scalar)
            yield _term("lists", path, scalar)
    else:
        yield _term("has", path, value)


def _scalars(values: Sequence[Any]) -> Iterator[Any]:
    """Yield the single values of a list and of the lists in it."""
    for value in values:
        if isinstance(value, Sequence) and not isinstance(value, str):
            yield from _scalars(value)
        elif not isinstance(value, Mapping):
            yield value


def leaves(metadata: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield what objects within objects hold in the end, each with the keys that lead to it."""
    for key, value in metadata.items():
        if isinstance(value, Mapping) and value:
            yield from leaves(value, (*path, key))
        else:
            yield (*path, key), value


def _metadata_clause(path: tuple[str, ...], value: Any) -> Clause | None:
    if isinstance(value, Mapping):
        return Having(_term("object", path, None))
    if isinstance(value, Sequence) and not isinstance(value, str):
        if any(
            isinstance(item, Mapping) or (isinstance(item, Sequence) and not isinstance(item, str)) for item in value
        ):
            return None
        return Every((Having(_term("list", path, None)), *(Having(_term("lists", path, item)) for item in value)))
    return Having(_term("has", path, value))


def _condition_clause(condition: Condition) -> Clause | None:
    if isinstance(condition, Comparison):
        if condition.own:
            return _own_clause(condition)
        if condition.operator == "exists":
            return Having(_term("exists", (condition.key,), None))
        if condition.operator in _ORDERED:
            return _ordered(condition)
        kind = "has" if condition.operator == "has" else "where"
        any_of = Either(tuple(Having(_term(kind, (condition.key,), value)) for value in choices_of(condition)))
        return Never(any_of) if condition.operator in ("ne", "nin") else any_of
    parts = tuple(part for part in map(_condition_clause, condition.parts) if part is not None)
    if len(parts) < len(condition.parts):
        return None
    if condition.operator == "not":
        return Never(Either(parts))
    return Every(parts) if condition.operator == "and" else Either(parts)


def _own_clause(comparison: Comparison) -> Clause:
    if comparison.operator == "exists":
        return Having(f"exists:{comparison.key}")
    if comparison.operator in _ORDERED:
        moment = moment_in(comparison.value)
        if moment is None or comparison.key != "published_at":
            return Either(())
        bound, excluded = microseconds(moment), comparison.operator in ("gt", "lt")
        if comparison.operator in ("gt", "gte"):
            return Between(comparison.key, bound + excluded, None)
        return Between(comparison.key, None, bound - excluded)
    name = "tag" if comparison.key == "tags" else comparison.key
    any_of = Either(tuple(Having(f"{name}:{value}") for value in choices_of(comparison) if isinstance(value, str)))
    return Never(any_of) if comparison.operator in ("ne", "nin") else any_of


def _ordered(comparison: Comparison) -> Clause | None:
    """Return a comparison by order as a range; None for a text too long for it, and a number whose double others share."""
    value = comparison.value
    if kind_of(value) not in ("number", "string"):
        return Either(())
    if isinstance(value, str) and len(value.encode("utf-8", "surrogatepass")) >= _SORTED_BYTES:
        return None
    if not is_exact(value):
        return None
    bound = _sortable(value)
    first, after_last = bound[0], chr(ord(bound[0]) + 1)
    if comparison.operator in ("gt", "gte"):
        return Ordered(comparison.key, bound, after_last, comparison.operator == "gt", True)
    return Ordered(comparison.key, first, bound, False, comparison.operator == "lt")


def _term(kind: str, path: tuple[str, ...], value: Any) -> str:
    """Write a path and a value as a term. Whole numbers are written alike whether they came as integers or as floats."""
    written = orjson.dumps([path, plain_number(value)], option=orjson.OPT_PASSTHROUGH_DATACLASS)
    return f"{kind}:{written.decode()}"
