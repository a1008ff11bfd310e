"""Whether a Redis can serve this installation: its version, its role, its clock, its space and the user's rights."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

import redis

from pipeline.database.clock_skew import redis_skew, refuse_skew
from pipeline.database.engines import redis_errors
from pipeline.database.redis_connections import brief_redis
from pipeline.database.redis_memory import read_redis_memory
from pipeline.database.store_errors import REDIS, Location, redis_location
from pipeline.settings import Settings

OLDEST_REDIS: Final = (6, 2)


def check_redis(settings: Settings) -> None:
    """Greet each Redis of the settings. Raises StoreMisconfigured (password, certificate, a version that is too old, a replica
    or a cluster, a clock ten seconds from this host's, a right that is missing), StoreUnavailable."""
    own = settings.redis_url.get_secret_value()
    broker = {settings.broker: broker_location(settings)} if settings.has_redis_as_broker else {}
    for url, at in {**broker, own: redis_location(own, REDIS)}.items():
        with _greeting(url, at, timeout_s=2.0) as client:
            client.ping()
            _refuse_unfit(client, at)
            refuse_skew(at, redis_skew(client))
            ping_redis(client)


def broker_location(settings: Settings) -> Location:
    """Return the location of the broker's Redis."""
    at = replace(REDIS, variable="CHORDWISE_BROKER_URL")
    return redis_location(settings.broker, at) if settings.has_redis_as_broker else at


def ping_broker(settings: Settings, *, timeout_s: float = 1.0, writes: bool = True) -> None:
    """Return if the broker's Redis takes messages on a new connection; without ``writes``, if it answers. Raises
    StoreUnavailable with the remedy."""
    with _greeting(settings.broker, broker_location(settings), timeout_s=timeout_s) as client:
        if writes:
            ping_redis(client)
        else:
            client.ping()


@contextmanager
def _greeting(url: str, at: Location, *, timeout_s: float) -> Iterator[redis.Redis]:
    with brief_redis(url, timeout_s=timeout_s) as client, redis_errors(at):
        yield client


# Names as our own keys and channels, those of Celery's results and those of tenants have them.
_PROBES: Final = ("chordwise:probe", "celery-task-meta-probe", "probe:probe")
_LEAST_FREE: Final = 2**20


def ping_redis(client: redis.Redis) -> None:
    """Return if Redis takes writes and messages: one that is full, read-only or without rights answers PING. One with less
    than `_LEAST_FREE` bytes counts as full: it takes this write and refuses the next one. Raises redis.RedisError."""
    with client.pipeline(transaction=False) as pipe:
        for name in _PROBES:
            pipe.set(name, b"", px=1000)
            pipe.publish(name, b"")
        pipe.execute()
    free = read_redis_memory(client).free
    if free is not None and free < _LEAST_FREE:
        raise redis.exceptions.OutOfMemoryError(f"{free} bytes are left")


def _refuse_unfit(client: redis.Redis, at: Location) -> None:
    """Raise StoreMisconfigured for a server that cannot hold queues and answers. HELLO needs no right, unlike INFO."""
    needed = f"Redis {'.'.join(map(str, OLDEST_REDIS))} or newer is needed"
    try:
        reply: list[Any] = client.execute_command("HELLO")  # type: ignore[no-untyped-call]
    except redis.ResponseError as error:
        if "unknown command" not in str(error):
            raise
        raise at.refused(f"the server is older than Redis 6, but {needed}; upgrade it") from error
    facts = {str(_plain(name)): _plain(value) for name, value in zip(reply[::2], reply[1::2], strict=True)}
    version = str(facts["version"])
    if tuple(map(int, version.split(".")[:2])) < OLDEST_REDIS:
        raise at.refused(f"the server is version {version}, but {needed}; upgrade it")
    if facts["role"] != "master":
        raise at.refused(f"the server is a replica, which takes no writes; name the primary server in {at.variable}")
    if facts["mode"] == "cluster":
        raise at.refused(f"the server is part of a cluster; name one without cluster mode in {at.variable}")


def _plain(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value
