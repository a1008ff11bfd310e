"""Sweep: release expired leases, close finished jobs, drop, expire and prune rows, renew the terms of older chunks."""

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from itertools import accumulate, takewhile
from typing import Final

import structlog

from pipeline.administration.call_store import call_store
from pipeline.administration.compute import drop_expired
from pipeline.administration.delete_documents import delete_some_within
from pipeline.administration.drop_replaced import DROPPED_AT_ONCE, drop_retired
from pipeline.administration.edit_webhooks import forget_old
from pipeline.administration.follow_sources import start_due
from pipeline.administration.keep_files import forget_file
from pipeline.database.engines import Conflict, redis_errors
from pipeline.database.rows import now
from pipeline.database.statements import tenants_with_each
from pipeline.database.unit_of_work import UnitOfWork, reading, retry_conflicts, unit_of_work
from pipeline.deadline import Deadline
from pipeline.documents.chunk_edit_store import ChunkEdits
from pipeline.documents.document_views import OwnedChunk
from pipeline.documents.followed_store import tenants_with_due_sources
from pipeline.documents.generation_store import RetainedGenerations, Retired, tenants_with_expired, tenants_with_retired
from pipeline.documents.owned_chunk_store import OutdatedTerms, tenants_with_outdated_terms
from pipeline.errors import TenantGone, Unavailable
from pipeline.ingestion.claimed_items import close_jobs
from pipeline.ingestion.yield_turn import Notify, is_left_alone
from pipeline.jobs.computation_store import tenants_with_expired_bodies
from pipeline.jobs.job_retention_store import EndedJobs, keep_jobs_since, keep_usage_since, tenants_with_jobs_ended
from pipeline.jobs.ledger_store import Ledger, tenants_with_open_jobs
from pipeline.jobs.turn_store import Turns
from pipeline.keyword.indexed_fields import IndexedTokens, indexed
from pipeline.keyword.terms import tokenizer_of
from pipeline.maintenance.erase import settling_time
from pipeline.records import ChunkId, DocumentId, Generation, IngestQueue, JobId, Namespace, TenantId
from pipeline.resources import Resources
from pipeline.tenants.erasure_store import tenants_with_unsettled_erasure
from pipeline.tenants.idempotency_store import IdempotencyKeys, tenants_with_expired_keys
from pipeline.tenants.namespace_store import Namespaces, Publications, tenants_with_old_publications
from pipeline.tenants.usage_store import Usage, tenants_with_usage
from pipeline.vector_stores.attachment_store import Attachments, tenants_with_old_marks
from pipeline.vector_stores.collection_store import VectorStores, expired_stores, tenants_with_expired_stores
from pipeline.vector_stores.file_store import expired_files, tenants_with_expired_files
from pipeline.webhooks.endpoint_store import tenants_following_progress, tenants_with_due_deliveries

log = structlog.get_logger(__name__)

_NOTIFY_AGAIN_AFTER_S = 10
_FORGOTTEN_AT_ONCE = 1000
_PUBLICATIONS_AT_ONCE = 5000
_STEP_S: Final = 2.0  # a step ends after the batch that passes this
_DOCUMENTS_AT_ONCE: Final = 100
_CHUNKS_AT_ONCE: Final = 500


_forget_answers = call_store(IdempotencyKeys, IdempotencyKeys.forget_expired)
_prune = call_store(Publications, Publications.prune)
_drop_marks = call_store(Attachments, Attachments.drop_old_marks)
_forget_jobs = call_store(EndedJobs, EndedJobs.forget)
_forget_usage = call_store(Usage, Usage.forget)


_WORK: Final = {
    "jobs": tenants_with_open_jobs,
    "kept": tenants_with_expired,
    "answers": tenants_with_expired_keys,
    "publications": tenants_with_old_publications,
    "terms": tenants_with_outdated_terms,
    "marks": tenants_with_old_marks,
    "bodies": tenants_with_expired_bodies,
    "files": tenants_with_expired_files,
    "stores": tenants_with_expired_stores,
    "retired": tenants_with_retired,
    "sources": tenants_with_due_sources,
    "deliveries": tenants_with_due_deliveries,
    "progress": tenants_following_progress,
    "erasures": tenants_with_unsettled_erasure,
}


