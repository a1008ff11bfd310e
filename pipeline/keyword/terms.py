"""The keyword index's analysis: text to terms, and terms to the tokens that are written to the FULLTEXT column."""

import functools
import hashlib
import re
import threading
import unicodedata
from collections.abc import Iterable, Iterator
from itertools import chain, compress, filterfalse
from operator import add, not_

import snowballstemmer

from pipeline.caches import SelfFillingDict
from pipeline.keyword.han_variants import SIMPLIFIED
from pipeline.keyword.normal_form import normal_form
from pipeline.keyword.other_forms import compounds, passage_forms
from pipeline.keyword.spellings import joined_parts
from pipeline.records import Scope

# Increment this whenever the terms of the same text change, and note the digest in
# tests/unit/documents/test_unchanged_uploads.py. The sweeper (`maintenance.sweep`) rewrites the terms of older rows.
VERSION = 11

# Scripts written without spaces between words, and hangul, whose words change their endings: cut into bigrams.
_HAN = "\u3005-\u3007\u3021-\u3029\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U000323af"
_KANA = "\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"
_HANGUL = "\u1100-\u11ff\uac00-\ud7af"
_SOUTH_EAST_ASIAN = "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ecf\u1000-\u103f\u1050-\u109f\u1780-\u17d3"
_UNSPACED = _HAN + _KANA + _HANGUL + _SOUTH_EAST_ASIAN + "\u3100-\u312f"
_FIRST_UNSPACED = "\u0e01"
# Characters that folding never turns into one of these scripts.
_BEYOND_SPACED = re.compile("[^\u0000-\u0e00\u2000-\u206f\u20a0-\u20cf\u2122]")

# Vowel signs and other marks of the Indian scripts, without which words fall apart; `\w` has only their letters.
_INDIC_MARKS = "".join(chr(code) for code in range(0x0900, 0x0E00) if unicodedata.category(chr(code)) in ("Mn", "Mc"))

_LETTERS = rf"(?:[^\W_{_UNSPACED}]|[{_INDIC_MARKS}])+"
_WORD = rf"{_LETTERS}(?:[-._@&']{_LETTERS}|,\d{{3}}(?!\d))*(?:\+\+|#)?"
_ASCII_WORD = re.compile(r"[a-z0-9]+(?:[-._@&'][a-z0-9]+|,\d{3}(?!\d))*(?:\+\+|#)?")
ANY_WORD = re.compile(rf"[{_UNSPACED}]+|{_WORD}")
UNSPACED_START = re.compile(f"[{_UNSPACED}]")
_LETTER_WITH_HAN = re.compile(rf"(?<![a-z])([ai]) ?[{_HAN}]")  # A股: a letter that is no word of English there
_HAN_CHARACTER = re.compile(f"[{_HAN}]")

_JOINERS = re.compile(r"[-._@&]")
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)([a-zα-ωа-я]{1,4})")
_COMPOUND = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)+")
_VERSION = re.compile(r"v(\d+(?:\.\d+)+)")
_DOTTED_WORDS = re.compile(r"[a-z]{2,}\.[a-z]{2,3}")
_VERSION_AND_MORE = re.compile(r"(\d+(?:\.\d+)+)-([0-9-]*+[a-z][a-z0-9-]*)")

