"""Files as they stand in a namespace: what was put there, under which attributes, and what the ledger says became of it.

A document that came some other way is one too, named after its source, with its metadata for attributes. An entry that
is taken out stays as a mark for a while, so that a list that has come to it can be gone on with.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import Connection, bindparam, text

from pipeline.records import Chunking, DocumentId, JobId, Namespace, TenantId
from pipeline.stores.rows import as_utc, insert_many, now, to_json, to_naive

Status = Literal["in_progress", "completed", "failed", "cancelled"]
STATUSES: tuple[Status, ...] = ("in_progress", "completed", "failed", "cancelled")

_MARKED_FOR_HOURS = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class NewAttachment:
    """A file that is put into a namespace by item ``ordinal`` of a job."""

    document_id: DocumentId
    ordinal: int
    filename: str
    attributes: Mapping[str, Any]
    chunking: Chunking
    body_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Attached:
    """A file of a namespace. ``error_code``, ``error_detail`` and ``failure`` (whose fault it is) only if it failed."""

    document_id: str
    namespace: str
    filename: str
    status: Status
    attributes: Mapping[str, Any]
    chunking: Chunking | None
    body_bytes: int
    created_at: datetime
    error_code: str | None = None
    error_detail: str | None = None
    failure: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """How many files of a namespace, or of a job, stand where, and how many bytes those have that are searched."""

    counts: Mapping[Status, int] = field(default_factory=dict)
    body_bytes: int = 0

    def of(self, status: Status) -> int:
        """How many have this status."""
        return self.counts.get(status, 0)

    @property
    def total(self) -> int:
        """All of them."""
        return sum(self.counts.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A place in a list by time: entries after it are wanted or, if ``backwards``, the last ones before it."""

    at: datetime
    name: str
    backwards: bool = False


class Attachments:
    """One tenant's files in namespaces."""

    def __init__(self, connection: Connection, tenant_id: TenantId) -> None:
        self._connection = connection
        self._tenant_id = tenant_id

    def note(self, namespace: Namespace, job_id: JobId, entries: Sequence[NewAttachment]) -> None:
        """Write which item of which job puts these files there; what was noted of them before is replaced, except the
        time they came, unless they had been taken out."""
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
                    _chunking_as_json(entry.chunking),
                    entry.body_bytes,
                    moment,
                )
                for entry in sorted(entries, key=lambda each: each.document_id)
            ],
        )

    def describe(self, namespace: Namespace, document_id: DocumentId, attributes: Mapping[str, Any]) -> None:
        """Change the attributes of one that became no document."""
        values = self._values(namespace, document=document_id, attributes=to_json(dict(attributes)))
        self._connection.execute(_DESCRIBE, values)

    def detach(self, namespace: Namespace, document_ids: Sequence[DocumentId]) -> None:
        """Take files out; the documents are deleted by who calls this."""
        if document_ids:
            self._connection.execute(_DETACH, self._values(namespace, ids=list(document_ids), now=now()))

    def detach_all(self, namespace: Namespace) -> None:
        """Take every file out of a namespace."""
        self._connection.execute(_DETACH_ALL, self._values(namespace, now=now()))

    def namespaces_with(self, document_id: DocumentId) -> list[Namespace]:
        """Where a file was put."""
        rows = self._connection.execute(_HOLDERS, {"tenant": self._tenant_id, "document": document_id}).scalars()
        return [Namespace(name) for name in rows]

    def named(self, namespace: Namespace, document_ids: Sequence[str]) -> dict[str, Attached]:
        """Those of these files that there are."""
        if not document_ids:
            return {}
        rows = self._connection.execute(_NAMED, self._values(namespace, ids=list(document_ids)))
        return {row.document_id: _attached(row) for row in rows}

    def to_go_on_from(self, namespace: Namespace, document_id: DocumentId) -> int | None:
        """The generation of a document that a change of it begins with: the one on its way, else the one shown."""
        values = self._values(namespace, document=document_id)
        row = self._connection.execute(_TO_GO_ON_FROM, values).one_or_none()
        return None if row is None else row.generation

    def position(self, namespace: Namespace, document_id: str) -> datetime | None:
        """The time by which a file stands in the list, also one that was taken out lately."""
        row = self._connection.execute(_POSITION, self._values(namespace, document=document_id)).one_or_none()
        return None if row is None else as_utc(row.created_at)

    def page(
        self,
        namespace: Namespace,
        *,
        place: Place | None,
        newest_first: bool,
        status: Status | None,
        limit: int,
        job_id: JobId | None = None,
    ) -> list[Attached]:
        """Files of a namespace by the time they came; only those that a job brought, if one is named."""
        statement, values = _paged(place, newest_first=newest_first, status=status, of_job=job_id is not None)
        values |= self._values(namespace, limit=limit, job=job_id)
        ids = list(self._connection.execute(text(statement), values).scalars())
        found = self.named(namespace, ids)
        ordered = [found[each] for each in ids if each in found]
        return ordered[::-1] if place is not None and place.backwards else ordered

    def tallies(self, namespaces: Sequence[str]) -> dict[str, Tally]:
        """How many files stand where, of each of these namespaces."""
        if not namespaces:
            return {}
        counts: dict[str, dict[Status, int]] = {name: {} for name in namespaces}
        sizes = dict.fromkeys(namespaces, 0)
        for row in self._connection.execute(_TALLIES, {"tenant": self._tenant_id, "names": list(namespaces)}):
            counts[row.namespace][row.status] = row.files
            sizes[row.namespace] += int(row.body_bytes or 0) if row.status == "completed" else 0
        return {name: Tally(counts=counts[name], body_bytes=sizes[name]) for name in namespaces}

    def tally_of_job(self, job_id: JobId) -> Tally:
        """How many items of a job stand where."""
        rows = self._connection.execute(_JOB_TALLY, {"tenant": self._tenant_id, "job": job_id})
        return Tally(counts={row.status: row.files for row in rows})

    def job_in(self, namespace: Namespace, job_id: JobId) -> datetime | None:
        """When a job of this namespace was accepted; None if there is no such job."""
        row = self._connection.execute(_JOB, self._values(namespace, job=job_id)).one_or_none()
        return None if row is None else as_utc(row.created_at)

    def _values(self, namespace: Namespace, **more: Any) -> dict[str, Any]:
        return {"tenant": self._tenant_id, "namespace": namespace, **more}


