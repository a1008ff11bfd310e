"""Cancel, retry, pause and resume jobs in the ledger; read and drop dead letters, the items that failed for good."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from chordwise.contract.job import DeadLetter, PayloadReference
from pipeline.database.rows import TenantStore, now, record_of, slices, to_naive
from pipeline.database.statements import same_generation, sql
from pipeline.documents.outcome_store import DocumentOutcomes, of_dead_letters
from pipeline.jobs.job_views import MENDED_ELSEWHERE, DeadLetterFilter, LedgerPosition, advice_on, is_retryable
from pipeline.jobs.states import Move, becomes, may
from pipeline.records import FailureReason, Generation, ItemState, JobId

_ROWS_PER_STATEMENT = 1000


class JobControl(TenantStore):
    """One tenant's jobs, as their owner steers them. Items are locked before their job, as in workers."""

    def cancel(self, job_id: JobId) -> tuple[int, list[Generation], list[Generation]]:
        """Cancel every open item. The fencing tokens move, so later writes of a worker are refused.

        Return the number of items, the generations that may have unpublished rows, and those of which a worker may still
        be writing rows.
        """
        rows = self._run(_OPEN, job=job_id).all()
        if rows:
            DocumentOutcomes(self._connection, self._tenant_id).cancelled(job_id, where=may(Move.CANCEL))
            self._run(_CANCEL, job=job_id, now=now())
        tried = [
            (row.state == ItemState.RUNNING, self._generation(row.namespace, row.document_id, row.generation))
            for row in rows
            if row.attempts and row.generation is not None  # a query leaves no rows
        ]
        begun = [generation for is_held, generation in tried if not is_held]
        return len(rows), begun, [generation for is_held, generation in tried if is_held]

    def was_cancelled(self, job_id: JobId) -> bool:
        """Return whether any item of the job was cancelled."""
        where = "tenant_id = :tenant AND job_id = :job AND state = 'cancelled'"
        return self._run(f"SELECT 1 FROM job_items WHERE {where} LIMIT 1", job=job_id).first() is not None

    def reopen(self, job_id: JobId, ordinals: Sequence[int] | None = None, *, dead_only: bool = False) -> int:
        """Count the documents that `requeue` would queue as the tenant's again; return the number of items."""
        items = 0
        for where in _chosen(ordinals, dead_only=dead_only):
            if count := self._run(_REPLAYABLE.format(where=where), job=job_id).scalar_one():
                DocumentOutcomes(self._connection, self._tenant_id).reopened(job_id, where=where)
                items += int(count)
        return items

    def requeue(self, job_id: JobId, ordinals: Sequence[int] | None = None, *, dead_only: bool = False) -> int:
        """Queue the job's cancelled items and those that failed by a cause outside of the document, or these, as new, after
        `reopen`; return how many. Items refused in the request or dropped from the dead letters have nothing to retry."""
        moment = now()
        queued = sum(
            self._run(_REQUEUE.format(where=where), job=job_id, now=moment).rowcount
            for where in _chosen(ordinals, dead_only=dead_only)
        )
        if queued:
            self._run(_REVISE.format(assignment="finished_at = NULL", where=""), job=job_id, now=moment)
        return queued

    def pause(self, job_id: JobId) -> None:
        """Pause the job: workers take no further item of it, and finish those they hold."""
        pause = "paused_at = COALESCE(paused_at, :now)"
        self._run(_REVISE.format(assignment=pause, where=" AND finished_at IS NULL"), job=job_id, now=now())

    def resume(self, job_id: JobId) -> None:
        """Resume the job."""
        self._run(
            _REVISE.format(assignment="paused_at = NULL", where=" AND finished_at IS NULL"), job=job_id, now=now()
        )


_OPEN = sql(
    "SELECT ordinal, state, namespace, document_id, generation, attempts FROM job_items"
    f" WHERE tenant_id = :tenant AND job_id = :job AND {may(Move.CANCEL)} ORDER BY ordinal FOR UPDATE"
)

_CANCEL = sql(
    f"UPDATE job_items SET {becomes(Move.CANCEL)}, fencing_token = fencing_token + 1, lease_until = NULL,"
    " next_attempt_at = NULL, outcome = NULL, updated_at = :now"
    f" WHERE tenant_id = :tenant AND job_id = :job AND {may(Move.CANCEL)}"
)

_REVISE = (
    "UPDATE jobs SET {assignment}, updated_at = :now, revision = revision + 1"
    " WHERE tenant_id = :tenant AND job_id = :job{where}"
)

_REPLAYABLE = "SELECT COUNT(*) FROM job_items WHERE tenant_id = :tenant AND job_id = :job AND {where}"

_REQUEUE = (
    f"UPDATE job_items SET {becomes(Move.REPLAY)}, fencing_token = fencing_token + 1, attempts = 0, stage = 'accepted',"
    " queue = IF(queue IN ('batch', 'source'), queue, 'ingest'), next_attempt_at = :now, lease_until = NULL, outcome = NULL,"
    " chunk_count = 0, reused_count = 0,"
    " error_code = NULL, error_detail = NULL, error_pointer = NULL, failure = NULL, dead_at = NULL,"
    " failed_revision = NULL, updated_at = :now"
    " WHERE tenant_id = :tenant AND job_id = :job AND {where}"
)