# One spelling for characters typed in several ways, and for digits of other scripts; signs that NFKC would join to the
# word before them become spaces.
_ONE_SPELLING = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u02bc\u2032\uff07", "'"),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2212\ufe63\uff0d", "-"),
        **dict.fromkeys("\u2122\u00ae\u00a9\u2120", " "),
        **dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff\u00ad\u093c", None),
        **dict(zip("\u0958\u0959\u095a\u095b\u095c\u095d\u095e\u095f", "कखगजडढफय", strict=True)),  # without their point
        **{
            chr(zero + digit): str(digit)
            for zero in (
                *(0x0660, 0x06F0, 0x0966, 0x09E6, 0x0A66, 0x0AE6, 0x0BE6, 0x0C66, 0x0CE6, 0x0D66),
                *(0x0E50, 0x0ED0, 0x1040, 0x17E0),
            )
            for digit in range(10)
        },
    }
)
_TYPED_IN_SEVERAL_WAYS = re.compile(f"[{''.join(map(chr, _ONE_SPELLING))}]")
_WIDE_PUNCTUATION = [(wide, normal_form("NFKC", wide)) for wide in "，：；？！（）"]
_LETTERS_WITHOUT_ACCENT = str.maketrans(
    {"ø": "o", "ł": "l", "þ": "th", "æ": "ae", "œ": "oe", "ı": "i", "ک": "ك"}
    | dict.fromkeys("đð", "d")
    | dict.fromkeys("ىی", "ي")
    | dict.fromkeys("ةہ", "ه")
)
# Of Latin, Greek and Cyrillic; the points of Hebrew; the vowel marks, hamza and tatweel of Arabic.
_ACCENTS = re.compile("[\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0640\u064b-\u0655\u0670]")
_DASH_BETWEEN_DIGITS = re.compile(r"(?<=\d)[\u2014\u2015]{1,2}(?=\d)")  # as in GB/T 19001—2016
_MAY_HAVE_ACCENTS = re.compile("[\u00c0-\u06ff\u1e00-\u1fff]")
_MAY_BE_TRADITIONAL = re.compile("[\u3400-\u9fff]")

_LONGEST_STEMMED = 40  # characters; nothing longer is an English word, and the stemmer's time grows with length
_MOST_REMEMBERED = 100_000  # words: about 20 MB
_MOST_TOKENS = 5_000  # of each scope: about 0.7 MB; all but rare words
_LONGEST_TERM = 128  # characters; the rest of a longer one (an encoded blob) is ignored
_MOST_PARTS = 8  # parts of an identifier kept whole; more make a list or a path, of which only the parts count


def _set_of(words: str) -> frozenset[str]:
    return frozenset(words.split())


# Words of questions that answers need not hold, unless a question has nothing else. Dropped from queries only, so that
# the index never loses a word.
STOP_WORDS = _set_of(
    """a about an and any are as at be been but by can could did do does for from had has have how i if in into is it
    its me my of on or our shall should so some such than that the their them then there these they this those to was
    we were what when where which while who whom whose why will with would you your"""
)

# The Chinese equivalents: bigrams of question words, and those with a particle in them unless the two make a word.
# Dropping them from queries gains 0.008 nDCG@10 on cmrc2018.
_CHINESE_FILLERS = _set_of(
    """什时 多少 如何 哪个 哪些 哪里 哪年 哪一 为何 为什 何时 几个 怎样 谁的 是谁 有哪 有什 在哪 甚时 有甚 为甚"""
)
_CHINESE_PARTICLE = re.compile("[的是么]")
_CHINESE_WORDS = _set_of("目的 的士 的确 标的 是非 国是")

# Particles and pronouns: Han characters that are not worth searching for alone.
_NEVER_ALONE = frozenset("的一是不了在有我他她它这个们来到为你着就那和要也得以会之与及而其于被把从对等所或但由并")


def analyze(text: str, *, day_first: bool = False) -> list[str]:
    """Return the index terms of ``text``, in order and with repetitions.

    Text is normalised (NFKC), case and accents are folded. English words are stemmed. Words with digits or inner
    punctuation are kept whole and in parts: ``PPR-9087`` gives ``ppr9087``, ``ppr``, ``9087``, so that ``PPR9087`` and
    ``PPR 9087`` match it too; see also `spellings.joined_parts`. Chinese, Japanese, Korean and the unspaced scripts
    of South-East Asia become bigrams of characters, traditional ones in their simplified form; every Han character
    except particles is also added once at the end of the whole text, so that a query of a single character can match.
    The other forms of what the text names come after its words (`other_forms.passage_forms`). ``day_first``: 3/5/2024 is in
    May only.
    """
    if is_spaced(text):
        terms = list(chain.from_iterable(map(_terms_by_piece.__getitem__, _one_case(text).split())))
        terms.extend(map(stem, _forms(text, day_first=day_first)))
        return terms
    terms = []
    inner: set[str] = set()
    alone: set[str] = set()
    folded = fold(text)
    for word in ANY_WORD.findall(folded):
        if word[0] < _FIRST_UNSPACED or not UNSPACED_START.match(word):
            terms.extend(_terms_by_word[word])
            continue
        if len(word) > 1:
            terms.extend(map(add, word, word[1:]))
            inner.update(word)
        else:
            terms.append(word)
            alone.add(word)
    terms.extend(joined for joined, _, _ in joined_parts(folded, terms_of_words))
    terms.extend(stem(form.term) for form in (*compounds(folded), *passage_forms(text, folded, day_first=day_first)))
    if inner:
        terms.extend(_HAN_CHARACTER.findall("".join(sorted(inner - alone - _NEVER_ALONE))))
    return terms


