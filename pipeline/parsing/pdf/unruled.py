"""Tables of a PDF page without rules, by the places of their words: columns between gutters, cells of several lines, and
names of columns that stand closer than cells do."""

import math
import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from statistics import median

from pipeline.parsing.pdf.lines import CJK, GUTTER, VALUE, Line, LinePart, Spans, is_cjk, tidy
from pipeline.parsing.table_headers import looks_like_header

_NARROW_GUTTER = 0.3  # times the height: between columns of numbers
_ALIGNED_NAME = 0.5  # times the height: between the edges of a column and its name
_CLOSER = 0.85  # times the least distance of rows: that of the lines of a cell
_SAME_PITCH = 1.1  # times the least distance of rows
_LEAST_WRAPPED, _MOSTLY = 3, 0.9  # lines that go on with the one above, and share of such lines
_CELL_GAP = 0.4  # times the height: words closer to each other stand in one cell
_MOST_COLUMNS = 100
_MEANINGFUL = 0.5  # share of the cells of a table that hold a number or a word
_LEAST_ROWS, _LONGEST_SHORT = 2, 60  # characters of the cells of so short a table
_BEGINS_CELL = re.compile(r"[-+(<>≤≥~$€£¥]*\d|[-–—•*]$|\[\d")
_GOES_ON = re.compile("[a-zà-öø-ÿ]{3}")
_CELL = re.compile(r"\d|[^\W_]{3}|[\u3000-\u9fff\uac00-\ud7af]{2}")

Part = Sequence[Sequence[LinePart]] | Sequence[Line]  # rows that are still to be read, or the lines of a table


def table_of(band: Sequence[Sequence[LinePart]], start: int, spans: Spans) -> list[Part] | None:
    """Return the rows above a table, its lines and the rows below it; None unless two rows from ``start`` on have several
    cells. The row above may name its columns, although its words stand closer than cells do."""
    divided = [index for index, row in enumerate(band) if len(row) > 1 and index >= start]
    if len(divided) < _LEAST_ROWS:
        return None
    first, last = divided[0], divided[-1] + 1
    while last < len(band) and band[last][0].left > spans[0][1]:  # cells of several lines
        if band[last - 1][0].bottom - band[last][0].top > band[last][0].height:
            break
        last += 1
    body = band[first:last]
    longest = max(len(segment.text) for row in body for segment in row)
    if (len(divided) == _LEAST_ROWS and longest > _LONGEST_SHORT) or any(each.lines for row in body for each in row):
        return None
    starts = [left for left, _ in _by_order(body, len(spans)) or _refined(body, spans)]
    cells = [_cells(row, starts) for row in body]
    columns = [
        (min(words[0][0] for words in column if words), max(words[-1][1] for words in column if words))
        if any(column)
        else (math.inf, -math.inf)
        for column in zip(*cells, strict=True)
    ]
    body, cells = _rows_apart(body, cells, columns) or _whole_rows(body, cells, columns)
    rows = [[tidy(" ".join([word[2] for word in words])) for words in row] for row in cells]
    filled = [cell for cells in rows for cell in cells if cell]
    if sum(1 for cell in filled if _CELL.search(cell)) < _MEANINGFUL * len(filled):
        return None  # a formula
    if first and not looks_like_header(rows[0]) and (names := _names(band[first - 1], columns, body[0])):
        first, body, rows = first - 1, [band[first - 1], *body], [names, *rows]
    used = [column for column in range(len(starts)) if any(texts[column] for texts in rows)]
    lines = [
        Line(text=" ".join(filter(None, texts)), size=row[0].size, top=row[0].top, cells=tuple(texts[c] for c in used))
        for row, texts in zip(body, rows, strict=True)
    ]
    return [band[:first], lines, band[last:]]


def _by_order(rows: Sequence[Sequence[LinePart]], most: int) -> Spans:
    """Return the columns of rows that all have as many cells, if these are fewer than the gutters tell: a name at the left
    edge of its column and the numbers at the right one do not stand below each other."""
    count = len(rows[0])
    if not 1 < count < most or any(len(row) != count for row in rows):
        return []
    columns = [
        (min(each.left for each in cells), max(each.right for each in cells)) for cells in zip(*rows, strict=True)
    ]
    return columns if all(one[1] < other[0] for one, other in pairwise(columns)) else []


_Word = tuple[float, float, str]


