"""The layout of a PDF page, from the places of its words and rules: tables, columns in reading order, paragraphs.

Positions are in points from the lower left corner. A band is a run of rows between which the same gutters stay white: it
is read column by column if its columns are prose, else row by row as a table. Tables with rules are read by their cells.
"""

import math
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from statistics import median
from typing import cast

from pipeline.parsing.assembly import LONGEST_CODE, code_runs
from pipeline.parsing.pdf_contents import Sides
from pipeline.parsing.pdf_lines import (
    CJK,
    CJK_PROSE,
    ENDING,
    GUTTER,
    LIST_ITEM,
    ON,
    OTHER_SIZE,
    PROSE,
    SENTENCE_END,
    SOFT,
    VALUE,
    WIDE_GAP,
    Line,
    LinePart,
    Spans,
    is_cjk,
    paragraphs_of,
    rows_of,
    tidy,
)
from pipeline.parsing.pdf_rules import Box, with_ruled_tables
from pipeline.parsing.table_headers import looks_like_header

_NARROW_GUTTER = 0.3  # times the height: between columns of numbers
_ALIGNED = 0.12  # times the height: the bases of cells beside each other differ by less
_ALIGNED_NAME = 0.5  # times the height: between the edges of a column and its name
_CLOSER = 0.85  # times the least distance of rows: that of the lines of a cell
_SAME_PITCH = 1.1  # times the least distance of rows
_CELL_GAP = 0.4  # times the height: words closer to each other stand in one cell
_NEAR = 3.5  # times the height: the lines of a block are not further apart
_LEAST_BLOCK = 4  # lines on average, if blocks are to be read as they were drawn
_FAR = 3.0  # times the height: rows so far apart are of different tables
_MOST_PROSE = 0.7  # share of the characters beside each other
_LEAST_LINES = 3
_LEAST_RECORDS, _SHORT = 4, 0.6  # lines, and share of the length of prose
_FILLED = 0.6  # share of a column's width that its lines of prose fill
_MOST_PROSE_COLUMNS = 4
_MOST_COLUMNS = 100
_MEANINGFUL = 0.5  # share of the cells of a table that hold a number or a word
_LEAST_COUNTED, _MOST_DIGITS = 4, 6  # lines with numbers in the margin
_LEAST_ROWS, _LONGEST_SHORT = 2, 60  # characters of the cells of so short a table
_MOST_BOXES = 100  # of a page
_LEAST_WIDTH = 0.1  # points of a letter of code
_DEEPEST = 4  # columns within columns
_BEGINS_CELL = re.compile(r"[-+(<>≤≥~$€£¥]*\d|[-–—•*]$|\[\d")
_GOES_ON = re.compile("[a-zà-öø-ÿ]{3}")
_CELL = re.compile(r"\d|[^\W_]{3}|[\u3000-\u9fff\uac00-\ud7af]{2}")


def reading_order(segments: Sequence[LinePart], rules: Sides) -> list[Line]:
    """Return the lines of a page in the order in which people read them, with the rows of its tables."""
    return _in_order(_with_boxes(*with_ruled_tables(segments, rules)))


def _in_order(segments: Sequence[LinePart]) -> list[Line]:
    segments = _with_code(segments)
    columns = list(_columns(segments, depth=0))
    if not any(isinstance(part[0], Line) for column in columns for part in column):  # no rows of cells were found
        blocks = _as_drawn(segments)
        if len(blocks) * _LEAST_BLOCK <= len(segments):
            columns = [[rows_of(block)] for block in blocks]
    lines: list[Line] = []
    for column in columns:
        read = [line for part in column for line in _lines(part)]
        lines += _joining(lines[-1] if lines else None, read)
    return lines


