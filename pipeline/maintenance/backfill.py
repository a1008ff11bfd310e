"""Fill the new space of a model migration page by page, prove it, drop the unneeded space. Pages are compared and
mended as by the reconciler; the cursor moves under the lease, so a failed step is repeated from its last page."""

from typing import Any

import structlog

from pipeline.database.rows import now
from pipeline.database.unit_of_work import reading, unit_of_work
from pipeline.deadline import Deadline
from pipeline.embedding import space_store
from pipeline.embedding.migration_store import Cursor, MigrationState, ModelMigration, ModelMigrations
from pipeline.embedding.space_store import LaggingDocument, StandbyBacklog
from pipeline.errors import Misconfigured, PipelineError
from pipeline.maintenance.compare import NamespaceStores, compare_page
from pipeline.maintenance.repair_stores import mend
from pipeline.maintenance.verify import all_namespaces, compare, documents_by_namespace, remaining
from pipeline.models.local_embedder import LocalEncoder
from pipeline.outages import OutageTolerated
from pipeline.records import DocumentId, TenantId
from pipeline.resources import Resources

log = structlog.get_logger(__name__)

STEP_S = 10.0  # a step stops after the page that passes this
LEASE_S = 120.0  # longer than a page may take; a page that takes longer is done twice
PAGE_CHUNKS = 1000
_PAGE_OF_ENCODER = 32  # a sentence encoder in this process may take a second for each chunk
_MOST_PASSES = 5  # of verification under load, before the rest counts as missing
_BEHIND_AT_ONCE, _BEHIND_OF_ENCODER = 200, 4  # documents
_RETRY_S, _LONGEST_RETRY_S = 15.0, 600.0
_CONFIRMED_FOR_S = 30.0  # a comparison of the stores holds for so long while nothing is dropped


def is_due(use: Resources) -> bool:
    """Return whether `step` has something to do. Raises StoreUnavailable."""
    with reading(use.mysql) as connection:
        return ModelMigrations(connection).is_due()


def step(use: Resources) -> int:
    """Continue the running migration for some seconds and return how many chunks got a vector. Does nothing without one
    or while another process works on it; retries a missing model later."""
    with unit_of_work(use.mysql) as work:
        migration = ModelMigrations(work.connection).take(lease_s=LEASE_S)
    if migration is None:
        return 0
    wait_s, code, detail, done = 0.0, None, None, 0
    failures: list[PipelineError] = []
    with OutageTolerated(failures.append, also=(Misconfigured,)):
        use.installation.confirm(within_s=_CONFIRMED_FOR_S)
        if migration.state in ("finishing", "aborting"):
            wait_s = _drop(migration, use)
        else:
            done = _catch_up(migration, use)
            if migration.state in ("backfilling", "verifying"):
                done += _fill(migration, use)
    for error in failures:
        wait_s = min(_LONGEST_RETRY_S, max(_RETRY_S, getattr(error, "retry_after_s", None) or 0.0))
        code, detail = error.code, str(error)
        log.warning("migration_postponed", space=migration.space.number, code=code)
    with unit_of_work(use.mysql) as work:
        ModelMigrations(work.connection).release(migration, wait_s=wait_s, code=code, detail=detail)
    return done


def _catch_up(migration: ModelMigration, use: Resources) -> int:
    """Embed documents that are behind in the standby space."""
    with unit_of_work(use.mysql) as work:
        standby = space_store.live(work.connection, use.spaces.base).standby
        if standby is None:
            return 0
        tenants = space_store.tenants_behind(work.connection, standby.number)
    done = 0
    for tenant_id in tenants:
        at_once = _BEHIND_OF_ENCODER if isinstance(use.spaces.embedder(standby), LocalEncoder) else _BEHIND_AT_ONCE
        with unit_of_work(use.mysql) as work:
            due = StandbyBacklog(work.connection, tenant_id, standby.number).due(limit=at_once)
        failed: list[LaggingDocument] = []
        for namespace in sorted({document.namespace for document in due}):
            documents = [document for document in due if document.namespace == namespace]
            stores = NamespaceStores(tenant_id=tenant_id, namespace=namespace, space=standby, use=use)
            mended, lacking = _mend_documents(stores, sorted({document.document_id for document in documents}))
            done += mended
            failed += [document for document in documents if document.document_id in lacking]
        with unit_of_work(use.mysql) as work:
            complete = [document for document in due if document not in failed]
            StandbyBacklog(work.connection, tenant_id, standby.number).record_attempts(complete, failed)
    if done:
        log.info("migration_caught_up", space=migration.space.number, vectors=done)
    return done


