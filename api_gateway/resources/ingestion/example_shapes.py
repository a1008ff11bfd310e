"""What the gateway answers about books of examples, described."""

from __future__ import annotations

from typing import Literal

from api_gateway.resources.shapes import Shape


class ExampleFlaw(Shape):
    """Something wrong with a book, or left out, and where. Without `row`, all of the sheet is meant; `cell` is like
    `D7` in workbooks and null in JSON."""

    sheet: str
    row: int | None
    column: str | None
    cell: str | None
    code: str
    detail: str
    pointer: str


class BookStatistics(Shape):
    """Rows of a book. `read` is `accepted` + `refused` + `duplicates`; `grades` and `tags` are of accepted rows, a row
    without a grade under the empty name, and of tags the 100 most frequent."""

    read: int
    accepted: int
    refused: int
    duplicates: int
    blank: int
    grades: dict[str, int]
    tags: dict[str, int]


class BookCategories(Shape):
    """Statistics of a book, in all and by category."""

    total: BookStatistics
    qa: BookStatistics
    record: BookStatistics
    query: BookStatistics
    greeting: BookStatistics


class ExamplesReport(Shape):
    """What became of a book: its job, in which every refused row is a failed item, or `validated` after a dry run.
    `errors` and `warnings` are the first 1,000."""

    job_id: str | None
    status: Literal["queued", "validated"]
    total: int
    statistics: BookCategories
    errors: list[ExampleFlaw]
    errors_total: int
    warnings: list[ExampleFlaw]
    warnings_total: int


class Lengths(Shape):
    """Characters of the searched text: both parts of an example. `up_to` counts examples by the first of these lengths
    that they do not exceed."""

    shortest: int
    longest: int
    mean: float
    up_to: dict[str, int]


class StoredCategory(Shape):
    """Examples of one category that searches can find."""

    examples: int
    grades: dict[str, int]
    tags: dict[str, int]
    lengths: Lengths | None


class Duplicates(Shape):
    """Examples of one category with the same text. `surplus`: how many could go; `groups` are the first 20."""

    surplus: int
    groups: list[list[str]]


class ExampleStatistics(Shape):
    """The example library of a namespace."""

    namespace: str
    total: StoredCategory
    categories: dict[Literal["qa", "record", "query", "greeting"], StoredCategory]
    duplicates: Duplicates


class MissingExample(Shape):
    """An accepted row that searches cannot find."""

    document_id: str
    status: str
    code: str | None


class SampledExample(Shape):
    """A row that can be asked for by its own words."""

    document_id: str
    type: str | None
    user_input: str


class ExamplesVerification(Shape):
    """Whether the accepted rows of a job can be found: `searchable` of `rows` are shown and have a chunk."""

    job_id: str
    namespace: str
    status: str
    rows: int
    searchable: int
    missing: list[MissingExample]
    sample: list[SampledExample]