def _with_boxes(segments: list[LinePart], boxes: Sequence[Box]) -> list[LinePart]:
    """Return the segments with boxes that stand beside each other and hold several lines each read one after the other."""
    beside: list[list[Box]] = []
    for box in sorted(boxes[:_MOST_BOXES]):
        least = (box[3] - box[1]) / 2
        run = next(
            (
                run
                for run in beside
                if run[-1][2] <= box[0] + GUTTER and min(run[-1][3], box[3]) - max(run[-1][1], box[1]) > least
            ),
            None,
        )
        beside.append([box]) if run is None else run.append(box)
    for run in sorted((run for run in beside if len(run) > 1), key=lambda run: run[0][3] - run[0][1]):
        held: list[list[LinePart]] = [[] for _ in run]
        rest, first = list[LinePart](), len(segments)
        for segment in segments:
            middle = (segment.left + segment.right) / 2, (segment.bottom + segment.top) / 2
            at = [
                at
                for at, (left, low, right, top) in enumerate(run)
                if left < middle[0] < right and low < middle[1] < top
            ]
            (held[at[0]] if at else rest).append(segment)
            first = min(first, len(rest)) if at else first
        if all(len(rows_of(each)) > 1 for each in held):
            low, high = min(box[1] for box in run), max(box[3] for box in run)
            lines = [line for each in held for line in _in_order(each)]
            rest.insert(first, LinePart("", run[0][0], run[-1][2], low, high, high - low, lines=lines))
            segments = rest
    return segments


def _with_code(segments: Sequence[LinePart]) -> list[LinePart]:
    """Return the segments with those in a font of equal widths, drawn one below the other, joined to lines of code with
    their indentation. On a page of nothing else they must look like code; names beside other text stay cells."""
    if not any(each.is_code for each in segments):
        return list(segments)
    is_typed = 2 * sum(len(each.text) for each in segments if each.is_code) > sum(len(each.text) for each in segments)
    others = {round(each.bottom) + near for each in segments if not each.is_code for near in (-1, 0, 1)}
    read: list[LinePart] = []
    for block in _blocks_of_code(segments):
        rows = rows_of(block) if block[0].is_code else []
        lines = _code_lines(rows) if len(rows) > 1 else []
        beside = sum(1 for row in rows if round(row[0].bottom) in others)
        if (
            lines
            and 2 * beside < len(rows)
            and max(map(len, lines)) <= LONGEST_CODE
            and (not is_typed or code_runs(lines))
        ):
            sides = min(each.left for each in block), max(each.right for each in block)
            low, high = min(each.bottom for each in block), max(each.top for each in block)
            block = [
                LinePart("", *sides, low, high, high - low, lines=[Line(line, 0.0, high, (line,)) for line in lines])
            ]
        read += block
    return read


def _blocks_of_code(segments: Sequence[LinePart]) -> Iterator[list[LinePart]]:
    """Yield runs of segments: of code, each near below the one before, or of other text."""
    start = 0
    for index in range(1, len(segments) + 1):
        last = segments[index - 1]
        if index < len(segments) and segments[index].is_code == last.is_code:
            drop = last.bottom - segments[index].bottom
            if not last.is_code or -0.5 * last.height < drop < _NEAR * last.height:
                continue
        yield list(segments[start:index])
        start = index


def _code_lines(rows: Sequence[Sequence[LinePart]]) -> list[str]:
    """Return the text of rows with the spaces that their places tell, and empty lines."""
    edge = min(row[0].left for row in rows)
    width = median([(right - left) / len(word) for row in rows for each in row for left, right, word in each.words])
    pitch = median([above[0].bottom - below[0].bottom for above, below in pairwise(rows)])
    if min(width, pitch) < _LEAST_WIDTH:
        return []
    lines: list[str] = []
    last = rows[0][0].bottom
    for row in rows:
        lines += [""] * min(2, round((last - row[0].bottom) / pitch) - 1)
        text, end, last = "", edge, row[0].bottom
        for left, right, word in (word for each in row for word in each.words):
            text += " " * max(int(bool(text)), min(LONGEST_CODE, round((left - end) / width))) + word.replace(SOFT, "-")
            end = right
        lines.append(text)
    return lines


def _as_drawn(segments: Iterable[LinePart]) -> list[list[LinePart]]:
    """Return the segments in the order in which they were drawn, in blocks whose lines stand below each other."""
    blocks: list[list[LinePart]] = []
    for segment in segments:
        last = blocks[-1][-1] if blocks else None
        if last is not None and (
            -0.5 < last.bottom - segment.bottom + segment.height < _NEAR * segment.height
            and min(last.right, segment.right) > max(last.left, segment.left) - segment.height
            and (
                last.bottom - segment.bottom > segment.height / 2
                or segment.left - last.right < WIDE_GAP * segment.height
            )
        ):
            blocks[-1].append(segment)
        else:
            blocks.append([segment])
    return blocks


