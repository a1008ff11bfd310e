"""Traces, explanations and replays, as they are asked for and answered."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from api_gateway.http.fields import DescribedBy, Wire
from api_gateway.resources.retrieval.result_shapes import Answer
from api_gateway.resources.shapes import Shape
from pipeline.query.plan import Lane, Plan


class WhyNotRequest(Wire):
    """The chunk that was expected."""

    chunk_id: Annotated[str, Field(min_length=1, max_length=64)]
    tenant_id: str | None = None


class QueryReplayRequest(Wire):
    """What shall be different this time: parts of a plan, laid over the one the query had."""

    plan: Annotated[dict[str, Any], DescribedBy(Plan)] = Field(default_factory=dict)
    tenant_id: str | None = None


class Trace(Shape):
    """One run of the pipeline in numbers and ids; `explained` says in one sentence why each chunk stands where it does.

    `channels`: what each recalled. `stages`: the order after each, with every contribution; those of a second retrieval
    are of round 2. `rerank_weight`: what the reranker's reading counted beside the order there was. `drops`: what was
    left out by which rule, the number it had, and the one it needed. `lane`: who composed the answer; `plan.lane` is the
    one that was wanted.
    """

    query_id: str
    request_id: str
    profile: str
    config_version: int
    lane: Lane = "chord"
    experiment_id: str | None
    experiment_bucket: str | None
    query: dict[str, Any]
    plan: dict[str, Any]
    channels: dict[str, dict[str, Any]]
    stages: list[dict[str, Any]]
    rerank_weight: float | None
    drops: list[dict[str, Any]]
    returned: list[str]
    explained: list[str]
    timings_ms: dict[str, float]
    second: dict[str, Any] | None
    ladder: dict[str, Any] | None
    fallback: str | None
    degradations: list[dict[str, str]]
    remarks: list[str]


class Debugged(Answer):
    """An answer with its trace."""

    trace: Trace | None


class WhyNot(Shape):
    """The first stage at which the chunk was lost, and the number that decided it. `replayed`: the query had kept no
    trace and was run again to find out. `channels`: its score and rank in each, and the last score that was recalled."""

    chunk_id: str
    document_id: str | None
    stage: str
    reason: str
    detail: str
    value: float | None
    limit: float | None
    channels: dict[str, dict[str, Any]]
    replayed: bool


class Difference(Shape):
    """What became of the answer. `plan`: the settings that differ. `overlap`: the share of the chunks that both have."""

    plan: list[dict[str, Any]]
    overlap: float
    same_order: bool
    moved: list[dict[str, Any]]
    added: list[dict[str, Any]]
    removed: list[dict[str, Any]]


class Replay(Shape):
    """The query once more, with other settings."""

    query_id: str
    of: str
    difference: Difference
    answer: Answer
