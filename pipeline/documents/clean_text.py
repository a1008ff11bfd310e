"""Clean a text for storing and cutting, and put a document's text together again from its passages."""

import re
import unicodedata
from collections.abc import Iterable

from pipeline.records import Passage

_LINE_ENDS = re.compile("\r\n?|\x85|\u2028|\x0b")
_PARAGRAPH_ENDS = re.compile("\x0c|\u2029")
_SPACES = re.compile("[\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]")
_SURROGATE = re.compile("[\ud800-\udfff]")


# Controls, non-characters, colours of terminals, and invisible characters that split words or hide text. The joiners U+200C
# and U+200D stay: Persian, Indic scripts and emoji need them.
_UNSEEN = re.compile(
    "\x1b\\[[0-9;]{0,20}[A-Za-z]"
    "|[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\u00ad\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff0-\ufffb"
    "\ufdd0-\ufdef\ufffe\uffff\U000e0000-\U000e007f]"
)
# Radicals and compatibility forms of Chinese characters, which PDF programs write in place of the characters.
_RADICALS = re.compile("[\u2e80-\u2fd5\uf900-\ufaff]")
# Of the Radicals Supplement, which has no compatibility forms: those that are whole characters, by
# EquivalentUnifiedIdeograph.txt of Unicode.
_SUPPLEMENT = dict(
    zip(
        "⺒⺓⺝⺠⺧⺩⺫⺬⺼⺽⻁⻄⻅⻆⻉⻋⻑⻓⻔⻗⻘⻙⻚⻛⻜⻝⻢⻣⻤⻥⻦⻧⻨⻩⻪⻫⻬⻭⻮⻯⻰⻱⻲",
        "巳幺月民牛王目示肉臼虎西见角贝车長长门雨青韦页风飞食马骨鬼鱼鸟卤麦黄黾斉齐歯齿竜龙龜亀",
        strict=True,
    )
)
# Signs of the fonts Symbol and Wingdings, by their places in them, where both mean about the same or one is hardly used.
_SIGNS = {0xF000 + ord(place): sign for place, sign in zip("·§¨Øüv°´±£³à+-=", "•▪☐➢✓❖°×±≤≥→+-=", strict=True)}
_OF_SYMBOL_FONTS = re.compile("[\uf000-\uf0ff]")
_TRAILING_SPACE = re.compile("(?<![ \t])[ \t]+$", re.MULTILINE)
_BLANK_LINES = re.compile("\n{3,}")


def clean(text: str) -> str:
    """Return ``text`` fit for storing and cutting; idempotent. One kind of line end; no control, zero-width or half
    characters, no trailing spaces, at most one blank line in a row."""
    text = _cleaned(text)
    return (_BLANK_LINES.sub("\n\n", text) if "\n\n\n" in text else text).strip("\n ")


def clean_code(text: str) -> str:
    """Return ``text`` as `clean` does, with the indentation of its first line and all blank lines."""
    return _cleaned(text).strip("\n").rstrip()


def _letter(radical: re.Match[str]) -> str:
    letter = _SUPPLEMENT.get(radical[0]) or unicodedata.normalize("NFKC", radical[0])
    return letter if len(letter) == 1 else radical[0]


def _cleaned(text: str) -> str:
    if not text.replace("\n", "").isprintable():  # all others hold only letters, signs, spaces and simple line ends
        if _SURROGATE.search(text):  # halves that belong together are joined, the others dropped
            text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")
        text = _UNSEEN.sub("", text)  # first, because one of them may stand within a line end
        text = _PARAGRAPH_ENDS.sub("\n\n", _LINE_ENDS.sub("\n", text))
        text = _TRAILING_SPACE.sub("", _SPACES.sub(" ", text))
    elif " \n" in text or text.endswith(" "):
        text = _TRAILING_SPACE.sub("", text)
    if not text.isascii():
        text = _RADICALS.sub(_letter, text)
        if _OF_SYMBOL_FONTS.search(text):
            text = text.translate(_SIGNS)
    return text


def seam(gap: int) -> str:
    """Return the separator of two parts of a text that are ``gap`` characters of white space apart."""
    return {0: "", 1: " "}.get(gap, "\n\n")


def joined(passages: Iterable[Passage]) -> str:
    """Join passages in document order without repeating overlaps and leads; reworded passages stay whole. A gap of one
    character becomes a space, a line end before indented code, a longer one an empty line."""
    parts: list[str] = []
    written = 0  # the position in the document up to which the parts reach
    for passage in sorted(passages, key=lambda part: (part.start, -part.end)):
        if parts and passage.end <= written and not passage.reworded:
            continue
        overlap = max(0, written - passage.start) if parts and not passage.reworded else 0
        if parts and not overlap:
            gap = passage.start - written
            parts.append("\n" if gap == 1 and passage.own_text[:1] in " \t" else seam(gap))
        parts.append(passage.own_text[overlap:])
        written = max(written, passage.end)
    return "".join(parts)
