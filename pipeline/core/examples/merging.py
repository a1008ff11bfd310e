"""Merged cells: one value that people mean for several rows."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from pipeline.core.parsing.sheets import Row, column_number
from pipeline.errors import DocumentTooLarge

_RANGE = re.compile(r"\$?([A-Z]{1,2}|[A-X][A-F][A-D])\$?(\d{1,7}):\$?([A-Z]{1,3})\$?(\d{1,7})")
_MOST_COPIES = 500_000  # of values; ranges that overlap, which no spreadsheet program writes, could ask for any number


def fill_merged(rows: Sequence[Row], ranges: Sequence[str]) -> list[str]:
    """Copy a merged range's value down its first column into rows with other values, in ``rows`` themselves. Return the
    ranges of more than one row. Raises DocumentTooLarge."""
    numbers = [row.number for row in rows]
    tall: list[str] = []
    copies = 0
    for text in ranges:
        match = _RANGE.fullmatch(text)
        if match is None:
            continue
        column, top, bottom = column_number(match[1]), int(match[2]), int(match[4])
        if bottom <= top:
            continue
        tall.append(text)
        covered = rows[bisect_left(numbers, top) : bisect_right(numbers, bottom)]
        copies += len(covered)
        if copies > _MOST_COPIES:
            raise DocumentTooLarge("the workbook merges more cells than a sheet has")
        if not covered or covered[0].number != top or column not in covered[0].cells or column in covered[0].errors:
            continue
        for row in covered[1:]:
            if row.cells:
                row.cells.setdefault(column, covered[0].cells[column])
    return tall
