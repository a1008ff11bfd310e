"""Moves to another embedding model on the wire."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from api_gateway.http.fields import NamespaceName, Wire
from api_gateway.resources.shapes import Shape, shown
from pipeline.embedding.model_comparison import Gate
from pipeline.local_models import flaw_of, local_model
from pipeline.maintenance.compare_models import GoldenQuery
from pipeline.maintenance.migrate_model import MigrationStatus
from pipeline.records import Namespace, TenantId
from pipeline.tenants.tenant_store import TENANT_ID

MigrationState = Literal[
    "backfilling", "verifying", "ready", "switched", "finishing", "finished", "aborting", "aborted"
]
_DEFAULT = Gate()


class StartRequest(Wire):
    """The model to move to. `service`: `default` is where `OPENAI_BASE_URL` points, `next` where
    `CHORDWISE_EMBEDDING_NEXT_BASE_URL` does; keys are settings and never in a request."""

    provider: Literal["local", "openai"]
    model: Annotated[str, Field(min_length=1, max_length=255)]
    dimension: Annotated[int, Field(ge=1, le=4000)]
    service: Literal["default", "next"] = "default"

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.provider == "local" and (flaw := flaw_of(self.model, self.dimension)):
            raise ValueError(flaw)
        if self.provider == "local" and self.service == "next":
            raise ValueError("the local model has no service")
        if self.provider == "openai" and local_model(self.model):
            raise ValueError(f"{self.model} is a model of the local provider")
        return self


class GoldenQueryRequest(Wire):
    """A question to both models. `relevant`: grades of the documents that should be found, by their ids."""

    tenant_id: Annotated[str, Field(pattern=f"^{TENANT_ID.pattern}$")]
    namespaces: Annotated[list[NamespaceName], Field(min_length=1, max_length=64)]
    query_text: Annotated[str, Field(min_length=1, max_length=8192)]
    relevant: Annotated[dict[str, int], Field(max_length=1000)] | None = None


class CompareRequest(Wire):
    """What to ask, and what has to come out. Without `queries`, up to `sample` are taken from the latest searches, and
    from the texts themselves where those are too few."""

    queries: Annotated[list[GoldenQueryRequest], Field(max_length=500, default_factory=list)]
    sample: Annotated[int, Field(ge=1, le=500)] = 50
    k: Annotated[int, Field(ge=1, le=100)] = _DEFAULT.k
    min_overlap: Annotated[float, Field(ge=0, le=1, strict=False)] = _DEFAULT.min_overlap
    max_ndcg_loss: Annotated[float, Field(ge=0, le=1, strict=False)] = _DEFAULT.max_ndcg_loss

    @property
    def gate(self) -> Gate:
        """What has to come out."""
        return Gate(k=self.k, min_overlap=self.min_overlap, max_ndcg_loss=self.max_ndcg_loss)

    @property
    def golden(self) -> list[GoldenQuery]:
        """What to ask."""
        return [
            GoldenQuery(
                tenant_id=TenantId(each.tenant_id),
                namespaces=tuple(Namespace(name) for name in each.namespaces),
                text=each.query_text,
                grades=each.relevant,
            )
            for each in self.queries
        ]


class SwitchRequest(Wire):
    """`skip_gate`: without a comparison that has passed. `accept_missing`: though the model refused some chunks."""

    skip_gate: bool = False
    accept_missing: bool = False


class MigrationProgress(Shape):
    """How far the present pass is, over all tenants. `embedded` counts the vectors of all passes."""

    tenants: int
    tenants_done: int
    chunks_total: int
    chunks: int
    found: int
    mended: int
    embedded: int


class Comparison(Shape):
    """What both models found: means over all queries; nDCG over the judged ones."""

    queries: int
    judged: int
    sampled: bool
    overlap: float
    ndcg_active: float | None
    ndcg_target: float | None
    passed: bool
    reason: str | None
    k: int
    min_overlap: float
    max_ndcg_loss: float
    compared_at: str


class EmbeddingMigration(Shape):
    """A move to another model. `active`: searches use it now. `behind`: documents whose vectors in the space on standby
    are still to be made. `missing`: chunks the model gave no vector, known once it is ready."""

    number: int
    source: int
    provider: str
    model: str
    dimension: int
    service: str
    state: MigrationState
    active: bool
    progress: MigrationProgress
    behind: int
    missing: int | None
    comparison: Comparison | None
    error_code: str | None
    error_detail: str | None
    created_at: datetime
    ready_at: datetime | None
    switched_at: datetime | None
    ended_at: datetime | None


class EmbeddingMigrationList(Shape):
    """All there ever were, the latest first."""

    data: list[EmbeddingMigration]


def embedding_migration(status: MigrationStatus) -> dict[str, Any]:
    """A move as it is sent."""
    found = status.migration
    progress = shown(MigrationProgress, status.progress)
    kept = ("state", "source", "missing", "comparison", "error_code", "error_detail")
    moments = ("created_at", "ready_at", "switched_at", "ended_at")
    return {
        **{name: getattr(found.space, name) for name in ("number", "provider", "model", "dimension", "service")},
        **{name: getattr(found, name) for name in (*kept, *moments)},
        "active": status.active == found.space.number,
        "progress": progress,
        "behind": status.behind,
    }
