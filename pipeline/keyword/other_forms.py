"""Other forms of what a text names: words joined or split, numbers with or without separators, dates.

A form becomes a further term of a passage (`passage_forms`), and another way of writing words of a query
(`query_spellings`): what one side joins, the other may have in parts.
"""

import enum
import re
from collections.abc import Iterator, Sequence
from itertools import chain, combinations, islice, pairwise
from typing import Final, NamedTuple

from pipeline.keyword.chinese_numerals import decimal
from pipeline.keyword.dates import Form, dates_and_times, han_dates
from pipeline.keyword.durations import durations_in_digits, durations_in_words
from pipeline.keyword.foreign_numbers import foreign_numbers, times_in_words
from pipeline.keyword.regional_words import regional_words
from pipeline.keyword.rewritings import in_digits, rewritings
from pipeline.keyword.spans_of_time import spans_of_time
from pipeline.keyword.written_numbers import written_numbers

_DAY: Final = re.compile("date:.{10}")
_DIGITS: Final = re.compile("[0-9]+")
_APART, _BEFORE, _BEHIND = 24, 18, 20  # characters between digits, before and behind them: those of a date in words
_COMPOUND: Final = re.compile(r"(?<![a-z0-9'/._@&-])[a-z]{2,}(?:-[a-z]+){1,2}(?![a-z0-9/_@&-])")
_LONGEST_JOINED: Final = 24  # characters of words of letters

