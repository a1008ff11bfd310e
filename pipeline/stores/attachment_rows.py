"""SQL of `attachments`: files put into a namespace and documents that came another way. A status is always read from
the ledger."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import bindparam, text

from pipeline.stores.rows import to_naive

Status = Literal["in_progress", "completed", "failed", "cancelled"]
STATUSES: tuple[Status, ...] = ("in_progress", "completed", "failed", "cancelled")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A place in a list by time: entries after it are wanted or, if ``backwards``, the last ones before it."""

    at: datetime
    name: str
    backwards: bool = False


_STATUS = (
    "CASE i.state WHEN 'succeeded' THEN 'completed' WHEN 'failed' THEN 'failed' WHEN 'cancelled' THEN 'cancelled'"
    " ELSE 'in_progress' END"
)
_ALIVE = "d.document_id IS NOT NULL AND d.latest_generation > d.deleted_generation"
# What the ledger has not brought to an end may have no document; what was deleted since, whoever did it, is not there.
_SEEN = f"(({_ALIVE}) OR (i.state <> 'succeeded' AND NOT COALESCE(d.deleted_generation >= i.generation, FALSE)))"
_FILES = (
    " FROM attachments a LEFT JOIN job_items i ON i.tenant_id = a.tenant_id AND i.job_id = a.job_id AND i.ordinal = a.ordinal"
    " LEFT JOIN documents d ON d.tenant_id = a.tenant_id AND d.namespace = a.namespace AND d.document_id = a.document_id"
)
_THERE = f" WHERE a.tenant_id = :tenant AND a.detached_at IS NULL AND {_SEEN}"
_PUT_THERE = _FILES + _THERE
# What is shown of a file that was put there and then written some other way: that generation is described, not the file.
_PUT_OR_WRITTEN_SINCE = (
    f"{_FILES} LEFT JOIN generations g ON i.state = 'succeeded' AND d.published_generation <> i.generation"
    " AND g.tenant_id = d.tenant_id AND g.namespace = d.namespace AND g.document_id = d.document_id"
    f" AND g.generation = d.published_generation{_THERE}"
)
_NAME = "COALESCE(g.source_uri, g.title, d.document_id)"
_BY_TIME = _PUT_THERE.replace("attachments a", "attachments a FORCE INDEX (attachments_by_time)", 1)
_OTHER_STATUS = (
    "CASE WHEN d.published_generation IS NOT NULL THEN 'completed' WHEN j.finished_at IS NULL THEN 'in_progress'"
    " ELSE 'failed' END"
)
_OTHERS = (
    " FROM documents d JOIN generations g ON g.tenant_id = d.tenant_id AND g.namespace = d.namespace"
    " AND g.document_id = d.document_id AND g.generation = COALESCE(d.published_generation, d.latest_generation)"
    " LEFT JOIN jobs j ON j.tenant_id = g.tenant_id AND j.job_id = g.job_id"
    # Not NOT EXISTS, which makes MariaDB read the attachments of every tenant.
    " LEFT JOIN attachments a ON a.tenant_id = d.tenant_id AND a.namespace = d.namespace"
    " AND a.document_id = d.document_id AND a.detached_at IS NULL"
    " WHERE d.tenant_id = :tenant AND d.latest_generation > d.deleted_generation AND a.document_id IS NULL"
)
_THIN = (
    "SELECT a.namespace, a.document_id, a.created_at, COALESCE(g.body_bytes, a.body_bytes) AS body_bytes,"
    f" {_STATUS} AS status{_PUT_OR_WRITTEN_SINCE} {{of_put}} UNION ALL"
    f" SELECT d.namespace, d.document_id, d.created_at, g.body_bytes, {_OTHER_STATUS} AS status{_OTHERS} {{of_others}}"
)
NAMED = text(
    f"SELECT a.namespace, a.document_id, a.created_at, IF(g.generation IS NULL, a.filename, {_NAME}) AS filename,"
    " COALESCE(g.metadata, a.attributes) AS attributes, COALESCE(g.chunking, a.chunking) AS chunking,"
    " COALESCE(g.body_bytes, a.body_bytes) AS body_bytes,"
    f" {_STATUS} AS status, i.error_code, i.error_detail, i.failure{_PUT_OR_WRITTEN_SINCE}"
    " AND a.namespace = :namespace AND a.document_id IN :ids UNION ALL"
    f" SELECT d.namespace, d.document_id, d.created_at, {_NAME}, g.metadata, g.chunking,"
    f" g.body_bytes, {_OTHER_STATUS} AS status, NULL, NULL, NULL{_OTHERS}"
    " AND d.namespace = :namespace AND d.document_id IN :ids"
).bindparams(bindparam("ids", expanding=True))
TALLIES = text(
    "SELECT namespace, status, COUNT(*) AS files, SUM(body_bytes) AS body_bytes FROM ("
    + _THIN.format(of_put="AND a.namespace IN :names", of_others="AND d.namespace IN :names")
    + ") f GROUP BY namespace, status"
).bindparams(bindparam("names", expanding=True))
JOB_TALLY = text(
    f"SELECT {_STATUS} AS status, COUNT(*) AS files FROM job_items i"
    " WHERE i.tenant_id = :tenant AND i.job_id = :job GROUP BY 1"
)
JOB = text("SELECT created_at FROM jobs WHERE tenant_id = :tenant AND namespace = :namespace AND job_id = :job")
_KEY = " WHERE tenant_id = :tenant AND namespace = :namespace AND document_id = :document"
POSITION = text(
    f"SELECT created_at FROM (SELECT created_at, 0 AS choice FROM attachments{_KEY} UNION ALL"
    f" SELECT created_at, 1 AS choice FROM documents{_KEY}) f ORDER BY choice LIMIT 1"
)
TO_GO_ON_FROM = text(
    "SELECT IF(j.job_id IS NOT NULL AND j.finished_at IS NULL, d.latest_generation, d.published_generation) AS generation"
    " FROM documents d LEFT JOIN generations g ON g.tenant_id = d.tenant_id AND g.namespace = d.namespace"
    " AND g.document_id = d.document_id AND g.generation = d.latest_generation"
    " LEFT JOIN jobs j ON j.tenant_id = g.tenant_id AND j.job_id = g.job_id"
    " WHERE d.tenant_id = :tenant AND d.namespace = :namespace AND d.document_id = :document"
    " AND d.latest_generation > d.deleted_generation"
)
DELETED_SINCE = text(f"SELECT deleted_generation >= :generation FROM documents{_KEY}")
DESCRIBE = text(f"UPDATE attachments SET attributes = :attributes{_KEY}")
DETACH = text(
    "UPDATE attachments SET detached_at = :now WHERE tenant_id = :tenant AND namespace = :namespace"
    " AND document_id IN :ids AND detached_at IS NULL"
).bindparams(bindparam("ids", expanding=True))
DETACH_ALL = text(
    "UPDATE attachments SET detached_at = :now WHERE tenant_id = :tenant AND namespace = :namespace"
    " AND detached_at IS NULL"
)
HOLDERS = text(
    "SELECT namespace FROM attachments WHERE tenant_id = :tenant AND document_id = :document AND detached_at IS NULL"
    " ORDER BY namespace"
)
WITH_OLD_MARKS = text("SELECT DISTINCT tenant_id FROM attachments WHERE detached_at < :before")
DROP_MARKS = text("DELETE FROM attachments WHERE tenant_id = :tenant AND detached_at < :before LIMIT :limit")


