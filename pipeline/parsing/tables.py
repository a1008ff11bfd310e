"""Tables of any format: their header, merged cells, and the two ways to write them as text.

`fields` writes each row as a paragraph of `column: value` lines, readable alone; `bars` writes rows as lines of cells
between bars, below their header. A `Sheet` of cells is first divided into its tables, with the text around them.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from pipeline.errors import DocumentTooLarge
from pipeline.parsing.assembly import Block, one_line

_MARKED_TOGETHER = 1300  # characters of rows; about the size of a usual chunk
_LONGEST_TITLE = 120  # characters of a line above a table that is its heading
_LONGEST_KEY = 300  # characters of a row that are repeated above its later parts
_LONG_VALUE = 400  # characters of a value from which a row may need several chunks
_MOST_CELLS = 1_000_000  # of a table, those that merged cells cover included
_MOST_BESIDE = 8  # tables beside each other
_MOST_REPEATED = 2000  # characters that one merged cell may become
_MOST_HEADER_ROWS = 4
_SAMPLE_ROWS = 50  # from which the kind of a column is judged
_MOST_LINES = 20  # of one cell each, between tables; more are a table of one column
_LONGEST_NAME = 200  # characters of a cell that may name a column
_NUMBER = re.compile(r"[-+(]?[€$£¥￥]?\s?[-+]?\d[\d.,\s'’]*\)?\s?(?:%|‰)?$")
_DATE = re.compile(r"\d{1,4}[-/.年]\d{1,2}(?:[-/.月]\d{1,4}日?)?(?:\s\d{1,2}:\d\d(?::\d\d)?)?$")
_UNIT = re.compile(
    r"(?:[(\[（][^()\[\]（）]{1,12}[)\]）]|[%‰€$£¥￥]|[kKMGTmµµnc]?(?:g|m|l|L|s|h|W|Wh|V|A|Hz|Pa|J|N|B|b|bit|Nm|Ω)|m[²³23]|㎡|km/h|m/s|rpm"
    r"|min|d|t|kt|bar|mbar|dB|K|°C|°F|℃|EUR|USD|CNY|RMB|GBP|JPY|[kKTM]\s?(?:€|EUR|USD|\$)|pcs\.?|pieces|units|days|hours|years"
    r"|[千万亿百]*(?:元|美元|欧元)|[百千万亿]?(?:个|台|件|次|人|户|吨|套|辆)|[千毫]?克|[千厘毫]?米|公[里斤]|平方米|立方米|升|小时|分钟|秒|天|年|度)$"
)
_LONG_NOTE = 60  # characters
_NOTE = re.compile(
    r"\*|†|‡|\(?\d\)|(?:notes?|n\.?b\.?|sources?|remarks?|hint|disclaimer|anmerkung|hinweis|quelle|注释?|备注|说明|附注|來源|来源|"
    r"资料来源|数据来源|註|備註)\s?\d?[:：.]",
    re.IGNORECASE,
)
_CODE = re.compile(r"\d{4}-\d\d-\d\d|[A-Za-z]{1,4}(?:-\d|\d\d)|\d{3,}|@\w+\.|://")
_YEAR = re.compile(r"(?:FY\s?)?(?:19|20)\d\d(?:\s?[-/]\s?\d\d(?:\d\d)?)?(?:\s?(?:年度?|[AEFP]|Q[1-4]|H[12]))?$")

Cells = Mapping[int, str]  # values that are not empty, by column from 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A merged cell: first and last row by number, first and last column from 0, inclusive."""

    top: int
    bottom: int
    left: int
    right: int