_Part = Sequence[Sequence[LinePart]] | Sequence[Line]  # rows that are still to be read, or the lines of a table


def _bands(rows: Iterable[list[LinePart]]) -> Iterator[tuple[list[list[LinePart]], Spans]]:
    """Yield runs of rows that have the same gutters, or none."""
    band: list[list[LinePart]] = []
    spans: Spans = []
    divided = 0  # rows of several segments
    for row in rows:
        if len(spans) == len(row) == 1 and _touches(spans[0], row[0]):
            spans = [(min(spans[0][0], row[0].left), max(spans[0][1], row[0].right))]
            band.append(row)
            continue
        height = max([each.height for each in row if not each.lines]) if not row[0].lines else 10.0
        merged = _merged([*spans, *((each.left, each.right) for each in row)], GUTTER * height)
        if band and _ends(band, spans, row, merged, height, divided):
            yield band, spans
            band, divided, merged = [], 0, _merged([(each.left, each.right) for each in row], GUTTER * height)
        band.append(row)
        divided += len(row) > 1
        spans = merged
    if band:
        yield band, spans


def _touches(span: tuple[float, float], segment: LinePart) -> bool:
    """Return whether no gutter lies between a span and a segment."""
    gutter = GUTTER * (10.0 if segment.lines else segment.height)
    return segment.left - span[1] < gutter and span[0] - segment.right < gutter


def _ends(
    band: list[list[LinePart]], spans: Spans, row: list[LinePart], merged: Spans, height: float, divided: int
) -> bool:
    """Return whether a row does not belong to a band: it closes a gutter, opens one, or stands far below."""
    if len(spans) == 1:
        return len(row) > 1 and len(merged) == 1
    gaps = [(one.right, other.left) for one, other in pairwise(row) if other.left - one.right >= GUTTER * height]
    if (len(gaps) > 1 or len(band) == 1) and any(
        left <= start and end <= right for left, right in merged for start, end in gaps
    ):
        return True  # its columns are others
    is_far = divided > 0 and min(each.bottom for each in band[-1]) - max(each.top for each in row) > _FAR * height
    kept = list(pairwise(merged))
    closed = [
        (left, right)
        for (_, left), (right, _) in pairwise(spans)
        if not any(min(right, end) - max(left, start) >= GUTTER * height for (_, start), (end, _) in kept)
    ]
    crossing = [each for each in row if any(each.left < right and left < each.right for left, right in closed)]
    closes = bool(closed) and not (kept and all(VALUE.match(word[2]) for each in crossing for word in each.words))
    return is_far or (closes and divided > 1)


def _merged(spans: Iterable[tuple[float, float]], gutter: float) -> Spans:
    merged: Spans = []
    for left, right in sorted(spans):
        if merged and left - merged[-1][1] < gutter:
            merged[-1] = (merged[-1][0], max(merged[-1][1], right))
        else:
            merged.append((left, right))
    return merged


def _columns(segments: Iterable[LinePart], *, depth: int) -> Iterator[list[_Part]]:
    """Yield each column of prose, one after the other, as rows and tables; all of a page without columns at once."""
    parts: list[_Part] = []
    for band, spans in _bands(rows_of(segments)):
        columns = _divided(band, spans) if len(spans) > 1 and depth < _DEEPEST else []
        text = [
            column
            for column, other in zip(columns, reversed(columns), strict=True)
            if not _numbers_lines(column, other)
        ]
        if len(columns) == 2 and len(text) == 1:
            parts.append(rows_of(text[0]))
        elif columns and (_are_apart(band) or (_is_prose(columns) and not _are_records(band, columns))):
            yield _joined_rows(parts)
            parts = []
            for column in columns:
                yield from _columns(column, depth=depth + 1)
        else:
            above = parts[-1] if parts and not isinstance(parts[-1][0], Line) else []
            found = _table([*above, *band], len(above), spans) or [above, band]
            parts[len(parts) - bool(above) :] = [part for part in found if part]
    yield _joined_rows(parts)