def drop_marks(connection: Connection, *, limit: int) -> int:
    """Forget files that were taken out a day ago, of every tenant. Gives how many."""
    return int(connection.execute(_DROP_MARKS, {"limit": limit, "now": now()}).rowcount)


_STATUS = (
    "CASE i.state WHEN 'succeeded' THEN 'completed' WHEN 'failed' THEN 'failed' WHEN 'cancelled' THEN 'cancelled'"
    " ELSE 'in_progress' END"
)
_ALIVE = "d.document_id IS NOT NULL AND d.latest_generation > d.deleted_generation"
# What the ledger has not brought to an end may have no document; what was deleted since, whoever did it, is not there.
_SEEN = f"(({_ALIVE}) OR (i.state <> 'succeeded' AND NOT COALESCE(d.deleted_generation >= i.generation, FALSE)))"
_PUT_THERE = (
    " FROM attachments a JOIN job_items i ON i.tenant_id = a.tenant_id AND i.job_id = a.job_id AND i.ordinal = a.ordinal"
    " LEFT JOIN documents d ON d.tenant_id = a.tenant_id AND d.namespace = a.namespace AND d.document_id = a.document_id"
    f" WHERE a.tenant_id = :tenant AND a.detached_at IS NULL AND {_SEEN}"
)
_OTHER_STATUS = (
    "CASE WHEN d.published_generation IS NOT NULL THEN 'completed' WHEN j.finished_at IS NULL THEN 'in_progress'"
    " ELSE 'failed' END"
)
_OTHERS = (
    " FROM documents d JOIN generations g ON g.tenant_id = d.tenant_id AND g.namespace = d.namespace"
    " AND g.document_id = d.document_id AND g.generation = COALESCE(d.published_generation, d.latest_generation)"
    " LEFT JOIN jobs j ON j.tenant_id = g.tenant_id AND j.job_id = g.job_id"
    " WHERE d.tenant_id = :tenant AND d.latest_generation > d.deleted_generation"
    " AND NOT EXISTS (SELECT 1 FROM attachments a WHERE a.tenant_id = d.tenant_id AND a.namespace = d.namespace"
    " AND a.document_id = d.document_id AND a.detached_at IS NULL)"
)
_THIN = (
    f"SELECT a.namespace, a.document_id, a.created_at, a.body_bytes, {_STATUS} AS status{_PUT_THERE} {{of_put}}"
    " UNION ALL"
    f" SELECT d.namespace, d.document_id, d.created_at, g.body_bytes, {_OTHER_STATUS} AS status{_OTHERS} {{of_others}}"
)
_NAMED = text(
    "SELECT a.namespace, a.document_id, a.created_at, a.filename, a.attributes, a.chunking, a.body_bytes,"
    f" {_STATUS} AS status, i.error_code, i.error_detail, i.failure{_PUT_THERE}"
    " AND a.namespace = :namespace AND a.document_id IN :ids UNION ALL"
    " SELECT d.namespace, d.document_id, d.created_at, COALESCE(g.source_uri, g.title, d.document_id), g.metadata,"
    f" g.chunking, g.body_bytes, {_OTHER_STATUS} AS status, NULL, NULL, NULL{_OTHERS}"
    " AND d.namespace = :namespace AND d.document_id IN :ids"
).bindparams(bindparam("ids", expanding=True))
_TALLIES = text(
    "SELECT namespace, status, COUNT(*) AS files, SUM(body_bytes) AS body_bytes FROM ("
    + _THIN.format(of_put="AND a.namespace IN :names", of_others="AND d.namespace IN :names")
    + ") f GROUP BY namespace, status"
).bindparams(bindparam("names", expanding=True))
_JOB_TALLY = text(
    f"SELECT {_STATUS} AS status, COUNT(*) AS files FROM job_items i"
    " WHERE i.tenant_id = :tenant AND i.job_id = :job GROUP BY 1"
)
_JOB = text("SELECT created_at FROM jobs WHERE tenant_id = :tenant AND namespace = :namespace AND job_id = :job")
_KEY = " WHERE tenant_id = :tenant AND namespace = :namespace AND document_id = :document"
_POSITION = text(
    f"SELECT created_at FROM (SELECT created_at, 0 AS choice FROM attachments{_KEY} UNION ALL"
    f" SELECT created_at, 1 AS choice FROM documents{_KEY}) f ORDER BY choice LIMIT 1"
)
_TO_GO_ON_FROM = text(
    "SELECT IF(j.job_id IS NOT NULL AND j.finished_at IS NULL, d.latest_generation, d.published_generation) AS generation"
    " FROM documents d LEFT JOIN generations g ON g.tenant_id = d.tenant_id AND g.namespace = d.namespace"
    " AND g.document_id = d.document_id AND g.generation = d.latest_generation"
    " LEFT JOIN jobs j ON j.tenant_id = g.tenant_id AND j.job_id = g.job_id"
    " WHERE d.tenant_id = :tenant AND d.namespace = :namespace AND d.document_id = :document"
    " AND d.latest_generation > d.deleted_generation"
)
_DESCRIBE = text(f"UPDATE attachments SET attributes = :attributes{_KEY}")
_DETACH = text(
    "UPDATE attachments SET detached_at = :now WHERE tenant_id = :tenant AND namespace = :namespace"
    " AND document_id IN :ids AND detached_at IS NULL"
).bindparams(bindparam("ids", expanding=True))
_DETACH_ALL = text(
    "UPDATE attachments SET detached_at = :now WHERE tenant_id = :tenant AND namespace = :namespace"
    " AND detached_at IS NULL"
)
_HOLDERS = text(
    "SELECT namespace FROM attachments WHERE tenant_id = :tenant AND document_id = :document AND detached_at IS NULL"
    " ORDER BY namespace"
)
_DROP_MARKS = text(
    f"DELETE FROM attachments WHERE detached_at < DATE_SUB(:now, INTERVAL {_MARKED_FOR_HOURS} HOUR) LIMIT :limit"
)


