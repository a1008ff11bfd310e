"""Fill the new space of a model migration page by page, prove it, drop the unneeded space. Pages are compared and
mended as by the reconciler; the cursor moves under the lease, so a failed step is repeated from its last page."""

from __future__ import annotations

import time
from typing import Any

import structlog

from pipeline.database.rows import now
from pipeline.database.unit_of_work import unit_of_work
from pipeline.deadline import Deadline
from pipeline.embedding import space_store, standby_backlog_store
from pipeline.embedding.migration_store import Cursor, MigrationState, ModelMigration, ModelMigrations
from pipeline.embedding.standby_backlog_store import LaggingDocument, StandbyBacklog
from pipeline.errors import Misconfigured, PipelineError, Unavailable
from pipeline.maintenance.compare import look
from pipeline.maintenance.repair_stores import mend
from pipeline.maintenance.verify import DOCUMENTS, ComparePosition, all_namespaces, compare, documents_by_namespace
from pipeline.models.ports import SentenceEncoder
from pipeline.records import DocumentId, EmbeddingSpace, Namespace, TenantId
from pipeline.resources import Resources

log = structlog.get_logger(__name__)

STEP_S = 10.0  # a step stops after the page that passes this
LEASE_S = 120.0  # longer than a page may take; a page that takes longer is done twice
PAGE_CHUNKS = 1000
_PAGE_OF_ENCODER = 32  # a sentence encoder in this process may take a second for each chunk
_MOST_PASSES = 5  # of verification under load, before the rest counts as missing
_BEHIND_AT_ONCE, _BEHIND_OF_ENCODER = 200, 4
_RETRY_S = 15.0
_CONFIRMED_FOR_S = 30.0  # a comparison of the stores holds for so long while nothing is dropped


def step(use: Resources) -> int:
    """Continue the running migration for some seconds and return how many chunks got a vector. Does nothing without one
    or while another process works on it; retries a missing model later."""
    with unit_of_work(use.mysql) as work:
        migration = ModelMigrations(work.connection).take(lease_s=LEASE_S)
    if migration is None:
        return 0
    wait_s, code, detail, done = 0.0, None, None, 0
    try:
        use.installation.confirm(within_s=_CONFIRMED_FOR_S)
        if migration.state in ("finishing", "aborting"):
            wait_s = _drop(migration, use)
        else:
            done = _catch_up(migration, use)
            if migration.state in ("backfilling", "verifying"):
                done += _fill(migration, use)
    except (Unavailable, Misconfigured) as error:
        wait_s, code, detail = _waiting(error), error.code, str(error)
        log.warning("migration_postponed", space=migration.space.number, code=code)
    with unit_of_work(use.mysql) as work:
        ModelMigrations(work.connection).release(migration, wait_s=wait_s, code=code, detail=detail)
    return done


def _waiting(error: PipelineError) -> float:
    return max(_RETRY_S, getattr(error, "retry_after_s", None) or 0.0)


def _catch_up(migration: ModelMigration, use: Resources) -> int:
    """Embed documents that are behind in the standby space."""
    with unit_of_work(use.mysql) as work:
        standby = space_store.live(work.connection, use.spaces.base).standby
        tenants = standby_backlog_store.tenants_behind(work.connection, standby.number) if standby else []
    done = 0
    for tenant_id in tenants:
        assert standby is not None
        at_once = _BEHIND_OF_ENCODER if isinstance(use.spaces.embedder(standby), SentenceEncoder) else _BEHIND_AT_ONCE
        with unit_of_work(use.mysql) as work:
            due = StandbyBacklog(work.connection, tenant_id, standby.number).due(limit=at_once)
        left: list[LaggingDocument] = []
        for namespace in sorted({behind.namespace for behind in due}):
            ids = sorted({behind.document_id for behind in due if behind.namespace == namespace})
            mended, guilty = _mend_documents(tenant_id, namespace, ids, standby, use)
            done += mended
            left += [behind for behind in due if behind.namespace == namespace and behind.document_id in guilty]
        with unit_of_work(use.mysql) as work:
            settled = [behind for behind in due if behind not in left]
            StandbyBacklog(work.connection, tenant_id, standby.number).settle(settled, left)
    if done:
        log.info("migration_caught_up", space=migration.space.number, vectors=done)
    return done


def _mend_documents(
    tenant_id: TenantId, namespace: Namespace, ids: list[DocumentId], space: EmbeddingSpace, use: Resources
) -> tuple[int, set[DocumentId]]:
    """Return the number of mended vectors, and the documents that still lack some."""
    seen = look(tenant_id, namespace, ids, use, space=space)
    if not seen.wrong:
        return 0, set()
    mended = mend(tenant_id, namespace, seen, use, space=space)
    after = look(tenant_id, namespace, ids, use, space=space)
    return mended, {DocumentId(document_id) for group in (after.missing, after.stale) for document_id in group.values()}


def _fill(migration: ModelMigration, use: Resources) -> int:
    """Fill the documents of the tenants in turn, for the time of a step; return the number of new vectors."""
    deadline = Deadline.after(STEP_S)
    done = 0
    while not deadline.has_passed:
        with unit_of_work(use.mysql) as work:
            tenant_id = ModelMigrations(work.connection).next_tenant(migration.space.number, migration.pass_number)
        if tenant_id is None:
            _close_pass(migration, use)
            break
        made = _fill_tenant(tenant_id, migration, use, deadline)
        if made is None:
            log.info("migration_step_overtaken", space=migration.space.number)
            break
        done += made
    return done