def find_work(use: Resources) -> dict[str, list[TenantId]]:
    """Return the tenants with each kind of periodic work, by its name in `_WORK`. One statement finds them: an idle
    installation does this every few seconds. Raises StoreUnavailable."""
    with reading(use.mysql) as connection:
        return tenants_with_each(connection, _WORK, erased_before=now() - settling_time(use))


def sweep(use: Resources, *, notify: Notify, found: Mapping[str, Sequence[TenantId]] | None = None) -> int:
    """Sweep the tenants that `find_work` ``found``, and notify workers of the first jobs with due items in each queue; return
    the notifications sent. ``notify`` returns False for one that the broker did not take. Harmless to running work."""
    found = find_work(use) if found is None else found
    notified = _for_each(found["jobs"], use, partial(_sweep_tenant, notify=notify))
    _for_each(found["sources"], use, partial(start_due, notify=notify))
    _for_each(found["kept"], use, release_kept)
    _for_each(found["answers"], use, partial(_forget_answers, limit=_FORGOTTEN_AT_ONCE))
    _for_each(found["publications"], use, partial(_prune, limit=_PUBLICATIONS_AT_ONCE))
    _for_each(found["terms"], use, renew_terms)
    _for_each(found["marks"], use, partial(_drop_marks, limit=_MARKS_AT_ONCE))
    _for_each(found["bodies"], use, drop_expired)
    if found["files"] or found["stores"]:
        expire(use)
    _for_each(found["retired"], use, drop_retired)  # last, as it alone needs PostgreSQL
    return notified


def _for_each(tenants: Iterable[TenantId], use: Resources, step: Callable[[TenantId, Resources], int]) -> int:
    """Return the sum of ``step`` over the tenants. A transaction that loses against a worker, or an erased tenant, is left
    to the next sweep."""
    done = 0
    for tenant_id in tenants:
        try:
            done += step(tenant_id, use)
        except (Conflict, TenantGone) as error:
            log.info("sweep_postponed", tenant_id=tenant_id, code=error.code)
    return done


def release_kept(tenant_id: TenantId, use: Resources) -> int:
    """Retire expired retained generations; return how many."""
    released = 0
    while True:
        with unit_of_work(use.mysql) as work:
            expired = RetainedGenerations(work.connection, tenant_id).expired(limit=DROPPED_AT_ONCE)
            Retired(work.connection, tenant_id).add(expired)
        released += len(expired)
        if len(expired) < DROPPED_AT_ONCE:
            return released


def _sweep_tenant(tenant_id: TenantId, use: Resources, *, notify: Notify) -> int:
    with unit_of_work(use.mysql) as work:
        ledger, jobs = Ledger(work.connection, tenant_id), Turns(work.connection, tenant_id)
        released = ledger.release_expired()
        # A few of each queue, not all: a notification is passed on until nothing is due, so a long backlog needs no more.
        due = [(job_id, queue) for queue in IngestQueue for job_id in jobs.waiting(queue)]
    with unit_of_work(use.mysql) as work:
        ledger = Ledger(work.connection, tenant_id)
        close_jobs(tenant_id, ledger.done(), ledger, use, work, touch=False)
    notified = [each for each in due if _may_notify(tenant_id, *each, use)]
    long = IngestQueue.LONG
    is_alone = any(queue is long for _, queue in notified) and is_left_alone(long, use)
    for job_id, queue in notified:
        if notify(tenant_id, job_id, IngestQueue.INGEST if is_alone and queue is long else queue) is False:
            _forget_notification(tenant_id, job_id, queue, use)
    if released or notified:
        log.info("swept", tenant_id=tenant_id, released=released, notified=len(notified))
    return len(notified)