def sheet_blocks(rows: Iterable[tuple[int, Cells]], spans: Sequence[Span] = (), *, level: int = 1) -> Iterator[Block]:
    """Yield the tables of a sheet, and the lines above, between and below them, as blocks.

    ``rows``: number and cells of each row that has any, in order. Rows without a gap stand together; after a gap a new
    table begins if its columns or its header differ, else the rows go on with the header above. A single short line
    directly above a header becomes a heading of this ``level``. Rows that fit a chunk are marked by number.
    """
    header: Cells = {}
    body: list[tuple[int, Cells]] = []  # of the open table
    below: list[tuple[int, Cells]] = []  # notes below the open table
    last_number = 0
    filled = _filled(rows, spans)
    is_wide = any(len(cells) > 1 for _, cells in filled)
    for region in _regions(filled):
        for part in _side_by_side(region):
            lines, rows_below = _lines_above(part, is_wide=is_wide)
            rows_below, notes = _notes_below(rows_below)
            gap = part[0][0] - last_number - 1
            last_number = part[-1][0]
            if rows_below and not lines and _goes_on(rows_below, header, body, gap):
                body += rows_below
                below += notes
                continue
            yield from field_blocks(header, body)
            yield from _marked([(number, _bar_line(cells, sorted(cells))) for number, cells in below])
            header, body = _form(rows_below) or _table(rows_below, spans)
            below = notes
            title = lines.pop() if lines and header and _is_title(lines[-1][1]) else None
            yield from _marked([(number, _bar_line(cells, sorted(cells))) for number, cells in lines])
            if title is not None:
                yield Block(text=one_line(*title[1].values()), level=level, mark=_mark([title[0]]))
    yield from field_blocks(header, body)
    yield from _marked([(number, _bar_line(cells, sorted(cells))) for number, cells in below])


def field_blocks(header: Cells, rows: Sequence[tuple[int, Cells]]) -> Iterator[Block]:
    """Yield rows as paragraphs of `column: value` lines, or of cells between bars where no header was recognised."""
    columns = sorted({column for _, cells in rows for column in cells})
    is_even = len(columns) * len(rows) <= _MOST_CELLS  # otherwise most of its places are empty
    written: list[tuple[int, str]] = []
    for number, cells in rows:
        if header:
            named = ((header.get(column, ""), cells[column]) for column in sorted(cells))
            text = "\n".join(f"{name}: {one_line(value)}" if name else one_line(value) for name, value in named)
        else:
            text = _bar_line(cells, columns if is_even else sorted(cells))
        written.append((number, text))
    yield from _marked(written)


def bar_blocks(rows: Sequence[Sequence[str]], *, header_rows: int, page: int | None = None) -> Iterator[Block]:
    """Yield a table as one block of lines, one for each row, with the cells between bars. Later parts repeat its first
    ``header_rows`` rows. Cells that are merged hold their value in each place."""
    lines = [" | ".join(one_line(cell) for cell in row).rstrip() for row in rows if any(cell.strip() for cell in row)]
    if lines:
        lead = "\n".join(lines[:header_rows]) if 0 < header_rows < len(lines) else ""
        yield Block(text="\n".join(lines), lead=len(lead), page=page)


def spread(rows: Sequence[Sequence[tuple[str, int, int]]], *, most_columns: int) -> list[list[str]]:
    """Return a grid of the cells of a table in which each stands in every place that it covers, unless it is long.
    Each cell: its text, the columns and the rows that it spans, from 1. Columns beyond ``most_columns`` are left out.
    Raises DocumentTooLarge."""
    grid: list[list[str]] = []
    total = 0
    below: dict[int, tuple[str, int]] = {}  # by column: cells that go on, and rows that are left of them
    for row in rows:
        cells: dict[int, str] = {}
        for column, (text, left) in list(below.items()):
            cells[column] = text
            below[column] = (text, left - 1)
            if left <= 1:
                del below[column]
        column = 0
        for text, across, down in row:
            while column in cells:
                column += 1
            repeats = len(text) * across * down <= _MOST_REPEATED
            for place in range(column, min(column + across, most_columns)):
                cells.setdefault(place, text if repeats or place == column else "")
                if down > 1:
                    below[place] = (text if repeats else "", down - 1)
            column += across
        total += len(cells)
        if total > _MOST_CELLS:
            raise DocumentTooLarge(f"a table holds more than {_MOST_CELLS} cells")
        grid.append([cells.get(place, "") for place in range(max(cells, default=-1) + 1)])
    width = max(map(len, grid), default=0)
    return [line + [""] * (width - len(line)) for line in grid]


def looks_like_header(cells: Sequence[str]) -> bool:
    """Return whether these could be the names of columns: texts or years that are mostly there and mostly differ; the
    first may be empty, as the corner of a table of two dimensions."""
    filled = [cell for cell in cells if cell]
    if len(filled) < max(1, len(cells) - 1) or (len(filled) < len(cells) and cells[0]):
        return False
    if any(len(cell) > _LONGEST_NAME for cell in filled):
        return False
    years = sum(1 for cell in filled if _YEAR.match(cell))
    if any(_NUMBER.match(cell) and not _YEAR.match(cell) for cell in filled):
        return False
    if years == len(filled) and len(filled) == len(cells):
        return False  # a row of years alone may be values
    return len(set(filled)) * 2 > len(filled)


