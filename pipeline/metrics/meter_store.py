"""Counters and times of all processes. A process adds its own to one Redis hash about once a second, in one round trip,
for any gateway to render; one that is killed loses those of the last second."""

import bisect
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Final

import orjson
import redis
import structlog

from pipeline.database.engines import redis_errors
from pipeline.metrics.definitions import METRICS, WINDOW_MINUTES, WINDOWED, Field, MetricSpec
from pipeline.outages import tolerate_outage
from pipeline.threads import DelayedCall

log = structlog.get_logger(__name__)

TOTALS: Final = "chordwise:metrics"
SOON_S: Final = 1.0
MOST_FIELDS: Final = 20_000  # some 2 MB; further ones are not counted
_MOST_PENDING: Final = 5_000  # of one process, while Redis is away
_MOST_LABEL: Final = 64
_MINUTE_KEPT_S: Final = 60 * (WINDOW_MINUTES + 2)

# KEYS: totals, this minute. ARGV: most fields, seconds a minute is kept, how many pairs belong to the minute too, pairs.
# Adds pairs of field and amount to a hash, in groups: Lua passes at most some thousand arguments to a command.
_ADD: Final = """
local function add(key, first, last, most)
  local count = most and redis.call('HLEN', key) or 0
  for from = first, last, 1000 do
    local names, changed = {}, {}
    for at = from, math.min(from + 999, last) do names[#names + 1] = ARGV[2 + 2 * at] end
    local known = redis.call('HMGET', key, unpack(names))
    for at, name in ipairs(names) do
      if known[at] or not most or count < most then
        if not known[at] then count = count + 1 end
        changed[#changed + 1] = name
        changed[#changed + 1] = string.format('%.17g', (known[at] or 0) + ARGV[3 + 2 * (from + at - 1)])
      end
    end
    if #changed > 0 then redis.call('HSET', key, unpack(changed)) end
  end
end
local pairs, minute_pairs = (#ARGV - 3) / 2, tonumber(ARGV[3])
add(KEYS[1], 1, pairs, tonumber(ARGV[1]))
if minute_pairs > 0 then
  add(KEYS[2], 1, minute_pairs)
  redis.call('EXPIRE', KEYS[2], ARGV[2])
end
"""


class Meter:
    """One process's metrics, sent within ``soon_s`` seconds. Thread-safe; nothing here raises or waits for Redis."""

    def __init__(self, client: redis.Redis, *, clock: Callable[[], float] = time.time, soon_s: float = SOON_S) -> None:
        self._redis = client
        self._add_up = client.register_script(_ADD)
        self._clock = clock
        self._lock = threading.Lock()
        self._pending: defaultdict[Field, float] = defaultdict(float)
        self._flushing = DelayedCall(self.flush, seconds=soon_s)

    def count(self, name: str, by: float = 1.0, **labels: object) -> None:
        """Add to a counter. Labels are given by name, all that the metric has."""
        spec = _spec(name, labels)
        if spec is not None and by:
            self._collect({(name, "", _values(spec, labels)): by})

    def observe(self, name: str, value: float, **labels: object) -> None:
        """Put one more value, in the unit of the name, into a histogram."""
        spec = _spec(name, labels)
        if spec is not None:
            bucket = bisect.bisect_left(spec.buckets, value)
            bound = str(spec.buckets[bucket]) if bucket < len(spec.buckets) else "+Inf"
            values = _values(spec, labels)
            self._collect({(name, bound, values): 1.0, (name, "sum", values): value})

    def flush(self) -> None:
        """Send the collected values to Redis. Those that it does not take now are sent with the next ones."""
        with self._lock:
            pending, self._pending = self._pending, defaultdict(float)
        if not pending:
            return
        ordered = sorted(pending, key=lambda field: field[0] not in WINDOWED)
        pairs = [part for field in ordered for part in (orjson.dumps(field).decode(), repr(pending[field]))]
        windowed = sum(1 for field in ordered if field[0] in WINDOWED)
        keys = (TOTALS, minute_key(int(self._clock() // 60)))
        with tolerate_outage(log.warning, "metrics_not_written"), redis_errors():
            self._add_up(keys, [str(MOST_FIELDS), str(_MINUTE_KEPT_S), str(windowed), *pairs])
            return
        with self._lock:
            self._add(pending)

    def close(self) -> None:
        """Send the remaining values."""
        self._flushing.cancel()
        self.flush()

    def _add(self, changes: Mapping[Field, float]) -> None:
        for field, by in changes.items():
            if field in self._pending or len(self._pending) < _MOST_PENDING:
                self._pending[field] += by

    def _collect(self, changes: Mapping[Field, float]) -> None:
        with self._lock:
            self._add(changes)
        self._flushing.request()


def read_totals(client: redis.Redis) -> dict[Field, float]:
    """Return all counts of the fleet. Raises StoreUnavailable."""
    with redis_errors():
        fields: dict[bytes, bytes] = client.hgetall(TOTALS)  # type: ignore[assignment]
    return _read(fields)


def read_window(client: redis.Redis, *, now: float) -> dict[Field, float]:
    """Return the counts of the last minutes, of metrics that keep them. Raises StoreUnavailable."""
    minute = int(now // 60)
    with redis_errors(), client.pipeline(transaction=False) as pipe:
        for back in range(WINDOW_MINUTES):
            pipe.hgetall(minute_key(minute - back))
        minutes: list[dict[bytes, bytes]] = pipe.execute()
    sums: defaultdict[Field, float] = defaultdict(float)
    for fields_of_minute in minutes:
        for field, value in _read(fields_of_minute).items():
            sums[field] += value
    return dict(sums)


def minute_key(minute: int) -> str:
    """Return the key of one minute's values, counted from the epoch."""
    return f"{TOTALS}:{minute}"


def _read(stored: Mapping[bytes, bytes]) -> dict[Field, float]:
    """Return the stored values by metric; metrics unknown to this version are omitted."""
    fields: dict[Field, float] = {}
    for raw, value in stored.items():
        name, part, labels = orjson.loads(raw)
        spec = METRICS.get(name)
        if spec is not None and len(spec.labels) == len(labels):
            fields[name, part, tuple(labels)] = float(value)
    return fields


def _spec(name: str, labels: Mapping[str, object]) -> MetricSpec | None:
    spec = METRICS.get(name)
    if spec is None or set(spec.labels) != set(labels):
        log.error("metric_unknown", metric=name, labels=sorted(labels))
        return None
    return spec


def _values(spec: MetricSpec, labels: Mapping[str, object]) -> tuple[str, ...]:
    return tuple(str(labels[label])[:_MOST_LABEL] for label in spec.labels)