def _joined_rows(parts: Iterable[_Part]) -> list[_Part]:
    """Return the parts with rows that follow each other in one part, so that paragraphs go on from band to band."""
    joined: list[_Part] = []
    for is_table, run in groupby((part for part in parts if part), key=lambda part: isinstance(part[0], Line)):
        members = list(run)
        joined += members if is_table else [cast("_Part", [row for part in members for row in part])]
    return joined


def _lines(part: _Part) -> Iterator[Line]:
    """Yield the lines of rows, and those that were read before among them."""
    plain: list[Sequence[LinePart]] = []
    for row in part:
        if isinstance(row, Line):
            yield row
        elif row[0].lines:
            yield from paragraphs_of(plain)
            plain = []
            yield from row[0].lines
        else:
            plain.append(row)
    yield from paragraphs_of(plain)


def _divided(band: Iterable[Sequence[LinePart]], spans: Spans) -> list[list[LinePart]]:
    """Return the segments of each column."""
    starts = [left for left, _ in spans]
    columns: list[list[LinePart]] = [[] for _ in spans]
    for row in band:
        for segment in row:
            columns[max(0, bisect_right(starts, segment.left + 0.5) - 1)].append(segment)
    return columns


def _are_apart(band: Sequence[Sequence[LinePart]]) -> bool:
    """Return whether lines beside each other stand on bases of their own, which cells of a table do not."""
    pairs = [pair for row in band for pair in pairwise(row) if not pair[0].lines and not pair[1].lines]
    if pairs:
        return sum(1 for one, other in pairs if abs(one.bottom - other.bottom) <= _ALIGNED * one.height) < 0.6 * len(
            pairs
        )
    return any(below[0].top - above[0].bottom > _ALIGNED * above[0].height for above, below in pairwise(band))


def _numbers_lines(column: Sequence[LinePart], other: Sequence[LinePart]) -> bool:
    """Return whether a column counts the lines of prose beside it, as in transcripts and proofs."""
    numbers = [int(each.text) for each in column if each.text.isdecimal() and len(each.text) <= _MOST_DIGITS]
    steps = sum(1 for one, next_one in pairwise(numbers) if next_one - one == 1)
    return steps >= max(_LEAST_COUNTED, 0.7 * len(other), 0.8 * len(column)) and _is_prose([other])


def _is_prose(columns: Sequence[Sequence[LinePart]]) -> bool:
    """Return whether columns are read one after the other: two of them are long lines of text, or most of their
    characters stand in lines that fill their column, and none holds values."""
    total = prose = texts = 0
    for column in columns:
        lines = [each for each in column if not each.lines]
        characters = sum(len(each.text) for each in lines)
        total += characters
        if len(lines) < _LEAST_LINES:
            continue
        least = CJK_PROSE if sum(map(is_cjk, (each.text for each in lines))) * 2 > len(lines) else PROSE
        texts += characters >= 1.5 * least * len(lines)
        if sum(1 for each in lines if VALUE.match(each.text)) * 2 > len(lines):
            return False
        width = max(each.right for each in lines) - min(each.left for each in lines)
        filled = sum(1 for each in lines if each.right - each.left >= _FILLED * width)
        if characters >= least * len(lines) and filled >= _FILLED * len(lines):
            prose += characters
    return texts > 1 or (len(columns) <= _MOST_PROSE_COLUMNS and prose >= _MOST_PROSE * total > 0)


def _are_records(band: Sequence[Sequence[LinePart]], columns: Sequence[Sequence[LinePart]]) -> bool:
    """Return whether each line has a short name or value of its own beside it."""
    if len(band) < _LEAST_RECORDS or sum(len(row) == len(columns) for row in band) < 0.9 * len(band):
        return False
    texts = [[each.text for each in column] for column in columns]
    return any(
        sum(map(len, column)) < _SHORT * len(column) * (CJK_PROSE if any(map(is_cjk, column)) else PROSE)
        for column in texts
    )