def paged(
    place: Place | None, *, newest_first: bool, status: Status | None, of_job: bool
) -> tuple[str, dict[str, Any]]:
    """Return the statement of one page of ids; either kind is read along its index, as many as a page has."""
    descending = newest_first != (place is not None and place.backwards)
    sign, order = ("<", "DESC") if descending else (">", "ASC")
    values: dict[str, Any] = {} if place is None else {"at": to_naive(place.at), "name": place.name}
    if status is not None:
        values["status"] = status

    def some(row: str, kind: str, status_of: str, mine: str) -> str:
        after = f" AND ({row}.created_at, {row}.document_id) {sign} (:at, :name)"
        bounded = f" AND {row}.created_at {sign}= :at{after}" if place is not None else ""
        wanted = f" AND {status_of} = :status" if status is not None else ""
        return (
            f"(SELECT {row}.document_id, {row}.created_at{kind} AND {row}.namespace = :namespace{mine}{bounded}{wanted}"
            f" ORDER BY {row}.created_at {order}, {row}.document_id {order} LIMIT :limit)"
        )

    put = some("a", _BY_TIME, _STATUS, " AND a.job_id = :job" if of_job else "")
    rows = put if of_job else f"{put} UNION ALL {some('d', _OTHERS, _OTHER_STATUS, '')}"
    statement = f"SELECT document_id FROM ({rows}) f ORDER BY created_at {order}, document_id {order} LIMIT :limit"
    return statement, values
