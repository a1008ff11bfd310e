"""The order of service: tenants with work take turns, and so do the jobs of one tenant, interactive ones before bulk; and
the backlog of all of them."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from pipeline.database.rows import TenantStore, now, record_of
from pipeline.database.statements import sql
from pipeline.documents.outcome_store import of_dead_letters
from pipeline.jobs.job_views import BACKLOG_STATES, LedgerBacklog
from pipeline.records import FailureReason, IngestQueue, JobId, Priority, TenantId

MOST_INTERACTIVE = 3  # turns of a tenant's interactive jobs in a row while bulk waits: every fourth is bulk
# Looked at for one batch; those behind get there once these were served.
_JOBS_OF_A_TENANT = 20
_MOST_TENANTS = 64
_TENANTS_A_STATEMENT = (4, 20)  # in the first, and in each further one; few installations need a second


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingJob:
    """A job with due items."""

    tenant_id: TenantId
    job_id: JobId
    request_id: str
    priority: Priority = Priority.BULK


def turns(connection: Connection, queue: IngestQueue = IngestQueue.INGEST) -> list[WaitingJob]:
    """Return the jobs with due items in a queue, the least recently served tenant first.

    Among a tenant's jobs interactive ones come first, then the least recently served; after a few interactive turns in a row,
    one of bulk. Only the first few of a tenant are returned, so that they hide no other tenant. Reads ids and times of all
    tenants."""
    tenants = connection.execute(_TENANTS[queue]).all()
    found: list[WaitingJob] = []
    seen, size = 0, _TENANTS_A_STATEMENT[0]
    while tenants and seen < _MOST_TENANTS:
        piece, tenants = tenants[:size], tenants[size:]
        jobs = _waiting(connection, [row.tenant_id for row in piece], queue)
        for row in piece:
            interactive, bulk = (jobs[row.tenant_id, priority] for priority in Priority)
            bulk_first = (row.interactive_in_a_row or 0) >= MOST_INTERACTIVE
            ordered = [*bulk, *interactive] if bulk_first else [*interactive, *bulk]
            found += ordered[:_JOBS_OF_A_TENANT]
            seen += bool(ordered)
        size = _TENANTS_A_STATEMENT[1]
    return found


def _waiting(
    connection: Connection, tenant_ids: Sequence[TenantId], queue: IngestQueue
) -> Mapping[tuple[TenantId, Priority], list[WaitingJob]]:
    """Return the first jobs with due items of these tenants by priority, the least recently served first."""
    asked = {f"tenant_{number}": tenant_id for number, tenant_id in enumerate(tenant_ids)}
    branches = (
        _WAITING.format(tenant=name, priority=priority.value) for name in asked for priority in Priority
    )  # each follows the index and ends after its limit; a window over all jobs reads every one that is open
    values = {**asked, "queue": queue.value, "now": now(), "limit": _JOBS_OF_A_TENANT}
    jobs: defaultdict[tuple[TenantId, Priority], list[WaitingJob]] = defaultdict(list)
    for row in connection.execute(sql(" UNION ALL ".join(branches)), values):
        job = record_of(WaitingJob, row, priority=Priority(row.priority))
        jobs[job.tenant_id, job.priority].append(job)
    return jobs


def waiting_for_each_other(waiting: Sequence[WaitingJob]) -> bool:
    """Return whether these should take short turns: several tenants wait, or an interactive job beside a tenant's bulk."""
    return len({(job.tenant_id, job.priority) for job in waiting}) > 1


class Turns(TenantStore):
    """One tenant's turns."""

    def waiting(self, queue: IngestQueue) -> list[JobId]:
        """Return the first jobs with due items in a queue; paused jobs are omitted."""
        jobs = _waiting(self._connection, [self._tenant_id], queue)
        return [job.job_id for each in jobs.values() for job in each]

    def batches_in_flight(self, queue: IngestQueue) -> int:
        """Count the tenant's batches held by workers of this queue (one lease end each, fetching excluded), with its row
        locked until the transaction ends."""
        self._run(_CREATE)
        self._run(_LOCK)
        return int(self._run(_IN_FLIGHT, now=now(), queue=queue.value).scalar_one())

    def served(self, job_id: JobId, queue: IngestQueue) -> None:
        """Record that a worker of this queue has just taken a batch of this job; the others come first there now."""
        moment = now()
        if queue is IngestQueue.INGEST:
            self._run(_SERVED, job=job_id, now=moment)
        else:
            self._run(_CREATE)
            self._run(_SERVED_ELSEWHERE[queue], now=moment)
        self._run(_JOB_SERVED, job=job_id, now=moment)


# A batch of queries and a run of a source count as turns with documents: nobody waits for them either.
_SERVED_AT = {
    IngestQueue.INGEST: "served_at",
    IngestQueue.LONG: "long_served_at",
    IngestQueue.BATCH: "served_at",
    IngestQueue.SOURCE: "served_at",
}

