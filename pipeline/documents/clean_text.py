"""Clean a text for storing and cutting."""

from __future__ import annotations

import re

_LINE_ENDS = re.compile("\r\n?|\x85|\u2028|\x0b")
_PARAGRAPH_ENDS = re.compile("\x0c|\u2029")
_SPACES = re.compile("[\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]")
_SURROGATE = re.compile("[\ud800-\udfff]")


# Controls, non-characters, and invisible characters that split a word or hide text: zero-width spaces, soft hyphens,
# direction marks, tags. The joiners U+200C and U+200D stay: Persian, Indic scripts and emoji are written with them.
_UNSEEN = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\u00ad\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff0-\ufffb"
    "\ufdd0-\ufdef\ufffe\uffff\U000e0000-\U000e007f]"
)
_TRAILING_SPACE = re.compile("(?<![ \t])[ \t]+$", re.MULTILINE)
_BLANK_LINES = re.compile("\n{3,}")


def clean(text: str) -> str:
    """Return ``text`` fit for storing and cutting; idempotent. One kind of line end; no control, zero-width or half
    characters, no trailing spaces, at most one blank line in a row."""
    if _SURROGATE.search(text):  # halves that belong together are joined, the others dropped
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")
    text = _UNSEEN.sub("", text)  # first, because one of them may stand within a line end
    text = _PARAGRAPH_ENDS.sub("\n\n", _LINE_ENDS.sub("\n", text))
    if not text.isascii():
        text = _SPACES.sub(" ", text)
    return _BLANK_LINES.sub("\n\n", _TRAILING_SPACE.sub("", text)).strip("\n ")
