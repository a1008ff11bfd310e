"""The costs of a tenant's embeddings: counts that only grow, by day, job, purpose and model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import date
from decimal import Decimal
from typing import Any

from pipeline.database.rows import TenantStore, insert_many
from pipeline.database.statements import sql
from pipeline.records import JobId
from pipeline.tenants.usage import EmbeddingCounts, UsageEntry, UsageKey, UsageRow


class Usage(TenantStore):
    """One tenant's counts."""

    def add(self, entries: Mapping[UsageEntry, EmbeddingCounts], *, price_per_million: Decimal) -> None:
        """Add to earlier counts, in sorted order against deadlocks."""
        rows = [
            (
                self._tenant_id,
                entry.day,
                entry.job_id or "",
                entry.purpose.value,
                entry.model,
                counts.requests,
                counts.texts,
                counts.tokens,
                counts.cached_texts,
                counts.saved_tokens,
                counts.tokens * price_per_million / 1_000_000,
            )
            for entry, counts in sorted(
                entries.items(), key=lambda pair: (pair[0].day, pair[0].job_id or "", pair[0].purpose, pair[0].model)
            )
        ]
        insert_many(self._connection, _ADD, rows)

    def of_jobs(self, job_ids: Sequence[JobId]) -> dict[JobId, UsageRow]:
        """Return the counts of those of these jobs that have any."""
        if not job_ids:
            return {}
        rows = self._run(_OF_JOBS, jobs=list(job_ids))
        return {JobId(row.name): _row(row) for row in rows}

    def between(self, first: date, last: date, *, by: UsageKey, after: str | None, limit: int) -> list[UsageRow]:
        """Return counts of these days, both inclusive, in the order of their key, after the given one."""
        statement = _BETWEEN.format(key=_KEYS[by], having="HAVING name > :after" if after is not None else "")
        return [_row(row) for row in self._run(statement, first=first, last=last, after=after, limit=limit)]

    def total(self, first: date, last: date) -> UsageRow:
        """Return the total of these days."""
        return _row(self._run(_TOTAL, first=first, last=last).one())


def _row(row: Any) -> UsageRow:
    counts = EmbeddingCounts(**{field.name: int(getattr(row, field.name) or 0) for field in fields(EmbeddingCounts)})
    return UsageRow(key=str(row.name), counts=counts, cost=Decimal(row.cost or 0))


_ADD = (
    "INSERT INTO embedding_usage (tenant_id, day, job_id, purpose, model, requests, texts, tokens, cached_texts,"
    " saved_tokens, cost) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s) ON DUPLICATE KEY UPDATE"
    " requests = requests + VALUES(requests), texts = texts + VALUES(texts), tokens = tokens + VALUES(tokens),"
    " cached_texts = cached_texts + VALUES(cached_texts), saved_tokens = saved_tokens + VALUES(saved_tokens),"
    " cost = cost + VALUES(cost)"
)

_SUMS = (
    "SUM(requests) AS requests, SUM(texts) AS texts, SUM(tokens) AS tokens, SUM(cached_texts) AS cached_texts,"
    " SUM(saved_tokens) AS saved_tokens, SUM(cost) AS cost FROM embedding_usage WHERE tenant_id = :tenant"
)

_KEYS: dict[UsageKey, str] = {
    "day": "CAST(day AS CHAR(10) CHARACTER SET ascii)",
    "job": "job_id",
    "model": "model",
    "purpose": "purpose",
}

_OF_JOBS = sql(f"SELECT job_id AS name, {_SUMS} AND job_id IN :jobs GROUP BY job_id")

_BETWEEN = (
    f"SELECT {{key}} AS name, {_SUMS} AND day BETWEEN :first AND :last GROUP BY name {{having}}"
    " ORDER BY name LIMIT :limit"
)

_TOTAL = sql(f"SELECT '' AS name, {_SUMS} AND day BETWEEN :first AND :last")
