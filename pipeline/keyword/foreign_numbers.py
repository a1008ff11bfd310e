"""Numbers of a query from 13 to 99 in words of German, Dutch, French, Spanish, Italian, Portuguese and Russian."""

import re
from collections.abc import Iterator
from itertools import product
from typing import Final

from pipeline.keyword.rewritings import Rewriting

# Of each language 1 to 9, 13 to 19, the tens from 20, and a ten with a one, as `terms.fold` leaves them: without accents.
_LANGUAGES: Final = (
    (
        "ein zwei drei vier funf sechs sieben acht neun",
        "dreizehn vierzehn funfzehn sechzehn siebzehn achtzehn neunzehn",
        "zwanzig dreissig vierzig funfzig sechzig siebzig achtzig neunzig",
        "{one}und{ten}",
    ),
    (
        "een twee drie vier vijf zes zeven acht negen",
        "dertien veertien vijftien zestien zeventien achttien negentien",
        "twintig dertig veertig vijftig zestig zeventig tachtig negentig",
        "{one}en{ten}",
    ),
    (
        "uno dos tres cuatro cinco seis siete ocho nueve",
        "trece catorce quince dieciseis diecisiete dieciocho diecinueve",
        "veinte treinta cuarenta cincuenta sesenta setenta ochenta noventa",
        "{ten} y {one}",
    ),
    (
        "um dois tres quatro cinco seis sete oito nove",
        "treze catorze quinze dezesseis dezessete dezoito dezenove",
        "vinte trinta quarenta cinquenta sessenta setenta oitenta noventa",
        "{ten} e {one}",
    ),
    (
        "uno due tre quattro cinque sei sette otto nove",
        "tredici quattordici quindici sedici diciassette diciotto diciannove",
        "venti trenta quaranta cinquanta sessanta settanta ottanta novanta",
        "{ten}{one}",
    ),
    (
        "один два три четыре пять шесть семь восемь девять",
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
_FRENCH_TENS: Final = {"vingt": 20, "trente": 30, "quarante": 40, "cinquante": 50, "soixante": 60, "quatre-vingt": 80}


def _numbers() -> Iterator[tuple[str, int]]:
    for ones, teens, tens, joint in _LANGUAGES:
        yield from zip(teens.split(), range(13, 20), strict=True)
        yield from zip(tens.split(), range(20, 100, 10), strict=True)
        for (ten, word), (one, digit) in product(enumerate(tens.split(), start=2), enumerate(ones.split(), start=1)):
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


def foreign_numbers(folded: str) -> Iterator[Rewriting]:
    """Yield the numbers of a folded query (`terms.fold`) in digits: quatre-vingt-dix as 90, двадцать пять as 25."""
    if not _ENDINGS.isdisjoint(word.rstrip(".,?!")[-3:] for word in folded.split()):
        for match in _NUMBER.finditer(folded):
            yield Rewriting(match[0], words=((str(_NUMBERS[match[0]]),),))
