"""The beginning of a long text, masked without masking all of it."""

from __future__ import annotations

from typing import Final

from pipeline.core.redaction import redact

_LONGEST_SECRET: Final = 640  # characters that an e-mail address may have, the longest of what is masked


def masked_beginning(text: str, limit: int) -> str:
    """Up to ``limit`` characters of what `redact` makes of ``text``. Costs what the limit does, however long the text
    is; what may be half of a number at the end of the part that is looked at is not shown."""
    part = text[: limit + 2 * _LONGEST_SECRET]
    masked = redact(part)
    return masked[: limit if len(part) == len(text) else min(limit, len(masked) - _LONGEST_SECRET)]
