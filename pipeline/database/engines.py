"""Connections to the three servers, made once per process, and noted outages, so that queries do not wait again."""

import re
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from typing import Any, Final

import psycopg
import redis
import redis.asyncio
import sqlalchemy
import structlog
from psycopg.types.string import TextLoader
from redis.backoff import ExponentialBackoff
from redis.retry import Retry
from sqlalchemy import URL, Engine, Pool, event, make_url
from sqlalchemy.exc import SQLAlchemyError

from pipeline.database.bounded_waits import SILENT_S, bound_mysql, bound_postgres, timed_out
from pipeline.database.redis_connections import REDIS_IDLE_S, async_redis_of, redis_of
from pipeline.database.store_errors import (
    MYSQL,
    POSTGRES,
    REDIS,
    Location,
    attach_location,
    location,
    of_redis,
    translated,
)
from pipeline.database.store_errors import Conflict as Conflict
from pipeline.database.store_errors import LockHeld as LockHeld
from pipeline.database.tenant_presence import require_tenants
from pipeline.errors import StoreUnavailable
from pipeline.settings import Settings
from pipeline.store_urls import host_and_port, hosts_of
from pipeline.telemetry.tracing import edge

log = structlog.get_logger(__name__)

_GRACE_S: Final = 0.05  # a connection closed by the server fails once, and a new one is made within this time
_PAUSE_S: Final = 0.25  # between two probes
_FORGOTTEN_S: Final = 30.0  # after the last query the probes end
_ANSWER_S: Final = 30.0  # longest wait for one answer of a database, unless a caller waits


