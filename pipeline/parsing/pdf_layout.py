"""The layout of a PDF page, from the places of its words: columns in reading order, rows of tables, sizes of lines."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from pipeline.parsing.assembly import one_line

_WIDE_GAP = 1.6  # times the height of the letters: a gap within a line that divides columns or cells
_SAME_ROW = 0.5  # times the height: bases of one row differ by less
_PROSE = 18  # characters on average from which segments beside each other are columns of prose, not cells
_FILLED = 0.6  # share of a column's width that its lines of prose fill
_LEAST_ROWS = 2
_SPACED = re.compile(r"(?:\w )+\w$")
_CJK_SPACED = re.compile("(?:[\u3000-\u9fff] ){1,7}[\u3000-\u9fff]$")
_LEADERS = re.compile(r"[.·•‧…_](?:\s{0,3}[.·•‧…_]){3,}+")


@dataclass(frozen=True, slots=True, kw_only=True)
class LinePart:
    """Words that stand in one line without a wide gap. Positions in points from the lower left corner."""

    text: str
    left: float
    right: float
    bottom: float
    top: float
    size: float

    @property
    def height(self) -> float:
        """Return the height of the letters."""
        return max(1.0, self.top - self.bottom)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of a page in reading order. ``size``: of its letters, 0 if unknown. ``cells``: of a table's row, else empty.
    ``top``: its place on the page, 0 if unknown."""

    text: str
    size: float = 0.0
    top: float = 0.0
    cells: tuple[str, ...] = ()


def reading_order(rows: Sequence[Sequence[LinePart]]) -> list[Line]:
    """Return the lines of a page in the order in which people read them.

    ``rows``: the page's lines in the order in which they were drawn, divided at wide gaps. Lines that are divided at
    the same places stand in columns: of prose, which is read column by column, or of a table, which is read row by row.
    A table that was drawn column by column is put together by the places of its cells.
    """
    rows = _rows_of_cells(_at_one_height(rows))
    lines: list[Line] = []
    for zone in _zones(rows):
        if len(zone[0]) > 1 and len(zone) >= _LEAST_ROWS and _is_prose(zone):
            for column in _columns(zone):
                lines += [_line([segment]) for segment in column]
        elif len(zone) >= _LEAST_ROWS and len(zone[0]) > 1:
            lines += _table(zone)
        else:
            lines += [_line(row) for row in zone]
    return lines


def divided(words: Sequence[LinePart]) -> list[LinePart]:
    """Return the words of a line as segments, divided at wide gaps."""
    segments: list[LinePart] = []
    for word in words:
        last = segments[-1] if segments else None
        if last is not None and -word.height < word.left - last.right <= _WIDE_GAP * max(last.height, word.height):
            segments[-1] = LinePart(
                text=f"{last.text} {word.text}",
                left=min(last.left, word.left),
                right=max(last.right, word.right),
                bottom=min(last.bottom, word.bottom),
                top=max(last.top, word.top),
                size=last.size,
            )
        else:
            segments.append(word)
    return segments


def tidy(text: str) -> str:
    """Return a line without the dots of a table of contents, and with spaced-out words closed."""
    if _LEADERS.search(text):
        text = one_line(_LEADERS.sub(" … ", text))
    if len(text) > 6 and _SPACED.match(text) and sum(map(str.isalpha, text)) * 2 > len(text):
        return text.replace(" ", "")
    return text.replace(" ", "") if _CJK_SPACED.match(text) else text


def _line(row: Sequence[LinePart]) -> Line:
    text = " ".join(segment.text for segment in row)
    return Line(text=tidy(text), size=max(segment.size for segment in row), top=max(segment.top for segment in row))


def _zones(rows: Sequence[Sequence[LinePart]]) -> Iterator[list[Sequence[LinePart]]]:
    """Yield lines that follow each other and are divided at the same places, and runs of undivided lines."""
    zone: list[Sequence[LinePart]] = []
    for row in rows:
        if zone and not _is_alike(zone, row):
            yield zone
            zone = []
        zone.append(row)
    if zone:
        yield zone


def _is_alike(zone: Sequence[Sequence[LinePart]], row: Sequence[LinePart]) -> bool:
    first = max(zone, key=len)
    if (len(first) > 1) != (len(row) > 1):
        return False
    if len(row) < 2:
        return True
    below = zone[-1][0].bottom - row[0].top
    if below > 2.5 * row[0].height or row[0].bottom > zone[-1][0].top:
        return False
    return all(any(_aligned(segment, other) for other in first) for segment in row[1:]) or len(row) == len(first)


def _aligned(segment: LinePart, other: LinePart) -> bool:
    slack = max(segment.height, other.height)
    middle, other_middle = (segment.left + segment.right) / 2, (other.left + other.right) / 2
    return (
        abs(segment.left - other.left) < slack
        or abs(segment.right - other.right) < slack
        or abs(middle - other_middle) < slack
        or (segment.left < other.right and other.left < segment.right)
    )


def _is_prose(zone: Sequence[Sequence[LinePart]]) -> bool:
    columns = _columns(zone)
    if len(columns) > 4 or len(zone) < 3:
        return False
    for column in columns:
        width = max(s.right for s in column) - min(s.left for s in column)
        filled = sum(1 for s in column if s.right - s.left >= _FILLED * width)
        if sum(len(s.text) for s in column) / len(column) < _PROSE or filled < _FILLED * len(column):
            return False
    return True


