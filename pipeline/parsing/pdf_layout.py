"""The layout of a PDF page, from the places of its words and rules: tables, columns in reading order, paragraphs.

Positions are in points from the lower left corner. A band is a run of rows between which the same gutters stay white: it
is read column by column if its columns are prose, else row by row as a table. Tables with rules are read by their cells.
"""

import math
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from statistics import median
from typing import NamedTuple, cast

from pipeline.parsing.formulas import lowered, raised

_WIDE_GAP = 1.6  # times the height of the letters: a gap within a line that divides columns or cells
_GUTTER = 0.9  # times the height: the least white strip between columns
_VALUES_APART = 0.15  # times the height: between numbers that were drawn one by one
_NARROW_GUTTER = 0.3  # times the height: between columns of numbers
_SAME_ROW = 0.36  # times the height: the middles of one row differ by less
_ALIGNED = 0.12  # times the height: the bases of cells beside each other differ by less
_CELL_GAP = 0.4  # times the height: words closer to each other stand in one cell
_NEAR = 3.5  # times the height: the lines of a block are not further apart
_LEAST_BLOCK = 4  # lines on average, if blocks are to be read as they were drawn
_FAR = 3.0  # times the height: rows so far apart are of different tables
_PROSE, _CJK_PROSE = 18, 9  # characters on average from which lines beside each other are columns of prose, not cells
_MOST_PROSE = 0.7  # share of the characters beside each other
_LEAST_LINES = 3
_FILLED = 0.6  # share of a column's width that its lines of prose fill
_MOST_PROSE_COLUMNS = 4
_MOST_COLUMNS = 100
_MEANINGFUL = 0.5  # share of the cells of a table that hold a number or a word
_LEAST_COUNTED, _MOST_DIGITS = 4, 6  # lines with numbers in the margin
_LEAST_ROWS, _LONGEST_SHORT = 2, 60  # characters of the cells of so short a table
_DEEPEST = 4  # columns within columns
_RAISED = 0.85  # times the size of the letters before: smaller ones beside them may be raised
_LOOSE = 1.3  # times the usual distance of lines: a greater one divides paragraphs
_OTHER_SIZE = 0.12  # share by which the sizes of a heading and the text below it differ at least
_INDENT = 0.8  # times the height
_TOUCHING = 3.0  # points between rules that meet
_SAME_RULE = 2.0  # points between the places of one rule
_MOST_RULES = 600  # of a page; more are a drawing
_LEAST_FILLED = 0.3  # share of the cells of a table that hold words
_LONG_CELL = 1000  # characters; rules around longer texts arrange them
_SPACED = re.compile(r"(?:\w )+\w$")
_CJK_SPACED = re.compile("(?:[\u3000-\u9fff] ){1,7}[\u3000-\u9fff]$")
_CJK = re.compile("[\u3000-\u9fff\uac00-\ud7af\uff00-\uffef]")
_SOFT = "\u00ad"  # a hyphen at a line's end
_BROKEN_WORD = re.compile(r"\u00ad$|(?<=\w)-$")
_LIST_ITEM = re.compile(
    r"(?:\[\d{1,3}\]|[-*•●○■□▪‣◦–]|[(（]?\d{1,3}[.)）]|\(?[a-z]\)|[(（]?[一二三四五六七八九十]{1,3}[)）、.])\s?(?!\d)|第[\d一二三四五六七八九十百]{1,5}[条章节]"
)
_CELL = re.compile(r"\d|[^\W_]{3}|[\u3000-\u9fff\uac00-\ud7af]{2}")
_RAISED_TEXT = re.compile(r"[\w+−-]{1,5}")
_VALUE = re.compile(r"[-+(<>≤≥~$€£¥]*+[\d.,]++[:/%)*†‡\d.,-]*+$|[-–—…*✓]++$|n/?a$", re.IGNORECASE)
_SENTENCE_END = re.compile(r"[.!?:;。！？：；…]['\"”’)\]）】]*$")

_FEW = 4  # lines; fewer ones of medium length are no paragraph
_ENDING = 6  # characters in which a sentence's end is looked for

NEW, BREAK, ON = range(3)  # how a line follows the one before: in another paragraph, in another line, in the same one


