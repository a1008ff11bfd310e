"""The queries of a batch and their answers, in the expiring rows of computations: the row of a position in its job holds the
query until it is answered, then the answer."""

from collections.abc import Collection, Iterable, Mapping
from datetime import timedelta
from typing import Any, Final

import orjson

from pipeline.database.rows import insert_many, now, placeholders
from pipeline.database.statements import sql
from pipeline.filters.readers import Principals
from pipeline.jobs.batch_view_store import OWNER, BatchViews
from pipeline.records import JobId

KEPT: Final = timedelta(days=3)  # queries and answers, from when they were written
_DELETED_AT_ONCE: Final = 1000


def repeats(ordinal: int) -> bytes:
    """Return the row of a query that is equal to the one at ``ordinal``."""
    return b"=%d" % ordinal


class Questions(BatchViews):
    """One tenant's queries in batches, for those who accept and answer them."""

    def put(self, job_id: JobId, bodies: Mapping[int, bytes]) -> None:
        """Store queries, or answers in place of theirs, by position."""
        expires_at = now() + KEPT
        rows = [(self._tenant_id, job_id, ordinal, body, expires_at) for ordinal, body in bodies.items()]
        insert_many(self._connection, _PUT, rows)

    def put_owner(self, job_id: JobId, owner: str, principals: Iterable[Principals]) -> None:
        """Store the owner of a batch, and the principals of all its queries."""
        every = set(principals)
        needed = None if None in every else sorted(set().union(*(some or () for some in every)))
        self.put(job_id, {OWNER: orjson.dumps([owner, needed])})

    def states(self, job_id: JobId, ordinals: Collection[int]) -> dict[int, Any]:
        """Return the state and the error of the items at these positions, as rows."""
        return {row.ordinal: row for row in self._run(_STATES, job=job_id, ordinals=sorted(ordinals))}

    def note_sizes(self, job_id: JobId, ordinals: Collection[int]) -> None:
        """Note the size of each stored answer at its item. Call with the items locked."""
        self._run(_SIZES, job=job_id, ordinals=sorted(ordinals))

    def kept_bytes(self) -> int:
        """Return the bytes of the tenant's queries and answers that have not expired."""
        return int(self._run(_KEPT_BYTES, since=now() - KEPT).scalar_one())

    def delete(self, job_id: JobId) -> int:
        """Delete up to a thousand queries and answers of a batch; return how many."""
        return self._run(_DELETE, job=job_id, limit=_DELETED_AT_ONCE).rowcount

    def note_deleted(self, job_id: JobId) -> None:
        """Note at the items that nothing is stored any more."""
        self._run(_NOTE_DELETED, job=job_id)

    def bytes_of(self, job_id: JobId) -> int:
        """Return the bytes of the queries and answers of a batch."""
        return int(self._run(_BYTES_OF, job=job_id).scalar_one())


_PUT = (
    f"INSERT INTO computation_bodies (tenant_id, computation_id, piece, body, expires_at) VALUES ({placeholders(range(5))})"
    " ON DUPLICATE KEY UPDATE body = VALUES(body), expires_at = VALUES(expires_at)"
)
_STATES = sql(
    "SELECT ordinal, state, error_code AS code, error_detail AS detail FROM job_items"
    " WHERE tenant_id = :tenant AND job_id = :job AND ordinal IN :ordinals"
)
_SIZES = sql(
    "UPDATE job_items i JOIN computation_bodies b ON b.tenant_id = i.tenant_id AND b.computation_id = i.job_id"
    " AND b.piece = i.ordinal SET i.body_bytes = LENGTH(b.body)"
    " WHERE i.tenant_id = :tenant AND i.job_id = :job AND i.ordinal IN :ordinals"
)
_KEPT_BYTES = sql(
    "SELECT COALESCE(SUM(i.body_bytes), 0) FROM jobs j JOIN job_items i ON i.tenant_id = j.tenant_id AND i.job_id = j.job_id"
    " AND i.queue = 'batch' WHERE j.tenant_id = :tenant AND j.created_at >= :since"
)
_BYTES_OF = sql("SELECT COALESCE(SUM(body_bytes), 0) FROM job_items WHERE tenant_id = :tenant AND job_id = :job")
_DELETE = sql("DELETE FROM computation_bodies WHERE tenant_id = :tenant AND computation_id = :job LIMIT :limit")
_NOTE_DELETED = sql("UPDATE job_items SET body_bytes = 0 WHERE tenant_id = :tenant AND job_id = :job")
