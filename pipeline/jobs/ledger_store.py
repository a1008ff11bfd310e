"""The ledger of ingestion: jobs, items, and who holds an item until when; the broker only notifies. Every write carries
the claim's fencing token, so a worker that lost its lease changes nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import accumulate, groupby
from operator import attrgetter
from typing import Any, Final

from sqlalchemy import Connection

from chordwise.contract.job import Renamed
from pipeline.database.rows import TenantStore, insert_many, now, placeholders, record_of
from pipeline.database.statements import TenantsWith, same_document, same_generation, sql
from pipeline.documents.outcome_store import DocumentOutcomes
from pipeline.errors import LeaseLost
from pipeline.jobs.outbox_store import Outbox
from pipeline.jobs.states import Move, becomes, may
from pipeline.records import (
    FailureReason,
    Generation,
    IngestQueue,
    ItemState,
    JobId,
    Namespace,
    Priority,
    Stage,
    TenantId,
)

WORKER_LOST: Final = "worker_lost"  # the code of an item whose lease ran out
_DETAIL_LENGTH = 1000
_DEATHS = 2  # of workers, after which an item is taken alone, since it may be what ends them


@dataclass(frozen=True, slots=True, kw_only=True)
class NewItem:
    """An entry of a new job, final with ``error_code`` or ``outcome``. ``requested_id``: the id sent, if replaced."""

    ordinal: int
    document_id: str | None
    generation: int | None = None
    body_bytes: int = 0
    outcome: str | None = None
    error_code: str | None = None
    error_detail: str | None = None
    error_pointer: str | None = None
    requested_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemClaim:
    """An item that this worker holds. ``again``: it has begun to write. ``to_fetch``: its bytes are not there yet."""

    job_id: JobId
    ordinal: int
    generation: Generation
    fencing_token: int
    attempts: int
    again: bool = False
    to_fetch: bool = False

    @property
    def may_have_rows(self) -> bool:
        """Whether an earlier attempt may have left rows."""
        return self.again or self.fencing_token > 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """The claimed items of a job. ``more``: further items are due now."""

    items: tuple[ItemClaim, ...]
    more: bool


def by_job(claims: Sequence[ItemClaim]) -> list[tuple[JobId, list[ItemClaim]]]:
    """Group claims by job, both in order."""
    ordered = sorted(claims, key=attrgetter("job_id", "ordinal"))
    return [(job_id, list(group)) for job_id, group in groupby(ordered, key=attrgetter("job_id"))]


class Ledger(TenantStore):
    """One tenant's jobs, for the code that accepts and carries out work."""

    def __init__(self, connection: Connection, tenant_id: TenantId) -> None:
        super().__init__(connection, tenant_id)
        self.deliveries = 0  # to webhooks, written to the outbox by this transaction

    def total(self, job_id: JobId) -> int | None:
        """Return the number of items of a job; None if there is no such job."""
        total: int | None = self._run(_TOTAL, job=job_id).scalar_one_or_none()
        return total

    def renamed(self, job_id: JobId) -> tuple[Renamed, ...]:
        """Return the documents that were given another id."""
        statement = (
            "SELECT ordinal, requested_id, document_id FROM job_items"
            " WHERE tenant_id = :tenant AND job_id = :job AND requested_id IS NOT NULL ORDER BY ordinal"
        )
        return tuple(record_of(Renamed, row) for row in self._run(statement, job=job_id))

    def open(
        self,
        job_id: JobId,
        namespace: Namespace,
        request_id: str,
        items: Sequence[NewItem],
        *,
        priority: Priority = Priority.BULK,
        queue: IngestQueue = IngestQueue.INGEST,
    ) -> None:
        """Write a job with all its items in a queue; finish it at once if none is left to do."""
        moment = now()
        self._run(
            "INSERT INTO jobs (tenant_id, job_id, namespace, total, request_id, priority, created_at, updated_at)"
            " VALUES (:tenant, :job, :namespace, :total, :request, :priority, :now, :now)",
            job=job_id,
            namespace=namespace,
            total=len(items),
            request=request_id,
            priority=priority.value,
            now=moment,
        )
        self._insert(job_id, namespace, items, queue, moment)
        self.close_if_done([job_id])

    def extend(self, job_id: JobId, namespace: Namespace, items: Sequence[NewItem]) -> None:
        """Add items to a job whose claimed item made them; their ordinals count from the job's end. Call ``hold`` first."""
        total = self._run(f"{_TOTAL} FOR UPDATE", job=job_id).scalar_one()
        numbered = [replace(item, ordinal=total + position) for position, item in enumerate(items)]
        self._insert(job_id, namespace, numbered, IngestQueue.INGEST, now())
        self._run(_GROW, job=job_id, total=total + len(numbered), now=now())

    def open_items(self, job_id: JobId) -> int:
        """Return how many items of a job have not ended."""
        return int(self._run(_OPEN_ITEMS, job=job_id).scalar_one())

    def _insert(
        self, job_id: JobId, namespace: Namespace, items: Sequence[NewItem], queue: IngestQueue, moment: datetime
    ) -> None:
        insert_many(
            self._connection,
            "INSERT INTO job_items (tenant_id, job_id, ordinal, namespace, document_id, generation, body_bytes, state,"
            " stage, outcome, error_code, error_detail, error_pointer, failed_revision, next_attempt_at, updated_at,"
            f" requested_id, queue) VALUES ({placeholders(range(18))})",
            [
                (
                    self._tenant_id,
                    job_id,
                    item.ordinal,
                    namespace,
                    item.document_id,
                    item.generation,
                    item.body_bytes,
                    state,
                    Stage.ACCEPTED,
                    item.outcome,
                    item.error_code,
                    _shortened(item.error_detail),
                    item.error_pointer,
                    1 if state is ItemState.FAILED else None,
                    moment if state is ItemState.QUEUED else None,
                    moment,
                    item.requested_id,
                    queue.value,
                )
                for item, state in ((item, _first_state(item)) for item in items)
            ],
        )

    def claim(
        self,
        job_id: JobId,
        *,
        limit: int,
        max_bytes: int,
        lease_s: float,
        fetch_limit: int | None = None,
        queue: IngestQueue = IngestQueue.INGEST,
    ) -> Claims:
        """Claim a job's due items of a queue, at most ``limit`` and about ``max_bytes``, at least one: either items with
        bytes or up to ``fetch_limit`` to be fetched. An item that two workers did not survive is claimed alone, after
        others."""
        fetch_limit = limit if fetch_limit is None else fetch_limit
        moment = now()
        least = 0 if fetch_limit else 1
        due = self._run(_DUE, job=job_id, queue=queue.value, now=moment, limit=limit + 1, least=least).all()
        rows = [row for row in due if row.error_code != WORKER_LOST or row.attempts < _DEATHS] or due[:1]
        alike = [row for row in rows if bool(row.body_bytes) == bool(rows[0].body_bytes)]
        alike = alike[: limit if rows and rows[0].body_bytes else min(limit, fetch_limit)]
        sizes = accumulate(row.body_bytes for row in alike)
        taken = [row for row, size in zip(alike, sizes, strict=True) if row is alike[0] or size <= max_bytes]
        claims = tuple(
            ItemClaim(
                job_id=job_id,
                ordinal=row.ordinal,
                generation=self._generation(row.namespace, row.document_id, row.generation),
                fencing_token=row.fencing_token + 1,
                attempts=row.attempts + 1,
                to_fetch=not row.body_bytes,
            )
            for row in taken
        )
        if claims:
            ordinals = [claim.ordinal for claim in claims]
            self._run(_TAKE, job=job_id, ordinals=ordinals, lease=now() + timedelta(seconds=lease_s), now=now())
        return Claims(items=claims, more=len(claims) < len(due))

    def hold(self, claims: Sequence[ItemClaim]) -> None:
        """Lock these items until the transaction ends. Raises LeaseLost if another worker holds one."""
        lost = len(claims) - len(self.still_held(claims))
        if lost:
            raise LeaseLost(f"{lost} of {len(claims)} items are held by another worker or were cancelled")

    def still_held(self, claims: Sequence[ItemClaim]) -> list[ItemClaim]:
        """Return the claims that this worker still holds, locked until the transaction ends."""
        held: list[ItemClaim] = []
        for job_id, group in by_job(claims):
            rows = self._run(_HOLD, job=job_id, ordinals=[claim.ordinal for claim in group])
            tokens = {row.ordinal: row.fencing_token for row in rows if row.state == ItemState.RUNNING}
            held += [claim for claim in group if tokens.get(claim.ordinal) == claim.fencing_token]
        return held

    def advance(self, claims: Sequence[ItemClaim], stage: Stage, *, lease_s: float) -> None:
        """Record the finished step and renew the lease. Call ``hold`` first."""
        values = {"stage": stage, "lease": now() + timedelta(seconds=lease_s)}
        self._update(claims, "stage = :stage, lease_until = :lease", values)

    def succeed(
        self, claims: Mapping[ItemClaim, int], *, outcome: str, reused: Mapping[ItemClaim, int] | None = None
    ) -> None:
        """Mark items as succeeded with their chunks, ``reused`` of them without embedding. Call ``hold`` first."""
        for job_id, group in by_job(list(claims)):
            chunks = [value for claim in group for value in (claim.ordinal, claims[claim])]
            reuses = [value for claim in group for value in (claim.ordinal, (reused or {}).get(claim, 0))]
            cases = " ".join(["WHEN %s THEN %s"] * len(group))
            self._connection.exec_driver_sql(
                f"UPDATE job_items SET {becomes(Move.SUCCEED)}, stage = 'publish', outcome = %s,"
                f" chunk_count = CASE ordinal {cases} END, reused_count = CASE ordinal {cases} END,"
                " lease_until = NULL, next_attempt_at = NULL, error_code = NULL, error_detail = NULL, updated_at = %s"
                f" WHERE tenant_id = %s AND job_id = %s AND ordinal IN ({placeholders(group)}) AND {may(Move.SUCCEED)}",
                (outcome, *chunks, *reuses, now(), self._tenant_id, job_id, *(claim.ordinal for claim in group)),
            )

    def fail(
        self, claims: Sequence[ItemClaim], *, code: str, detail: str, reason: FailureReason = FailureReason.REJECTED
    ) -> None:
        """Mark items as failed, with a code and a sentence: they become dead letters. Call ``hold`` first."""
        generations = [claim.generation for claim in claims]
        DocumentOutcomes(self._connection, self._tenant_id).failed(
            generations, refused=reason is FailureReason.REJECTED
        )
        for job_id, _ in by_job(claims):  # locks the job, so that failures are seen in the order of their revisions
            self._run(_NEXT_REVISION, job=job_id)
        self._update(
            claims,
            f"{becomes(Move.FAIL)}, lease_until = NULL, next_attempt_at = NULL, error_code = :code,"
            " error_detail = :detail, failure = :reason, dead_at = :now, failed_revision ="
            " (SELECT j.revision FROM jobs j WHERE j.tenant_id = :tenant AND j.job_id = :job)",
            {"code": code, "detail": _shortened(detail), "reason": reason.value},
            move=Move.FAIL,
        )

    def put_back(
        self,
        claims: Sequence[ItemClaim],
        *,
        delay_s: float,
        code: str,
        detail: str,
        counted: bool = True,
        queue: IngestQueue | None = None,
    ) -> None:
        """Queue items again for later, with the reason. Call ``hold`` first. ``counted``: the attempt counts.
        ``queue``: another queue than the present one, which the workers of that queue claim them from."""
        uncount = "" if counted else "attempts = GREATEST(attempts, 1) - 1, "
        move_to = "" if queue is None else f"queue = '{queue.value}', "
        self._update(
            claims,
            f"{uncount}{move_to}{becomes(Move.PUT_BACK)}, lease_until = NULL, next_attempt_at = :due, error_code = :code,"
            " error_detail = :detail",
            {"due": now() + timedelta(seconds=delay_s), "code": code, "detail": _shortened(detail)},
            move=Move.PUT_BACK,
        )

    def close_if_done(self, job_ids: Sequence[JobId], *, touch: bool = True) -> list[JobId]:
        """Finish jobs without open items and return those finished here. ``touch``: revise the others too."""
        finished = []
        for job_id in sorted(set(job_ids)):
            # The job's row is locked first: two workers ending the last two items cannot each overlook the other.
            self._run(_LOCK_JOB, job=job_id)
            if self._run(_CLOSE, job=job_id, now=now()).rowcount:
                finished.append(job_id)
                self.deliveries += Outbox(self._connection, self._tenant_id).job_ended(job_id)
            elif touch:
                self._run(_TOUCH_JOB, job=job_id, now=now())
        return finished

    def release_expired(self) -> int:
        """Queue items with an expired lease again, with the reason; return how many."""
        return self._run(_RELEASE_EXPIRED, now=now(), code=WORKER_LOST).rowcount

    def wake(self, *, codes: Sequence[str]) -> int:
        """Make up to 1000 items of the open jobs due that were put back for one of these reasons; return how many."""
        values = {"codes": list(codes), "now": now()}
        job_ids = self._run(_POSTPONED, **values).scalars().all()
        return self._run(_WAKE, jobs=job_ids, **values).rowcount if job_ids else 0

    def done(self) -> list[JobId]:
        """Return the open jobs whose items have all ended."""
        return list(self._run(_DONE).scalars())

    def unfinished(self) -> list[JobId]:
        """Return the jobs that are not marked as finished."""
        return list(self._run("SELECT job_id FROM jobs WHERE tenant_id = :tenant AND finished_at IS NULL").scalars())

    def _update(
        self, claims: Sequence[ItemClaim], assignments: str, values: dict[str, Any], *, move: Move | None = None
    ) -> None:
        only = f" AND {may(move)}" if move else ""
        for job_id, group in by_job(claims):
            statement = (
                f"UPDATE job_items SET {assignments}, updated_at = :now"
                f" WHERE tenant_id = :tenant AND job_id = :job AND ordinal IN :ordinals{only}"
            )
            ordinals = [claim.ordinal for claim in group]
            self._run(statement, job=job_id, ordinals=ordinals, now=now(), **values)


