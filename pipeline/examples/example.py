"""Records of the example library."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from chordwise.contract.example import BookFlaw
from pipeline.chunking.tokens import count_tokens
from pipeline.document_sources import SourceKind, SourceRef
from pipeline.parsing.formats import JSON, XLSX
from pipeline.records import Chunking, DocumentFields, DocumentId, Upload

_ONE_CHUNK = 512  # tokens up to which a row is never cut
_WHOLE = Chunking(strategy="sentences", max_tokens=2 * _ONE_CHUNK, overlap=0.0)  # an upper estimate for sentences
_CUT = Chunking(strategy="sentences", max_tokens=_ONE_CHUNK, overlap=0.2)


class Category(enum.StrEnum):
    """The kind of an example; it is the ``type`` of its document."""

    QA = "qa"
    RECORD = "record"
    QUERY = "query"
    GREETING = "greeting"


class Column(enum.StrEnum):
    """A column of a book. ``notes`` are for its editors and are not imported."""

    USER_INPUT = "user_input"
    AGENT_RESPONSE = "agent_response"
    TAGS = "tags"
    QUALITY_GRADE = "quality_grade"
    ID = "id"
    NOTES = "notes"


REQUIRED = (Column.USER_INPUT, Column.AGENT_RESPONSE)
GRADES = ("优秀", "良好", "一般")  # best first
UNGRADED = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BookRow:
    """An unchecked row that holds something; a workbook's values are text. ``faults``: unreadable columns with code and
    reason; ``fault``: why the row is unreadable; ``cells``: positions of the values."""

    number: int
    values: Mapping[Column, Any]
    cells: Mapping[Column, str] = field(default_factory=dict)
    faults: Mapping[Column, tuple[str, str]] = field(default_factory=dict)
    fault: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleSheet:
    """A sheet of a book. ``unusable``: the reason why none of its rows can be read. ``blank`` counts empty rows."""

    name: str
    category: Category
    rows: Sequence[BookRow] = ()
    blank: int = 0
    unusable: BookFlaw | None = None
    warnings: Sequence[BookFlaw] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Book:
    """The part of a book to be imported. ``warnings``: omissions, such as unknown sheets."""

    tables: Sequence[ExampleSheet]
    warnings: Sequence[BookFlaw] = ()

    def only(self, category: Category | None) -> Book:
        """Return the sheets of one category, as if the book had no others; the whole book for None."""
        if category is None:
            return self
        return Book(tables=[table for table in self.tables if table.category is category], warnings=self.warnings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A valid row."""

    document_id: DocumentId
    category: Category
    user_input: str
    agent_response: str
    tags: tuple[str, ...]
    quality_grade: str | None
    sheet: str
    row: int

    @property
    def text(self) -> str:
        """Return the searched text."""
        return f"{self.user_input} {self.agent_response}"


@dataclass(slots=True, kw_only=True)
class CategoryStatistics:
    """Rows of one category, each accepted, refused, or a duplicate. ``grades`` and ``tags`` count accepted rows,
    `UNGRADED` those without a grade."""

    read: int = 0
    accepted: int = 0
    refused: int = 0
    duplicates: int = 0
    blank: int = 0
    grades: Counter[str] = field(default_factory=Counter)
    tags: Counter[str] = field(default_factory=Counter)


def upload_of(example: Example, *, book: str | None) -> Upload:
    """Return the document of one row, both parts in its metadata too. It has no title or source, which would be
    embedded. ``book``: the file's name."""
    metadata: dict[str, Any] = {"user_input": example.user_input, "agent_response": example.agent_response}
    if example.quality_grade is not None:
        metadata["quality_grade"] = example.quality_grade
    metadata |= {"sheet": example.sheet, "row": example.row}
    if book:
        metadata["book"] = book
    text = example.text
    book_type = None if book is None else JSON if book.lower().endswith(".json") else XLSX
    fits = len(text) <= _ONE_CHUNK or count_tokens(text) <= _ONE_CHUNK  # every token has at least one character
    return Upload(
        document_id=example.document_id,
        fields=DocumentFields(type=example.category.value, tags=example.tags, metadata=metadata),
        body=text.encode(),
        media_type="text/plain",
        source=SourceRef(kind=SourceKind.SHEET, uri=book, media_type=book_type),
        chunking=_WHOLE if fits else _CUT,
    )


LENGTHS = (50, 100, 200, 500, 1000, 2000)  # characters; longer texts are counted without an upper bound


@dataclass(slots=True, kw_only=True)
class Spread:
    """Lengths in characters. ``up_to``: number of texts up to each of `LENGTHS`; None: longer ones."""

    count: int = 0
    total: int = 0
    shortest: int = 0
    longest: int = 0
    up_to: Counter[int | None] = field(default_factory=Counter)


@dataclass(slots=True, kw_only=True)
class Stored:
    """The shown examples of one type. A missing grade counts under the empty name."""

    examples: int = 0
    grades: Counter[str] = field(default_factory=Counter)
    tags: Counter[str] = field(default_factory=Counter)
    lengths: Spread = field(default_factory=Spread)


def summed(categories: Iterable[Stored]) -> Stored:
    """Add up the examples of all types."""
    total = Stored()
    for category in categories:
        if not category.examples:
            continue
        spread, lengths = total.lengths, category.lengths
        spread.shortest = min(spread.shortest, lengths.shortest) if spread.count else lengths.shortest
        spread.longest = max(spread.longest, lengths.longest)
        spread.count += lengths.count
        spread.total += lengths.total
        spread.up_to += lengths.up_to
        total.examples += category.examples
        total.grades += category.grades
        total.tags += category.tags
    return total