def _table(band: Sequence[Sequence[LinePart]], start: int, spans: Spans) -> list[_Part] | None:
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
    body, cells = _whole_rows(body, cells, columns)
    rows = [[tidy(" ".join([word[2] for word in words])) for words in row] for row in cells]
    filled = [cell for cells in rows for cell in cells if cell]
    if sum(1 for cell in filled if _CELL.search(cell)) < _MEANINGFUL * len(filled):
        return None  # a formula
    if first and not looks_like_header(rows[0]) and (names := _names(band[first - 1], columns, body[0])):
        first, body, rows = first - 1, band[first - 1 : last], [names, *rows]
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
    """Return rows with the later lines of their cells: these leave the first column empty, are closer to the line before
    than rows are to each other or begin with a small word, and begin with a word that had no room in it."""
    pitches = [math.inf, *(above[0].top - below[0].top for above, below in pairwise(body))]
    usual = min((pitch for pitch, cells in zip(pitches, rows, strict=True) if cells[0]), default=0.0)
    parts: list[Sequence[LinePart]] = []
    whole: list[list[list[_Word]]] = []
    lasts: list[list[_Word]] = []  # of the line before
    for row, cells, pitch in zip(body, rows, pitches, strict=True):
        is_closer = pitch < _CLOSER * usual < math.inf
        is_lower = pitch < _SAME_PITCH * usual and all(_GOES_ON.match(words[0][2]) for words in cells if words)
        goes_on = bool(whole) and not cells[0] and (is_closer or is_lower)
        if goes_on and all(
            last and last[-1][1] + words[0][1] - words[0][0] > right and not _BEGINS_CELL.match(words[0][2])
            for words, last, (_, right) in zip(cells, lasts, columns, strict=True)
            if words
        ):
            whole[-1] = [above + words for above, words in zip(whole[-1], cells, strict=True)]
        else:
            parts.append(row)
            whole.append(cells)
        lasts = cells
    return parts, whole


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
    for (left, right), column in zip(spans, _divided(rows, spans), strict=True):
        height = median([each.height for each in column]) if column else 10.0
        words = [word for each in column for word in each.words]
        parts = _merged([word[:2] for word in words], _NARROW_GUTTER * height) if len(column) > 2 else []
        kept: Spans = [(left, right)]
        for start, end in parts[1:_MOST_COLUMNS]:
            values = [word[2] for word in words if start - 0.1 <= word[0] <= end]
            if len(values) >= 3 and sum(1 for value in values if VALUE.match(value)) >= 0.8 * len(values):
                kept[-1] = (kept[-1][0], start)
                kept.append((start, right))
        refined += kept
    return refined


def _joining(last: Line | None, column: list[Line]) -> list[Line]:
    """Return a column's lines; the first goes on with the last sentence of the column before if that is not at its end."""
    if (
        not column
        or last is None
        or len(last.text) < PROSE
        or last.cells
        or column[0].cells
        or SENTENCE_END.search(last.text[-ENDING:])
    ):
        return column
    first = column[0]
    goes_on = abs(first.size - last.size) <= OTHER_SIZE * last.size and (
        first.text[:1].islower() or (CJK.match(first.text) and CJK.match(last.text[-1:]))
    )
    return [first._replace(follows=ON), *column[1:]] if goes_on and not LIST_ITEM.match(first.text) else column


_NUMBERS = re.compile(r"\d+|\b[ivxl]{1,7}\b")
_LARGER = 1.14  # times the size of most letters: that of headings
_FULL_PAGE, _MOST_REPEATED = 8, 0.6  # lines of a page, and share of the lines that stand on many pages
_EDGE_LINES = 3  # of the top and of the bottom of a page that may be running heads
_PAGE_WORDS = frozenset({"#", "page", "seite", "p", "of", "von", "第", "页", "頁", "共", "页共", "頁共"})
_WORDS = re.compile(r"[^\W_]++|#")
_PAGE_OF = re.compile(
    r"\b(?:page|seite|p\.) ?# ?(?:(?:of|von|/) ?#|$)|第 ?# ?[页頁](?: ?共 ?# ?[页頁])?|# ?/ ?#$"
)  # within a line of more words


