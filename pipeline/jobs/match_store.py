"""Documents, refused items and jobs that a piece of text may mean: the store behind one box that finds all of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pipeline.database.rows import TenantStore, record_of
from pipeline.database.statements import same_document
from pipeline.documents.outcome_store import STATUS, WORKED_ON
from pipeline.jobs.job_view_store import JobViews
from pipeline.jobs.job_views import Match

MOST_COMPARED = 100_000  # uploads, by namespace and id: a third of a second of work
_WILDCARDS, _LITERALLY = re.compile(r"[|%_]"), r"|\g<0>"
_PART_OF_ID = re.compile(r"[0-9a-f]{2,8}(-[0-9a-f-]{0,28})?")


class Matches(TenantStore):
    """One tenant's documents and jobs, found by part of a title or id."""

    def of(self, text: str, *, namespace: str | None, limit: int) -> tuple[list[Match], bool]:
        """Return up to ``limit`` documents, refused items and jobs each: failures first, then by namespace and id. Titles,
        ids and sources are compared without case. The flag is True if uploads were left out."""
        words = text.strip().lower()
        like = f"%{_WILDCARDS.sub(_LITERALLY, words)}%"
        within = {alias: "" if namespace is None else f"AND {alias}.namespace = :namespace" for alias in "gi"}
        values = {"namespace": namespace, "most": MOST_COMPARED}
        bound = self._run(_BOUND.format(within=within["g"]), **values).one_or_none()
        before = _BEFORE if bound else ""
        end = {"end": bound.namespace, "end_id": bound.document_id} if bound else {}
        statement = _DOCUMENTS.format(within=within["g"], before=before)
        documents = self._documents(self._run(statement, like=like, limit=limit, **values, **end).all())
        refused = self._run(_REFUSED.format(within=within["i"]), like=like, limit=limit, **values).all()
        jobs = self._jobs(words, namespace, limit) if _PART_OF_ID.fullmatch(words) else []
        matches = [*(record_of(Match, row, status="failed") for row in refused), *documents, *jobs]
        return sorted(matches, key=lambda match: match.status != "failed"), bound is not None

    def _documents(self, rows: Sequence[Any]) -> list[Match]:
        jobs = sorted({row.job_id for row in rows if row.status == "failed"})
        causes = self._run(_CAUSES, jobs=jobs).all() if jobs else []
        causes_of = {(row.job_id, row.namespace, row.document_id): row for row in causes}
        matches = []
        for row in rows:
            cause = causes_of.get((row.job_id, row.namespace, row.document_id))
            reason = {"code": cause.code, "detail": cause.detail} if cause else {}
            matches.append(record_of(Match, row, searchable=bool(row.searchable), **reason))
        return matches

    def _jobs(self, prefix: str, namespace: str | None, limit: int) -> list[Match]:
        views = JobViews(self._connection, self._tenant_id).beginning_with(prefix, limit=limit)
        return [
            Match(kind="job", namespace=job.namespace, status=job.status, job_id=job.job_id, updated_at=job.updated_at)
            for job in views
            if namespace in (None, job.namespace)
        ]


# Each upload's row is compared in the order of the key, before anything is joined to the few that match. No derived table
# stands between, because those rows are too wide for one in memory.
_DOCUMENTS = (
    f"SELECT STRAIGHT_JOIN 'document' AS kind, d.namespace, d.document_id, g.title, {STATUS} AS status, g.job_id,"
    " d.updated_at, d.published_generation IS NOT NULL AS searchable FROM generations g"
    f" JOIN documents d ON {same_document('d', 'g')} AND g.generation = IF(d.failed_generation = d.latest_generation,"
    f" d.latest_generation, COALESCE(d.published_generation, d.latest_generation)) {WORKED_ON}"
    " WHERE g.tenant_id = :tenant {within} {before}"
    " AND LOWER(CONCAT_WS(CHAR(10), g.document_id, g.title, g.source_uri)) LIKE :like ESCAPE '|'"
    " AND d.latest_generation > d.deleted_generation"
    " ORDER BY d.failed_generation = d.latest_generation DESC, d.namespace, d.document_id LIMIT :limit"
)

# The first upload that is not compared; read from the key alone.
_BOUND = (
    "SELECT g.namespace, g.document_id FROM generations g WHERE g.tenant_id = :tenant {within}"
    " ORDER BY g.namespace, g.document_id, g.generation LIMIT 1 OFFSET :most"
)

_BEFORE = "AND (g.namespace < :end OR (g.namespace = :end AND g.document_id < :end_id))"

_CAUSES = (
    "SELECT job_id, namespace, document_id, error_code AS code, error_detail AS detail FROM job_items"
    " WHERE tenant_id = :tenant AND job_id IN :jobs AND state = 'failed' AND generation IS NOT NULL"
)

# By the index of items by state; few items fail.
_REFUSED = (
    "SELECT 'refused' AS kind, i.namespace, i.document_id, i.error_code AS code, i.error_detail AS detail, i.job_id,"
    " i.updated_at FROM job_items i WHERE i.tenant_id = :tenant AND i.state = 'failed' AND i.generation IS NULL {within}"
    " AND LOWER(i.document_id) LIKE :like ESCAPE '|' ORDER BY i.updated_at DESC, i.job_id, i.ordinal LIMIT :limit"
)
