"""How Celery is run: queues, routes, acknowledgement, time limits, the beat; docs/architecture.md explains every
figure. Ledger and deadline make up for any message the broker loses."""

from __future__ import annotations

import random

from kombu import Exchange

from pipeline.database.clock_skew import WORST_SKEW_S
from pipeline.database.redis_connections import sentinel_options
from pipeline.errors import Misconfigured
from pipeline.settings import settings
from pipeline.store_urls import for_celery
from workers.names import Queue, TaskName
from workers.transport import TaskQueue, options_for_nodes, retry_policy, use_these

try:
    _settings = settings()
except Misconfigured as error:  # Celery would print the traceback of its own import of the app
    raise SystemExit(f"celery: {error}") from None
use_these()

# Flower reads no TLS options from a URL.
broker_url, _broker_tls = for_celery(_settings.broker)
broker_use_ssl = _broker_tls or False
_nodes = broker_url.split(";") if broker_url.startswith("amqp") else [broker_url]
# Each process begins at another node, so that the loss of one delays some of them only.
broker_url = ";".join(random.sample(_nodes, len(_nodes)))

task_default_queue = Queue.UPKEEP.value
task_create_missing_queues = False  # a message for a queue without a worker is a mistake, not a new queue
# Exchange and key are spelled out: left to the default, every queue would get every message of the default queue.
task_queues = [TaskQueue(queue.value, Exchange(queue.value), routing_key=queue.value) for queue in Queue]
_QUEUE_OF = {
    TaskName.INGEST: Queue.INGEST,
    TaskName.LONG: Queue.LONG,
    TaskName.RECALL: Queue.RECALL,
    TaskName.UNDERSTAND: Queue.RERANK,
    TaskName.ANSWER: Queue.ANSWER,
    TaskName.FINISH: Queue.ANSWER,
    TaskName.BATCH: Queue.BATCH,
    TaskName.EXPLAIN: Queue.RERANK,  # asks channels or a model; a tenant has few of them under way
    TaskName.COMPUTE: Queue.COMPUTE,
}
task_routes = {name.value: {"queue": _QUEUE_OF.get(name, Queue.UPKEEP).value} for name in TaskName}

task_serializer = "json"
result_serializer = "json"
accept_content = ["json"]
timezone = "UTC"

task_acks_late = False  # the ledger and the deadline bring lost work back; a redelivered header would only repeat it
# A child of a prefork worker reports that it is up after it was forked and warmed up. Celery's 4 s kill every child that
# replaces a dead one while the host is busy or a store is frozen, and the next one, and so on.
worker_proc_alive_timeout = 120.0
worker_prefetch_multiplier = 1  # a slow task must not hold others that a free worker could take
worker_cancel_long_running_tasks_on_connection_loss = False
worker_consumer = "workers.consumer:TaskConsumer"
worker_hijack_root_logger = False
worker_redirect_stdouts = False
# Flower shows the tasks of workers started with -E. Queries are shown by workers/query_events, which costs far less.
worker_send_task_events = False
task_send_sent_event = False
broker_connection_retry_on_startup = True
broker_connection_max_retries = None  # stock gives up after a hundred, and the process ends

result_backend = "workers.chords:ChordBackend"
result_backend_thread_safe = True  # it has no state; every new thread would look for its own among all packages

# Publishing with the broker down must fail in about a second, not hang for nineteen. A broker that was restarted has
# closed every connection: over AMQP, where each sender keeps its own, the message is sent once more over a new one, or
# the beat would go on using the old one for ever. A Redis client looks at its connection before it uses it.
task_publish_retry = not broker_url.startswith(("redis://", "rediss://", "sentinel://"))
task_publish_retry_policy = retry_policy(len(_nodes))
broker_connection_timeout = 1.0
# A node of RabbitMQ that hangs keeps its connections open. A worker leaves it after two of these; by default they are 120 s.
broker_heartbeat = 3
broker_transport_options = {
    "socket_timeout": 1.0,
    "socket_connect_timeout": 1.0,
    "write_timeout": 1.0,  # AMQP: a broker that takes nothing any more, as with its memory or disk alarm
    "visibility_timeout": 3600,
    "priority_steps": [0],  # one list a queue instead of four to look through
    "queue_order_strategy": "round_robin",
    **sentinel_options(_settings.broker),
    **options_for_nodes(len(_nodes)),
}

task_time_limit = 1800  # prefork only; every store and model call has its own, shorter, bound
task_soft_time_limit = 1740

# What has expired is dropped unrun, but only by the worker that takes it: without one, the queue grows by a few small
# messages an interval, and a worker that comes back is through with a day of them in seconds.
_INTERVALS_S = {
    TaskName.SWEEP: _settings.sweep_interval_s,  # enqueues the other tasks of upkeep when they have something to do
    TaskName.RECONCILE: 600.0,
    TaskName.VECTOR_INDEXES: 20.0,
}
beat_schedule = {
    name.value.removeprefix("upkeep."): {
        "task": name.value,
        "schedule": interval_s,
        "options": {"expires": interval_s + WORST_SKEW_S},  # by the sender's clock
    }
    for name, interval_s in _INTERVALS_S.items()
}
beat_max_loop_interval = 5
