"""Durations that a text names, each as one term whatever its spelling: 90 minutes, an hour and a half, 一个半小时."""

import re
from collections.abc import Iterator
from typing import Final

from pipeline.keyword.chinese_numerals import SCALES, VALUES, value_of
from pipeline.keyword.dates import Form
from pipeline.keyword.english_numerals import VALUES as NUMBERS
from pipeline.keyword.english_numerals import value_of_words
from pipeline.keyword.foreign_numbers import SMALL_NUMBERS


def _names(*units: tuple[int, str]) -> dict[str, int]:
    return {name: size for size, names in units for name in names.split()}


# As `terms.fold` leaves them, without names that mean something else as well.
_MINUTES: Final = _names(
    (1, "minute minutes min mins minuten minuti minutos минут минуты dakika 分钟 分间 分 분"),
    (15, "刻钟"),
    (60, "hour hours hr hrs h stunde stunden heure heures hora horas ore uur час часа часов saat 小时 钟头 时间 시간"),
    (1440, "day days tag tage tagen jour jours dias giorni dagen дня днеи 天"),
    (10_080, "week weeks woche wochen semaine semaines semanas settimane weken недели недель hafta 周 星期"),
)
_MONTHS: Final = _names(
    (1, "month months monat monate monaten mois meses mesi maanden месяца месяцев 月 개월"),
    (12, "year years jahr jahre jahren ans anos anni jaar года лет 年"),
)
_SIZES: Final = _MINUTES | _MONTHS
_NAMED: Final = {
    name: term
    for term, names in (
        ("15", "quarter of an hour, quarter hour, viertelstunde, quart d'heure, cuarto de hora, четверть часа"),
        (
            "30",
            "half an hour, half hour, halbe stunde, halben stunde, demi-heure, media hora, mezz'ora, полчаса, yarim saat",
        ),
        ("45", "three quarters of an hour, dreiviertelstunde"),
        ("90", "anderthalb stunden, eineinhalb stunden, heure et demie, hora y media, ora e mezza, полтора часа"),
        ("90", "bir bucuk saat, 한 시간 반"),
        ("6mo", "half a year, half year, halbes jahr, полгода"),
        ("18mo", "anderthalb jahre, полтора года"),
        ("20160", "fortnight"),
    )
    for name in names.split(", ")
}
_NAME: Final = re.compile(rf"(?<!\w)(?:{'|'.join(sorted(_NAMED, key=len, reverse=True))})(?!\w)")
_IN_NAMES: Final = ("hour", "hora", "hal", "stund", "heur", "media", "mezz", "пол", "час", "saat", "시간", "fortn")
_ANY_UNIT: Final = "|".join(sorted((name for name in _SIZES if not "一" <= name[0] <= "鿿"), key=len, reverse=True))
_IN_DIGITS: Final = re.compile(
    r"(?<![\w.,:/-])(?<!시 )(?:(?P<hours>\d) ?h ?(?P<rest>[0-5]\d)(?!\w|[.,:/-]\d)"
    rf"|(?P<number>\d{{1,4}}(?:[.,]\d{{1,2}})?)[ -]?(?P<unit>{_ANY_UNIT})(?![a-zа-я]|\d\d(?! ?m))(?P<half> ?반)?"
    r"(?:,?(?: and| et| und| y| e)? ?(?P<minutes>[0-5]?\d) ?(?:min[a-z]*|m(?!\w)|분))?)"
)
_ENGLISH: Final = ("minute", "hour", "day", "week", "month", "year")
_CARDINAL: Final = "|".join(sorted(NUMBERS, key=len, reverse=True))
_IN_WORDS: Final = re.compile(
    rf"(?<![\w-])(?P<number>an?|(?:{_CARDINAL})(?:-(?:{_CARDINAL}))?)(?P<half> and a half)?"
    rf"[ -](?P<unit>{'|'.join(_ENGLISH)})s?(?P<later> and a half)?(?![\w-])"
)
# In the order of `SMALL_NUMBERS`.
_FOREIGN_UNITS: Final = (
    "minuten stunden tage tagen wochen monate monaten jahre jahren",
    "minuten uur dagen weken maanden jaar",
    "minutos horas dias semanas meses anos",
    "minutos horas dias semanas meses anos",
    "minuti ore giorni settimane mesi anni",
    "минуты минут часа часов дня днеи недели недель месяца месяцев года лет",
    "minutes heures jours semaines mois ans",
)
_FOREIGN_UNIT: Final = frozenset(name for names in _FOREIGN_UNITS for name in names.split())
_FEMININE: Final = {"две": 2, "duas": 2}
_FOREIGN_NUMBERS: Final = _FEMININE | {
    word: value
    for words in SMALL_NUMBERS
    for value, word in enumerate(words, start=1)
    if value > 1  # as in eines Tages
}
_IN_FOREIGN_WORDS: Final = re.compile(
    "|".join(
        rf"(?<![\w-])(?:{'|'.join([*words[1:], *_FEMININE])}) (?:{names.replace(' ', '|')})"
        r"(?![\w-]| et demie| et quart| moins le)"
        for words, names in zip(SMALL_NUMBERS, _FOREIGN_UNITS, strict=True)
    )
)
_NUMERALS: Final = "".join(VALUES) + "十百"
_IN_HAN: Final = re.compile(
    rf"(?<![{_NUMERALS}\d.第时点])(?:(?P<number>\d{{1,3}}(?:\.\d)?|[{_NUMERALS}]{{1,3}}) ?(?P<of>个)?(?P<half>半)?"
    r"|(?<![上下前后大小多])半(?P<only>个)?)(?P<unit>小时|时间|钟头|分钟|分间|分(?=[\u3040-\u30ff])|刻钟|天|周|星期|月|年)"
    r"(?![级代月日初中底末第度份岁长边刊期\d]|[一二三四五六七八九十]{1,2}月)(?P<later>半(?![导价数径夜]))?"
    rf"(?:零?(?P<minutes>[0-5]?\d|[{_NUMERALS}]{{1,3}})分钟?)?"
)
_COUNTED: Final = ("月", "星期")  # with 个, for 三月 and 星期三 are none