def content_terms(text: str) -> list[str]:
    """Return the terms of `analyze` without the English stop words, in order and with repetitions."""
    if is_spaced(text):
        terms = list(chain.from_iterable(map(_content_by_piece.__getitem__, _one_case(text).split())))
        terms.extend(filterfalse(STOP_WORDS.__contains__, map(stem, _forms(text))))
        return terms
    return list(filterfalse(STOP_WORDS.__contains__, analyze(text)))


def terms_of_word(word: str) -> tuple[str, ...]:
    """Return the terms of `analyze` for a single word of ASCII letters."""
    return _terms_by_word[word.lower()]


def pieces_with(terms: frozenset[str], text: str) -> Iterator[tuple[int, str]]:
    """Yield the whitespace-separated pieces of ``text``, for which `is_spaced` holds, whose analysis gives any of
    ``terms``, in order, each with its start. Pieces without any, the majority, cost no interpreter step."""
    text = _one_case(text)
    pieces = text.split()
    misses = map(terms.isdisjoint, map(_terms_by_piece.__getitem__, pieces))
    end = 0
    for piece in compress(pieces, map(not_, misses)):
        start = text.index(piece, end)
        while not _stands_alone(text, start, start + len(piece)):  # part of another match
            start = text.index(piece, start + 1)
        end = start + len(piece)
        yield start, piece


def _stands_alone(text: str, start: int, end: int) -> bool:
    return (start == 0 or text[start - 1].isspace()) and (end == len(text) or text[end].isspace())


def query_terms(text: str) -> list[str]:
    """Return the terms to search for, each once, in order of first appearance; empty if ``text`` holds no word.

    The analysis is that of `analyze`, except that English stop words and Chinese question words are dropped unless
    nothing else is left, that a Han character is a term only where it stands alone, and that an identifier's parts are
    joined only all together.
    """
    return list(counted_query_terms(text))


def counted_query_terms(text: str) -> dict[str, int]:
    """Return the terms of `query_terms`, in their order, and how often each occurs in ``text``."""
    wanted: dict[str, int] = {}
    dropped: dict[str, int] = {}
    folded = fold(text)
    with_han = frozenset(_LETTER_WITH_HAN.findall(folded) if not folded.isascii() else ())
    for word in ANY_WORD.findall(folded):
        if word[0] >= _FIRST_UNSPACED and UNSPACED_START.match(word):
            for term in map(add, word, word[1:]) if len(word) > 1 else word:
                group = dropped if _is_filler(term) else wanted
                group[term] = group.get(term, 0) + 1
        else:
            group = dropped if word in STOP_WORDS and word not in with_han else wanted
            for term in _terms_by_word[word]:
                group[term] = group.get(term, 0) + 1
    for joined, _, _ in joined_parts(folded, terms_of_words, whole=True):
        wanted[joined] = wanted.get(joined, 0) + 1
    return wanted or dropped


def terms_in_order(text: str) -> tuple[str, ...]:
    """Return the terms of all words as rows have them side by side: none is dropped, and none added at the end."""
    terms: list[str] = []
    for word in ANY_WORD.findall(fold(text)):
        is_run = word[0] >= _FIRST_UNSPACED and UNSPACED_START.match(word)
        terms.extend(_terms_by_word[word] if not is_run else map(add, word, word[1:]) if len(word) > 1 else (word,))
    return tuple(terms)


def _forms(text: str, *, day_first: bool = False) -> Iterator[str]:
    """Yield the other forms in a text of words between spaces."""
    return (form.term for form in passage_forms(text, fold(text), day_first=day_first))


def terms_of_words(folded: str) -> list[str]:
    """Return the terms of the words of an already folded text without spaces, without joining the parts of identifiers."""
    return [term for word in _ASCII_WORD.findall(folded) for term in _terms_by_word[word]]


