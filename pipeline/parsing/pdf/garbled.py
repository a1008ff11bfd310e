"""Whether the letters of a PDF page have a meaning: the fonts of some files do not say which characters they show."""

import re

_ENOUGH_LETTERS, _ENOUGH_LATIN = 100, 300
_MOST_ODD = 0.25
_LEAST_VOWELS = 0.15  # share of Latin letters; languages have from 0.3
# Short words, each letter 29 places before its own, as the glyphs of many fonts are numbered.
_SHIFTED = frozenset(
    "".join(chr(ord(letter) - 29) for letter in word)
    for word in "the and for with that this der die das und von mit les des los del".split()  # noqa: SIM905
)
_LEAST_SHIFTED, _SHARE_SHIFTED = 2, 0.02
_LATIN, _VOWELS = re.compile("[A-Za-z]+"), "AEIOUYaeiouy"
_ODD = re.compile("\\(cid:\\d+\\)|[\x00-\x1f\x7f-\x9f\u0180-\u019f\u01a2-\u01ae\u01b1-\u036f\ue000-\uf8ff\ufffd]+")


def is_garbled(text: str) -> bool:
    """Return whether a text consists of letters that no language puts beside each other: private and rare characters,
    or hardly any vowel."""
    words = text.split()
    least = max(_LEAST_SHIFTED, _SHARE_SHIFTED * len(words))
    if not _SHIFTED.isdisjoint(words) and sum(word in _SHIFTED for word in words) > least:
        return True
    count = len("".join(words))
    if count < _ENOUGH_LETTERS:
        return False
    is_plain = text.isascii() and text.isprintable() and "(cid:" not in text
    if not is_plain and sum(map(len, _ODD.findall(text))) > _MOST_ODD * count:
        return True
    vowels = sum(map(text.count, _VOWELS))
    if vowels >= _LEAST_VOWELS * count:
        return False
    latin = sum(map(len, _LATIN.findall(text)))
    return latin > max(_ENOUGH_LATIN, 0.5 * count) and vowels < _LEAST_VOWELS * latin
