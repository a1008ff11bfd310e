"""The backlog of the broker: with Redis the number and age of messages, with another broker their number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
import redis

from pipeline.database.engines import redis_errors
from pipeline.metrics.definitions import QueueDepth

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


def _age_s(message: bytes | None, now: float) -> float:
    if message is None:
        return 0.0
    try:
        headers: dict[str, Any] = orjson.loads(message)["headers"]
        return max(0.0, now - float(headers[SENT_AT]))
    except (ValueError, KeyError, TypeError):
        return 0.0  # of another sender