tenants_with_open_jobs = TenantsWith("SELECT DISTINCT tenant_id FROM jobs WHERE finished_at IS NULL")


_TOTAL = "SELECT total FROM jobs WHERE tenant_id = :tenant AND job_id = :job"
_GROW = sql(
    "UPDATE jobs SET total = :total, updated_at = :now, revision = revision + 1"
    " WHERE tenant_id = :tenant AND job_id = :job"
)
_OPEN_ITEMS = sql(
    "SELECT COUNT(*) FROM job_items WHERE tenant_id = :tenant AND job_id = :job AND state IN ('queued', 'running')"
)

_DUE = sql(
    # Rows of an earlier attempt that wait to be dropped would vanish while the new attempt writes them. An item of a
    # document deleted since is taken all the same: it will never be published.
    "SELECT ordinal, namespace, document_id, generation, body_bytes, fencing_token, attempts, error_code FROM job_items i"
    f" WHERE tenant_id = :tenant AND job_id = :job AND {may(Move.CLAIM)} AND queue = :queue AND next_attempt_at <= :now"
    " AND body_bytes >= :least AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.tenant_id = :tenant AND j.job_id = :job"
    " AND j.paused_at IS NOT NULL) AND NOT EXISTS (SELECT 1 FROM retired_generations r"
    f" JOIN documents d ON {same_document('d', 'r')} AND d.deleted_generation < r.generation"
    f" WHERE {same_generation('r', 'i')}) LIMIT :limit FOR UPDATE SKIP LOCKED"
)

