"""The report on a book of examples, as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from pipeline.examples.checks import Checked
from pipeline.examples.example import CategoryStatistics, Flaw

MOST_FLAWS = 1000  # most errors, and most warnings, in one answer
MOST_TAGS = 100  # the most frequent tags of a category in one answer
_LONGEST_POINTER = 255


def findings(checked: Checked) -> dict[str, Any]:
    """Return the statistics, the warnings and the number of errors."""
    return {
        "statistics": {
            "total": _statistics(_summed(checked.statistics.values())),
            **{str(category): _statistics(found) for category, found in checked.statistics.items()},
        },
        "errors_total": len(checked.errors),
        "warnings": flaws(checked.warnings[:MOST_FLAWS]),
        "warnings_total": len(checked.warnings),
    }


def flaws(found: Iterable[Flaw]) -> list[dict[str, Any]]:
    """Return errors or warnings as JSON objects."""
    return [
        {
            "pointer": pointer_to(flaw),
            "sheet": flaw.sheet,
            "row": flaw.row,
            "column": flaw.column,
            "cell": flaw.cell,
            "code": flaw.code,
            "detail": flaw.detail,
        }
        for flaw in found
    ]


def pointer_to(flaw: Flaw) -> str:
    """Return a JSON Pointer to the position of a flaw: sheet, row, column."""
    steps = (flaw.sheet, flaw.row, flaw.column)
    parts = (str(step).replace("~", "~0").replace("/", "~1") for step in steps if step is not None)
    return "".join(f"/{part}" for part in parts)[:_LONGEST_POINTER]


def ordered(counts: Counter[str]) -> dict[str, int]:
    """Return the `MOST_TAGS` most frequent names with their counts, in descending order; ties by name."""
    return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:MOST_TAGS])


def _statistics(found: CategoryStatistics) -> dict[str, Any]:
    return {
        "read": found.read,
        "accepted": found.accepted,
        "refused": found.refused,
        "duplicates": found.duplicates,
        "blank": found.blank,
        "grades": ordered(found.grades),
        "tags": ordered(found.tags),
    }


def _summed(found: Iterable[CategoryStatistics]) -> CategoryStatistics:
    total = CategoryStatistics()
    for statistics in found:
        total.read += statistics.read
        total.accepted += statistics.accepted
        total.refused += statistics.refused
        total.duplicates += statistics.duplicates
        total.blank += statistics.blank
        total.grades += statistics.grades
        total.tags += statistics.tags
    return total