def _may_notify(tenant_id: TenantId, job_id: JobId, queue: IngestQueue, use: Resources) -> bool:
    """Return whether no notification was sent for the job and queue in the last seconds: the sweeper must not lengthen a long
    queue."""
    with suppress(Unavailable), redis_errors():
        return bool(use.redis.set(_notification_key(tenant_id, job_id, queue), 1, nx=True, ex=_NOTIFY_AGAIN_AFTER_S))
    return True


def _forget_notification(tenant_id: TenantId, job_id: JobId, queue: IngestQueue, use: Resources) -> None:
    """Let the next sweep notify workers of the job."""
    with suppress(Unavailable), redis_errors():
        use.redis.delete(_notification_key(tenant_id, job_id, queue))


def _notification_key(tenant_id: TenantId, job_id: JobId, queue: IngestQueue) -> str:
    return f"{tenant_id}:notified:{job_id}:{queue}"


def renew_terms(tenant_id: TenantId, use: Resources) -> int:
    """Renew the terms of older chunks for some seconds; return how many differed. Raises Conflict; commits stay."""
    deadline, changed = Deadline.after(_STEP_S), 0
    while not deadline.has_passed:
        with unit_of_work(use.mysql) as work:
            due = OutdatedTerms(work.connection, tenant_id).due(limit=_DOCUMENTS_AT_ONCE)
            if not due:
                break
            namespace = due[0][0].scope.namespace
            batch = _bounded([item for item in due if item[0].scope.namespace == namespace])
            changed += _renew(tenant_id, namespace, batch, work)
    if changed:
        log.info("terms_renewed", tenant_id=tenant_id, chunks=changed)
    return changed


def _bounded(due: list[tuple[Generation, int]]) -> list[Generation]:
    """Return the first of these generations with chunks, as many as have few chunks together, and one at least."""
    sizes = accumulate(chunks for _, chunks in due)
    return [generation for generation, _ in due[: max(1, sum(size <= _CHUNKS_AT_ONCE for size in sizes))]]


def _renew(tenant_id: TenantId, namespace: Namespace, due: list[Generation], work: UnitOfWork) -> int:
    outdated = OutdatedTerms(work.connection, tenant_id)
    ChunkEdits(work.connection, tenant_id).lock(namespace, sorted({generation.document_id for generation in due}))
    rewritten: list[tuple[ChunkId, IndexedTokens]] = []
    changed: set[DocumentId] = set()
    removed: list[int] = []
    added: list[int] = []
    for generation in due:
        chunks, is_shown = outdated.chunks(generation)
        for chunk, tokens in _differing(chunks):
            rewritten.append((chunk.chunk_id, tokens))
            if is_shown:
                changed.add(generation.document_id)
                removed += [len(chunk.terms)] if chunk.enabled else []
                added += [len(tokens.terms)] if chunk.enabled else []
    outdated.rewrite(rewritten)
    outdated.mark_renewed(due)
    if changed:
        Namespaces(work.connection, tenant_id).revise(namespace, sorted(changed), added=added, removed=removed)
    return len(rewritten)


def _differing(chunks: list[OwnedChunk]) -> list[tuple[OwnedChunk, IndexedTokens]]:
    """Return the chunks that have other terms by today's rules, with these."""
    if not chunks:
        return []
    title, tokenizer = chunks[0].fields.title, tokenizer_of(chunks[0].generation.scope)
    current = [indexed(c.passage, title, strategy=c.chunking.strategy, tokenizer=tokenizer) for c in chunks]
    return [
        (chunk, tokens)
        for chunk, tokens in zip(chunks, current, strict=True)
        if (tokens.terms, tokens.fields) != (chunk.terms, chunk.field_terms)
    ]


_AT_ONCE = 100
_MARKS_AT_ONCE = 1000


def expire(use: Resources) -> int:
    """Delete expired files and empty expired vector stores; return how many. The rest is left to the next run."""
    with unit_of_work(use.mysql) as work:
        files = expired_files(work.connection, limit=_AT_ONCE)
        stores = expired_stores(work.connection, limit=_AT_ONCE)
    forgotten = sum(_for_each([owner], use, partial(_forget_file, file_id=file_id)) for owner, file_id in files)
    emptied = sum(_for_each([owner], use, partial(_empty, namespace=namespace)) for owner, namespace in stores)
    if forgotten or emptied:
        log.info("expired", files=forgotten, vector_stores=emptied)
    return forgotten + emptied


