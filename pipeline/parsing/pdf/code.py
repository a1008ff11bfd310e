"""Lines of code on a PDF page, by their font of equal widths, with the indentation that their places tell."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import median

from pipeline.parsing.assembly import LONGEST_CODE, code_runs
from pipeline.parsing.pdf.lines import NEAR, SOFT, Line, LinePart, rows_of

_LEAST_WIDTH = 0.1  # points of a letter of code


def with_code(segments: Sequence[LinePart]) -> list[LinePart]:
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
            if not last.is_code or -0.5 * last.height < drop < NEAR * last.height:
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