class LinePart(NamedTuple):
    """Words of a line without a wide gap between them, or a whole table with rules, then with ``rows``."""

    text: str
    left: float
    right: float
    bottom: float
    top: float
    size: float = 0.0
    words: Sequence[tuple[float, float, str]] = ()  # left, right and text of each
    rows: Sequence[tuple[str, ...]] = ()

    @property
    def height(self) -> float:
        """Return the height of the letters."""
        return max(1.0, self.top - self.bottom)


class DrawnRule(NamedTuple):
    """A straight line that is drawn on a page, upright or level."""

    left: float
    right: float
    bottom: float
    top: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of a page in reading order. ``size``: of its letters, 0 if unknown. ``cells``: of a table's row, else empty.
    ``top``: its place on the page, 0 if unknown. ``follows``: NEW, BREAK or ON."""

    text: str
    size: float = 0.0
    top: float = 0.0
    cells: tuple[str, ...] = ()
    follows: int = NEW


def segments_of(
    words: Sequence[tuple[float, float, str]], bottom: float, top: float, size: float
) -> Iterator[LinePart]:
    """Yield the words of a line as segments, divided at wide gaps."""
    start, height = 0, max(1.0, top - bottom)
    for index in range(1, len(words) + 1):
        if index < len(words) and -height < words[index][0] - words[index - 1][1] <= _WIDE_GAP * height:
            continue
        run = words[start:index]
        right = max(run[-1][1], run[0][1])
        yield LinePart(" ".join([word[2] for word in run]), run[0][0], right, bottom, top, size, run)
        start = index


def reading_order(segments: Sequence[LinePart], rules: Sequence[DrawnRule] = ()) -> list[Line]:
    """Return the lines of a page in the order in which people read them, with the rows of its tables."""
    segments = _with_tables(segments, rules)
    columns = list(_columns(segments, depth=0))
    if not any(isinstance(part[0], Line) for column in columns for part in column):  # no rows of cells were found
        blocks = _as_drawn(segments)
        if len(blocks) * _LEAST_BLOCK <= len(segments):
            columns = [[_rows(block)] for block in blocks]
    lines: list[Line] = []
    for column in columns:
        read = [line for part in column for line in _lines(part)]
        lines += _joining(lines[-1] if lines else None, read)
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
                or segment.left - last.right < _WIDE_GAP * segment.height
            )
        ):
            blocks[-1].append(segment)
        else:
            blocks.append([segment])
    return blocks


def unplaced(texts: Iterable[str]) -> list[Line]:
    """Return lines of which only the text is known; an empty one divides paragraphs."""
    lines: list[Line] = []
    follows = NEW
    for text in texts:
        if text:
            lines.append(Line(text=tidy(text), follows=follows))
        follows = BREAK if text else NEW
    return lines


def tidy(text: str) -> str:
    """Return a line with spaced-out words closed."""
    if len(text) > 6 and _SPACED.match(text) and sum(map(str.isalpha, text)) * 2 > len(text):
        return text.replace(" ", "")
    return text.replace(" ", "") if _CJK_SPACED.match(text) else text


# Rows, bands and columns


def _rows(segments: Iterable[LinePart]) -> list[list[LinePart]]:
    """Return the segments as rows from top to bottom, each from left to right; a table is a row of its own."""
    rows: list[list[LinePart]] = []
    taken: Spans = []  # of the open row, in order
    anchor: LinePart | None = None
    for segment in sorted(segments, key=lambda each: -each.top - each.bottom):
        place = bisect_right(taken, (segment.left, segment.right))
        if (
            anchor is None
            or abs(anchor.top + anchor.bottom - segment.top - segment.bottom) > 2 * _SAME_ROW * anchor.height
            or (place and taken[place - 1][1] > segment.left + 1)
            or (place < len(taken) and taken[place][0] < segment.right - 1)
            or segment.rows
            or anchor.rows
        ):
            rows.append([])
            taken, place, anchor = [], 0, segment
        rows[-1].append(segment)
        taken.insert(place, (segment.left, segment.right))
        anchor = max(anchor, segment, key=lambda each: each.height)
    return [list(_close_ones_joined(sorted(row, key=lambda each: each.left))) for row in rows]


def _close_ones_joined(row: Sequence[LinePart]) -> Iterator[LinePart]:
    """Yield the segments of a row with those joined that no gutter divides; raised and lowered ones as such."""
    start = 0
    for index in range(1, len(row) + 1):
        last = row[index - 1]
        if index < len(row):
            gap = row[index].left - last.right
            are_values = _VALUE.match(row[index].text) and _VALUE.match(last.text)
            if gap < (_VALUES_APART if are_values else _GUTTER) * last.height:
                continue
        run = row[start:index]
        start = index
        if len(run) == 1:
            yield run[0]
            continue
        main = max(run, key=lambda each: len(each.text))
        words = [word for each in run for word in each.words]
        right = max([each.right for each in run])
        yield main._replace(text=_row_text(run), left=run[0].left, right=right, words=words)


_Part = Sequence[Sequence[LinePart]] | Sequence[Line]  # rows that are still to be read, or the lines of a table
Spans = list[tuple[float, float]]  # where a band's words stand, from left to right, with gutters between


def _bands(rows: Iterable[list[LinePart]]) -> Iterator[tuple[list[list[LinePart]], Spans]]:
    """Yield runs of rows that have the same gutters, or none."""
    band: list[list[LinePart]] = []
    spans: Spans = []
    divided = 0  # rows of several segments
    for row in rows:
        height = max(each.height for each in row if not each.rows) if not row[0].rows else 10.0
        merged = _merged([*spans, *((each.left, each.right) for each in row)], _GUTTER * height)
        if band and _ends(band, spans, row, merged, height, divided):
            yield band, spans
            band, divided, merged = [], 0, _merged([(each.left, each.right) for each in row], _GUTTER * height)
        band.append(row)
        divided += len(row) > 1
        spans = merged
    if band:
        yield band, spans


def _ends(
    band: list[list[LinePart]], spans: Spans, row: list[LinePart], merged: Spans, height: float, divided: int
) -> bool:
    """Return whether a row does not belong to a band: it closes a gutter, opens one, or stands far below."""
    if len(spans) == 1:
        return len(row) > 1 and len(merged) == 1
    gaps = [(one.right, other.left) for one, other in pairwise(row) if other.left - one.right >= _GUTTER * height]
    if (len(gaps) > 1 or len(band) == 1) and any(
        left <= start and end <= right for left, right in merged for start, end in gaps
    ):
        return True  # its columns are others
    is_far = divided > 0 and min(each.bottom for each in band[-1]) - max(each.top for each in row) > _FAR * height
    kept = list(pairwise(merged))
    closed = [
        (left, right)
        for (_, left), (right, _) in pairwise(spans)
        if not any(min(right, end) - max(left, start) >= _GUTTER * height for (_, start), (end, _) in kept)
    ]
    crossing = [each for each in row if any(each.left < right and left < each.right for left, right in closed)]
    closes = bool(closed) and not (kept and all(_VALUE.match(word[2]) for each in crossing for word in each.words))
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
    for band, spans in _bands(_rows(segments)):
        columns = _divided(band, spans) if len(spans) > 1 and depth < _DEEPEST else []
        text = [
            column
            for column, other in zip(columns, reversed(columns), strict=True)
            if not _numbers_lines(column, other)
        ]
        if len(columns) == 2 and len(text) == 1:
            parts.append(_rows(text[0]))
        elif columns and (_is_prose(columns) or _are_apart(band)):
            yield _joined_rows(parts)
            parts = []
            for column in columns:
                yield from _columns(column, depth=depth + 1)
        else:
            parts += _table(band, spans) or [band]
    yield _joined_rows(parts)


def _joined_rows(parts: Iterable[_Part]) -> list[_Part]:
    """Return the parts with rows that follow each other in one part, so that paragraphs go on from band to band."""
    joined: list[_Part] = []
    for is_table, run in groupby((part for part in parts if part), key=lambda part: isinstance(part[0], Line)):
        members = list(run)
        joined += members if is_table else [cast("_Part", [row for part in members for row in part])]
    return joined


def _lines(part: _Part) -> Iterator[Line]:
    """Yield the lines of rows, and the rows of the tables with rules among them."""
    plain: list[Sequence[LinePart]] = []
    for row in part:
        if isinstance(row, Line):
            yield row
        elif row[0].rows:
            yield from _paragraphs(plain)
            plain = []
            yield from (Line(text=" ".join(cells), top=row[0].top, cells=cells) for cells in row[0].rows)
        else:
            plain.append(row)
    yield from _paragraphs(plain)


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
    pairs = [pair for row in band for pair in pairwise(row) if not pair[0].rows and not pair[1].rows]
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
        lines = [each for each in column if not each.rows]
        characters = sum(len(each.text) for each in lines)
        total += characters
        if len(lines) < _LEAST_LINES:
            continue
        is_cjk = sum(1 for each in lines if _CJK.search(each.text)) * 2 > len(lines)
        least = _CJK_PROSE if is_cjk else _PROSE
        texts += characters >= 1.5 * least * len(lines)
        if sum(1 for each in lines if _VALUE.match(each.text)) * 2 > len(lines):
            return False
        width = max(each.right for each in lines) - min(each.left for each in lines)
        filled = sum(1 for each in lines if each.right - each.left >= _FILLED * width)
        if characters >= least * len(lines) and filled >= _FILLED * len(lines):
            prose += characters
    return texts > 1 or (len(columns) <= _MOST_PROSE_COLUMNS and prose >= _MOST_PROSE * total > 0)


# Tables without rules


def _table(band: Sequence[Sequence[LinePart]], spans: Spans) -> list[_Part] | None:
    """Return the rows above a table, its lines and the rows below it; None unless two rows have several cells."""
    divided = [index for index, row in enumerate(band) if len(row) > 1]
    if len(divided) < _LEAST_ROWS:
        return None
    first, last = divided[0], divided[-1] + 1
    while last < len(band) and band[last][0].left > spans[0][1]:  # cells of several lines
        if band[last - 1][0].bottom - band[last][0].top > band[last][0].height:
            break
        last += 1
    body = band[first:last]
    longest = max(len(segment.text) for row in body for segment in row)
    if (len(divided) == _LEAST_ROWS and longest > _LONGEST_SHORT) or any(each.rows for row in body for each in row):
        return None
    starts = [left for left, _ in _refined(body, spans)]
    rows = []
    for row in body:
        cells: list[list[str]] = [[] for _ in starts]
        for segment in row:
            place, end = 0, -math.inf
            for left, right, text in segment.words:
                if left - end >= _CELL_GAP * segment.height or _VALUE.match(text):
                    place = max(0, bisect_right(starts, (left + min(right, left + 20)) / 2) - 1)
                cells[place].append(text)
                end = right
        rows.append([tidy(" ".join(cell)) for cell in cells])
    filled = [cell for cells in rows for cell in cells if cell]
    if sum(1 for cell in filled if _CELL.search(cell)) < _MEANINGFUL * len(filled):
        return None  # a formula
    used = [column for column in range(len(starts)) if any(texts[column] for texts in rows)]
    lines = [
        Line(text=" ".join(filter(None, texts)), size=row[0].size, top=row[0].top, cells=tuple(texts[c] for c in used))
        for row, texts in zip(body, rows, strict=True)
    ]
    return [band[:first], lines, band[last:]]


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
            if len(values) >= 3 and sum(1 for value in values if _VALUE.match(value)) >= 0.8 * len(values):
                kept[-1] = (kept[-1][0], start)
                kept.append((start, right))
        refined += kept
    return refined


# Tables with rules


def _with_tables(segments: Sequence[LinePart], rules: Sequence[DrawnRule]) -> list[LinePart]:
    """Return the segments with those within a table's rules replaced by the table."""
    level = _joined_rules([rule for rule in rules if rule.right - rule.left >= rule.top - rule.bottom])
    upright = _joined_rules(
        [DrawnRule(r.bottom, r.top, r.left, r.right) for r in rules if r.right - r.left < r.top - r.bottom]
    )
    if not level or not upright or len(level) + len(upright) > _MOST_RULES:
        return list(segments)
    rest = list(segments)
    for lines, bars in _grids(level, upright):
        rest = _with_table(rest, lines, bars)
    return rest


