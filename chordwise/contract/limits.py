"""Limits of values, as annotations of their types."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args, get_type_hints


@dataclass(frozen=True, slots=True)
class Length:
    """The most characters of a text or entries of a list. ``example``: a value for documentation."""

    most: int
    least: int = 0
    example: str = ""


def lengths(record: type) -> Mapping[str, Length]:
    """Return the limits of a record's fields that have one, by name."""
    hints = get_type_hints(record, include_extras=True)
    found = {name: length_of(hint) for name, hint in hints.items()}
    return {name: length for name, length in found.items() if length is not None}


def length_of(hint: Any) -> Length | None:
    """Return the limit in a type, also in one that may be None."""
    parts = [hint, *get_args(hint)]
    return next(
        (each for part in parts for each in getattr(part, "__metadata__", ()) if isinstance(each, Length)), None
    )