_DONE = (
    "SELECT j.job_id FROM jobs j WHERE j.tenant_id = :tenant AND j.finished_at IS NULL AND (SELECT 1 FROM job_items i"
    " WHERE i.tenant_id = j.tenant_id AND i.job_id = j.job_id AND i.state IN ('queued', 'running') LIMIT 1) IS NULL"
    " ORDER BY j.job_id"
)

_RELEASE_EXPIRED = (
    f"UPDATE job_items SET {becomes(Move.EXPIRE)}, lease_until = NULL, next_attempt_at = :now, error_code = :code,"
    " error_detail = 'its worker ended without a result', fencing_token = fencing_token + 1, updated_at = :now"
    f" WHERE tenant_id = :tenant AND {may(Move.EXPIRE)} AND lease_until < :now"
)

_POSTPONED = sql(
    "SELECT DISTINCT i.job_id FROM jobs j JOIN job_items i ON i.tenant_id = j.tenant_id AND i.job_id = j.job_id"
    " WHERE j.tenant_id = :tenant AND j.finished_at IS NULL AND i.state = 'queued' AND i.next_attempt_at > :now"
    " AND i.error_code IN :codes LIMIT 1000"
)

_WAKE = sql(
    "UPDATE job_items SET next_attempt_at = :now, updated_at = :now WHERE tenant_id = :tenant AND job_id IN :jobs"
    " AND state = 'queued' AND next_attempt_at > :now AND error_code IN :codes"
    " ORDER BY job_id, ordinal LIMIT 1000"
)

