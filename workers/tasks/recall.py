"""Task entry points of retrieval: the headers of a query's chord, its callback, and the tasks beside them."""

from __future__ import annotations

import threading
from functools import partial

import structlog
from celery import shared_task

from pipeline.administration import compute
from pipeline.jobs.computation import ComputationId, ComputationKind
from pipeline.records import IngestQueue, JobId, QueryId, TenantId
from pipeline.retrieval import answer_batch, answer_query
from pipeline.retrieval import explain as explaining
from pipeline.retrieval import understand as understanding
from pipeline.retrieval.write_answer import write_answer
from workers.base import STATE, CallbackTask, LoggedTask, header_of
from workers.dispatch import compute_next, notify_workers
from workers.names import TaskName
from workers.query_events import events
from workers.resources import channel_named, channels, for_ingestion, for_queries

log = structlog.get_logger(__name__)


@shared_task(name=TaskName.RECALL.value, base=LoggedTask, send_events=False, bind=True)
def recall_channel(self: LoggedTask, tenant_id: str, query_id: str, channel: str, again: float = 0.0) -> bool:
    """Ask one channel and store its result in the query's hash, which counts the parts of the chord.

    Return whether all have reported, for `workers.chords`; then the callback in this process finds the state. ``again``: do
    nothing if a worker has begun the channel since this moment, in seconds since the epoch."""
    use = for_queries()
    state = answer_query.recall(
        TenantId(tenant_id), QueryId(query_id), channel_named(channel), use, worker=events.worker, again_since=again
    )
    setattr(self.request, STATE, state)
    return state is not None


@shared_task(name=TaskName.UNDERSTAND.value, base=LoggedTask, send_events=False)
def understand(tenant_id: str, query_id: str) -> None:
    """Ask a model for the query's other readings; the composing process waits for it."""
    understanding.understand(TenantId(tenant_id), QueryId(query_id), for_queries())


@shared_task(name=TaskName.ANSWER.value, base=CallbackTask, send_events=False, bind=True)
def answer(self: CallbackTask, tenant_id: str, query_id: str) -> None:
    """Compose the answer, now that every header has returned."""
    use = for_queries()
    answer_query.answer(TenantId(tenant_id), QueryId(query_id), use, channels(), known=header_of(self, STATE))


@shared_task(name=TaskName.FINISH.value, base=LoggedTask, send_events=False)
def finish(tenant_id: str, query_id: str) -> None:
    """Answer a query from the results so far: after a header raised, or at the deadline if there is no answer yet."""
    use = for_queries()
    answer_query.answer(TenantId(tenant_id), QueryId(query_id), use, channels())


_answering = threading.Lock()  # one slice in a process: more would take the threads of queries that callers wait for


@shared_task(name=TaskName.BATCH.value, base=LoggedTask)
def batch(tenant_id: str, job_id: str) -> None:
    """Answer a slice of the queries of the tenant whose turn it is; the arguments only name the job that was
    notified. A notification that comes meanwhile is dropped: the end of the slice notifies another worker as well."""
    log.debug("notification", sent_by=tenant_id, sent_for=job_id)
    if not _answering.acquire(blocking=False):
        return
    notified: list[tuple[TenantId, JobId, IngestQueue]] = []
    try:
        answer_batch.answer_next(
            for_queries(), channels(), for_ingestion(), notify=lambda *notification: notified.append(notification)
        )
    finally:
        _answering.release()
        for notification in notified:
            notify_workers(*notification)


@shared_task(name=TaskName.EXPLAIN.value, base=LoggedTask)
def explain(tenant_id: str, computation_id: str, step: int, kind: str) -> None:
    """Do a computation on an answered query: explain a missing chunk, or write an answer in words."""
    use = for_queries()
    compute.carry_out(
        TenantId(tenant_id),
        ComputationId(computation_id),
        step,
        ComputationKind(kind),
        use,
        {
            ComputationKind.EXPLAIN: partial(explaining.explain, use=use, channels=channels()),
            ComputationKind.WRITE: partial(write_answer, use=use),
        },
        send_next=compute_next,
    )
