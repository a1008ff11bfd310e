"""An answered query as the view of the queues shows it: its tasks, and whether it is shown."""

import uuid
from dataclasses import dataclass

from pipeline.query.built_in_profiles import position
from pipeline.records import QueryId, TenantId

UNDERSTAND = "understand"
NOT_TAKEN = "not_taken"  # the error of a task that no worker began
_SALT = "shown"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRun:
    """One task of a query. ``part``: a channel, or `UNDERSTAND`. ``started_at`` is in seconds since the epoch; ``worker`` is
    empty where it is not known. ``error``: a code, empty after a success. ``result`` holds numbers only."""

    part: str
    worker: str
    started_at: float
    runtime_s: float
    error: str = ""
    result: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedQuery:
    """A query with its answer. ``runs``: the tasks before the one that put the answer together, which began at
    ``composed_at`` (seconds since the epoch) and took ``composing_s``. ``error``: the code of a failed query."""

    tenant_id: TenantId
    query_id: QueryId
    runs: tuple[TaskRun, ...]
    composed_at: float
    composing_s: float
    total_ms: float
    degraded: bool
    error: str = ""
    result: str = ""


def task_id_of(query_id: QueryId, part: str) -> str:
    """Return the id of the task of one part of a query, the same in every process. The callback's id is the query's."""
    return str(uuid.uuid5(uuid.UUID(query_id), part))


SLOW_MS = 1000.0  # from which on a query is slow: its trace is kept, and it is shown in Flower


def is_shown(query: EndedQuery, *, percent: float, slow_ms: float) -> bool:
    """Return whether to show a query: ``percent`` of all by id, and all that failed, were degraded or slow."""
    if query.error or query.degraded or query.total_ms >= slow_ms:
        return True
    return position(_SALT, query.query_id) * 100 < percent
