"""The header of a table: which rows name its columns, over merged cells and groups, and the names that result."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from pipeline.parsing.assembly import one_line

MOST_HEADER_ROWS = 4
LONGEST_NAME = 200  # characters of a cell that may name a column
NUMBER = re.compile(  # or another value that names no column
    r"(?:[-+(]?[€$£¥￥]?\s?[-+]?\d[\d.,\s'’]*\)?\s?(?:%|‰)?|TRUE|FALSE|#(?:N/A|NAME\?|(?:REF|DIV/0|VALUE|NUM|NULL)!))$"
)
_DATE = re.compile(r"\d{1,4}[-/.年]\d{1,2}(?:[-/.月]\d{1,4}日?)?(?:\s\d{1,2}:\d\d(?::\d\d)?)?$")
_UNIT = re.compile(
    r"(?:[(\[（][^()\[\]（）]{1,12}[)\]）]|[%‰€$£¥￥]|[kKMGTmµµnc]?(?:g|m|l|L|s|h|W|Wh|V|A|Hz|Pa|J|N|B|b|bit|Nm|Ω)|m[²³23]|㎡|km/h|m/s|rpm"
    r"|min|d|t|kt|bar|mbar|dB|K|°C|°F|℃|EUR|USD|CNY|RMB|GBP|JPY|[kKTM]\s?(?:€|EUR|USD|\$)|pcs\.?|pieces|units|days|hours|years"
    r"|[千万亿百]*(?:元|美元|欧元)|[百千万亿]?(?:个|台|件|次|人|户|吨|套|辆)|[千毫]?克|[千厘毫]?米|公[里斤]|平方米|立方米|升|小时|分钟|秒|天|年|度)$"
)
_DIGITS = re.compile(r"\d+")
_LEAST_TERMS, _MOST_TERMS = 3, 50  # rows of a glossary, and those that are looked at
_LEAST_MEANING, _LIKE_OTHERS = 16, 0.5  # letters of a meaning, and share of the usual length of one
_SENTENCE = re.compile(r"[.!。！；;]['\"”’)）】]*$")
_OF_GLOSSARIES = re.compile(  # names of the columns of a glossary
    r"(?:the )?(?:terms?|abbreviations?|acronyms?|words?|names?|concepts?|keys?|keywords?|questions?|fields?|items?|codes?)"
    r"|.*\b(?:meanings?|definitions?|descriptions?|explanations?|full (?:name|form)|translations?|answers?|notes?|remarks?)"
    r"|begriff|abkürzung|bedeutung|erklärung|beschreibung|definition"
    r"|.*(?:术语|名词|名称|词语|词条|缩写|简称|概念|问题|字段|条目|含义|定义|释义|说明|解释|描述|全称|答案|回答|备注|内容|意思|译文)",
    re.IGNORECASE,
)
LEAST_COLUMNS = 3  # of a table whose rows stand in groups
_LEAST_COUNTED = 4  # whole numbers in a row that count columns, as hours do
_MOST_NAME_ROWS = 12  # above the first number of a table
TOTAL = re.compile(r"(?:grand |\bsub-?|\b)(?:totals?|sum(?:me)?)\b|合计|总计|小计|總計|合計", re.IGNORECASE)
SIGNS = frozenset("$€£¥￥")
_PLACEHOLDERS = SIGNS | frozenset("-–—")
YEAR = re.compile(r"(?:FY\s?)?(?:19|20)\d\d(?:\s?[-/]\s?\d\d(?:\d\d)?)?(?:\s?(?:年度?|[AEFP]|Q[1-4]|H[12]))?$")
Cells = Mapping[int, str]  # values that are not empty, by column from 0
Spans = Mapping[int, Sequence["Span"]]  # by their first row
TableRow = tuple[int, Cells]  # number and cells of a row


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A merged cell: first and last row by number, first and last column from 0, inclusive."""

    top: int
    bottom: int
    left: int
    right: int


