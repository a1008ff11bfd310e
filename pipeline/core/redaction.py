"""Personal data in text, found by its form and its check digits, and replaced by the name of its kind.

Every pattern is bounded in length and starts only where a number or an address can start, so the cost grows with the
length of the text and no faster. A number that fails its check digit stays: it is an order number, not a bank card.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

_ID_FACTORS: Final = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)  # GB 11643, ISO 7064 MOD 11-2
_ID_CHECKS: Final = "10X98765432"

_ALONE: Final = r"(?<![0-9A-Za-z])"  # a number inside a longer code is part of the code
_ENDS: Final = r"(?![0-9A-Za-z])"


def redact(text: str) -> str:
    """``text`` with e-mail addresses, Chinese identity numbers, bank cards and phone numbers replaced by ``[email]``,
    ``[id-card]``, ``[bank-card]`` and ``[phone]``. Doing it twice changes nothing more."""
    for rule in _RULES:
        text = rule.pattern.sub(rule.replace, text)
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    """One kind of personal data: how it looks, and whether what looks like it is it."""

    label: str
    pattern: re.Pattern[str]
    holds: Callable[[str], bool] = lambda _: True

    def replace(self, match: re.Match[str]) -> str:
        return self.label if self.holds(match[0]) else match[0]


def is_identity_number(number: str) -> bool:
    """Whether ``number``, 18 characters without separators, has a possible birth date and the right check digit."""
    year, month, day = int(number[6:10]), int(number[10:12]), int(number[12:14])
    if not (1850 <= year <= 2100 and 1 <= month <= 12 and 1 <= day <= 31):
        return False
    total = sum(factor * int(digit) for factor, digit in zip(_ID_FACTORS, number, strict=False))
    return _ID_CHECKS[total % 11] == number[17].upper()


def is_luhn(number: str) -> bool:
    """Whether the digits of ``number`` end in the check digit that bank cards have (Luhn, ISO/IEC 7812)."""
    total = 0
    for place, digit in enumerate(reversed(number)):
        doubled = int(digit) * (1 + place % 2)
        total += doubled - 9 if doubled > 9 else doubled
    return total % 10 == 0


def _bare(number: str) -> str:
    return re.sub(r"[ -]", "", number)


# In this order: what an earlier rule takes cannot be half taken by a later one.
_RULES: Final = (
    _Rule(
        label="[email]",
        pattern=re.compile(
            r"(?<![A-Za-z0-9])[A-Za-z0-9._%+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}" + _ENDS
        ),
    ),
    _Rule(
        label="[id-card]",
        pattern=re.compile(_ALONE + r"[1-9][0-9]{5}[ -]?[0-9]{8}[ -]?[0-9]{3}[0-9Xx]" + _ENDS),
        holds=lambda found: is_identity_number(_bare(found)),
    ),
    _Rule(
        label="[bank-card]",
        pattern=re.compile(
            _ALONE
            + r"(?:[2-69][0-9]{12,18}"
            + r"|[2-69][0-9]{3}([ -])[0-9]{4}\1[0-9]{4}\1[0-9]{1,7}(?:\1[0-9]{1,3})?"
            + r"|3[47][0-9]{2}([ -])[0-9]{6}\2[0-9]{5})"
            + _ENDS
        ),
        holds=lambda found: 13 <= len(_bare(found)) <= 19 and is_luhn(_bare(found)),
    ),
    _Rule(
        label="[phone]",
        pattern=re.compile(_ALONE + r"(?:(?:\+|00)?86[ -]?)?1[3-9][0-9]([ -]?)[0-9]{4}\1[0-9]{4}" + _ENDS),
    ),
    _Rule(label="[phone]", pattern=re.compile(r"(?<![A-Za-z+])\+[0-9](?:[ .()-]{0,2}[0-9]){6,14}" + _ENDS)),
    _Rule(label="[phone]", pattern=re.compile(_ALONE + r"0[0-9]{2,3}-[0-9]{7,8}" + _ENDS)),
)
