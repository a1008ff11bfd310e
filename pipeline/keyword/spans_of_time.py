"""Decades, weeks, years and days of the week of a query written otherwise, as text."""

import re
from collections.abc import Iterator
from typing import Final

from pipeline.keyword.chinese_numerals import VALUES, numeral, value_of
from pipeline.keyword.dates import ERAS
from pipeline.keyword.english_numerals import TENS
from pipeline.keyword.rewritings import Rewriting

_DECADE_NAMES: Final = {f"{name[:-1]}ies": 10 * ten for ten, name in enumerate(TENS, start=2)}
_DECADE: Final = re.compile(
    rf"(?<![a-z0-9])(?:(?P<name>{'|'.join(_DECADE_NAMES)})|'?(?P<century>19|20)?(?P<tens>\d0)'?s)(?![a-z0-9])"
    r"|(?:(?:上|20)世纪|(?<!\d)(?P<before>19|20))?(?:(?P<digits>[1-9]0)|(?P<han>[一二三四五六七八九])十)年代"
)
_HAS_DECADE: Final = re.compile("ties|0'?s|年代")
_SHORT_YEAR: Final = re.compile(r"(?<![\w'])'(?P<year>\d\d)(?![\w'])|(?<!\d)(?P<han>[5-9]\d)年(?![代级期])")
_FIRST_OF_LAST_CENTURY: Final = 40

_ERA_YEAR: Final = re.compile(
    rf"(?P<era>{'|'.join(ERAS)})(?P<year>\d{{1,2}}|[{''.join(VALUES)}十]{{1,3}}|元)年(?!\d|[一二三四五六七八九十]{{1,2}}月)"
)

_FISCAL: Final = r"(?P<fiscal>fy|fiscal year|financial year|school year|academic year|season)"
_TWO_YEARS: Final = re.compile(
    rf"(?<![\w.,/-])(?:{_FISCAL} ?)?(?P<first>(?:19|20)\d\d) ?[-/] ?(?P<last>(?:19|20)?\d\d)(?!\w|[./-]\w)"
)
_FISCAL_YEAR: Final = re.compile(r"(?<![\w-])(?:fy|fiscal year|financial year|fiscal) ?(?:20)?(?P<year>\d\d)(?![\w/-])")

_WEEK: Final = re.compile(
    r"(?<![\w-])(?P<year>20\d\d)[- ]?(?:w|kw|cw)(?P<week>\d\d)(?!\w)"
    r"|(?<!\w)(?:week|kw|cw) ?(?P<number>\d\d?),? ?(?:of |in |/)?(?P<of>20\d\d)(?!\w)"
    r"|(?<!\d)(?P<han_year>20\d\d)年第(?P<han>\d\d?)周"
)

_DAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_SHORT_DAYS: Final = {name: day for day in _DAYS for name in (day, day[:3])} | {
    "tues": "tuesday",
    "thur": "thursday",
    "thurs": "thursday",
}
_DAY: Final = "|".join(sorted(_SHORT_DAYS, key=len, reverse=True))
_HAS_DAY: Final = re.compile("(?:mon|tue|wed|thu|fri|sat|sun)[a-z]{0,6} ?(?:-|t)")
_DAYS_RANGE: Final = re.compile(
    rf"(?<!\w)(?P<first>{_DAY})(?: ?- ?| to | through | till | until )(?P<last>{_DAY})(?!\w)"
)


def spans_of_time(folded: str) -> Iterator[Rewriting]:
    """Yield the decades, weeks, years and ranges of days of a folded query (`terms.fold`) that others write otherwise: the
    nineties as 1990s and 90年代, FY2022-23 as fiscal year 2022/23, Monday to Friday as Mon-Fri."""
    for match in _DECADE.finditer(folded) if _HAS_DECADE.search(folded) else ():
        yield Rewriting(match[0], tuple(_decade(match)))
    for match in _SHORT_YEAR.finditer(folded):
        year = match["year"] or match["han"]
        centuries = ("19", "20") if int(year) < _FIRST_OF_LAST_CENTURY else ("19",)
        ways = tuple((f"{century}{year}",) for century in centuries)
        yield Rewriting(year if match["han"] else match[0], words=ways, is_sure=not match["han"])
    for match in _ERA_YEAR.finditer(folded):
        year = match["year"].replace("元", "一")
        since = int(year) if year.isdigit() else value_of(year)
        yield Rewriting(match[0], words=((f"{ERAS[match['era']] + since}",),))
    if any(map(str.isdigit, folded)):
        yield from _years(folded)
        yield from _weeks(folded)
    for match in _DAYS_RANGE.finditer(folded) if _HAS_DAY.search(folded) else ():
        first, last = _SHORT_DAYS[match["first"]], _SHORT_DAYS[match["last"]]
        pairs = ((first, last), (first[:3], last[:3]))
        yield Rewriting(match[0], tuple(f"{a}{to}{b}" for a, b in pairs for to in ("-", " to ", " - ", " through ")))


def _decade(match: re.Match[str]) -> Iterator[str]:
    written = match["tens"] or match["digits"]
    tens = int(written) if written else _DECADE_NAMES.get(match["name"]) or 10 * VALUES[match["han"]]
    century = match["century"] or match["before"] or "19"
    yield from (f"{century}{tens:02}{ending}" for ending in ("s", "'s", "年代"))
    if century == "19":
        yield from (f"{tens:02}s", f"{tens:02}年代", f"{numeral(tens)}年代")
        yield from (name for name, value in _DECADE_NAMES.items() if value == tens)


def _years(folded: str) -> Iterator[Rewriting]:
    """Yield two years in a row, and fiscal years, in their other spellings."""
    for match in _TWO_YEARS.finditer(folded):
        first, after = match["first"], f"{int(match['first']) + 1}"
        if after[-2:] != match["last"][-2:]:
            continue
        spans = [f"{first}{sign}{end}" for sign in "-/" for end in (after[-2:], after)]
        fiscal = [f"{name}{span}" for name in ("fy", "fy ", "fiscal year ") for span in spans]
        yield Rewriting(match[0], (*spans, *(fiscal if match["fiscal"] else ())))
    for match in _FISCAL_YEAR.finditer(folded):
        year = match["year"]
        names = (f"fy{year}", f"fy20{year}", f"fy 20{year}", f"fiscal year 20{year}", f"fiscal 20{year}")
        yield Rewriting(match[0], (*names, f"20{year}财年"))


def _weeks(folded: str) -> Iterator[Rewriting]:
    for match in _WEEK.finditer(folded):
        year = match["year"] or match["of"] or match["han_year"]
        week = int(match["week"] or match["number"] or match["han"])
        named = (f"week {week} of {year}", f"week {week} {year}", f"kw {week} {year}", f"cw {week} {year}")
        yield Rewriting(match[0], (*named, f"{year}-w{week:02}", f"{year}w{week:02}", f"{year}年第{week}周"))