def _columns(zone: Sequence[Sequence[LinePart]]) -> list[list[LinePart]]:
    model = max(zone, key=len)
    columns: list[list[LinePart]] = [[] for _ in model]
    for row in zone:
        for segment in row:
            columns[_place(segment, model)].append(segment)
    return [column for column in columns if column]


def _place(segment: LinePart, model: Sequence[LinePart]) -> int:
    """Return the column in which a segment stands: of which it covers most, else the nearest."""

    def distance(index: int) -> tuple[float, float]:
        other = model[index]
        common = min(segment.right, other.right) - max(segment.left, other.left)
        return (-max(0.0, common), abs(segment.left - other.left))

    return min(range(len(model)), key=distance)


def _table(zone: Sequence[Sequence[LinePart]]) -> Iterator[Line]:
    model = max(zone, key=len)
    for row in zone:
        cells = [""] * len(model)
        for segment in row:
            place = _place(segment, model)
            cells[place] = f"{cells[place]} {segment.text}".strip()
        yield replace(_line(row), cells=tuple(map(tidy, cells)))


def _at_one_height(rows: Sequence[Sequence[LinePart]]) -> list[list[LinePart]]:
    """Join rows that were drawn one after the other at the same height, from left to right, across a wide gap."""
    joined: list[list[LinePart]] = []
    for row in rows:
        last = joined[-1][-1] if joined else None
        if (
            last is not None
            and abs(last.bottom - row[0].bottom) <= _SAME_ROW * last.height
            and row[0].left - last.right > _WIDE_GAP * last.height
        ):
            joined[-1] += row
        else:
            joined.append(list(row))
    return joined


def _rows_of_cells(rows: Sequence[Sequence[LinePart]]) -> list[list[LinePart]]:
    """Put the cells of tables that were drawn column by column beside each other."""
    runs = list(_runs(rows))
    result: list[list[LinePart]] = []
    index = 0
    while index < len(runs):
        columns = [runs[index]]
        while index + len(columns) < len(runs) and _is_beside(columns, runs[index + len(columns)]):
            columns.append(runs[index + len(columns)])
        if len(columns) > 1:
            result += _merged(columns)
        else:
            result += [list(row) for row in columns[0]]
        index += len(columns)
    return result


def _runs(rows: Sequence[Sequence[LinePart]]) -> Iterator[list[Sequence[LinePart]]]:
    """Yield the lines that go down the page without a jump upwards."""
    run: list[Sequence[LinePart]] = []
    for row in rows:
        if run and row[0].bottom > run[-1][0].top:
            yield run
            run = []
        run.append(row)
    if run:
        yield run


def _is_beside(columns: Sequence[Sequence[Sequence[LinePart]]], run: Sequence[Sequence[LinePart]]) -> bool:
    """Return whether a run stands to the right of these columns, row by row, as cells do."""
    if len(run) < _LEAST_ROWS or any(len(row) > 1 for row in run):
        return False
    cells = [row[0] for row in run]
    if sum(len(cell.text) for cell in cells) / len(cells) > _PROSE:
        return False
    before = [row[0] for row in columns[-1] if len(row) == 1]
    matched = [
        (cell, other)
        for cell in cells
        for other in before
        if abs(cell.bottom - other.bottom) <= _SAME_ROW * cell.height
    ]
    return len(matched) >= 0.8 * len(cells) and all(other.right < cell.left for cell, other in matched)


def _merged(columns: Sequence[Sequence[Sequence[LinePart]]]) -> list[list[LinePart]]:
    segments = [segment for column in columns for row in column for segment in row]
    segments.sort(key=lambda segment: (-segment.bottom, segment.left))
    rows: list[list[LinePart]] = []
    for segment in segments:
        if rows and abs(rows[-1][0].bottom - segment.bottom) <= _SAME_ROW * segment.height:
            rows[-1].append(segment)
        else:
            rows.append([segment])
    return [sorted(row, key=lambda segment: segment.left) for row in rows]


def beside(rows: Sequence[Sequence[LinePart]], additions: Iterable[LinePart]) -> list[list[LinePart]]:
    """Return the rows with further segments, such as the values of form fields, each in the row at its height, else at
    its place down the page."""
    result = [list(row) for row in rows]
    for added in additions:
        row = next((row for row in result if _overlaps(row[0], added)), None)
        if row is not None:
            row.append(added)
            row.sort(key=lambda segment: segment.left)
        else:
            place = next((index for index, row in enumerate(result) if row[0].top < added.bottom), len(result))
            result.insert(place, [added])
    return [_closed(row) for row in result]


def _overlaps(segment: LinePart, added: LinePart) -> bool:
    middle = (segment.bottom + segment.top) / 2
    return added.bottom <= middle <= added.top


def _closed(row: Sequence[LinePart]) -> list[LinePart]:
    """Join a label and the field beside it, so that they are no two columns."""
    if len(row) == 2 and row[0].text.rstrip().endswith((":", "：")):
        first, second = row
        return [replace(first, text=f"{first.text} {second.text}", right=second.right)]
    return list(row)


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
        count = len(lines)
        for index in {*range(min(_EDGE_LINES, count)), *range(max(0, count - _EDGE_LINES), count)}:
            key = _NUMBERS.sub("#", lines[index].text).strip().casefold()
            if key:
                at_top = index < _EDGE_LINES and (index < count - index - 1 or count == 1)
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
