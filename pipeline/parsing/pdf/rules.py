"""Tables that a PDF page draws with rules: the cells between the rules, and the words within each."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from pipeline.parsing.pdf.contents import Sides
from pipeline.parsing.pdf.lines import GUTTER, Line, LinePart, joined, paragraphs_of, rows_of, tidy
from pipeline.parsing.table_headers import looks_like_header

_TOUCHING = 3.0  # points between rules that meet
_SAME_RULE = 2.0  # points between the places of one rule
_MOST_RULES = 600  # of a page; more are a drawing
_LEAST_FILLED = 0.3  # share of the cells of a table that hold words
Box = tuple[float, float, float, float]  # its left, bottom, right and top
_LONG_CELL = 1000  # characters; rules around longer texts arrange them


def with_ruled_tables(segments: Sequence[LinePart], rules: Sides) -> tuple[list[LinePart], list[Box]]:
    """Return the segments with those within a table's rules replaced by the table, and the sides of rules that draw a
    single box."""
    boxes: list[Box] = []
    is_level = rules[:, 2] - rules[:, 0] >= rules[:, 3] - rules[:, 1]
    if is_level.all() or not is_level.any() or not segments:
        return list(segments), boxes
    level, upright = _joined_rules(rules[is_level]), _joined_rules(rules[~is_level][:, [1, 0, 3, 2]])
    if len(level) + len(upright) > _MOST_RULES:
        return list(segments), boxes
    rest = list(segments)
    places = np.array([(segment.left, (segment.top + segment.bottom) / 2) for segment in segments])
    for lines, bars in _grids(level, upright):
        corner = lines[:, 0].min() - 2 * _TOUCHING, lines[:, 2].min()
        opposite = lines[:, 1].max() + _TOUCHING, lines[:, 2].max()
        if len(lines) == len(bars) == 2:
            boxes.append((float(corner[0]), float(corner[1]), float(opposite[0]), float(opposite[1])))
        elif ((corner < places) & (places < opposite)).all(axis=1).any():
            rest = _with_table(rest, lines, bars)
    return rest, boxes


_Rules = NDArray[np.float64]  # parallel ones: where each begins, where it ends, and at which height it lies


def _joined_rules(sides: Sides) -> _Rules:
    """Return level rules with those that go on joined."""
    heights = sides[:, 1] + sides[:, 3]
    joined: list[list[float]] = []
    order = np.lexsort((sides[:, 0], np.rint(heights / (2 * _SAME_RULE))))
    rows = zip(sides[order, 0].tolist(), sides[order, 2].tolist(), (heights[order] / 2).tolist(), strict=True)
    for start, end, place in rows:
        last = joined[-1] if joined else None
        if last is not None and abs(last[2] - place) <= _SAME_RULE and start - last[1] <= _TOUCHING:
            last[1] = max(last[1], end)
        else:
            joined.append([start, end, place])
    return np.array(joined)


def _grids(level: _Rules, upright: _Rules) -> Iterator[tuple[_Rules, _Rules]]:
    """Yield the rules that meet each other."""
    crosses = _reach(level, upright[:, 2]) & _reach(upright, level[:, 2]).T  # a row for each level rule
    grid_of = np.arange(len(level))
    for bar in np.flatnonzero(crosses.any(axis=0)).tolist():
        is_met = np.zeros(len(level) + len(upright), bool)
        is_met[grid_of[crosses[:, bar]]] = True
        grid_of[is_met[grid_of]] = len(level) + bar
    for number in sorted({*grid_of.tolist()} - {*range(len(level))}):
        lines = grid_of == number
        if lines.sum() > 1:
            yield level[lines], upright[crosses[lines].any(axis=0)]


def _reach(rules: _Rules, places: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return for each rule at which places it is, or ends near them."""
    return (rules[:, :1] - _TOUCHING <= places) & (places <= rules[:, 1:2] + _TOUCHING)


