"""Find personal data in text by form and check digits, and replace it by the name of its kind.

Patterns are bounded and start only where a number or address can, so the cost is linear. A number with a wrong check
digit stays. Full-width characters and Unicode's dashes and spaces count as plain ones.
"""

import enum
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Final

_ID_FACTORS: Final = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)  # GB 11643, ISO 7064 MOD 11-2
_ID_CHECKS: Final = "10X98765432"
_PROVINCES: Final = frozenset(
    {*range(11, 16), *range(21, 24), *range(31, 38), *range(41, 47), *range(50, 55), *range(61, 66), 71, 81, 82, 83}
)  # GB/T 2260, the first two digits

_ALONE: Final = r"(?<![0-9A-Za-z_])"  # a number inside a longer code is part of the code
_ENDS: Final = r"(?![0-9A-Za-z_])"

# One character for one, so that a place in the folded text is the same place in the text.
_FOLDED: Final[dict[int, int | str]] = {
    **{wide: wide - 0xFEE0 for wide in range(0xFF01, 0xFF5F)},
    **dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013\u2014\u2212\ufe63"), "-"),
    **dict.fromkeys(map(ord, "\u00a0\u2002\u2003\u2007\u2009\u202f\u3000"), " "),
}
_POSSIBLE: Final = re.compile(r"[0-9@]")


class MaskedKind(enum.StrEnum):
    """Kinds of personal data; the kind in brackets replaces it."""

    EMAIL = "email"
    ID_CARD = "id-card"
    BANK_CARD = "bank-card"
    PHONE = "phone"


def redact(text: str, *, kinds: Collection[MaskedKind] = tuple(MaskedKind)) -> str:
    """Replace e-mail addresses, Chinese identity numbers, bank cards and phone numbers, of the wanted ``kinds``, by
    ``[email]``, ``[id-card]``, ``[bank-card]`` and ``[phone]``; idempotent. Without a check digit (phones, 15-digit
    identity numbers) the form decides: masking too much is preferred."""
    for rule in _RULES:
        if rule.kind in kinds:
            text = _without(rule, text)
    return text


def is_identity_number(number: str) -> bool:
    """Return whether ``number``, 18 characters without separators, has a possible birth date and the right check digit."""
    year, month, day = int(number[6:10]), int(number[10:12]), int(number[12:14])
    if not (1850 <= year <= 2100 and 1 <= month <= 12 and 1 <= day <= 31):
        return False
    total = sum(factor * int(digit) for factor, digit in zip(_ID_FACTORS, number, strict=False))
    return _ID_CHECKS[total % 11] == number[17].upper()


def is_old_identity_number(number: str) -> bool:
    """Return whether 15 digits begin with a province and have a possible birthday. There is no check digit."""
    return int(number[:2]) in _PROVINCES and 1 <= int(number[8:10]) <= 12 and 1 <= int(number[10:12]) <= 31


def is_luhn(number: str) -> bool:
    """Return whether the digits of ``number`` end in the check digit of bank cards (Luhn, ISO/IEC 7812)."""
    total = 0
    for index, digit in enumerate(reversed(number)):
        doubled = int(digit) * (1 + index % 2)
        total += doubled - 9 if doubled > 9 else doubled
    return total % 10 == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    """One form of personal data: its pattern, and a check of its matches."""

    kind: MaskedKind
    pattern: re.Pattern[str]
    holds: Callable[[str], bool] = lambda _: True


def _without(rule: _Rule, text: str) -> str:
    folded = text if text.isascii() else text.translate(_FOLDED)
    if not _POSSIBLE.search(folded):
        return text
    pieces, after = [], 0
    for start, end in _places(rule, folded):
        pieces += [text[after:start], f"[{rule.kind}]"]
        after = end
    return "".join([*pieces, text[after:]]) if pieces else text


def _places(rule: _Rule, folded: str) -> Iterator[tuple[int, int]]:
    """Yield where the rule applies. A group of digits beside a number can look like a part of it, so a match that fails
    its check is tried without its last groups, then from its second character on."""
    position = 0
    while match := rule.pattern.search(folded, position):
        number = match[0]
        while number and not (rule.pattern.fullmatch(number) and rule.holds(number)):
            number = number[: max(number.rfind(" "), number.rfind("-"), 0)]
        if number:
            yield match.start(), match.start() + len(number)
        position = match.start() + (len(number) or 1)


def _bare(number: str) -> str:
    return re.sub(r"[ -]", "", number)


# In this order: a later rule cannot take half of an earlier rule's match.
_RULES: Final = (
    _Rule(
        kind=MaskedKind.EMAIL,
        pattern=re.compile(
            r"(?<![A-Za-z0-9])[A-Za-z0-9._%+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}" + _ENDS
        ),
    ),
    _Rule(
        kind=MaskedKind.ID_CARD,
        pattern=re.compile(_ALONE + r"[1-9][0-9]{5}[ -]?[0-9]{4}[ -]?[0-9]{4}[ -]?[0-9]{3}[0-9Xx]" + _ENDS),
        holds=lambda number: is_identity_number(_bare(number)),
    ),
    _Rule(
        kind=MaskedKind.BANK_CARD,
        pattern=re.compile(
            _ALONE
            + r"(?:[2-69][0-9]{12,18}"
            + r"|[2-69][0-9]{3}([ -])[0-9]{4}\1[0-9]{4}\1[0-9]{1,7}(?:\1[0-9]{1,3})?"
            + r"|3[47][0-9]{2}([ -])[0-9]{6}\2[0-9]{5})"
            + _ENDS
        ),
        holds=lambda number: 13 <= len(_bare(number)) <= 19 and is_luhn(_bare(number)),
    ),
    _Rule(
        kind=MaskedKind.ID_CARD,
        pattern=re.compile(_ALONE + r"[1-9][0-9]{5}[ -]?[0-9]{6}[ -]?[0-9]{3}" + _ENDS),
        holds=lambda number: is_old_identity_number(_bare(number)),
    ),
    _Rule(
        kind=MaskedKind.PHONE,
        pattern=re.compile(_ALONE + r"(?:(?:\+|00)?86[ -]?)?1[3-9][0-9][ -]?[0-9]{4}[ -]?[0-9]{4}" + _ENDS),
    ),
    _Rule(kind=MaskedKind.PHONE, pattern=re.compile(r"(?<![0-9A-Za-z_.])1[3-9][0-9]\.[0-9]{4}\.[0-9]{4}" + _ENDS)),
    _Rule(kind=MaskedKind.PHONE, pattern=re.compile(r"(?<![A-Za-z+])\+[0-9](?:[ .()-]{0,2}[0-9]){6,14}" + _ENDS)),
    _Rule(kind=MaskedKind.PHONE, pattern=re.compile(_ALONE + r"0[0-9]{2,3}[ -][0-9]{7,8}" + _ENDS)),
    _Rule(kind=MaskedKind.PHONE, pattern=re.compile(r"\(0[0-9]{2,3}\)[ -]?[0-9]{7,8}" + _ENDS)),
)