# A tenant takes turns in each queue by itself: short documents do not push its long ones back. NULL, never served, is first.
_TENANTS = {
    queue: sql(
        "SELECT o.tenant_id, t.interactive_in_a_row FROM (SELECT DISTINCT tenant_id FROM jobs WHERE finished_at IS NULL) o"
        f" LEFT JOIN ingest_turns t ON t.tenant_id = o.tenant_id ORDER BY t.{column}, o.tenant_id"
    )
    for queue, column in _SERVED_AT.items()
}

_WAITING = (
    "(SELECT j.tenant_id, j.job_id, j.request_id, j.priority FROM jobs j WHERE j.tenant_id = :{tenant}"
    " AND j.finished_at IS NULL AND j.priority = '{priority}' AND j.paused_at IS NULL"
    # A scalar with LIMIT 1 looks for one item of each job; EXISTS is made a join that reads all that are queued.
    " AND (SELECT 1 FROM job_items i WHERE i.tenant_id = j.tenant_id AND i.job_id = j.job_id AND i.state = 'queued'"
    " AND i.queue = :queue AND i.next_attempt_at <= :now LIMIT 1) = 1"
    " ORDER BY j.served_at, j.created_at, j.job_id LIMIT :limit)"
)

_CREATE = sql("INSERT IGNORE INTO ingest_turns (tenant_id, served_at) VALUES (:tenant, '2000-01-01')")

_LOCK = sql("SELECT served_at FROM ingest_turns WHERE tenant_id = :tenant FOR UPDATE")

_IN_FLIGHT = sql(
    "SELECT COUNT(DISTINCT lease_until) FROM job_items"
    " WHERE tenant_id = :tenant AND state = 'running' AND queue = :queue AND lease_until >= :now AND body_bytes > 0"
)

_SERVED = sql(
    "INSERT INTO ingest_turns (tenant_id, served_at, interactive_in_a_row)"
    " SELECT :tenant, :now, priority = 'interactive' FROM jobs WHERE tenant_id = :tenant AND job_id = :job"
    " ON DUPLICATE KEY UPDATE served_at = VALUES(served_at),"
    " interactive_in_a_row = IF(VALUES(interactive_in_a_row), interactive_in_a_row + 1, 0)"
)

_SERVED_ELSEWHERE = {
    queue: f"UPDATE ingest_turns SET {column} = :now WHERE tenant_id = :tenant" for queue, column in _SERVED_AT.items()
}

_JOB_SERVED = sql("UPDATE jobs SET served_at = :now WHERE tenant_id = :tenant AND job_id = :job")


def workers_seen(connection: Connection, *, within_s: float) -> bool:
    """Return whether any worker has taken work within these seconds or holds some under a lease, of any tenant."""
    return bool(connection.execute(_SEEN, {"since": within_s, "now": now()}).scalar_one())


_SEEN = sql(
    "SELECT EXISTS (SELECT 1 FROM ingest_turns WHERE served_at > :now - INTERVAL :since SECOND) OR EXISTS ("
    "SELECT 1 FROM jobs j JOIN job_items i ON i.tenant_id = j.tenant_id AND i.job_id = j.job_id"
    " AND i.state = 'running' AND i.lease_until > :now WHERE j.finished_at IS NULL)"
)


def backlog(connection: Connection) -> LedgerBacklog:
    """Return the present backlog. Reads the open items and the dead letters, both by their keys."""
    moment = now()
    rows = {row.state: row for row in connection.execute(_OPEN, {"now": moment})}
    ages_s = {state: max(0.0, (moment - row.since).total_seconds()) for state, row in rows.items()}
    dead = {row.failure: row.letters for row in connection.execute(_DEAD)}
    return LedgerBacklog(
        items={state: rows[state].items if state in rows else 0 for state in BACKLOG_STATES},
        oldest_s={state: ages_s.get(state, 0.0) for state in BACKLOG_STATES},
        dead_letters={reason.value: dead.get(reason.value, 0) for reason in FailureReason},
    )


_OPEN = sql(
    "SELECT state, COUNT(*) AS items, MIN(since) AS since FROM ("
    "SELECT CASE WHEN i.state = 'running' THEN 'running' WHEN j.paused_at IS NOT NULL THEN 'paused'"
    " WHEN i.next_attempt_at > :now THEN 'later' ELSE 'due' END AS state,"
    " CASE WHEN i.state = 'running' THEN i.updated_at WHEN j.paused_at IS NOT NULL THEN j.paused_at"
    " WHEN i.next_attempt_at > :now THEN i.updated_at ELSE i.next_attempt_at END AS since"
    " FROM jobs j JOIN job_items i ON i.tenant_id = j.tenant_id AND i.job_id = j.job_id"
    " AND i.state IN ('queued', 'running') WHERE j.finished_at IS NULL) open_items GROUP BY state"
)

# By tenant, because the key of dead letters begins with it.
_DEAD = sql(
    "SELECT i.failure, COUNT(*) AS letters FROM tenants t JOIN job_items i ON i.tenant_id = t.tenant_id"
    f" AND i.dead_at > '1970-01-01' {of_dead_letters('i')} GROUP BY i.failure"
)
