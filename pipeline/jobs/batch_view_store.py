"""The queries of a batch and their answers as their owner reads them.

They are in the expiring rows of computations: the row of a position in its job holds the query until it is answered, then
the answer.
"""

from collections.abc import Collection
from typing import Any, Final

import orjson

from pipeline.database.rows import TenantStore
from pipeline.database.statements import sql
from pipeline.filters.readers import Principals
from pipeline.query.compression import is_compressed
from pipeline.records import ItemState, JobId

OWNER: Final = 2**32 - 1  # the position of the row that names who may read the batch
_OVER: Final = (ItemState.SUCCEEDED, ItemState.FAILED, ItemState.CANCELLED)


def repeated(body: bytes) -> int | None:
    """Return the position that `repeats` names; None for a query or an answer of its own."""
    return None if is_compressed(body) else int(body[1:])


class BatchViews(TenantStore):
    """One tenant's batches of queries, for reading."""

    def of(self, job_id: JobId, ordinals: Collection[int]) -> dict[int, bytes]:
        """Return the stored queries or answers at these positions, as far as they have not expired."""
        if not ordinals:
            return {}
        rows = self._run(_BODIES, job=job_id, ordinals=sorted(ordinals))
        return {row.piece: row.body for row in rows}

    def ended(self, job_id: JobId, *, after: int, limit: int) -> list[Any]:
        """Return the items after a position, as rows in order, up to the first that has not ended, each with its ``body``;
        that of a repeated query is the other one's."""
        rows = self._run(_ENDED, job=job_id, after=after, limit=limit).all()
        open_at = next((place for place, row in enumerate(rows) if row.state not in _OVER), len(rows))
        return list(rows[:open_at])

    def is_for(self, job_id: JobId, owner: str, reads_as: Principals) -> bool:
        """Return whether a caller may read the answers of a batch: its owner, and whoever has the principals of all
        its queries."""
        body = self.of(job_id, [OWNER]).get(OWNER)
        if body is None or reads_as is None:
            return reads_as is None
        sender, needed = orjson.loads(body)
        return bool(sender == owner) or (needed is not None and reads_as.issuperset(needed))

    def is_batch(self, job_id: JobId) -> bool:
        """Return whether there is such a job, and it is a batch of queries."""
        return self._run(_IS_BATCH, job=job_id).first() is not None


_BODIES = sql(
    "SELECT piece, body FROM computation_bodies WHERE tenant_id = :tenant AND computation_id = :job AND piece IN :ordinals"
)
_ENDED = sql(
    "SELECT i.ordinal, i.requested_id AS id, i.state, i.error_code AS code, i.error_detail AS detail,"
    " i.error_pointer AS pointer, b.body FROM job_items i LEFT JOIN computation_bodies b ON b.tenant_id = i.tenant_id"
    " AND b.computation_id = i.job_id AND b.piece = i.ordinal AND i.state = 'succeeded'"
    " WHERE i.tenant_id = :tenant AND i.job_id = :job AND i.ordinal > :after ORDER BY i.ordinal LIMIT :limit"
)
_IS_BATCH = sql(
    "SELECT 1 FROM job_items WHERE tenant_id = :tenant AND job_id = :job AND ordinal = 0 AND queue = 'batch'"
)
