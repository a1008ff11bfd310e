"""Jobs as their owner sees them, counted from their items on each read, for lists and for callers that follow a job.

``jobs.revision`` grows with every failure, ended batch and act of the owner under the job's lock, so a reader of all
failures up to a revision has missed none.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from chordwise.contract.job import FoundMatch, Item, Job, JobError, Usage
from pipeline.database.mysql_tables import jobs
from pipeline.database.rows import TenantStore, now, record_of, to_naive
from pipeline.database.statements import columns, same_document, same_generation, sql
from pipeline.documents.document_store import encoding_of
from pipeline.documents.document_views import encoding_fields
from pipeline.documents.duplicate_store import Duplicates, is_duplicate
from pipeline.documents.outcome_store import STATUS, WORKED_ON
from pipeline.jobs.job_views import (
    FailurePosition,
    Fingerprint,
    JobStatus,
    Snapshot,
    WaitingReason,
    waiting_reason,
)
from pipeline.jobs.turn_store import workers_seen
from pipeline.records import DocumentId, ItemState, JobId, Namespace, Stage
from pipeline.tenants.usage_store import Usage as JobUsage

_ERRORS_SHOWN = 100
_UNUSED = Usage(tokens=0, requests=0, texts=0, cached=0, saved_tokens=0, cost=0.0)
_WORKER_SEEN_S = 15  # longer than the batch of a worker that is well; one that holds a lease is seen by that
_STAGES = tuple(Stage)


def _has(*states: str) -> str:
    """Return a condition on a job; each state is a lookup in the index of items by job and state."""
    named = ", ".join(f"'{state}'" for state in states)
    return (
        "EXISTS (SELECT 1 FROM job_items i WHERE i.tenant_id = jobs.tenant_id AND i.job_id = jobs.job_id"
        f" AND i.state IN ({named}))"
    )


_OVER = f"NOT {_has('queued', 'running')}"
_CONDITIONS: dict[JobStatus, str] = {
    "queued": f"finished_at IS NULL AND {_has('queued')} AND NOT {_has('running', 'succeeded')}",
    "running": f"finished_at IS NULL AND ({_has('running')} OR ({_has('queued')} AND {_has('succeeded')}))",
    "failed": f"{_has('failed')} AND {_OVER} AND NOT {_has('succeeded', 'cancelled')}",
    "partly_failed": f"{_has('failed')} AND {_OVER} AND {_has('succeeded', 'cancelled')}",
    "cancelled": f"{_has('cancelled')} AND {_OVER} AND NOT {_has('failed')}",
    "succeeded": f"{_OVER} AND NOT {_has('failed', 'cancelled')}",
}


class JobViews(TenantStore):
    """One tenant's jobs, for reading."""

    def one(self, job_id: JobId) -> Job | None:
        """Return the job with its first hundred errors, or None."""
        return next(iter(self._viewed("AND job_id = :job", {"job": job_id}, limit=1, errors=True)), None)

    def is_finished(self, job_id: JobId) -> bool | None:
        """Return whether the job has ended; None if there is no such job."""
        statement = "SELECT finished_at IS NOT NULL FROM jobs WHERE tenant_id = :tenant AND job_id = :job"
        finished = self._run(statement, job=job_id).scalar_one_or_none()
        return None if finished is None else bool(finished)

    def newest(
        self,
        *,
        statuses: Sequence[JobStatus] = (),
        namespace: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        before: tuple[datetime, str] | None,
        limit: int,
    ) -> list[Job]:
        """Return jobs that fit every filter and are older than the ``before`` cursor, newest first. ``since`` is inclusive,
        ``until`` exclusive, both of the creation."""
        begins, ends = (None if time is None else to_naive(time) for time in (since, until))
        values = {"namespace": namespace, "since": begins, "until": ends}
        conditions = {
            "namespace": "namespace = :namespace",
            "since": "created_at >= :since",
            "until": "created_at < :until",
        }
        where = [f"AND {conditions[name]}" for name, value in values.items() if value is not None]
        if statuses:
            where.append(f"AND ({' OR '.join(f'({_CONDITIONS[status]})' for status in dict.fromkeys(statuses))})")
        if before is not None:
            where.append("AND (created_at < :before OR (created_at = :before AND job_id < :before_job))")
            values |= {"before": to_naive(before[0]), "before_job": before[1]}
        return self._viewed(" ".join(where), values, limit=limit, errors=False)

    def beginning_with(self, prefix: str, *, limit: int) -> list[Job]:
        """Return jobs whose id begins with ``prefix``, hexadecimal digits and hyphens; by id."""
        return self._viewed("AND job_id LIKE :prefix", {"prefix": f"{prefix}%"}, limit=limit, errors=False)

    def items(
        self,
        job_id: JobId,
        *,
        status: str | None,
        after: int,
        limit: int,
        duplicates: bool = False,
        warned: bool = False,
    ) -> list[Item]:
        """Return items by ordinal above ``after``; ``duplicates``: only those whose document duplicates another;
        ``warned``: only those with a warning about their text."""
        conditions = {"i.state = :state": status, is_duplicate("i"): duplicates, _IS_WARNED: warned}
        where = " ".join(f"AND {condition}" for condition, asked in conditions.items() if asked)
        rows = self._run(_ITEMS.format(where=where), job=job_id, state=status, after=after, limit=limit).all()
        originals: dict[DocumentId, DocumentId] = {}
        if rows:
            ids = [DocumentId(row.document_id) for row in rows if row.document_id and row.code is None]
            originals = Duplicates(self._connection, self._tenant_id).of(Namespace(rows[0].namespace), ids)
        return [
            record_of(
                Item, row, **encoding_fields(encoding_of(row.encoding)), duplicate_of=originals.get(row.document_id)
            )
            for row in rows
        ]

    def snapshot(self, job_id: JobId, *, reasons: bool = True) -> Snapshot | None:
        """Return a snapshot of the job, None if there is none; without ``reasons``, ``waiting_reason`` is None."""
        rows = self._run(_SNAPSHOT, job=job_id).all()
        if not rows:
            return None
        job = rows[0]
        items, stages = count_items([row for row in rows if row.state is not None])
        return record_of(
            Snapshot,
            job,
            job_id=job_id,
            status=status_of(items),
            items=items,
            chunks=int(sum(row.chunks or 0 for row in rows)),
            stages=stages,
            waiting_reason=self.waiting_reason(job, items) if reasons and not job.finished_at else None,
        )

    def failures(self, job_id: JobId, *, after: FailurePosition, limit: int) -> list[tuple[FailurePosition, JobError]]:
        """Return failed items in the order of failing, after ``after``, without those queued again since."""
        rows = self._run(_FAILURES, job=job_id, revision=after.revision, ordinal=after.ordinal, limit=limit)
        return [(record_of(FailurePosition, row), record_of(JobError, row)) for row in rows]

    def fingerprints(self, job_ids: Sequence[JobId]) -> dict[JobId, Fingerprint]:
        """Return values to compare to see whether a job has changed. One statement for all."""
        rows = self._run(_FINGERPRINTS, jobs=list(job_ids))
        return {JobId(job_id): (revision, served_at) for job_id, revision, served_at in rows}

    def _viewed(self, where: str, values: Mapping[str, object], *, limit: int, errors: bool) -> list[Job]:
        jobs = self._run(_JOBS.format(where=where), limit=limit, **values).all()
        usage = JobUsage(self._connection, self._tenant_id).of_jobs([JobId(job.job_id) for job in jobs])
        return [self._view(job, usage.get(JobId(job.job_id), _UNUSED), errors=errors) for job in jobs]

    def _view(self, job: Any, usage: Usage, *, errors: bool) -> Job:
        job_id = JobId(job.job_id)
        rows = self._run(_COUNTS, job=job_id).all()
        by_state, stages = count_items(rows)
        outcomes: Counter[str] = Counter()
        for row in rows:
            if row.outcome is not None:
                outcomes[row.outcome] += row.items
        return record_of(
            Job,
            job,
            status=status_of(by_state),
            **{state.value: by_state[state] for state in (ItemState.SUCCEEDED, ItemState.FAILED, ItemState.CANCELLED)},
            chunks=int(sum(row.chunks or 0 for row in rows)),
            reused=int(sum(row.reused or 0 for row in rows)),
            waiting_reason=None if job.finished_at else self.waiting_reason(job, by_state),
            stages=stages,
            outcomes=dict(outcomes),
            errors=self._errors(job_id) if errors else (),
            usage=usage,
        )

    def _errors(self, job_id: JobId) -> tuple[JobError, ...]:
        failed = self.items(job_id, status=ItemState.FAILED, after=-1, limit=_ERRORS_SHOWN)
        return tuple(
            JobError(document_id=item.document_id, code=item.code or "", detail=item.detail, pointer=item.pointer)
            for item in failed
        )

    def waiting_reason(self, job: Any, by_state: dict[ItemState, int]) -> WaitingReason | None:
        """Return why an unfinished job makes no progress; ``job`` is its row."""
        queued, running = by_state[ItemState.QUEUED], by_state[ItemState.RUNNING]
        if running or not queued:  # as the rule would say, without the two look-ups
            return None
        moment = now()
        return waiting_reason(
            paused=job.paused_at is not None,
            running=running,
            queued=queued,
            due_since=self._run(_DUE_SINCE, job=job.job_id, now=moment).scalar_one(),
            served_at=job.served_at,
            workers_seen=workers_seen(self._connection, within_s=_WORKER_SEEN_S),
            now=moment,
        )


