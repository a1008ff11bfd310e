"""The Celery app of workers: `celery -A workers.app worker -Q …`. Connects nothing before the fork."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import structlog
from celery import Celery
from celery.signals import (
    beat_init,
    before_task_publish,
    celeryd_after_setup,
    celeryd_init,
    setup_logging,
    worker_init,
    worker_process_init,
    worker_process_shutdown,
    worker_shutdown,
)

from pipeline.database.engines import engines
from pipeline.database.installation import confirm_stores
from pipeline.database.redis_checks import check_redis
from pipeline.errors import Misconfigured, PipelineError, Unavailable, WrongInstallation
from pipeline.garbage import keep_for_good
from pipeline.maintenance.migrate_schema import check_all
from pipeline.metrics.queue_depth_store import SENT_AT
from pipeline.models.make_models import check_embedder, make_embedder
from pipeline.settings import settings
from pipeline.telemetry import tracing
from pipeline.telemetry.logs import configure_logging
from pipeline.threads import start_call
from workers import lane, resources
from workers.clock import add_clock_option
from workers.heartbeat import HeartbeatStep
from workers.names import FORMAT, MESSAGE_FORMAT, Queue
from workers.priorities import Niceness, give_way
from workers.producer import check_broker
from workers.query_events import events
from workers.transport import PersistentConnection, WorkerControl

log = structlog.get_logger(__name__)

app = Celery(
    "chordwise",
    include=[
        "workers.heartbeat",
        "workers.tasks.compute",
        "workers.tasks.ingest",
        "workers.tasks.recall",
        "workers.tasks.upkeep",
    ],
    control=WorkerControl,
)
app.config_from_object("celery_config")
app.amqp.Connection = PersistentConnection
app.steps["consumer"].add(HeartbeatStep)
add_clock_option(app)


_COMPUTES_ONLY = "chordwise_computes_only"
_WARM_UP_S = 15.0  # before a child takes its first task


@celeryd_init.connect(weak=False)
def _configure_for_queues(conf: Any, options: dict[str, Any], **_: Any) -> None:
    """Store for the child processes whether this worker takes only computations. Stop a query worker from recording
    messages taken in Redis, two calls each: no query waits for redelivery, a lost one is sent again. Unstarted ones are
    still handed back."""
    queues = {*(options.get("queues") or ())}
    conf[_COMPUTES_ONLY] = queues == {Queue.COMPUTE}
    if queues and queues <= {Queue.RECALL, Queue.ANSWER, Queue.BATCH}:
        conf.broker_transport_options = {**conf.broker_transport_options, "ack_emulation": False}


@before_task_publish.connect(weak=False)
def _stamp(headers: dict[str, Any] | None = None, **_: Any) -> None:
    """Stamp the beat's messages with time and format, as `dispatch` does: a queue's delay is computed from the time."""
    if headers is not None:
        headers.setdefault(SENT_AT, time.time())
        headers.setdefault(FORMAT, MESSAGE_FORMAT)


@setup_logging.connect(weak=False)
def _set_up_logging(**_: Any) -> None:
    configure_logging(settings().log_level, service="worker")


@worker_init.connect(weak=False)
def _check_schema(**_: Any) -> None:
    """Stop a worker with the wrong schema, dimension or installation; not for an unavailable database."""
    check = _start_check("worker", "schema_not_checked", refused=(Misconfigured, WrongInstallation))
    with check, engines(settings()) as (mysql, postgres):
        check_all(mysql, postgres, settings())
    with _start_check("worker", "settings_not_checked", refused=(Misconfigured, WrongInstallation)):
        tracing.check(settings())
        check_redis(settings())
        check_broker()
        _check_model()


@beat_init.connect(weak=False)
def _compare_stores(**_: Any) -> None:
    """Stop a clock beside stores of another installation, where its workers would sweep and repair."""
    # Stores that are unavailable or not migrated yet are no obstacle: the clock only sends messages.
    check = _start_check("clock", "installation_not_compared", refused=(WrongInstallation,), tolerated=PipelineError)
    with check, engines(settings()) as (mysql, postgres):
        confirm_stores(mysql, postgres, settings())


@beat_init.connect(weak=False)
def _check_broker(**_: Any) -> None:
    """Stop a clock that the broker refuses, since it would retry for ever. Waits for a broker that is unavailable."""
    with _start_check("clock", "broker_not_checked", refused=(Misconfigured,)):
        check_redis(settings())
        check_broker()


@contextmanager
def _start_check(
    process: str,
    unchecked: str,
    *,
    refused: tuple[type[PipelineError], ...],
    tolerated: type[PipelineError] = Unavailable,
) -> Iterator[None]:
    """End this process with a sentence for an error of ``refused``; log ``unchecked`` for a tolerated one."""
    try:
        yield
    except refused as error:  # must come first: StoreMisconfigured is tolerated as well
        logging.getLogger(__name__).critical("the %s cannot start: %s", process, error)
        sys.exit(1)
    except tolerated as error:
        log.warning(unchecked, code=error.code, detail=str(error))


def _check_model() -> None:
    """Ask a model service for one vector, or look for a local model. Raises Misconfigured or Unavailable."""
    embedder = make_embedder(settings())
    try:
        if settings().embedding_provider != "local":
            check_embedder(embedder, timeout_s=10.0)
    finally:
        embedder.close()


@celeryd_after_setup.connect(weak=False)
def _warm_up_threads(instance: Any, **_: Any) -> None:
    """Load the model before a worker of threads takes queries, as it takes longer than a channel may, and before a
    worker of processes forks them, as they share what it has read."""
    events.worker = instance.hostname
    pool = instance.pool_cls  # an alias or a class, depending on how far the worker has got
    forks = "prefork" in (pool if isinstance(pool, str) else pool.__module__)
    give_way(Niceness.BACKGROUND if forks else Niceness.QUERIES)  # its children inherit it, and are of its session
    if not forks:
        resources.resize(resources.for_queries(), instance.concurrency)
        resources.warm_up(resources.for_queries())
        tracing.warm_up()
        if Queue.ANSWER in app.amqp.queues.consume_from:
            lane.listen(settings(), name=events.worker)
    else:
        resources.preload(settings(), computes_only=bool(app.conf.get(_COMPUTES_ONLY)))
    keep_for_good()  # in a parent too: a collection in a child would write to every object and so copy its pages


@worker_process_init.connect(weak=False)
def _warm_up_child(**_: Any) -> None:
    """Load the model in a child of an ingest worker."""
    if not app.conf.get(_COMPUTES_ONLY):
        warming = start_call(resources.warm_up, resources.for_ingestion())
        with suppress(TimeoutError):  # with a frozen store it goes on beside the first task
            warming.result(timeout=_WARM_UP_S)
    tracing.warm_up()
    keep_for_good()


@worker_process_shutdown.connect(weak=False)
@worker_shutdown.connect(weak=False)
def _report_counts(**_: Any) -> None:
    """Report the counts of the last second at an orderly end."""
    resources.hand_over()
    tracing.close()
