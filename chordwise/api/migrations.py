"""Migrations of the installation to another embedding model."""

from __future__ import annotations

from typing import Any

from chordwise.contract import migration
from chordwise.errors import InvalidInput
from chordwise.resource import Resource, operation
from chordwise.transport import Steps

_ROOT = "/v1/admin/embedding-migrations"
_STEPS = frozenset({"compare", "switch", "rollback", "finish", "abort"})
_WITH_BODY = frozenset({"compare", "switch"})
_COMPARES_S = 300.0  # a comparison asks both models hundreds of questions


MigrationProgress = migration.MigrationProgress
ModelComparison = migration.Comparison
EmbeddingMigration = migration.EmbeddingMigration


class MigrationOperations(Resource):
    """Operations on embedding migrations. Every call may be sent twice."""

    @operation
    def start_migration(
        self, *, provider: str, model: str, dimension: int, service: str = "default"
    ) -> Steps[EmbeddingMigration]:
        """Start the migration of the installation to another embedding model. Needs the operator's key."""
        body = {"provider": provider, "model": model, "dimension": dimension, "service": service}
        return self._one(EmbeddingMigration, "POST", _ROOT, body=body)

    @operation
    def migrations(self) -> Steps[list[EmbeddingMigration]]:
        """List all migrations to another embedding model, newest first."""
        return self._list(EmbeddingMigration, _ROOT)

    @operation
    def steer_migration(self, /, number: int, what: str, **options: Any) -> Steps[EmbeddingMigration]:
        """Compare, switch, rollback, finish or abort a migration; ``options`` are the fields of that request."""
        if what not in _STEPS:
            raise InvalidInput(f"a step of a migration is one of {', '.join(sorted(_STEPS))}, not {what}")
        body = options if what in _WITH_BODY else None
        hold_s = _COMPARES_S if what == "compare" else 0.0
        return self._one(EmbeddingMigration, "POST", f"{_ROOT}/{number:d}/{what}", body=body, hold_s=hold_s)
