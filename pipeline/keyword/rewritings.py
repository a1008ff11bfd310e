"""Pieces of a query written otherwise, as text: numerals, amounts, units, times of day, kana, letters of Greek.

The index has one form of each text, so a query asks for the others. Every rule is cheap and proposes a handful of
writings, of which those count that some passage has.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from pipeline.keyword.chinese_numerals import (
    FROM_FORMAL,
    LARGE,
    SCALES,
    SIGNS,
    TO_FORMAL,
    VALUES,
    in_wan,
    numeral,
    value_of,
)
from pipeline.keyword.english_numerals import CARDINALS, NUMBER_WORDS, TENS, in_words


class Rewriting(NamedTuple):
    """A piece of a folded query, the texts that it may be written as, and sets of words that it may be written with.
    ``is_sure``: whether these name nothing else."""

    piece: str
    texts: tuple[str, ...] = ()
    words: tuple[tuple[str, ...], ...] = ()
    is_sure: bool = True


# Numerals of one sign count only behind 第 or before a measure word, for 一个 and 十分 are no numbers.
_NUMERAL: Final = re.compile(
    r"(?<!百分之)[一二三四五六七八九两十壹贰叁肆伍陆柒捌玖拾][〇零一二三四五六七八九两十百千万亿壹贰叁肆伍陆柒捌玖拾佰仟]{0,15}"
)
_MEASURES: Final = "天年月日周次个级层楼号点时分章节条款项届代期卷册版丁番回班组队栋幢室排厂院床桌团线路"
_MOST: Final = 10**10
_NUMBER: Final = re.compile(
    r"(?<![\d.,])(?P<digits>\d{1,9}|\d{1,3}(?:,\d{3})+|\d{1,4}\.\d{1,2}(?=万|亿))(?![\d,%]|\.\d)(?P<scale>万|亿)?(?P<rest>(?<=万)\d千)?"
)
_HAN: Final = re.compile("[\u4e00-\u9fff]")
_YEAR: Final = re.compile(r"(?<![\w.,/])(?:1[5-9]|20)\d\d(?=年|-)")
_BESIDE: Final = re.compile(" ?(?P<han>[\u4e00-\u9fff]{1,2})")
_LEADING_TWO: Final = re.compile("二(?=[百千万亿])")
_NOT_INDEXED_ALONE: Final = "个的了在有"  # see `terms.analyze`


def rewritings(folded: str) -> Iterator[Rewriting]:
    """Yield the pieces of a folded query (`terms.fold`) that others write otherwise."""
    has_digits = any(map(folded.__contains__, "0123456789"))
    if not folded.isascii():
        yield from _numerals(folded)
        yield from _weekdays(folded)
        yield from _kana(folded)
        yield from _nasals(folded)
    yield from _letters(folded)
    if has_digits or _SMALL_LETTER.search(folded):
        yield from _number_words(folded)
    if _SMALL_LETTER.search(folded):
        yield from _named_otherwise(folded)
        yield from _compounds(folded)
    if any(map(folded.__contains__, _IN_PARTS_OF_YEARS)):
        yield from _parts_of_years(folded)
    if has_digits or _HAN_MEASURED.search(folded):
        yield from _measured(folded)
    if has_digits or "零下" in folded:
        yield from _with_signs(folded)
    if has_digits:
        yield from _numbers_with_han(folded)
        if _HAN.search(folded):
            for match in _YEAR.finditer(folded):
                texts = ("".join(SIGNS[int(digit) + (digit != "0")] for digit in match[0]),)
                yield Rewriting(match[0], (*texts, *(text.replace("〇", "零") for text in texts if "〇" in text)))
        yield from _amounts(folded)
        yield from _names_with_numbers(folded)
        yield from _times(folded)
        yield from _dotted(folded)
    yield from _shortened(folded)
    if has_digits:
        yield from _thousands(folded)


_SMALL_LETTER: Final = re.compile("[a-z]{2}")
_SPOKEN: Final = re.compile(
    r"(?:凌晨|早上|早晨|上午|中午|下午|傍晚|晚上|夜里|早|晚|夜)?[一二三四五六七八九两十]{1,3}点(?:[一二三四五六七八九十]{1,3}分|半|整|钟|[一三]刻)?"
    r"|(?<![年〇零一二三四五六七八九十])[一二三四五六七八九十]{1,2}月[一二三四五六七八九十]{1,3}[日号]"
    r"|(?<![a-z])(?P<part>half|quarter|five|ten|twenty-five|twenty) (?P<side>past|to) (?P<named>[a-z]{3,6})(?![a-z])"
    r"(?P<later> (?:in the (?:afternoon|evening)|at night|p\.?m))?"
    r"|(?<![\w-])(?:q(?P<quarter>[1-4])[ '/-]?|(?P<quarter_first>[1-4])q ?)(?P<short>\d\d)(?!\w)"
    r"|(?P<han_first>元月(?:[一二三四五六七八九十]{1,3}[日号])?|元旦)|千分之(?P<thousandths>[一二三四五六七八九])(?![〇零一二三四五六七八九十])"
    r"|(?<![一二三四五六七八九十百])(?P<tenths>[一二三四五六七八九])成(?![立为功员本长果就人熟绩交都型套])"
    r"|(?<![\w.,:/-])(?P<military>[01]\d|2[0-3])(?P<past>[0-5]\d) ?(?:hours|hrs|h)(?![a-z])"
    r"|(?<![a-z-])(?P<percent>[a-z]{3,9}(?:[- ][a-z]{3,5})?)(?= ?per ?cent(?![a-z]))"
    r"|(?<![\d.,:])(?P<hour>\d\d?) ?(?:h|uhr) ?(?P<minute>[0-5]\d)(?!\d)"
)
_PARTS_OF_HOUR: Final = {"half": 30, "quarter": 15, "five": 5, "ten": 10, "twenty": 20, "twenty-five": 25}
_IN_NUMERALS: Final = re.compile("[一二三四五六七八九两十]+")


def in_digits(folded: str) -> str:
    """Return a text with its days and times of day in digits: 下午三点半 as 下午3点半, 14h30 as 14:30."""
    return _SPOKEN.sub(_digits, folded)


def _digits(match: re.Match[str]) -> str:
    if match["part"]:
        hour = CARDINALS.index(match["named"]) if match["named"] in CARDINALS else 0
        is_before, minutes = match["side"] == "to", _PARTS_OF_HOUR[match["part"]]
        half = " pm" if match["later"] else ""
        return f"{hour - is_before}:{60 - minutes if is_before else minutes:02}{half}" if 0 < hour <= 12 else match[0]
    if match["han_first"]:
        day = _IN_NUMERALS.sub(lambda numeral: str(value_of(numeral[0])), match[0][2:])
        return f"1月{day}" if match[0].startswith("元月") else "1月1日"
    if match["thousandths"]:
        return f"0.{VALUES[match['thousandths']]}%"
    if match["tenths"]:
        return f"{VALUES[match['tenths']]}0%"
    if match["short"]:
        return f"q{match['quarter'] or match['quarter_first']} 20{match['short']}"
    if match["military"]:
        return f"{match['military']}:{match['past']}"
    if match["percent"]:
        return NUMBER_WORDS.get(match["percent"], match[0])
    if match["hour"]:
        return f"{match['hour']}:{match['minute']}"
    return _IN_NUMERALS.sub(lambda numeral: str(value_of(numeral[0])), match[0])


def _numerals(folded: str) -> Iterator[Rewriting]:
    """Yield Chinese numerals in digits and in other numerals, with the characters beside them."""
    for match in _NUMERAL.finditer(folded):
        written = match[0]
        before, behind = folded[max(0, match.start() - 1) : match.start()], folded[match.end() : match.end() + 1]
        is_framed = before == "第" or (behind in _MEASURES and written not in "一两十")
        if not (is_framed or len(written) > 1) or (value := value_of(written)) > _MOST:
            continue
        before, behind = (sign if _HAN.fullmatch(sign) else "" for sign in (before, behind))
        plain = written.translate(FROM_FORMAL)
        others = [plain, plain.translate(TO_FORMAL)]
        if value >= LARGE and value % 1000 == 0:
            others.append(f"{in_wan(value)}万")
        yield Rewriting(f"{before}{written}{behind}", tuple(f"{before}{other}{behind}" for other in others))
        around = [sign for sign in (behind or before) if sign not in _NOT_INDEXED_ALONE]
        yield Rewriting(f"{before}{written}{behind}", words=((str(value), *around),), is_sure=bool(around))


_WEEKDAY: Final = re.compile("(?P<name>周|星期|礼拜)(?P<day>[一二三四五六日天])")
_SUNDAY: Final = "日天"


def _weekdays(folded: str) -> Iterator[Rewriting]:
    """Yield the days of the week in their other names."""
    for match in _WEEKDAY.finditer(folded):
        days = _SUNDAY if match["day"] in _SUNDAY else match["day"]
        names = (f"{name}{day}" for name in ("周", "星期", "礼拜") for day in days)
        yield Rewriting(match[0], tuple(name for name in names if name != "周天"))


def _numbers_with_han(folded: str) -> Iterator[Rewriting]:
    """Yield numbers beside Han characters in Chinese numerals, with these characters."""
    for match in _NUMBER.finditer(folded):
        found = _BESIDE.match(folded, match.end())
        behind = found["han"] if found else ""
        before = folded[max(0, match.start() - 1) : match.start()]
        before = before if _HAN.fullmatch(before) else ""
        value = round(float(match["digits"].replace(",", "")) * SCALES.get(match["scale"] or "", 1))
        value += 1000 * int(match["rest"][0]) if match["rest"] else 0
        if not (before or behind or match["scale"]) or not 0 < value <= _MOST:
            continue
        numerals = (written := numeral(value), _LEADING_TWO.sub("两", written), written.translate(TO_FORMAL))
        texts = [f"{before}{written}{behind[:1]}" for written in numerals]
        if not match["scale"] and value >= LARGE and value % 1000 == 0:
            texts.append(f"{in_wan(value)}万{behind[:1]}")
            if value >= SCALES["亿"] and value % 10**6 == 0:
                texts.append(f"{value / SCALES['亿']:g}亿{behind[:1]}")
            texts.append(f"{value // LARGE}万{value % LARGE // 1000}千{behind[:1]}")
        words = ((str(value), *behind[:1]),) if match["scale"] else ()
        # The characters behind a number are a bigram of the query, with the scale.
        behind = behind[:1] if match["scale"] else behind
        yield Rewriting(
            f"{match['digits'].replace(',', '')}{match['scale'] or ''}{match['rest'] or ''}{behind}",
            tuple(texts),
            words,
        )


_AMOUNT: Final = re.compile(
    r"(?<![\w.,'])(?P<whole>\d{1,3}(?:(?P<sign>[.,' ])\d{3})(?:(?P=sign)\d{3})*|\d{4,9})"
    r"(?:(?P<point>[.,])(?P<cents>\d\d))?(?!\w|[.,']\d)"
)

_PRICE: Final = re.compile(
    r"(?:[$€£¥]|(?<![a-z])(?:usd|eur|gbp|cny|rmb)) ?(?P<before>\d{1,3}(?:,\d{3})+|\d{1,9})(?![\w]|[.,]\d)"
    r"|(?<![\w.,])(?P<behind>\d{1,3}(?:,\d{3})+|\d{1,9}) ?"
    r"(?:[$€£¥元块]|(?:dollars?|euros?|pounds?|usd|eur|gbp|cny|rmb)(?![a-z]))"
)


def _amounts(folded: str) -> Iterator[Rewriting]:
    """Yield amounts of money and counts with the separators of other countries."""
    for match in _AMOUNT.finditer(folded):
        sign, point = match["sign"], match["point"]
        if (sign is not None and sign == point) or not (sign or point):
            continue
        digits = re.sub(r"\D", "", match["whole"])
        grouped = f"{int(digits):,}"
        ends = (f".{match['cents']}", f",{match['cents']}") if point else ("", "")
        other_signs = [(",", ".", ends[1]), (",", " ", ends[1]), (",", "'", ends[0])]
        texts = [*(digits + end for end in ends), *(grouped.replace(old, new) + end for old, new, end in other_signs)]
        if match["cents"] == "00":
            texts += [digits, grouped.replace(",", ".")]
        own = digits if sign == "," and not point else ""  # 1,000 and 1000 are one term
        yield Rewriting(match[0], tuple(text for text in texts if text != own))
    for match in _PRICE.finditer(folded):
        written = match["before"] or match["behind"]
        digits = written.replace(",", "")
        grouped = f"{int(digits):,}"
        with_points = grouped.replace(",", ".")
        yield Rewriting(written, (f"{digits}.00", f"{grouped}.00", f"{digits},00", f"{with_points},00"))


_UNITS: Final = (
    ("kg", "公斤", "千克", "kilogram"), ("km", "公里", "千米", "kilometre", "kilometer"), ("cm", "厘米", "centimetre"),
    ("mm", "毫米", "millimetre"), ("ml", "毫升", "millilitre"), ("mg", "毫克", "milligram"),
    ("km/h", "公里每小时", "kilometres per hour", "kilometers per hour", "kph"),

    ("m2", "平方米", "平米", "sq m", "square metres", "square meters", "sqm"),
    ("m3", "立方米"), ("kw", "千瓦"), ("kwh", "千瓦时", "度"), ("w", "瓦"), ("v", "伏", "伏特"),
    ("ma", "毫安"), ("t", "吨", "tonne"), ("g", "克"), ("l", "升", "litre", "liter"), ("m", "米", "metre", "meter"),
    ("s", "秒", "秒钟", "second"),
    ("kb", "kilobyte"), ("mb", "megabyte"), ("gb", "gigabyte"), ("tb", "terabyte"), ("mah", "毫安时"), ("hz", "赫兹", "hertz"),
    ("db", "分贝", "decibel"), ("hp", "马力", "horsepower"), ("ha", "公顷", "hectare"), ("mph", "miles per hour"),
    ("ft", "feet", "foot", "英尺"), ("lb", "lbs", "pound", "磅"), ("oz", "ounce", "盎司"), ("mi", "mile", "英里"),
    ("°c", "摄氏度", "度", "degrees celsius"), ("°f", "华氏度", "degrees fahrenheit"),
)  # fmt: skip
_SAME_UNIT: Final = {
    written: [other for group in _UNITS if name in group for other in group if other != name]
    for name in dict.fromkeys(name for group in _UNITS for name in group)
    for written in ((name, f"{name}s") if name.isascii() and name.isalpha() and len(name) > 3 else (name,))
}
_MEASURED: Final = re.compile(
    r"(?<![a-z0-9_.])(?P<number>\d{1,9}(?:\.\d{1,3})?) ?"
    rf"(?P<unit>{'|'.join(sorted(_SAME_UNIT, key=len, reverse=True))})(?![a-z0-9])"
)


_HAN_UNITS: Final = sorted((unit for unit in _SAME_UNIT if len(unit) > 1 and _HAN.match(unit)), key=len, reverse=True)
_HAN_MEASURED: Final = re.compile(rf"(?P<number>[一二三四五六七八九两十百千万]{{1,6}})(?P<unit>{'|'.join(_HAN_UNITS)})")


def _measured(folded: str) -> Iterator[Rewriting]:
    """Yield amounts in other units of the same size, with a blank before the unit or none."""
    for match in _MEASURED.finditer(folded):
        units = _SAME_UNIT[match["unit"]]
        texts = tuple(
            f"{match['number']}{blank}{unit}" for unit in units for blank in (" ", "")[: 1 + unit[-1].isdigit()]
        )
        if match["number"].isdigit() and 0 < int(match["number"]) < LARGE:
            texts += tuple(f"{numeral(int(match['number']))}{unit}" for unit in units if unit in _HAN_UNITS)
        is_part = len(match["unit"]) == 1 and _HAN.match(match["unit"]) and _HAN.match(folded, match.end())
        words = tuple((match["number"], unit) for unit in units if _HAN.fullmatch(unit))
        yield Rewriting(match["number"] if is_part else match[0], texts, words)
    for match in _HAN_MEASURED.finditer(folded):
        value = value_of(match["number"])
        yield Rewriting(match[0], tuple(f"{value} {unit}" for unit in (match["unit"], *_SAME_UNIT[match["unit"]])))


_BELOW_ZERO: Final = re.compile(
    rf"(?:零下|(?<![a-z])minus ?|(?<!\w)- ?)(?P<number>\d{{1,2}}|[{SIGNS[1:]}十]{{1,3}}) ?"
    r"(?:度|摄氏度|°c|°|degrees?(?: celsius)?|c(?![a-z]))"
)
_FEET: Final = re.compile(
    r"(?<![\w.])(?P<feet>[3-8]) ?(?:ft|feet|foot|') ?(?P<inches>\d\d?)(?: ?(?:in|inch|inches|\")|(?![\w.]))"
)


def _with_signs(folded: str) -> Iterator[Rewriting]:
    """Yield temperatures below zero, and heights in feet and inches, with signs and with words."""
    for match in _BELOW_ZERO.finditer(folded):
        value = int(match["number"]) if match["number"].isdigit() else value_of(match["number"])
        words = (f"minus {value} degrees", f"零下{value}度", f"零下{numeral(value)}度")
        yield Rewriting(match[0], (f"-{value}°c", f"- {value} °c", *words))
    for match in _FEET.finditer(folded):
        feet, inches = match["feet"], match["inches"]
        signs = ("'", " ft ", " feet ", " foot ")
        yield Rewriting(match[0], tuple(f"{feet}{sign}{inches}" for sign in signs))


_NAMED: Final = re.compile(
    r"(?<![a-z0-9.])(?P<name>[a-z]{2,20})(?P<blank> ?)(?P<number>\d{1,3}(?:\.\d{1,3}){1,2}[a-z]{0,2})(?![\w]|\.\d)"
)
_TIMES_SIGN: Final = re.compile(r"(?<=\d)([x×])(?=\d)")
_BY: Final = re.compile(r"(?<!\w)[a-z]{0,2}\d[\dx×.]{0,12}[x×]\d+(?!\w)")


def _names_with_numbers(folded: str) -> Iterator[Rewriting]:
    """Yield names with a version joined or apart (Python3.9), and sizes with x for the sign of multiplication."""
    for match in _NAMED.finditer(folded):
        between = "" if match["blank"] else " "
        yield Rewriting(match[0], (f"{match['name']}{between}{match['number']}",))
    for match in _BY.finditer(folded):
        yield Rewriting(match[0], tuple(_TIMES_SIGN.sub(sign, match[0]) for sign in "x×"))


_TIME: Final = re.compile(r"(?<![\d:.])(?P<h>[01]?\d|2[0-3]):(?P<m>[0-5]\d)(?![\d:])")
_QUARTERS_OF_HOUR: Final = {15: ("一刻",), 45: ("三刻",)}
_PARTS_OF_DAY: Final = ((6, "凌晨"), (12, "上午"), (18, "下午"), (24, "晚上"))


def _times(folded: str) -> Iterator[Rewriting]:
    """Yield times of day in Chinese numerals and as in French."""
    for match in _TIME.finditer(folded):
        hour, minute = int(match["h"]), int(match["m"])
        part = next(name for end, name in _PARTS_OF_DAY if hour < end)
        minutes: tuple[str, ...] = (f"{numeral(minute)}分", *_QUARTERS_OF_HOUR.get(minute, ()))
        if minute in (0, 30):
            minutes = ("半", "三十分") if minute else ("整", "")
        spoken = [numeral(hour)] if 0 < hour <= 12 else [f"{part}{numeral((hour - 1) % 12 + 1)}", numeral(hour)]
        texts = [*(f"{name}点{end}" for name in spoken for end in minutes), f"{hour}h{match['m']}"]
        if not minute and hour in (0, 12):
            texts.append("noon" if hour else "midnight")
        yield Rewriting(match[0], tuple(texts))


_SEPARATED: Final = re.compile(r"(?<![\w.-])(\d{3})([. -])(\d{3})\2(\d{4})(?![\w-]|\.\d)")


def _dotted(folded: str) -> Iterator[Rewriting]:
    """Yield telephone numbers of North America with points, and with points as one number."""
    for match in _SEPARATED.finditer(folded):
        groups = match.group(1, 3, 4)
        yield Rewriting(match[0], ("".join(groups) if match[2] == "." else ".".join(groups),))


_THOUSANDS: Final = {"k": 3, "thousand": 3, "million": 6, "mio": 6, "millionen": 6, "billion": 9}
_SCALED: Final = re.compile(
    r"(?<![\w.,])(?P<number>\d{1,3}(?:[.,]\d{1,3})?) ?"
    rf"(?P<scale>{'|'.join(sorted(_THOUSANDS, key=len, reverse=True))})(?![a-z0-9])"
)
_PLAIN: Final = re.compile(r"(?<![\w.,/-])(?:\d{1,3}(?:,\d{3}){1,3}|\d{4,12})(?!\w|[.,]\d)")


_MILLIONS: Final = re.compile(
    r"(?<=[$€£¥])(?P<number>\d{1,3}(?:\.\d{1,2})?) ?(?P<scale>million|billion|mn?|bn?)(?![a-z0-9])"
)
_DOZENS: Final = re.compile(r"(?<![\w.,])(?:(?P<number>\d\d?|a|two|three|four|five|six) )?dozen(?![a-z])")
_FRACTIONS: Final = (
    ("1/2", "half"), ("1/3", "one third", "a third"), ("2/3", "two thirds"), ("1/4", "one quarter", "a quarter"),
    ("3/4", "three quarters"),
)  # fmt: skip
_HAN_FRACTION: Final = re.compile("(?P<below>[二三四五六七八九])分之(?P<above>[一二三四五六七八九])")
_SMALL_FRACTION: Final = re.compile(r"(?<![\w.,/-])(?P<above>[1-9])/(?P<below>[2-9])(?![0-9a-z/])")
_SAME_FRACTION: Final = {name: names for names in _FRACTIONS for name in names}
_FRACTION: Final = re.compile(rf"(?<![\w.,/-])(?:{'|'.join(_SAME_FRACTION)})(?![a-z0-9/])")
_NUMBERS_RANGE: Final = re.compile(
    r"(?<![\w.,:/-])(?P<first>\d\d?) ?(?:-|to|至|到) ?(?P<last>\d\d?)(?![0-9a-z]|[.,:/-]\d)"
)
_VERSION_ALONE: Final = re.compile(r"(?<![\w.-])(?:v ?(?P<number>\d{1,3})|version (?P<named>\d{1,3}))(?![\w-]|\.\d)")


def _shortened(folded: str) -> Iterator[Rewriting]:
    """Yield versions, ranges of small numbers, fractions, dozens and millions in their other spellings: v3 as version 3, 3-5 as
    three to five, 1/2 as half."""
    for match in _VERSION_ALONE.finditer(folded):
        way = f"version {match['number']}" if match["number"] else f"v{match['named']}"
        yield Rewriting(match[0], (way, way.replace("version ", "v. ")))
    for match in _NUMBERS_RANGE.finditer(folded):
        first, last = int(match["first"]), int(match["last"])
        if first < last:
            pairs = (
                (in_words(first)[0], " to ", in_words(last)[0]),
                *((numeral(first), to, numeral(last)) for to in "至到"),
            )
            yield Rewriting(match[0], tuple(map("".join, pairs)))
    for match in _FRACTION.finditer(folded):
        yield Rewriting(match[0], _SAME_FRACTION[match[0]], is_sure=match[0] != "half")
    for match in _HAN_FRACTION.finditer(folded):
        yield Rewriting(match[0], (f"{VALUES[match['above']]}/{VALUES[match['below']]}",))
    for match in _SMALL_FRACTION.finditer(folded):
        yield Rewriting(match[0], (f"{numeral(int(match['below']))}分之{numeral(int(match['above']))}",))
    for match in _DOZENS.finditer(folded):
        number = match["number"] or "1"
        count = int(number) if number.isdigit() else max(1, CARDINALS.index(number) if number in CARDINALS else 1)
        yield Rewriting(match[0], words=((str(12 * count),),), is_sure=False)
    for match in _MILLIONS.finditer(folded):
        scale, short, zeros = ("billion", "bn", 9) if match["scale"].startswith("b") else ("million", "m", 6)
        value = round(float(match["number"]) * 10**zeros)
        yield Rewriting(match[0], (f"{match['number']} {scale}", f"{match['number']}{short}", str(value)))


def _thousands(folded: str) -> Iterator[Rewriting]:
    """Yield numbers of thousands and millions in digits (2.5 million: 2,500,000), and the reverse."""
    for match in _SCALED.finditer(folded):
        value = float(match["number"].replace(",", ".")) * 10 ** _THOUSANDS[match["scale"]]
        if value.is_integer():
            yield Rewriting(match[0], (f"{value:.0f}",))
    for match in _PLAIN.finditer(folded):
        value = int(match[0].replace(",", ""))
        is_year = value < LARGE and match[0].isdigit()
        if value % 1000 or is_year or folded[match.end() : match.end() + 1] in SCALES:
            continue
        names = ("k", " k", " thousand") if value < 10**6 else (" million",) if value < 10**9 else (" billion",)
        number = value / 10 ** (3 if value < 10**6 else 6 if value < 10**9 else 9)
        if number == round(number, 2):
            yield Rewriting(match[0], tuple(f"{number:g}{name}" for name in names))


_ORDINAL_NAMES: Final = (("first", "1st"), ("second", "2nd"), ("third", "3rd"), ("fourth", "4th"))
_QUARTERS: Final = tuple(
    (f"q{n}", f"第{han}季度", f"{han}季度", f"第{n}季度", f"{n}季度", f"{name} quarter", f"{short} quarter")
    for n, (han, (name, short)) in enumerate(zip("一二三四", _ORDINAL_NAMES, strict=True), start=1)
)
_HALVES: Final = (
    ("h1", "上半年", "first half", "1st half"),
    ("h2", "下半年", "second half", "2nd half"),
)
_IN_PARTS_OF_YEARS: Final = ("季度", "半年", "quarter", "half", "q1", "q2", "q3", "q4", "h1", "h2")
_SAME_PART: Final = {name: names for names in (*_QUARTERS, *_HALVES) for name in names}
_PART_OF_YEAR: Final = re.compile(
    r"(?<![a-z0-9])(?:(?P<year>20\d\d)[ -]?)?(?P<name>q[1-4]|h[12])(?:[ /-]?(?P<behind>20\d\d))?(?![a-z0-9])"
    r"|(?:(?<!\d)(?P<han_year>20\d\d)年)?(?P<han>第?[一二三四1-4]季度|[上下]半年)"
    r"|(?<![a-z0-9])(?P<words>(?:first|second|third|fourth|1st|2nd|3rd|4th) (?:quarter|half))"
    r"(?: of (?P<words_year>20\d\d))?(?![a-z0-9])"
)


def _parts_of_years(folded: str) -> Iterator[Rewriting]:
    """Yield quarters and halves of a year in their other names: h1 2024 as first half of 2024 and 2024年上半年. A quarter
    with its year is a term of its own."""
    for match in _PART_OF_YEAR.finditer(folded):
        name = match["name"] or match["han"] or match["words"]
        year = match["year"] or match["behind"] or match["han_year"] or match["words_year"]
        names = _SAME_PART.get(name, ())
        if not year:
            yield Rewriting(match[0], names)
        elif names in _HALVES:
            short, han, *words = names
            ways = (f"{short} {year}", f"{year} {short}", f"{year}{short}", f"{year}年{han}", f"{year}{han}")
            yield Rewriting(match[0], (*ways, *(f"{written} of {year}" for written in words)))


_STANDARD: Final = re.compile(r"(?<![a-z])iso(?P<joint>[/ ]?iec)?(?P<number>[ -]?\d{3,5}(?:-\d{1,2})?)(?![\d.])")
_AND: Final = re.compile("(?<![a-z])([a-z]{1,2}) and ([a-z])(?![a-z])")
_HOURS: Final = {"noon": ("12:00", "12 pm"), "midday": ("12:00", "12 pm"), "midnight": ("00:00", "12 am")}
_HOUR: Final = re.compile("(?<![a-z])(?:noon|midday|midnight)(?![a-z])")


def _named_otherwise(folded: str) -> Iterator[Rewriting]:
    """Yield standards of ISO with and without IEC, names with & for and, and noon and midnight as times."""
    for match in _STANDARD.finditer(folded):
        number = match["number"].strip(" -")
        texts = (f"iso {number}", f"iso{number}") if match["joint"] else (f"iso/iec {number}",)
        yield Rewriting(match[0], texts)
    for match in _AND.finditer(folded):
        yield Rewriting(match[0], (f"{match[1]}&{match[2]}",))
    for match in _HOUR.finditer(folded):
        yield Rewriting(match[0], _HOURS[match[0]])


_OF: Final = re.compile(
    r"(?<!\w)(?P<last>[a-z]{4,20}) (?:der|des|dem|den|von|vom|fur|fuer|zum|zur|im|am|van|voor)"
    r"(?: (?:der|das|die|den|dem|de|het|einen|einer|einem|eines))? (?P<first>[a-z]{4,20})(?!\w)"
)
_ENDING: Final = re.compile("(?:es|s|en|n|e)$")
_WITH_JOINT: Final = re.compile(r"(?<!\w)([a-z]{3,20}(?:ung|heit|keit|schaft|itat)) ([a-z]{4,20})(?!\w)")


def _compounds(folded: str) -> Iterator[Rewriting]:
    """Yield two nouns of German or Dutch as one: wartung des aufzugs as aufzugswartung, kundigung frist as kundigungsfrist."""
    for match in _WITH_JOINT.finditer(folded):
        yield Rewriting(match[0], words=((f"{match[1]}s{match[2]}",),), is_sure=False)
    for match in _OF.finditer(folded):
        first, last = match["first"], match["last"]
        plain = _ENDING.sub("", first)
        starts = (first, f"{first}s", f"{first}n", plain, f"{plain}s", f"{plain}en")
        yield Rewriting(match[0], words=tuple((f"{start}{last}",) for start in starts), is_sure=False)


_KATAKANA: Final = re.compile("[\u30a1-\u30f6ー]{2,}")
_HIRAGANA: Final = re.compile("[\u3041-\u3096ー]{3,}")
_LONG_END: Final = re.compile("(?<=[\u30a1-\u30f6])ー$")


def _kana(folded: str) -> Iterator[Rewriting]:
    """Yield words in katakana also in hiragana, and the reverse, each with the Han character behind it; サーバー as サーバ."""
    for pattern, shift in ((_KATAKANA, -0x60), (_HIRAGANA, 0x60)):
        for match in pattern.finditer(folded):
            behind = folded[match.end() : match.end() + 1]
            behind = behind if _HAN.fullmatch(behind) else ""
            texts = ["".join(sign if sign == "ー" else chr(ord(sign) + shift) for sign in match[0])]
            if _LONG_END.search(match[0]):
                texts.append(match[0][:-1])
            yield Rewriting(match[0] + behind, tuple(text + behind for text in texts))


# In Hindi a nasal before a consonant of its class is written as a letter or as a point.
_NASALS: Final = {"ङ": "क-घ", "ञ": "च-झ", "ण": "ट-ढ", "न": "त-ध", "म": "प-भ"}
_POINTS: Final = tuple((re.compile(f"\u0902(?=[{others}])"), f"{nasal}\u094d") for nasal, others in _NASALS.items())
_LETTERS: Final = tuple((re.compile(f"{nasal}\u094d(?=[{others}])"), "\u0902") for nasal, others in _NASALS.items())
_HINDI: Final = re.compile("[\u0900-\u097f]+")


def _nasals(folded: str) -> Iterator[Rewriting]:
    for match in _HINDI.finditer(folded):
        for rules in (_POINTS, _LETTERS):
            other = match[0]
            for pattern, written in rules:
                other = pattern.sub(written, other)
            yield Rewriting(match[0], (other,))


_WORDS_OF_NUMBERS: Final = {digits: written for written, digits in NUMBER_WORDS.items() if " " not in written}
_ANY_NUMBER_WORD: Final = re.compile(
    rf"(?<![a-z-])(?:(?:{'|'.join(TENS)})[ -](?:[a-z]+)|(?:first|t|fou?r|f|s|e|n)[a-z]*)(?![a-z-])"
)
_SMALL: Final = re.compile(r"(?<![\w.,:/-])\d\d?(?:st|nd|rd|th)?(?!\w|[.,:/-]\d)")


def _number_words(folded: str) -> Iterator[Rewriting]:
    """Yield English numbers below a hundred in words and in digits: twenty-first and 21st, fifteen and 15."""
    for match in _ANY_NUMBER_WORD.finditer(folded):
        if digits := NUMBER_WORDS.get(match[0]):
            yield Rewriting(match[0], (digits,))
    for match in _SMALL.finditer(folded):
        if written := _WORDS_OF_NUMBERS.get(match[0]):
            yield Rewriting(match[0], (written,))


_LETTER_NAMES: Final = {
    "α": ("alpha", "阿尔法"), "β": ("beta", "贝塔"), "γ": ("gamma", "伽马"), "δ": ("delta",), "ε": ("epsilon",),
    "κ": ("kappa",), "λ": ("lambda",), "μ": ("mu",), "π": ("pi",), "σ": ("sigma",), "τ": ("tau",), "ω": ("omega",),
}  # fmt: skip
_BY_NAME: Final = {name: letter for letter, names in _LETTER_NAMES.items() for name in names}
_LETTER: Final = re.compile(rf"(?<![\u0370-\u03ff])[{''.join(_LETTER_NAMES)}](?![\u0370-\u03ff])")
_NAME: Final = re.compile(rf"(?<![a-z])(?:{'|'.join(_BY_NAME)})(?![a-z])")


def _letters(folded: str) -> Iterator[Rewriting]:
    """Yield single Greek letters by their names, and the reverse."""
    for match in _LETTER.finditer(folded):
        yield Rewriting(match[0], _LETTER_NAMES[match[0]])
    for match in _NAME.finditer(folded):
        yield Rewriting(match[0], (_BY_NAME[match[0]],))