def former_terms(text: str) -> dict[str, list[str]]:
    """Return the terms of ``text`` as rows of version 1 have them, which distinguishes traditional characters."""
    before = _fold(text)
    after = before.translate(SIMPLIFIED)
    pairs = ((after[at : at + 2], before[at : at + 2]) for at in range(len(before) - 1)) if before != after else ()
    former: dict[str, list[str]] = {}
    for new, old in dict.fromkeys(pair for pair in (*pairs, (after, before)) if pair[0] != pair[1]):
        former.setdefault(new, []).append(old)
    return former


def holds_words(text: str) -> bool:
    """Return whether `query_terms` would give any term. Stops at the first word and does not analyse it."""
    match = _ASCII_WORD.search(text.lower()) if text.isascii() else ANY_WORD.search(fold(text))
    return match is not None


class Tokenizer:
    """Turns terms into the tokens of one scope, caching those it has seen. Safe to share between threads.

    A token, the unit of the FULLTEXT column, is 13 lower-case base32 characters (a-z, 2-7) of a 64-bit BLAKE2b hash
    over tenant, namespace and term. It is long enough for every minimum token size, is never a stop word, has no syntax
    in BOOLEAN mode, and a term of one scope never matches another scope's (two terms of a scope of a million terms
    share a token with a probability of 3 in 100 million).
    """

    def __init__(self, scope: Scope) -> None:
        # Prefix each part with its length: no two scopes can give the same bytes, whatever characters their names hold.
        parts = [part.encode("utf-8", "surrogatepass") for part in (scope.tenant_id, scope.namespace)]
        salted = hashlib.blake2b(b"".join(len(part).to_bytes(4, "big") + part for part in parts), digest_size=8)
        self._tokens = SelfFillingDict(functools.partial(_token, salted), most=_MOST_TOKENS)

    def token(self, term: str) -> str:
        """Return the token of ``term`` in this scope."""
        return self._tokens[term]

    def tokens(self, terms: Iterable[str]) -> list[str]:
        """Return the tokens of ``terms``, in order and with repetitions."""
        return list(map(self._tokens.__getitem__, terms))


def _token(salted: hashlib.blake2b, term: str) -> str:
    hashing = salted.copy()
    hashing.update(term.encode("utf-8", "surrogatepass"))
    return _base32(int.from_bytes(hashing.digest(), "big"))


@functools.lru_cache(maxsize=8)
def tokenizer_of(scope: Scope) -> Tokenizer:
    """Return the tokenizer of a scope; the process caches the most recent ones."""
    return Tokenizer(scope)


def is_spaced(text: str) -> bool:
    """Return whether words of ``text`` neither continue across a space nor depend on text beyond one, even after
    folding: true for ASCII and for everything in the alphabets of Europe and the Near East."""
    return text.isascii() or not _BEYOND_SPACED.search(text)


def _one_case(text: str) -> str:
    """Return ``text`` in lower case if that moves no character, so that fewer spellings are cached."""
    return text.lower() if text.isascii() else text


def holds_unspaced(text: str) -> bool:
    """Return whether any of ``text`` is in a script that is written without spaces between words."""
    return UNSPACED_START.search(text) is not None


def fold(text: str) -> str:
    """Fold case, width, accents, Han variants and the typographical variants of signs to one spelling."""
    folded = _fold(text)
    return folded.translate(SIMPLIFIED) if not folded.isascii() and _MAY_BE_TRADITIONAL.search(folded) else folded


def _fold(text: str) -> str:
    if text.isascii():  # most pieces of most queries, which have one spelling but for their case
        return text.lower()
    if _TYPED_IN_SEVERAL_WAYS.search(text):
        text = text.translate(_ONE_SPELLING)
    if "\u2014" in text or "\u2015" in text:
        text = _DASH_BETWEEN_DIGITS.sub("-", text)
    # NFKC does these as well, but takes ten times as long for a text that has any, as every Chinese text does.
    for wide, narrow in _WIDE_PUNCTUATION:
        text = text.replace(wide, narrow)
    text = normal_form("NFKC", text).casefold()
    # Only accents proper are dropped: kana keep their voicing marks and hangul is composed again.
    if _MAY_HAVE_ACCENTS.search(text):
        text = normal_form("NFKC", _ACCENTS.sub("", normal_form("NFD", text)))
        text = text.translate(_LETTERS_WITHOUT_ACCENT)
    return text


