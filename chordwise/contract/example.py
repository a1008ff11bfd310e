"""Books of examples."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from chordwise.contract.record import Answered, Complete


@dataclass(frozen=True, slots=True, kw_only=True)
class BookFlaw(Complete):
    """An error or an omission in a book, with its position. Without `row`, the whole sheet is meant; `cell` is like
    `D7` in workbooks and null in JSON."""

    sheet: str
    row: int | None = None
    column: str | None = None
    cell: str | None = None
    code: str
    detail: str
    pointer: str = ""

    def __str__(self) -> str:
        row = "" if self.row is None else f", row {self.row}"
        column = "" if self.column is None else f", column {self.column}"
        return f"sheet {self.sheet}{row}{column}: {self.detail}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BookStatistics(Answered):
    """Rows of a book. `read` is `accepted` + `refused` + `duplicates`; `grades` and `tags` are of accepted rows, a row
    without a grade under the empty name, and of tags the 100 most frequent."""

    read: int
    accepted: int
    refused: int
    duplicates: int
    blank: int
    grades: Mapping[str, int]
    tags: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingExample(Answered):
    """An accepted row that searches cannot find."""

    document_id: str
    status: str
    code: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledExample(Answered):
    """A row to find by its own words."""

    document_id: str
    type: str | None
    user_input: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExamplesVerification(Answered):
    """Whether the accepted rows of a job can be found: `searchable` of `rows` are shown and have a chunk.
    `missing`: the first that are not."""

    job_id: str
    namespace: str
    status: str
    rows: int
    searchable: int
    missing: tuple[MissingExample, ...]
    sample: tuple[SampledExample, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths(Answered):
    """Characters of the searched text: both parts of an example. `up_to` counts examples by the first of these lengths
    that they do not exceed."""

    shortest: int
    longest: int
    mean: float
    up_to: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCategory(Answered):
    """Examples of one category that searches can find."""

    examples: int
    grades: Mapping[str, int]
    tags: Mapping[str, int]
    lengths: Lengths | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Duplicates(Answered):
    """Examples of one category with the same text. `surplus`: how many are redundant; `groups` are the first 20."""

    surplus: int
    groups: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleStatistics(Answered):
    """The example library of a namespace. Lengths count characters."""

    namespace: str
    total: StoredCategory
    categories: Mapping[Literal["qa", "record", "query", "greeting"], StoredCategory]
    duplicates: Duplicates
