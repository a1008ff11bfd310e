"""The costs of a tenant's calls of models: counts that only grow, by day, job, purpose and model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, fields
from datetime import date
from decimal import Decimal
from typing import Any

from pipeline.database.rows import TenantStore, insert_many
from pipeline.database.statements import sql
from pipeline.records import JobId
from pipeline.tenants.usage import Purpose, UsageCounts, UsageEntry, UsageKey, UsageRow


class Usage(TenantStore):
    """One tenant's counts."""

    def add(self, entries: Mapping[UsageEntry, UsageCounts]) -> None:
        """Add to earlier counts, in sorted order against deadlocks."""
        rows = []
        for entry, counts in entries.items():
            key = (self._tenant_id, entry.day, entry.job_id or "", entry.purpose.value, entry.model)
            rows.append((*key, *astuple(counts)))
        insert_many(self._connection, _ADD, sorted(rows))

    def of_jobs(self, job_ids: Sequence[JobId]) -> dict[JobId, UsageRow]:
        """Return the counts of those of these jobs that have any."""
        rows = self._run(_OF_JOBS, jobs=list(job_ids)) if job_ids else ()
        return {JobId(row.name): _row(row) for row in rows}

    def between(self, first: date, last: date, *, by: UsageKey, after: str | None, limit: int) -> list[UsageRow]:
        """Return counts of these days, both inclusive, in the order of their key, after the given one."""
        statement = _BETWEEN.format(key=_KEYS[by], having="HAVING name > :after" if after is not None else "")
        return [_row(row) for row in self._run(statement, first=first, last=last, after=after, limit=limit)]

    def total(self, first: date, last: date) -> UsageRow:
        """Return the total of these days."""
        return _row(self._run(_TOTAL, first=first, last=last).one())

    def embedded_tokens(self, first: date, last: date) -> int:
        """Return the tokens that were embedded on these days; those of answers are not among them."""
        return int(self._run(_EMBEDDED, first=first, last=last, answer=Purpose.ANSWER.value).scalar_one() or 0)


def _row(row: Any) -> UsageRow:
    counts = {name: int(getattr(row, name) or 0) for name in _SUMMED[:-1]}
    return UsageRow(key=str(row.name), counts=UsageCounts(**counts, cost=Decimal(row.cost or 0)))


_SUMMED = tuple(field.name for field in fields(UsageCounts))  # the last is the cost

_ADD = (
    f"INSERT INTO embedding_usage (tenant_id, day, job_id, purpose, model, {', '.join(_SUMMED)})"
    " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
    f" ON DUPLICATE KEY UPDATE {', '.join(f'{name} = {name} + VALUES({name})' for name in _SUMMED)}"
)

_SUMS = f"{', '.join(f'SUM({name}) AS {name}' for name in _SUMMED)} FROM embedding_usage WHERE tenant_id = :tenant"

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

_EMBEDDED = sql(
    "SELECT SUM(tokens) FROM embedding_usage WHERE tenant_id = :tenant AND day BETWEEN :first AND :last"
    " AND purpose <> :answer"
)
_TOTAL = sql(f"SELECT '' AS name, {_SUMS} AND day BETWEEN :first AND :last")