def _joined_rules(rules: Iterable[DrawnRule]) -> list[DrawnRule]:
    """Return level rules with those that go on joined."""
    joined: list[DrawnRule] = []
    for rule in sorted(rules, key=lambda each: (round((each.bottom + each.top) / (2 * _SAME_RULE)), each.left)):
        place = (rule.bottom + rule.top) / 2
        last = joined[-1] if joined else None
        if last is not None and abs(last.bottom - place) <= _SAME_RULE and rule.left - last.right <= _TOUCHING:
            joined[-1] = last._replace(right=max(last.right, rule.right))
        else:
            joined.append(DrawnRule(rule.left, rule.right, place, place))
    return joined


def _grids(
    level: Sequence[DrawnRule], upright: Sequence[DrawnRule]
) -> Iterator[tuple[list[DrawnRule], list[DrawnRule]]]:
    """Yield the rules that meet each other. Upright rules are given turned: their ``left`` is their lower end."""
    groups: list[tuple[list[DrawnRule], list[DrawnRule]]] = [([rule], []) for rule in level]
    for bar in upright:
        met = [
            group
            for group in groups
            if any(
                line.left - _TOUCHING <= bar.bottom <= line.right + _TOUCHING
                and bar.left - _TOUCHING <= line.bottom <= bar.right + _TOUCHING
                for line in group[0]
            )
        ]
        if met:
            groups = [group for group in groups if group not in met]
            groups.append(
                ([line for group in met for line in group[0]], [b for group in met for b in group[1]] + [bar])
            )
    yield from (group for group in groups if len(group[0]) > 1 and group[1])


