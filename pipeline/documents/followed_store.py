"""The sources that are followed. Their secrets leave this module encrypted only."""

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import select

from chordwise.contract.source import FollowedSource, SourceRun
from pipeline.database.mysql_tables import followed_sources
from pipeline.database.rows import TenantStore, now, record_of
from pipeline.database.statements import TenantsWith, sql
from pipeline.records import DocumentId, JobId, Namespace

tenants_with_due_sources = TenantsWith(
    "SELECT DISTINCT tenant_id FROM followed_sources WHERE next_run_at IS NOT NULL AND next_run_at <= :now"
)
_RUN = TypeAdapter(SourceRun)


class FollowedSources(TenantStore):
    """One tenant's followed sources."""

    def put(
        self, namespace: Namespace, source_id: str, url: str, every_s: int, rules: str, secret: bytes | None
    ) -> None:
        """Follow a source, or follow it otherwise; without a new secret it keeps its own. Its row among the sources is
        there also while it has no document. It is due at once."""
        moment = now()
        values: dict[str, Any] = {"url": url, "every_s": every_s, "rules": rules, "updated_at": moment}
        values["next_run_at"] = moment
        if secret is not None:
            values["secret"] = secret
        key = {"namespace": namespace, "source_id": source_id}
        self._upsert(followed_sources, key, values, created_at=moment)
        self._run(_CREATE_NAMESPACE, namespace=namespace, now=moment)
        kind = "file" if url.startswith("file:") else "url"
        self._run(_NAME_SOURCE, namespace=namespace, id=source_id, kind=kind, url=url, now=moment)

    def one(self, namespace: Namespace, source_id: str, *, lock: bool = False) -> FollowedSource | None:
        """Return a followed source, or None; ``lock``: against other writers until the transaction ends."""
        where = (self._own(followed_sources), *self._at(namespace, source_id))
        statement = select(followed_sources).where(*where)
        row = self._connection.execute(statement.with_for_update() if lock else statement).one_or_none()
        return None if row is None else followed_of(row._mapping)

    def of_job(self, namespace: Namespace, job_id: JobId) -> tuple[str, FollowedSource, bytes | None, int] | None:
        """Return the id of the source whose latest run is this job, the source, its secret as it is stored, and the number of
        removals that were confirmed; None without one."""
        where = self._own(followed_sources), followed_sources.c.namespace == namespace
        statement = select(followed_sources).where(*where, followed_sources.c.job_id == job_id)
        row = self._connection.execute(statement).one_or_none()
        if row is None:
            return None
        return row.source_id, followed_of(row._mapping), row.secret, row.confirmed_removals or 0

    def lock(self) -> int:
        """Return the number of followed sources, and block adding others until the transaction ends."""
        return self._lock_and_count(followed_sources)

    def due(self, limit: int) -> list[tuple[Namespace, str]]:
        """Return the sources whose next run is due, the longest overdue first."""
        return [(row.namespace, row.source_id) for row in self._run(_DUE, now=now(), limit=limit)]

    def began(self, namespace: Namespace, source_id: str, job_id: JobId, *, after_s: float) -> None:
        """Record the job of a new run, and when the next one is due unless the source is paused."""
        self._change(namespace, source_id, "job_id = :job, next_run_at = IF(next_run_at IS NULL, NULL, :due)",
                     job=job_id, due=now() + timedelta(seconds=after_s))  # fmt: skip

    def schedule(self, namespace: Namespace, source_id: str, due: datetime | None) -> bool:
        """Let the next run be due then, or pause the source. False if there is none."""
        return self._change(namespace, source_id, "next_run_at = :due", due=due)

    def confirm(self, namespace: Namespace, source_id: str) -> bool:
        """Let the next run remove as many documents as wait for it. False if none do."""
        return self._change(
            namespace, source_id, "confirmed_removals = held_removals", where=" AND held_removals IS NOT NULL"
        )

    def note(self, namespace: Namespace, source_id: str, run: SourceRun, *, held: int | None) -> None:
        """Record what a run did, and the documents that wait for a confirmation, which counts for one run."""
        self._change(namespace, source_id, "run = :run, held_removals = :held, confirmed_removals = NULL",
                     run=_RUN.dump_json(run).decode(), held=held)  # fmt: skip

    def remove(self, namespace: Namespace, source_id: str) -> bool:
        """Follow a source no longer. False if it was not followed."""
        return bool(self._remove_rows(followed_sources, namespace=namespace, source_id=source_id))

    def versions(
        self, namespace: Namespace, source_id: str, *, after: str, limit: int
    ) -> list[tuple[DocumentId, int, bytes | None]]:
        """Return documents of the source with the number and the file's version of each upload, those after an id."""
        rows = self._run(_VERSIONS, namespace=namespace, id=source_id, after=after, limit=limit)
        return [(row.document_id, row.generation, row.source_version) for row in rows]

    def owners(self, namespace: Namespace, source_id: str, document_ids: list[DocumentId]) -> dict[DocumentId, str]:
        """Return those of these documents that belong to other followed sources, with these."""
        if not document_ids:
            return {}
        rows = self._run(_OWNERS, namespace=namespace, id=source_id, ids=document_ids)
        return {row.document_id: row.source_id for row in rows}

    def refused(self, namespace: Namespace, document_ids: Sequence[DocumentId]) -> dict[DocumentId, bytes]:
        """Return the version of the file that each of these documents could not be made of, unless it was tried anew since."""
        rows = self._run(_REFUSED, namespace=namespace, ids=document_ids or [""])
        return {row.document_id: row.failed_version for row in rows}

    def _at(self, namespace: Namespace, source_id: str) -> tuple[Any, ...]:
        return followed_sources.c.namespace == namespace, followed_sources.c.source_id == source_id

    def _change(
        self, namespace: Namespace, source_id: str, assignments: str, *, where: str = "", **values: Any
    ) -> bool:
        statement = (
            f"UPDATE followed_sources SET {assignments}, updated_at = :now WHERE tenant_id = :tenant"
            f" AND namespace = :namespace AND source_id = :id{where}"
        )
        return bool(self._run(statement, namespace=namespace, id=source_id, now=now(), **values).rowcount)


