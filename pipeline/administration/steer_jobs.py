"""Steer jobs: cancel, retry, pause, resume; and the same for dead letters."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

import structlog
from sqlalchemy import Connection

from pipeline.administration.call_store import call_store
from pipeline.administration.drop_replaced import drop_retired
from pipeline.database.rows import now
from pipeline.database.unit_of_work import retry_conflicts, unit_of_work
from pipeline.documents.generation_store import GenerationRows, Retired
from pipeline.ingestion.accept import quotas
from pipeline.ingestion.claimed_items import close_jobs
from pipeline.jobs.control_store import DeadLetters, JobControl
from pipeline.jobs.job_view_store import JobViews
from pipeline.jobs.job_views import DeadLetterFilter, LedgerPosition
from pipeline.jobs.ledger_store import Ledger
from pipeline.jobs.question_store import Questions
from pipeline.outages import tolerate_outage
from pipeline.records import JobId, TenantId
from pipeline.resources import Resources
from pipeline.tenants.audit_store import Audit

log = structlog.get_logger(__name__)

Notify = Callable[[TenantId, JobId], object]

_REPLAYED_AT_ONCE = 1000

# Documents are locked in the order of their items here, and in the order of their ids by an upload of them.
_again = retry_conflicts()


class NoSuchJob(LookupError):
    """The tenant has no such job."""


class WrongJobState(Exception):
    """The job's state does not allow the action. ``code`` is stable, ``str(error)`` a sentence."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


list_dead_letters = call_store(DeadLetters, DeadLetters.page)
find_dead_letter = call_store(DeadLetters, DeadLetters.one)


@_again
def cancel(tenant_id: TenantId, job_id: JobId, use: Resources) -> int:
    """Cancel the job's unfinished documents and return how many; idempotent. Raises NoSuchJob, WrongJobState."""
    with unit_of_work(use.mysql) as work:
        control = JobControl(work.connection, tenant_id)
        if JobViews(work.connection, tenant_id).is_finished(job_id) is None:
            raise NoSuchJob(job_id)
        cancelled, begun, held = control.cancel(job_id)
        retired = Retired(work.connection, tenant_id)
        retired.add(begun)
        # A worker may be writing vectors of these until it finds out, at the latest when its lease would have ended.
        retired.add(held, after_s=use.settings.ingest_lease_s)
        if not cancelled and not control.was_cancelled(job_id):
            raise WrongJobState("job_finished", "The job has ended already; there is nothing left to cancel.")
        control.resume(job_id)
        close_jobs(tenant_id, [job_id], Ledger(work.connection, tenant_id), use, work)
        Audit(work.connection, tenant_id).wrote("job_cancel", ids=[job_id], count=cancelled)
    log.info("job_cancelled", tenant_id=tenant_id, job_id=job_id, documents=cancelled)
    return cancelled


def drop_batch(tenant_id: TenantId, job_id: JobId, use: Resources) -> None:
    """Delete the queries and answers of a batch, a thousand in a transaction; one that runs is cancelled before. The job stays.
    Raises NoSuchJob."""
    with suppress(WrongJobState):  # it has ended
        cancel(tenant_id, job_id, use)
    deleted = 1
    while deleted:
        with unit_of_work(use.mysql) as work:
            deleted = Questions(work.connection, tenant_id).delete(job_id)
    with unit_of_work(use.mysql) as work:
        Questions(work.connection, tenant_id).note_deleted(job_id)
        Audit(work.connection, tenant_id).wrote("query_batch_delete", ids=[job_id])


@_again
def retry(tenant_id: TenantId, job_id: JobId, use: Resources, *, notify: Notify) -> int:
    """Queue failed and cancelled items again; return how many. Raises NoSuchJob, WrongJobState, QuotaExceeded."""
    _clear(tenant_id, use)
    with unit_of_work(use.mysql) as work:
        control = JobControl(work.connection, tenant_id)
        is_finished = JobViews(work.connection, tenant_id).is_finished(job_id)
        if is_finished is None:
            raise NoSuchJob(job_id)
        quotas(work.connection, tenant_id, use).check(arriving=control.reopen(job_id))
        queued = control.requeue(job_id)
        if not queued and is_finished:
            raise WrongJobState(
                "nothing_to_retry",
                "Nothing in this job was cancelled or failed in a way that another attempt can help: correct documents"
                " that failed and upload them again.",
            )
        if queued:
            Audit(work.connection, tenant_id).wrote("job_retry", ids=[job_id], count=queued)
            work.after_commit(partial(notify, tenant_id, job_id))
            work.after_commit(partial(use.notifications.progressed, tenant_id, job_id))
    log.info("job_retried", tenant_id=tenant_id, job_id=job_id, documents=queued)
    return queued