_TAKE = sql(
    f"UPDATE job_items SET {becomes(Move.CLAIM)}, lease_until = :lease, fencing_token = fencing_token + 1,"
    " attempts = attempts + 1, updated_at = :now"
    f" WHERE tenant_id = :tenant AND job_id = :job AND ordinal IN :ordinals AND {may(Move.CLAIM)}"
)

_HOLD = sql(
    "SELECT ordinal, state, fencing_token FROM job_items"
    " WHERE tenant_id = :tenant AND job_id = :job AND ordinal IN :ordinals ORDER BY ordinal FOR UPDATE"
)

_LOCK_JOB = sql("SELECT job_id FROM jobs WHERE tenant_id = :tenant AND job_id = :job FOR UPDATE")

_CLOSE = sql(
    "UPDATE jobs SET finished_at = :now, updated_at = :now, revision = revision + 1"
    " WHERE tenant_id = :tenant AND job_id = :job AND finished_at IS NULL AND NOT EXISTS ("
    "SELECT 1 FROM job_items i WHERE i.tenant_id = :tenant AND i.job_id = :job AND i.state IN ('queued', 'running'))"
)

_TOUCH_JOB = sql(
    "UPDATE jobs SET updated_at = :now, revision = revision + 1"
    " WHERE tenant_id = :tenant AND job_id = :job AND finished_at IS NULL"
)

_NEXT_REVISION = sql("UPDATE jobs SET revision = revision + 1 WHERE tenant_id = :tenant AND job_id = :job")


def _first_state(item: NewItem) -> ItemState:
    if item.error_code is not None:
        return ItemState.FAILED
    return ItemState.QUEUED if item.outcome is None else ItemState.SUCCEEDED


def _shortened(detail: str | None) -> str | None:
    return detail if detail is None or len(detail) <= _DETAIL_LENGTH else detail[: _DETAIL_LENGTH - 1] + "…"
