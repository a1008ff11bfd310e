"""The example library: questions of users and answers of the agent in four categories. A book (workbook or JSON)
becomes one document per row (`checking`); errors name sheet, row and column."""

from pipeline.examples.checks import Checked, check
from pipeline.examples.example import Book, Category, CategoryStatistics, Example, Flaw, upload_of
from pipeline.examples.json_book import json_tables
from pipeline.examples.workbook_book import read_tables, workbook_tables

__all__ = [
    "Book",
    "Category",
    "CategoryStatistics",
    "Checked",
    "Example",
    "Flaw",
    "check",
    "json_tables",
    "read_tables",
    "upload_of",
    "workbook_tables",
]