# Groups of digits as in telephone numbers, ISBN and card numbers: +86 139-1234-5678, (030) 123 4567, 978-3-16-148410-0.
_BETWEEN: Final = r"(?:\) ?| ?\(|[ \-])"
_NUMBER: Final = re.compile(rf"(?<![a-z0-9_.,/])\+?\(?\d{{1,15}}(?:{_BETWEEN}\d{{1,12}})*(?:-x)?(?![a-z0-9_/:]|[.,]\d)")
# Telephone numbers with points (01.42.68.53.00, 415.555.0187, 139.1234.5678), and with a slash behind the code of an area
# (089/233-960).
_DOTTED: Final = re.compile(
    r"(?<![a-z0-9_.])(?:\d\d(?:\.\d\d){4}|(?:1\.)?\d{3}\.\d{3,4}\.\d{4})(?![a-z0-9_]|\.\d)"
    r"|(?<![a-z0-9_.,/])0\d{1,4} ?/ ?\d{2,9}(?:[ -]\d{1,8}){0,4}(?![a-z0-9_/:]|[.,]\d)"
)
_TRUNK: Final = re.compile(r"\(0\)")
# With the 1 of North America and the 8 of Russia before the code of an area, which others leave out.
_WITH_TRUNK: Final = re.compile(
    r"1[ .-]\(?\d{3}\)?[ .-]\d{3}[ .-]\d{4}|8[ -]?(?:\(\d{3}\)|\d{3}) ?-?\d{3}[ -]\d\d[ -]\d\d|89\d{9}"
)
_NO_DIGITS: Final = re.compile(r"[^0-9x]")
_MOST_GROUPS: Final = 8  # more are a table
_FEWEST_DIGITS, _MOST_DIGITS = 7, 19
_LEAST_NATIONAL: Final = 7
# Country codes have a length by their first digits (ITU-T E.164), all others two digits.
_ONE_DIGIT: Final = ("1", "7")
_THREE_DIGITS: Final = re.compile("21|22|23|24|25|26|29|35|37|38|42|50|59|67|68|69|80|85|87|88|89|96|97|99")
# An IBAN in its groups of four, another code in such groups, and the number of a standard (GB/T 19001, ISO/IEC 27001).
_CODE: Final = re.compile(
    r"(?<![a-z0-9])(?:[a-z]{2}\d\d(?: [a-z0-9]{4}){2,7}(?: [a-z0-9]{1,3})?"
    r"|\d{4}(?: (?=[a-z]*\d)[a-z0-9]{4}){2,7}(?: [a-z0-9]{1,3})?"
    r"|[a-z]{2,4}\d{0,2}/[a-z]{1,4}[ -]?\d{2,6}(?:\.\d{1,3})?)(?![a-z0-9])"
)
_SEPARATORS: Final = re.compile(r"[ /-]")
# A code in groups of capitals and digits (1Z 999 AA1 01 2345 6784), of which half are digits; and the digest of a commit,
# whose first characters name it.
_GROUPS: Final = re.compile("(?<![A-Za-z0-9])[A-Z0-9]{1,6}(?: [A-Z0-9]{1,6}){2,7}(?![A-Za-z0-9])")
_LEAST_GROUPED: Final = 10  # characters
_DIGEST: Final = re.compile("(?<![a-z0-9])[0-9a-f]{40}(?:[0-9a-f]{24})?(?![a-z0-9])")
_SHORT_DIGESTS: Final = (7, 8, 10, 12)
_LEAST_DIGEST: Final = 40
# The address of a device: 00:1a:2b:3c:4d:5e, 001a.2b3c.4d5e.
_HARDWARE: Final = re.compile(
    r"(?<![0-9a-z:.-])(?:(?:[0-9a-f]{2}[:-]){5}[0-9a-f]{2}|(?:[0-9a-f]{4}\.){2}[0-9a-f]{4})(?![0-9a-z:-]|\.[0-9a-z])"
)
_NO_LETTERS: Final = re.compile(r"[^0-9a-f]")
# A name and its number (GB 50016, YY0505, invoice 20231) are one thing; (in 1999) is none.
_NUMBERED: Final = re.compile(
    r"(?<![a-z0-9/.-])(?!(?:about|and|are|as|at|by|ca|for|from|in|is|of|on|only|or|over|some|since|than|the|to|under|until|up"
    r"|was|were|with) )(?P<name>[a-z]{2,10})[ -]?(?P<number>\d{3,6}(?:\.\d{1,3})?)(?![a-z0-9]|[.,]\d)"
)
_YEAR: Final = re.compile("1[5-9]..|20..|21..")
_STAGE: Final = re.compile(
    r"(?<![a-z0-9.])v?(?P<version>\d+(?:\.\d+){1,3})(?:[ .-]?(?P<stage>alpha|beta|rc|preview)|(?P<letter>[ab]))[ .-]?"
    r"(?P<number>\d{1,3})(?![a-z0-9])"
)  # 3.0.0-rc.2, 2.0 beta 3, 1.0b2
_STAGES: Final = {"a": "alpha", "b": "beta"}

_PERCENT: Final = re.compile(
    r"(?<![a-z0-9_.,])(?P<number>\d{1,3}(?:[.,]\d{1,3})?) ?"
    r"(?:%|(?:per ?cent|prozent|pour ?cent|por ?cien?to|per ?cento|yuzde)(?![a-z])"
    "|процент|パーセント|퍼센트)"
)
_HAN_PERCENT: Final = re.compile(
    "(?P<of>[百千])分之(?P<number>[〇零一二三四五六七八九两十百]{1,5}(?:点[〇零一二三四五六七八九]{1,3})?)"
)

