"""Tables that a PDF page draws with rules: the cells between the rules, and the words within each."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from pipeline.parsing.pdf_lines import GUTTER, DrawnRule, LinePart, joined, paragraphs_of, rows_of, tidy

_TOUCHING = 3.0  # points between rules that meet
_SAME_RULE = 2.0  # points between the places of one rule
_MOST_RULES = 600  # of a page; more are a drawing
_LEAST_FILLED = 0.3  # share of the cells of a table that hold words
_LONG_CELL = 1000  # characters; rules around longer texts arrange them


def with_ruled_tables(segments: Sequence[LinePart], rules: Sequence[DrawnRule]) -> list[LinePart]:
    """Return the segments with those within a table's rules replaced by the table."""
    level = _joined_rules([rule for rule in rules if rule.right - rule.left >= rule.top - rule.bottom])
    upright = _joined_rules(
        [DrawnRule(r.bottom, r.left, r.top, r.right) for r in rules if r.right - r.left < r.top - r.bottom]
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
            joined.append(DrawnRule(rule.left, place, rule.right, place))
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
    in_rows = {owner: rows_of(parts) for owner, parts in held.items()}
    if any(sum(1 for row in cell if len(row) > 1) > 1 for cell in in_rows.values()):
        return segments  # the rules arrange tables
    texts = {owner: tidy(joined([line.text for line in paragraphs_of(cell)])) for owner, cell in in_rows.items()}
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
    return [*rest[:first], LinePart("", xs[0], xs[-1], ys[0], ys[-1], ys[-1] - ys[0], rows=rows), *rest[first:]]


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
            is_apart = bool(left and right) and right[0].left - left[0].right > GUTTER * left[0].height
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
