"""Moving an installation to another embedding model: results, and the operations of both clients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from chordwise.decoding import Result, decode
from chordwise.errors import InvalidInput, UnexpectedAnswer
from chordwise.retries import RetryPolicy, exchange
from chordwise.transport import Answer, Call, Steps, encode

_ROOT = "/v1/admin/embedding-migrations"
_STEERED = frozenset({"compare", "switch", "rollback", "finish", "abort"})
_WITH_BODY = frozenset({"compare", "switch"})
_COMPARES_S = 300.0  # a comparison asks both models hundreds of questions


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationProgress(Result):
    """How far the present pass is, over all tenants."""

    tenants: int = 0
    tenants_done: int = 0
    chunks_total: int = 0
    chunks: int = 0
    found: int = 0
    mended: int = 0
    embedded: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelComparison(Result):
    """What both models found; nDCG only where there were judgments."""

    queries: int = 0
    judged: int = 0
    sampled: bool = False
    k: int = 10
    overlap: float = 0.0
    ndcg_active: float | None = None
    ndcg_target: float | None = None
    passed: bool = False
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingMigration(Result):
    """A move to another model. ``active``: searches use it now; ``behind``: documents whose vectors are still to be made
    in the space on standby; ``missing``: chunks that the model gave no vector."""

    number: int
    source: int = 1
    provider: str = ""
    model: str = ""
    dimension: int = 0
    service: str = "default"
    state: str = ""
    active: bool = False
    progress: MigrationProgress = MigrationProgress()
    behind: int = 0
    missing: int | None = None
    comparison: ModelComparison | None = None
    error_code: str | None = None
    error_detail: str | None = None
    created_at: datetime | None = None
    ready_at: datetime | None = None
    switched_at: datetime | None = None
    ended_at: datetime | None = None


class MigrationOperations:
    """What ``Operations`` can do to the installation's embedding model. Every call may be sent twice."""

    _policy: RetryPolicy
    _clock: Callable[[], float]

    def start_migration(
        self, *, provider: str, model: str, dimension: int, service: str = "default"
    ) -> Steps[EmbeddingMigration]:
        """Begin to move to another model, or find the move to it that is under way."""
        body = {"provider": provider, "model": model, "dimension": dimension, "service": service}
        answer = yield from self._migrate(Call(method="POST", path=_ROOT, content=encode(body)))
        return decode(EmbeddingMigration, answer.json())

    def migrations(self) -> Steps[list[EmbeddingMigration]]:
        """Every move, the latest first."""
        said = (yield from self._migrate(Call(method="GET", path=_ROOT))).json()
        if not isinstance(said, dict) or not isinstance(said.get("data"), list):
            raise UnexpectedAnswer(f"{_ROOT} does not answer with a list")
        return [decode(EmbeddingMigration, entry) for entry in said["data"]]

    def steer_migration(self, number: int, what: str, options: Mapping[str, Any]) -> Steps[EmbeddingMigration]:
        """Compare, switch, go back, finish or give up; gives the move as it is afterwards."""
        if what not in _STEERED:
            raise InvalidInput(f"a migration can be told to {', '.join(sorted(_STEERED))}, not {what}")
        content = encode(dict(options)) if what in _WITH_BODY else None
        hold_s = _COMPARES_S if what == "compare" else 0.0
        call = Call(method="POST", path=f"{_ROOT}/{number:d}/{what}", content=content, hold_s=hold_s)
        return decode(EmbeddingMigration, (yield from self._migrate(call)).json())

    def _migrate(self, call: Call) -> Steps[Answer]:
        return exchange(call, self._policy, clock=self._clock)
