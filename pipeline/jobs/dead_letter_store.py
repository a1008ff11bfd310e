"""Dead letters: accepted items that failed for good, as a view of the ledger, without document text."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pipeline.database.rows import TenantStore, as_utc, now, record_of
from pipeline.database.statements import same_generation, sql
from pipeline.jobs.job_views import DeadLetter, DeadLetterFilter, LedgerPosition, Payload
from pipeline.records import FailureReason, JobId


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
            values |= {"at": before[0].replace(tzinfo=None), "before_job": before[1], "before_ordinal": before[2]}
        return self._read(where, values, limit=limit)

    def one(self, position: LedgerPosition) -> DeadLetter | None:
        """Return the dead letter at this position, or None."""
        values = {"at_job": position.job_id, "at_ordinal": position.ordinal}
        letters = self._read(" AND i.job_id = :at_job AND i.ordinal = :at_ordinal", values, limit=1)
        return letters[0] if letters else None

    def places(self, chosen: DeadLetterFilter, *, until: datetime, limit: int) -> list[LedgerPosition]:
        """Return the positions of the chosen letters up to ``until``, oldest first."""
        where, values = _where(chosen)
        rows = self._run(
            f"SELECT i.job_id, i.ordinal FROM job_items i WHERE i.tenant_id = :tenant{where}"
            " AND i.dead_at <= :until ORDER BY i.dead_at, i.job_id, i.ordinal LIMIT :limit",
            until=until.replace(tzinfo=None),
            limit=limit,
            **values,
        )
        return [LedgerPosition(job_id=JobId(job_id), ordinal=ordinal) for job_id, ordinal in rows]

    def drop(self, position: LedgerPosition) -> bool:
        """Delete the dead letter and its bytes. The item stays failed. False if there is no such letter."""
        values = {"tenant": self._tenant_id, "job": position.job_id, "ordinal": position.ordinal, "now": now()}
        dropped = self._connection.execute(
            sql(
                "UPDATE job_items SET failure = NULL, dead_at = NULL, updated_at = :now"
                " WHERE tenant_id = :tenant AND job_id = :job AND ordinal = :ordinal AND dead_at IS NOT NULL"
            ),
            values,
        ).rowcount
        if dropped:
            self._connection.execute(_DELETE_PAYLOAD, values)
        return bool(dropped)

    def _read(self, where: str, values: dict[str, Any], *, limit: int) -> list[DeadLetter]:
        rows = self._run(_LETTERS.format(where=where), limit=limit, **values)
        return [
            record_of(
                DeadLetter,
                row,
                place=LedgerPosition(job_id=JobId(row.job_id), ordinal=row.ordinal),
                reason=FailureReason(row.failure),
                code=row.error_code or "",
                detail=row.error_detail,
                failed_at=as_utc(row.dead_at),
                payload=Payload(
                    media_type=row.media_type,
                    source_uri=row.source_uri,
                    body_bytes=row.body_bytes,
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
    return "".join(f" AND i.{name} = :{name}" for name in given), dict(given)


_LETTERS = (
    "SELECT i.job_id, i.ordinal, i.namespace, i.document_id, i.generation, i.failure, i.error_code, i.error_detail,"
    " i.stage, i.attempts, i.dead_at, i.body_bytes, g.media_type, g.source_uri, g.content_hash, EXISTS (SELECT 1"
    f" FROM payloads p WHERE {same_generation('p', 'i')}) AS available FROM job_items i"
    f" LEFT JOIN generations g ON {same_generation('g', 'i')} WHERE i.tenant_id = :tenant"
    f" AND i.dead_at IS NOT NULL{{where}} ORDER BY i.dead_at DESC, i.job_id DESC, i.ordinal DESC LIMIT :limit"
)

_DELETE_PAYLOAD = sql(
    f"DELETE p FROM payloads p JOIN job_items i ON {same_generation('i', 'p')} WHERE i.tenant_id = :tenant"
    " AND i.job_id = :job AND i.ordinal = :ordinal"
)