def followed_of(row: Any) -> FollowedSource:
    """Return the followed source in a row."""
    run = row["run"]
    return record_of(
        FollowedSource,
        row,
        every_seconds=row["every_s"],
        rules=tuple(json.loads(row["rules"])),
        has_secret=row["secret"] is not None,
        run=None if run is None else _RUN.validate_json(run),
    )


_CREATE_NAMESPACE = sql(
    "INSERT IGNORE INTO namespaces (tenant_id, namespace, created_at) VALUES (:tenant, :namespace, :now)"
)
_NAME_SOURCE = sql(
    "INSERT INTO sources (tenant_id, namespace, source_id, kind, uri, media_type, created_at)"
    " VALUES (:tenant, :namespace, :id, :kind, :url, 'application/octet-stream', :now)"
    " ON DUPLICATE KEY UPDATE kind = VALUES(kind), uri = VALUES(uri)"
)
_DUE = sql(
    "SELECT namespace, source_id FROM followed_sources WHERE tenant_id = :tenant AND next_run_at <= :now"
    " ORDER BY next_run_at LIMIT :limit"
)
# Along the index of sources, whose entries end in document and generation.
_VERSIONS = sql(
    "SELECT g.document_id, g.generation, g.source_version FROM generations g FORCE INDEX (generations_by_source)"
    " JOIN documents d ON d.tenant_id = g.tenant_id AND d.namespace = g.namespace AND d.document_id = g.document_id"
    " WHERE g.tenant_id = :tenant AND g.namespace = :namespace AND g.source_id = :id AND g.document_id > :after"
    " AND g.generation > d.deleted_generation AND g.generation <> d.failed_generation"
    " ORDER BY g.document_id, g.generation LIMIT :limit"
)
_REFUSED = sql(
    "SELECT document_id, failed_version FROM documents WHERE tenant_id = :tenant AND namespace = :namespace"
    " AND document_id IN :ids AND failed_version IS NOT NULL AND failed_generation = latest_generation"
    " AND failed_generation > deleted_generation"
)
_OWNERS = sql(
    "SELECT g.document_id, g.source_id FROM documents d JOIN generations g ON g.tenant_id = d.tenant_id"
    " AND g.namespace = d.namespace AND g.document_id = d.document_id"
    " AND g.generation = COALESCE(d.published_generation, d.latest_generation)"
    " JOIN followed_sources f ON f.tenant_id = g.tenant_id AND f.namespace = g.namespace AND f.source_id = g.source_id"
    " WHERE d.tenant_id = :tenant AND d.namespace = :namespace AND d.document_id IN :ids AND g.source_id <> :id"
    " AND d.latest_generation > d.deleted_generation"
)