def _forget_file(tenant_id: TenantId, use: Resources, *, file_id: str) -> int:
    return int(forget_file(tenant_id, file_id, use))


def _empty(tenant_id: TenantId, use: Resources, *, namespace: Namespace) -> int:
    """Delete every document of an expired vector store but keep its name; a crash leaves the rest to the next run. Return
    0, and stop, if it has not expired any more."""
    while deleted := _empty_some(tenant_id, namespace, use):
        pass
    return int(deleted is not None)


@retry_conflicts(attempts=8)
def _empty_some(tenant_id: TenantId, namespace: Namespace, use: Resources) -> int | None:
    """Delete some documents, or mark the store as emptied if there are none; return how many, None if it is in use."""
    with unit_of_work(use.mysql) as work:
        stores = VectorStores(work.connection, tenant_id)
        if not stores.lock_expired(namespace):
            return None
        deleted = delete_some_within(work, tenant_id, namespace, limit=_AT_ONCE)
        if not deleted:
            Attachments(work.connection, tenant_id).detach_all(namespace)
            stores.mark_emptied(namespace)
        return deleted


_PRUNE_EVERY_S: Final = 600
_PRUNE_S: Final = 60.0  # for all tenants, and for one of them, until the batch that passes this
_PRUNE_ONE_S: Final = 5.0
_ITEMS_AT_ONCE: Final = 5000
_COUNTS_AT_ONCE: Final = 5000


def prune_in_turn(use: Resources) -> None:
    """Prune the ledger and the deliveries every ten minutes in one process of the fleet."""
    with redis_errors():
        due = use.redis.set("chordwise:ledger:pruned", 1, nx=True, ex=_PRUNE_EVERY_S)
    if due:
        forget_old(use)
        prune_ledger(use)


def prune_ledger(use: Resources) -> int:
    """Delete jobs with their items and counts of usage past their retention, in small transactions, each tenant's for some
    seconds; return the number of jobs. The rest is left to the next run."""
    limits, jobs, counts = use.settings, 0, 0
    since = keep_jobs_since(now(), keep_days=limits.job_keep_days)
    if since is not None:
        with unit_of_work(use.mysql) as work:
            with_jobs = tenants_with_jobs_ended(work.connection, before=since)
        forget_jobs = partial(_in_batches, partial(_forget_jobs, before=since, items=_ITEMS_AT_ONCE))
        jobs = _for_each(_for_a_while(with_jobs), use, forget_jobs)
    first = keep_usage_since(
        datetime.now(UTC).date(), keep_days=limits.usage_keep_days, job_keep_days=limits.job_keep_days
    )
    if first is not None:
        with unit_of_work(use.mysql) as work:
            with_usage = tenants_with_usage(work.connection, before=first)
        forget_usage = partial(_in_batches, partial(_forget_usage, before=first, limit=_COUNTS_AT_ONCE))
        counts = _for_each(_for_a_while(with_usage), use, forget_usage)
    if jobs or counts:
        log.info("ledger_pruned", jobs=jobs, usage_rows=counts)
    return jobs


def _for_a_while(tenants: Sequence[TenantId]) -> Iterator[TenantId]:
    """Yield tenants until the time is up, in another order each time: those left are not always the same."""
    deadline = Deadline.after(_PRUNE_S)
    return takewhile(lambda _: not deadline.has_passed, random.sample(tenants, len(tenants)))


def _in_batches(forget: Callable[[TenantId, Resources], int], tenant_id: TenantId, use: Resources) -> int:
    """Delete in one transaction after the other until nothing is left or the time is up; return how many."""
    deadline, forgotten = Deadline.after(_PRUNE_ONE_S), 0
    while not deadline.has_passed:
        some = forget(tenant_id, use)
        forgotten += some
        if not some:
            break
    return forgotten
