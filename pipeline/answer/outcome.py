"""Distinguish an outage from an empty result. A query fails if no channel answered, if no hit's text could be read, or
by a defect; an empty result is a success."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Literal

from pipeline.answer.result import Answer, AnswerProblem
from pipeline.query.request import Degradation, Query
from pipeline.records import ChannelName

RETRIEVAL_UNAVAILABLE = "retrieval_unavailable"

Outcome = Literal["answered", "degraded", "empty", "failed"]


def problem_of(
    query: Query, *, usable: Collection[ChannelName], losses: Iterable[Degradation], chunks: Collection[object]
) -> AnswerProblem | None:
    """Return why a query failed, None if it succeeded, as one with chunks or one searched nowhere on purpose does.
    ``usable``: the channels that answered."""
    if chunks or not query.channels:
        return None
    by_part: dict[str, Degradation] = {}
    for loss in losses:
        by_part.setdefault(loss.part, loss)
    if "answer" in by_part and by_part["answer"].code == "internal_error":
        return _problem(query, "internal_error", 500, by_part["answer"].detail)
    if not usable:
        lost = ", ".join(_named(channel, by_part.get(channel)) for channel in query.channels)
        return _problem(query, RETRIEVAL_UNAVAILABLE, 503, f"No channel answered: {lost}.")
    if "answer" in by_part:
        return _problem(query, RETRIEVAL_UNAVAILABLE, 503, "No worker put the answer together before the deadline.")
    if "hydrate" in by_part:
        detail = f"Passages were found, but their texts could not be read ({by_part['hydrate'].code})."
        return _problem(query, RETRIEVAL_UNAVAILABLE, 503, detail)
    return None


def outcome(answer: Answer) -> Outcome:
    """Return the result of a query as one word, the worst that applies. ``empty``: no chunks but the last resort's."""
    if answer.status == "failed":
        return "failed"
    if all(chunk.source == ChannelName.FALLBACK for chunk in answer.chunks):
        return "empty"
    return "degraded" if answer.stats.degraded else "answered"


def sent_problem(answer: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the ``error`` of a stored and sent answer; None if the query succeeded."""
    return answer["error"] if answer["status"] == "failed" else None


def _named(channel: ChannelName, loss: Degradation | None) -> str:
    return f"{channel} ({loss.code})" if loss else str(channel)


def _problem(query: Query, code: str, status: int, detail: str) -> AnswerProblem:
    return AnswerProblem(
        type=f"urn:chordwise:problem:{code}",
        title="Nothing could be retrieved" if status == 503 else "Something went wrong on our side",
        status=status,
        detail=detail,
        instance=f"/v1/queries/{query.query_id}",
        code=code,
        request_id=query.request_id,
    )
