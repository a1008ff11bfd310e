"""Uploaded files of a tenant that belong to no namespace yet."""

import hashlib
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, and_, func, or_, select

from pipeline.database.mysql_tables import stored_file_bodies, stored_files
from pipeline.database.rows import TenantStore, follows, now, placeholders, record_of, slices, to_naive
from pipeline.database.statements import TenantsWith, same_generation, sql
from pipeline.records import JobId, Namespace, TenantId
from pipeline.vector_stores.collection import StoredFile

_FILES_PER_STATEMENT = 100


class StoredFiles(TenantStore):
    """One tenant's files."""

    def put(self, file: StoredFile, body: bytes) -> None:
        """Store a file."""
        times = {"created_at": to_naive(file.created_at), "expires_at": to_naive(file.expires_at)}
        self._insert_row(stored_files, **asdict(file) | times, content_hash=hashlib.sha256(body).digest())
        self._insert_row(stored_file_bodies, file_id=file.file_id, body=body)

    def named(self, file_ids: Sequence[str]) -> dict[str, StoredFile]:
        """Return those of these files that exist and have not expired."""
        files: dict[str, StoredFile] = {}
        for ids in slices(list(file_ids), 1000):
            rows = self._connection.execute(select(stored_files).where(self._valid(), stored_files.c.file_id.in_(ids)))
            files |= {row.file_id: record_of(StoredFile, row) for row in rows}
        return files

    def body(self, file_id: str) -> bytes | None:
        """Return a file's bytes, or None."""
        where = and_(self._own(stored_file_bodies), stored_file_bodies.c.file_id == file_id)
        body: bytes | None = self._connection.execute(
            select(stored_file_bodies.c.body).where(where)
        ).scalar_one_or_none()
        return body

    def count(self) -> int:
        """Return the number of files."""
        statement = select(func.count()).select_from(stored_files).where(self._own(stored_files))
        return int(self._connection.execute(statement).scalar_one())

    def page(
        self, *, after: tuple[datetime, str] | None, newest_first: bool, purpose: str | None, limit: int
    ) -> list[StoredFile]:
        """Return files by the time of upload, after the given time and id."""
        at, file_id = stored_files.c.created_at, stored_files.c.file_id
        statement = select(stored_files).where(self._valid()).limit(limit)
        if after is not None:
            statement = statement.where(follows(at, file_id, after, newest_first=newest_first))
        if purpose is not None:
            statement = statement.where(stored_files.c.purpose == purpose)
        order = (at.desc(), file_id.desc()) if newest_first else (at, file_id)
        return [record_of(StoredFile, row) for row in self._connection.execute(statement.order_by(*order))]

    def forget(self, file_id: str) -> bool:
        """Delete a file. False if there is none."""
        self._remove_rows(stored_file_bodies, file_id=file_id)
        return bool(self._remove_rows(stored_files, file_id=file_id))

    def _valid(self) -> ColumnElement[bool]:
        """Return the condition that a file is the tenant's and has not expired."""
        expires_at = stored_files.c.expires_at
        return and_(self._own(stored_files), or_(expires_at.is_(None), expires_at > now()))

    def hand_over(self, namespace: Namespace, job_id: JobId, file_ids: Sequence[str]) -> int:
        """Copy the bytes of files to the documents of the same ids of a job, inside the database: together they may
        exceed this process's memory. Return how many; fewer if one is gone meanwhile."""
        copied = 0
        for ids in slices(list(file_ids), _FILES_PER_STATEMENT):
            many = placeholders(ids)
            values = (self._tenant_id, namespace, job_id, *ids)
            copied += self._connection.exec_driver_sql(_COPY_BODIES.format(many=many), values).rowcount
            self._connection.exec_driver_sql(_COPY_FACTS.format(many=many), values)
            self._connection.exec_driver_sql(_COPY_SIZES.format(many=many), (self._tenant_id, job_id, *ids))
        return copied


def expired_files(connection: Connection, *, limit: int) -> list[tuple[TenantId, str]]:
    """Return expired files of every tenant."""
    rows = connection.execute(_EXPIRED, {"now": now(), "limit": limit})
    return [(TenantId(row.tenant_id), row.file_id) for row in rows]


tenants_with_expired_files = TenantsWith("SELECT DISTINCT tenant_id FROM stored_files WHERE expires_at <= :now")

_EXPIRED = sql(
    "SELECT s.tenant_id, s.file_id FROM stored_files s WHERE s.expires_at <= :now ORDER BY s.expires_at LIMIT :limit"
)

_OF_GENERATIONS = " WHERE g.tenant_id = %s AND g.namespace = %s AND g.job_id = %s AND g.document_id IN ({many})"
_FILE_OF = "f.tenant_id = g.tenant_id AND f.file_id = g.document_id"
_COPY_BODIES = (
    f"UPDATE generations g JOIN payloads p ON {same_generation('p', 'g')} JOIN stored_file_bodies f ON {_FILE_OF}"
    f" SET p.body = f.body{_OF_GENERATIONS}"
)
_COPY_FACTS = (
    f"UPDATE generations g JOIN stored_files f ON {_FILE_OF}"
    f" SET g.content_hash = f.content_hash, g.body_bytes = f.body_bytes{_OF_GENERATIONS}"
)
_COPY_SIZES = (
    "UPDATE job_items i JOIN stored_files f ON f.tenant_id = i.tenant_id"
    " AND f.file_id = i.document_id SET i.body_bytes = f.body_bytes"
    " WHERE i.tenant_id = %s AND i.job_id = %s AND i.document_id IN ({many}) AND i.state = 'queued'"
)