@_again
def pause(tenant_id: TenantId, job_id: JobId, use: Resources) -> None:
    """Begin no further document of the job. Raises NoSuchJob, and WrongJobState for a job that has ended."""
    with unit_of_work(use.mysql) as work:
        control = _control_of_unfinished(work.connection, tenant_id, job_id)
        control.pause(job_id)
        Audit(work.connection, tenant_id).wrote("job_pause", ids=[job_id])
        work.after_commit(partial(use.notifications.progressed, tenant_id, job_id))


@_again
def resume(tenant_id: TenantId, job_id: JobId, use: Resources, *, notify: Notify) -> None:
    """Continue a paused job. Raises NoSuchJob, and WrongJobState for a job that has ended."""
    with unit_of_work(use.mysql) as work:
        control = _control_of_unfinished(work.connection, tenant_id, job_id)
        control.resume(job_id)
        Audit(work.connection, tenant_id).wrote("job_resume", ids=[job_id])
        work.after_commit(partial(use.notifications.progressed, tenant_id, job_id))
        work.after_commit(partial(notify, tenant_id, job_id))


def replay(tenant_id: TenantId, position: LedgerPosition, use: Resources, *, notify: Notify) -> bool:
    """Queue one dead letter again. False if there is none at this position. Raises WrongJobState if it would fail again."""
    with unit_of_work(use.mysql) as work:
        letter = DeadLetters(work.connection, tenant_id).one(position)
    if letter is not None and not letter.retryable:
        raise WrongJobState("not_retryable", letter.advice)
    _clear(tenant_id, use)
    return bool(_requeue(tenant_id, [position], use, notify=notify))


def replay_selected(tenant_id: TenantId, chosen: DeadLetterFilter, use: Resources, *, notify: Notify) -> int:
    """Queue the dead letters chosen now again that another attempt may help, in slices; return how many. A crash leaves
    the rest as they were."""
    _clear(tenant_id, use)
    until, replayed = now(), 0
    while True:
        with unit_of_work(use.mysql) as work:
            positions = DeadLetters(work.connection, tenant_id).positions(chosen, until=until, limit=_REPLAYED_AT_ONCE)
        replayed += _requeue(tenant_id, positions, use, notify=notify)
        if len(positions) < _REPLAYED_AT_ONCE:
            log.info("dead_letters_replayed", tenant_id=tenant_id, documents=replayed)
            return replayed


@_again
def drop_dead_letter(tenant_id: TenantId, position: LedgerPosition, use: Resources) -> bool:
    """Delete the bytes of a dead letter, so that it cannot be replayed; False if there is none at this position."""
    with unit_of_work(use.mysql) as work:
        letters = DeadLetters(work.connection, tenant_id)
        ended = letters.drop(position)
        if not ended:
            return False
        GenerationRows(work.connection, tenant_id).drop(ended, is_retryable=False)
        Audit(work.connection, tenant_id).wrote("dead_letter_drop", ids=[position.to_id()])
        return True


@_again
def _requeue(tenant_id: TenantId, positions: Sequence[LedgerPosition], use: Resources, *, notify: Notify) -> int:
    ordinals: defaultdict[JobId, list[int]] = defaultdict(list)
    for position in positions:
        ordinals[position.job_id].append(position.ordinal)
    job_ids = sorted(ordinals)
    with unit_of_work(use.mysql) as work:
        control = JobControl(work.connection, tenant_id)
        arriving = sum(control.reopen(job_id, ordinals[job_id], dead_only=True) for job_id in job_ids)
        quotas(work.connection, tenant_id, use).check(arriving=arriving)
        queued = sum(control.requeue(job_id, ordinals[job_id], dead_only=True) for job_id in job_ids)
        if queued:
            Audit(work.connection, tenant_id).wrote("dead_letter_replay", ids=job_ids, count=queued)
            for job_id in job_ids:
                work.after_commit(partial(notify, tenant_id, job_id))
    return queued


def _clear(tenant_id: TenantId, use: Resources) -> None:
    """Drop the rows of failed attempts now: until they are gone, a new attempt must wait."""
    with tolerate_outage(log.warning, "left_to_the_sweeper", tenant_id=tenant_id):
        drop_retired(tenant_id, use)


def _control_of_unfinished(connection: Connection, tenant_id: TenantId, job_id: JobId) -> JobControl:
    is_finished = JobViews(connection, tenant_id).is_finished(job_id)
    if is_finished is None:
        raise NoSuchJob(job_id)
    if is_finished:
        raise WrongJobState("job_finished", "The job has ended already.")
    return JobControl(connection, tenant_id)
