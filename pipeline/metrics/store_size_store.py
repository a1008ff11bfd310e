"""The sizes of the stores, as each of them reports its own."""

from __future__ import annotations

from typing import Any

import redis
from sqlalchemy import Connection, text

from pipeline.database.engines import redis_errors


def mysql_bytes(connection: Connection) -> int:
    """Return the bytes of all tables and indexes in the database, as InnoDB's statistics estimate them."""
    return int(connection.execute(_MYSQL).scalar_one() or 0)


def postgres_bytes(connection: Connection) -> int:
    """Return the bytes of the database on disk."""
    return int(connection.execute(_POSTGRES).scalar_one())


def redis_bytes(client: redis.Redis) -> int:
    """Return the bytes of memory that Redis uses. Raises StoreUnavailable."""
    with redis_errors():
        memory: Any = client.info("memory")
    return int(memory["used_memory"])


_MYSQL = text("SELECT SUM(data_length + index_length) FROM information_schema.tables WHERE table_schema = DATABASE()")
_POSTGRES = text("SELECT pg_database_size(current_database())")
