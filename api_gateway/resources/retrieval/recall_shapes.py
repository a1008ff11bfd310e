"""A recall as a main agent asks for it: a request in, hits with source, confidence and reason out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, ValidationError, field_validator

from api_gateway.http.bodies import Decoded, refuse_flaws
from api_gateway.http.fields import Label, NamespaceName, Wire
from api_gateway.http.problems import invalid, places
from api_gateway.resources.retrieval.query_body import Conversation, UserProfile
from api_gateway.resources.shapes import Shape

EXAMPLE = {
    "query": "And how long does it take?",
    "namespaces": ["kb"],
    "session_id": "s-1",
    "trace_id": "t-1",
    "context": ["user: How do I reset the controller?", "assistant: Hold the button."],
    "user_profile": {"role": "operator", "language": "en"},
}


class RecallRequest(Wire):
    """A question of a main agent. `context`: the messages before the query, oldest first. `trace_id` takes the place
    of `X-Request-ID` in logs and tasks."""

    query: Annotated[str, Field(min_length=1, max_length=8000)]
    namespaces: Annotated[list[NamespaceName], Field(min_length=1, max_length=32)]
    session_id: Label | None = None
    trace_id: Annotated[str, Field(pattern=r"^[\x21-\x7E]{1,128}$")] | None = None
    user_profile: UserProfile | None = None
    context: Conversation | None = None
    experiment_id: Label | None = None
    top_k: Annotated[int, Field(ge=1, le=1000)] = 5
    tenant_id: str | None = None

    @field_validator("query")
    @classmethod
    def _asks_something(cls, value: str) -> str:
        if value.isspace():
            raise ValueError("holds nothing but white space")
        return value


class RecallHit(Shape):
    """A passage: where it was found (`source`, the strongest channel), how well, how sure, and why."""

    source: str
    score: float
    confidence: float
    reason: str
    content: str
    metadata: dict[str, Any]


class RecallResult(Shape):
    """The hits, best first. `degraded`: something was lost on the way."""

    hits: list[RecallHit]
    latency_ms: float
    degraded: bool
    trace_id: str
    experiment_id: str | None


def is_recall(decoded: Decoded) -> bool:
    """Return whether a body is a RecallRequest and no QueryRequest."""
    return "query" in decoded.value and "query_text" not in decoded.value


def recall_of(decoded: Decoded) -> RecallRequest:
    """Parse a body. Raises Problem(422)."""
    try:
        return RecallRequest.model_validate(refuse_flaws(decoded))
    except ValidationError as error:
        raise invalid(places(error)) from None


def as_query(request: RecallRequest) -> Decoded:
    """Return the body of a query that asks the same."""
    asked = {
        "query_text": request.query,
        "namespaces": request.namespaces,
        "session_id": request.session_id,
        "user_profile": request.user_profile,
        "conversation": request.context,
        "experiment_id": request.experiment_id,
        "top_k": request.top_k,
    }
    return Decoded(asked)


def result_of(answer: Mapping[str, Any], *, trace_id: str, experiment_id: str | None) -> RecallResult:
    """Return the answer to a query in the words of a recall."""
    return RecallResult(
        hits=[_hit(chunk) for chunk in answer["chunks"]],
        latency_ms=answer["stats"]["latency_ms"]["total"],
        degraded=answer["stats"]["degraded"],
        trace_id=trace_id,
        experiment_id=experiment_id,
    )


def _hit(chunk: Mapping[str, Any]) -> RecallHit:
    named = {name: chunk[name] for name in ("document_id", "chunk_id", "namespace", "title")}
    return RecallHit(
        source=chunk["source"],
        score=chunk["score"],
        confidence=chunk["confidence"],
        reason=chunk["reason"],
        content=chunk["text"],
        metadata={**chunk["metadata"], **named},
    )