def _places(values: Iterable[float]) -> list[float]:
    places: list[float] = []
    for value in sorted(values):
        if not places or value - places[-1] > 2 * _SAME_RULE:
            places.append(value)
    return places


def _with_table(segments: list[LinePart], level: _Rules, upright: _Rules) -> list[LinePart]:
    xs = _places([*upright[:, 2].tolist(), float(level[:, :2].min()), float(level[:, :2].max())])
    ys = _places([*level[:, 2].tolist(), float(upright[:, :2].min()), float(upright[:, :2].max())])
    if len(xs) < 3 or len(ys) < 3:
        return segments
    cells: dict[tuple[int, int], list[LinePart]] = {}
    rest, first = [], len(segments)
    for segment in segments:
        middle = (segment.top + segment.bottom) / 2
        if segment.lines or not (ys[0] < middle < ys[-1] and xs[0] - _TOUCHING < segment.left < xs[-1]):
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
    in_rows = {owner: rows_of(parts) for owner, parts in held.items()}
    if any(sum(1 for row in cell if len(row) > 1) > 1 for cell in in_rows.values()):
        return segments  # the rules arrange tables
    texts = {owner: tidy(joined([line.text for line in paragraphs_of(cell)])) for owner, cell in in_rows.items()}
    grid = [tuple(owners[row, column] for column in range(len(xs) - 1)) for row in range(len(ys) - 1)]
    grid = [row for row, _ in groupby(grid) if any(owner in texts for owner in row)]  # each row once
    used = [column for column in range(len(xs) - 1) if any(row[column] in texts for row in grid)]
    if len(grid) < 2 or len(used) < 2:
        return segments
    rows = [tuple(texts.get(row[column], "") for column in used) for row in grid]
    rows = [
        row if len(set(owner)) > 1 else row[:1] + ("",) * (len(row) - 1) for row, owner in zip(rows, grid, strict=True)
    ]
    if max(map(len, texts.values())) > _LONG_CELL and not looks_like_header(rows[0]):
        return segments
    table = [Line(" ".join(cells), 0.0, ys[-1], cells) for cells in rows]
    return [*rest[:first], LinePart("", xs[0], xs[-1], ys[0], ys[-1], ys[-1] - ys[0], lines=table), *rest[first:]]


def _owners(
    xs: Sequence[float],
    ys: Sequence[float],
    level: _Rules,
    upright: _Rules,
    cells: Mapping[tuple[int, int], Sequence[LinePart]],
) -> dict[tuple[int, int], int]:
    """Return for each place of a grid the number of its cell: places without a rule between them are one cell, unless
    wide gaps divide their words."""
    columns, rows = len(xs) - 1, len(ys) - 1
    is_barred, is_ruled = _divide(upright, xs, ys), _divide(level, ys, xs)
    owners = {(row, column): row * columns + column for row in range(rows) for column in range(columns)}
    for row in range(rows):
        for column in range(1, columns):
            left, right = cells.get((row, column - 1), ()), cells.get((row, column), ())
            is_apart = bool(left and right) and right[0].left - left[0].right > GUTTER * left[0].height
            if not is_apart and not is_barred[column][rows - row - 1]:
                owners[row, column] = owners[row, column - 1]
    for row in range(1, rows):
        for column in range(columns):
            if not is_ruled[rows - row][column]:
                owners[row, column] = owners[row - 1, column]
    return owners


def _divide(rules: _Rules, places: Sequence[float], ends: Sequence[float]) -> list[list[bool]]:
    """Return for each place whether a rule lies there between each end and the next."""
    middles = (np.array(ends[:-1]) + ends[1:]) / 2
    is_there = np.abs(rules[:, 2:] - places) <= 2 * _SAME_RULE
    is_between = (rules[:, :1] <= middles) & (middles <= rules[:, 1:2])
    return (is_there.T.astype(int) @ is_between > 0).tolist()  # type: ignore[no-any-return]
