"""Days and times of day that a text names, each as one term whatever its spelling."""

import re
from collections.abc import Iterator
from datetime import date
from typing import Final, NamedTuple

from pipeline.keyword.chinese_numerals import VALUES, value_of


class Form(NamedTuple):
    """Another spelling of a piece of text, as a term, with the start and end of the piece."""

    term: str
    start: int
    end: int


_MONTHS: Final = {
    name: month
    for month, names in enumerate(
        (
            "january jan januar januarie janvier enero gennaio janeiro januari ocak января январь ianuarie "
            "stycznia styczen ledna leden tammikuuta tammikuun sausio jaanuar gener januara јануара януари січня "
            "ιανουαριου ιανουαριοσ يناير ژانويه ינואר जनवरी มกราคม",
            "february feb februar fevrier febrero febbraio fevereiro februari subat февраля февраль februarie "
            "lutego luty unora unor helmikuuta helmikuun vasario veebruar febrer februara фебруара февруари "
            "лютого φεβρουαριου φεβρουαριοσ فبراير شباط فوريه פברואר फरवरी กุมภาพันธ์",
            "march mar marz mars marzo marco maart mart марта март marts maret marcius martie marca marzec brezna "
            "brezen maaliskuuta maaliskuun kovo marta березня μαρτιου μαρτιοσ مارس اذار מרץ मार्च มีนาคม",
            "april apr avril abril aprile nisan апреля апрель aprilis aprilie kwietnia kwiecien dubna duben "
            "huhtikuuta huhtikuun balandzio aprill aprila априла април квітня απριλιου απριλιοσ ابريل نيسان اوريل "
            "אפריל अप्रैल เมษายน",
            "may mai mayo maggio maio mei mayis мая маи maj majus maja kvetna kveten toukokuuta toukokuun geguzes "
            "maig маја травня μαιου μαιοσ مايو ايار מאי मई พฤษภาคม",
            "june jun juni juin junio giugno junho haziran июня июнь junius iunie czerwca czerwiec cervna cerven "
            "kesakuuta kesakuun birzelio juuni juny juna јуна юни червня ιουνιου ιουνιοσ يونيو حزيران ژوين יוני "
            "जून มิถุนายน",
            "july jul juli juillet julio luglio julho temmuz июля июль julius iulie lipca lipiec cervence "
            "cervenec heinakuuta heinakuun liepos juuli juliol jula јула юли липня ιουλιου ιουλιοσ يوليو تموز "
            "ژوييه יולי जुलाई กรกฎาคม",
            "august aug aout agosto augustus agustos августа август augusti augusztus agustus sierpnia sierpien "
            "srpna srpen elokuuta elokuun rugpjucio agost avgusta серпня αυγουστου αυγουστοσ اغسطس اوت אוגוסט "
            "अगस्त สิงหาคม",
            "september sep sept septembre septiembre settembre setembro eylul сентября сентябрь szeptember "
            "septembrie wrzesnia wrzesien zari syyskuuta syyskuun rugsejo setembre septembra септембра септември "
            "вересня σεπτεμβριου σεπτεμβριοσ سبتمبر ايلول سپتامبر ספטמבר सितंबर सितम्बर กันยายน",
            "october oct oktober okt octobre octubre ottobre outubro ekim октября октябрь octombrie pazdziernika "
            "pazdziernik rijna rijen lokakuuta lokakuun spalio oktobra октобра октомври жовтня οκτωβριου "
            "οκτωβριοσ اكتوبر اكتبر אוקטובר अक्टूबर अक्तूबर ตุลาคม",
            "november nov novembre noviembre novembro kasim ноября ноябрь noiembrie listopada listopad listopadu "
            "marraskuuta marraskuun lapkricio novembra новембра ноември листопада νοεμβριου νοεμβριοσ نوفمبر "
            "نوامبر נובמבר नवंबर नवम्बर พฤศจิกายน",
            "december dec dezember dez decembre diciembre dicembre dezembro aralik декабря декабрь desember "
            "decembrie grudnia grudzien prosince prosinec joulukuuta joulukuun gruodzio detsember desembre "
            "decembra децембра декември грудня δεκεμβριου δεκεμβριοσ ديسمبر دسامبر דצמבר दिसंबर दिसम्बर ธันวาคม",
        ),
        start=1,
    )
    for name in names.split()
}
_LETTER: Final = (
    r"[^\W\d_\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"  # of a script with blanks: Chinese has none beside a date
)
_NAME: Final = rf"(?:ב)?(?P<name>{'|'.join(sorted(_MONTHS, key=len, reverse=True))})(?!{_LETTER})\.?"
_YEAR: Final = r"(?P<y>(?:1[5-9]|20|21|24|25)\d\d)"
_BUDDHIST: Final = 543  # years that the calendar of Thailand is ahead
_OF_BUDDHA: Final = 2400
ERAS: Final = {"令和": 2018, "平成": 1988, "昭和": 1925, "大正": 1911, "民国": 1911}
_YEAR_OR_ERA: Final = rf"(?:(?<!\d){_YEAR}|(?P<era>{'|'.join(ERAS)}) ?(?P<of>\d{{1,3}}|元))"
_NUMERAL: Final = "〇零一二三四五六七八九"
_TO: Final = r" ?(?:-|~|〜|to|until|through|and|bis|au|al|a|по|至|到|から|부터) ?(?:the )?"


