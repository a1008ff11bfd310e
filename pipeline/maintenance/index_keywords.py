"""Keep this host's keyword indexes at each namespace's revision in MySQL: one process per host reads all revisions and
follows the publication log. It rebuilds an index that is missing, damaged, of another format, or that the log cannot
serve (pruned, namespace made anew, MySQL restored)."""

import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import structlog
from sqlalchemy import Connection, Engine

from pipeline.database.unit_of_work import reading
from pipeline.errors import PipelineError, Unavailable
from pipeline.keyword_index.index_faults import IndexDamaged
from pipeline.keyword_index.index_folder import disk_bytes
from pipeline.keyword_index.indexed_chunk_store import (
    IndexedChunks,
    NamespaceState,
    chunk_counts,
    revisions_of_all,
    snapshot,
)
from pipeline.keyword_index.indexer_facts import IndexerFacts
from pipeline.keyword_index.local_index_store import LocalIndexReader, LocalIndexWriter, is_whole, remove, remove_others
from pipeline.metrics.meter_store import Meter
from pipeline.records import Namespace, TenantId
from pipeline.tenants.namespace_store import Publications

log = structlog.get_logger(__name__)

_OPEN_WRITERS = 4
_LARGE = 20_000  # chunks; writing more at once takes long enough to be done beside the changes of other tenants
_COMPACTED_FROM = 0.3  # share of deleted chunks on disk
_LEAST_COMPACTED = 1_000  # chunks
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 60.0
_WITHOUT_MYSQL_S = 5.0  # the longest pause if MySQL was the reason: every step asks whether it is back
_FAILURES_BEFORE_REBUILD = 3
_MEASURED_EVERY_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexLag:
    """The lag of the indexes: tenants in work, tenants that failed last, and the oldest pending change's age."""

    tenants: int
    failing: int
    seconds: float


class _TakesLong(Exception):
    """A large namespace has to be written anew, beside the changes of other tenants."""


@dataclass(slots=True)
class _Tenant:
    """The state of a tenant's index. ``stamps``: those of its namespaces; None before the index was read. ``to_build``: it
    has to be written anew, wholly or for a namespace, and is large."""

    stamps: Mapping[Namespace, str] | None = None
    to_build: bool = False
    task: Future[None] | None = None
    failures: int = 0
    retry_at: float = 0.0
    behind_since: float | None = None

    @property
    def may_build(self) -> bool:
        """Return whether the next task runs beside the changes of other tenants, and so may take long."""
        return self.stamps is None or self.to_build


