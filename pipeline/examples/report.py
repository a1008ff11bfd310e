"""The report on a book of examples, as JSON."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Any

from chordwise.contract.example import BookFlaw
from pipeline.examples.checks import Checked
from pipeline.examples.example import CategoryStatistics

MOST_FLAWS = 1000  # most errors, and most warnings, in one answer
MOST_TAGS = 100  # the most frequent tags of a category in one answer
_LONGEST_POINTER = 255


def findings(checked: Checked) -> dict[str, Any]:
    """Return the statistics, the warnings and the number of errors."""
    return {
        "statistics": {
            "total": _statistics(_summed(checked.statistics.values())),
            **{str(category): _statistics(statistics) for category, statistics in checked.statistics.items()},
        },
        "errors_total": len(checked.errors),
        "warnings": flaws(checked.warnings[:MOST_FLAWS]),
        "warnings_total": len(checked.warnings),
    }


def flaws(listed: Iterable[BookFlaw]) -> list[BookFlaw]:
    """Return errors or warnings, each with the pointer to its position."""
    return [replace(flaw, pointer=pointer_to(flaw)) for flaw in listed]


def pointer_to(flaw: BookFlaw) -> str:
    """Return a JSON Pointer to the position of a flaw: sheet, row, column."""
    steps = (flaw.sheet, flaw.row, flaw.column)
    parts = (str(step).replace("~", "~0").replace("/", "~1") for step in steps if step is not None)
    return "".join(f"/{part}" for part in parts)[:_LONGEST_POINTER]


def ordered(counts: Counter[str]) -> dict[str, int]:
    """Return the `MOST_TAGS` most frequent names with their counts, in descending order; ties by name."""
    return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:MOST_TAGS])


def _statistics(statistics: CategoryStatistics) -> dict[str, Any]:
    counts = {field.name: getattr(statistics, field.name) for field in fields(statistics)}
    return {name: ordered(count) if isinstance(count, Counter) else count for name, count in counts.items()}


def _summed(categories: Iterable[CategoryStatistics]) -> CategoryStatistics:
    total = CategoryStatistics()
    for statistics in categories:
        for field in fields(total):
            setattr(total, field.name, getattr(total, field.name) + getattr(statistics, field.name))
    return total
