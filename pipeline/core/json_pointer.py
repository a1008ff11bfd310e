"""JSON Pointer (RFC 6901): one value inside a decoded JSON document."""

from __future__ import annotations

import re
from typing import Any

_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")
_FORM = re.compile(r"(?:/(?:[^~/]|~[01])*)*")

MISSING = object()


def is_pointer(text: str) -> bool:
    """Whether it is a pointer at all; the empty one means the whole document."""
    return _FORM.fullmatch(text) is not None


def resolve(document: Any, pointer: str) -> Any:
    """What ``pointer`` leads to, `MISSING` if it leads nowhere. Never raises, whatever the document holds."""
    found = document
    for step in pointer.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict):
            found = found.get(name, MISSING)
        elif isinstance(found, list) and _INDEX.fullmatch(name) and int(name) < len(found):
            found = found[int(name)]
        else:
            return MISSING
    return found