def _cells(row: Sequence[LinePart], starts: Sequence[float]) -> list[list[_Word]]:
    """Return the words of a row in its columns."""
    cells: list[list[_Word]] = [[] for _ in starts]
    for segment in row:
        place, end = 0, -math.inf
        for word in segment.words:
            if word[0] - end >= _CELL_GAP * segment.height or VALUE.match(word[2]):
                place = max(0, bisect_right(starts, (word[0] + min(word[1], word[0] + 20)) / 2) - 1)
            cells[place].append(word)
            end = word[1]
    return cells


def _whole_rows(
    body: Sequence[Sequence[LinePart]], rows: Sequence[list[list[_Word]]], columns: Spans
) -> tuple[list[Sequence[LinePart]], list[list[list[_Word]]]]:
    """Return the rows of a table, each with the later lines of its cells.

    A later line leaves the first column empty, begins with a word that had no room in the line before, and is closer to it
    than rows are to each other or begins with a small word. Where nearly every such line had no room above, later lines may
    stand as far apart as rows do, or be lines of the first cell alone."""
    pitches = [math.inf, *(above[0].top - below[0].top for above, below in pairwise(body))]
    usual = min((pitch for pitch, cells in zip(pitches, rows, strict=True) if cells[0]), default=0.0)
    wrapped = {at for only_first in (False, True) for at in _wrapped_lines(rows, columns, only_first=only_first)}
    parts: list[Sequence[LinePart]] = []
    whole: list[list[list[_Word]]] = []
    lasts: list[list[_Word]] = []  # of the line before
    for at, (row, cells, pitch) in enumerate(zip(body, rows, pitches, strict=True)):
        is_closer = pitch < _CLOSER * usual < math.inf
        is_lower = pitch < _SAME_PITCH * usual and all(_GOES_ON.match(words[0][2]) for words in cells if words)
        goes_on = bool(whole) and not cells[0] and (is_closer or is_lower) and _have_no_room(cells, lasts, columns)
        if goes_on or (at in wrapped and pitch < _SAME_PITCH * usual):
            whole[-1] = [_in_one(above, words) for above, words in zip(whole[-1], cells, strict=True)]
        else:
            parts.append(row)
            whole.append(cells)
        lasts = cells
    return parts, whole


def _rows_apart(
    body: Sequence[Sequence[LinePart]], rows: Sequence[list[list[_Word]]], columns: Spans
) -> tuple[list[Sequence[LinePart]], list[list[list[_Word]]]] | None:
    """Return rows of lines that stand closer to each other than rows do, at whatever height of their row the other cells
    stand; None unless one column has a single line in each row, and the lines of the other cells go on with small words
    or had no room above."""
    pitches = [above[0].top - below[0].top for above, below in pairwise(body)]
    begins = [0, *(at for at, pitch in enumerate(pitches, start=1) if pitch * _CLOSER > min(pitches)), len(rows)]
    runs = [rows[start:end] for start, end in pairwise(begins)]
    is_head = len(runs) > 2 and all(words and not VALUE.match(words[0][2]) for cells in runs[0] for words in cells)
    inner = runs[is_head:]  # without names of several lines
    if len(runs) == len(rows) or not any(
        all(sum(bool(cells[column]) for cells in run) == 1 for run in inner) for column in range(len(columns))
    ):
        return None
    for above, cells in (pair for run in inner for pair in pairwise(run)):
        both = [(last, words) for last, words in zip(above, cells, strict=True) if last and words]
        alone = [words if last else [] for last, words in zip(above, cells, strict=True)]
        goes_on = _have_no_room(alone, above, columns) or all(_GOES_ON.match(words[0][2]) for words in alone if words)
        if not goes_on or any(len(last) == 1 and not is_cjk(last[0][2]) for last, _ in both):
            return None
    whole = []
    for run in runs:
        joined = run[0]
        for cells in run[1:]:
            joined = [_in_one(above, words) for above, words in zip(joined, cells, strict=True)]
        whole.append(joined)
    return [body[start] for start in begins[:-1]], whole


def _in_one(above: list[_Word], words: list[_Word]) -> list[_Word]:
    """Return the words of two lines of a cell; between Chinese characters without a space."""
    if not (above and words and CJK.match(above[-1][2][-1:]) and CJK.match(words[0][2])):
        return above + words
    left, right, text = above[-1]
    return [*above[:-1], (left, right, text + words[0][2]), *words[1:]]