def _places(values: Iterable[float]) -> list[float]:
    places: list[float] = []
    for value in sorted(values):
        if not places or value - places[-1] > 2 * _SAME_RULE:
            places.append(value)
    return places


def _with_table(segments: list[LinePart], level: Sequence[DrawnRule], upright: Sequence[DrawnRule]) -> list[LinePart]:
    ends = [rule.left for rule in level] + [rule.right for rule in level]
    xs = _places([rule.bottom for rule in upright] + [min(ends), max(ends)])
    ys = _places(rule.bottom for rule in level)
    if len(xs) < 3 or len(ys) < 3:
        return segments
    cells: dict[tuple[int, int], list[LinePart]] = {}
    rest, first = [], len(segments)
    for segment in segments:
        middle = (segment.top + segment.bottom) / 2
        if segment.rows or not (ys[0] < middle < ys[-1] and xs[0] - _TOUCHING < segment.left < xs[-1]):
            rest.append(segment)
            continue
        first = min(first, len(rest))
        row = len(ys) - 1 - bisect_right(ys, middle)
        by_column: dict[int, list[tuple[float, float, str]]] = {}
        for word in segment.words:
            by_column.setdefault(max(0, bisect_right(xs, (word[0] + word[1]) / 2) - 1), []).append(word)
        for column, words in by_column.items():
            part = segment._replace(
                left=words[0][0], right=words[-1][1], words=words, text=" ".join(w[2] for w in words)
            )
            cells.setdefault((row, min(column, len(xs) - 2)), []).append(part)
    owners = _owners(xs, ys, level, upright, cells)
    held: dict[int, list[LinePart]] = {}
    for place, parts in cells.items():
        held.setdefault(owners[place], []).extend(parts)
    count = len(set(owners.values()))
    if count < 4 or len(held) < max(3, _LEAST_FILLED * count):
        return segments
    in_rows = {owner: _rows(parts) for owner, parts in held.items()}
    if any(sum(1 for row in cell if len(row) > 1) > 1 for cell in in_rows.values()):
        return segments  # the rules arrange tables
    texts = {owner: tidy(joined([line.text for line in _paragraphs(cell)])) for owner, cell in in_rows.items()}
    if max(map(len, texts.values())) > _LONG_CELL:
        return segments
    grid = [tuple(owners[row, column] for column in range(len(xs) - 1)) for row in range(len(ys) - 1)]
    grid = [row for row, _ in groupby(grid) if any(owner in texts for owner in row)]  # each row once
    used = [column for column in range(len(xs) - 1) if any(row[column] in texts for row in grid)]
    if len(grid) < 2 or len(used) < 2:
        return segments
    rows = [tuple(texts.get(row[column], "") for column in used) for row in grid]
    rows = [
        row if len(set(owner)) > 1 else row[:1] + ("",) * (len(row) - 1) for row, owner in zip(rows, grid, strict=True)
    ]
    return [*rest[:first], LinePart("", xs[0], xs[-1], ys[0], ys[-1], rows=rows), *rest[first:]]


