"""The counters of what models cost: collected in the process, written to MySQL soon after, lost only with the process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Final

import structlog
from sqlalchemy import Engine

from pipeline.database.unit_of_work import retry_conflicts, unit_of_work
from pipeline.errors import PipelineError
from pipeline.metrics.meter_store import Meter
from pipeline.records import JobId, TenantId
from pipeline.tenants.usage import Purpose, UsageCounts, UsageEntry
from pipeline.tenants.usage_store import Usage

log = structlog.get_logger(__name__)

SOON_S: Final = 0.5  # how long notes may wait to be written together


class UsageBook:
    """One process's counters. Thread-safe; close it when done."""

    def __init__(
        self, mysql: Callable[[], Engine], *, price_per_million: Decimal, meter: Callable[[], Meter] | None = None
    ) -> None:
        self._mysql = mysql
        self._meter = meter
        self._price = price_per_million
        self._lock = threading.Lock()
        self._collected: dict[TenantId, dict[UsageEntry, UsageCounts]] = {}
        self._timer: threading.Timer | None = None

    def note(
        self, tenant_id: TenantId, purpose: Purpose, model: str, counts: UsageCounts, *, job_id: JobId | None
    ) -> None:
        """Add to the counters of today (UTC). Embeddings get their cost here, answers bring theirs."""
        if counts == UsageCounts():
            return
        label = purpose.value
        if purpose is not Purpose.ANSWER:
            label = f"embed_{label}"
            counts = replace(counts, cost=counts.tokens * self._price / 1_000_000)
        if self._meter is not None:
            meter = self._meter()
            meter.count("chordwise_model_requests", counts.requests, purpose=label)
            meter.count("chordwise_model_tokens", counts.tokens, purpose=label)
            meter.count("chordwise_model_cached_texts", counts.cached_texts, purpose=label)
        entry = UsageEntry(day=datetime.now(UTC).date(), job_id=job_id, purpose=purpose, model=model)
        self._collect(tenant_id, {entry: counts})

    def write(self) -> None:
        """Write the counters. Those that cannot be written now are written with the next ones."""
        with self._lock:
            collected, self._collected = self._collected, {}
        for tenant_id, entries in collected.items():
            try:
                self._add(tenant_id, entries)
            except PipelineError as error:
                log.warning("usage_not_written", tenant_id=tenant_id, code=error.code, detail=str(error))
                self._collect(tenant_id, entries)

    def write_soon(self) -> None:
        """Write within half a second, together with later counts."""
        with self._lock:
            if self._timer is None:
                self._timer = threading.Timer(SOON_S, self._write_now)
                self._timer.daemon = True
                self._timer.start()

    def close(self) -> None:
        """Write the remaining counters."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
        self.write()

    def _write_now(self) -> None:
        with self._lock:
            self._timer = None
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
