"""Books of examples in requests and answers: the input of POST /v1/examples, and its report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field
from pydantic.json_schema import WithJsonSchema

from api_gateway.http.fields import NamespaceName, Shape, Wire, shown
from api_gateway.http.problems import invalid, pointer
from api_gateway.resources.route_parts import validated
from pipeline.examples.example import LENGTHS, Category, Duplicated, Spread, Stored, Verified
from pipeline.examples.report import ordered
from pipeline.ingestion.accept import OnConflict
from pipeline.records import Namespace


class ExampleFlaw(Shape):
    """An error or an omission in a book, with its position. Without `row`, the whole sheet is meant; `cell` is like
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
    """The outcome for a book: its job, in which every refused row is a failed item, or `validated` after a dry run.
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
    """Examples of one category with the same text. `surplus`: how many are redundant; `groups` are the first 20."""

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
    """A row to find by its own words."""

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


_TRUTHS = {"true": True, "1": True, "false": False, "0": False}
_ROW = {
    "type": "object",
    "required": ["user_input", "agent_response"],
    "properties": {
        "user_input": {"type": "string"},
        "agent_response": {"type": "string"},
        "tags": {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}]},
        "quality_grade": {"type": "string", "enum": ["优秀", "良好", "一般"]},
        "id": {"type": "string"},
        "notes": {"type": "string"},
    },
}
_BOOK = {
    "type": "object",
    "properties": {
        f"{category}_examples": {"type": "array", "items": _ROW} for category in ("qa", "record", "query", "greeting")
    },
}


class ExamplesForm(Wire):
    """How to read a book. `category`: only its sheets. `strict`: nothing of it if one row is wrong."""

    tenant_id: str | None = None
    namespace: NamespaceName
    category: Annotated[Category, Field(strict=False)] | None = None
    on_conflict: OnConflict = "replace"
    strict: bool = False


class ExamplesRequest(ExamplesForm):
    """A book in its JSON form. The keys of `examples` may also be `qa`, `record`, `query`, `greeting`."""

    examples: Annotated[dict[str, Any], WithJsonSchema(_BOOK)]


def to_form(fields: Sequence[tuple[str, str]]) -> ExamplesForm:
    """Return the form fields. Raises Problem 422."""
    values: dict[str, Any] = {}
    for name, text in fields:
        if name in values:
            raise invalid([{"pointer": pointer([name]), "detail": "is given more than once"}])
        values[name] = _TRUTHS.get(text.strip().lower(), text) if name == "strict" else text
    return validated(ExamplesForm, values)


CATEGORIES = [category.value for category in Category]


def stored(namespace: Namespace, categories: Mapping[str, Stored], repeated: Duplicated) -> dict[str, Any]:
    """Convert the counts of a namespace to their JSON form."""
    return {
        "namespace": namespace,
        "total": _stored(_added(categories.values())),
        "categories": {name: _stored(category) for name, category in categories.items()},
        "duplicates": {"surplus": repeated.surplus, "groups": repeated.groups},
    }


def _stored(category: Stored) -> dict[str, Any]:
    return {
        "examples": category.examples,
        "grades": ordered(category.grades),
        "tags": ordered(category.tags),
        "lengths": _lengths(category.lengths) if category.examples else None,
    }


def _lengths(spread: Spread) -> dict[str, Any]:
    steps = {str(step): spread.up_to[step] for step in LENGTHS} | {"longer": spread.up_to[None]}
    mean = round(spread.total / spread.count, 1) if spread.count else 0.0
    return {"shortest": spread.shortest, "longest": spread.longest, "mean": mean, "up_to": steps}


def _added(categories: Iterable[Stored]) -> Stored:
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


def verification(result: Verified) -> dict[str, Any]:
    """Return a verified import as it is sent."""
    missing = [shown(MissingExample, row) for row in result.missing]
    sample = [shown(SampledExample, row) for row in result.sample]
    return shown(ExamplesVerification, result, missing=missing, sample=sample)
