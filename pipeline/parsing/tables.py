"""Tables of any format: their header, merged cells, and the two ways to write them as text.

`fields` writes each row as a paragraph of `column: value` lines, readable alone; `bars` writes rows as lines of cells
between bars, below their header. A `Sheet` of cells is first divided into its tables, with the text around them.
"""

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, groupby, pairwise, takewhile

from pipeline.errors import DocumentTooLarge
from pipeline.parsing.assembly import Block, one_line
from pipeline.parsing.number_formats import Shown
from pipeline.parsing.table_headers import (
    LEAST_COLUMNS,
    LONGEST_NAME,
    MOST_HEADER_ROWS,
    NUMBER,
    SIGNS,
    TOTAL,
    YEAR,
    Cells,
    Span,
    Spans,
    TableRow,
    are_names,
    are_terms,
    header_rows,
    kind_of,
    looks_like_header,
    read_table,
)

_MARKED_TOGETHER = 1300  # characters of rows; about the size of a usual chunk
_LONGEST_TITLE = 120  # characters of a line above a table that is its heading
_LONGEST_HEADER = 400  # bytes of several rows that are repeated
_LONGEST_KEY = 300  # characters of a row that are repeated above its later parts
_LONG_VALUE = 400  # characters of a value from which a row may need several chunks
_MOST_CELLS = 1_000_000  # of a table, those that merged cells cover included
_MOST_BESIDE = 8  # tables beside each other
_MOST_REPEATED = 2000  # characters that one merged cell may become
_SAMPLE_ROWS = 50  # from which the kind of a column is judged
_MOST_LINES = 20  # of one cell each, between tables; more are a table of one column
_LONG_NOTE = 60  # characters
_LONGEST_REPEATED = 40  # characters of a merged cell that stands in each column it covers
_MOST_TITLES = 4
_FORM_COLUMNS = 2  # names and values
_LEAST_PAIRS, _MOST_PAIRS, _LONGEST_FIELD = 2, 40, 24  # in a row, rows, and characters of a name
_FIELD = re.compile(  # a name of a form
    r"(?:.*[\s_])?(?:date|no\.?|number|name|phone|tel\.?|mobile|fax|e-?mail|address|department|contact|manager|owner|author"
    r"|version|status|period|currency|project|customer|supplier|company|room|place|location|grade|position|gender|remarks?"
    r"|notes?|comments?|description|reason|datum|nr\.?|telefon|anschrift|abteilung|kunde|ort|bemerkung(?:en)?|firma)"
    r"|.*(?:nummer|姓名|名称|部门|日期|时间|编号|单号|电话|手机|地址|住址|地点|邮箱|[^\W\d_]人|职务|岗位|性别|年龄|学历|籍贯|民族|单位|公司|型号"
    r"|项目|版本|状态|期间|币种|客户|供应商|备注|说明|意见|原因|描述|要求|结论|签字|签名)",
    re.IGNORECASE,
)
_LONGEST_SIGN = 4  # characters of a cell that may stand beside an equal one
_SIGNED = re.compile(r"[^:：\d]{1,20}[:：]")  # as in Checked by: Li
_NOTE = re.compile(
    r"\*|†|‡|\(?\d\)|(?:notes?|n\.?b\.?|sources?|remarks?|hint|disclaimer|anmerkung|hinweis|quelle|注释?|备注|说明|附注|來源|来源|"
    r"资料来源|数据来源|註|備註)\s?\d?[:：.]",
    re.IGNORECASE,
)
_CODE = re.compile(r"\d{4}-\d\d-\d\d|[A-Za-z]{1,4}(?:-\d|\d\d)|\d{3,}|@\w+\.|://")
WrittenRow = tuple[int, str, tuple[tuple[str, str], ...]]  # number and text of a row, shown and stored values


Spanning = tuple[str, int, int]  # the text of a cell, and how many columns and rows it spans, from 1


class _Covered(str):
    """A text in a place that its merged cell covers, right of the first."""

    __slots__ = ()


def sheet_blocks(
    rows: Iterable[TableRow],
    spans: Sequence[Span] = (),
    *,
    level: int = 1,
    labels: Container[int] = (),
    hidden: Iterable[int] = (),
) -> Iterator[Block]:
    """Yield the tables of a sheet, and the lines above, between and below them, as blocks.

    ``rows``: number and cells of each row that has any, in order. Rows without a gap stand together; after a gap a new
    table begins if its columns or its header differ, else the rows go on with the header above. Up to four short lines
    above a header become headings below each other, the first of this ``level``. Rows that fit a chunk are marked by
    number. ``labels``: numbers of rows of one cell that name the rows below them. ``hidden``: numbers of rows that are
    not shown, which make no gap.
    """
    yield from _with_marks(_sheet_blocks(rows, spans, level, labels, sorted(hidden)))


