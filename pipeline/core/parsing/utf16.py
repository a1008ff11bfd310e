"""UTF-16 that has lost its byte order mark, told from binary data and from other encodings."""

from __future__ import annotations

import unicodedata

_SAMPLE = 16 * 1024  # bytes looked at
_LEAST_SPACES = 0.04  # share of zero bytes on one side: what ASCII there is, if only the spaces of another script
_LEAST_ZEROS = 2
_MOST_STRAYS = 0.002  # share of zero bytes on the other side
_MOST_ODD = 0.01  # share of characters that no text has
_CHINESE_ENOUGH = 20  # characters, before text without a single ASCII character is believed to be Chinese
_ALMOST_ALL = 0.97
_PUNCTUATION = frozenset("，。、；：？！「」『』“”‘’（）《》〈〉【】—…·　")
# Hardly any text of this length goes without them, in simplified and in traditional characters, and Japanese kana.
_FREQUENT = frozenset("的一是不了在有人我他这這个個们們中来來上大为為和国國地到以说說时時要就出会會可也")
_ENOUGH_FREQUENT = 0.08  # share; the wrong order of bytes gives characters at random, of which 0.2 % are these


def unmarked_utf16(body: bytes) -> str | None:
    """``utf-16-le`` or ``utf-16-be`` if ``body`` is text in it without a mark, else None.

    In text with any ASCII in it, spaces and line ends at least, one byte of these characters is zero, always on the same
    side. Text without any is believed if nearly all of it is Chinese or kana, and enough of it frequent. Text of a few
    Chinese characters alone is not recognised.
    """
    sample = body[:_SAMPLE]
    if len(body) < 4 or len(body) % 2:
        return None
    pairs = len(sample) // 2
    first, second = sample[0::2].count(0), sample[1::2].count(0)
    least, most = max(_LEAST_ZEROS, pairs * _LEAST_SPACES), pairs * _MOST_STRAYS
    if second >= least and first <= most:
        return "utf-16-le" if _is_text(sample, "utf-16-le") else None
    if first >= least and second <= most:
        return "utf-16-be" if _is_text(sample, "utf-16-be") else None
    if max(first, second) <= most and not _is_utf8(sample):
        return next((encoding for encoding in ("utf-16-le", "utf-16-be") if _is_chinese(sample, encoding)), None)
    return None


def _is_text(sample: bytes, encoding: str) -> bool:
    text = _decoded(sample, encoding)
    if text is None:
        return False
    odd = sum(unicodedata.category(each) in ("Cc", "Cn", "Co", "Cs") and each not in "\t\n\r\x0c" for each in text)
    return odd <= len(text) * _MOST_ODD


def _is_chinese(sample: bytes, encoding: str) -> bool:
    text = _decoded(sample, encoding)
    if text is None or len(text) < _CHINESE_ENOUGH:
        return False
    written = sum("\u4e00" <= each <= "\u9fff" or "\u3041" <= each <= "\u30ff" or each in _PUNCTUATION for each in text)
    frequent = sum(each in _FREQUENT or "\u3041" <= each <= "\u3093" for each in text)
    return written >= len(text) * _ALMOST_ALL and frequent >= len(text) * _ENOUGH_FREQUENT


def _decoded(sample: bytes, encoding: str) -> str | None:
    """The sample as text; a character that its end cuts in half is left out."""
    try:
        return sample.decode(encoding)
    except UnicodeDecodeError as error:
        return sample[: error.start].decode(encoding) if error.start >= len(sample) - 2 else None


def _is_utf8(sample: bytes) -> bool:
    try:
        sample.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start >= len(sample) - 3
    return True