def _patterns(*patterns: str) -> tuple[re.Pattern[str], ...]:
    return tuple(map(re.compile, patterns))


# Applied to folded text (`terms.fold`): lower case, digits and signs of one width, simplified characters.
_SIGNED: Final = _patterns(
    rf"(?<![\d.,])(?<!\d-){_YEAR}(?P<sign>[-/.])(?P<m>\d\d?)(?P=sign)(?P<d>\d\d?)(?![\d-])",
    rf"(?<![\d/.-])(?P<d>\d\d?)(?P<sign>[/.-])(?P<m>\d\d?)(?P=sign){_YEAR}(?![\d/-])",
)
_MONTH_ALONE: Final = _patterns(
    rf"(?<![\d.,/-]){_YEAR}-(?P<m>0[1-9]|1[0-2])(?![\d-])",
    rf"(?<![\d.,/-])(?P<m>0[1-9]|1[0-2])/{_YEAR}(?![\d/-])",
)
_WITH_HAN: Final = _patterns(
    rf"{_YEAR_OR_ERA} ?[年년] ?(?P<m>\d\d?) ?[月월](?: ?(?P<d>\d\d?) ?[日号일])?",
    r"(?<![年년\d] )(?<![年년\d])(?P<m>\d\d?) ?[月월] ?(?P<d>\d\d?) ?[日号일]",
)
_HAN_RANGE: Final = re.compile(
    rf"(?:(?<!\d){_YEAR} ?[年년] ?)?(?<!\d)(?P<m>\d\d?) ?[月월] ?(?P<d>\d\d?) ?[日号일]?{_TO}(?P<last>\d\d?) ?[日号일]"
)
_WITH_NAMES: Final = _patterns(
    rf"(?<![\d.,])(?:(?P<d>\d\d?)(?:st|nd|rd|th|er|\.)?[ -](?:of |de |d')?)?{_NAME}"
    rf"(?:,? (?:de |del |พ\.ศ\. )?|-){_YEAR}(?!\d)",
    rf"(?<![\d.,]){_YEAR}[.,]? (?:m\. )?{_NAME} (?P<d>\d\d?)(?!\d)",
    rf"(?<!{_LETTER}){_NAME} (?P<d>\d\d?)(?:st|nd|rd|th)?,? {_YEAR}(?!\d)",
    rf"(?<![\d.,])(?P<d>\d\d?)(?:st|nd|rd|th|\.)? (?:of )?{_NAME}(?!,? (?:de |del )?\d)",
    rf"(?<!{_LETTER}){_NAME} (?P<d>\d\d?)(?:st|nd|rd|th)?(?![\d:,.-]*\d)(?!,? \d{{4}})",
)
_RANGES_WITH_NAMES: Final = _patterns(
    rf"(?<![\d.,-])(?P<d>\d\d?)(?:st|nd|rd|th|\.)?{_TO}(?P<last>\d\d?)(?:st|nd|rd|th|\.)? (?:of |de )?{_NAME}"
    rf"(?:,? (?:de |del )?{_YEAR}(?!\d))?",
    rf"(?<!{_LETTER}){_NAME} (?P<d>\d\d?)(?:st|nd|rd|th)?{_TO}(?P<last>\d\d?)(?:st|nd|rd|th)?(?![\d:])"
    rf"(?:,? {_YEAR}(?!\d))?",
)
_VIETNAMESE: Final = (
    re.compile(rf"(?<!\d)(?P<d>\d\d?) thang (?P<m>\d\d?)(?:,? nam {_YEAR})?(?!\d)"),
    re.compile(rf"(?<!\d )(?<!\d)thang (?P<m>\d\d?)(?:,? nam |/){_YEAR}(?!\d)"),
)
_EIGHT_DIGITS: Final = re.compile(r"(?<!\d)(?P<y>(?:19|20)\d\d)(?P<m>\d\d)(?P<d>\d\d)(?!\d)")
# With two digits of the year: 13-Jun-14, 6/13/14.
_SHORT: Final = _patterns(
    rf"(?<![\w-])(?P<d>\d\d?)-{_NAME.replace('(?:ב)?', '')}-'?(?P<short>\d\d)(?![\w-])",
    r"(?<![\w/.-])(?P<d>\d\d?)(?P<sign>/)(?P<m>\d\d?)/(?P<short>\d\d)(?![\w/])",
)
_LAST_OF_CENTURY: Final = 40  # 39 is 2039, 40 is 1940
_HAS_SIGNED: Final = re.compile(r"\d[-/.]\d\d?[-/.]\d")
_HAS_MONTH_ALONE: Final = re.compile(r"\d{4}-\d\d(?![\d-])|(?<![\d/])\d\d/\d{4}")
_HAS_NAME: Final = re.compile(_NAME)
_HAN_DATE: Final = re.compile(
    rf"(?P<y>[{_NUMERAL}]{{4}})年(?P<m>[{_NUMERAL}十]{{1,2}})月(?:(?P<d>[{_NUMERAL}十]{{1,3}})[日号])?"
    rf"|(?<![年{_NUMERAL}十])(?P<m2>[{_NUMERAL}十]{{1,2}})月(?P<d2>[{_NUMERAL}十]{{1,3}})[日号]"
)
_BORN: Final = re.compile(rf"(?<![\d{_NUMERAL}十])(?P<born>\d[05]|[{_NUMERAL}][〇零五])后")
_ORDINALS: Final = {
    name: number
    for number, names in enumerate(
        (
            "first 1st 1. 1er premier erstes primer primo", "second 2nd 2. 2e deuxieme zweites segundo secondo",
            "third 3rd 3. 3e troisieme drittes tercer terzo", "fourth 4th 4. 4e quatrieme viertes cuarto quarto",
        ),
        start=1,
    )
    for name in names.split()
}  # fmt: skip
_QUARTERS: Final = _patterns(
    rf"(?<![a-z0-9])[qt](?P<q>[1-4])[ /-]?{_YEAR}(?!\d)",
    rf"(?<!\d){_YEAR}[ /-]?[qt](?P<q>[1-4])(?![a-z0-9])",
    rf"(?<!\d){_YEAR} ?[年년] ?第?(?P<q>[一二三四1-4]) ?(?:季度?|四半期|분기)",
    rf"(?<![a-z0-9])(?P<q>{'|'.join(map(re.escape, _ORDINALS))}) ?(?:quarter|quartal|trimestre),?"
    rf" ?(?:of |de |del |du )?{_YEAR}(?!\d)",
)
_HAS_QUARTER: Final = re.compile("[qt][1-4]|[1-4] ?q|quart|trimestre|季|四半期|분기")

