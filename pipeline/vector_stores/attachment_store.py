"""Files of a namespace: their attributes, and their status, always read from the ledger. Documents from other sources
count too, named by source. A removed entry stays as a mark for a while, so that lists can continue at it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pipeline.database.rows import (
    TenantStore,
    as_utc,
    chunking_of,
    chunking_to_json,
    insert_many,
    now,
    record_of,
    to_json,
    to_naive,
)
from pipeline.database.statements import OF_DOCUMENT, OF_DOCUMENTS, TenantsWith, same_document, sql
from pipeline.records import Chunking, DocumentId, JobId, Namespace
from pipeline.vector_stores.collection import Attached, ListPosition, Status, Tally

_MARKED_FOR_HOURS = 24


# Without an item: its job, no longer kept, put a file there whose document was deleted, and uploaded again since.
_STATUS = (
    "CASE WHEN i.state IN ('failed', 'cancelled') THEN i.state WHEN i.state IN ('queued', 'running') THEN 'in_progress'"
    " ELSE 'completed' END"
)
_ALIVE = "d.document_id IS NOT NULL AND d.latest_generation > d.deleted_generation"
# An unfinished item may have no document; a document deleted since is omitted.
_SEEN = f"(({_ALIVE}) OR (i.state <> 'succeeded' AND NOT COALESCE(d.deleted_generation >= i.generation, FALSE)))"
_FILES = (
    " FROM attachments a LEFT JOIN job_items i ON i.tenant_id = a.tenant_id AND i.job_id = a.job_id"
    f" AND i.ordinal = a.ordinal LEFT JOIN documents d ON {same_document('d', 'a')}"
)
_THERE = f" WHERE a.tenant_id = :tenant AND a.detached_at IS NULL AND {_SEEN}"
_PUT_THERE = _FILES + _THERE
# Of a job ``j``: it put a file there that lists show, with the state and the error of its item.
PUT_A_LISTED_FILE = (
    f"(SELECT 1{_FILES} WHERE a.tenant_id = j.tenant_id AND a.job_id = j.job_id AND a.detached_at IS NULL AND {_SEEN}"
    " LIMIT 1) IS NOT NULL"
)
# A file that was added and then overwritten by another upload is described by that generation.
_PUT_OR_WRITTEN_SINCE = (
    f"{_FILES} LEFT JOIN generations g ON (i.state IS NULL OR i.state = 'succeeded' AND d.published_generation <>"
    f" i.generation) AND {same_document('g', 'd')} AND g.generation = d.published_generation{_THERE}"
)
_NAME = "COALESCE(g.source_uri, g.title, d.document_id)"
_BY_TIME = _PUT_THERE.replace("attachments a", "attachments a FORCE INDEX (attachments_by_time)", 1)
_OTHER_STATUS = (
    "CASE WHEN d.published_generation IS NOT NULL THEN 'completed' WHEN j.job_id IS NOT NULL AND j.finished_at IS NULL"
    " THEN 'in_progress' ELSE 'failed' END"
)
_OTHERS = (
    f" FROM documents d JOIN generations g ON {same_document('g', 'd')}"
    " AND g.generation = COALESCE(d.published_generation, d.latest_generation)"
    " LEFT JOIN jobs j ON j.tenant_id = g.tenant_id AND j.job_id = g.job_id"
    # Not NOT EXISTS, which makes MariaDB read the attachments of every tenant.
    f" LEFT JOIN attachments a ON {same_document('a', 'd')} AND a.detached_at IS NULL WHERE d.tenant_id = :tenant"
    " AND d.latest_generation > d.deleted_generation AND a.document_id IS NULL"
)
_THIN = (
    "SELECT a.namespace, a.document_id, a.created_at, COALESCE(g.body_bytes, a.body_bytes) AS body_bytes,"
    f" {_STATUS} AS status{_PUT_OR_WRITTEN_SINCE} {{of_put}} UNION ALL"
    f" SELECT d.namespace, d.document_id, d.created_at, g.body_bytes, {_OTHER_STATUS} AS status{_OTHERS} {{of_others}}"
)
NAMED = sql(
    f"SELECT a.namespace, a.document_id, a.created_at, IF(g.generation IS NULL, a.filename, {_NAME}) AS filename,"
    " COALESCE(g.metadata, a.attributes) AS attributes, COALESCE(g.chunking, a.chunking) AS chunking,"
    " COALESCE(g.body_bytes, a.body_bytes) AS body_bytes,"
    f" {_STATUS} AS status, i.error_code, i.error_detail, i.failure{_PUT_OR_WRITTEN_SINCE}"
    " AND a.namespace = :namespace AND a.document_id IN :ids UNION ALL"
    f" SELECT d.namespace, d.document_id, d.created_at, {_NAME}, g.metadata, g.chunking,"
    f" g.body_bytes, {_OTHER_STATUS} AS status, NULL, NULL, NULL{_OTHERS}"
    " AND d.namespace = :namespace AND d.document_id IN :ids"
)
TALLIES = sql(
    "SELECT namespace, status, COUNT(*) AS files, SUM(body_bytes) AS body_bytes FROM ("
    + _THIN.format(of_put="AND a.namespace IN :names", of_others="AND d.namespace IN :names")
    + ") f GROUP BY namespace, status"
)
JOB_TALLY = sql(
    f"SELECT {_STATUS} AS status, COUNT(*) AS files FROM job_items i"
    " WHERE i.tenant_id = :tenant AND i.job_id = :job GROUP BY 1"
)
JOB = sql("SELECT created_at FROM jobs WHERE tenant_id = :tenant AND namespace = :namespace AND job_id = :job")
_KEY = f" WHERE {OF_DOCUMENT}"
POSITION = sql(
    f"SELECT created_at FROM (SELECT created_at, 0 AS choice FROM attachments{_KEY} UNION ALL"
    f" SELECT created_at, 1 AS choice FROM documents{_KEY}) f ORDER BY choice LIMIT 1"
)
GENERATION_TO_CHANGE = sql(
    "SELECT IF(j.job_id IS NOT NULL AND j.finished_at IS NULL, d.latest_generation, d.published_generation) AS"
    f" generation FROM documents d LEFT JOIN generations g ON {same_document('g', 'd')}"
    " AND g.generation = d.latest_generation LEFT JOIN jobs j ON j.tenant_id = g.tenant_id AND j.job_id = g.job_id"
    " WHERE d.tenant_id = :tenant AND d.namespace = :namespace AND d.document_id = :document"
    " AND d.latest_generation > d.deleted_generation"
)
DELETED_SINCE = sql(f"SELECT deleted_generation >= :generation FROM documents{_KEY}")
DESCRIBE = sql(f"UPDATE attachments SET attributes = :attributes{_KEY}")
DETACH = sql(f"UPDATE attachments SET detached_at = :now WHERE {OF_DOCUMENTS} AND detached_at IS NULL")
DETACH_ALL = sql(
    "UPDATE attachments SET detached_at = :now WHERE tenant_id = :tenant AND namespace = :namespace"
    " AND detached_at IS NULL"
)
HOLDERS = sql(
    "SELECT namespace FROM attachments WHERE tenant_id = :tenant AND document_id = :document AND detached_at IS NULL"
    " ORDER BY namespace"
)
DROP_MARKS = sql("DELETE FROM attachments WHERE tenant_id = :tenant AND detached_at < :before LIMIT :limit")


def paged(
    position: ListPosition | None, *, newest_first: bool, status: Status | None, of_job: bool
) -> tuple[str, dict[str, Any]]:
    """Return the statement of one page of ids; either kind is read along its index, as many as a page has."""
    descending = newest_first != (position is not None and position.backwards)
    sign, order = ("<", "DESC") if descending else (">", "ASC")
    values: dict[str, Any] = {} if position is None else {"at": to_naive(position.at), "name": position.name}
    if status is not None:
        values["status"] = status

    def select(row: str, tables: str, status_column: str, where: str = "") -> str:
        if position is not None:
            where += f" AND {row}.created_at {sign}= :at AND ({row}.created_at, {row}.document_id) {sign} (:at, :name)"
        if status is not None:
            where += f" AND {status_column} = :status"
        return (
            f"(SELECT {row}.document_id, {row}.created_at{tables} AND {row}.namespace = :namespace{where}"
            f" ORDER BY {row}.created_at {order}, {row}.document_id {order} LIMIT :limit)"
        )

    if of_job:
        rows = select("a", _BY_TIME, _STATUS, " AND a.job_id = :job")
    else:
        rows = f"{select('a', _BY_TIME, _STATUS)} UNION ALL {select('d', _OTHERS, _OTHER_STATUS)}"
    statement = f"SELECT document_id FROM ({rows}) f ORDER BY created_at {order}, document_id {order} LIMIT :limit"
    return statement, values


@dataclass(frozen=True, slots=True, kw_only=True)
class NewAttachment:
    """A file that item ``ordinal`` of a job adds to a namespace."""

    document_id: DocumentId
    ordinal: int
    filename: str
    attributes: Mapping[str, Any]
    chunking: Chunking
    body_bytes: int


class Attachments(TenantStore):
    """One tenant's files in namespaces."""

    def attach(self, namespace: Namespace, job_id: JobId, entries: Sequence[NewAttachment]) -> None:
        """Record the job items that add these files; a file that is there already keeps its time."""
        moment = now()
        insert_many(
            self._connection,
            "INSERT INTO attachments (tenant_id, namespace, document_id, job_id, ordinal, filename, attributes, chunking,"
            " body_bytes, created_at) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
            " ON DUPLICATE KEY UPDATE job_id = VALUES(job_id), ordinal = VALUES(ordinal), filename = VALUES(filename),"
            " attributes = VALUES(attributes), chunking = VALUES(chunking), body_bytes = VALUES(body_bytes),"
            " created_at = IF(detached_at IS NULL, created_at, VALUES(created_at)), detached_at = NULL",
            [
                (
                    self._tenant_id,
                    namespace,
                    entry.document_id,
                    job_id,
                    entry.ordinal,
                    entry.filename[:1024],
                    to_json(dict(entry.attributes)),
                    chunking_to_json(entry.chunking),
                    entry.body_bytes,
                    moment,
                )
                for entry in sorted(entries, key=lambda item: item.document_id)
            ],
        )

    def describe(self, namespace: Namespace, document_id: DocumentId, attributes: Mapping[str, Any]) -> None:
        """Change the attributes of a file that became no document."""
        self._run(DESCRIBE, namespace=namespace, document=document_id, attributes=to_json(dict(attributes)))

    def detach(self, namespace: Namespace, document_ids: Sequence[DocumentId]) -> None:
        """Remove files from the list; the caller deletes their documents."""
        if document_ids:
            self._run(DETACH, namespace=namespace, ids=list(document_ids), now=now())

    def detach_all(self, namespace: Namespace) -> None:
        """Remove every file of a namespace from the list."""
        self._run(DETACH_ALL, namespace=namespace, now=now())

    def namespaces_with(self, document_id: DocumentId) -> list[Namespace]:
        """Return the namespaces that hold a file."""
        return list(self._run(HOLDERS, document=document_id).scalars())

    def named(self, namespace: Namespace, document_ids: Sequence[str]) -> dict[str, Attached]:
        """Return those of these files that exist."""
        rows = self._run(NAMED, namespace=namespace, ids=list(document_ids)) if document_ids else ()
        return {row.document_id: _attached(row) for row in rows}

    def generation_to_change(self, namespace: Namespace, document_id: DocumentId) -> int | None:
        """Return the generation that a change of a document begins with: the pending one, else the published one."""
        generation: int | None = self._run(
            GENERATION_TO_CHANGE, namespace=namespace, document=document_id
        ).scalar_one_or_none()
        return generation

    def was_deleted_since(self, namespace: Namespace, document_id: DocumentId, generation: int) -> bool:
        """Return whether a document was deleted since this generation, in the transaction that accepts another."""
        deleted = self._run(DELETED_SINCE, namespace=namespace, document=document_id, generation=generation)
        return bool(deleted.scalar_one())

    def position(self, namespace: Namespace, document_id: str) -> datetime | None:
        """Return the time by which a file is listed, also of a recently removed one."""
        return as_utc(self._run(POSITION, namespace=namespace, document=document_id).scalar_one_or_none())

    def page(
        self,
        namespace: Namespace,
        *,
        position: ListPosition | None,
        newest_first: bool,
        status: Status | None,
        limit: int,
        job_id: JobId | None = None,
    ) -> list[Attached]:
        """Return files of a namespace by the time they were added; with ``job_id``, only those of a job."""
        statement, values = paged(position, newest_first=newest_first, status=status, of_job=job_id is not None)
        ids = list(self._run(statement, namespace=namespace, limit=limit, job=job_id, **values).scalars())
        attachments = self.named(namespace, ids)
        ordered = [attachments[document_id] for document_id in ids if document_id in attachments]
        return ordered[::-1] if position is not None and position.backwards else ordered

    def tallies(self, namespaces: Sequence[str]) -> dict[str, Tally]:
        """Return the tally of each of these namespaces."""
        counts: dict[str, dict[Status, int]] = {name: {} for name in namespaces}
        sizes = dict.fromkeys(namespaces, 0)
        for row in self._run(TALLIES, names=list(namespaces)) if namespaces else ():
            counts[row.namespace][row.status] = row.files
            if row.status == "completed":
                sizes[row.namespace] = int(row.body_bytes or 0)
        return {name: Tally(counts=counts[name], body_bytes=sizes[name]) for name in namespaces}

    def tally_of_job(self, job_id: JobId) -> Tally:
        """Return the tally of a job's items."""
        return Tally(counts={row.status: row.files for row in self._run(JOB_TALLY, job=job_id)})

    def job_in(self, namespace: Namespace, job_id: JobId) -> datetime | None:
        """Return when a job of this namespace was accepted; None if there is no such job."""
        return as_utc(self._run(JOB, namespace=namespace, job=job_id).scalar_one_or_none())

    def drop_old_marks(self, *, limit: int) -> int:
        """Delete the marks of files removed a day ago; return how many."""
        return int(self._run(DROP_MARKS, before=_marked_before(), limit=limit).rowcount)


tenants_with_old_marks = TenantsWith(  # of files removed a day ago
    f"SELECT DISTINCT tenant_id FROM attachments WHERE detached_at < :now - INTERVAL {_MARKED_FOR_HOURS} HOUR"
)


def _marked_before() -> datetime:
    return now() - timedelta(hours=_MARKED_FOR_HOURS)


def _attached(row: Any) -> Attached:
    return record_of(
        Attached,
        row,
        attributes=json.loads(row.attributes),
        chunking=chunking_of(row.chunking) if row.chunking else None,
    )
