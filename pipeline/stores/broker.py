"""How much waits in a broker that is a Redis; other brokers have metrics of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import redis

from pipeline.stores.engines import redis_errors

SENT_AT = "sent_at"  # the header of our messages that says when they were sent, in seconds since the epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class Depth:
    """One queue. ``oldest_s``: how long the message that is next has waited, 0 if there is none or it does not say.
    ``unacked`` is that of the whole broker."""

    messages: int
    oldest_s: float
    unacked: int


def queue_depths(broker: redis.Redis, queues: Sequence[str], *, now: float) -> dict[str, Depth]:
    """Length and age of each queue. Messages are put in on the left, so the oldest stands on the right.

    Raises StoreUnavailable.
    """
    with redis_errors(), broker.pipeline(transaction=False) as pipe:
        pipe.hlen("unacked")
        for queue in queues:
            pipe.llen(queue)
            pipe.lindex(queue, -1)
        unacked, *found = pipe.execute()
    return {
        queue: Depth(messages=found[2 * place], oldest_s=_age_s(found[2 * place + 1], now), unacked=unacked)
        for place, queue in enumerate(queues)
    }


def _age_s(message: bytes | None, now: float) -> float:
    if message is None:
        return 0.0
    try:
        headers: dict[str, Any] = orjson.loads(message)["headers"]
        return max(0.0, now - float(headers[SENT_AT]))
    except (ValueError, KeyError, TypeError):
        return 0.0  # sent by somebody else