def durations_in_digits(part: str) -> Iterator[Form]:
    """Yield the durations in a part of a folded text around digits: 2 hours 15 minutes and 2h15 as ``span:135``, in minutes."""
    for match in _IN_DIGITS.finditer(part):
        if match["hours"]:
            yield _form(match, 60 * int(match["hours"]) + int(match["rest"]))
            continue
        number = float(match["number"].replace(",", ".")) + (0.5 if match["half"] else 0)
        yield _form(match, number * _SIZES[match["unit"]] + int(match["minutes"] or 0), match["unit"])


def durations_in_words(folded: str) -> Iterator[Form]:
    """Yield the durations that a folded text names in words, and in Chinese: half a year as ``span:6mo``."""
    if any(map(folded.__contains__, _IN_NAMES)):
        for match in _NAME.finditer(folded):
            yield Form(f"span:{_NAMED[match[0]]}", *match.span())
    for match in _IN_WORDS.finditer(folded) if any(map(folded.__contains__, _ENGLISH)) else ():
        half = 0.5 if match["half"] or match["later"] else 0
        if not match["number"].startswith("a") or half or match["unit"] == "hour":
            number = 1 if match["number"] in ("a", "an") else value_of_words(match["number"])
            yield _form(match, (number + half) * _SIZES[match["unit"]], match["unit"])
    words = folded.split()
    is_foreign = not _FOREIGN_NUMBERS.keys().isdisjoint(words)  # six is French, too
    if is_foreign and not _FOREIGN_UNIT.isdisjoint(word.rstrip(".,;:!?)") for word in words):
        for match in _IN_FOREIGN_WORDS.finditer(folded):
            written, unit = match[0].split(" ")
            yield _form(match, _FOREIGN_NUMBERS[written] * _SIZES[unit], unit)
    if not folded.isascii():
        for match in _IN_HAN.finditer(folded):
            yield from _in_han(match)


def _in_han(match: re.Match[str]) -> Iterator[Form]:
    written, unit = match["number"] or "", match["unit"]
    is_row = len(written) > 1 and not written[0].isdigit() and not any(map(written.__contains__, SCALES))
    half = 0.5 if match["half"] or match["later"] or not written else 0
    is_none = unit in _COUNTED and not (match["of"] or match["only"])
    is_vague = (unit in ("天", "周") and not written) or (unit == "时间" and not written[:1].isdigit())
    if is_row or is_none or is_vague or (written in ("1", "一") and unit in ("天", "周", "年") and not half):
        return
    number = float(written) if written[:1].isdigit() else value_of(written) if written else 0
    rest = match["minutes"] or "0"
    minutes = int(rest) if rest.isdigit() else value_of(rest)
    yield _form(match, (number + half) * _SIZES[unit] + minutes, unit)


def _form(match: re.Match[str], size: float, unit: str = "h") -> Form:
    return Form(f"span:{size:g}{'mo' if unit in _MONTHS else ''}", *match.span())
