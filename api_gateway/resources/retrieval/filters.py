"""Filters in requests: in the body of a query, and as a parameter of lists."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query as Parameter
from pydantic import ValidationError

from api_gateway.http.bodies import decode_json, refuse_flaws
from api_gateway.http.fields import Author, Metadata, Moment, Tags, TypeName, Wire
from api_gateway.http.problems import Problem, invalid, places
from pipeline.records import Filters


class FiltersIn(Wire):
    """Conditions on the document of a hit; all given ones must hold. `tags`: all of them.

    `start` and `end` bound `published_at`, both inclusive.
    """

    type: TypeName | None = None
    tags: Tags | None = None
    author: Author | None = None
    start: Moment | None = None
    end: Moment | None = None
    metadata: Metadata | None = None


def to_filters(sent: FiltersIn, *, story_time: int | None = None) -> Filters:
    """Return the filters as a record. Raises ValueError for an ``end`` before the ``start``."""
    if sent.start is not None and sent.end is not None and sent.end < sent.start:
        raise ValueError("lies before start")
    given = {**dict(sent), "tags": tuple(sent.tags or ()), "metadata": sent.metadata or {}}
    return Filters(**given, story_time=story_time)


_LONGEST_FILTERS = 8000  # characters
FiltersText = Annotated[
    str | None,
    Parameter(
        max_length=_LONGEST_FILTERS,
        description='Only what fits the `filters` of a query: a JSON object, as in `{"type": "manual"}`.',
    ),
]


def filters_parameter(value: str) -> Filters:
    """Parse filters from a query string, where they are a JSON object. Raises Problem(422)."""
    try:
        return to_filters(FiltersIn.model_validate(refuse_flaws(decode_json(value.encode("utf-8", "replace")))))
    except ValidationError as error:
        errors = places(error, under=["filters"])
    except Problem as error:
        errors = [{"pointer": f"/filters{flaw['pointer']}", "detail": flaw["detail"]} for flaw in error.errors]
        errors = errors or [{"pointer": "/filters", "detail": f"must be a JSON object: {error.detail}"}]
    except ValueError as error:
        errors = [{"pointer": "/filters/end", "detail": str(error)}]
    raise invalid([{**flaw, "in": "query"} for flaw in errors])