_TIME: Final = re.compile(
    r"(?<![\d.])(?<!\d:)(?P<h>\d\d?):(?P<m>[0-5]\d)(?::[0-5]\d)?(?![\d:])(?: ?(?P<half>[ap])\.?m(?![a-z]))?"
    r"|(?<![\d.,])(?<!\d:)(?P<h2>\d\d?) ?(?P<half2>[ap])\.?m(?![a-z])"
    r"|(?<![\d.,])(?<!\d:)(?P<h3>\d\d?)\.(?P<m3>[0-5]\d) ?(?:uhr|h|(?P<half3>[ap])\.?m)(?![a-z])"
    r"|(?<![a-z])(?:a las|a la|alle|as|um|kl|kl\.|klo|в) (?P<h4>\d\d?)[.h](?P<m4>[0-5]\d)(?!\w|\.\d)"
    r"|(?<![\w.,/-])(?<!\d:)(?P<h5>\d\d?)h(?P<m5>[0-5]\d)(?!\w|[.,:/-]\d)"
)
_HAN_TIME: Final = re.compile(
    r"(?P<part>凌晨|早上|早晨|上午|午前|中午|下午|午后|傍晚|晚上|夜里|早|晚|夜|오전|오후)? ?(?<!\d)(?P<h>\d\d?) ?[点时시] ?"
    r"(?:(?P<m>[0-5]?\d) ?[分분]|(?P<half>半|반)|(?P<quarter>[13一三])刻|(?P<whole>钟|整))?"
)
_AFTERNOON: Final = ("下午", "午后", "傍晚", "晚上", "夜里", "晚", "夜", "오후")