def _paged(
    place: Place | None, *, newest_first: bool, status: Status | None, of_job: bool
) -> tuple[str, dict[str, Any]]:
    """Ids of one page. Only keys, times and states are sorted; what else belongs to a row is read for one page."""
    backwards = place is not None and place.backwards
    descending = newest_first != backwards
    sign, order = ("<", "DESC") if descending else (">", "ASC")
    clauses = ["TRUE"]
    values: dict[str, Any] = {}
    if place is not None:
        clauses.append(f"(created_at {sign} :at OR (created_at = :at AND document_id {sign} :name))")
        values |= {"at": to_naive(place.at), "name": place.name}
    if status is not None:
        clauses.append("status = :status")
        values["status"] = status
    mine = "AND a.namespace = :namespace AND a.job_id = :job" if of_job else "AND a.namespace = :namespace"
    rows = _THIN.format(of_put=mine, of_others="AND d.namespace = :namespace" + (" AND FALSE" if of_job else ""))
    where = " AND ".join(clauses)
    statement = (
        f"SELECT document_id FROM ({rows}) f WHERE {where}"
        f" ORDER BY created_at {order}, document_id {order} LIMIT :limit"
    )
    return statement, values


def _chunking_as_json(chunking: Chunking) -> str:
    values = {"strategy": chunking.strategy, "max_tokens": chunking.max_tokens, "overlap": chunking.overlap}
    return to_json({**values, "options": dict(chunking.options)} if chunking.options else values)


def _attached(row: Any) -> Attached:
    created_at = as_utc(row.created_at)
    assert created_at is not None
    return Attached(
        document_id=row.document_id,
        namespace=row.namespace,
        filename=row.filename,
        status=row.status,
        attributes=json.loads(row.attributes),
        chunking=Chunking(**json.loads(row.chunking)) if row.chunking else None,
        body_bytes=row.body_bytes,
        created_at=created_at,
        error_code=row.error_code,
        error_detail=row.error_detail,
        failure=row.failure,
    )
