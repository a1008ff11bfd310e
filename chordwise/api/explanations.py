"""Why an answer is as it is, as the server tells it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from chordwise.api.queries import QueryResult
from chordwise.records import Result
from chordwise.resource import Resource, as_content, operation, segment
from chordwise.transport import Steps


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage(Result):
    """The order after one step, best first. ``round`` is 2 for those of a second retrieval."""

    stage: str
    round: int = 1
    hits: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped(Result):
    """A chunk that a rule left out: the number it had, and the one it needed."""

    chunk_id: str
    stage: str
    reason: str = ""
    value: float | None = None
    limit: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace(Result):
    """How an answer came about. ``explained`` says why each chunk stands where it does; ``channels`` is what each
    recalled, ``stages`` every order on the way, ``drops`` what was left out. Everything else is in ``raw``."""

    query_id: str
    explained: tuple[str, ...] = ()
    channels: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    stages: tuple[Stage, ...] = ()
    drops: tuple[Dropped, ...] = ()
    returned: tuple[str, ...] = ()
    rerank_weight: float | None = None
    timings_ms: Mapping[str, float] = field(default_factory=dict)
    plan: Mapping[str, Any] = field(default_factory=dict)
    degradations: tuple[Mapping[str, str], ...] = ()
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WhyNot(Result):
    """Where a chunk was lost: ``detail`` says it in a sentence, ``value`` is its number, ``limit`` the one it needed.
    ``replayed``: the query had kept no trace, and was run again to find out."""

    chunk_id: str
    stage: str
    reason: str = ""
    detail: str = ""
    value: float | None = None
    limit: float | None = None
    document_id: str | None = None
    replayed: bool = False
    channels: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference(Result):
    """What other settings changed. ``plan``: the settings that differ; ``overlap``: the share of chunks both have."""

    overlap: float = 0.0
    same_order: bool = False
    plan: tuple[Mapping[str, Any], ...] = ()
    moved: tuple[Mapping[str, Any], ...] = ()
    added: tuple[Mapping[str, Any], ...] = ()
    removed: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay(Result):
    """The query asked again; ``of`` is the one before."""

    query_id: str
    of: str
    difference: Difference
    answer: QueryResult


class ExplanationOperations(Resource):
    """The part of ``Operations`` that asks why."""

    @operation
    def trace(self, query: QueryResult | str) -> Steps[Trace]:
        """How an answer came about, of a query asked with ``trace=True``; of any other, ProblemError with status 404."""
        return self._one(Trace, "GET", _path(query, "trace"))

    @operation
    def why_not(self, query: QueryResult | str, chunk_id: str) -> Steps[WhyNot]:
        """Where a chunk was lost on its way to the answer. ProblemError with status 404 for a query that is forgotten,
        or a chunk that is not there, and with 409 before the answer."""
        return self._one(WhyNot, "POST", _path(query, "why-not"), body={"chunk_id": chunk_id})

    @operation
    def replay(self, query: QueryResult | str, plan: Mapping[str, Any]) -> Steps[Replay]:
        """Ask the same again with parts of the plan changed, on the documents as they are now, and compare."""
        return self._one(Replay, "POST", _path(query, "replay"), content=as_content({"plan": plan}, "plan"))


def _path(query: QueryResult | str, what: str) -> str:
    return f"/v1/queries/{segment(query if isinstance(query, str) else query.query_id)}/{what}"
