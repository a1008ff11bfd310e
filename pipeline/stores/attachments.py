"""Files as they stand in a namespace: what was put there, under which attributes, and what the ledger says became of it.

A document that came some other way is one too, named after its source, with its metadata for attributes; so is a file
that was written some other way since. An entry that is taken out stays as a mark for a while, so that a list that has
come to it can be gone on with.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, text

from pipeline.records import Chunking, DocumentId, JobId, Namespace, TenantId
from pipeline.stores.attachment_rows import (
    DELETED_SINCE,
    DESCRIBE,
    DETACH,
    DETACH_ALL,
    DROP_MARKS,
    HOLDERS,
    JOB,
    JOB_TALLY,
    NAMED,
    POSITION,
    STATUSES,
    TALLIES,
    TO_GO_ON_FROM,
    WITH_OLD_MARKS,
    Place,
    Status,
    paged,
)
from pipeline.stores.rows import TenantStore, as_utc, insert_many, now, record_of, to_json

__all__ = ["STATUSES", "Attached", "Attachments", "NewAttachment", "Place", "Status", "Tally", "tenants_with_old_marks"]

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


class Attachments(TenantStore):
    """One tenant's files in namespaces."""

    def note(self, namespace: Namespace, job_id: JobId, entries: Sequence[NewAttachment]) -> None:
        """Record which job item puts these files there, replacing earlier records except their time, unless they had
        been taken out."""
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
        self._run(DESCRIBE, namespace=namespace, document=document_id, attributes=to_json(dict(attributes)))

    def detach(self, namespace: Namespace, document_ids: Sequence[DocumentId]) -> None:
        """Take files out; the documents are deleted by who calls this."""
        if document_ids:
            self._run(DETACH, namespace=namespace, ids=list(document_ids), now=now())

    def detach_all(self, namespace: Namespace) -> None:
        """Take every file out of a namespace."""
        self._run(DETACH_ALL, namespace=namespace, now=now())

    def namespaces_with(self, document_id: DocumentId) -> list[Namespace]:
        """Where a file was put."""
        rows = self._run(HOLDERS, document=document_id).scalars()
        return [Namespace(name) for name in rows]

    def named(self, namespace: Namespace, document_ids: Sequence[str]) -> dict[str, Attached]:
        """Those of these files that there are."""
        if not document_ids:
            return {}
        rows = self._run(NAMED, namespace=namespace, ids=list(document_ids))
        return {row.document_id: _attached(row) for row in rows}

    def to_go_on_from(self, namespace: Namespace, document_id: DocumentId) -> int | None:
        """The generation of a document that a change of it begins with: the one on its way, else the one shown."""
        row = self._run(TO_GO_ON_FROM, namespace=namespace, document=document_id).one_or_none()
        return None if row is None else row.generation

    def was_deleted_since(self, namespace: Namespace, document_id: DocumentId, generation: int) -> bool:
        """Whether a document was deleted since this generation was accepted. Call it in the transaction that gave it
        another."""
        deleted = self._run(DELETED_SINCE, namespace=namespace, document=document_id, generation=generation)
        return bool(deleted.scalar_one())

    def position(self, namespace: Namespace, document_id: str) -> datetime | None:
        """The time by which a file stands in the list, also one that was taken out lately."""
        row = self._run(POSITION, namespace=namespace, document=document_id).one_or_none()
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
        statement, values = paged(place, newest_first=newest_first, status=status, of_job=job_id is not None)
        ids = list(self._run(text(statement), namespace=namespace, limit=limit, job=job_id, **values).scalars())
        found = self.named(namespace, ids)
        ordered = [found[each] for each in ids if each in found]
        return ordered[::-1] if place is not None and place.backwards else ordered

    def tallies(self, namespaces: Sequence[str]) -> dict[str, Tally]:
        """How many files stand where, of each of these namespaces."""
        if not namespaces:
            return {}
        counts: dict[str, dict[Status, int]] = {name: {} for name in namespaces}
        sizes = dict.fromkeys(namespaces, 0)
        for row in self._run(TALLIES, names=list(namespaces)):
            counts[row.namespace][row.status] = row.files
            sizes[row.namespace] += int(row.body_bytes or 0) if row.status == "completed" else 0
        return {name: Tally(counts=counts[name], body_bytes=sizes[name]) for name in namespaces}

    def tally_of_job(self, job_id: JobId) -> Tally:
        """How many items of a job stand where."""
        rows = self._run(JOB_TALLY, job=job_id)
        return Tally(counts={row.status: row.files for row in rows})

    def job_in(self, namespace: Namespace, job_id: JobId) -> datetime | None:
        """When a job of this namespace was accepted; None if there is no such job."""
        row = self._run(JOB, namespace=namespace, job=job_id).one_or_none()
        return None if row is None else as_utc(row.created_at)

    def drop_old_marks(self, *, limit: int) -> int:
        """Forget files that were taken out a day ago. Gives how many."""
        return int(self._run(DROP_MARKS, before=_marked_before(), limit=limit).rowcount)


def tenants_with_old_marks(connection: Connection) -> list[TenantId]:
    """Tenants of whom files were taken out a day ago and are still marked."""
    rows = connection.execute(WITH_OLD_MARKS, {"before": _marked_before()}).scalars()
    return [TenantId(tenant_id) for tenant_id in rows]


def _marked_before() -> datetime:
    return now() - timedelta(hours=_MARKED_FOR_HOURS)


def _chunking_as_json(chunking: Chunking) -> str:
    values = {"strategy": chunking.strategy, "max_tokens": chunking.max_tokens, "overlap": chunking.overlap}
    return to_json({**values, "options": dict(chunking.options)} if chunking.options else values)


def _attached(row: Any) -> Attached:
    return record_of(
        Attached,
        row,
        attributes=json.loads(row.attributes),
        chunking=Chunking(**json.loads(row.chunking)) if row.chunking else None,
    )