def _sheet_blocks(
    rows: Iterable[TableRow], spans: Sequence[Span], level: int, labels: Container[int], hidden: Sequence[int]
) -> Iterator[Block]:
    header: Cells = {}
    body: list[TableRow] = []  # of the open table
    lines: list[TableRow] = []  # of one cell, below the open table or above the next one
    last_number = 0
    filled = _filled(rows, spans)
    merged: defaultdict[int, list[Span]] = defaultdict(list)
    for span in spans:
        merged[span.top].append(span)
    widest = max((len(cells) for _, cells in filled), default=0)
    for region in _regions(filled, hidden):
        for part in _side_by_side(region):
            above, below = _lines_above(part, is_wide=widest > 1)
            table, notes = _notes_below(below)
            gap = _gap(last_number, part[0][0], hidden)
            last_number = part[-1][0]
            if table and not lines and len(above) < 2 and _goes_on(table, header, body, gap, merged):
                body += [*above, *(row for row in table if row[1] != header)]
                lines += notes
                continue
            lines += above
            if not table:
                lines += notes
                continue
            yield from field_blocks(header, body, labels)
            pairs, table = _pairs(table, merged)
            is_head = widest > _FORM_COLUMNS and not header and last_number < filled[-1][0]
            header, body, scattered = _form(table, is_head=is_head) or read_table(table, merged)
            lines += scattered
            titles = _titles(lines) if header or pairs else []
            yield from _bars(lines[: len(lines) - len(titles)])
            for depth, (_, cells) in enumerate(titles):
                yield Block(text=_bar_line(cells, sorted(cells)), level=level + depth)
            yield from field_blocks({}, pairs)
            lines = notes
    yield from field_blocks(header, body, labels)
    yield from _bars(lines)


