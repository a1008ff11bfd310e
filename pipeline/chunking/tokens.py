"""Count the tokens of a text: an estimate without a vocabulary, fast enough for every text.

The text is read as runs of one kind of character, and a run costs one token for every few characters it begins:

=========================================  =====================
ASCII letters                              7 characters a token
digits, ASCII punctuation, other letters   3 characters a token
Chinese, Japanese, Korean characters       1
other signs (full-width marks, emoji)      1
spaces, control and invisible characters   nothing
=========================================  =====================

This gives about 1.3 tokens an English word, punctuation included. Compared with byte-pair encodings: Llama 2 counts 3 %
less on plain English prose and 16 % more on biomedical abstracts, whose long words it cuts finer. For Chinese the
estimate matches BERT-like embedders, above recent large vocabularies (0.6 to 0.9 a character) and below old ones (1.3
to 1.6). Leave a fifth of a model's window free and texts will hardly ever be cut off.
"""

import functools
import sys
import unicodedata

import numpy as np
from numpy.typing import NDArray

_NOTHING, _LATIN, _DIGIT, _LETTER, _PUNCTUATION, _SINGLE = range(6)
_CHARACTERS_PER_TOKEN = np.array([1, 7, 3, 3, 3, 1], dtype=np.int32)
_UTF_32 = "utf-32-le" if sys.byteorder == "little" else "utf-32-be"

# Letters of which each is a token: kana, bopomofo, hangul, Han, their compatibility and half-width forms.
_SINGLE_LETTERS = (
    (0x1100, 0x11FF),
    (0x2E80, 0x31FF),
    (0x3400, 0x9FFF),
    (0xA960, 0xD7FF),
    (0xF900, 0xFAFF),
    (0xFF66, 0xFFDC),
)
_BASIC_PLANE = 0x10000
_TAGS = 0xE0000


def count_tokens(text: str) -> int:
    """Estimate the number of tokens of ``text``."""
    return int(np.count_nonzero(token_starts(text)))


def token_starts(text: str) -> NDArray[np.bool_]:
    """Return for each character of ``text`` whether a token starts with it."""
    kinds = _kinds(text)
    count = len(kinds)
    if not count:
        return np.zeros(0, dtype=np.bool_)
    positions = np.arange(count, dtype=np.int32)
    run_starts = np.empty(count, dtype=np.bool_)
    run_starts[0] = True
    np.not_equal(kinds[1:], kinds[:-1], out=run_starts[1:])
    within_run = positions - np.maximum.accumulate(np.where(run_starts, positions, 0))
    starts: NDArray[np.bool_] = (within_run % _CHARACTERS_PER_TOKEN[kinds] == 0) & (kinds != _NOTHING)
    return starts


class TokenMap:
    """Token counts of any part of one text, each in constant time."""

    def __init__(self, text: str) -> None:
        self._starts = token_starts(text)
        self._before = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(self._starts, dtype=np.int64)])

    def count(self, start: int, end: int) -> int:
        """Return the tokens of a part: exact if it begins with a space or a token, else one too many at most."""
        if start >= end:
            return 0
        return int(self._before[end] - self._before[start]) + (0 if self._starts[start] else 1)

    def reach(self, start: int, limit: int) -> int:
        """Return the furthest end for which a part from ``start``, a token's, has no more than ``limit`` tokens."""
        return int(np.searchsorted(self._before, self._before[start] + limit, side="right")) - 1


def _kinds(text: str) -> NDArray[np.uint8]:
    if text.isascii():
        return _table()[np.frombuffer(text.encode("ascii"), dtype=np.uint8)]
    codes = np.frombuffer(text.encode(_UTF_32, "surrogatepass"), dtype=np.uint32)
    kinds = _table()[np.minimum(codes, _BASIC_PLANE)]
    kinds[codes >= _TAGS] = _NOTHING
    return kinds


@functools.cache
def _table() -> NDArray[np.uint8]:
    """Return the kind of every character of the basic plane; the last entry is for all others (rare Han, emoji)."""
    table = np.array([_kind(chr(code)) for code in range(_BASIC_PLANE)] + [_SINGLE], dtype=np.uint8)
    for first, last in _SINGLE_LETTERS:
        span = table[first : last + 1]
        span[span == _LETTER] = _SINGLE
    return table


def _kind(character: str) -> int:
    category = unicodedata.category(character)
    if category[0] in "ZC" and category not in ("Co", "Cs"):
        return _NOTHING
    if character.isascii():
        return _LATIN if category[0] == "L" else _DIGIT if category[0] == "N" else _PUNCTUATION
    if category[0] in "LM":
        return _LETTER
    return _DIGIT if category == "Nd" else _SINGLE