def _filled(rows: Iterable[tuple[int, Cells]], spans: Sequence[Span]) -> Sequence[tuple[int, Cells]]:
    """Return the rows with every merged cell's value in each row and column that it covers, but for cells as wide as
    the sheet, which are lines of text."""
    kept = [(number, dict(cells)) for number, cells in rows if cells]
    by_number = dict(kept)
    widest = max((max(cells) - min(cells) + 1 for _, cells in kept), default=0)
    left = _MOST_CELLS
    for span in spans:
        left -= (span.bottom - span.top + 1) * (span.right - span.left + 1)
        if left < 0:
            break
        value = by_number.get(span.top, {}).get(span.left)
        is_line = span.right - span.left + 1 >= widest > 1 and span.top == span.bottom
        if value is None or is_line:
            continue
        for number in range(span.top, span.bottom + 1):
            if number in by_number:
                by_number[number].update(dict.fromkeys(range(span.left, span.right + 1), value))
    return kept


def _regions(rows: Sequence[tuple[int, Cells]]) -> Iterator[list[tuple[int, Cells]]]:
    """Yield the rows that follow each other without a gap."""
    for _, run in groupby(enumerate(rows), key=lambda entry: entry[1][0] - entry[0]):
        yield [row for _, row in run]


def _side_by_side(region: list[tuple[int, Cells]]) -> list[list[tuple[int, Cells]]]:
    """Return the tables that stand beside each other: divided by an empty column, each with a header of its own."""
    used = sorted({column for _, cells in region for column in cells})
    groups: list[list[int]] = []
    for column in used:
        if groups and column == groups[-1][-1] + 1:
            groups[-1].append(column)
        else:
            groups.append([column])
    if not 1 < len(groups) <= _MOST_BESIDE or any(len(group) < 2 for group in groups):
        return [region]
    parts: list[list[tuple[int, Cells]]] = []
    for group in groups:
        part = ((number, {c: cells[c] for c in group if c in cells}) for number, cells in region)
        parts.append([(number, cells) for number, cells in part if cells])
    headers = [[part[0][1].get(column, "") for column in group] for part, group in zip(parts, groups, strict=True)]
    if not all(len(part) > 1 and looks_like_header(header) for part, header in zip(parts, headers, strict=True)):
        return [region]
    names = [name for header in headers for name in header]
    lengths = {(part[0][0], part[-1][0]) for part in parts}
    are_keyed = all(_has_keys(part[1 : _SAMPLE_ROWS + 1], group[0]) for part, group in zip(parts, groups, strict=True))
    return parts if len(set(names)) < len(names) or len(lengths) > 1 or are_keyed else [region]


def _has_keys(rows: Sequence[tuple[int, Cells]], column: int) -> bool:
    """Return whether a column tells rows apart by texts."""
    keys = [one_line(cells.get(column, "")) for _, cells in rows]
    return all(key and _kind(key) == "text" for key in keys) and len(set(keys)) == len(keys)


def _lines_above(
    region: list[tuple[int, Cells]], *, is_wide: bool
) -> tuple[list[tuple[int, Cells]], list[tuple[int, Cells]]]:
    """Divide a region into lines of one cell above its table, and the table. All of it is lines if no row has two, or a
    table of one column if the sheet is not ``is_wide`` anywhere."""
    width = len({column for _, cells in region for column in cells})
    if width < 2:
        return (region, []) if is_wide and len(region) <= _MOST_LINES else ([], region)
    first = next((index for index, (_, cells) in enumerate(region) if len(cells) > 1), len(region))
    return region[:first], region[first:]


def _form(body: Sequence[tuple[int, Cells]]) -> tuple[Cells, list[tuple[int, Cells]]] | None:
    """Return the rows of a form of two columns, names and their values, as one line each; None for another table.

    The names end with a colon, or the first value is a code or a date, which names no column of such values.
    """
    columns = sorted({column for _, cells in body for column in cells})
    if len(columns) != 2 or len(body) < 2:
        return None
    names = [one_line(cells.get(columns[0], "")) for _, cells in body]
    values = [one_line(cells.get(columns[1], "")) for _, cells in body]
    if not all(0 < len(name) <= _LONGEST_NAME and not _NUMBER.match(name) for name in names):
        return None
    have_colons = sum(1 for name in names if name.endswith((":", "："))) * 2 > len(names)
    begins_with_code = bool(_CODE.search(values[0])) and not _YEAR.match(values[0]) and not _NUMBER.match(values[0])
    are_numbers = all(map(_NUMBER.match, values[1:]))
    if not have_colons and (not begins_with_code or are_numbers or len(set(names)) < len(names)):
        return None
    lines = (f"{name.rstrip(':： ')}: {value}" if value else name for name, value in zip(names, values, strict=True))
    return {}, [(number, {columns[0]: line}) for (number, _), line in zip(body, lines, strict=True)]


