"""The backlog of the broker: number and age of the messages, read in Redis, or computed for another broker."""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
import redis

from pipeline.database.engines import redis_errors
from pipeline.database.worker_heartbeats import WorkerHeartbeat
from pipeline.metrics.definitions import QueueDepth

_SINCE = "chordwise:queues:since"  # a hash: by queue, a time before which no waiting message was sent
SENT_AT = "sent_at"  # the header of our messages that says when they were sent, in seconds since the epoch


def queue_depths(broker: redis.Redis, queues: Sequence[str], *, now: float) -> dict[str, QueueDepth]:
    """Return each queue's length and age; the oldest message is on the right. Raises StoreUnavailable."""
    with redis_errors(), broker.pipeline(transaction=False) as pipe:
        pipe.hlen("unacked")
        for queue in queues:
            pipe.llen(queue)
            pipe.lindex(queue, -1)
        unacked, *lengths = pipe.execute()
    return {
        queue: QueueDepth(messages=lengths[2 * index], oldest_s=_age_s(lengths[2 * index + 1], now), unacked=unacked)
        for index, queue in enumerate(queues)
    }


def counted_depths(
    client: redis.Redis, counts: Mapping[str, int], workers: Sequence[WorkerHeartbeat], *, now: float
) -> dict[str, QueueDepth]:
    """Return each queue's length and age by the ``counts`` of a broker that does not show its messages.

    Queues are first in, first out: a waiting message was sent after the newest one that a worker took, and after the last
    call that found none waiting. The later of both, kept in Redis, gives the longest that one can have waited; too much
    by the time between two calls at most. Raises StoreUnavailable.
    """
    if not counts:
        return {}
    with redis_errors():
        known: Mapping[bytes, bytes] = client.hgetall(_SINCE)  # type: ignore[assignment]
        since = {queue: float(known.get(queue.encode(), now)) if waiting else now for queue, waiting in counts.items()}
        for queue in since:
            since[queue] = max(since[queue], *(worker.taken.get(queue, 0.0) for worker in workers), 0.0)
        client.hset(_SINCE, mapping=since)
    busy = sum(worker.busy for worker in workers)
    return {
        queue: QueueDepth(messages=waiting, oldest_s=max(0.0, now - since[queue]), unacked=busy)
        for queue, waiting in counts.items()
    }


def _age_s(message: bytes | None, now: float) -> float:
    if message is None:
        return 0.0
    try:
        headers: dict[str, Any] = orjson.loads(message)["headers"]
        return max(0.0, now - float(headers[SENT_AT]))
    except (ValueError, KeyError, TypeError):
        return 0.0  # of another sender
