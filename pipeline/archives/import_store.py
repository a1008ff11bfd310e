"""The records of imports: accepted parts with their jobs, and the marks of imported chunks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict

from sqlalchemy import Connection

from pipeline.archives.archive import NewPart, PartView
from pipeline.archives.chunk_lines import Mark
from pipeline.database.rows import generation_key, now, record_of, to_naive
from pipeline.database.statements import OF_GENERATION, sql
from pipeline.errors import PartKnown
from pipeline.records import Generation, JobId, Namespace, TenantId


class Imports:
    """One tenant's imports into one namespace."""

    def __init__(self, connection: Connection, tenant_id: TenantId, namespace: Namespace) -> None:
        self._connection = connection
        self._key = {"tenant": tenant_id, "namespace": namespace}

    def add(self, part: NewPart, job_id: JobId) -> None:
        """Record that a part became this job, after any other transaction about the same part. Raises PartKnown if it
        was recorded before; the transaction must then not commit."""
        values = {**self._key, **asdict(part), "job": job_id, "now": now()}
        if not self._connection.execute(_ADD, values).rowcount:
            raise PartKnown(f"part {part.number} of import {part.import_id} was accepted before")

    def parts(self, import_id: str) -> list[PartView]:
        """Return the parts that arrived, in order."""
        rows = self._connection.execute(_PARTS, {**self._key, "import": import_id})
        return [
            record_of(
                PartView,
                row,
                sha256=row.sha256.hex(),
                vectors_kept=bool(row.vectors_kept),
                finished=row.finished_at is not None,
            )
            for row in rows
        ]

    def forget(self, import_id: str) -> int:
        """Allow the same parts to be imported again; their documents stay. Return how many parts there were."""
        return self._connection.execute(_FORGET, {**self._key, "import": import_id}).rowcount


def mark_chunks(connection: Connection, tenant_id: TenantId, marks: Mapping[Generation, Mapping[int, Mark]]) -> None:
    """Write the marks of imported chunks, equal ones in one statement."""
    for generation, by_ordinal in marks.items():
        ordinals_by_mark: defaultdict[Mark, list[int]] = defaultdict(list)
        for ordinal, mark in by_ordinal.items():
            ordinals_by_mark[mark].append(ordinal)
        for mark, ordinals in ordinals_by_mark.items():
            values = {"enabled": int(mark.enabled), "version": mark.version, "edited_at": to_naive(mark.edited_at)}
            key = generation_key(generation) | {"tenant": tenant_id}
            connection.execute(_MARK, {**values, **key, "ordinals": ordinals})


_MARK = sql(
    "UPDATE chunks SET enabled = :enabled, version = :version, edited_at = :edited_at"
    f" WHERE {OF_GENERATION} AND ordinal IN :ordinals"
)


_ADD = sql(
    "INSERT IGNORE INTO import_parts (tenant_id, namespace, import_id, part, sha256, job_id, documents, chunks, vectors,"
    " vectors_kept, received_at)"
    " VALUES (:tenant, :namespace, :import_id, :number, :sha256, :job, :documents, :chunks, :vectors, :vectors_kept, :now)"
)

_PARTS = sql(
    "SELECT p.part, p.sha256, p.job_id, p.documents, p.chunks, p.vectors, p.vectors_kept, p.received_at, j.finished_at"
    " FROM import_parts p LEFT JOIN jobs j ON j.tenant_id = p.tenant_id AND j.job_id = p.job_id"
    " WHERE p.tenant_id = :tenant AND p.namespace = :namespace AND p.import_id = :import ORDER BY p.part"
)

_FORGET = sql("DELETE FROM import_parts WHERE tenant_id = :tenant AND namespace = :namespace AND import_id = :import")
