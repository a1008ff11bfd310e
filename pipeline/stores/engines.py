"""Connections to the three servers, made once per process, and the translation of their errors into ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import redis
import sqlalchemy
from psycopg.types.string import TextLoader
from redis.backoff import ExponentialBackoff
from redis.retry import Retry
from sqlalchemy import URL, Engine, event, exc, make_url

from pipeline.core.nearest import LONGEST_SCAN
from pipeline.errors import Misconfigured, NoSuchName, PipelineError, StoreUnavailable
from pipeline.settings import Settings
from pipeline.stores.spans import traced
from pipeline.tracing import edge

# A query's few statements would otherwise travel with as many BEGINs, ROLLBACKs and pings. A connection that was closed
# meanwhile fails its first statement, and the channel is tried again on a new one.
_READING: dict[str, Any] = {
    "isolation_level": "AUTOCOMMIT",
    "skip_autocommit_rollback": True,
    "pool_reset_on_return": None,
    "pool_pre_ping": False,
}

# Which way PostgreSQL goes through the vectors is decided here and not by what it believes of their number: statements are
# planned once, for all tenants, and only through an index. Left alone, the plan of a search that was prepared while
# large tenants asked reads the whole table for small ones.
PINNED = "-c plan_cache_mode=force_generic_plan -c enable_seqscan=off"

_LOOPBACK = (None, "localhost", "127.0.0.1", "::1")

# MySQL says these when nothing is wrong but the moment: lock wait timeout, deadlock.
_TRY_AGAIN = {1205, 1213}


class Conflict(StoreUnavailable):
    """The database gave up one of two transactions that stood in each other's way; the same one may be run again."""

    code = "store_conflict"


def mysql_engine(settings: Settings, *, timeout_s: float | None = None, reading: bool = False) -> Engine:
    """A pool on the MySQL-protocol server. ``timeout_s`` bounds each read and write on the socket, because neither
    statement timeouts nor KILL stop a FULLTEXT query. ``reading``: for single statements without transactions."""
    seconds = timeout_s or settings.store_timeout_s
    url = make_url(settings.mysql_url.get_secret_value())
    engine = sqlalchemy.create_engine(
        url,
        pool_size=settings.mysql_pool_size,
        max_overflow=settings.mysql_pool_size,
        pool_timeout=seconds,
        pool_recycle=1800,
        hide_parameters=True,  # an error is logged, and what was to be written may be somebody's text
        # REPEATABLE READ deadlocks when documents are re-indexed side by side.
        **(_READING if reading else {"isolation_level": "READ COMMITTED", "pool_pre_ping": True}),
        connect_args={
            "charset": "utf8mb4",
            "connect_timeout": max(1, min(5, int(seconds))),
            "read_timeout": seconds,
            "write_timeout": seconds,
            "init_command": "SET time_zone = '+00:00'",
            **_encryption(url),
        },
    )
    return traced(engine, "mysql") if settings.otlp_endpoint else engine


def _encryption(url: URL) -> dict[str, Any]:
    """PyMySQL encrypts where the server can, and reads all of the system's certificates for every connection to find out,
    which takes longer than a query. On this machine there is nobody to hide from, unless the address asks for it."""
    local = url.host in _LOOPBACK and not any(name.startswith("ssl") for name in url.query)
    return {"ssl_disabled": True} if local else {}


def postgres_engine(
    settings: Settings, *, timeout_s: float | None = None, reading: bool = False, options: str = ""
) -> Engine:
    """A pool on PostgreSQL, for ``reading`` as above. ``timeout_s`` is the statement timeout and TCP_USER_TIMEOUT, by
    which a dead peer is noticed. ``options``: more of the server's settings, as ``-c name=value``."""
    seconds = timeout_s or settings.store_timeout_s
    milliseconds = int(seconds * 1000)
    if reading:
        options = f"{PINNED} {options}"
    engine = sqlalchemy.create_engine(
        settings.postgres_url.get_secret_value(),
        pool_size=settings.postgres_pool_size,
        max_overflow=settings.postgres_pool_size,
        pool_timeout=seconds,
        pool_recycle=1800,
        hide_parameters=True,  # an error is logged, and what was to be written may be somebody's text
        **(_READING if reading else {"pool_pre_ping": True}),
        connect_args={
            "connect_timeout": max(2, min(5, int(seconds))),  # libpq takes nothing below 2
            "options": f"-c statement_timeout={milliseconds} -c jit=off -c TimeZone=UTC {options}".rstrip(),
            "tcp_user_timeout": milliseconds,
        },
    )
    event.listen(engine, "connect", _ids_as_text)
    return traced(engine, "postgresql") if settings.otlp_endpoint else engine


