"""Numbers of a query from 13 to 99 in words of German, Dutch, French, Spanish, Italian, Portuguese and Russian."""

import re
from collections.abc import Iterator
from itertools import product
from typing import Final

from pipeline.keyword.rewritings import Rewriting

# Ones from 1 on and tens from 20 on, as `terms.fold` leaves them: without accents.
_GERMAN: Final = (
    "ein zwei drei vier funf sechs sieben acht neun",
    "zwanzig dreissig vierzig funfzig sechzig siebzig achtzig neunzig",
)
_DUTCH: Final = (
    "een twee drie vier vijf zes zeven acht negen",
    "twintig dertig veertig vijftig zestig zeventig tachtig negentig",
)
_SPANISH: Final = (
    "uno dos tres cuatro cinco seis siete ocho nueve",
    "veinte treinta cuarenta cincuenta sesenta setenta ochenta noventa",
)
_PORTUGUESE: Final = (
    "um dois tres quatro cinco seis sete oito nove",
    "vinte trinta quarenta cinquenta sessenta setenta oitenta noventa",
)
_ITALIAN: Final = (
    "uno due tre quattro cinque sei sette otto nove",
    "venti trenta quaranta cinquanta sessanta settanta ottanta novanta",
)
_RUSSIAN: Final = (
    "один два три четыре пять шесть семь восемь девять",
    "двадцать тридцать сорок пятьдесят шестьдесят семьдесят восемьдесят девяносто",
)
_FRENCH_ONES: Final = (
    "un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize dix-sept dix-huit "
    "dix-neuf"
)
_FRENCH_TENS: Final = {"vingt": 20, "trente": 30, "quarante": 40, "cinquante": 50, "soixante": 60, "quatre-vingt": 80}
_TEENS: Final = {
    **dict.fromkeys(("dreizehn", "dertien", "treize", "trece", "treze", "tredici", "тринадцать"), 13),
    **dict.fromkeys(("vierzehn", "veertien", "quatorze", "catorce", "catorze", "quattordici", "четырнадцать"), 14),
    **dict.fromkeys(("funfzehn", "vijftien", "quinze", "quince", "quindici", "пятнадцать"), 15),
    **dict.fromkeys(("sechzehn", "zestien", "seize", "dieciseis", "dezesseis", "sedici", "шестнадцать"), 16),
    **dict.fromkeys(("siebzehn", "zeventien", "diecisiete", "dezessete", "diciassette", "семнадцать"), 17),
    **dict.fromkeys(("achtzehn", "achttien", "dieciocho", "dezoito", "diciotto", "восемнадцать"), 18),
    **dict.fromkeys(("neunzehn", "negentien", "diecinueve", "dezenove", "diciannove", "девятнадцать"), 19),
}


def _numbers() -> dict[str, int]:
    numbers = dict(_TEENS)
    for ones, tens in (_GERMAN, _DUTCH, _SPANISH, _PORTUGUESE, _ITALIAN, _RUSSIAN):
        for (ten, word), (one, digit) in product(enumerate(tens.split(), start=2), enumerate(["", *ones.split()])):
            for written in _joined(ones, word, digit):
                numbers[written] = 10 * ten + one
    for one, digit in enumerate(_FRENCH_ONES.split(), start=1):
        for word, ten in _FRENCH_TENS.items():
            if one < 10 or ten >= 60:
                numbers[f"{word}-{digit}"] = ten + one
                numbers[f"{word} et {digit}"] = ten + one
    numbers |= {word: ten for word, ten in _FRENCH_TENS.items() if ten < 80} | {"quatre-vingts": 80}
    return numbers


def _joined(ones: str, ten: str, one: str) -> tuple[str, ...]:
    """Return the ways to write a ten with a one, which may be empty, in the language of these ones."""
    if not one:
        return (ten,)
    if ones == _GERMAN[0]:
        return (f"{one}und{ten}",)
    if ones == _DUTCH[0]:
        return (f"{one}en{ten}",)
    if ones == _ITALIAN[0]:
        return (f"{ten[:-1]}{one}" if one[0] in "ou" else f"{ten}{one}",)
    if ones == _RUSSIAN[0]:
        return (f"{ten} {one}",)
    if ten == "veinte":
        return (f"veinti{one}",)
    return (f"{ten} {'y' if ones == _SPANISH[0] else 'e'} {one}",)


_NUMBERS: Final = _numbers()
_ENDINGS: Final = frozenset(word[-3:] for word in _NUMBERS)
_NUMBER: Final = re.compile(rf"(?<![\w-])(?:{'|'.join(sorted(_NUMBERS, key=len, reverse=True))})(?![\w-])")


def foreign_numbers(folded: str) -> Iterator[Rewriting]:
    """Yield the numbers of a folded query (`terms.fold`) in digits: quatre-vingt-dix as 90, двадцать пять as 25."""
    if not _ENDINGS.isdisjoint(word.rstrip(".,?!")[-3:] for word in folded.split()):
        for match in _NUMBER.finditer(folded):
            yield Rewriting(match[0], words=((str(_NUMBERS[match[0]]),),))