def count_items(rows: Sequence[Any]) -> tuple[dict[ItemState, int], dict[str, int]]:
    """Count items by state, and those that have finished each step, from rows with ``state``, ``stage`` and ``items``."""
    by_state = dict.fromkeys(ItemState, 0)
    stages = dict.fromkeys((stage.value for stage in _STAGES), 0)
    for row in rows:
        by_state[ItemState(row.state)] += row.items
        for stage in _STAGES[: _STAGES.index(Stage(row.stage)) + 1]:
            stages[stage.value] += row.items
    return by_state, stages


def status_of(items: dict[ItemState, int]) -> str:
    """Return a job's status from the states of its items."""
    total = sum(items.values())
    if items[ItemState.QUEUED] + items[ItemState.RUNNING]:
        return "running" if items[ItemState.RUNNING] + items[ItemState.SUCCEEDED] else "queued"
    if items[ItemState.FAILED]:
        return "failed" if items[ItemState.FAILED] == total else "partly_failed"
    return "cancelled" if items[ItemState.CANCELLED] else "succeeded"


_JOBS = (
    f"SELECT {columns(jobs, Job)}, served_at FROM jobs"
    " WHERE tenant_id = :tenant {where} ORDER BY created_at DESC, job_id DESC LIMIT :limit"
)

