"""Books of examples on the wire: what POST /v1/examples takes, and what it tells of a book."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any

from pydantic import Field, ValidationError
from pydantic.json_schema import WithJsonSchema

from api_gateway.http.fields import NamespaceName, Wire
from api_gateway.http.problems import invalid, places, pointer
from api_gateway.resources.ingestion.example_shapes import ExamplesVerification, MissingExample, SampledExample
from api_gateway.resources.shapes import shown
from pipeline.examples.example import Category
from pipeline.examples.example_store import LENGTHS, Examples, Spread, Stored, Verified
from pipeline.examples.report import ordered
from pipeline.ingestion.accept import OnConflict
from pipeline.records import Namespace

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
    """How a book is to be taken. `category`: only the sheets of it. `strict`: nothing of it if one row is wrong."""

    tenant_id: str | None = None
    namespace: NamespaceName
    category: Annotated[Category, Field(strict=False)] | None = None
    on_conflict: OnConflict = "replace"
    strict: bool = False


class ExamplesRequest(ExamplesForm):
    """A book in its JSON form. The keys of `examples` may also be `qa`, `record`, `query`, `greeting`."""

    examples: Annotated[dict[str, Any], WithJsonSchema(_BOOK)]


def to_form(fields: Sequence[tuple[str, str]]) -> ExamplesForm:
    """The form fields. Raises Problem 422."""
    values: dict[str, Any] = {}
    for name, text in fields:
        if name in values:
            raise invalid([{"pointer": pointer([name]), "detail": "is given more than once"}])
        values[name] = _TRUTHS.get(text.strip().lower(), text) if name == "strict" else text
    try:
        return ExamplesForm.model_validate(values)
    except ValidationError as error:
        raise invalid(places(error)) from None


def stored(namespace: Namespace, examples: Examples) -> dict[str, Any]:
    """The statistics of a namespace. Blocking."""
    types = [category.value for category in Category]
    found, repeated = examples.stored(namespace, types), examples.duplicates(namespace, types)
    return {
        "namespace": namespace,
        "total": _stored(_added(found.values())),
        "categories": {name: _stored(each) for name, each in found.items()},
        "duplicates": {"surplus": repeated.surplus, "groups": repeated.groups},
    }


def _stored(found: Stored) -> dict[str, Any]:
    return {
        "examples": found.examples,
        "grades": ordered(found.grades),
        "tags": ordered(found.tags),
        "lengths": _lengths(found.lengths) if found.examples else None,
    }


def _lengths(spread: Spread) -> dict[str, Any]:
    steps = {str(step): spread.up_to[step] for step in LENGTHS} | {"longer": spread.up_to[None]}
    mean = round(spread.total / spread.count, 1) if spread.count else 0.0
    return {"shortest": spread.shortest, "longest": spread.longest, "mean": mean, "up_to": steps}


def _added(found: Iterable[Stored]) -> Stored:
    total = Stored()
    for each in found:
        if not each.examples:
            continue
        spread, lengths = total.lengths, each.lengths
        spread.shortest = min(spread.shortest, lengths.shortest) if spread.count else lengths.shortest
        spread.longest = max(spread.longest, lengths.longest)
        spread.count += lengths.count
        spread.total += lengths.total
        spread.up_to += lengths.up_to
        total.examples += each.examples
        total.grades += each.grades
        total.tags += each.tags
    return total


def verification(found: Verified) -> dict[str, Any]:
    """A verified import as it is sent."""
    missing = [shown(MissingExample, row) for row in found.missing]
    sample = [shown(SampledExample, row) for row in found.sample]
    return shown(ExamplesVerification, found, missing=missing, sample=sample)
