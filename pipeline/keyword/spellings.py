"""Alternative spellings of words: identifiers without punctuation or in part, and words with one typing error."""

import re
from collections.abc import Callable, Collection, Iterator
from typing import Final

# Words joined without a space by at most two signs, as in 12LP'-y03/5-XL; 2.5 is a number.
_CHAIN: Final = re.compile(r"(?<![a-z0-9])[a-z0-9]++(?:(?:[-_'/:+#*]{1,2}|(?<![0-9])\.|\.(?![0-9]))[a-z0-9]++)+")
_AMOUNT: Final = re.compile(r"[0-9]+[/:]")  # 1/2lb is not 12lb
_PART: Final = re.compile("[a-z0-9]+")
_DIGIT: Final = re.compile("[0-9]")
_MOST_PARTS: Final = 8  # parts; more make a list or a path, of which only the parts count
_LONGEST_CHAIN: Final = 128  # characters
_MOST_JOINED: Final = 3  # neighbouring parts that are joined, besides all of them

_CODE: Final = re.compile("(?=.*[a-z])(?=.*[0-9])[a-z0-9]{5,20}")
_WORD: Final = re.compile("[a-z]{5,20}")
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"


def joined_parts(
    folded: str, terms_of: Callable[[str], Collection[str]], *, whole: bool = False
) -> Iterator[tuple[str, int, int]]:
    """Yield, with start and end, two or three neighbouring parts of identifiers, and all of them, joined, if they hold
    a letter and a digit: ``12LP'-y03/5-XL`` gives ``12lpy03``, ``12lpy035``, ``y035``, ``y035xl``, ``12lpy035xl``; with
    ``whole`` only the last. ``folded``: see `keyword.terms.fold`; ``terms_of``: a chain's own terms, not repeated."""
    if not _DIGIT.search(folded):
        return
    for chain in _CHAIN.finditer(folded):
        parts = list(_PART.finditer(chain[0]))
        count = len(parts)
        if count > _MOST_PARTS or len(chain[0]) > _LONGEST_CHAIN:
            continue
        seen = set(terms_of(chain[0]))
        shorter = range(2, min(_MOST_JOINED, count - 1) + 1) if not whole else ()
        for first, last in [*((n, n + size) for size in shorter for n in range(count - size + 1)), (0, count)]:
            joined = "".join(part[0] for part in parts[first:last])
            is_code = (
                not joined.isdigit() and not joined.isalpha() and not _AMOUNT.match(chain[0], parts[first].start())
            )
            if is_code and joined not in seen:
                seen.add(joined)
                yield joined, chain.start() + parts[first].start(), chain.start() + parts[last - 1].end()


def near_spellings(term: str) -> list[str]:
    """Return every term one typing error away (a character more, less, other, or two swapped), at most 1,500: anywhere
    in an identifier, behind the first letter of a Latin word; none below 5 or above 20 characters. Of a Japanese word with
    an ending, its Han character; of an Arabic noun, its other number."""
    if not term.isascii():
        return list(_other_word_forms(term))
    is_code = _CODE.fullmatch(term) is not None
    if not is_code and not _WORD.fullmatch(term):
        return []
    typed = _LETTERS + "0123456789" if is_code else _LETTERS
    cuts = [(term[:at], term[at:]) for at in range(0 if is_code else 1, len(term) + 1)]
    spellings = [before + after[1:] for before, after in cuts if after]
    spellings += [before + after[1] + after[0] + after[2:] for before, after in cuts if len(after) > 1]
    spellings += [before + letter + after[1:] for before, after in cuts if after for letter in typed]
    spellings += [before + letter + after for before, after in cuts for letter in typed]
    return [other for other in dict.fromkeys(spellings) if other != term]


_HAN_AND_KANA: Final = re.compile("([\u4e00-\u9fff])[\u3041-\u3096]|[\u3041-\u3096]([\u4e00-\u9fff])")
# Plurals of Arabic that change the vowels of a noun, most often of three or four consonants, and its feminine ending.
_ARTICLE: Final = "ال"
_PLURALS: Final = (re.compile("ا(..)ا(.)"), re.compile("(..)و(.)"), re.compile("(..)ا(.)"), re.compile("(..)ا(..)"))
_SINGULAR: Final = re.compile("([ء-ي]{2})([ء-ي])ه?|([ء-ي]{2})([ء-ي]{2})ه?")


def _other_word_forms(term: str) -> Iterator[str]:
    if match := _HAN_AND_KANA.fullmatch(term):
        yield match[1] or match[2]
    plain = term.removeprefix(_ARTICLE)
    if not (singular := _SINGULAR.fullmatch(plain)) and not any(plural.fullmatch(plain) for plural in _PLURALS):
        return
    forms = dict.fromkeys([plain])
    for plural in filter(None, (pattern.fullmatch(plain) for pattern in _PLURALS)):
        forms |= dict.fromkeys((plural[1] + plural[2], plural[1] + plural[2] + "ه"))
    if singular and singular[1]:
        first, last = singular[1], singular[2]
        forms |= dict.fromkeys((f"ا{first}ا{last}", f"{first}و{last}", f"{first}ا{last}"))
    elif singular:
        forms |= dict.fromkeys([f"{singular[3]}ا{singular[4]}"])
    yield from (f"{article}{form}" for form in forms for article in ("", _ARTICLE) if f"{article}{form}" != term)
