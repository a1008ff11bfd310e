"""The ledger of ingestion: jobs, their items, and who holds which item until when.

The broker only rings; what is due and what is done stands here. Every write of a worker carries the fencing token it
got with its claim, so a worker that lost its lease can no longer change anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, bindparam, text

from pipeline.errors import LeaseLost
from pipeline.records import DocumentId, Generation, ItemState, JobId, Namespace, Scope, Stage, TenantId
from pipeline.stores.rows import insert_many, now

_DETAIL_LENGTH = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class NewItem:
    """An entry of a job that is being accepted. With an ``error_code`` or an ``outcome`` it is final from the start."""

    ordinal: int
    document_id: str | None
    generation: int | None = None
    body_bytes: int = 0
    outcome: str | None = None
    error_code: str | None = None
    error_detail: str | None = None
    error_pointer: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """An item that this worker holds."""

    job_id: JobId
    ordinal: int
    generation: Generation
    fencing_token: int
    attempts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """What one bell brought. ``more``: the job has further items that are due now."""

    items: tuple[Claim, ...]
    more: bool


class Ledger:
    """One tenant's jobs, as those see them who accept and carry out work."""

    def __init__(self, connection: Connection, tenant_id: TenantId) -> None:
        self._connection = connection
        self._tenant_id = tenant_id

    def open(self, job_id: JobId, namespace: Namespace, request_id: str, items: Sequence[NewItem]) -> None:
        """Write a job with all its items; one in which nothing is left to do is finished at once."""
        moment = now()
        self._connection.execute(
            text(
                "INSERT INTO jobs (tenant_id, job_id, namespace, total, request_id, created_at, updated_at)"
                " VALUES (:tenant, :job, :namespace, :total, :request, :now, :now)"
            ),
            {
                "tenant": self._tenant_id,
                "job": job_id,
                "namespace": namespace,
                "total": len(items),
                "request": request_id,
                "now": moment,
            },
        )
        insert_many(
            self._connection,
            "INSERT INTO job_items (tenant_id, job_id, ordinal, namespace, document_id, generation, body_bytes, state,"
            " stage, outcome, error_code, error_detail, error_pointer, next_attempt_at, updated_at)"
            " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
            [
                (
                    self._tenant_id,
                    job_id,
                    item.ordinal,
                    namespace,
                    item.document_id,
                    item.generation,
                    item.body_bytes,
                    _first_state(item),
                    Stage.ACCEPTED,
                    item.outcome,
                    item.error_code,
                    _shortened(item.error_detail),
                    item.error_pointer,
                    moment if _first_state(item) is ItemState.QUEUED else None,
                    moment,
                )
                for item in items
            ],
        )
        self.close_if_done([job_id])

    def claim(self, job_id: JobId, *, limit: int, max_bytes: int, lease_s: float) -> Claims:
        """Take items of a job that are due, at most ``limit`` and about ``max_bytes`` of payload, at least one."""
        rows = self._connection.execute(
            _DUE, {"tenant": self._tenant_id, "job": job_id, "now": now(), "limit": limit + 1}
        ).all()
        taken: list[Claim] = []
        size = 0
        for row in rows[:limit]:
            size += row.body_bytes
            if taken and size > max_bytes:
                break
            scope = Scope(tenant_id=self._tenant_id, namespace=Namespace(row.namespace))
            generation = Generation(scope=scope, document_id=DocumentId(row.document_id), number=row.generation)
            taken.append(
                Claim(
                    job_id=job_id,
                    ordinal=row.ordinal,
                    generation=generation,
                    fencing_token=row.fencing_token + 1,
                    attempts=row.attempts + 1,
                )
            )
        if taken:
            self._connection.execute(
                _TAKE,
                {
                    "tenant": self._tenant_id,
                    "job": job_id,
                    "ordinals": [claim.ordinal for claim in taken],
                    "lease": now() + timedelta(seconds=lease_s),
                    "now": now(),
                },
            )
        return Claims(items=tuple(taken), more=len(taken) < len(rows))

    def hold(self, claims: Sequence[Claim]) -> None:
        """Lock these items until the transaction ends. Raises LeaseLost if any is not ours any more."""
        for job_id, group in _by_job(claims):
            rows = self._connection.execute(
                _HOLD,
                {"tenant": self._tenant_id, "job": job_id, "ordinals": [claim.ordinal for claim in group]},
            )
            tokens = {row.ordinal: row.fencing_token for row in rows if row.state == ItemState.RUNNING}
            lost = [claim.ordinal for claim in group if tokens.get(claim.ordinal) != claim.fencing_token]
            if lost:
                raise LeaseLost(f"{len(lost)} items of job {job_id} are held by another worker or were cancelled")

    def advance(self, claims: Sequence[Claim], stage: Stage, *, lease_s: float) -> None:
        """Note the step that was finished and renew the lease. Call ``hold`` first."""
        self._update(
            claims,
            "stage = :stage, lease_until = :lease",
            {"stage": stage, "lease": now() + timedelta(seconds=lease_s)},
        )

    def succeed(self, claims: Mapping[Claim, int], *, outcome: str) -> None:
        """End items well; the value is the number of chunks. Call ``hold`` first."""
        moment = now()
        insert = [
            (self._tenant_id, claim.job_id, claim.ordinal, chunk_count, moment)
            for claim, chunk_count in sorted(claims.items(), key=lambda pair: (pair[0].job_id, pair[0].ordinal))
        ]
        for tenant, job_id, ordinal, chunk_count, when in insert:
            self._connection.exec_driver_sql(
                "UPDATE job_items SET state = 'succeeded', stage = 'publish', outcome = %s, chunk_count = %s,"
                " lease_until = NULL, next_attempt_at = NULL, error_code = NULL, error_detail = NULL, updated_at = %s"
                " WHERE tenant_id = %s AND job_id = %s AND ordinal = %s",
                (outcome, chunk_count, when, tenant, job_id, ordinal),
            )

    def fail(self, claims: Sequence[Claim], *, code: str, detail: str) -> None:
        """End items badly, with a code and a sentence. Call ``hold`` first."""
        self._update(
            claims,
            "state = 'failed', lease_until = NULL, next_attempt_at = NULL, error_code = :code, error_detail = :detail",
            {"code": code, "detail": _shortened(detail)},
        )

    def put_back(self, claims: Sequence[Claim], *, delay_s: float, code: str, detail: str) -> None:
        """Let items be tried again after a while, remembering why. Call ``hold`` first."""
        self._update(
            claims,
            "state = 'queued', lease_until = NULL, next_attempt_at = :due, error_code = :code, error_detail = :detail",
            {"due": now() + timedelta(seconds=delay_s), "code": code, "detail": _shortened(detail)},
        )

    def close_if_done(self, job_ids: Sequence[JobId]) -> list[JobId]:
        """Finish those jobs that have no open item left; gives the ones this call finished."""
        finished = []
        for job_id in sorted(set(job_ids)):
            values = {"tenant": self._tenant_id, "job": job_id, "now": now()}
            # The job's row is locked first: two workers ending the last two items cannot each overlook the other.
            self._connection.execute(_LOCK_JOB, values)
            done = self._connection.execute(_CLOSE, values).rowcount
            if done:
                finished.append(job_id)
            else:
                self._connection.execute(_TOUCH_JOB, values)
        return finished

    def request_id(self, job_id: JobId) -> str:
        """The id of the request that made the job, for logs; empty if there is no such job."""
        found = self._connection.execute(
            text("SELECT request_id FROM jobs WHERE tenant_id = :tenant AND job_id = :job"),
            {"tenant": self._tenant_id, "job": job_id},
        ).scalar_one_or_none()
        return str(found or "")

    def release_expired(self) -> int:
        """Queue again what a worker held longer than its lease. Gives how many items."""
        return self._connection.execute(
            text(
                "UPDATE job_items SET state = 'queued', lease_until = NULL, next_attempt_at = :now,"
                " fencing_token = fencing_token + 1, updated_at = :now"
                " WHERE tenant_id = :tenant AND state = 'running' AND lease_until < :now"
            ),
            {"tenant": self._tenant_id, "now": now()},
        ).rowcount

    def due(self) -> dict[JobId, int]:
        """How many items of which job could be worked on now."""
        rows = self._connection.execute(
            text(
                "SELECT job_id, COUNT(*) FROM job_items WHERE tenant_id = :tenant AND state = 'queued'"
                " AND next_attempt_at <= :now GROUP BY job_id ORDER BY job_id"
            ),
            {"tenant": self._tenant_id, "now": now()},
        )
        return {JobId(job_id): count for job_id, count in rows}

    def unfinished(self) -> list[JobId]:
        """Jobs that are not marked as finished."""
        rows = self._connection.execute(
            text("SELECT job_id FROM jobs WHERE tenant_id = :tenant AND finished_at IS NULL"),
            {"tenant": self._tenant_id},
        ).scalars()
        return [JobId(job_id) for job_id in rows]

    def _update(self, claims: Sequence[Claim], assignments: str, values: dict[str, Any]) -> None:
        for job_id, group in _by_job(claims):
            statement = text(
                f"UPDATE job_items SET {assignments}, updated_at = :now"
                " WHERE tenant_id = :tenant AND job_id = :job AND ordinal IN :ordinals"
            ).bindparams(bindparam("ordinals", expanding=True))
            ordinals = [claim.ordinal for claim in group]
            self._connection.execute(
                statement, {"tenant": self._tenant_id, "job": job_id, "ordinals": ordinals, "now": now(), **values}
            )