def _ids_as_text(connection: psycopg.Connection[Any], _: object) -> None:
    """Ids are texts here; nothing is to make an object of each on the way."""
    connection.adapters.register_loader("uuid", TextLoader)


def graph_engine(settings: Settings, *, timeout_s: float | None = None) -> Engine:
    """A pool on PostgreSQL for searches through HNSW graphs alone: sorting is off, so that the graph is the only plan.

    The scan goes on until its statement has enough; its bound is in the statement, where it can be seen to be reached.
    """
    options = (
        f"-c enable_sort=off -c hnsw.iterative_scan=relaxed_order -c hnsw.ef_search={settings.semantic_hnsw_ef_search}"
        f" -c hnsw.max_scan_tuples={10 * LONGEST_SCAN} -c hnsw.scan_mem_multiplier=16"
    )
    return postgres_engine(settings, timeout_s=timeout_s, reading=True, options=options)


def redis_client(settings: Settings, *, timeout_s: float = 1.0) -> redis.Redis:
    """A client with bounded waits: Redis answers at once or counts as down."""
    return redis.Redis.from_url(
        settings.redis_url.get_secret_value(),
        socket_timeout=timeout_s,
        socket_connect_timeout=timeout_s,
        health_check_interval=30,
        # A connection that was closed meanwhile is opened again; a Redis that is silent is not asked three times.
        retry=Retry(ExponentialBackoff(cap=0.2, base=0.02), 2, supported_errors=(redis.ConnectionError,)),
    )


@contextmanager
def mysql_errors() -> Iterator[None]:
    """Let no SQLAlchemy or PyMySQL exception past the MySQL stores."""
    yield from _translated("MySQL")


@contextmanager
def postgres_errors() -> Iterator[None]:
    """Let no SQLAlchemy or psycopg exception past the vector store."""
    yield from _translated("PostgreSQL")


@contextmanager
def redis_errors() -> Iterator[None]:
    """Let no redis-py exception past the Redis stores."""
    try:
        with edge("redis", **{"db.system.name": "redis"}):
            yield
    except redis.RedisError as error:
        raise StoreUnavailable(f"Redis: {type(error).__name__}") from error


def _translated(server: str) -> Iterator[None]:
    try:
        yield
    except PipelineError:
        raise
    except (exc.OperationalError, exc.InterfaceError, exc.InternalError) as error:
        raise _from_driver(server, error) from error
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:  # of COPY, on psycopg's own cursor
        raise StoreUnavailable(f"{server}: {type(error).__name__}") from error
    except exc.TimeoutError as error:
        raise StoreUnavailable(f"{server}: no free connection in the pool") from error
    except exc.ProgrammingError as error:
        raise Misconfigured(f"{server} refused a statement ({_number(error)}): is the schema migrated?") from error


# "Illegal mix of collations": MySQL cannot write a literal in the characters of the column it is compared with.
_INCOMPARABLE = 1267


def _from_driver(server: str, error: exc.DBAPIError) -> PipelineError:
    if server == "MySQL" and _number(error) == _INCOMPARABLE:
        return NoSuchName("A name or id in the request has characters that no name or id of its kind has.")
    if _number(error) in _TRY_AGAIN or getattr(error.orig, "sqlstate", None) in {"40001", "40P01"}:
        return Conflict(f"{server}: two transactions stood in each other's way")
    return StoreUnavailable(f"{server}: {type(error.orig).__name__} {_number(error) or ''}".rstrip())


def _number(error: exc.DBAPIError) -> int | None:
    arguments = getattr(error.orig, "args", ())
    return arguments[0] if arguments and isinstance(arguments[0], int) else None
