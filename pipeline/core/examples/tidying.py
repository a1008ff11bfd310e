"""Values of a book as they are to be stored: white space, tags, shown values."""

from __future__ import annotations

import re

from pipeline.core.normal_form import normal_form
from pipeline.core.parsing.encodings import clean

_BETWEEN_TAGS = re.compile("[,，;；、|｜\n\t]")
_LONGEST_SHOWN = 40  # characters of a value in a sentence about it


def one_line(text: str) -> str:
    """``text`` in normal form C without control characters, every stretch of white space one space."""
    return " ".join(normal_form("NFC", clean(text)).split())


def lines(text: str) -> str:
    """The same, but line ends stay; blank lines go, and white space around lines."""
    tidy = (" ".join(line.split()) for line in normal_form("NFC", clean(text)).split("\n"))
    return "\n".join(line for line in tidy if line)


def split_tags(text: str) -> list[str]:
    """The tags in a cell, which may stand between commas, semicolons, enumeration commas, bars, or on lines."""
    return [tag for tag in map(one_line, _BETWEEN_TAGS.split(text)) if tag]


def shown(value: object) -> str:
    """A value in quotes, short enough for a sentence and with nothing that could move a cursor."""
    text = one_line(str(value))
    return f"“{text[: _LONGEST_SHOWN - 1]}…”" if len(text) > _LONGEST_SHOWN else f"“{text}”"