def tenants_with_open_jobs(connection: Connection) -> list[TenantId]:
    """Whom the sweeper has to visit. The one statement that looks across tenants; it reads nothing but their ids."""
    rows = connection.execute(text("SELECT DISTINCT tenant_id FROM jobs WHERE finished_at IS NULL")).scalars()
    return [TenantId(tenant_id) for tenant_id in rows]


_DUE = text(
    "SELECT ordinal, namespace, document_id, generation, body_bytes, fencing_token, attempts FROM job_items"
    " WHERE tenant_id = :tenant AND job_id = :job AND state = 'queued' AND next_attempt_at <= :now"
    " LIMIT :limit FOR UPDATE SKIP LOCKED"
)

_TAKE = text(
    "UPDATE job_items SET state = 'running', lease_until = :lease, fencing_token = fencing_token + 1,"
    " attempts = attempts + 1, updated_at = :now"
    " WHERE tenant_id = :tenant AND job_id = :job AND ordinal IN :ordinals"
).bindparams(bindparam("ordinals", expanding=True))

_HOLD = text(
    "SELECT ordinal, state, fencing_token FROM job_items"
    " WHERE tenant_id = :tenant AND job_id = :job AND ordinal IN :ordinals ORDER BY ordinal FOR UPDATE"
).bindparams(bindparam("ordinals", expanding=True))