def _kind(value: str) -> str:
    if _NUMBER.match(value):
        return "number"
    return "date" if _DATE.match(value) else "text"


def _notes_below(
    region: list[tuple[int, Cells]],
) -> tuple[list[tuple[int, Cells]], list[tuple[int, Cells]]]:
    """Divide a region into its table and the notes below it: lines of one cell that begin as notes do, or a sentence
    far longer than the cells above it."""
    end = len(region)
    first = min((min(cells) for _, cells in region), default=0)
    while end > 2 and len(region[end - 1][1]) == 1 and first in region[end - 1][1]:
        end -= 1
    if end == len(region):
        return region, []
    usual = max((len(cells[first]) for _, cells in region[:end] if first in cells), default=0)
    while end < len(region) and not (
        _NOTE.match(text := region[end][1][first].strip()) or len(text) > max(_LONG_NOTE, 2 * usual)
    ):
        end += 1
    return region[:end], region[end:]


def _goes_on(body: Sequence[tuple[int, Cells]], header: Cells, above: Sequence[tuple[int, Cells]], gap: int) -> bool:
    """Return whether rows after a gap belong to the table above: they fill its columns and bring no header of their
    own, as texts above numbers, or texts where the table has numbers."""
    if not header or not body or gap < 1:
        return False
    columns = sorted(header)
    inside = all(columns[0] <= column <= columns[-1] for _, row in body for column in row)
    if not inside or len(body[0][1]) < 2:
        return False
    if len(body) < 2:
        return True
    own = sorted({column for _, row in body for column in row})
    names = looks_like_header([one_line(body[0][1].get(column, "")) for column in own])
    return not (names and (gap > 1 or len(own) < len(columns) or _kinds_differ(body, above[:_SAMPLE_ROWS], columns)))


def _kinds_differ(
    body: Sequence[tuple[int, Cells]], rows_above: Sequence[tuple[int, Cells]], columns: Sequence[int]
) -> bool:
    """Return whether a column has numbers below the first row, or has none where it has them in the table above."""
    first, below = body[0][1], body[1 : _SAMPLE_ROWS + 1]
    for column in columns:
        if column not in first or _NUMBER.match(first[column]):
            continue
        numbers = [bool(_NUMBER.match(row[column])) for _, row in below if column in row]
        above = [bool(_NUMBER.match(row[column])) for _, row in rows_above if column in row]
        if any(numbers) or (above and all(above) and numbers):
            return True
    return False


def _table(body: list[tuple[int, Cells]], spans: Sequence[Span]) -> tuple[Cells, list[tuple[int, Cells]]]:
    """Return the names of a table's columns, empty where none is recognised, and its rows without the header."""
    columns = sorted({column for _, cells in body for column in cells})
    if len(body) < 2 or not columns:
        return {}, body
    depth = _header_rows(body, spans, columns)
    if not depth:
        return {}, body
    header = {column: _name(body[:depth], column) for column in columns}
    header_row = body[depth - 1][1]
    if units := _units(body[depth:], header):
        header |= {column: f"{header[column]} ({unit.strip('()[]（）')})" for column, unit in units.items()}
        body = [*body[:depth], *body[depth + 1 :]]
    rows = [row for row in body[depth:] if row[1] != header_row]  # without headers repeated for printing
    return {column: name for column, name in header.items() if name}, rows


def _units(body: Sequence[tuple[int, Cells]], header: Cells) -> Cells:
    """Return the units of columns if the first row below the header holds nothing else, but for its own first cell."""
    if len(body) < 2 or not header:
        return {}
    units = {column: one_line(value) for column, value in body[0][1].items() if column != min(header)}
    are_units = bool(units) and all(_UNIT.match(unit) and header.get(column) for column, unit in units.items())
    have_numbers = any(_NUMBER.match(body[1][1].get(column, "")) for column in units)
    return units if are_units and have_numbers else {}