def looks_like_header(cells: Sequence[str]) -> bool:
    """Return whether these could be the names of columns: texts or years that are mostly there and mostly differ; the
    first may be empty, as the corner of a table of two dimensions."""
    filled = [cell for cell in cells if cell]
    if len(filled) < max(1, len(cells) - 1) or (len(filled) < len(cells) and cells[0]):
        return False
    if any(len(cell) > LONGEST_NAME for cell in filled):
        return False
    years = sum(1 for cell in filled if YEAR.match(cell))
    if any(NUMBER.match(cell) and not YEAR.match(cell) for cell in filled):
        return False
    if years == len(filled) and len(filled) == len(cells):
        return False  # a row of years alone may be values
    return len(set(filled)) * 2 > len(filled)


def are_terms(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether rows of two texts are terms and their meanings from the first row on, without names of columns: its
    meaning is about as long as the others, or a sentence like them, and its texts are no usual names."""
    sample = [[one_line(cell) for cell in row] for row in rows[:_MOST_TERMS]]
    if len(sample) < _LEAST_TERMS or not all(len(row) == 2 and all(row) for row in sample):
        return False
    if any(_OF_GLOSSARIES.fullmatch(cell) for cell in sample[0]):
        return False
    if any(kind_of(cell) != "text" for row in sample for cell in row) or len({term for term, _ in sample}) < len(
        sample
    ):
        return False
    first, *others = (_width(meaning) for _, meaning in sample)
    usual = median(others)
    ends = sum(1 for _, meaning in sample if _SENTENCE.search(meaning)) * 2 > len(sample)
    is_sentence = ends and _SENTENCE.search(sample[0][1]) is not None
    return usual >= _LEAST_MEANING and (is_sentence or first >= max(_LEAST_MEANING, _LIKE_OTHERS * usual))


def _width(text: str) -> int:
    """Return the length of a text in which a Chinese character counts twice."""
    return len(text) + sum(1 for character in text if character >= "\u2e80")


def are_alike(above: str, below: str) -> bool:
    """Return whether cells below each other are both values: numbers with the same signs, such as ``P-7`` and ``P-8``."""
    shape = _DIGITS.sub("0", above)
    return shape != above and shape != "0" and shape == _DIGITS.sub("0", below)


def kind_of(value: str) -> str:
    """Return the kind of a cell's value: `number`, `date` or `text`."""
    if NUMBER.match(value):
        return "number"
    return "date" if _DATE.match(value) else "text"


def read_table(body: list[TableRow], merged: Spans) -> tuple[Cells, list[TableRow], list[TableRow]]:
    """Return the names of a table's columns, empty where none is recognised, its rows without the header, and the rows
    above the header."""
    columns = sorted({column for _, cells in body for column in cells})
    top, depth = header_rows(body, merged, columns) if len(body) > 1 and columns else (0, 0)
    above, named, rows = body[:top], body[top : top + depth], body[top + depth :]
    below = rows if len(columns) == 1 else rows[:1]
    texts = [[cells.get(column, "") for column in columns] for _, cells in body[:_MOST_TERMS]]
    if depth == 1 and not top and are_terms(texts):
        return {}, body, []
    is_value = named and rows and any(are_alike(name, rows[0][1].get(at, "")) for at, name in named[-1][1].items())
    if not named or is_value or named[-1][1] in (cells for _, cells in below):  # a name that is there again is a value
        return {}, body, []
    header: Cells = _names(named, columns, merged)
    if units := _units(rows, header):
        header = {
            **header,
            **{column: f"{header[column]} ({unit.strip('()[]（）')})" for column, unit in units.items()},
        }
        rows = rows[1:]
    rows = [row for row in rows if row[1] != named[-1][1]]  # without headers repeated for printing
    return {column: name for column, name in header.items() if name}, _filled_down(rows, columns), above


def _filled_down(rows: list[TableRow], columns: Sequence[int]) -> list[TableRow]:
    """Return the rows with empty first cells filled from above where they group rows: the second column has a text in
    every row, the first one in some of them."""
    if len(columns) < LEAST_COLUMNS or not rows or columns[0] not in rows[0][1]:
        return rows
    first, second = columns[:2]
    is_grouped = any(first not in cells for _, cells in rows) and all(
        (second in cells or TOTAL.search(cells.get(first, "")))
        and kind_of(cells.get(second, "-")) == kind_of(cells.get(first, "-")) == "text"
        for _, cells in rows
    )
    if not is_grouped:
        return rows
    filled: list[TableRow] = []
    value = ""
    for number, cells in rows:
        value = cells.get(first, value)
        filled.append((number, {first: value, **cells}))
    return filled


def _units(body: Sequence[TableRow], header: Cells) -> Cells:
    """Return the units of columns if the first row below the header holds nothing else, but for its own first cell."""
    if len(body) < 2 or not header:
        return {}
    units = {column: one_line(value) for column, value in body[0][1].items() if column != min(header)}
    are_units = bool(units) and all(_UNIT.match(unit) and header.get(column) for column, unit in units.items())
    have_numbers = any(NUMBER.match(body[1][1].get(column, "")) for column in units)
    return units if are_units and have_numbers else {}


def header_rows(body: Sequence[TableRow], merged: Spans, columns: Sequence[int]) -> tuple[int, int]:
    """Return the first row that names the columns, and how many do: 0 to 4.

    A header stands directly above the first row with a number. It is a full row of names that differ, or several rows of
    which the upper ones name groups, or, above numbers, a row with gaps.
    """
    if _is_completed(body, columns):
        return 0, 2
    names = int(_is_scale(body, columns))  # rows without a number
    counting: int | None = columns[0]  # numbers that count are names unless other names stand above them
    least = _LEAST_COUNTED
    while names < min(len(body), _MOST_NAME_ROWS) and are_names(body[names][1], counting, least):
        number, cells = body[names]
        least = 2 if _is_merged(merged, number) else _LEAST_COUNTED
        if not (_is_merged(merged, number) or _repeats_beside(cells) or 2 * len(cells) < len(columns)):
            counting = None
        names += 1
    if names == len(body):
        names = 1  # nothing but texts: only the first row can be a header
    used = {column for _, cells in body[names:] for column in cells}
    wide = [column for column in columns if column in used] or columns
    complete = next((row for row in range(names) if _is_complete(body[row][1], wide)), 0)
    corner = body[complete][1].get(wide[0])
    above = complete  # the first row of groups above a complete one
    while above and complete - above < MOST_HEADER_ROWS - 1 and body[above - 1][1].get(wide[0]) in (None, corner):
        above -= 1
    if above < complete:
        return above, complete - above + 1
    for top in range(complete, names):
        if depth := _depth(body, top, names, merged, wide):
            return top, depth
    last = body[names - 1][1] if names else {}
    over_numbers = any(
        column in last and NUMBER.match(cells.get(column, "")) for _, cells in body[names:][:2] for column in cells
    )
    differ = len(set(last.values())) * 2 > len(last)
    has_gaps = len(last) > 1 and 2 * len(last) >= len(wide) and differ and over_numbers
    return (names - 1, 1) if has_gaps else (0, 0)


def _is_scale(body: Sequence[TableRow], columns: Sequence[int]) -> bool:
    """Return whether the first row has an empty corner and numbers that grow, as 0 %, 5 % and 10 %, above named rows."""
    corner, *others = columns
    cells = body[0][1]
    values = [cells.get(column, "").rstrip("% ") for column in others]
    return (
        corner not in cells
        and len(values) > 1
        and all(value.replace(".", "", 1).isdecimal() for value in values)
        and all(float(one) < float(other) for one, other in pairwise(values))
        and all(kind_of(below.get(corner, "0")) == "text" for _, below in body[1:][:_MOST_TERMS])
    )


def _is_completed(body: Sequence[TableRow], columns: Sequence[int]) -> bool:
    """Return whether a second row of texts fills all gaps of the first one, but not its corner, as options of questions."""
    above, below, row = (cells for _, cells in [*body, (0, {}), (0, {})][:3])
    fills_gaps = len(columns) < 2 * len(above) and len(above) < len(columns) == len({*above, *below})
    begins = above.keys() >= {*columns[:2]} and columns[0] not in below and columns[0] in row
    return (
        fills_gaps and begins and all(kind_of(one_line(each)) == "text" for each in (*above.values(), *below.values()))
    )


def _is_complete(cells: Cells, columns: Sequence[int]) -> bool:
    """Return whether a row names every column, and each one differently."""
    names = [one_line(cells.get(column, "")) for column in columns]
    return looks_like_header(names) and len(set(names)) == len(names)


def _depth(body: Sequence[TableRow], top: int, names: int, merged: Spans, columns: Sequence[int]) -> int:
    """Return how many rows from ``top`` on give every column, but for a blank corner, a name of its own; 0 for none."""
    last_possible = min(top + MOST_HEADER_ROWS, names, len(body) - 1)
    number, cells = body[top]
    last = max(cells)
    named = [one_line(cells.get(column, "")) for column in columns if column <= last]
    is_full = looks_like_header(named)
    for bottom in range(top + 1, last_possible + 1):
        rows = body[top:bottom]
        if bottom > top + 1 and _names_again(rows, columns, merged):
            break
        found = list(_names(rows, columns, merged).values())
        goes_deeper = _is_merged(merged, rows[-1][0]) or any(
            span.bottom > rows[-1][0] and span.right - span.left < len(cells) - 1 for span in merged.get(number, ())
        )
        if bottom == top + 1 and is_full and not goes_deeper and not _repeats_beside(cells):
            return 1
        if all(found[1:]) and len(set(found)) == len(found) and not goes_deeper:
            fills_corner = not found[0] and bottom < last_possible and columns[0] in body[bottom][1]
            if not fills_corner or _names_again(body[top : bottom + 1], columns, merged):
                return bottom - top
    return int(is_full)


def _names_again(rows: Sequence[TableRow], columns: Sequence[int], merged: Spans) -> bool:
    """Return whether the last row has a cell below a name that is no group's: not merged, and with another one beside."""
    below = dict(rows[-1][1])
    for number, cells in reversed(rows[:-1]):
        is_group = _is_merged(merged, number) or _repeats_beside(cells)
        for column in [column for column in columns if column in cells and column in below]:
            beside = cells.get(column + 1) if column != columns[-1] else cells.get(columns[0])
            if below.pop(column) != cells[column] and beside is not None and not is_group:
                return True
    return False


def _repeats_beside(cells: Cells) -> bool:
    """Return whether a group's name stands above each of its columns."""
    return any(cells.get(column + 1) == value for column, value in cells.items())


def are_names(cells: Cells, first: int | None = None, least: int = _LEAST_COUNTED) -> bool:
    """Return whether cells are texts or years, or right of the ``first`` column ``least`` whole numbers that count, perhaps
    beside texts."""
    columns = [column for column in sorted(cells) if column != first]
    values = [one_line(cells[column]) for column in sorted(cells)]
    if not any(value in _PLACEHOLDERS or (NUMBER.match(value) and not YEAR.match(value)) for value in values):
        return True
    counted = [value for column in columns if NUMBER.match(value := one_line(cells[column]))]
    return (
        first is not None
        and len(counted) >= least
        and all(value.isdecimal() and int(value) == int(counted[0]) + step for step, value in enumerate(counted))
        and not NUMBER.match(cells.get(first, ""))
    )


def _names(rows: Sequence[TableRow], columns: Sequence[int], merged: Spans) -> dict[int, str]:
    """Return the names of columns: of their groups, from the top, and their own. A group's name that is not merged stands
    above its first column alone."""
    first = columns[0]
    names: dict[int, list[str]] = {
        column: [] for column in sorted({*columns, *(c for _, cells in rows for c in cells)})
    }
    named: set[int] = set()
    for index, (number, cells) in enumerate(rows):
        goes_on = index < len(rows) - 1 and not _is_merged(merged, number)
        group = ""
        for column, above in names.items():
            own = cells.get(column, "")
            group = own if own and column > first else group
            name = one_line(own if own or not goes_on or column in named else group)
            if name and name not in above[-1:]:
                above.append(name)
        named |= cells.keys()
    return {column: " ".join(names[column]) for column in columns}


def _is_merged(merged: Spans, number: int) -> bool:
    """Return whether a row has cells that are merged over columns."""
    return any(span.right > span.left for span in merged.get(number, ()))