def _owners(
    xs: Sequence[float],
    ys: Sequence[float],
    level: Sequence[DrawnRule],
    upright: Sequence[DrawnRule],
    cells: Mapping[tuple[int, int], Sequence[LinePart]],
) -> dict[tuple[int, int], int]:
    """Return for each place of a grid the number of its cell: places without a rule between them are one cell, unless
    wide gaps divide their words."""
    columns, rows = len(xs) - 1, len(ys) - 1
    owners = {(row, column): row * columns + column for row in range(rows) for column in range(columns)}
    for row in range(rows):
        middle = (ys[rows - row - 1] + ys[rows - row]) / 2
        for column in range(1, columns):
            left, right = cells.get((row, column - 1), ()), cells.get((row, column), ())
            is_apart = bool(left and right) and right[0].left - left[0].right > _GUTTER * left[0].height
            if not is_apart and not any(
                abs(bar.bottom - xs[column]) <= 2 * _SAME_RULE and bar.left <= middle <= bar.right for bar in upright
            ):
                owners[row, column] = owners[row, column - 1]
    for row in range(1, rows):
        for column in range(columns):
            middle = (xs[column] + xs[column + 1]) / 2
            place = ys[rows - row]
            if not any(
                abs(rule.bottom - place) <= 2 * _SAME_RULE and rule.left <= middle <= rule.right for rule in level
            ):
                owners[row, column] = owners[row - 1, column]
    return owners