def dates_and_times(folded: str, *, day_first: bool = False) -> Iterator[Form]:
    """Yield the terms of the dates and times of day in a folded text: ``date:2024-03-05`` and its month
    ``date:2024-03``, ``date:03-05`` for a day without a year, ``quarter:2024-1``, ``time:14:30``.

    A date of which day and month can be exchanged (3/5/2024) names both days unless ``day_first``, which all languages but
    English tell, and a range (5 to 8 March) its days.
    """
    patterns: list[re.Pattern[str]] = [_EIGHT_DIGITS]
    ranges: list[re.Pattern[str]] = []
    if _HAS_SIGNED.search(folded):
        patterns += (*_SIGNED, _SHORT[1])
    if _HAS_MONTH_ALONE.search(folded):
        patterns += _MONTH_ALONE
    if "月" in folded or "월" in folded:
        patterns += _WITH_HAN
        ranges.append(_HAN_RANGE)
    if "thang " in folded:
        patterns += _VIETNAMESE
    if _HAS_NAME.search(folded):
        patterns += (*_WITH_NAMES, _SHORT[0])
        ranges += _RANGES_WITH_NAMES
    for pattern in patterns:
        for match in pattern.finditer(folded):
            yield from _terms_of(match, day_first=day_first)
    if _HAS_QUARTER.search(folded):
        for match in (match for pattern in _QUARTERS for match in pattern.finditer(folded)):
            quarter = match["q"]
            number = _ORDINALS.get(quarter) or VALUES.get(quarter) or int(quarter)
            yield Form(f"quarter:{match['y']}-{number}", *match.span())
    for pattern in ranges:
        for match in pattern.finditer(folded):
            yield from _days_of(match)
    if any(map(folded.__contains__, (":", "m", "h", "kl", "a l", "as ", "alle ", "в "))):
        for match in _TIME.finditer(folded):
            half = match["half"] or match["half2"] or match["half3"]
            minute = int(match["m"] or match["m3"] or match["m4"] or match["m5"] or 0)
            yield from _time(
                int(match["h"] or match["h2"] or match["h3"] or match["h4"] or match["h5"]), minute, half, match
            )
    if any(map(folded.__contains__, "点时시")):
        for match in _HAN_TIME.finditer(folded):
            if any(map(match.__getitem__, ("m", "half", "quarter", "whole", "part"))):
                half = "p" if match["part"] in _AFTERNOON else None
                quarters = VALUES.get(match["quarter"]) or int(match["quarter"] or 0)
                minute = 30 if match["half"] else 15 * quarters or int(match["m"] or 0)
                yield from _time(int(match["h"]), minute, half, match)


