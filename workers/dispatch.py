"""Enqueue tasks by name, with typed functions. Safe to import anywhere; it loads no task or model."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import structlog
from celery import Signature
from kombu.exceptions import KombuError, OperationalError
from redis.exceptions import RedisError

from pipeline.answer.ended_query import UNDERSTAND, task_id_of
from pipeline.errors import StoreUnavailable
from pipeline.ingestion.accept import AcceptedJob
from pipeline.jobs.computation import LIMITS, Computation, ComputationKind
from pipeline.metrics.queue_depth_store import SENT_AT
from pipeline.query.request import Query
from pipeline.records import ChannelName, IngestQueue, JobId, TenantId
from pipeline.settings import settings
from pipeline.telemetry import tracing
from workers.names import FORMAT, MESSAGE_FORMAT, Queue, TaskName
from workers.producer import AMQP_ERRORS, broker_full, producer
from workers.transport import BrokerAlarm, RedisChannel, refuse_in_alarm

log = structlog.get_logger(__name__)

# Errors of publishing to a broker that is down or frozen, or refuses the user.
_BROKER_ERRORS = (OperationalError, KombuError, RedisError, OSError, *AMQP_ERRORS)

# More notifications would only wake workers for too little work; a full batch notifies the next worker.
_NOTIFICATIONS_AT_ONCE = 16
_NOTIFICATION_EXPIRES_S = 3600
_TASK_OF = {
    IngestQueue.INGEST: TaskName.INGEST,
    IngestQueue.LONG: TaskName.LONG,
    IngestQueue.BATCH: TaskName.BATCH,
    IngestQueue.SOURCE: TaskName.INGEST,  # a run takes a thread of a worker for documents, and no turn of theirs
}
_CARRIED = {IngestQueue.SOURCE: Queue.INGEST}
# A flood of small jobs, or an hour without a worker, would leave thousands of expired notifications, which workers have to drop
# before they ingest anything. The sweeper notifies workers of the due items later.
_MOST_WAITING = 256
_UPKEEP_EXPIRES_S = 30
_FINISH_EXPIRES_S = 5.0
_STOPPING_S = 10  # seconds for a step to stop after its soft limit; then its process is killed


def get_ready() -> None:
    """Load the modules for sending and connect to the broker, so that the first query does not wait. Never raise: sending
    connects again."""
    try:
        refuse_in_alarm()
        _signature(TaskName.RECALL, {}, request_id="", expires_s=0.0)
        _ = producer.backend, producer.amqp.send_task_message  # made at first use
        with producer.producer_or_acquire() as publisher:
            for queue in (Queue.RECALL, Queue.ANSWER):
                publisher.maybe_declare(producer.amqp.queues[queue.value])
    except _BROKER_ERRORS as error:
        log.warning("broker_not_connected", **_reason(error))


def notify(accepted: AcceptedJob, queue: IngestQueue = IngestQueue.INGEST) -> None:
    """Wake workers for a job that was just accepted. Never raises: the sweeper notifies again."""
    batches = -(-accepted.due // settings().ingest_batch_documents)
    for _ in range(min(batches, _NOTIFICATIONS_AT_ONCE)):
        if not notify_workers(accepted.tenant_id, accepted.job_id, queue, request_id=accepted.request_id):
            return


def notify_workers(
    tenant_id: TenantId, job_id: JobId, queue: IngestQueue = IngestQueue.INGEST, *, request_id: str = ""
) -> bool:
    """Notify a worker of a job's due items in a queue, unless many wait there: any one serves the tenant whose turn it is.

    Return False if the broker did not accept the message. The sweeper then notifies later."""
    arguments = {"tenant_id": tenant_id, "job_id": job_id}
    if queue is IngestQueue.SOURCE:
        arguments["queue"] = queue.value
    message = _signature(_TASK_OF[queue], arguments, request_id=request_id, expires_s=_NOTIFICATION_EXPIRES_S)
    try:
        refuse_in_alarm()
        with producer.producer_or_acquire() as publisher:
            channel = publisher.channel
            if (
                isinstance(channel, RedisChannel)
                and channel.waiting(_CARRIED.get(queue) or Queue(queue.value)) >= _MOST_WAITING
            ):
                return True
            message.apply_async(producer=publisher)
    except _BROKER_ERRORS as error:
        log.warning("job_not_enqueued", tenant_id=tenant_id, job_id=job_id, **_reason(error))
        return False
    return True


def alarm() -> str | None:
    """Return a sentence for callers while the broker refuses messages because it is full; None otherwise."""
    try:
        refuse_in_alarm()
    except BrokerAlarm as error:
        full = broker_full(error)
        return None if full is None else full.public
    return None


def send_webhooks() -> None:
    """Have a worker send the messages in the outbox now. Never raise: the sweeper does the same every few seconds."""
    enqueue_upkeep(TaskName.WEBHOOKS)


def enqueue_upkeep(name: TaskName) -> None:
    """Enqueue a task of upkeep that takes no arguments. Never raises: the next sweep enqueues it again."""
    try:
        refuse_in_alarm()
        _signature(name, {}, request_id="", expires_s=_UPKEEP_EXPIRES_S).apply_async()
    except _BROKER_ERRORS as error:
        log.warning("upkeep_not_enqueued", task=name.value, **_reason(error))


def ask(query: Query) -> None:
    """Send a query to its channels: a chord with one header task for each. Raises StoreUnavailable when the broker does not
    take the messages within about two seconds.

    A task for a language model goes first on the callback's queue, so that no earlier task waits for a later one. The messages
    are those of Celery's canvas, without its slow copies of signatures; Redis gets them in one round trip. The keyword
    channel's is last: the worker of the last report composes the answer, and this one has most rows at hand.
    """
    _send_chord(query, query.channels, Queue.RECALL, Queue.RERANK if waits_for_model(query) else Queue.ANSWER)


def ask_again(query: Query, channels: Sequence[ChannelName], queue: Queue, since: float) -> None:
    """Send the headers of these channels again by another queue, whose workers compose the answer as well.

    Each is sent twice, to reach two workers: one of them may hang, or its node of RabbitMQ. The first one asks the channel,
    unless a worker has begun it ``since``, in seconds since the epoch. Raises as `ask` does.
    """
    _send_chord(query, [*channels, *channels], queue, queue, again=since)


def _send_chord(
    query: Query, channels: Sequence[ChannelName], queue: Queue, answers: Queue, *, again: float = 0.0
) -> None:
    """Send the headers of these channels by ``queue``, with a callback that goes to ``answers``."""
    left_s = max(0.1, query.deadline.left_s())
    arguments = {"tenant_id": query.tenant_id, "query_id": query.query_id}
    common: dict[str, Any] = {
        "root_id": query.query_id,
        "expires": left_s,
        "ignore_result": True,
        "add_to_parent": False,
        "argsrepr": "",  # `query_events` shows a query's tasks
        "kwargsrepr": "",
        "headers": _headers(query.request_id),
    }
    # It travels with every header, whose ids of the request it takes over: `base.CallbackTask`.
    callback = producer.signature(TaskName.ANSWER.value, kwargs=arguments, immutable=True)
    callback.options |= {"queue": answers.value, "task_id": query.query_id, "expires": left_s, "ignore_result": True}
    keyword_last = sorted(channels, key=lambda channel: channel is ChannelName.KEYWORD)

    def send_parts() -> None:
        with _as_of_broker(), publisher.batch():
            if query.model_steps and not again:
                task_id = task_id_of(query.query_id, UNDERSTAND)
                producer.send_task(
                    TaskName.UNDERSTAND.value, kwargs=arguments, task_id=task_id, queue=Queue.RERANK.value, **common
                )
            for channel in keyword_last:
                producer.send_task(
                    TaskName.RECALL.value,
                    kwargs={**arguments, "channel": channel.value} | ({"again": again} if again else {}),
                    task_id=task_id_of(query.query_id, channel),
                    group_id=query.query_id,
                    group_index=query.channels.index(channel),
                    chord=callback,
                    queue=queue.value,
                    **common,
                )

    with _translated_errors("query"), producer.producer_or_acquire() as publisher:
        common |= {"producer": publisher, "retry": False}
        if producer.conf.task_publish_retry:  # all parts by another node, since none of a batch is confirmed for itself
            send_parts = publisher.connection.ensure(publisher, send_parts, **producer.conf.task_publish_retry_policy)
        send_parts()


def waits_for_model(query: Query) -> bool:
    """Return whether composing the answer waits for a language model or for a service."""
    rerank = query.plan.rerank
    by_service = rerank.enabled and settings().reranker_for(rerank.provider) != "local"
    return bool(query.model_steps) or by_service


def finish(query: Query, queue: Queue = Queue.ANSWER) -> None:
    """Have a worker answer a query from the results so far. The message is sent twice, as in `ask_again`; the first answer
    wins. Raises StoreUnavailable when the broker does not take it."""
    ids = {"tenant_id": query.tenant_id, "query_id": query.query_id}
    message = _signature(TaskName.FINISH, ids, request_id=query.request_id, expires_s=_FINISH_EXPIRES_S, queue=queue)
    with _translated_errors("message"), producer.producer_or_acquire() as publisher:
        for _ in range(2):
            message.apply_async(producer=publisher)


def queue_of(computation: Computation) -> Queue:
    """Return the queue of a computation: that of query workers if it asks channels or a language model."""
    of_query = computation.kind in (ComputationKind.EXPLAIN, ComputationKind.WRITE)
    return Queue.RERANK if of_query else Queue.COMPUTE


def compute(computation: Computation, *, expires_s: float) -> None:
    """Enqueue the present step of a computation. Raises StoreUnavailable when the broker does not take it."""
    queue = queue_of(computation)
    name = TaskName.COMPUTE if queue is Queue.COMPUTE else TaskName.EXPLAIN
    ids = {"tenant_id": computation.tenant_id, "computation_id": computation.computation_id}
    arguments = {**ids, "step": computation.step, "kind": computation.kind.value}
    message = _signature(name, arguments, request_id=computation.request_id, expires_s=expires_s, queue=queue)
    step_s = LIMITS[computation.kind].step_s
    with _translated_errors("message"):
        message.apply_async(soft_time_limit=step_s, time_limit=step_s + _STOPPING_S)


def compute_next(computation: Computation) -> None:
    """Enqueue the step after the present one. Raises StoreUnavailable when the broker does not take it."""
    compute(replace(computation, step=computation.step + 1), expires_s=LIMITS[computation.kind].step_s)


@contextmanager
def _as_of_broker() -> Iterator[None]:
    """Raise the error of the broker's client that Celery's `send_task` has translated: kombu retries only after that one."""
    try:
        yield
    except OperationalError as error:
        raise error.__cause__ or error  # noqa: B904 - the cause has its traceback


@contextmanager
def _translated_errors(subject: str) -> Iterator[None]:
    """Raise StoreUnavailable when the broker does not accept the ``subject``, StoreFull while it has an alarm."""
    try:
        refuse_in_alarm()
        yield
    except _BROKER_ERRORS as error:
        raise broker_full(error) or StoreUnavailable(
            f"the broker did not accept the {subject}: {type(error).__name__}",
            retry_after_s=1.0,
        ) from error


def _reason(error: Exception) -> dict[str, str]:
    """Return the fields of a log line for a message that was not accepted."""
    full = broker_full(error)
    return {"error": type(error).__name__} | ({} if full is None else {"detail": str(full)})


def _signature(
    name: TaskName, arguments: Mapping[str, str | int], *, request_id: str, expires_s: float, queue: Queue | None = None
) -> Signature:
    options: dict[str, Any] = {
        "ignore_result": True,
        "expires": expires_s,
        # Flower shows these instead of the arguments; messages hold only ids, which are safe to show.
        "argsrepr": "()",
        "kwargsrepr": repr(dict(arguments)),
        "headers": _headers(request_id),
    }
    if queue is not None:
        options["queue"] = queue.value
    return producer.signature(name.value, kwargs=dict(arguments), options=options, immutable=False)


def _headers(request_id: str) -> dict[str, Any]:
    return {"request_id": request_id, SENT_AT: time.time(), FORMAT: MESSAGE_FORMAT, **tracing.outgoing()}