def _header_rows(body: Sequence[tuple[int, Cells]], spans: Sequence[Span], columns: Sequence[int]) -> int:
    """Return how many rows at the top name the columns: 0 to 4."""
    number, first = body[0]
    across = [span for span in spans if span.top <= number <= span.bottom and span.right > span.left]
    second = body[1][1]
    is_group = len(body) > 2 and (
        bool(across)
        or (len(first) < len(columns) and _fills_gaps(first, second, columns))
        or (_repeats_beside(first) and any(map(_NUMBER.match, body[2][1].values())))
    )
    if is_group and _are_names(second) and _are_names(first):
        return _merged_depth(body, spans)
    wide = [column for column in columns if column in first or any(column in cells for _, cells in body[1:])]
    named = [first.get(column, "") for column in wide if wide[0] <= column <= max(first)]
    return 1 if looks_like_header([one_line(cell) for cell in named]) else 0


def _merged_depth(body: Sequence[tuple[int, Cells]], spans: Sequence[Span]) -> int:
    """Return the depth of a header of several rows: 2, or more where its second row has cells merged over columns, or
    a cell of its first row is merged over more rows."""
    depth, top = 2, body[0][0]
    most = min(_MOST_HEADER_ROWS, len(body) - 1)
    while depth < most and _are_names(body[depth][1]):
        last = body[depth - 1][0]
        goes_on = any(span.top == last and span.right > span.left for span in spans) or any(
            span.top == top and span.bottom > last and span.right - span.left < len(body[0][1]) - 1 for span in spans
        )
        if not goes_on:
            break
        depth += 1
    return depth


def _fills_gaps(first: Cells, second: Cells, columns: Sequence[int]) -> bool:
    """Return whether the second row names exactly what the first one leaves open, as below a group's name."""
    gaps = [column for column in columns if column not in first]
    return bool(gaps) and all(column in second for column in gaps) and min(first) < gaps[0]


def _repeats_beside(cells: Cells) -> bool:
    """Return whether a group's name stands above each of its columns."""
    return any(cells.get(column + 1) == value for column, value in cells.items())


def _are_names(cells: Cells) -> bool:
    values = [one_line(value) for value in cells.values()]
    return bool(values) and not any(_NUMBER.match(value) and not _YEAR.match(value) for value in values)


def _name(rows: Sequence[tuple[int, Cells]], column: int) -> str:
    """Return the name of a column: of its groups, from the top, and its own."""
    names: list[str] = []
    for index, (_, cells) in enumerate(rows):
        name = cells.get(column)
        if name is None and index < len(rows) - 1:  # a group's name stands above its first column alone
            before = [left for left in cells if left < column]
            name = cells[max(before)] if before and max(before) > 0 else None
        if name and (not names or one_line(name) != names[-1]):
            names.append(one_line(name))
    return " ".join(names)


def _is_title(cells: Cells) -> bool:
    text = next(iter(cells.values()))
    return len(cells) == 1 and len(text) <= _LONGEST_TITLE and "\n" not in text.strip() and not text.startswith("#")


def _bar_line(cells: Cells, columns: Iterable[int]) -> str:
    return " | ".join(one_line(cells.get(column, "")) for column in columns).rstrip(" |")


def _marked(rows: Sequence[tuple[int, str]]) -> Iterator[Block]:
    """Yield rows as blocks, marked by the numbers of those that fit a chunk together."""
    together: list[tuple[int, str]] = []
    size = 0
    for number, text in rows:
        if together and size + len(text) > _MARKED_TOGETHER:
            yield from _blocks(together)
            together, size = [], 0
        together.append((number, text))
        size += len(text)
    yield from _blocks(together)


def _blocks(rows: Sequence[tuple[int, str]]) -> Iterator[Block]:
    if rows:
        block = Block(text="", mark=_mark([number for number, _ in rows]))
        yield from (replace(block, text=text, lead=_key_length(text)) for _, text in rows)


def _mark(numbers: Sequence[int]) -> str:
    first, last = numbers[0], numbers[-1]
    return f"row {first}" if first == last else f"rows {first}-{last}"


def _key_length(text: str) -> int:
    """Return the length of the lines above the first long value of a row; 0 for a row of short values."""
    if len(text) < _LONG_VALUE:
        return 0
    length = 0
    for line in text.split("\n"):
        if len(line) > _LONG_VALUE or length + len(line) > _LONGEST_KEY:
            break
        length += len(line) + 1
    return max(0, length - 1)
