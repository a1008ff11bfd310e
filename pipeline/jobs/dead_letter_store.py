"""Dead letters: accepted items that failed for good, as a view of the ledger, without document text."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pipeline.database.rows import TenantStore, now, record_of, to_naive
from pipeline.database.statements import same_generation
from pipeline.jobs.job_views import DeadLetter, DeadLetterFilter, LedgerPosition, Payload
from pipeline.records import FailureReason


class DeadLetters(TenantStore):
    """One tenant's dead letters."""

    def page(
        self, chosen: DeadLetterFilter, *, before: tuple[datetime, str, int] | None, limit: int
    ) -> list[DeadLetter]:
        """Return dead letters, newest first, before the given time, job and ordinal."""
        where, values = _where(chosen)
        if before is not None:
            where += (
                " AND (i.dead_at < :at OR (i.dead_at = :at AND (i.job_id < :before_job"
                " OR (i.job_id = :before_job AND i.ordinal < :before_ordinal))))"
            )
            values |= {"at": to_naive(before[0]), "before_job": before[1], "before_ordinal": before[2]}
        return self._read(where, values, limit=limit)

    def one(self, position: LedgerPosition) -> DeadLetter | None:
        """Return the dead letter at this position, or None."""
        values = {"at_job": position.job_id, "at_ordinal": position.ordinal}
        return next(iter(self._read(" AND i.job_id = :at_job AND i.ordinal = :at_ordinal", values, limit=1)), None)

    def positions(self, chosen: DeadLetterFilter, *, until: datetime, limit: int) -> list[LedgerPosition]:
        """Return the positions of the chosen letters up to ``until``, oldest first."""
        where, values = _where(chosen)
        statement = (
            f"SELECT i.job_id, i.ordinal FROM job_items i WHERE i.tenant_id = :tenant{where}"
            " AND i.dead_at <= :until ORDER BY i.dead_at, i.job_id, i.ordinal LIMIT :limit"
        )
        rows = self._run(statement, until=to_naive(until), limit=limit, **values)
        return [record_of(LedgerPosition, row) for row in rows]

    def drop(self, position: LedgerPosition) -> bool:
        """Delete the dead letter and its bytes. The item stays failed. False if there is no such letter."""
        dropped = self._run(_DROP, job=position.job_id, ordinal=position.ordinal, now=now()).rowcount
        if dropped:
            self._run(_DELETE_PAYLOAD, job=position.job_id, ordinal=position.ordinal)
        return bool(dropped)

    def _read(self, where: str, values: dict[str, Any], *, limit: int) -> list[DeadLetter]:
        rows = self._run(_LETTERS.format(where=where), limit=limit, **values)
        return [
            record_of(
                DeadLetter,
                row,
                position=record_of(LedgerPosition, row),
                reason=FailureReason(row.failure),
                payload=record_of(
                    Payload,
                    row,
                    content_hash=row.content_hash.hex() if row.content_hash and row.body_bytes else None,
                    available=bool(row.available),
                ),
            )
            for row in rows
        ]


def _where(chosen: DeadLetterFilter) -> tuple[str, dict[str, Any]]:
    columns = {
        "job_id": chosen.job_id,
        "namespace": chosen.namespace,
        "error_code": chosen.code,
        "failure": chosen.reason.value if chosen.reason else None,
    }
    given = {name: value for name, value in columns.items() if value is not None}
    return "".join(f" AND i.{name} = :{name}" for name in given), given


_LETTERS = (
    "SELECT i.job_id, i.ordinal, i.namespace, i.document_id, i.generation, i.failure, COALESCE(i.error_code, '') AS code,"
    " i.error_detail AS detail, i.stage, i.attempts, i.dead_at AS failed_at, i.body_bytes, g.title, g.media_type,"
    f" g.source_uri, g.content_hash, EXISTS (SELECT 1 FROM payloads p WHERE {same_generation('p', 'i')}) AS available"
    f" FROM job_items i LEFT JOIN generations g ON {same_generation('g', 'i')}"
    " WHERE i.tenant_id = :tenant AND i.dead_at IS NOT NULL{where}"
    " ORDER BY i.dead_at DESC, i.job_id DESC, i.ordinal DESC LIMIT :limit"
)

_DROP = (
    "UPDATE job_items SET failure = NULL, dead_at = NULL, updated_at = :now"
    " WHERE tenant_id = :tenant AND job_id = :job AND ordinal = :ordinal AND dead_at IS NOT NULL"
)

_DELETE_PAYLOAD = (
    f"DELETE p FROM payloads p JOIN job_items i ON {same_generation('i', 'p')} WHERE i.tenant_id = :tenant"
    " AND i.job_id = :job AND i.ordinal = :ordinal"
)
