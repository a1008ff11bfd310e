"""The example library: questions of users and answers of the agent in four categories. A book (workbook or JSON)
becomes one document per row (`checking`); errors name sheet, row and column."""

from pipeline.core.examples.checking import Checked, check
from pipeline.core.examples.json_form import json_tables
from pipeline.core.examples.records import Book, Category, CategoryStatistics, Example, Flaw, upload_of
from pipeline.core.examples.workbook_form import read_tables, workbook_tables

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
