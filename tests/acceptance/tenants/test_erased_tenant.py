"""A tenant that had one of everything is erased, and nothing of it is left in any table, key or queue."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy
from sqlalchemy import Engine, text

from pipeline.resources import Resources
from pipeline.tenants.erasure_store import mysql_tables, postgres_tables
from tests.conftest import gateway, make_tenant
from tests.support.corpora.planted import Planted, audit_rows, plant

# Rows of these come with the reconciler's rounds and go again, or are there only while the installation changes its model.
_PASSING = {
    "alignment_state",
    "retired_generations",
    "ingest_turns",
    "embedding_backfill",
    "embedding_backlog",
}
_NUMBERS = ("TIME", "DATE", "INT", "FLOAT", "DOUBLE", "DECIMAL", "NUMERIC", "REAL", "NULL")  # NullType: a vector
_KEPT = {"erasures"}  # the proof itself: the tenant's id and how much went


def tables_with(engine: Engine, *needles: str) -> set[str]:
    """Every table in any column of which one of the texts stands, whether a tenant's id is in the table or not."""
    found = set()
    inspector = sqlalchemy.inspect(engine)
    quote = engine.dialect.identifier_preparer.quote
    postgres = engine.dialect.name == "postgresql"
    sought = {f"needle_{number}": f"%{needle}%" for number, needle in enumerate(needles)}
    with engine.connect() as connection:
        for table in inspector.get_table_names():
            kinds = {quote(column["name"]): str(column["type"]).upper() for column in inspector.get_columns(table)}
            texts = [name for name, kind in kinds.items() if not any(number in kind for number in _NUMBERS)]
            holds = " OR ".join(
                f"{name}::text LIKE :{needle}" if postgres else f"CONVERT({name} USING utf8mb4) LIKE :{needle}"
                for name in texts
                for needle in sought
            )
            if not holds:
                continue
            if connection.execute(text(f"SELECT 1 FROM {quote(table)} WHERE {holds} LIMIT 1"), sought).first():
                found.add(table)
    return found


def keys_with(use: Resources, *needles: str) -> Iterator[bytes]:
    """Every key of Redis in whose name or value one of the texts stands."""
    for key in use.redis.scan_iter(count=1000):
        said = key + _value(use, key)
        if any(needle.encode() in said for needle in needles):
            yield key


def _value(use: Resources, key: bytes) -> bytes:
    client: Any = use.redis
    kind = client.type(key)
    read = {
        b"string": lambda: client.get(key),
        b"list": lambda: client.lrange(key, 0, -1),
        b"set": lambda: client.smembers(key),
        b"zset": lambda: client.zrange(key, 0, -1),
        b"hash": lambda: client.hgetall(key),
        b"stream": lambda: client.xrange(key),
    }.get(kind)
    return b"" if read is None else repr(read()).encode()


@pytest.mark.filterwarnings("ignore:Did not recognize type")
class DescribeAnErasedTenant:
    def it_leaves_nothing_anywhere(self, use, operator):
        (tenant, key), (neighbour, other) = make_tenant(use), make_tenant(use)
        with gateway(key) as client, gateway(other) as beside:
            planted = plant(client, tenant, use)
            untouched = plant(beside, neighbour, use)
            audit_rows(client)
            assert_everything_is_there(use, planted)
            assert {"chunks", "audit", "payloads", "profiles"} <= tables_with(use.mysql, planted.marker)
            gone = operator.delete(f"/v1/tenants/{tenant}").raise_for_status().json()
            assert gone["remaining"] == {}
            filled = {name.removeprefix("mysql.") for name, count in gone["erased"].items() if count}
            assert {"feedback", "audit", "profiles", "entity_states", "api_sources", "webhooks"} <= filled
            time.sleep(3)  # a gateway knows a key for two seconds, and workers end what they have begun
            assert tables_with(use.mysql, tenant, planted.marker) <= _KEPT
            assert tables_with(use.postgres, tenant, planted.marker) == set()
            assert list(keys_with(use, tenant, planted.marker)) == []
            assert client.get("/v1/jobs").status_code == 401
            assert_everything_is_there(use, untouched)
            query = beside.get(f"/v1/queries/{untouched.ids['queries']}")
            assert untouched.marker in query.text


def assert_everything_is_there(use: Resources, planted: Planted) -> None:
    """Planting reached every table and Redis: else finding nothing would prove nothing."""
    with use.mysql.connect() as connection:
        tables = {*mysql_tables(connection)}
        empty = {name for name in tables if not _count(connection, f"`{name}`", planted)}
    assert empty <= _PASSING, f"planting does not reach {sorted(empty - _PASSING)}"
    with use.postgres.connect() as connection:
        reached = {name for name in postgres_tables(use.postgres) if _count(connection, f'"{name}"', planted)}
    assert {"chunk_embeddings", "document_embeddings"} <= reached
    kinds = {key.split(b":")[1] for key in keys_with(use, planted.tenant) if b":" in key}
    assert {b"query", b"trace", b"traces"} <= kinds


def _count(connection: sqlalchemy.Connection, table: str, planted: Planted) -> int:
    statement = text(f"SELECT COUNT(*) FROM {table} WHERE tenant_id = :tenant")
    return int(connection.execute(statement, {"tenant": planted.tenant}).scalar_one())
