"""The limit on deletions in one pass of a repair; beyond it an operator has to confirm."""

from __future__ import annotations

from dataclasses import dataclass

import structlog

from pipeline.database.unit_of_work import unit_of_work
from pipeline.documents import alignment_store, reconcile_store
from pipeline.records import EmbeddingSpace, TenantId
from pipeline.resources import Resources

log = structlog.get_logger(__name__)

DELETED_FREELY = 100  # vectors, or rows of chunks; below this no confirmation is needed, whatever the share


@dataclass(slots=True, kw_only=True)
class DeletionLimit:
    """The limit on one pass over a tenant, with counts of deleted and withheld rows; not thread-safe. ``is_open``
    False: nothing is deleted because the total is too large or was in the previous pass. Withheld deletions decide the
    next pass."""

    vectors: int
    rows: int
    is_open: bool = True
    deleted: int = 0
    withheld: int = 0

    def take(self, *, vectors: int, rows: int) -> bool:
        """Count this many more deletions of vectors and chunk rows, as deleted if allowed (True), else as withheld."""
        wanted = vectors + rows
        if not wanted:
            return True
        self.vectors -= vectors
        self.rows -= rows
        if not self.is_open or self.vectors < 0 or self.rows < 0:
            self.is_open = False
            self.withheld += wanted
            return False
        self.deleted += wanted
        return True

    @property
    def is_exceeded(self) -> bool:
        """Return whether the pass has found more to delete than the limit allows."""
        return self.vectors < 0 or self.rows < 0


def measure(tenant_id: TenantId, use: Resources, space: EmbeddingSpace, *, share: float | None = None) -> DeletionLimit:
    """Return the limit for a pass. ``share``: the share of the tenant's vectors and chunk rows that an operator
    confirmed; None: the settings', if nothing is withheld. If vectors exceed rows by too many, as after restoring an
    old backup, nothing is deleted."""
    with unit_of_work(use.mysql) as work:
        rows = alignment_store.count_chunk_rows(work.connection, tenant_id)
        earlier = reconcile_store.deletions_of(work.connection, tenant_id)
    vectors = alignment_store.count_vectors(use.postgres, tenant_id, table=space.table)
    allowed = use.settings.reconcile_delete_share if share is None else share
    limit = DeletionLimit(
        vectors=max(DELETED_FREELY, int(vectors * allowed)), rows=max(DELETED_FREELY, int(rows * allowed))
    )
    if share is None:
        limit.is_open = not earlier.withheld and vectors - rows <= limit.vectors
    if not limit.is_open:
        log.warning("deletions_withheld", tenant_id=tenant_id, vectors=vectors, rows=rows, withheld=earlier.withheld)
    return limit
