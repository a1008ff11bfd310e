"""The beginning of a long text, masked without masking all of it."""

from __future__ import annotations

from typing import Final

from pipeline.core.redaction import redact

_LONGEST_SECRET: Final = 640  # characters that an e-mail address may have, the longest of what is masked


def masked_beginning(text: str, limit: int) -> str:
    """Return up to ``limit`` characters of the redacted ``text`` at a cost of ``limit``; what may be half a number at
    the end is hidden."""
    part = text[: limit + 2 * _LONGEST_SECRET]
    masked = redact(part)
    return masked[: limit if len(part) == len(text) else min(limit, len(masked) - _LONGEST_SECRET)]
