"""Books of examples."""

from collections.abc import Mapping
from dataclasses import dataclass

from chordwise.contract.record import Answered


@dataclass(frozen=True, slots=True, kw_only=True)
class BookFlaw(Answered):
    """An error or an omission in a book, with its position. Without `row`, the whole sheet is meant; `cell` is like
    `D7` in workbooks and null in JSON."""

    sheet: str
    row: int | None
    column: str | None
    cell: str | None
    code: str
    detail: str
    pointer: str


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
    """Whether the accepted rows of a job can be found: `searchable` of `rows` are shown and have a chunk."""

    job_id: str
    namespace: str
    status: str
    rows: int
    searchable: int
    missing: tuple[MissingExample, ...]
    sample: tuple[SampledExample, ...]
