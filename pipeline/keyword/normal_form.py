"""Unicode normal forms in time linear in the length of any text."""

import functools
import hashlib
import sys
import unicodedata
from typing import Literal

import numpy as np
from numpy.typing import NDArray

# `unicodedata.normalize` sorts the combining marks after a character by insertion, in time that grows with the square
# of their number. No language has more than a few; UAX 15 calls a text with at most 30 in a row stream-safe.
_MARKS_AT_ONCE = 30
_HARMLESS_LENGTH = 256  # characters: too short for their square to matter
_NO_MARKS_FROM = 0x1F000  # emoji, rare Han and private characters
_UTF_32 = "utf-32-le" if sys.byteorder == "little" else "utf-32-be"


def normal_form(form: Literal["NFC", "NFD", "NFKC", "NFKD"], text: str) -> str:
    """Return `unicodedata.normalize` of a text, but sort runs of more than 30 marks in pieces of 30."""
    if len(text) <= _HARMLESS_LENGTH or text.isascii():
        return unicodedata.normalize(form, text)
    codes = np.frombuffer(text.encode(_UTF_32, "surrogatepass"), dtype=np.uint32)
    marks = _is_mark()[np.minimum(codes, _NO_MARKS_FROM)]
    if np.count_nonzero(marks) < _MARKS_AT_ONCE:
        return unicodedata.normalize(form, text)
    pieces, start = [], 0
    for end in _cuts(marks):
        pieces.append(unicodedata.normalize(form, text[start:end]))
        start = end
    pieces.append(unicodedata.normalize(form, text[start:]))
    return "".join(pieces)


def content_hash(text: str) -> bytes:
    """Return a hash that ignores case, white space and Unicode forms (full width, composed)."""
    normal = " ".join(normal_form("NFKC", text).casefold().split())
    return hashlib.blake2b(normal.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _cuts(marks: NDArray[np.bool_]) -> list[int]:
    """Return the positions after every 30 consecutive marks."""
    positions = np.flatnonzero(marks)
    begins = np.flatnonzero(np.diff(positions, prepend=-2) != 1)  # for each run, the index of its first mark
    lengths = np.diff(begins, append=len(positions))
    return [
        int(positions[begin]) + end
        for begin, length in zip(begins[lengths >= _MARKS_AT_ONCE], lengths[lengths >= _MARKS_AT_ONCE], strict=True)
        for end in range(_MARKS_AT_ONCE, int(length) + 1, _MARKS_AT_ONCE)
    ]


@functools.cache
def _is_mark() -> NDArray[np.bool_]:
    return np.fromiter((unicodedata.combining(chr(code)) > 0 for code in range(_NO_MARKS_FROM + 1)), dtype=np.bool_)
