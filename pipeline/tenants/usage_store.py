"""The costs of a tenant's calls of models: collected in the process, added to MySQL soon after, lost only with it."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, fields, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final

import structlog
from sqlalchemy import Engine

from chordwise.contract import job
from chordwise.contract.job import UsageRow
from pipeline.database.rows import TenantStore, insert_many
from pipeline.database.statements import TenantsWith, sql
from pipeline.database.unit_of_work import retry_conflicts, unit_of_work
from pipeline.errors import PipelineError, TenantGone
from pipeline.metrics.meter_store import Meter
from pipeline.records import JobId, TenantId
from pipeline.tenants.usage import OF_THE_LANGUAGE_MODEL, Purpose, UsageCounts, UsageKey
from pipeline.threads import DelayedCall

UsageEntry = tuple[date, str, str, str]  # the day, job or empty, purpose and model of counts


class Usage(TenantStore):
    """One tenant's counts."""

    def add(self, entries: Mapping[UsageEntry, UsageCounts]) -> None:
        """Add to earlier counts, in sorted order against deadlocks."""
        rows = sorted((self._tenant_id, *entry, *astuple(counts)) for entry, counts in entries.items())
        insert_many(self._connection, _ADD, rows)

    def of_jobs(self, job_ids: Sequence[JobId]) -> dict[JobId, job.Usage]:
        """Return the counts of those of these jobs that have any."""
        rows = self._run(_OF_JOBS, jobs=list(job_ids)) if job_ids else ()
        return {JobId(row.name): job.Usage(**_counts(row)) for row in rows}

    def between(self, first: date, last: date, *, by: UsageKey, after: str | None, limit: int) -> list[UsageRow]:
        """Return counts of these days, both inclusive, in the order of their key, after the given one."""
        statement = _BETWEEN.format(key=_KEYS[by], having="HAVING name > :after" if after is not None else "")
        return [_row(row) for row in self._run(statement, first=first, last=last, after=after, limit=limit)]

    def total(self, first: date, last: date) -> UsageRow:
        """Return the total of these days."""
        return _row(self._run(_TOTAL, first=first, last=last).one())

    def embedded_tokens(self, first: date, last: date) -> int:
        """Return the tokens that were embedded on these days; those of the language model are not among them."""
        others = [purpose.value for purpose in OF_THE_LANGUAGE_MODEL]
        return int(self._run(_EMBEDDED, first=first, last=last, others=others).scalar_one() or 0)

    def forget(self, before: date, *, limit: int) -> int:
        """Delete some counts of days before this one whose jobs are gone, or of no job; return how many."""
        return self._run(_FORGET, before=before, limit=limit).rowcount


def _row(row: Any) -> UsageRow:
    return UsageRow(key=str(row.name), **_counts(row))


def _counts(row: Any) -> dict[str, Any]:
    counts = {name.removesuffix("_texts"): int(getattr(row, name) or 0) for name in _SUMMED[:-1]}
    return {**counts, "cost": float(row.cost or 0)}


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
    " AND purpose NOT IN :others"
)
_TOTAL = sql(f"SELECT '' AS name, {_SUMS} AND day BETWEEN :first AND :last")


log = structlog.get_logger(__name__)

_FORGET = sql(
    "DELETE FROM embedding_usage WHERE tenant_id = :tenant AND day < :before AND (SELECT 1 FROM jobs j"
    " WHERE j.tenant_id = :tenant AND j.job_id = embedding_usage.job_id LIMIT 1) IS NULL LIMIT :limit"
)

# With counts of days before this one, by one index lookup each.
tenants_with_usage = TenantsWith(
    "SELECT t.tenant_id FROM tenants t WHERE EXISTS (SELECT 1 FROM embedding_usage u"
    " WHERE u.tenant_id = t.tenant_id AND u.day < :before)"
)

SOON_S: Final = 0.5  # how long notes may wait to be written together


class UsageBook:
    """One process's counters. Thread-safe; close it when done."""

    def __init__(
        self,
        mysql: Callable[[], Engine],
        *,
        price_per_million: Decimal,
        meter: Callable[[], Meter] | None = None,
    ) -> None:
        self._mysql = mysql
        self._meter = meter
        self._price = price_per_million
        self._lock = threading.Lock()
        self._collected: dict[TenantId, dict[UsageEntry, UsageCounts]] = {}
        self._writing = DelayedCall(self.write, seconds=SOON_S)

    def note(
        self, tenant_id: TenantId, purpose: Purpose, model: str, counts: UsageCounts, *, job_id: JobId | None
    ) -> None:
        """Add to the counters of today (UTC). Embeddings get their cost here, calls of the language model bring theirs."""
        if counts == UsageCounts():
            return
        label = purpose.value
        if purpose not in OF_THE_LANGUAGE_MODEL:
            label = f"embed_{label}"
            counts = replace(counts, cost=counts.tokens * self._price / 1_000_000)
        if self._meter is not None:
            meter = self._meter()
            meter.count("chordwise_model_requests", counts.requests, purpose=label)
            meter.count("chordwise_model_tokens", counts.tokens, purpose=label)
            meter.count("chordwise_model_cached_texts", counts.cached_texts, purpose=label)
        entry = (datetime.now(UTC).date(), job_id or "", purpose.value, model)
        self._collect(tenant_id, {entry: counts})

    def write(self) -> None:
        """Write the counters. Those that cannot be written now are written with the next ones, unless their tenant has
        been erased."""
        with self._lock:
            collected, self._collected = self._collected, {}
        for tenant_id, entries in collected.items():
            try:
                self._add(tenant_id, entries)
            except TenantGone:
                log.info("usage_dropped", tenant_id=tenant_id)
            except PipelineError as error:
                log.warning("usage_not_written", tenant_id=tenant_id, code=error.code, detail=str(error))
                self._collect(tenant_id, entries)

    def write_soon(self) -> None:
        """Write within half a second, together with later counts."""
        self._writing.request()

    def close(self) -> None:
        """Write the remaining counters."""
        self._writing.cancel()
        self.write()

    def _collect(self, tenant_id: TenantId, entries: Mapping[UsageEntry, UsageCounts]) -> None:
        with self._lock:
            collected = self._collected.setdefault(tenant_id, {})
            for entry, counts in entries.items():
                collected[entry] = collected.get(entry, UsageCounts()) + counts

    @retry_conflicts()
    def _add(self, tenant_id: TenantId, entries: dict[UsageEntry, UsageCounts]) -> None:
        with unit_of_work(self._mysql()) as work:
            Usage(work.connection, tenant_id).add(entries)