_ELSEWHERE = ", ".join(f"'{code}'" for code in MENDED_ELSEWHERE)
# Another attempt may help, as `is_retryable` has it: failure and code of the item alone.
_RETRYABLE = f"(failure <> 'rejected' OR error_code IN ({_ELSEWHERE}))"


def _chosen(ordinals: Sequence[int] | None, *, dead_only: bool) -> Iterator[str]:
    """Yield conditions on items: those of a job that another attempt may help, or these in groups that fit a statement."""
    of_job = f"(state = 'cancelled' OR dead_at IS NOT NULL AND {_RETRYABLE})"
    where = f"{may(Move.REPLAY)} AND {'dead_at IS NOT NULL' if dead_only else of_job}"
    if ordinals is None:
        yield where
    for batch in slices(sorted(ordinals or ()), _ROWS_PER_STATEMENT):
        yield f"{where} AND ordinal IN ({', '.join(str(int(ordinal)) for ordinal in batch)})"


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
        """Return the positions of the chosen letters up to ``until`` that another attempt may help, oldest first. Where
        a code is chosen by name, the others with that code too."""
        where, values = _where(chosen)
        if chosen.code is None:
            where += f" AND {_RETRYABLE}"
        statement = (
            f"SELECT i.job_id, i.ordinal FROM job_items i {of_dead_letters('i')} WHERE i.tenant_id = :tenant{where}"
            f" AND {_AVAILABLE} AND i.dead_at <= :until ORDER BY i.dead_at, i.job_id, i.ordinal LIMIT :limit"
        )
        rows = self._run(statement, until=to_naive(until), limit=limit, **values)
        return [record_of(LedgerPosition, row) for row in rows]

    def drop(self, position: LedgerPosition) -> list[Generation]:
        """Delete the dead letter and its bytes, also those of earlier uploads of the document that failed, and return these
        uploads; none if there is no such letter. The items stay failed."""
        letter = self.one(position)
        if letter is None:
            return []
        of = {"namespace": letter.namespace, "document_id": letter.document_id, "number": letter.generation}
        numbers = self._run(f"SELECT i.generation FROM job_items i WHERE {_EARLIER}", **of).scalars().all()
        self._run(_DELETE_PAYLOADS, **of)
        self._run(_DROP, now=now(), **of)
        return [self._generation(letter.namespace, letter.document_id, number) for number in numbers]

    def _read(self, where: str, values: dict[str, Any], *, limit: int) -> list[DeadLetter]:
        rows = self._run(_LETTERS.format(where=where), limit=limit, **values)
        return [_letter(row) for row in rows]


def _letter(row: Any) -> DeadLetter:
    position, reason, available = record_of(LedgerPosition, row), FailureReason(row.failure), bool(row.available)
    content_hash = row.content_hash.hex() if row.content_hash and row.bytes else None
    return record_of(
        DeadLetter,
        row,
        id=position.to_id(),
        reason=reason,
        retryable=is_retryable(reason, row.code, available=available),
        advice=advice_on(reason, row.code, available=available),
        payload=record_of(PayloadReference, row, content_hash=content_hash, available=available),
    )


def _where(chosen: DeadLetterFilter) -> tuple[str, dict[str, Any]]:
    columns = {
        "job_id": chosen.job_id,
        "namespace": chosen.namespace,
        "error_code": chosen.code,
        "failure": chosen.reason.value if chosen.reason else None,
    }
    given = {name: value for name, value in columns.items() if value is not None}
    return "".join(f" AND i.{name} = :{name}" for name in given), given


_AVAILABLE = f"EXISTS (SELECT 1 FROM payloads p WHERE {same_generation('p', 'i')})"

_LETTERS = (
    "SELECT i.job_id, i.ordinal, i.namespace, i.document_id, i.generation, i.failure, COALESCE(i.error_code, '') AS code,"
    " i.error_detail AS detail, i.stage, i.attempts, i.dead_at AS failed_at, i.body_bytes AS bytes, g.title, g.media_type,"
    f" g.source_uri AS uri, g.content_hash, {_AVAILABLE} AS available"
    f" FROM job_items i {of_dead_letters('i')} LEFT JOIN generations g ON {same_generation('g', 'i')}"
    " WHERE i.tenant_id = :tenant AND i.dead_at IS NOT NULL{where}"
    " ORDER BY i.dead_at DESC, i.job_id DESC, i.ordinal DESC LIMIT :limit"
)

_EARLIER = (
    "i.tenant_id = :tenant AND i.dead_at IS NOT NULL AND i.namespace = :namespace AND i.document_id = :document_id"
    " AND i.generation <= :number"
)

_DROP = f"UPDATE job_items i SET i.failure = NULL, i.dead_at = NULL, i.updated_at = :now WHERE {_EARLIER}"

_DELETE_PAYLOADS = f"DELETE p FROM payloads p JOIN job_items i ON {same_generation('i', 'p')} WHERE {_EARLIER}"