_CAMEL: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:[a-z]{2,}(?:[A-Z]{1,6}[a-z][a-z0-9]*)+[A-Z]{0,4}|(?:[A-Z][a-z]+){3,}|[A-Z]{2,6}(?:[A-Z][a-z]+){2,})"
    r"(?![A-Za-z])"
)
_HUMPED: Final = re.compile("[A-Z](?<=[a-z][A-Z])")
_WORD: Final = re.compile("[a-z0-9]+")
_PIECE: Final = re.compile("[a-zα-ωа-я]+|[0-9]+")
_JOINS: Final = re.compile(r" ?[-·•_./& ] ?|")
_HUMPS: Final = re.compile(
    r"(?<![A-Za-z0-9])(?=[A-Za-z0-9]*(?:[a-z][A-Z]|[A-Z]{2}[a-z]))[A-Za-z0-9]{3,40}(?![A-Za-z0-9])"
)
_HUMP: Final = re.compile("[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_PARTICLES: Final = frozenset(["in", "out", "up", "on", "off", "down", "over", "back", "away"])
_WITH_PARTICLE: Final = re.compile(
    "(?P<verb>[a-z]{2,7})(?<!ed)(?<!ing)(?<![^s]s)(?P<particle>in|out|up|on|off|down|over|back|away)"
)
_UMLAUTS: Final = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue"})
_UMLAUT: Final = re.compile(r"(?<!\w)(?=\w{0,30}[äöü])\w{2,40}(?!\w)")
_WRITTEN_OUT: Final = re.compile("([aou])e")
_INITIALS: Final = re.compile("(?<![a-z0-9&])([a-z])&([a-z])(?![a-z0-9&])")
_ELISION: Final = re.compile(r"(?<!\w)(?:[cdjlmnst]|qu|un|all|dall|dell|nell|sull)'([^\W\d_]{3,})")
_LONGEST_SPLIT: Final = 24  # characters
_LEAST_NOUN: Final = 4  # characters of a part of a compound
_JOINT: Final = re.compile("(?:s|es|n|en)$")
_SHORT_WORD: Final = 4  # characters of an abbreviation: PhD
_MOST_WORDS: Final = 40  # of a query that are joined with others
_MOST_TOGETHER: Final = 4
_MOST_PIECES: Final = 5
_LONGEST_CODE: Final = 34  # characters; the longest IBAN


class Certainty(enum.IntEnum):
    """How surely another spelling names the same thing."""

    EXACT = enum.auto()  # it names nothing else, and counts more than the words that it is written in
    SURE = enum.auto()
    LAST = enum.auto()  # used only for words that no passage has: a1 as a 1
    GUESS = enum.auto()  # log in: login


class Spelling(NamedTuple):
    """Other ways of writing a piece of a query, each as words, or as a text whose words count only side by side; without any,
    those of `parts_of`."""

    piece: str
    ways: tuple[tuple[str, ...] | str, ...]
    certainty: Certainty = Certainty.SURE


def compounds(folded: str) -> Iterator[Form]:
    """Yield compounds of two or three words of letters without their hyphens (wi-fi as wifi), and words behind an article
    without it (l'eau as eau)."""
    if "'" in folded:
        for match in _ELISION.finditer(folded):
            yield Form(match[1], *match.span())
    if "-" in folded:
        for match in _COMPOUND.finditer(folded):
            joined = match[0].replace("-", "")
            if len(joined) <= _LONGEST_JOINED:
                yield Form(joined, *match.span())


def passage_forms(text: str, folded: str, *, day_first: bool = False) -> Iterator[Form]:
    """Yield the further terms of a passage, in no order: numbers and codes without separators, numbers without the code of
    their country, the words of names in camel case, dates and times. ``folded``: see `terms.fold`; ``day_first``: see
    `dates_and_times`. Places are those in ``folded``."""
    if _HUMPED.search(text):
        for match in _CAMEL.finditer(text):
            for part in _HUMP.finditer(match[0]):
                yield Form(part[0].lower(), match.start() + part.start(), match.start() + part.end())
    for form in (*_exact_forms(folded, day_first=day_first), *_grouped(text, folded)):
        is_term = form.term.isalnum() and not form.term.isdigit()
        if not is_term or form.term != folded[form.start : form.end].replace("-", ""):  # a word that it is a term of
            yield form


def _exact_forms(folded: str, *, day_first: bool = False) -> Iterator[Form]:
    """Yield numbers, codes, dates and times. Only what surrounds digits is searched: a tenth of the time."""
    for start, end in _near_digits(folded):
        part = folded[start:end]
        dates = dates_and_times(part, day_first=day_first)
        for form in chain(_codes(part), dates, durations_in_digits(part), _percents(part)):
            yield Form(form.term, start + form.start, start + form.end)
    yield from durations_in_words(folded)
    yield from times_in_words(folded)
    if "月" in folded or "后" in folded:
        yield from han_dates(folded)
    if "分之" in folded:
        for match in _HAN_PERCENT.finditer(folded):
            share = float(decimal(match["number"]))
            yield Form(_percent(f"{share if match['of'] == '百' else share / 10}"), *match.span())


def _grouped(text: str, folded: str) -> Iterator[Form]:
    """Yield codes in groups of capitals and digits, joined, and the short names of digests. ``text``: before folding, which
    tells codes from words."""
    for start, end in _near_digits(folded):
        for match in _GROUPS.finditer(text, start, end):
            joined = match[0].replace(" ", "").lower()
            digits = sum(map(str.isdigit, joined))
            if _LEAST_GROUPED <= len(joined) <= _LONGEST_CODE and len(joined) // 2 <= digits < len(joined):
                yield Form(joined, *match.span())
        if end - start >= _LEAST_DIGEST:
            for match in _DIGEST.finditer(folded, start, end):
                yield from (Form(match[0][:length], *match.span()) for length in _SHORT_DIGESTS)


def _percents(part: str) -> Iterator[Form]:
    """Yield percentages, as signs and as words of several languages: 12,5 % as percent:12.5."""
    return (Form(_percent(match["number"].replace(",", ".")), *match.span()) for match in _PERCENT.finditer(part))


def _percent(number: str) -> str:
    return f"percent:{float(number):g}"


def _near_digits(folded: str) -> Iterator[tuple[int, int]]:
    """Yield the parts of a text that hold digits, with what belongs to them; neighbouring ones together."""
    start = end = -1
    for match in _DIGITS.finditer(folded):
        if match.start() > end + _APART:
            if end >= 0:
                yield max(0, start - _BEFORE), end + _BEHIND
            start = match.start()
        end = match.end()
    if end >= 0:
        yield max(0, start - _BEFORE), end + _BEHIND


def query_spellings(text: str, folded: str) -> Iterator[Spelling]:
    """Yield other ways of writing pieces of a query: what `passage_forms` yields for them, what `rewritings` proposes,
    names in camel case by their words, codes in their parts (RTX4090: RTX 4090), words joined (log in, log-in: login)
    and in two (login: log in)."""
    exact: dict[str, list[str]] = {}
    grouped = list(_grouped(text, folded))
    for form in grouped:
        exact.setdefault(folded[form.start : form.end], []).append(form.term)
    for written in dict.fromkeys((folded, in_digits(folded))):
        for form in _exact_forms(written):
            is_part = written is folded and any(code.start <= form.start < code.end for code in grouped)
            if not is_part:
                exact.setdefault(folded[form.start : form.end] if written is folded else folded, []).append(form.term)
    for piece, terms in exact.items():
        days = [term for term in terms if _DAY.fullmatch(term)]  # a day says more than its month
        named = tuple((term,) for term in dict.fromkeys(days or terms))
        yield Spelling(piece, named, Certainty.EXACT)
    written_otherwise = (rewritings, written_numbers, spans_of_time, foreign_numbers, regional_words)
    for rewriting in islice(chain.from_iterable(rule(folded) for rule in written_otherwise), _MOST_WORDS):
        certainty = Certainty.SURE if rewriting.is_sure else Certainty.GUESS
        texts = dict.fromkeys(text for text in rewriting.texts if text != rewriting.piece)
        if texts or rewriting.words:
            yield Spelling(rewriting.piece, (*texts, *rewriting.words), certainty)
    yield from islice(_names(text, folded), _MOST_WORDS)
    words = list(_WORD.finditer(folded))[:_MOST_WORDS]
    for word in words:
        yield from _in_parts(word[0])
    for first in range(len(words)):
        for last in range(first + 1, min(first + _MOST_TOGETHER, len(words))):
            between = folded[words[last - 1].end() : words[last].start()]
            if not _JOINS.fullmatch(between):
                break
            piece = folded[words[first].start() : words[last].end()]
            if way := _joined(words[first : last + 1], piece):
                is_guess = way.isalpha() and " " in piece and last > first + 1
                is_verb = words[last][0] in _PARTICLES and piece.count(" ") == 1 and _WITH_PARTICLE.fullmatch(way)
                ways: tuple[tuple[str, ...] | str, ...] = ((way,), piece) if is_verb else ((way,),)
                if last == first + 1 and not way.isalpha():
                    ways += tuple(_regrouped([word[0] for word in words[first : last + 1]]))
                yield Spelling(piece, ways, Certainty.GUESS if is_guess else Certainty.SURE)


def _regrouped(words: Sequence[str]) -> Iterator[str]:
    """Yield two words of a code cut elsewhere between letters and digits: model 71pro as model71 pro."""
    pieces = [piece for word in words for piece in _PIECE.findall(word)]
    meet = all(left.isdigit() != right.isdigit() for left, right in pairwise(pieces))
    if len(words) == 2 and 2 < len(pieces) <= _MOST_PIECES and meet:
        cuts = (("".join(pieces[:at]), "".join(pieces[at:])) for at in range(1, len(pieces)))
        yield from (" ".join(cut) for cut in cuts if cut != tuple(words))


def _names(text: str, folded: str) -> Iterator[Spelling]:
    """Yield names in camel case in their words, with acronyms among them, R&D with blanks, and words with an umlaut or
    behind an article without it."""
    for match in _CAMEL.finditer(text):
        yield Spelling(match[0].lower(), (tuple(part.lower() for part in _HUMP.findall(match[0])),))
    for match in _HUMPS.finditer(text):
        if len(parts := _HUMP.findall(match[0])) > 1 and not _CAMEL.fullmatch(match[0]):
            names = [*parts, ""] if len(parts[0]) > 1 else [parts[0] + parts[1], *parts[2:]]  # iPhone is one word
            yield Spelling(match[0].lower(), tuple({" ".join(each).strip().lower(): 0 for each in (parts, names)}))
    for match in _INITIALS.finditer(folded):
        yield Spelling(match[0], (f"{match[1]} {match[2]}", f"{match[1]} and {match[2]}"))
    for match in _ELISION.finditer(folded):
        yield Spelling(match[0], ((match[1],),))
    if not text.isascii():
        for match in _UMLAUT.finditer(text.lower()):
            yield Spelling(match[0], ((match[0].replace("ß", "ss").translate(_UMLAUTS),),))


def _in_parts(word: str) -> Iterator[Spelling]:
    """Yield a word in several: a code at its letters and digits, a verb with its particle, a word of no passage at any
    place."""
    pieces = _PIECE.findall(word)
    if 1 < len(pieces) <= _MOST_PIECES:
        is_sure = min(map(len, pieces)) > 1
        yield Spelling(word, tuple(_groupings(pieces)), Certainty.SURE if is_sure else Certainty.LAST)
    if verb := _WITH_PARTICLE.fullmatch(word):
        yield Spelling(word, (f"{verb['verb']} {verb['particle']}",))
    if not word.isdigit() and 3 <= len(word) <= _LONGEST_SPLIT:
        yield Spelling(word, (), Certainty.LAST)


def parts_of(word: str) -> tuple[tuple[str, ...] | str, ...]:
    """Return the ways to write a word of no passage: in two at any place, and without the e of an umlaut. They are many, so
    a `Spelling` that is the last resort has none of its own."""
    least = 2 if word.isalpha() and len(word) > _SHORT_WORD else 1
    parts = [f"{word[:at]} {word[at:]}" for at in range(least, len(word) - least + 1)]
    plain = _WRITTEN_OUT.sub(r"\1", word) if word.isalpha() else word
    return (*parts, *_nouns(word), *([(plain,)] if plain != word else []))


def _nouns(word: str) -> Iterator[tuple[str, str]]:
    """Yield a long word as two that stand anywhere, without what joins them in German: aufzugswartung as aufzug, wartung."""
    if word.isalpha():
        for at in range(_LEAST_NOUN, len(word) - _LEAST_NOUN + 1):
            first, last = word[:at], word[at:]
            yield first, last
            if (joint := _JOINT.search(first)) and joint.start() >= _LEAST_NOUN:
                yield first[: joint.start()], last


def _codes(part: str) -> Iterator[Form]:
    """Yield numbers and codes that are written in groups, joined, and telephone numbers also without the code of their
    country and the zero before an area's. Numbers that are one plain word yield nothing."""
    if part.count(":") > 4 or part.count("-") > 4 or "." in part:
        for match in _HARDWARE.finditer(part):
            yield Form(_NO_LETTERS.sub("", match[0]), *match.span())
    for match in _STAGE.finditer(part):
        stage = match["stage"] or _STAGES[match["letter"]]
        yield Form(f"{match['version']}-{stage}{match['number']}", *match.span())
    whole = list(_CODE.finditer(part)) if "/" in part or " " in part else []
    for match in whole:
        yield Form(_SEPARATORS.sub("", match[0]), *match.span())
    for match in _NUMBERED.finditer(part):
        if not _YEAR.fullmatch(match["number"]) and not any(
            code.start() <= match.start() < code.end() for code in whole
        ):
            yield Form(match["name"] + match["number"], *match.span())
    if sum(map(part.count, "0123456789")) < _FEWEST_DIGITS:
        return
    for match in (*_NUMBER.finditer(part), *_DOTTED.finditer(part)):
        if any(code.start() <= match.start() < code.end() for code in whole):
            continue
        written = match[0]
        is_international = written.startswith(("+", "00"))
        digits = _NO_DIGITS.sub("", _TRUNK.sub("", written) if is_international else written)
        if not _FEWEST_DIGITS <= len(digits) <= _MOST_DIGITS or len(_PIECE.findall(written)) > _MOST_GROUPS:
            continue
        if digits != written:
            yield Form(digits, *match.span())
        is_national = _WITH_TRUNK.fullmatch(written) is not None
        national = digits[1:] if is_national else _national(digits, is_international=is_international)
        if national != digits and len(national) >= _LEAST_NATIONAL:
            yield Form(national, *match.span())


def _national(digits: str, *, is_international: bool) -> str:
    """Return a telephone number without the code of its country, or without the zero before the code of an area."""
    if not is_international:
        return digits[1:] if digits.startswith("0") else digits
    digits = digits.removeprefix("00")
    length = 1 if digits.startswith(_ONE_DIGIT) else 3 if _THREE_DIGITS.match(digits) else 2
    return digits[length:]


def _joined(words: Sequence[re.Match[str]], piece: str) -> str | None:
    """Return neighbouring words, ``piece`` of a text, as one; None if nobody would write them so."""
    joined = "".join(word[0] for word in words)
    if joined.isdigit() or len(joined) > _LONGEST_CODE:
        return None
    if joined.isalpha():
        least = 2 if "&" in piece or "." in piece else 4
        fits = len(words) <= 3 and least <= len(joined) <= _LONGEST_JOINED
    else:  # groups of a code; two parts between which letters do not meet digits (59-2011) say more apart
        meet = all(left[0][-1].isdigit() != right[0][0].isdigit() for left, right in pairwise(words))
        fits = meet or len(words) > 2 or " " in piece
    return joined if fits else None


def _groupings(pieces: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield the ways to write the pieces of a code as two or more words: ab12cde as ab 12 cde, ab12 cde, ab 12cde."""
    for cuts in range(len(pieces) - 1, 0, -1):
        for at in combinations(range(1, len(pieces)), cuts):
            edges = (0, *at, len(pieces))
            yield tuple("".join(pieces[start:end]) for start, end in pairwise(edges))