_COUNTS = (
    "SELECT state, stage, outcome, COUNT(*) AS items, SUM(chunk_count) AS chunks, SUM(reused_count) AS reused"
    " FROM job_items WHERE tenant_id = :tenant AND job_id = :job GROUP BY state, stage, outcome"
)

_DUE_SINCE = (
    "SELECT MIN(next_attempt_at) FROM job_items WHERE tenant_id = :tenant AND job_id = :job"
    " AND state = 'queued' AND next_attempt_at <= :now"
)

_ITEMS = (
    "SELECT i.ordinal, i.document_id, i.state AS status, i.stage, i.outcome, i.chunk_count AS chunks,"
    " i.reused_count AS reused, i.attempts, i.error_code AS code, i.error_detail AS detail, i.error_pointer AS pointer,"
    " i.updated_at, i.namespace, i.requested_id, g.encoding"
    f" FROM job_items i LEFT JOIN generations g ON {same_generation('g', 'i')} WHERE i.tenant_id = :tenant"
    f" AND i.job_id = :job AND i.ordinal > :after {{where}} ORDER BY i.ordinal LIMIT :limit"
)


# A warning that is null is not stored.
_IS_WARNED = "JSON_CONTAINS_PATH(g.encoding, 'one', '$.warning', '$.pages_warning')"

_SNAPSHOT = sql(
    f"SELECT {columns(jobs, Snapshot, 'j')}, j.served_at,"
    " i.state, i.stage, i.items, i.chunks FROM jobs j LEFT JOIN ("
    "SELECT state, stage, COUNT(*) AS items, SUM(chunk_count) AS chunks FROM job_items"
    " WHERE tenant_id = :tenant AND job_id = :job GROUP BY state, stage) i ON TRUE"
    " WHERE j.tenant_id = :tenant AND j.job_id = :job"
)

_FAILURES = sql(
    "SELECT failed_revision AS revision, ordinal, document_id, COALESCE(error_code, '') AS code, error_detail AS detail,"
    " error_pointer AS pointer FROM job_items WHERE tenant_id = :tenant AND job_id = :job AND failed_revision >= :revision"
    " AND (failed_revision > :revision OR ordinal > :ordinal) ORDER BY failed_revision, ordinal LIMIT :limit"
)

_FINGERPRINTS = sql("SELECT job_id, revision, served_at FROM jobs WHERE tenant_id = :tenant AND job_id IN :jobs")


MOST_COMPARED = 100_000  # uploads, by namespace and id: a third of a second of work
_WILDCARDS, _LITERALLY = re.compile(r"[|%_]"), r"|\g<0>"
_PART_OF_ID = re.compile(r"[0-9a-f]{2,8}(-[0-9a-f-]{0,28})?")


