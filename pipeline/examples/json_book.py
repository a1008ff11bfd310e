"""The JSON form of a book: an object with a list of rows under the name of each category."""

from collections.abc import Mapping
from typing import Any

from chordwise.contract.example import BookFlaw
from pipeline.errors import DocumentTooLarge
from pipeline.examples.example import Book, BookRow, Category, Column, ExampleSheet
from pipeline.examples.headings import category_of, column_of, is_guide, one_line, shown

_LONGEST_NAME = 64


def json_tables(value: Mapping[str, Any], *, most_rows: int) -> Book:
    """Return the book in a decoded JSON object; rows count from 1. Raises DocumentTooLarge above ``most_rows``."""
    tables: list[ExampleSheet] = []
    warnings: list[BookFlaw] = []
    rows = 0
    for key, entries in value.items():
        name = one_line(key)[:_LONGEST_NAME]
        category = category_of(key)
        if category is None:
            if not is_guide(key):
                warnings.append(BookFlaw(sheet=name, code="unknown_sheet", detail="is no category, and was left out"))
        elif not isinstance(entries, list):
            flaw = BookFlaw(sheet=name, code="wrong_type", detail="must be a list of rows")
            tables.append(ExampleSheet(name=name, category=category, unusable=flaw))
        else:
            rows += len(entries)
            if rows > most_rows:
                raise DocumentTooLarge(f"the book has more than {most_rows} rows")
            tables.append(_table(name, category, entries))
    return Book(tables=tables, warnings=warnings)


def _table(name: str, category: Category, entries: list[Any]) -> ExampleSheet:
    rows: list[BookRow] = []
    unknown: dict[str, int] = {}
    blank = 0
    for number, entry in enumerate(entries, start=1):
        if not isinstance(entry, dict | None):
            rows.append(BookRow(number=number, values={}, fault=f"must be an object, not {shown(entry)}"))
            continue
        row = _row(number, entry or {}, unknown)
        if all(value in (None, "", []) for column, value in row.values.items() if column is not Column.NOTES):
            blank += 1
        else:
            rows.append(row)
    warnings = [
        BookFlaw(
            sheet=name, row=number, column=key, code="unknown_column", detail="is no known column, and was left out"
        )
        for key, number in unknown.items()
    ]
    return ExampleSheet(name=name, category=category, rows=rows, blank=blank, warnings=warnings)


def _row(number: int, entry: Mapping[str, Any], unknown: dict[str, int]) -> BookRow:
    values: dict[Column, Any] = {}
    faults: dict[Column, tuple[str, str]] = {}
    for key, value in entry.items():
        column = column_of(key)
        if column is None:
            unknown.setdefault(one_line(key)[:_LONGEST_NAME], number)
        elif column in values:
            faults[column] = ("repeated_column", f"is given more than once, last as {shown(key)}")
        else:
            values[column] = value.strip() if isinstance(value, str) else value
    return BookRow(number=number, values=values, faults=faults)
