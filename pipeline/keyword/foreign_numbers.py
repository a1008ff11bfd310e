"""Numbers of a query from 13 to 99 in words of German, Dutch, French, Spanish, Italian, Portuguese and Russian, and times
by parts of an hour in the same but Russian, and in English."""

import re
from collections.abc import Iterator
from itertools import product
from typing import Final

from pipeline.keyword.dates import Form
from pipeline.keyword.english_numerals import CARDINALS
from pipeline.keyword.rewritings import Rewriting

# Of each language 1 to 12, 13 to 19, the tens from 20, and a ten with a one, as `terms.fold` leaves them: without accents.
_LANGUAGES: Final = (
    (
        "ein zwei drei vier funf sechs sieben acht neun zehn elf zwolf",
        "dreizehn vierzehn funfzehn sechzehn siebzehn achtzehn neunzehn",
        "zwanzig dreissig vierzig funfzig sechzig siebzig achtzig neunzig",
        "{one}und{ten}",
    ),
    (
        "een twee drie vier vijf zes zeven acht negen tien elf twaalf",
        "dertien veertien vijftien zestien zeventien achttien negentien",
        "twintig dertig veertig vijftig zestig zeventig tachtig negentig",
        "{one}en{ten}",
    ),
    (
        "uno dos tres cuatro cinco seis siete ocho nueve diez once doce",
        "trece catorce quince dieciseis diecisiete dieciocho diecinueve",
        "veinte treinta cuarenta cincuenta sesenta setenta ochenta noventa",
        "{ten} y {one}",
    ),
    (
        "um dois tres quatro cinco seis sete oito nove dez onze doze",
        "treze catorze quinze dezesseis dezessete dezoito dezenove",
        "vinte trinta quarenta cinquenta sessenta setenta oitenta noventa",
        "{ten} e {one}",
    ),
    (
        "uno due tre quattro cinque sei sette otto nove dieci undici dodici",
        "tredici quattordici quindici sedici diciassette diciotto diciannove",
        "venti trenta quaranta cinquanta sessanta settanta ottanta novanta",
        "{ten}{one}",
    ),
    (
        "один два три четыре пять шесть семь восемь девять десять одиннадцать двенадцать",
        "тринадцать четырнадцать пятнадцать шестнадцать семнадцать восемнадцать девятнадцать",
        "двадцать тридцать сорок пятьдесят шестьдесят семьдесят восемьдесят девяносто",
        "{ten} {one}",
    ),
)
_ELIDED: Final = re.compile("[ai](?=(?:uno|otto)$)")  # trentuno
_FRENCH_ONES: Final = (
    *("un", "deux", "trois", "quatre", "cinq", "six", "sept", "huit", "neuf", "dix", "onze", "douze"),
    *("treize", "quatorze", "quinze", "seize", "dix-sept", "dix-huit", "dix-neuf"),
)
SMALL_NUMBERS: Final = [*(ones.split() for ones, *_ in _LANGUAGES), list(_FRENCH_ONES[:12])]  # 1 to 12 of each language
_FRENCH_TENS: Final = {"vingt": 20, "trente": 30, "quarante": 40, "cinquante": 50, "soixante": 60, "quatre-vingt": 80}


def _numbers() -> Iterator[tuple[str, int]]:
    for ones, teens, tens, joint in _LANGUAGES:
        yield from zip(teens.split(), range(13, 20), strict=True)
        yield from zip(tens.split(), range(20, 100, 10), strict=True)
        for (ten, word), (one, digit) in product(
            enumerate(tens.split(), start=2), enumerate(ones.split()[:9], start=1)
        ):
            written = _ELIDED.sub("", joint.format(ten=word, one=digit))
            yield written.replace("veinte y ", "veinti"), 10 * ten + one
    yield from zip(_FRENCH_ONES[12:], range(13, 20), strict=True)
    for (word, ten), (one, digit) in product(_FRENCH_TENS.items(), enumerate(_FRENCH_ONES, start=1)):
        if one < 10 or ten >= 60:
            yield from ((f"{word}{joint}{digit}", ten + one) for joint in ("-", " et "))
    yield from ((word if ten < 80 else f"{word}s", ten) for word, ten in _FRENCH_TENS.items())


_NUMBERS: Final = dict(_numbers())
_ENDINGS: Final = frozenset(word[-3:] for word in _NUMBERS)
_NUMBER: Final = re.compile(rf"(?<![\w-])(?:{'|'.join(sorted(_NUMBERS, key=len, reverse=True))})(?![\w-])")


# Minutes from the hour that is named behind these, or before those.
_BEFORE: Final = {
    "half past": 30,
    **dict.fromkeys(("quarter past", "viertel nach", "kwart over"), 15),
    **dict.fromkeys(("quarter to", "viertel vor", "dreiviertel", "kwart voor"), -15),
    **dict.fromkeys(("halb", "half"), -30),
}
_BEHIND: Final = {
    **dict.fromkeys(("et demie", "y media", "e mezza", "e mezzo", "e meia"), 30),
    **dict.fromkeys(("et quart", "y cuarto", "e un quarto"), 15),
    **dict.fromkeys(("moins le quart", "menos cuarto", "meno un quarto"), -15),
}
_HOURS: Final = {"eins": 1} | {
    word: hour for words in (CARDINALS[1:13], *SMALL_NUMBERS) for hour, word in enumerate(words, start=1)
}
_HOUR: Final = "|".join(_HOURS)
_PART_OF_HOUR: Final = re.compile(
    rf"(?<!\w)(?!half (?:{'|'.join(CARDINALS)})\b)(?:(?P<before>{'|'.join(_BEFORE)}) (?P<next>{_HOUR})"
    rf"|(?P<now>{_HOUR}) (?:heures )?(?P<behind>{'|'.join(_BEHIND)}))(?!\w)"
)
_IN_PARTS: Final = (
    *("halb ", "half ", "quarter ", "viertel ", "kwart ", " et demie", " et quart", "le quart", " y media"),
    *(" cuarto", " e mezz", " un quarto", " e meia"),
)


def foreign_numbers(folded: str) -> Iterator[Rewriting]:
    """Yield the numbers of a folded query (`terms.fold`) in digits: quatre-vingt-dix as 90, двадцать пять as 25."""
    if not _ENDINGS.isdisjoint(word.rstrip(".,?!")[-3:] for word in folded.split()):
        for match in _NUMBER.finditer(folded):
            yield Rewriting(match[0], words=((str(_NUMBERS[match[0]]),),))


def times_in_words(folded: str) -> Iterator[Form]:
    """Yield both times that halb vier, half past three or quatre heures et demie may name, as `dates.dates_and_times`."""
    for match in _PART_OF_HOUR.finditer(folded) if any(map(folded.__contains__, _IN_PARTS)) else ():
        minutes = _BEFORE[match["before"]] if match["before"] else _BEHIND[match["behind"]]
        hour, minute = divmod((60 * _HOURS[match["next"] or match["now"]] + minutes) % 720, 60)
        yield from (Form(f"time:{half + hour:02}:{minute:02}", *match.span()) for half in (0, 12))
