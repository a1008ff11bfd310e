"""Durations, decades, weeks, years and days of the week of a query written otherwise, as text."""

import re
from collections.abc import Iterator
from typing import Final

from pipeline.keyword.chinese_numerals import numeral
from pipeline.keyword.dates import ERAS, number
from pipeline.keyword.english_numerals import TENS
from pipeline.keyword.rewritings import Rewriting

_DURATIONS: Final = (
    ("15 minutes", "15 min", "quarter of an hour", "quarter hour", "15分钟", "十五分钟", "一刻钟"),
    ("30 minutes", "30 min", "half an hour", "half hour", "30分钟", "三十分钟", "半小时", "半个小时", "半个钟头"),
    ("45 minutes", "45 min", "three quarters of an hour", "45分钟", "四十五分钟", "三刻钟"),
    (
        *(
            "90 minutes",
            "90 min",
            "an hour and a half",
            "one and a half hours",
            "1.5 hours",
            "1h30",
            "1 h 30",
            "1 hour 30 minutes",
        ),
        *("90分钟", "九十分钟", "一个半小时", "1个半小时", "1.5小时", "1.5个小时"),
    ),
    (
        "150 minutes",
        "two and a half hours",
        "2.5 hours",
        "2h30",
        "2 h 30",
        "150分钟",
        "两个半小时",
        "2个半小时",
        "2.5小时",
        "2.5个小时",
    ),
    ("60 minutes", "60 min", "one hour", "1 hour", "an hour", "60分钟", "1小时", "一小时", "1个小时", "一个小时"),
    ("120 minutes", "120 min", "two hours", "2 hours", "120分钟", "2小时", "两小时", "2个小时", "两个小时"),
    ("6 months", "six months", "half a year", "half year", "6个月", "六个月", "半年"),
    ("18 months", "eighteen months", "a year and a half", "1.5 years", "18个月", "十八个月", "一年半", "1年半"),
    ("14 days", "two weeks", "2 weeks", "fortnight", "14天", "十四天", "两周", "2周", "两个星期"),
)
_SAME_DURATION: Final = {
    written: names
    for names in _DURATIONS
    for name in names
    for written in (name, name.removesuffix("s"), name.removesuffix("s").replace(" ", "-"))
}
_DURATION: Final = re.compile(
    rf"(?<![a-z0-9.,:年])(?:{'|'.join(sorted(map(re.escape, _SAME_DURATION), key=len, reverse=True))})(?![a-z0-9度])"
)

_HAS_DURATION: Final = re.compile(r"min|hour|month|year|week|fortnight|days|\dh|[分刻时年月天周星]|半个")

_DECADE_NAMES: Final = {f"{name[:-1]}ies": 10 * ten for ten, name in enumerate(TENS, start=2)}
_HAN_DIGITS: Final = "〇一二三四五六七八九"
_DECADE: Final = re.compile(
    rf"(?<![a-z0-9])(?:(?P<name>{'|'.join(_DECADE_NAMES)})|'?(?P<century>19|20)?(?P<tens>\d0)'?s)(?![a-z0-9])"
    r"|(?:(?:上|20)世纪|(?<!\d)(?P<before>19|20))?(?:(?P<digits>[1-9]0)|(?P<han>[一二三四五六七八九])十)年代"
)
_HAS_DECADE: Final = re.compile("ties|0'?s|年代")
_SHORT_YEAR: Final = re.compile(r"(?<![\w'])'(?P<year>\d\d)(?![\w'])|(?<!\d)(?P<han>[5-9]\d)年(?![代级期])")
_FIRST_OF_LAST_CENTURY: Final = 40