def _fill_tenant(tenant_id: TenantId, migration: ModelMigration, use: Resources, deadline: Deadline) -> int | None:
    """Compare and mend page by page from the position of the pass. None if another process holds the migration now."""
    with unit_of_work(use.mysql) as work:
        position = ModelMigrations(work.connection).cursor(tenant_id, migration.space.number, migration.pass_number)
    documents = documents_by_namespace(tenant_id, use)
    names = sorted(all_namespaces(tenant_id, documents, use, space=migration.space))
    waiting = [name for name in names if position.namespace is None or name >= position.namespace]
    made = 0
    page = _PAGE_OF_ENCODER if isinstance(use.spaces.embedder(migration.space), SentenceEncoder) else PAGE_CHUNKS
    for namespace in waiting:
        resumed = namespace == position.namespace and position.phase is not None
        spot = (
            ComparePosition(phase=position.phase or DOCUMENTS, after=position.after or "")
            if resumed
            else ComparePosition()
        )
        pages = compare(tenant_id, namespace, use, repair=True, start=spot, space=migration.space, page_chunks=page)
        began = time.monotonic()
        for following, counts in pages:
            lacking = counts.missing + counts.stale + counts.misplaced
            embedded = min(lacking, counts.repaired)
            fields = {
                "chunks": counts.chunks,
                "found": lacking + counts.orphaned,
                "mended": min(lacking + counts.orphaned, counts.repaired),
                "embedded": embedded,
            }
            if following is None:
                after = next((name for name in names if name > namespace), None)
                cursor = Cursor(namespace=after)
            else:
                after = namespace
                cursor = Cursor(namespace=namespace, phase=following.phase, after=following.after)
            if not _note(tenant_id, migration, cursor, finished=after is None, counts=fields, use=use):
                return None
            made += embedded
            _pace(embedded, time.monotonic() - began, use)
            began = time.monotonic()
            if deadline.has_passed:
                return made
    if not waiting and not _note(tenant_id, migration, Cursor(), finished=True, counts={}, use=use):
        return None
    return made


def _note(
    tenant_id: TenantId,
    migration: ModelMigration,
    cursor: Cursor,
    *,
    finished: bool,
    counts: dict[str, int],
    use: Resources,
) -> bool:
    with unit_of_work(use.mysql) as work:
        migrations = ModelMigrations(work.connection)
        if not migrations.hold(migration, lease_s=LEASE_S):
            return False
        number, pass_number = migration.space.number, migration.pass_number
        migrations.record_progress(tenant_id, number, pass_number, cursor, finished=finished, counts=counts)
    return True


def _pace(chunks: int, took_s: float, use: Resources) -> None:
    rate = use.settings.migration_chunks_per_s
    if rate and chunks:
        time.sleep(min(LEASE_S / 2, max(0.0, chunks / rate - took_s)))


def _close_pass(migration: ModelMigration, use: Resources) -> None:
    """End a pass over every tenant: start another until one mends nothing. Chunks that the model refuses stay missing."""
    with unit_of_work(use.mysql) as work:
        migrations = ModelMigrations(work.connection)
        if not migrations.hold(migration, lease_s=LEASE_S):
            return
        progress = migrations.progress(migration.space.number, migration.pass_number)
        left = max(0, progress.found - progress.mended)
        proven = migration.state == "verifying" and (progress.mended == 0 or migration.pass_number >= _MOST_PASSES)
        noted: dict[str, Any] = {"lease_until": None, "next_step_at": now()}
        if proven:
            migrations.move(migration.space.number, "ready", missing=left, ready_at=now(), **noted)
        else:
            migrations.move(migration.space.number, "verifying", **{"pass": migration.pass_number + 1, **noted})
    log.info(
        "migration_pass_done",
        space=migration.space.number,
        pass_number=migration.pass_number,
        ready=proven,
        missing=left,
    )


def _drop(migration: ModelMigration, use: Resources) -> float:
    """Retire a space, dropping its table at the next call when all processes know. Return the seconds until then."""
    with unit_of_work(use.mysql) as work:
        gone = (
            migration.space
            if migration.state == "aborting"
            else ModelMigrations(work.connection).space(migration.source)
        )
        active, standby = space_store.lock(work.connection)
        if gone.number == active:
            raise Misconfigured(f"space {gone.number} is still in use and is not dropped")
        if gone.number == standby:
            space_store.point(work.connection, active, None)
            return use.settings.retired_grace_s
    use.installation.confirm()
    space_store.drop_table(use.postgres, gone)
    with unit_of_work(use.mysql) as work:
        migrations = ModelMigrations(work.connection)
        standby_backlog_store.clear(work.connection, gone.number)
        migrations.forget_progress(migration.space.number)
        ended: MigrationState = "aborted" if migration.state == "aborting" else "finished"
        migrations.move(migration.space.number, ended, ended_at=now(), lease_until=None)
    log.info("migration_ended", space=migration.space.number, dropped=gone.number, state=ended)
    return 0.0