class Matches(TenantStore):
    """One tenant's documents and jobs, found by part of a title or id."""

    def of(self, text: str, *, namespace: str | None, limit: int) -> tuple[list[FoundMatch], bool]:
        """Return up to ``limit`` documents, refused items and jobs each: failures first, then by namespace and id. Titles,
        ids and sources are compared without case. The flag is True if uploads were left out."""
        words = text.strip().lower()
        like = f"%{_WILDCARDS.sub(_LITERALLY, words)}%"
        within = {alias: "" if namespace is None else f"AND {alias}.namespace = :namespace" for alias in "gi"}
        values = {"namespace": namespace, "most": MOST_COMPARED}
        bound = self._run(_BOUND.format(within=within["g"]), **values).one_or_none()
        before = _BEFORE if bound else ""
        end = {"end": bound.namespace, "end_id": bound.document_id} if bound else {}
        statement = _MATCHING.format(within=within["g"], before=before)
        documents = self._documents(self._run(statement, like=like, limit=limit, **values, **end).all())
        refused = self._run(_REFUSED.format(within=within["i"]), like=like, limit=limit, **values).all()
        jobs = self._jobs(words, namespace, limit) if _PART_OF_ID.fullmatch(words) else []
        matches = [
            *(record_of(FoundMatch, row, status="failed") for row in refused),
            *documents,
            *jobs,
        ]
        return sorted(matches, key=lambda match: match.status != "failed"), bound is not None

    def _documents(self, rows: Sequence[Any]) -> list[FoundMatch]:
        jobs = sorted({row.job_id for row in rows if row.status == "failed"})
        causes = self._run(_CAUSES, jobs=jobs).all() if jobs else []
        causes_of = {(row.job_id, row.namespace, row.document_id): row for row in causes}
        matches = []
        for row in rows:
            cause = causes_of.get((row.job_id, row.namespace, row.document_id))
            reason = {"code": cause.code, "detail": cause.detail} if cause else {}
            matches.append(record_of(FoundMatch, row, searchable=bool(row.searchable), **reason))
        return matches

    def _jobs(self, prefix: str, namespace: str | None, limit: int) -> list[FoundMatch]:
        views = JobViews(self._connection, self._tenant_id).beginning_with(prefix, limit=limit)
        return [
            FoundMatch(
                kind="job", namespace=job.namespace, status=job.status, job_id=job.job_id, updated_at=job.updated_at
            )
            for job in views
            if namespace in (None, job.namespace)
        ]


# Each upload's row is compared in the order of the key, before anything is joined to the few that match. No derived table
# stands between, because those rows are too wide for one in memory.
_MATCHING = (
    f"SELECT STRAIGHT_JOIN 'document' AS kind, d.namespace, d.document_id, g.title, {STATUS} AS status, g.job_id,"
    " d.updated_at, d.published_generation IS NOT NULL AS searchable FROM generations g"
    f" JOIN documents d ON {same_document('d', 'g')} AND g.generation = IF(d.failed_generation = d.latest_generation,"
    f" d.latest_generation, COALESCE(d.published_generation, d.latest_generation)) {WORKED_ON}"
    " WHERE g.tenant_id = :tenant {within} {before}"
    " AND LOWER(CONCAT_WS(CHAR(10), g.document_id, g.title, g.source_uri)) LIKE :like ESCAPE '|'"
    " AND d.latest_generation > d.deleted_generation"
    " ORDER BY d.failed_generation = d.latest_generation DESC, d.namespace, d.document_id LIMIT :limit"
)

# The first upload that is not compared; read from the key alone.
_BOUND = (
    "SELECT g.namespace, g.document_id FROM generations g WHERE g.tenant_id = :tenant {within}"
    " ORDER BY g.namespace, g.document_id, g.generation LIMIT 1 OFFSET :most"
)

_BEFORE = "AND (g.namespace < :end OR (g.namespace = :end AND g.document_id < :end_id))"

_CAUSES = (
    "SELECT job_id, namespace, document_id, error_code AS code, error_detail AS detail FROM job_items"
    " WHERE tenant_id = :tenant AND job_id IN :jobs AND state = 'failed' AND generation IS NOT NULL"
)

# By the index of items by state; few items fail.
_REFUSED = (
    "SELECT 'refused' AS kind, i.namespace, i.document_id, i.error_code AS code, i.error_detail AS detail, i.job_id,"
    " i.updated_at FROM job_items i WHERE i.tenant_id = :tenant AND i.state = 'failed' AND i.generation IS NULL {within}"
    " AND LOWER(i.document_id) LIKE :like ESCAPE '|' ORDER BY i.updated_at DESC, i.job_id, i.ordinal LIMIT :limit"
)