def _is_filler(bigram: str) -> bool:
    return bigram in _CHINESE_FILLERS or bool(_CHINESE_PARTICLE.search(bigram) and bigram not in _CHINESE_WORDS)


def _terms_of_piece(piece: str, dropped: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """Return the terms of a whitespace-separated piece, its punctuation included, without dropped words. Splitting a
    text at its spaces and looking up the pieces takes half of the time of matching its words."""
    folded = fold(piece)
    words = (_ASCII_WORD if folded.isascii() else ANY_WORD).findall(folded)
    terms = tuple(term for word in words for term in _terms_by_word[word] if term not in dropped)
    if not folded.isalpha():
        terms += tuple(term for term, _, _ in joined_parts(folded, terms_of_words))
        terms += tuple(stem(form.term) for form in compounds(folded))
    return terms


def _terms_of(word: str) -> tuple[str, ...]:
    if word.isalpha():
        return (stem(word),)
    if word.endswith(("++", "#")):
        return (word[:_LONGEST_TERM], *_terms_of(word.rstrip("+#")))
    word = word.removesuffix("'s").replace("'", "").replace(",", "")
    parts = _JOINERS.split(word)
    if len(parts) == 1:
        amount = _AMOUNT.fullmatch(word)
        return (word[:_LONGEST_TERM], *amount.groups()) if amount else (stem(word),)
    if len(parts) > _MOST_PARTS:
        return tuple(stem(part) for part in parts)
    if all(len(part) == 1 and part.isalpha() for part in parts):
        return ("".join(parts),)  # U.S. is us, e.g. is eg
    if (version := _VERSION_AND_MORE.fullmatch(word)) and len(parts) > 2:
        return (word.replace("-", ""), version[1], *map(stem, version[2].split("-")))  # 1.4.0-rc1
    if all(part.isdigit() for part in parts):
        # The parts of a date are meaningful, those of 3.14 or 10.0.0.1 are not.
        return (word, *parts) if "-" in word else (word,)
    if composed := _VERSION.fullmatch(word) or _AMOUNT.fullmatch(word):
        return (word, *composed.groups())
    stems = tuple(stem(part) for part in parts)
    if len(parts[0]) > 1 and _COMPOUND.fullmatch(word):
        return stems  # well-known ranks better by its parts alone; e-mail and x-ray stay whole as well
    if _DOTTED_WORDS.fullmatch(word):
        return (stem(word.replace(".", "")), *stems)  # Node.js, as nodejs
    return (stem(word.replace("-", "").replace("_", "")), *stems)


_terms_by_word, _terms_by_piece, _content_by_piece = (
    SelfFillingDict(analyse, most=_MOST_REMEMBERED, longest=_LONGEST_TERM)
    for analyse in (_terms_of, _terms_of_piece, functools.partial(_terms_of_piece, dropped=STOP_WORDS))
)

_per_thread = threading.local()  # the stemmer keeps state, so each thread needs its own


def stem(word: str) -> str:
    """Return the term of a folded word without inner signs: the stem of an English word, any other word as it is."""
    if not word.isascii() or not word.isalpha() or not 2 < len(word) <= _LONGEST_STEMMED:
        return word[:_LONGEST_TERM]
    try:
        stemmer = _per_thread.stemmer
    except AttributeError:
        stemmer = _per_thread.stemmer = snowballstemmer.stemmer("english")
    return str(stemmer.stemWord(word))


_DIGITS = "abcdefghijklmnopqrstuvwxyz234567"
_PAIRS = [first + second for first in _DIGITS for second in _DIGITS]


def _base32(number: int) -> str:
    """Return 64 bits as 13 digits, of which the first carries only four."""
    high, middle, low = number >> 40, (number >> 20) & 0xFFFFF, number & 0xFFFFF
    return (
        f"{_DIGITS[high >> 20]}{_PAIRS[(high >> 10) & 1023]}{_PAIRS[high & 1023]}"
        f"{_PAIRS[middle >> 10]}{_PAIRS[middle & 1023]}{_PAIRS[low >> 10]}{_PAIRS[low & 1023]}"
    )
