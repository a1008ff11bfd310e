"""Migrations to another embedding model."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from chordwise.contract.record import Answered

MigrationState = Literal[
    "backfilling", "verifying", "ready", "switched", "finishing", "finished", "aborting", "aborted"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationProgress(Answered):
    """Progress of the current pass, over all tenants. `embedded` counts the vectors of all passes."""

    tenants: int
    tenants_done: int
    chunks_total: int
    chunks: int
    found: int
    mended: int
    embedded: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison(Answered):
    """The results of both models: means over all queries; nDCG over the judged ones."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingMigration(Answered):
    """A model migration. `active`: searches use the new model now. `behind`: documents whose vectors in the standby
    space are still missing. `missing`: chunks without a vector from the model, known once it is ready."""

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