def running_heads(pages: Sequence[Sequence[Line]]) -> list[set[int]]:
    """Return for each page the indices of its running heads and page numbers: lines at its top or bottom that stand on
    at least three pages, and on a quarter of them, with at most other numbers. Lines of which a page has several are
    entries of a list, large ones with other numbers are titles, and rows of a table stay together. On pages
    that hold the same lines throughout, as letters to many do, they are no lines of paragraphs."""
    places: dict[tuple[bool, str], list[tuple[int, int]]] = {}
    counted: set[str] = set()  # those that also hold the number of the page
    for page, lines in enumerate(pages):
        tops = [round(line.top) for line in lines]
        places_of_page = sorted({*tops})
        low, high = {*places_of_page[:_EDGE_LINES]}, {*places_of_page[-_EDGE_LINES:]}
        if len(places_of_page) == 1:  # unknown
            tops = [len(lines) - index for index in range(len(lines))]
            low, high = {*tops[-_EDGE_LINES:]}, {*tops[:_EDGE_LINES]}
        for index, top in enumerate(tops):
            if top in low or top in high:
                key, has_page = _key(lines[index].text)
                if has_page:
                    counted.add(key)
                if key:
                    places.setdefault((top in high, key), []).append((page, index))
    heads: list[set[int]] = [set() for _ in pages]
    places = {place: found for place, found in places.items() if len({page for page, _ in found}) > 1}
    if not places:
        return heads
    body = body_size(pages) or math.inf
    occurrences: dict[str, list[int]] = {}  # pages, one for each line
    for page, lines in enumerate(pages):
        for line in lines:
            occurrences.setdefault(_key(line.text)[0], []).append(page)
    frequent = max(3, len(pages) // 4 if len(pages) < 40 else 8)
    repeated = {key for key, on in occurrences.items() if len({*on}) >= frequent}
    full = [page for page, lines in enumerate(pages) if len(lines) >= _FULL_PAGE]
    repeats = sum(len(occurrences[key]) for key in repeated) > _MOST_REPEATED * sum(map(len, pages))
    is_series = len(full) * 2 > len(pages) and repeats  # such as letters to many
    for (_, key), found in places.items():
        on = {page for page, _ in found}
        is_number = "#" in key and _PAGE_WORDS.issuperset(_WORDS.findall(key))
        least = 2 if is_number or key in counted else frequent
        if is_series and not is_number and all(_is_in_paragraph(pages[page], at) for page, at in found):
            continue
        is_entry = len(occurrences[key]) > 2 * len({*occurrences[key]}) and key != "#"
        is_title = "#" in key and not is_number and any(pages[page][at].size >= _LARGER * body for page, at in found)
        if len(on) >= least and not is_entry and not is_title and (is_number or _are_near(pages, found)):
            for page, index in found:
                heads[page].add(index)
    for lines, on_page in zip(pages, heads, strict=True):
        for width, rows in groupby(range(len(lines)), key=lambda index: len(lines[index].cells)):
            if width and not on_page.issuperset(table := [*rows]):
                on_page.difference_update(table)
    return heads


def _key(text: str) -> tuple[str, bool]:
    """Return a line without its numbers, and whether it holds the number of the page."""
    whole = _NUMBERS.sub("#", text).strip().casefold()
    key = (_PAGE_OF.sub("", whole).strip() if "#" in whole else whole) or whole
    return key, key != whole


def _is_in_paragraph(lines: Sequence[Line], index: int) -> bool:
    return any(line.follows == ON for line in lines[max(index, 1) : index + 2])


def _are_near(pages: Sequence[Sequence[Line]], found: Sequence[tuple[int, int]]) -> bool:
    """Return whether the lines stand at about the same height on their pages."""
    tops = sorted(pages[page][index].top for page, index in found)
    return tops[-1] - tops[0] < 40 or sum(1 for low, high in pairwise(tops) if high - low < 2) > len(tops) // 2


def body_size(pages: Sequence[Sequence[Line]]) -> float:
    """Return the size of most letters of a document, 0 if it is unknown."""
    letters = _letters_by_size(line for lines in pages for line in lines if line.size)
    return max(letters, key=lambda size: letters[size], default=0.0)


def heading_sizes(pages: Sequence[Sequence[Line]], body: float) -> list[float]:
    """Return the sizes that headings have, largest first, at most four: clearly above the body's, in short lines."""
    if not body:
        return []
    sizes = _letters_by_size(
        line for lines in pages for line in lines if line.size >= _LARGER * body and not line.cells
    )
    total = sum([len(line.text) for lines in pages for line in lines])
    return [size for size in sorted(sizes, reverse=True) if sizes[size] < total * 0.3][:4]


def _letters_by_size(lines: Iterable[Line]) -> dict[float, int]:
    letters: dict[float, int] = {}
    for line in lines:
        letters[line.size] = letters.get(line.size, 0) + len(line.text)
    return letters