def _with_marks(blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield the blocks, headings with the mark of the rows below them."""
    headings: list[Block] = []
    for block in blocks:
        if block.level is not None:
            headings.append(block)
            continue
        yield from (replace(heading, mark=block.mark) for heading in headings)
        headings = []
        yield block
    yield from headings


def field_blocks(header: Cells, rows: Sequence[TableRow], labels: Container[int] = ()) -> Iterator[Block]:
    """Yield rows as paragraphs of `column: value` lines, or of cells between bars where no header was recognised. Rows
    below a line of one cell begin with this line. Columns that hold nothing are named once, above."""
    columns = sorted({column for _, cells in rows for column in cells})
    if not columns:
        return
    is_even = len(columns) * len(rows) <= _MOST_CELLS  # otherwise most of its places are empty
    written: list[WrittenRow] = []
    if empty := sorted(header.keys() - columns):
        written.append((rows[0][0], " | ".join(header[column] for column in empty), ()))
    label = ""
    begun = _begins_with_label(rows, columns)
    for index, (number, cells) in enumerate(rows):
        if (begun or number in labels) and len(cells) == 1 and _is_label(rows, index, columns[0]):
            label = one_line(*cells.values())
            continue
        if header:
            values = [(header.get(column), one_line(cells[column])) for column in sorted(cells)]
            text = "\n".join([f"{name}: {value}" if name else value for name, value in values])
        else:
            text = _bar_line(cells, columns if is_even else sorted(cells))
        written.append((number, f"{label}\n{text}" if label else text, _stored(cells)))
        if label and TOTAL.match(cells.get(columns[0], "")):
            label = ""
    yield from _marked(written)


def _begins_with_label(rows: Sequence[TableRow], columns: Sequence[int]) -> bool:
    """Return whether rows stand in several groups, each below a line of one cell, from the first row on."""
    if len(columns) < LEAST_COLUMNS or len(rows[0][1]) > 1:
        return False
    return sum(1 for index, (_, cells) in enumerate(rows) if len(cells) == 1 and _is_label(rows, index, columns[0])) > 1


def _is_label(rows: Sequence[TableRow], index: int, first: int) -> bool:
    """Return whether a row of one cell names the rows below it."""
    text = rows[index][1].get(first, "")
    return (
        0 < len(text) <= _LONGEST_TITLE
        and not NUMBER.match(text)
        and index + 1 < len(rows)
        and len(rows[index + 1][1]) > 1
    )


def _stored(cells: Cells) -> tuple[tuple[str, str], ...]:
    return tuple((one_line(value), value.stored) for value in cells.values() if isinstance(value, Shown))


def bar_blocks(rows: Sequence[Sequence[str]], *, header_rows: int, page: int | None = None) -> Iterator[Block]:
    """Yield a table as one block of lines, one for each row, with the cells between bars. Later parts repeat its first
    ``header_rows`` rows. Cells that are merged hold their value in each place. With a row that is longer than a chunk
    the rows are paragraphs of `column: value` lines, whose later parts repeat the short values."""
    header_rows = with_further_names(rows, header_rows)
    if 0 < header_rows < len(rows) and max(len("".join(row).encode()) for row in rows) > _MARKED_TOGETHER:
        cells = [(number, {column: cell for column, cell in enumerate(row) if cell}) for number, row in enumerate(rows)]
        header = {
            column: one_line(*dict.fromkeys(names))
            for column, names in enumerate(zip(*rows[:header_rows], strict=False))
        }
        body = [row for row in cells[header_rows:] if row[1]]
        yield from (replace(block, mark=None, page=page) for block in field_blocks(header, body))
        return
    lines = [" | ".join(one_line(cell) for cell in row).rstrip() for row in rows if any(cell.strip() for cell in row)]
    if lines:
        lead = "\n".join(lines[:header_rows]) if 0 < header_rows < len(lines) else ""
        yield Block(text="\n".join(lines), lead=len(lead), page=page)


def with_further_names(rows: Sequence[Sequence[str]], depth: int) -> int:
    """Return how many rows name columns if the first ``depth`` do: also names within groups, or units, below them."""
    while 0 < depth < min(len(rows) - 1, MOST_HEADER_ROWS):
        above, row, below = rows[depth - 1 : depth + 2]
        own = [at for at, (cell, name) in enumerate(zip(row, above, strict=False)) if cell not in ("", name)]
        is_grouped = any(one == other or "" in (one, other) for one, other in pairwise(above[1:]))
        is_above_values = is_grouped or any(NUMBER.match(below[at]) for at in own if at < len(below))
        are_texts = all(kind_of(row[at]) == "text" or YEAR.match(row[at]) for at in own)
        is_long = len(" | ".join(chain(*rows[: depth + 1])).encode()) > _LONGEST_HEADER
        corner, name, first = ("".join(each[:1]) for each in (row, above, below))
        if is_long or not (own and are_texts and is_above_values) or corner not in ("", name) or first in ("", corner):
            break
        depth += 1
    return depth


def table_blocks(
    rows: Sequence[Sequence[Spanning]], *, marked: int = 0, most_columns: int, caption: str = ""
) -> Iterator[Block]:
    """Yield a table as `bar_blocks`, each cell in every place that it covers; those of a form once. Its first ``marked``
    rows are its header; without any it is found. Rows of one merged cell above it are titles as its caption is, which
    each part repeats."""
    width = max((sum(across for _, across, _ in row) for row in rows), default=0)
    titled = takewhile(lambda row: len(row) == 1 and 1 < width == row[0][1] and row[0][2] == 1, rows[:-2])
    titles = [text for text in (caption, *(row[0][0] for row in titled)) if text]
    if titles:
        above = "\n".join(titles)
        rest = rows[len(titles) - bool(caption) :]
        marked = max(0, marked - len(rows) + len(rest))
        for block in table_blocks(rest, marked=marked, most_columns=most_columns):
            lead = len(above) + 1 + block.lead if block.lead else len(above)
            yield replace(block, text=f"{above}\n{block.text}", lead=lead)
        return
    if is_form(rows):
        yield from bar_blocks([[text for text, _, _ in row] for row in rows], header_rows=0)
        return
    grid = spread(rows, most_columns=most_columns)
    depth = marked if 0 < marked < len(grid) else named_rows(grid)
    yield from bar_blocks(grid, header_rows=depth)


def named_rows(grid: Sequence[Sequence[str]]) -> int:
    """Return 1 if the first row of a grid names its columns, or their groups above a row of names, else 0."""
    if len(grid) < 2 or are_terms(grid):
        return 0
    has_groups = len(grid) > 2 and any(name and name == other for name, other in pairwise(grid[0]))
    return int(
        looks_like_header(grid[0]) or (has_groups and all(map(looks_like_header, ([*dict.fromkeys(grid[0])], grid[1]))))
    )


def spread(rows: Sequence[Sequence[Spanning]], *, most_columns: int) -> list[list[str]]:
    """Return a grid of the cells of a table in which each stands in every place that it covers, unless it is long.
    Columns beyond ``most_columns`` are left out.
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


def _filled(rows: Iterable[TableRow], spans: Sequence[Span]) -> Sequence[TableRow]:
    """Return the rows with the value of every merged cell in each row and column that it covers.

    A cell alone in its row is a line of text and stays one cell; a long text stands once in a row. A sign beside a number is
    part of it."""
    kept = [(number, dict(cells)) for number, cells in rows if cells]
    by_number = dict(kept)
    left = _MOST_CELLS
    for span in spans:
        left -= (span.bottom - span.top + 1) * (span.right - span.left + 1)
        if left < 0:
            break
        first = by_number.get(span.top, {})
        value = first.get(span.left)
        if value is None or (span.top == span.bottom and len(first) == 1):
            continue
        is_short = len(value) <= _LONGEST_SIGN or NUMBER.match(value)
        beside = {
            column: value if is_short else _Covered(value)
            for column in range(span.left + 1, span.right + 1)
            if len(value) <= _LONGEST_REPEATED
        }
        for number in range(span.top, span.bottom + 1):
            if number in by_number:
                by_number[number].update({span.left: value, **beside})
    for _, cells in kept:
        for column in [column for column, value in cells.items() if value in SIGNS]:
            if NUMBER.match(cells.get(column + 1, "")):
                cells[column + 1] = cells.pop(column) + cells[column + 1]
    return kept


def _gap(above: int, below: int, hidden: Sequence[int]) -> int:
    """Return how many shown rows lie between two."""
    return below - above - 1 - bisect_left(hidden, below) + bisect_left(hidden, above)


def _regions(rows: Sequence[TableRow], hidden: Sequence[int]) -> Iterator[list[TableRow]]:
    """Yield the rows that follow each other without a gap, and headers with the numbers below a gap of one row."""
    header: list[TableRow] = []
    for _, run in groupby(enumerate(rows), key=lambda entry: _gap(0, entry[1][0], hidden) - entry[0]):
        region = [row for _, row in run]
        if header and (_gap(header[-1][0], region[0][0], hidden) > 1 or not _has_numbers_below(header, region)):
            yield header
            header = []
        region = header + region
        is_header = len(region) <= MOST_HEADER_ROWS + 2 and len(region[-1][1]) > 1
        header = region if is_header and all(are_names(cells) for _, cells in region) else []
        if not header:
            yield region
    if header:
        yield header


def _has_numbers_below(header: Sequence[TableRow], region: Sequence[TableRow]) -> bool:
    """Return whether a region without names of its own has numbers, and texts before them, below names."""
    first = next((cells for _, cells in region if len(cells) > 1), {})
    named = {column for _, cells in header for column in cells}
    return not are_names(first) and min(named) <= min(first) + 1 and max(first) <= max(named)


def _side_by_side(region: list[TableRow]) -> list[list[TableRow]]:
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
    parts: list[list[TableRow]] = []
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


def _has_keys(rows: Sequence[TableRow], column: int) -> bool:
    """Return whether a column tells rows apart by texts."""
    keys = [one_line(cells.get(column, "")) for _, cells in rows]
    return all(key and kind_of(key) == "text" for key in keys) and len(set(keys)) == len(keys)


def _lines_above(region: list[TableRow], *, is_wide: bool) -> tuple[list[TableRow], list[TableRow]]:
    """Divide a region into lines of one cell above its table, and the table. All of it is lines if no row has two, or a
    table of one column if the sheet is not ``is_wide`` anywhere."""
    width = len({column for _, cells in region for column in cells})
    if width < 2:
        return (region, []) if is_wide and len(region) <= _MOST_LINES else ([], region)
    first = next((index for index, (_, cells) in enumerate(region) if len(cells) > 1), len(region))
    return region[:first], region[first:]


def _form(body: Sequence[TableRow], *, is_head: bool) -> tuple[Cells, list[TableRow], list[TableRow]] | None:
    """Return the rows of a form of two columns, names and their values, as one line each; None for another table.

    The names end with a colon, or are mostly such as forms have, or the first value is a code, a date or a quantity, which
    names no column of such values, or two rows are the head of a sheet (``is_head``), above wider tables.
    """
    columns = sorted({column for _, cells in body for column in cells})
    if len(columns) != _FORM_COLUMNS or len(body) < 2:
        return None
    names = [one_line(cells.get(columns[0], "")) for _, cells in body]
    values = [one_line(cells.get(columns[1], "")) for _, cells in body]
    if not all(0 < len(name) <= LONGEST_NAME and not NUMBER.match(name) for name in names):
        return None
    have_colons = sum(1 for name in names if name.endswith((":", "："))) * 2 > len(names)
    known = [name for name in names if _FIELD.fullmatch(name)]
    ends = [name[-2:] for name in known]
    are_known = known[:1] == names[:1] and len(known) * 2 > len(names)
    are_known = are_known and all(ends.count(end) * 2 <= len(ends) for end in ends)  # no list of companies
    is_quantity = values[0][:1].isdecimal() and not YEAR.match(values[0]) and not NUMBER.match(values[0])
    begins_with_code = _is_code(values[0]) or is_quantity or (is_head and len(body) == 2)
    begins_with_code |= are_known and not any(map(_FIELD.fullmatch, values))
    are_numbers = all(map(NUMBER.match, values[1:]))
    if not have_colons and (not begins_with_code or are_numbers or len(set(names)) < len(names)):
        return None
    lines = (f"{name.rstrip(':： ')}: {value}" if value else name for name, value in zip(names, values, strict=True))
    return {}, [(number, {columns[0]: line}) for (number, _), line in zip(body, lines, strict=True)], []


def _pairs(body: list[TableRow], merged: Spans) -> tuple[list[TableRow], list[TableRow]]:
    """Divide a table into the rows of pairs above it, a name and its value in a cell each, and the rest. The names differ,
    and half of them end with a colon or are such as forms have, or the first row has a value that names no column. Below
    such rows, one pair may fill a row: its value is merged over the other columns, or its name is such a name."""
    pairs: list[TableRow] = []
    names: list[list[str]] = []  # of each row
    values: list[list[str]] = []
    known: list[int] = []  # how many of its names are known
    end = 0
    for number, cells in body[: _MOST_PAIRS + 1]:
        columns = [column for column in sorted(cells) if not isinstance(cells[column], _Covered)]
        row = [one_line(cells[column]) for column in columns]
        own = [name.rstrip(":： ") for name in row[::2]]
        is_wide = any(span.left == columns[-1] < span.right for span in merged.get(number, ()))
        has_colon = [name.endswith((":", "：")) for name in row[::2]]
        count = sum(
            is_wide or colon or bool(_FIELD.fullmatch(name)) for colon, name in zip(has_colon, own, strict=True)
        )
        is_named = all(0 < len(name) <= _LONGEST_FIELD and not NUMBER.match(name) for name in own)
        is_new = len({*chain.from_iterable(names), *own}) == sum(map(len, names)) + len(own)
        if len(row) % 2 or not (is_named and is_new) or (len(own) < _LEAST_PAIRS and not (pairs and count)):
            break
        names, values, known = [*names, own], [*values, row[1::2]], [*known, count]
        pairs.append((number, dict(zip(columns[::2], map(": ".join, zip(own, row[1::2], strict=True)), strict=True))))
        if count or any(map(_is_code, row[1::2])):
            end = len(pairs)
    rest = body[end:]
    if end and rest and len(names[end - 1]) > 1 and are_names(body[end - 1][1]) and not are_names(rest[0][1]):
        end -= 1  # the names of the rest
    named, shown = (list(chain.from_iterable(each[:end])) for each in (names, values))
    is_form = sum(known[:end]) * 2 >= len(named) and not any(map(_FIELD.fullmatch, shown))
    begins = any(map(_is_code, shown[:_LEAST_PAIRS]))
    are_pairs = _LEAST_PAIRS <= end <= _MOST_PAIRS and (is_form or begins)
    return (pairs[:end], body[end:]) if are_pairs else ([], body)


def is_form(rows: Sequence[Sequence[Spanning]]) -> bool:
    """Return whether all rows of a table are pairs of names and values."""
    body: list[TableRow] = []
    merged: dict[int, list[Span]] = {}
    for number, row in enumerate(rows):
        cells, column = dict[int, str](), 0
        for text, across, down in row:
            if down > 1:
                return False
            if text.strip():
                cells[column] = text
                merged.setdefault(number, []).append(
                    Span(top=number, bottom=number, left=column, right=column + across - 1)
                )
            column += across
        body += [(number, cells)] if cells else []
    return bool(body) and not _pairs(body, merged)[1]


def _is_code(value: str) -> bool:
    """Return whether a value is a code or a date, which names no column."""
    return bool(_CODE.search(value)) and not YEAR.match(value) and not NUMBER.match(value)


def _notes_below(region: list[TableRow]) -> tuple[list[TableRow], list[TableRow]]:
    """Divide a region into its table and the notes below it: lines of one cell that begin as notes do, or a sentence
    far longer than the cells above it, or a last line of labels for those who sign."""
    end = len(region)
    if (
        end > 2
        and all(map(_SIGNED.match, region[-1][1].values()))
        and not any(map(_SIGNED.match, region[-2][1].values()))
    ):
        table, notes = _notes_below(region[:-1])
        return table, [*notes, region[-1]]
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


def _goes_on(body: Sequence[TableRow], header: Cells, above: Sequence[TableRow], gap: int, merged: Spans) -> bool:
    """Return whether rows after a gap belong to the table above: they fill its columns, perhaps with one cell too many
    beside a number, and bring no header of their own, as texts above numbers, or texts where the table has numbers."""
    if not header or not body or gap < 1:
        return False
    columns = sorted({*header, *(column for _, row in above[:_SAMPLE_ROWS] for column in row)})
    last = columns[-1] + (not are_names(body[0][1]))
    inside = all(columns[0] <= column <= last for _, row in body for column in row)
    if not inside or len(body[0][1]) < 2:
        return False
    if len(body) < 2:
        return True
    own = sorted({column for _, row in body for column in row})
    top, depth = header_rows(body, merged, own)
    has_numbers = not all(are_names(cells) for _, cells in (*body[:_SAMPLE_ROWS], *above[:_SAMPLE_ROWS]))
    return not (depth and (gap > 1 or top + depth > 1 or len(own) < len(columns) or has_numbers))


def _titles(lines: Sequence[TableRow]) -> list[TableRow]:
    """Return the lines above a table that are its headings: up to four short ones, else the last one."""
    are_titles = [_is_title(cells) for _, cells in lines]
    if len(lines) <= _MOST_TITLES and all(are_titles):
        return list(lines)
    return list(lines[-1:]) if are_titles[-1:] == [True] else []


def _is_title(cells: Cells) -> bool:
    text = _bar_line(cells, sorted(cells))
    is_one_line = len(cells) > 1 or "\n" not in text
    return len(text) <= _LONGEST_TITLE and is_one_line and not text.startswith("#")


def _bar_line(cells: Cells, columns: Iterable[int]) -> str:
    """Return cells between bars; a text that is merged over columns stands in the first."""
    values = (cells.get(column, "") for column in columns)
    return " | ".join("" if isinstance(value, _Covered) else one_line(value) for value in values).rstrip(" |")


def _bars(rows: Sequence[TableRow]) -> Iterator[Block]:
    """Yield rows as lines of cells between bars."""
    yield from _marked([(number, _bar_line(cells, sorted(cells)), _stored(cells)) for number, cells in rows])


def _marked(rows: Sequence[WrittenRow]) -> Iterator[Block]:
    """Yield rows as blocks, marked by the numbers of those that fit a chunk together."""
    together: list[WrittenRow] = []
    size = 0
    for row in rows:
        if together and size + len(row[1]) > _MARKED_TOGETHER:
            yield from _blocks(together)
            together, size = [], 0
        together.append(row)
        size += len(row[1])
    yield from _blocks(together)


def _blocks(rows: Sequence[WrittenRow]) -> Iterator[Block]:
    if rows:
        mark = _mark([number for number, _, _ in rows])
        for _, text, stored in rows:
            yield Block(text=text, mark=mark, lead=key_length(text), stored=stored)


def _mark(numbers: Sequence[int]) -> str:
    first, last = numbers[0], numbers[-1]
    return f"row {first}" if first == last else f"rows {first}-{last}"


def key_length(text: str) -> int:
    """Return the length of the lines above the first long value of a row; 0 for a row of short values."""
    if len(text) < _LONG_VALUE:
        return 0
    length = 0
    for line in text.split("\n"):
        if len(line) > _LONG_VALUE or length + len(line) > _LONGEST_KEY:
            break
        length += len(line) + 1
    return max(0, length - 1)
