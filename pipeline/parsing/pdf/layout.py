"""The layout of a PDF page, from the places of its words and rules: boxes, columns in reading order, tables, paragraphs.

Positions are in points from the lower left corner. A band is a run of rows between which the same gutters stay white: it
is read column by column if its columns are prose, else row by row as a table. Tables with rules are read by their cells.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from typing import cast

from pipeline.parsing.pdf.code import with_code
from pipeline.parsing.pdf.contents import Sides
from pipeline.parsing.pdf.lines import (
    CJK,
    CJK_PROSE,
    ENDING,
    GUTTER,
    LIST_ITEM,
    NEAR,
    ON,
    OTHER_SIZE,
    PROSE,
    SENTENCE_END,
    VALUE,
    WIDE_GAP,
    Line,
    LinePart,
    Spans,
    is_cjk,
    paragraphs_of,
    rows_of,
)
from pipeline.parsing.pdf.rules import Box, with_ruled_tables
from pipeline.parsing.pdf.unruled import Part, by_column, merged_spans, table_of

_ALIGNED = 0.12  # times the height: the bases of cells beside each other differ by less
_LEAST_BLOCK = 4  # lines on average, if blocks are to be read as they were drawn
_FAR = 3.0  # times the height: rows so far apart are of different tables
_MOST_PROSE = 0.7  # share of the characters beside each other
_LEAST_LINES = 3
_CAPTION = re.compile(r"(?:fig(?:ure|\.)|tab(?:le|elle|\.)|abb(?:ildung|\.)|[图圖図表])\s?\d", re.IGNORECASE)
_LEAST_RECORDS, _SHORT = 4, 0.6  # lines, and share of the length of prose
_FILLED = 0.6  # share of a column's width that its lines of prose fill
_PARAGRAPHS = 8  # lines of a column that may be several paragraphs
_MOST_PROSE_COLUMNS = 4
_LEAST_COUNTED, _MOST_DIGITS = 4, 6  # lines with numbers in the margin
_LARGER, _COLUMNS_APART = 1.15, 2.5  # times the size of the text, and times its height: a heading between columns
_MOST_BOXES = 100  # of a page
_DEEPEST = 4  # columns within columns


def reading_order(segments: Sequence[LinePart], rules: Sides) -> list[Line]:
    """Return the lines of a page in the order in which people read them, with the rows of its tables."""
    return _in_order(_with_boxes(*with_ruled_tables(segments, rules)))


def _in_order(segments: Sequence[LinePart]) -> list[Line]:
    segments = with_code(segments)
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


def _as_drawn(segments: Iterable[LinePart]) -> list[list[LinePart]]:
    """Return the segments in the order in which they were drawn, in blocks whose lines stand below each other."""
    blocks: list[list[LinePart]] = []
    for segment in segments:
        last = blocks[-1][-1] if blocks else None
        if last is not None and (
            -0.5 < last.bottom - segment.bottom + segment.height < NEAR * segment.height
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


def _bands(rows: Iterable[list[LinePart]]) -> Iterator[tuple[list[list[LinePart]], Spans]]:
    """Yield runs of rows that have the same gutters, or none."""
    band: list[list[LinePart]] = []
    spans: Spans = []
    divided = 0  # rows of several segments
    rows = [*rows]
    for index, row in enumerate(rows):
        if len(spans) == len(row) == 1 and _touches(spans[0], row[0]):
            spans = [(min(spans[0][0], row[0].left), max(spans[0][1], row[0].right))]
            band.append(row)
            continue
        height = max([each.height for each in row if not each.lines]) if not row[0].lines else 10.0
        merged = merged_spans([*spans, *((each.left, each.right) for each in row)], GUTTER * height)
        is_above_columns = divided > 1 and index + 1 < len(rows) and _begins_columns(rows[index - 1 : index + 2])
        if band and (is_above_columns or _ends(band, spans, row, merged, height, divided)):
            yield band, spans
            band, divided = [], 0
            merged = merged_spans([(each.left, each.right) for each in row], GUTTER * height)
        band.append(row)
        divided += len(row) > 1
        spans = merged
    if band:
        yield band, spans


def _begins_columns(rows: Sequence[Sequence[LinePart]]) -> bool:
    """Return whether the second of three rows is a heading above columns, which all end above it."""
    above, row, below = rows
    heading = row[0]
    if len(row) > 1 or len(above) < 2 or len(above) != len(below) or heading.lines or any(each.lines for each in above):
        return False
    size = max(each.size for each in (*above, *below))
    gap = min(each.bottom for each in above) - max(each.top for each in below)
    return heading.size > _LARGER * size > 0 and gap > _COLUMNS_APART * above[0].height


def _touches(span: tuple[float, float], segment: LinePart) -> bool:
    """Return whether no gutter lies between a span and a segment."""
    gutter = GUTTER * (10.0 if segment.lines else segment.height)
    return segment.left - span[1] < gutter and span[0] - segment.right < gutter


def _ends(
    band: list[list[LinePart]], spans: Spans, row: list[LinePart], merged: Spans, height: float, divided: int
) -> bool:
    """Return whether a row does not belong to a band: it closes a gutter, opens one, or stands far below."""
    if len(spans) == 1:
        is_below_heading = not divided and band[-1][0].size > _LARGER * max(each.size for each in row) > 0
        return len(row) > 1 and (len(merged) == 1 or is_below_heading)
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


def _columns(segments: Iterable[LinePart], *, depth: int) -> Iterator[list[Part]]:
    """Yield each column of prose, one after the other, as rows and tables; all of a page without columns at once."""
    parts: list[Part] = []
    for band, spans in _bands(rows_of(segments)):
        columns = by_column(band, spans) if len(spans) > 1 and depth < _DEEPEST else []
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
            found = table_of([*above, *band], len(above), spans) or [above, band]
            parts[len(parts) - bool(above) :] = [part for part in found if part]
    yield _joined_rows(parts)


def _joined_rows(parts: Iterable[Part]) -> list[Part]:
    """Return the parts with rows that follow each other in one part, so that paragraphs go on from band to band."""
    joined: list[Part] = []
    for is_table, run in groupby((part for part in parts if part), key=lambda part: isinstance(part[0], Line)):
        members = list(run)
        joined += members if is_table else [cast("Part", [row for part in members for row in part])]
    return joined


def _lines(part: Part) -> Iterator[Line]:
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
        if sum(1 for each in lines if _holds_values(each)) * 2 > len(lines):
            return False
        width = max(each.right for each in lines) - min(each.left for each in lines)
        are_filled = [each.right - each.left >= _FILLED * width for each in lines]
        if len(lines) >= _PARAGRAPHS:  # with their last lines
            are_filled = [one or above for one, above in zip(are_filled, [False, *are_filled], strict=False)]
        if characters >= least * len(lines) and sum(are_filled) >= _FILLED * len(lines):
            prose += characters
    return texts > 1 or (len(columns) <= _MOST_PROSE_COLUMNS and prose >= _MOST_PROSE * total > 0)


def _holds_values(line: LinePart) -> bool:
    """Return whether most of the words of a line are values."""
    return sum(1 for word in line.words if VALUE.match(word[2])) * 2 > len(line.words)


def _are_records(band: Sequence[Sequence[LinePart]], columns: Sequence[Sequence[LinePart]]) -> bool:
    """Return whether each line has a short name or value of its own beside it."""
    if len(band) < _LEAST_RECORDS or sum(len(row) == len(columns) for row in band) < 0.9 * len(band):
        return False
    texts = [[each.text for each in column] for column in columns]
    return any(
        sum(map(len, column)) < _SHORT * len(column) * (CJK_PROSE if any(map(is_cjk, column)) else PROSE)
        for column in texts
    )


def _joining(last: Line | None, column: list[Line]) -> list[Line]:
    """Return a column's lines; the first goes on with the last sentence of the column before if that is not at its end."""
    if (
        not column
        or last is None
        or len(last.text) < PROSE
        or last.cells
        or column[0].cells
        or _CAPTION.match(last.text)
        or SENTENCE_END.search(last.text[-ENDING:])
    ):
        return column
    first = column[0]
    goes_on = abs(first.size - last.size) <= OTHER_SIZE * last.size and (
        first.text[:1].islower() or (CJK.match(first.text) and CJK.match(last.text[-1:]))
    )
    return [first._replace(follows=ON), *column[1:]] if goes_on and not LIST_ITEM.match(first.text) else column