_ERA_YEAR: Final = re.compile(
    rf"(?P<era>{'|'.join(ERAS)})(?P<year>\d{{1,2}}|[{_HAN_DIGITS}十]{{1,3}}|元)年(?!\d|[{_HAN_DIGITS}十]{{1,2}}月)"
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
_SHORT_DAYS: Final = {
    name: day for day in _DAYS for name in (day, day[:3], *{"tu": ["tues"], "th": ["thur", "thurs"]}.get(day[:2], []))
}
_DAY: Final = "|".join(sorted(_SHORT_DAYS, key=len, reverse=True))
_HAS_DAY: Final = re.compile("(?:mon|tue|wed|thu|fri|sat|sun)[a-z]{0,6} ?(?:-|t)")
_DAYS_RANGE: Final = re.compile(
    rf"(?<!\w)(?P<first>{_DAY})(?: ?- ?| to | through | till | until )(?P<last>{_DAY})(?!\w)"
)


def spans_of_time(folded: str) -> Iterator[Rewriting]:
    """Yield the durations, decades, weeks, years and ranges of days of a folded query (`terms.fold`) that others write
    otherwise: half an hour as 30 minutes, the nineties as 1990s and 90年代, FY2022-23 as fiscal year 2022/23, Monday to Friday
    as Mon-Fri."""
    for match in _DURATION.finditer(folded) if _HAS_DURATION.search(folded) else ():
        yield Rewriting(match[0], tuple(other for other in _SAME_DURATION[match[0]] if other != match[0]))
    for match in _DECADE.finditer(folded) if _HAS_DECADE.search(folded) else ():
        yield Rewriting(match[0], tuple(other for other in _decade(match) if other != match[0]))
    for match in _SHORT_YEAR.finditer(folded):
        year = match["year"] or match["han"]
        centuries = ("19", "20") if int(year) < _FIRST_OF_LAST_CENTURY else ("19",)
        ways = tuple((f"{century}{year}",) for century in centuries)
        yield Rewriting(year if match["han"] else match[0], words=ways, is_sure=not match["han"])
    for match in _ERA_YEAR.finditer(folded):
        year = "1" if match["year"] == "元" else match["year"]
        since = int(year) if year.isdigit() else number(year)
        yield Rewriting(match[0], words=((f"{ERAS[match['era']] + since}",),))
    if any(map(str.isdigit, folded)):
        yield from _years(folded)
        for match in _WEEK.finditer(folded):
            year, week = (
                match["year"] or match["of"] or match["han_year"],
                int(match["week"] or match["number"] or match["han"]),
            )
            yield Rewriting(
                match[0],
                (
                    *(f"week {week} of {year}", f"week {week} {year}", f"kw {week} {year}", f"cw {week} {year}"),
                    *(f"{year}-w{week:02}", f"{year}w{week:02}", f"{year}年第{week}周"),
                ),
            )
    if not _HAS_DAY.search(folded):
        return
    for match in _DAYS_RANGE.finditer(folded):
        first, last = _SHORT_DAYS[match["first"]], _SHORT_DAYS[match["last"]]
        pairs = ((first, last), (first[:3], last[:3]))
        yield Rewriting(match[0], tuple(f"{a}{to}{b}" for a, b in pairs for to in ("-", " to ", " - ", " through ")))


def _decade(match: re.Match[str]) -> Iterator[str]:
    tens = str(_DECADE_NAMES.get(match["name"] or "") or match["tens"] or match["digits"] or "")
    tens = tens or f"{_HAN_DIGITS.index(match['han'])}0"
    century = match["century"] or match["before"] or "19"
    name = next((name for name, value in _DECADE_NAMES.items() if str(value) == tens), None)
    yield from (f"{century}{tens}s", f"{century}{tens}'s", f"{century}{tens}年代")
    if century == "19":
        yield from (f"{tens}s", f"{tens}年代", f"{numeral(int(tens))}年代", *([name] if name else []))


def _years(folded: str) -> Iterator[Rewriting]:
    """Yield two years in a row, and fiscal years, in their other spellings."""
    for match in _TWO_YEARS.finditer(folded):
        first, last = match["first"], match["last"][-2:]
        if (int(first) + 1) % 100 != int(last):
            continue
        spans = [f"{first}{sign}{end}" for sign in "-/" for end in (last, f"{(int(first) + 1)}")]
        if match["fiscal"]:
            spans += [f"fy{sign}{span}" for sign in ("", " ") for span in spans] + [
                f"fiscal year {span}" for span in spans
            ]
        yield Rewriting(match[0], tuple(span for span in spans if span != match[0]))
    for match in _FISCAL_YEAR.finditer(folded):
        year = match["year"]
        names = (
            f"fy{year}",
            f"fy20{year}",
            f"fy 20{year}",
            f"fiscal year 20{year}",
            f"fiscal 20{year}",
            f"20{year}财年",
        )
        yield Rewriting(match[0], tuple(name for name in names if name != match[0]))