def han_dates(folded: str) -> Iterator[Form]:
    """Yield the terms of dates in Chinese numerals (二〇二四年三月五日, 三月五日), as `dates_and_times` does, and of people by
    the decade of their birth (90后, 九零后) as ``born:90``."""
    for match in _BORN.finditer(folded):
        written = match["born"]
        yield Form(f"born:{written if written.isdigit() else f'{value_of(written):02}'}", *match.span())
    for match in _HAN_DATE.finditer(folded):
        year, day = (value_of(written) if written else None for written in (match["y"], match["d"] or match["d2"]))
        yield from _named(year, value_of(match["m"] or match["m2"]), day, match)


def _terms_of(match: re.Match[str], *, day_first: bool) -> Iterator[Form]:
    found = match.groupdict()
    month = _MONTHS[found["name"]] if found.get("name") else int(found["m"])
    year = int(found["y"]) if found.get("y") else None
    if found.get("era"):
        year = ERAS[found["era"]] + (1 if found["of"] == "元" else int(found["of"]))
    if found.get("short"):
        year = int(found["short"]) + (2000 if int(found["short"]) < _LAST_OF_CENTURY else 1900)
    day = int(found["d"]) if found.get("d") else None
    yield from _named(year, month, day, match)
    is_ambiguous = "sign" in found and found["sign"] in "/-" and match.start("d") < match.start("m")
    if is_ambiguous and day is not None and day != month and not (day_first and month <= 12):
        yield from _named(year, day, month, match)


def _days_of(match: re.Match[str]) -> Iterator[Form]:
    """Yield the terms of the days of a range within a month; the last is a date by itself where it has the month's name."""
    found = match.groupdict()
    month = _MONTHS[found["name"]] if found.get("name") else int(found["m"])
    year = int(found["y"]) if found.get("y") else None
    for day in range(int(found["d"]), min(31, int(found["last"])) + ("name" not in found)):
        for form in _named(year, month, day, match):
            if len(form.term) != len("date:2024-03"):
                yield form


def _named(year: int | None, month: int, day: int | None, match: re.Match[str]) -> Iterator[Form]:
    """Yield the terms of a date unless the calendar has no such day."""
    if year is not None and year >= _OF_BUDDHA:
        year -= _BUDDHIST
    try:
        date(2024 if year is None else year, month, day or 1)  # 2024 has a 29th of February
    except ValueError:
        return
    start, end = match.span()
    if year is None:
        yield Form(f"date:{month:02}-{day:02}", start, end)
        return
    if day is not None:
        yield Form(f"date:{year}-{month:02}-{day:02}", start, end)
        yield Form(f"date:{month:02}-{day:02}", start, end)
    yield Form(f"date:{year}-{month:02}", start, end)


def _time(hour: int, minute: int, half: str | None, match: re.Match[str]) -> Iterator[Form]:
    if half and hour <= 12:
        hour = hour % 12 + (12 if half == "p" else 0)
    if hour < 24:
        yield Form(f"time:{hour:02}:{minute:02}", *match.span())
