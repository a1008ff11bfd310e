"""JSON with the numbers that the fast parser takes, and with the strings that it does not."""

import json
import math
from collections.abc import Callable
from typing import Any, Final, NoReturn

_LONGEST_INT64: Final = 20  # characters of -(2**63) and of 2**64 - 1
_LEAST, _BEYOND = -(2**63), 2**64


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def loads(text: str, *, constant: Callable[[str], Any] = _refuse) -> Any:
    """Parse JSON that may hold lone surrogates, reading numbers as orjson does: an integer beyond 64 bits becomes a float.
    ``constant``: gives the value of NaN and Infinity.

    Raises json.JSONDecodeError; ValueError for NaN and Infinity by default, and a number no float can hold; RecursionError.
    """
    return json.loads(text, parse_constant=constant, parse_int=_integer, parse_float=_finite)


def _integer(digits: str) -> int | float:
    if len(digits) <= _LONGEST_INT64 and _LEAST <= (value := int(digits)) < _BEYOND:
        return value
    return _finite(digits)


def _finite(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise ValueError("a number is too large")
    return value