def _have_no_room(
    cells: Sequence[list[_Word]], above: Sequence[list[_Word]], columns: Spans, *, by_letter: bool = False
) -> bool:
    """Return whether no first word of these cells had room in the line above, or of Chinese ones, ``by_letter``, the first
    character."""

    def width(word: _Word) -> float:
        return (word[1] - word[0]) / (len(word[2]) if by_letter and is_cjk(word[2]) else 1)

    return all(
        last and last[-1][1] + width(words[0]) > right and not _BEGINS_CELL.match(words[0][2])
        for words, last, (_, right) in zip(cells, above, columns, strict=True)
        if words
    )


def _wrapped_lines(rows: Sequence[list[list[_Word]]], columns: Spans, *, only_first: bool) -> list[int]:
    """Return the indices of lines without a first cell, or with no other, if nearly all of them go on with the line above."""
    lines = [
        at for at, cells in enumerate(rows) if at and (any(cells[1:]), bool(cells[0])) == (not only_first, only_first)
    ]
    wrapped = [at for at in lines if _have_no_room(rows[at], rows[at - 1], columns, by_letter=True)]
    return wrapped if len(wrapped) >= max(_LEAST_WRAPPED, _MOSTLY * len(lines)) else []


def _names(row: Sequence[LinePart], columns: Spans, below: Sequence[LinePart]) -> list[str] | None:
    """Return the words of a row in the columns that they name: each is below a name that begins, ends or has its middle
    where the column does."""
    if any(each.lines for each in row) or row[0].bottom - max(each.top for each in below) > row[0].height:
        return None
    if len(columns) > _MOST_COLUMNS:
        return None
    near = _ALIGNED_NAME * row[0].height
    words = [word for each in row for word in each.words]
    begun = [next((word[0] for word in words if abs(word[0] - left) <= near), None) for left, _ in columns]
    names: list[list[_Word]] = [[] for _ in columns]
    place = 0
    for word in words:
        while place + 1 < len(columns) and (
            columns[place + 1][0] - word[0] < word[1] - columns[place][1]
            if (begin := begun[place + 1]) is None
            else word[0] >= begin
        ):
            place += 1
        names[place].append(word)
    for (left, right), named in zip(columns, names, strict=True):
        begin, end = (named[0][0], named[-1][1]) if named else (left, right)
        if min(abs(begin - left), abs(end - right), abs(begin + end - left - right) / 2) > near:
            return None
    found = [" ".join(word[2] for word in words) for words in names]
    return found if looks_like_header(found) else None


def _refined(rows: Sequence[Sequence[LinePart]], spans: Spans) -> Spans:
    """Return the columns with those of numbers divided that stand close to each other."""
    refined: Spans = []
    for (left, right), column in zip(spans, by_column(rows, spans), strict=True):
        height = median([each.height for each in column]) if column else 10.0
        words = [word for each in column for word in each.words]
        parts = merged_spans([word[:2] for word in words], _NARROW_GUTTER * height) if len(column) > 2 else []
        kept: Spans = [(left, right)]
        are_values = False
        for (_, before), (start, end) in pairwise(parts[:_MOST_COLUMNS]):
            stands_apart = are_values and start - before >= GUTTER * height
            values = [word[2] for word in words if start - 0.1 <= word[0] <= end]
            least = min(0.8 * len(values), max(3, len(values) - 1))  # but for the name of the column
            are_values = len(values) >= 3 and sum(1 for value in values if VALUE.match(value)) >= least
            if are_values or stands_apart:
                kept[-1] = (kept[-1][0], start)
                kept.append((start, right))
        refined += kept
    return refined


def merged_spans(spans: Iterable[tuple[float, float]], gutter: float) -> Spans:
    """Return spans from left to right, those without a gutter between them joined."""
    merged: Spans = []
    for left, right in sorted(spans):
        if merged and left - merged[-1][1] < gutter:
            merged[-1] = (merged[-1][0], max(merged[-1][1], right))
        else:
            merged.append((left, right))
    return merged


def by_column(band: Iterable[Sequence[LinePart]], spans: Spans) -> list[list[LinePart]]:
    """Return the segments of each column."""
    starts = [left for left, _ in spans]
    columns: list[list[LinePart]] = [[] for _ in spans]
    for row in band:
        for segment in row:
            columns[max(0, bisect_right(starts, segment.left + 0.5) - 1)].append(segment)
    return columns
