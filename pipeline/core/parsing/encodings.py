"""From bytes to clean text."""

from __future__ import annotations

import codecs
import re

from charset_normalizer import from_bytes

from pipeline.core.parsing.utf16 import unmarked_utf16
from pipeline.errors import UndecodableText

_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_BINARY_FORMATS = (
    (b"%PDF-", "a PDF file"),
    (b"PK\x03\x04", "a ZIP archive or an Office document"),
    (b"\xd0\xcf\x11\xe0", "an old Office document"),
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"\x7fELF", "a program"),
)
_CONTROL_BYTES = bytes(code for code in range(32) if code not in b"\t\n\r\f\x1b")
_MOST_CONTROL_BYTES = 0.01  # share of the body; text has next to none, random bytes have a tenth
_SAMPLE = 64 * 1024  # bytes looked at when an encoding has to be guessed

# The most frequent characters of Chinese prose, simplified and traditional: about 40 % of real text, 3 % of text that
# was decoded with the wrong table.
_FREQUENT = frozenset(
    "的一是不了在有人我他这个们中来上大为和国地到以说时要就出会可也你对生能而子那得于着下自之年过发后作里用道行所然家种事成方多经"
    "么去法学如都同现当没动面起看定天分还进好小部其些主样理心她本前开但因只从想实日军者意无力它与长把机十民第公此已工使情明性知"
    "這個們來為國說時會對過發後裡經還沒動進開學種當現實機無與長從樣問關點應體兩車書東話頭給電業區氣門間見"
)
_ENOUGH_FREQUENT = 0.12  # share of the Han characters
_HAN = re.compile("[\u4e00-\u9fff]")
# What Western European text holds above ASCII in Windows-1252, which is rarely more than one byte in seven.
_WESTERN = frozenset("àâäáãåæçéèêëíìîïñóòôöõøœúùûüýÿßÀÂÄÁÃÅÆÇÉÈÊËÍÌÎÏÑÓÒÔÖÕØŒÚÙÛÜÝ’‘“”–—…«»°€£©®·¿¡ºª§\xa0")
_MOST_WESTERN = 1 / 7
_FEW_REPLACED = 0.02  # share of undecodable places among the characters above ASCII

# Names of Python's codecs that are character sets of documents; others are not text, or take quadratic time.
_CHARACTER_SET = re.compile(r"(utf|gb|big5|euc|shift|iso|cp\d|koi8|mac|latin|johab|hz|tis|ascii)")

_LINE_ENDS = re.compile("\r\n?|\x85|\u2028|\x0b")
_PARAGRAPH_ENDS = re.compile("\x0c|\u2029")
_SPACES = re.compile("[\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]")
_SURROGATE = re.compile("[\ud800-\udfff]")
# Controls, non-characters, and what cannot be seen yet parts a word or hides text: zero-width spaces, soft hyphens,
# direction marks, tags. The joiners U+200C and U+200D stay: Persian, Indic scripts and emoji are written with them.
_UNSEEN = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\u00ad\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff0-\ufffb"
    "\ufdd0-\ufdef\ufffe\uffff\U000e0000-\U000e007f]"
)
_TRAILING_SPACE = re.compile("(?<![ \t])[ \t]+$", re.MULTILINE)
_BLANK_LINES = re.compile("\n{3,}")


def decode(body: bytes, *, declared: str | None = None) -> str:
    """The text in ``body``: by its byte order mark, as UTF-16 that lost its mark, as UTF-8, as ``declared``, as Chinese,
    or by a guess.

    A few bytes that are no UTF-8 in a text that otherwise is (a cut or damaged file) are replaced with U+FFFD.
    Raises UndecodableText if the bytes are no text, or text in no encoding that could be recognised.
    """
    for mark, encoding in _BYTE_ORDER_MARKS:
        if body.startswith(mark):
            return _strictly(body[len(mark) :], encoding)
    if (unmarked := unmarked_utf16(body)) is not None:
        return body.decode(unmarked, "replace")
    _refuse_binary(body)
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        pass
    if (text := _as_declared(body, declared)) is not None:
        return text
    for attempt in (_as_damaged_utf8, _as_western, _as_chinese, _as_guessed):
        if (text := attempt(body)) is not None:
            return text
    raise UndecodableText("the text is in no encoding that could be recognised; save it as UTF-8")


def clean(text: str) -> str:
    """``text`` fit for storing, searching and cutting; cleaning it again changes nothing.

    One kind of line end; no control, zero-width or half characters; no space at the ends of lines, no more than one
    blank line in a row, nothing around the whole.
    """
    if _SURROGATE.search(text):  # halves that belong together are joined, the others dropped
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")
    text = _PARAGRAPH_ENDS.sub("\n\n", _LINE_ENDS.sub("\n", text))
    if not text.isascii():
        text = _SPACES.sub(" ", text)
    text = _TRAILING_SPACE.sub("", _UNSEEN.sub("", text))
    return _BLANK_LINES.sub("\n\n", text).strip("\n ")


def _refuse_binary(body: bytes) -> None:
    for signature, what in _BINARY_FORMATS:
        if body.startswith(signature):
            raise UndecodableText(f"the body is {what}, not text")
    controls = len(body) - len(body.translate(None, _CONTROL_BYTES))
    if controls > max(1, len(body) * _MOST_CONTROL_BYTES):
        raise UndecodableText("the body is binary data, not text")


def _strictly(body: bytes, encoding: str) -> str:
    try:
        return body.decode(encoding)
    except UnicodeDecodeError:
        raise UndecodableText(f"the body begins as {encoding.upper()} text, but is not") from None


def _as_declared(body: bytes, declared: str | None) -> str | None:
    if not declared:
        return None
    try:
        encoding = codecs.lookup(declared).name
        if not _CHARACTER_SET.match(encoding):
            return None
        # Pages that say GB2312 mean the larger table that contains it.
        return body.decode("gb18030" if encoding in ("gb2312", "gbk") else encoding)
    except (LookupError, UnicodeError):
        return None


def _as_damaged_utf8(body: bytes) -> str | None:
    text = body.decode("utf-8", "replace")
    replaced = text.count("\ufffd")
    beyond_ascii = len(text.encode("utf-8")) - len(text)  # bytes above one for each character: 0 for plain ASCII
    return text if replaced * 2 < beyond_ascii and replaced <= max(1, beyond_ascii * _FEW_REPLACED) else None


def _as_western(body: bytes) -> str | None:
    try:
        text = body.decode("cp1252")
    except UnicodeDecodeError:
        return None
    beyond_ascii = {character for character in set(text) if not character.isascii()}
    count = sum(text.count(character) for character in beyond_ascii) if beyond_ascii <= _WESTERN else len(text)
    return text if count <= len(text) * _MOST_WESTERN else None


def _as_chinese(body: bytes) -> str | None:
    best, best_share = None, _ENOUGH_FREQUENT
    for encoding in ("gb18030", "big5hkscs"):
        sample = body[:_SAMPLE].decode(encoding, "replace")
        han = _HAN.findall(sample)
        share = sum(character in _FREQUENT for character in han) / len(han) if han else 0.0
        if share >= best_share and sample.count("\ufffd") <= max(1, len(han) * _FEW_REPLACED):
            best, best_share = encoding, share
    return body.decode(best, "replace") if best else None


def _as_guessed(body: bytes) -> str | None:
    guess = from_bytes(body[:_SAMPLE]).best()
    if guess is None:
        return None
    try:
        return body.decode(guess.encoding)
    except (LookupError, UnicodeError):
        return None