def _mend_documents(stores: NamespaceStores, document_ids: list[DocumentId]) -> tuple[int, set[str]]:
    """Return the number of mended vectors, and the documents that still lack some."""
    page = compare_page(stores, document_ids)
    if not page.wrong:
        return 0, set()
    mended = mend(stores, page)
    after = compare_page(stores, document_ids)
    return mended, {*after.missing.values(), *after.stale.values()}


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
        embedded = _fill_tenant(tenant_id, migration, use, deadline)
        if embedded is None:
            log.info("migration_step_overtaken", space=migration.space.number)
            break
        done += embedded
    return done


def _fill_tenant(tenant_id: TenantId, migration: ModelMigration, use: Resources, deadline: Deadline) -> int | None:
    """Compare and mend page by page from the position of the pass. None if another process holds the migration now."""
    with unit_of_work(use.mysql) as work:
        position = ModelMigrations(work.connection).cursor(tenant_id, migration.space.number, migration.pass_number)
    names = all_namespaces(tenant_id, documents_by_namespace(tenant_id, use), use, space=migration.space)
    namespaces = remaining(names, position)
    page = _PAGE_OF_ENCODER if isinstance(use.spaces.embedder(migration.space), LocalEncoder) else PAGE_CHUNKS
    total = 0
    for namespace, start in namespaces:
        stores = NamespaceStores(tenant_id=tenant_id, namespace=namespace, space=migration.space, use=use)
        for following, counts in compare(stores, repair=True, start=start, page_chunks=page):
            lacking = counts.missing + counts.stale + counts.misplaced
            embedded = min(lacking, counts.repaired)
            progress = {
                "chunks": counts.chunks,
                "found": lacking + counts.orphaned,
                "mended": min(lacking + counts.orphaned, counts.repaired),
                "embedded": embedded,
            }
            if following is None:
                position = Cursor(namespace=min((name for name in names if name > namespace), default=None))
            else:
                position = following
            if not _record_progress(tenant_id, migration, position, progress, use):
                return None
            total += embedded
            if deadline.has_passed:
                return total
    if not namespaces and not _record_progress(tenant_id, migration, Cursor(), {}, use):
        return None
    return total


def _record_progress(
    tenant_id: TenantId, migration: ModelMigration, position: Cursor, counts: dict[str, int], use: Resources
) -> bool:
    """Store a tenant's position, without a namespace after the last one; False if another process has the migration."""
    number, pass_number, finished = migration.space.number, migration.pass_number, position.namespace is None
    with unit_of_work(use.mysql) as work:
        migrations = ModelMigrations(work.connection)
        if not migrations.hold(migration, lease_s=LEASE_S):
            return False
        migrations.record_progress(tenant_id, number, pass_number, position, finished=finished, counts=counts)
    return True


def _close_pass(migration: ModelMigration, use: Resources) -> None:
    """End a pass over every tenant: start another until one mends nothing. Chunks that the model refuses stay missing."""
    with unit_of_work(use.mysql) as work:
        migrations = ModelMigrations(work.connection)
        if not migrations.hold(migration, lease_s=LEASE_S):
            return
        progress = migrations.progress(migration.space.number, migration.pass_number)
        missing = max(0, progress.found - progress.mended)
        ready = migration.state == "verifying" and (progress.mended == 0 or migration.pass_number >= _MOST_PASSES)
        due: dict[str, Any] = {"lease_until": None, "next_step_at": now()}
        if ready:
            migrations.move(migration.space.number, "ready", missing=missing, ready_at=now(), **due)
        else:
            migrations.move(migration.space.number, "verifying", **{"pass": migration.pass_number + 1, **due})
    ids = {"space": migration.space.number, "pass_number": migration.pass_number}
    log.info("migration_pass_done", **ids, ready=ready, missing=missing)


def _drop(migration: ModelMigration, use: Resources) -> float:
    """Retire a space, dropping its table at the next call when all processes know. Return the seconds until then."""
    with unit_of_work(use.mysql) as work:
        aborting = migration.state == "aborting"
        unneeded = migration.space if aborting else ModelMigrations(work.connection).space(migration.source)
        active, standby = space_store.lock(work.connection)
        if unneeded.number == active:
            raise Misconfigured(f"space {unneeded.number} is still in use and is not dropped")
        if unneeded.number == standby:
            space_store.point(work.connection, active, None)
            return use.settings.retired_grace_s
    use.installation.confirm()
    space_store.drop_table(use.postgres, unneeded)
    with unit_of_work(use.mysql) as work:
        migrations = ModelMigrations(work.connection)
        space_store.clear_backlog(work.connection, unneeded.number)
        migrations.forget_progress(migration.space.number)
        state: MigrationState = "aborted" if aborting else "finished"
        migrations.move(migration.space.number, state, ended_at=now(), lease_until=None)
    log.info("migration_ended", space=migration.space.number, dropped=unneeded.number, state=state)
    return 0.0
