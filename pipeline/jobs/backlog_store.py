"""The backlog of all tenants: waiting items, their age, and dead letters, as numbers without ids."""

from __future__ import annotations

from sqlalchemy import Connection

from pipeline.database.rows import now
from pipeline.database.statements import sql
from pipeline.jobs.job_views import BACKLOG_STATES, LedgerBacklog
from pipeline.records import FailureReason


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
    " AND i.dead_at > '1970-01-01' GROUP BY i.failure"
)