def joined(lines: Sequence[str]) -> str:
    """Return the lines of a cell in one line; between Chinese characters without a space."""
    text = ""
    for line in lines:
        if text.endswith(_SOFT):
            text = text[:-1] if line[:1].islower() else text[:-1] + "-"
            text += line
            continue
        text += ("" if not text or (_CJK.match(text[-1]) and _CJK.match(line)) else " ") + line
    return text


# Lines and paragraphs


def _row_text(row: Sequence[LinePart]) -> str:
    text, before = row[0].text, row[0]
    for segment in row[1:]:
        gap = segment.left - before.right
        part = segment.text
        if segment.size < _RAISED * before.size and gap < before.height / 2 and _RAISED_TEXT.fullmatch(part):
            is_raised = segment.bottom > before.bottom + 0.1 * before.height
            text += (raised if is_raised else lowered)(text, part)
            continue
        text += part if -before.height / 2 < gap < 0.15 * before.height else f" {part}"
        before = segment
    return text


def _paragraphs(rows: Sequence[Sequence[LinePart]]) -> list[Line]:
    """Return rows as lines that tell how they follow each other. A line goes on if the next line's first word had no
    room in it, unless the distance, the size or an indentation divides them."""
    if not rows:
        return []
    tops = [max([segment.top for segment in row]) for row in rows]
    pitches = [above - below for above, below in pairwise(tops)]
    usual = median([pitch for pitch in pitches if pitch > 0] or [0.0])
    edges = _edges(rows)
    lines: list[Line] = []
    is_first = is_item = True  # of the paragraph of the line before
    for index, row in enumerate(rows):
        text = tidy(" ".join([segment.text for segment in row]))
        size = max([segment.size for segment in row])
        follows = NEW
        item = bool(_LIST_ITEM.match(text))
        if index:
            above = rows[index - 1]
            height = max(above[0].height, row[0].height)
            shift = row[0].left - above[0].left
            same = abs(size - lines[-1].size) <= _OTHER_SIZE * size
            if _BROKEN_WORD.search(above[-1].text[-2:]):
                follows = ON
            elif same and not item and 0 < pitches[index - 1] <= max(_LOOSE * usual, 1.4 * height):
                is_centred = abs(shift + row[-1].right - above[-1].right) <= height / 2
                is_indented = shift > _INDENT * height and not is_item
                if is_centred or not (is_indented or (shift < -_INDENT * height and not is_first)):
                    first = row[0].words[0] if row[0].words else (row[0].left, row[0].right, "")
                    room = min(first[1] - first[0] + 0.3 * height, 2 * height if _CJK.match(first[2]) else math.inf)
                    follows = ON
                    if edges[index] - above[-1].right > room:
                        follows = NEW if _SENTENCE_END.search(lines[-1].text[-_ENDING:]) else BREAK
        is_first, is_item = follows != ON, (item if follows != ON else is_item)
        lines.append(Line(text=text, size=size, top=tops[index], follows=follows))
    return lines


def _edges(rows: Sequence[Sequence[LinePart]]) -> list[float]:
    """Return for each row the right edge of the text around it: of the nearest rows of its size, of all if these are
    narrow, none if they are all short."""
    shapes = [(row[0].size, row[0].left, row[-1].right, sum([len(each.text) for each in row])) for row in rows]
    left, right = min([shape[1] for shape in shapes]), max([shape[2] for shape in shapes])
    shortest = _CJK_PROSE if sum(1 for row in rows if _CJK.search(row[0].text)) * 2 > len(rows) else _PROSE
    edges = []
    for index, (size, *_) in enumerate(shapes):
        near = [each for each in shapes[max(0, index - 6) : index + 6] if abs(each[0] - size) <= _OTHER_SIZE * size]
        edge, start = max([each[2] for each in near]), min([each[1] for each in near])
        is_short = max([each[3] for each in near]) < shortest * (1 if len(near) > _FEW else 2)
        edges.append(math.inf if is_short else edge if edge - start >= 0.4 * (right - left) else right)
    return edges


