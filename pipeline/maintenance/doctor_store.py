"""Read the stores' own configuration for `maintenance.doctor`. Writes nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import redis
from sqlalchemy import Connection, Engine, text

from pipeline.database.engines import mysql_errors, postgres_errors, redis_errors
from pipeline.embedding import space_store
from pipeline.errors import Misconfigured
from pipeline.maintenance.doctor import RedisFacts, VectorFacts
from pipeline.maintenance.migrate_schema import OPERATOR_CLASSES, check
from pipeline.metrics.meter_store import read_totals
from pipeline.settings import Settings

_MYSQL_NOW = text("SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) / 1000000.0")
_POSTGRES_NOW = text("SELECT EXTRACT(EPOCH FROM clock_timestamp())")
_TOKEN_SIZES = text("SELECT @@innodb_ft_min_token_size, @@innodb_ft_max_token_size")


def skew(ask: Callable[[], float], *, clock: Callable[[], float] = time.time) -> float:
    """Return how many seconds the clock of ``ask`` is ahead at least (negative: behind); 0 within the call's time."""
    before = clock()
    theirs = ask()
    return distance(theirs, before, clock())


def distance(moment: float, earliest: float, latest: float) -> float:
    """Return how far ``moment`` lies outside of a span of time; 0 within."""
    return min(0.0, moment - earliest) or max(0.0, moment - latest)


def mysql_skew(mysql: Engine, *, clock: Callable[[], float] = time.time) -> float:
    """Return the skew of MySQL's clock; see `skew`. Raises StoreUnavailable."""
    with mysql_errors(), mysql.connect() as connection:
        return skew(lambda: _number(connection, _MYSQL_NOW), clock=clock)


def postgres_skew(postgres: Engine, *, clock: Callable[[], float] = time.time) -> float:
    """Return the skew of PostgreSQL's clock; see `skew`. Raises StoreUnavailable."""
    with postgres_errors(), postgres.connect() as connection:
        return skew(lambda: _number(connection, _POSTGRES_NOW), clock=clock)


def redis_skew(client: redis.Redis, *, clock: Callable[[], float] = time.time) -> float:
    """Return the skew of Redis' clock; see `skew`. Raises StoreUnavailable."""

    def ask() -> float:
        seconds, microseconds = client.time()  # type: ignore[misc]
        return float(seconds + microseconds / 1e6)

    with redis_errors():
        client.ping()
        return skew(ask, clock=clock)


def _number(connection: Connection, statement: Any) -> float:
    return float(connection.execute(statement).scalar_one())


def token_sizes(mysql: Engine) -> tuple[int, int]:
    """Return the shortest and longest term that FULLTEXT indexes. Raises StoreUnavailable."""
    with mysql_errors(), mysql.connect() as connection:
        shortest, longest = connection.execute(_TOKEN_SIZES).one()
    return int(shortest), int(longest)


def schema_problem(mysql: Engine, postgres: Engine, use: Settings) -> str | None:
    """Return the problem that `migrate check` would report, or None. Raises StoreUnavailable."""
    try:
        check(mysql, postgres, use)
    except Misconfigured as error:
        return str(error)
    return None


def redis_facts(client: redis.Redis) -> RedisFacts | None:
    """Return a Redis's behaviour when full, read by INFO; None if not allowed. Raises StoreUnavailable."""
    with redis_errors():
        try:
            memory: dict[str, Any] = client.info("memory")  # type: ignore[assignment]
        except redis.exceptions.NoPermissionError:
            return None
    return RedisFacts(
        policy=str(memory.get("maxmemory_policy", "unknown")),
        maxmemory=int(memory.get("maxmemory", 0)),
        used_memory=int(memory.get("used_memory", 0)),
    )


def vector_facts(mysql: Engine, postgres: Engine, use: Settings) -> list[VectorFacts]:
    """Return the facts of each table of vectors that searches or writers use. Raises StoreUnavailable, Misconfigured."""
    with mysql_errors(), mysql.connect() as connection:
        live = space_store.live(connection, space_store.base_space(use))
    with postgres_errors(), postgres.connect() as connection:
        shapes = [(space, space_store.table_shape(connection, space)) for space in live.every]
    return [
        VectorFacts(
            table=space.table,
            dimension=None if shape is None else shape.dimension,
            operator_class=None if shape is None else shape.operator_class,
            indexes=() if shape is None else shape.indexes,
            wanted_dimension=space.dimension,
            wanted_operator_class=OPERATOR_CLASSES[use.pgvector_distance],
        )
        for space, shape in shapes
    ]


def longest_task_s(client: redis.Redis) -> float:
    """Return the upper bucket bound of the longest task in the metrics, 0 without any. Raises StoreUnavailable."""
    bounds = [
        float(part)
        for (name, part, _), count in read_totals(client).items()
        if name == "chordwise_task_seconds" and count and part not in ("sum", "+Inf", "")
    ]
    return max(bounds, default=0.0)