_LOCK_JOB = text("SELECT job_id FROM jobs WHERE tenant_id = :tenant AND job_id = :job FOR UPDATE")

_CLOSE = text(
    "UPDATE jobs SET finished_at = :now, updated_at = :now"
    " WHERE tenant_id = :tenant AND job_id = :job AND finished_at IS NULL AND NOT EXISTS ("
    "SELECT 1 FROM job_items i WHERE i.tenant_id = :tenant AND i.job_id = :job AND i.state IN ('queued', 'running'))"
)

_TOUCH_JOB = text(
    "UPDATE jobs SET updated_at = :now WHERE tenant_id = :tenant AND job_id = :job AND finished_at IS NULL"
)


def _first_state(item: NewItem) -> ItemState:
    if item.error_code is not None:
        return ItemState.FAILED
    return ItemState.QUEUED if item.outcome is None else ItemState.SUCCEEDED


def _shortened(detail: str | None) -> str | None:
    return detail if detail is None or len(detail) <= _DETAIL_LENGTH else detail[: _DETAIL_LENGTH - 1] + "…"


def _by_job(claims: Sequence[Claim]) -> list[tuple[JobId, list[Claim]]]:
    grouped: dict[JobId, list[Claim]] = {}
    for claim in sorted(claims, key=lambda claim: (claim.job_id, claim.ordinal)):
        grouped.setdefault(claim.job_id, []).append(claim)
    return list(grouped.items())
