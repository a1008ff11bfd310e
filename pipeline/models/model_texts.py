"""Prepare texts for a model: make them sendable, mask personal data."""

from __future__ import annotations

import bisect
from typing import Final

from pipeline.privacy.redaction import redact

# The most tokens one input may have: the limit of OpenAI's embedding models, and ours for the local one.
MAX_INPUT_TOKENS = 8192

# A blank text has no direction of its own, and services refuse it. This one stands for all of them.
_BLANK = "."

# Rough and on the high side, so that a batch believed to fit does fit.
_ASCII_PER_TOKEN = 3.0
_TOKENS_PER_WIDE = 1.2
_LONGEST_SECRET: Final = 640  # characters that an e-mail address may have, the longest of what is masked


def sendable(text: str, *, most_tokens: int = MAX_INPUT_TOKENS) -> str:
    """Return ``text`` as a model can take it: no lone surrogates, not blank, the beginning of about ``most_tokens``
    tokens."""
    well_formed = text.encode("utf-8", "replace").decode("utf-8")
    if not well_formed.strip():
        return _BLANK
    return _beginning(well_formed, most_tokens)


def estimated_tokens(text: str) -> int:
    """About how many tokens ``text`` has, without a tokenizer: at least 1, and rather too many than too few."""
    ascii_count = len(text) if text.isascii() else len(text.encode("ascii", "ignore"))
    return 1 + int(ascii_count / _ASCII_PER_TOKEN + (len(text) - ascii_count) * _TOKENS_PER_WIDE)


def _beginning(text: str, max_tokens: int) -> str:
    if len(text) * _TOKENS_PER_WIDE < max_tokens:
        return text  # fits whatever its characters are
    longest = range(min(len(text), int(max_tokens * _ASCII_PER_TOKEN)) + 1)
    return text[: bisect.bisect_right(longest, max_tokens, key=lambda length: estimated_tokens(text[:length])) - 1]


def masked_beginning(text: str, limit: int) -> str:
    """Return up to ``limit`` characters of the redacted ``text`` at a cost of ``limit``; what may be half a number at
    the end is hidden."""
    part = text[: limit + 2 * _LONGEST_SECRET]
    masked = redact(part)
    return masked[: limit if len(part) == len(text) else min(limit, len(masked) - _LONGEST_SECRET)]
