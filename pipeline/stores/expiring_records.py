"""Records in Redis that processes write of themselves again and again, and that expire with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
import redis

from pipeline.stores.engines import redis_errors


class ExpiringRecords:
    """Records by id that expire ``expires_s`` after the last write. ``registry``: the key of the set of ids; ``key``: a
    record's, with a blank for the id. Thread-safe. Methods raise StoreUnavailable."""

    def __init__(self, client: redis.Redis, *, registry: str, key: str, expires_s: float) -> None:
        self._redis = client
        self._registry = registry
        self._key = key
        self._expires_ms = int(expires_s * 1000)

    def write(self, record_id: str, record: Any) -> None:
        """Store a record for as long as records live."""
        with redis_errors(), self._redis.pipeline(transaction=False) as pipe:
            pipe.sadd(self._registry, record_id)
            pipe.set(self._key.format(record_id), orjson.dumps(record), px=self._expires_ms)
            pipe.execute()

    def withdraw(self, record_id: str) -> None:
        """Forget a record at once."""
        with redis_errors(), self._redis.pipeline(transaction=False) as pipe:
            pipe.srem(self._registry, record_id)
            pipe.delete(self._key.format(record_id))
            pipe.execute()

    def all(self) -> list[dict[str, Any]]:
        """Return the records that have not expired, by id, and forget the others' ids. Costs two commands."""
        with redis_errors():
            ids = sorted(member.decode() for member in self._redis.smembers(self._registry))  # type: ignore[union-attr]
            if not ids:
                return []
            records: Sequence[bytes | None] = self._redis.mget(map(self._key.format, ids))  # type: ignore[assignment]
            gone = [record_id for record_id, record in zip(ids, records, strict=True) if record is None]
            if gone:
                self._redis.srem(self._registry, *gone)  # a slow process adds itself again with its next record
        return [orjson.loads(record) for record in records if record is not None]