class Outage:
    """One store's outage, from the first call that waited in vain until a probe succeeds. ``probe`` raises while the store
    is away; it runs in a thread of its own, so no query waits for it. Safe to share between threads."""

    def __init__(self, probe: Callable[[], object], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._probe = probe
        self._clock = clock
        self._lock = threading.Lock()
        self._suspected_at: float | None = None
        self._failed = False  # a probe has failed since then
        self._waited = False  # a call timed out
        self._timed_out = False  # as well, or its statement did
        self._held_up_at = float("-inf")
        self._used_at = 0.0

    @property
    def is_on(self) -> bool:
        """Return whether a call would fail, as far as is known."""
        self._used_at = self._clock()
        since = self._suspected_at
        return since is not None and (self._waited or self._failed or self._used_at - since > _GRACE_S)

    @property
    def is_held_up(self) -> bool:
        """Return whether the store has answered a probe just after a statement timed out: it runs, and is busy or has a
        lock."""
        return self._clock() - self._held_up_at < _FORGOTTEN_S

    def suspect(self, *, waited: bool = False, timed_out: bool = False) -> None:
        """Note a failed call. One that timed out (``waited``) proves an outage at once, since a closed connection fails
        without a wait; a statement that did (``timed_out``) may have met a lock. A false suspicion ends with the probe that
        starts now."""
        with self._lock:
            self._waited |= waited
            self._timed_out |= waited or timed_out
            if self._suspected_at is not None:
                return
            self._suspected_at = self._used_at = self._clock()
            self._failed = False
        threading.Thread(target=self._watch, name="outage", daemon=True).start()

    @contextmanager
    def refused(self) -> Iterator[None]:
        """Raise StoreUnavailable at once while the outage lasts, and suspect one if the block raises it."""
        if self.is_on:
            raise StoreUnavailable("MySQL: the last call timed out", public="MySQL is not answering")
        try:
            yield
        except StoreUnavailable as error:
            self.suspect(timed_out=timed_out(error))
            raise

    def _watch(self) -> None:
        while self._clock() - self._used_at < _FORGOTTEN_S:
            try:
                self._probe()
                break
            except (SQLAlchemyError, OSError) as error:
                if not self._failed:
                    log.warning("store_away", error=type(error).__name__)
                self._failed = True
                time.sleep(_PAUSE_S)
        with self._lock:
            if self._timed_out:
                self._held_up_at = float("-inf") if self._failed else self._clock()
            self._suspected_at = None
            self._waited = self._timed_out = False


# By pool, which an engine with other execution options shares.
_OUTAGES: weakref.WeakKeyDictionary[Pool, Outage] = weakref.WeakKeyDictionary()


def watch(engine: Engine) -> None:
    """Start to note outages of this engine's server."""
    reference = weakref.ref(engine)

    def probe() -> None:
        if (server := reference()) is not None:
            with server.connect() as connection:
                connection.exec_driver_sql("SELECT 1")

    _OUTAGES[engine.pool] = Outage(probe)


def outage_of(engine: Engine) -> Outage | None:
    """Return the outage of an engine's server; None if it is not watched."""
    return _OUTAGES.get(engine.pool)


# A query's few statements would otherwise carry as many BEGINs, ROLLBACKs and pings. A connection that the server has
# closed is replaced when it leaves the pool.
_READING: dict[str, Any] = {
    "isolation_level": "AUTOCOMMIT",
    "skip_autocommit_rollback": True,
    "pool_reset_on_return": None,
    "pool_pre_ping": False,
}

# Vector searches are planned once for all tenants, and only through an index. PostgreSQL's own estimate of rows would read
# the whole table for small tenants.
PINNED = "-c plan_cache_mode=force_generic_plan -c enable_seqscan=off"

# The modes of a session decide what a statement means and whether a value is cut: never the server's own.
SQL_MODE: Final = "STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION"

_OPTION = re.compile(r"-c (\S+)=(\S+)")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_OPEN = "chordwise_span"


def mysql_engine(
    settings: Settings,
    *,
    timeout_s: float | None = None,
    silent_s: float = SILENT_S,
    reading: bool = False,
) -> Engine:
    """Return a pool on the MySQL-protocol server. ``timeout_s`` bounds socket reads and writes, as statement timeouts
    and KILL do not stop FULLTEXT; ``silent_s`` those for a server that greets nobody. If it is shorter than usual,
    because a caller waits, it also bounds the wait for a table that another session has locked; that for a row, which
    writers share, is longer. ``reading``: for single statements without transactions, refused during an outage; without
    ``timeout_s`` too the wait for a lock is bounded, as the process gives no sign of life meanwhile."""
    seconds = timeout_s or _ANSWER_S
    url = make_url(settings.mysql_url.get_secret_value())
    modes = [f"time_zone = '+00:00', sql_mode = '{SQL_MODE}'"]
    if silent_s < SILENT_S or (reading and timeout_s is None):
        table_s, row_s = (max(1, int(min(seconds, limit_s)) - 1) for limit_s in (silent_s, SILENT_S))
        modes += [f"lock_wait_timeout = {table_s}", f"innodb_lock_wait_timeout = {row_s}"]
    connect_args: dict[str, Any] = {
        "charset": "utf8mb4",
        "connect_timeout": max(1.0, min(5.0, seconds, silent_s)),
        "init_command": f"SET {', '.join(modes)}",
    }
    # On this machine without TLS unless the URL asks: reading all certificates for a connection is slower than a query.
    hosts = [host_and_port(host, 0)[0] for host in hosts_of(settings.mysql_url.get_secret_value())]
    if all(host in _LOOPBACK for host in hosts) and not any(name.startswith("ssl") for name in url.query):
        connect_args["ssl_disabled"] = True
    # REPEATABLE READ deadlocks when documents are re-indexed concurrently.
    options = _READING if reading else {"isolation_level": "READ COMMITTED", "pool_pre_ping": True}
    engine = _pool(url, settings.store_pool_size, seconds, connect_args=connect_args, **options)
    bound_mysql(engine, limit_s=seconds, silent_s=silent_s)
    event.listen(engine, "handle_error", partial(attach_location, location(MYSQL, url)))
    if reading:
        watch(engine)
    if not reading:
        require_tenants(engine)
    return traced(engine, "mysql") if settings.otlp_endpoint or settings.traces_kept else engine


def _pool(url: URL, size: int, timeout_s: float, **options: Any) -> Engine:
    return sqlalchemy.create_engine(
        url,
        pool_size=size,
        max_overflow=size,
        pool_timeout=timeout_s,
        pool_recycle=1800,
        pool_use_lifo=True,  # one query after the other uses the same connection, which is not idle for a minute
        hide_parameters=True,  # errors are logged, and the parameters may contain a user's text
        **options,
    )


def postgres_engine(
    settings: Settings,
    *,
    timeout_s: float | None = None,
    silent_s: float = SILENT_S,
    reading: bool = False,
    options: str = "",
    direct: bool = False,
) -> Engine:
    """Return a pool on PostgreSQL, for ``reading`` and with ``silent_s`` as above. ``timeout_s`` is the statement timeout
    and TCP_USER_TIMEOUT, by which a dead peer is noticed. ``options``: more of the server's settings, as ``-c name=value``.
    ``direct``: to the server itself, for what needs a session, where the settings also name a pooler of transactions.
    """
    itself = settings.postgres_direct_url
    pooled = bool(itself) and not direct
    seconds = timeout_s or _ANSWER_S
    milliseconds = int(seconds * 1000)
    if reading:
        options = f"{PINNED} {options}"
    options = f"-c statement_timeout={milliseconds} -c jit=off -c TimeZone=UTC {options}".rstrip()
    url = make_url((itself if itself and direct else settings.postgres_url).get_secret_value())
    if (
        url.query.get("host") and "target_session_attrs" not in url.query
    ):  # of several servers, the one that takes writes
        url = url.update_query_dict({"target_session_attrs": "read-write"})
    connect_args: dict[str, Any] = {
        "connect_timeout": max(2, min(5, int(seconds), round(silent_s))),  # libpq's minimum is 2
        "tcp_user_timeout": milliseconds,
        **({"prepare_threshold": None} if pooled else {"options": options}),
    }
    pool_options = _READING if reading and not pooled else {"pool_pre_ping": True}
    engine = _pool(url, settings.store_pool_size, seconds, connect_args=connect_args, **pool_options)
    bound_postgres(engine, limit_s=1.1 * seconds + 0.2, silent_s=silent_s)  # a server that runs ends a statement itself
    event.listen(engine, "connect", _ids_as_text)
    if pooled:
        event.listen(engine, "begin", partial(_set_locally, options))
    event.listen(engine, "handle_error", partial(attach_location, location(POSTGRES, url)))
    return traced(engine, "postgresql") if settings.otlp_endpoint or settings.traces_kept else engine


def _set_locally(options: str, connection: sqlalchemy.Connection) -> None:
    """Set the options for this transaction: the next one may run in another session, which other clients use too."""
    settings = ", ".join(f"set_config('{name}', '{value}', true)" for name, value in _OPTION.findall(options))
    connection.info.clear()  # of what was set in the session
    with closing(connection.connection.cursor()) as cursor:
        cursor.execute(f"SELECT {settings}")


def _ids_as_text(connection: psycopg.Connection[Any], _: object) -> None:
    """Return ids as text, to avoid an object for each."""
    connection.adapters.register_loader("uuid", TextLoader)


def indexed_engine(settings: Settings, *, timeout_s: float | None = None, silent_s: float = SILENT_S) -> Engine:
    """Return a pool on PostgreSQL for searches through approximate indexes alone: sorting is off, so that they are the
    only plan.

    The number of lists is set before each statement and is a hard limit (a continued scan returns them out of order).
    """
    options = "-c enable_sort=off -c work_mem=16MB"  # 60,000 rows of lists are sorted in memory
    return postgres_engine(settings, timeout_s=timeout_s, silent_s=silent_s, reading=True, options=options)


def used_server(connection: sqlalchemy.Connection) -> tuple[str, int]:
    """Return host and port of the server that a connection goes to, which is one of several where the URL names several."""
    driver: Any = connection.connection.driver_connection
    at = driver.info if isinstance(driver, psycopg.Connection) else driver
    return at.host, at.port


def used_url(engine: Engine) -> URL:
    """Return the URL of an engine with the one server that new connections go to. Raises as connecting does."""
    if not engine.url.query.get("host"):
        return engine.url
    with engine.connect() as connection:
        host, port = used_server(connection)
    return engine.url.difference_update_query(["host", "target_session_attrs"]).set(host=host, port=port)


@contextmanager
def engines(settings: Settings, *, timeout_s: float | None = None) -> Iterator[tuple[Engine, Engine]]:
    """Provide a pool on each database for the time of one command, whose statements may take ``timeout_s``."""
    mysql = mysql_engine(settings, timeout_s=timeout_s)
    postgres = postgres_engine(settings, timeout_s=timeout_s, direct=True)
    try:
        yield mysql, postgres
    finally:
        mysql.dispose()
        postgres.dispose()


def redis_client(settings: Settings, *, timeout_s: float = 1.0, idle_s: float = REDIS_IDLE_S) -> redis.Redis:
    """Return a client with bounded waits: Redis answers at once or counts as down. ``idle_s``: after that long an unused
    connection is closed."""
    return redis_of(
        settings.redis_url.get_secret_value(),
        socket_timeout=timeout_s,
        socket_connect_timeout=timeout_s,
        health_check_interval=30,
        # A closed connection is reopened; do not retry on timeout.
        retry=Retry(ExponentialBackoff(cap=0.2, base=0.02), 2, supported_errors=(redis.ConnectionError,)),
        idle_s=idle_s,
    )


def async_redis_client(settings: Settings, *, timeout_s: float) -> redis.asyncio.Redis:
    """Return a client for an event loop, whose owner closes it."""
    url = settings.redis_url.get_secret_value()
    return async_redis_of(url, socket_timeout=timeout_s, socket_connect_timeout=timeout_s)


@contextmanager
def mysql_errors() -> Iterator[None]:
    """Let no SQLAlchemy or PyMySQL exception past the MySQL stores."""
    yield from translated(MYSQL)


@contextmanager
def postgres_errors() -> Iterator[None]:
    """Let no SQLAlchemy or psycopg exception past the vector store."""
    yield from translated(POSTGRES)


@contextmanager
def redis_errors(at: Location = REDIS) -> Iterator[None]:
    """Let no redis-py exception past the Redis stores."""
    try:
        with edge("redis", **{"db.system.name": "redis"}):
            yield
    except redis.RedisError as error:
        raise of_redis(error, at) from error


def traced(engine: Engine, system: str) -> Engine:
    """Return the engine with a span for each statement, which names the kind of statement and never its text."""

    def begin(_connection: Any, _cursor: Any, statement: str, _parameters: Any, context: Any, _many: bool) -> None:
        kind = statement.lstrip("( \n").partition(" ")[0].upper()[:16]
        span = ExitStack()
        span.enter_context(edge(f"{system} {kind}", **{"db.system.name": system, "db.operation.name": kind}))
        setattr(context, _OPEN, span)

    def end(_connection: Any, _cursor: Any, _statement: str, _parameters: Any, context: Any, _many: bool) -> None:
        getattr(context, _OPEN).close()

    def fail(context: Any) -> None:
        span = getattr(context.execution_context, _OPEN, None)
        if span is not None:
            error = context.original_exception
            span.__exit__(type(error), error, error.__traceback__)

    event.listen(engine, "before_cursor_execute", begin)
    event.listen(engine, "after_cursor_execute", end)
    event.listen(engine, "handle_error", fail)
    return engine