def _joining(last: Line | None, column: list[Line]) -> list[Line]:
    """Return a column's lines; the first goes on with the last sentence of the column before if that is not at its end."""
    if (
        not column
        or last is None
        or len(last.text) < _PROSE
        or last.cells
        or column[0].cells
        or _SENTENCE_END.search(last.text[-_ENDING:])
    ):
        return column
    first = column[0]
    goes_on = abs(first.size - last.size) <= _OTHER_SIZE * last.size and (
        first.text[:1].islower() or (_CJK.match(first.text) and _CJK.match(last.text[-1:]))
    )
    return [replace(first, follows=ON), *column[1:]] if goes_on and not _LIST_ITEM.match(first.text) else column


# Running heads

_NUMBERS = re.compile(r"\d+|\b[ivxl]{1,7}\b")
_EDGE_LINES = 3  # of the top and of the bottom of a page that may be running heads
_PAGE_WORDS = frozenset({"#", "page", "seite", "p", "of", "von", "第", "页", "頁", "共", "页共", "頁共"})
_WORDS = re.compile(r"[^\W_]++|#")


def running_heads(pages: Sequence[Sequence[Line]]) -> list[set[int]]:
    """Return for each page the indices of its running heads and page numbers: lines at its top or bottom that stand on
    at least three pages, and on a quarter of them, with at most other numbers."""
    places: dict[tuple[bool, str], list[tuple[int, int]]] = {}
    for page, lines in enumerate(pages):
        tops = sorted({round(line.top) for line in lines}, reverse=True)
        low, high = tops[-_EDGE_LINES:], tops[:_EDGE_LINES]
        for index, line in enumerate(lines):
            is_placed = len(tops) > 1
            count = len(lines)
            at_top = round(line.top) in high if is_placed else index < _EDGE_LINES
            at_bottom = round(line.top) in low if is_placed else index >= count - _EDGE_LINES
            key = _NUMBERS.sub("#", line.text).strip().casefold() if at_top or at_bottom else ""
            if key:
                places.setdefault((at_top, key), []).append((page, index))
    heads: list[set[int]] = [set() for _ in pages]
    for (_, key), found in places.items():
        on = {page for page, _ in found}
        is_number = "#" in key and _PAGE_WORDS.issuperset(_WORDS.findall(key))
        least = 2 if is_number else max(3, len(pages) // 4 if len(pages) < 40 else 8)
        if len(on) >= least and (is_number or _are_near(pages, found)):
            for page, index in found:
                heads[page].add(index)
    return heads


def _are_near(pages: Sequence[Sequence[Line]], found: Sequence[tuple[int, int]]) -> bool:
    """Return whether the lines stand at about the same height on their pages."""
    tops = sorted(pages[page][index].top for page, index in found)
    return tops[-1] - tops[0] < 40 or sum(1 for low, high in pairwise(tops) if high - low < 2) > len(tops) // 2


# Sizes


def body_size(pages: Sequence[Sequence[Line]]) -> float:
    """Return the size of most letters of a document, 0 if it is unknown."""
    letters: dict[float, int] = {}
    for lines in pages:
        for line in lines:
            if line.size:
                letters[round(line.size, 1)] = letters.get(round(line.size, 1), 0) + len(line.text)
    return max(letters, key=lambda size: letters[size], default=0.0)


def heading_sizes(pages: Sequence[Sequence[Line]], body: float) -> list[float]:
    """Return the sizes that headings have, largest first, at most four: clearly above the body's, in short lines."""
    if not body:
        return []
    sizes: dict[float, int] = {}
    for lines in pages:
        for line in lines:
            if line.size >= body * 1.14 and not line.cells:
                sizes[round(line.size, 1)] = sizes.get(round(line.size, 1), 0) + len(line.text)
    total = sum(len(line.text) for lines in pages for line in lines)
    return [size for size in sorted(sizes, reverse=True) if sizes[size] < total * 0.3][:4]