@dataclass
class KeywordIndexer:
    """Writes the indexes below ``root``, which the caller locks; looks for damage every ``looked_at_every_s``. ``large``:
    the chunks from which a namespace is written beside the changes of other tenants."""

    mysql: Engine
    root: Path
    meter: Meter
    looked_at_every_s: float = 1.0
    large: int = _LARGE
    _tenants: dict[TenantId, _Tenant] = field(default_factory=dict)
    _writers: dict[TenantId, LocalIndexWriter] = field(default_factory=dict)  # the least recently used first
    lag: IndexLag = IndexLag(tenants=0, failing=0, seconds=0.0)
    _wanted: Mapping[TenantId, Mapping[Namespace, str]] = field(default_factory=dict)
    _disk: int = 0
    _measured_at: float = float("-inf")
    _looked_at: float = float("-inf")
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _changes: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "index-changes"))
    _builds: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "index-builds"))

    def step(self) -> IndexLag:
        """Begin to catch up with MySQL, tenant by tenant, without waiting. Raises StoreUnavailable."""
        self._wanted = wanted = self._revisions()
        moment = time.monotonic()
        self._look_for_damage(moment)
        for tenant_id in [name for name in self._tenants if name not in wanted and self._is_idle(name)]:
            self._forget(tenant_id)
        for tenant_id, stamps in wanted.items():
            tenant = self._tenants.setdefault(tenant_id, _Tenant())
            is_behind = tenant.stamps != stamps
            tenant.behind_since = (tenant.behind_since or moment) if is_behind else None
            if is_behind or tenant.to_build:
                self._begin(tenant_id, tenant, stamps, moment)
        behind = [tenant.behind_since for tenant in self._tenants.values() if tenant.behind_since is not None]
        failing = sum(tenant.failures > 0 for tenant in self._tenants.values())
        self.lag = IndexLag(tenants=len(behind), failing=failing, seconds=moment - min(behind, default=moment))
        return self.lag

    def _revisions(self) -> dict[TenantId, dict[Namespace, str]]:
        """Return the stamps of all namespaces. Raises StoreUnavailable."""
        with reading(self.mysql) as connection:
            return revisions_of_all(connection)

    def _look_for_damage(self, moment: float) -> None:
        """Rebuild indexes that were deleted, or that a query found damaged."""
        if moment - self._looked_at < self.looked_at_every_s:
            return
        self._looked_at = moment
        for tenant_id, tenant in self._tenants.items():
            if tenant.stamps and self._is_idle(tenant_id) and not is_whole(self.root, tenant_id):
                log.warning("keyword_index_lost", tenant_id=tenant_id)
                self._discard_writer(tenant_id)
                remove(self.root, tenant_id)
                tenant.stamps = None

    def facts(self, host: str) -> IndexerFacts:
        """Return the state of this host's indexes as of the last step. Raises StoreUnavailable."""
        behind: list[int] = []
        for tenant_id, wanted in self._wanted.items():
            indexed = self._tenants[tenant_id].stamps or {}
            behind += [
                _revision(stamp) - _revision(indexed.get(namespace))
                for namespace, stamp in wanted.items()
                if indexed.get(namespace) != stamp
            ]
        return IndexerFacts(
            host=host,
            lag_s=round(self.lag.seconds, 1),
            lag_revisions=sum(max(1, revisions) for revisions in behind),
            built=self._built() if behind else 1.0,
            failing=self.lag.failing,
            disk_bytes=self._disk_bytes(),
        )

    def _built(self) -> float:
        """Return the share of chunks that the indexes have."""
        with reading(self.mysql) as connection:
            chunks = chunk_counts(connection)
        total = sum(chunks.values())
        built = sum(
            count
            for (tenant, name), count in chunks.items()
            if tenant in self._tenants and name in (self._tenants[tenant].stamps or {})
        )
        return built / total if total else 1.0

    def _disk_bytes(self) -> int:
        """Return the size on disk, measured at intervals because there may be thousands of files."""
        moment = time.monotonic()
        if moment - self._measured_at >= _MEASURED_EVERY_S:
            self._disk, self._measured_at = disk_bytes(self.root), moment
        return self._disk

    def tidy(self) -> None:
        """Delete the indexes of tenants that MySQL does not know, and those of other formats."""
        if folders := remove_others(self.root, self._revisions()):
            log.info("keyword_indexes_removed", folders=folders)

    def close(self) -> None:
        """Wait for running work and close all indexes."""
        self._changes.shutdown()
        self._builds.shutdown()
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()

    def _begin(self, tenant_id: TenantId, tenant: _Tenant, stamps: Mapping[Namespace, str], moment: float) -> None:
        if not self._is_idle(tenant_id) or moment < tenant.retry_at:
            return
        pool = self._builds if tenant.may_build else self._changes
        tenant.task = pool.submit(self._catch_up, tenant_id, tenant, stamps)

    def _is_idle(self, tenant_id: TenantId) -> bool:
        task = self._tenants[tenant_id].task
        return task is None or task.done()

    def _forget(self, tenant_id: TenantId) -> None:
        """Delete the index of a tenant without namespaces."""
        self._tenants.pop(tenant_id)
        self._discard_writer(tenant_id)
        remove(self.root, tenant_id)
        log.info("keyword_index_removed", tenant_id=tenant_id)

    def _catch_up(self, tenant_id: TenantId, tenant: _Tenant, stamps: Mapping[Namespace, str]) -> None:
        """Bring a tenant's index up to date, or note that it failed or takes long. Runs in a thread of a pool and raises
        nothing."""
        started = time.perf_counter()
        try:
            added = self._update(tenant_id, tenant, stamps)
            tenant.failures, tenant.retry_at = 0, 0.0
            self.meter.count("chordwise_keyword_index_updates", result="updated")
            if tenant.behind_since is not None:
                self.meter.observe("chordwise_keyword_index_seconds", time.monotonic() - tenant.behind_since)
                tenant.behind_since = None
            if added:
                elapsed_ms = round((time.perf_counter() - started) * 1000, 1)
                log.info("keyword_index_updated", tenant_id=tenant_id, chunks=added, elapsed_ms=elapsed_ms)
        except _TakesLong:  # nothing is committed yet, so the build may write the same again
            tenant.to_build = True
        except PipelineError as error:
            longest_s = _WITHOUT_MYSQL_S if isinstance(error, Unavailable) else _LONGEST_PAUSE_S
            is_damaged = isinstance(error, IndexDamaged)
            self._failed(tenant_id, tenant, code=error.code, is_damaged=is_damaged, longest_s=longest_s)
        except Exception as error:  # a bug: queries are answered by MySQL meanwhile
            log.exception("keyword_index_bug", tenant_id=tenant_id, error=type(error).__name__)
            self._failed(tenant_id, tenant, code="bug", is_bug=True)

    def _failed(
        self,
        tenant_id: TenantId,
        tenant: _Tenant,
        *,
        code: str,
        is_damaged: bool = False,
        is_bug: bool = False,
        longest_s: float = _LONGEST_PAUSE_S,
    ) -> None:
        """Try again later; a damaged index is rebuilt, also one that raises a bug repeatedly, not on a full disk."""
        tenant.failures += 1
        pause = min(longest_s, _FIRST_PAUSE_S * 2.0 ** min(tenant.failures - 1, 30))
        tenant.retry_at = time.monotonic() + pause
        self.meter.count("chordwise_keyword_index_updates", result="failed")
        log.warning("keyword_index_not_updated", tenant_id=tenant_id, code=code, failures=tenant.failures)
        self._discard_writer(tenant_id)
        if is_damaged or (is_bug and tenant.failures >= _FAILURES_BEFORE_REBUILD):
            remove(self.root, tenant_id)
            tenant.stamps = None
            if tenant.failures == 1:
                tenant.retry_at = 0.0

    def _update(self, tenant_id: TenantId, tenant: _Tenant, wanted: Mapping[Namespace, str]) -> int:
        """Bring the index to these stamps, and return the number of chunks written. Raises _TakesLong."""
        indexed, may_build = tenant.stamps, tenant.may_build
        if indexed is None:
            stored = LocalIndexReader(self.root, tenant_id).view()
            indexed = {} if stored is None else {name: state.stamp for name, state in stored.states().items()}
            if indexed == wanted:
                tenant.stamps = indexed
                return 0
        writer = self._writer(tenant_id)
        view = writer.view
        added = 0
        stamps = {namespace: stamp for namespace, stamp in wanted.items() if indexed.get(namespace) == stamp}
        for namespace in indexed.keys() - wanted.keys():
            writer.forget(namespace)
        for namespace in sorted(wanted.keys() - stamps.keys()):
            with snapshot(self.mysql) as connection:
                indexed_state = view.state(namespace)
                state, chunks = self._apply(
                    writer, connection, tenant_id, namespace, indexed_state, may_build=may_build
                )
            added += chunks
            if state is not None:
                stamps[namespace] = state.stamp
        writer.commit()
        tenant.stamps = stamps
        tenant.to_build = not self._compact(tenant_id, writer, list(stamps), may_build=may_build)
        return added

    def _apply(
        self,
        writer: LocalIndexWriter,
        connection: Connection,
        tenant_id: TenantId,
        namespace: Namespace,
        indexed: NamespaceState | None,
        *,
        may_build: bool,
    ) -> tuple[NamespaceState | None, int]:
        chunks = IndexedChunks(connection, tenant_id)
        state = chunks.state(namespace)
        if state is None:
            writer.forget(namespace)
            return None, 0
        if indexed is not None and indexed.created_at == state.created_at:
            ids, are_all = Publications(connection, tenant_id).since(namespace, indexed.revision, indexed.revised_at)
            if are_all:
                return state, writer.replace(state, ids, chunks.of_documents(namespace, ids))
        if state.chunk_count > self.large and not may_build:
            raise _TakesLong
        self.meter.count("chordwise_keyword_index_builds")
        log.info("keyword_index_built_again", tenant_id=tenant_id, chunks=state.chunk_count)
        return state, writer.replace(state, None, chunks.all(namespace))

    def _compact(
        self, tenant_id: TenantId, writer: LocalIndexWriter, namespaces: Sequence[Namespace], *, may_build: bool
    ) -> bool:
        """Rewrite the index when much of it is deleted: tantivy merges by size and would keep deleted chunks for long.
        Return False if that is due but takes long, unless ``may_build``."""
        total, deleted = writer.sizes()
        if total < _LEAST_COMPACTED or deleted < _COMPACTED_FROM * total:
            return True
        if total > self.large and not may_build:
            return False
        with snapshot(self.mysql) as connection:
            chunks = IndexedChunks(connection, tenant_id)
            writer.clear()
            for namespace in namespaces:
                state = chunks.state(namespace)
                if state is not None:
                    writer.replace(state, None, chunks.all(namespace))
            writer.commit()
        log.info("keyword_index_compacted", tenant_id=tenant_id)
        return True

    def _writer(self, tenant_id: TenantId) -> LocalIndexWriter:
        with self._lock:
            writer = self._writers.pop(tenant_id, None)
            idle = [name for name in self._writers if name not in self._tenants or self._is_idle(name)]
            closing = [self._writers.pop(name) for name in idle[: max(0, len(self._writers) + 1 - _OPEN_WRITERS)]]
        for idle_writer in closing:
            idle_writer.close()
        writer = writer or LocalIndexWriter(self.root, tenant_id)
        with self._lock:
            self._writers[tenant_id] = writer
        return writer

    def _discard_writer(self, tenant_id: TenantId) -> None:
        with self._lock:
            writer = self._writers.pop(tenant_id, None)
        if writer is not None:
            writer.close()


def _revision(stamp: str | None) -> int:
    return 0 if stamp is None else int(stamp.partition("@")[0])
