"""The raw floor of ingestion: the same rows into both stores by the best plain code, and nothing else.

Multi-row INSERTs into a copy of `chunks` with its indexes, FULLTEXT included, and binary COPY into a copy of
`chunk_embeddings` with its btrees; concurrently, one thread for each connection. It excludes parsing, embedding and
making the rows, the ledger, the generations and the statistics: no product can be faster than this.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import psycopg
import pymysql
from pgvector import HalfVector
from pgvector.psycopg import register_vector
from psycopg.types.json import Jsonb
from sqlalchemy import make_url

from benchmarks.processes import cpu_seconds, own_cpu_seconds, used
from benchmarks.rows import Prepared
from pipeline.settings import settings

_ROWS_PER_COMMIT = 500
_MYSQL_COLUMNS = (
    "tenant_id, namespace, document_id, generation, ordinal, chunk_id, text, heading_path, page, start_offset,"
    " end_offset, token_count, content_hash, terms, term_count, created_at"
)
_POSTGRES_COLUMNS = (
    "tenant_id, chunk_id, namespace, document_id, generation, embedding, model, content_hash, tags, metadata"
)
_POSTGRES_TYPES = ["text", "uuid", "text", "text", "int4", "halfvec", "text", "bytea", "text[]", "jsonb"]


@dataclass(frozen=True, slots=True)
class Floor:
    """The speed of the plain code with this number of connections to MySQL."""

    mysql_connections: int
    wall_s: float
    mysql_s: float
    postgres_s: float
    chunks_per_s: float
    client_cpu_ms_per_chunk: float
    server_cpu_s: dict[str, float]


def measure(prepared: Prepared) -> list[dict[str, Any]]:
    """Return the floor with one and with two connections to MySQL; compare with the faster one."""
    mysql_rows, postgres_rows = _mysql_rows(prepared), _postgres_rows(prepared)
    return [asdict(_once(mysql_rows, postgres_rows, connections=connections)) for connections in (1, 2)]


def _once(mysql_rows: list[tuple[Any, ...]], postgres_rows: list[tuple[Any, ...]], *, connections: int) -> Floor:
    _make_tables()
    share = -(-len(mysql_rows) // connections)
    parts = [mysql_rows[start : start + share] for start in range(0, len(mysql_rows), share)]
    servers, own, began = cpu_seconds(), own_cpu_seconds(), time.perf_counter()
    with ThreadPoolExecutor(len(parts) + 1) as threads:
        waiting = [threads.submit(_into_mysql, part) for part in parts]
        copying = threads.submit(_into_postgres, postgres_rows)
        mysql_s = max(future.result() for future in waiting)
        postgres_s = copying.result()
    wall_s = time.perf_counter() - began
    cpu = own_cpu_seconds() - own
    spent = used(servers, cpu_seconds())
    _drop_tables()
    return Floor(
        mysql_connections=connections,
        wall_s=round(wall_s, 3),
        mysql_s=round(mysql_s, 3),
        postgres_s=round(postgres_s, 3),
        chunks_per_s=round(len(mysql_rows) / wall_s, 1),
        client_cpu_ms_per_chunk=round(cpu * 1000 / len(mysql_rows), 4),
        server_cpu_s={name: spent[name] for name in ("mariadb", "postgres") if name in spent},
    )


def _into_mysql(rows: Sequence[tuple[Any, ...]]) -> float:
    began = time.perf_counter()
    connection = mysql()
    marks = ", ".join(["%s"] * 16)
    with connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        for start in range(0, len(rows), _ROWS_PER_COMMIT):
            cursor.executemany(
                f"INSERT INTO bench_chunks ({_MYSQL_COLUMNS}) VALUES ({marks})", rows[start : start + _ROWS_PER_COMMIT]
            )
            connection.commit()
    return time.perf_counter() - began


def _into_postgres(rows: Sequence[tuple[Any, ...]]) -> float:
    began = time.perf_counter()
    with postgres() as connection:
        register_vector(connection)
        with (
            connection.cursor() as cursor,
            cursor.copy(f"COPY bench_embeddings ({_POSTGRES_COLUMNS}) FROM STDIN (FORMAT BINARY)") as copy,
        ):
            copy.set_types(_POSTGRES_TYPES)
            for row in rows:
                copy.write_row(row)
    return time.perf_counter() - began


def _mysql_rows(prepared: Prepared) -> list[tuple[Any, ...]]:
    moment = datetime.now(UTC).replace(tzinfo=None)
    return [
        (
            chunk.generation.scope.tenant_id,
            chunk.generation.scope.namespace,
            chunk.generation.document_id,
            chunk.generation.number,
            chunk.ordinal,
            chunk.chunk_id,
            chunk.passage.text,
            json.dumps(list(chunk.passage.heading_path)),
            chunk.passage.page,
            chunk.passage.start,
            chunk.passage.end,
            chunk.passage.token_count,
            chunk.content_hash,
            " ".join(chunk.terms),
            len(chunk.terms),
            moment,
        )
        for chunk in prepared.chunks
    ]


def _postgres_rows(prepared: Prepared) -> list[tuple[Any, ...]]:
    metadata = Jsonb({})
    return [
        (
            chunk.generation.scope.tenant_id,
            uuid.UUID(chunk.chunk_id),
            chunk.generation.scope.namespace,
            chunk.generation.document_id,
            chunk.generation.number,
            HalfVector(vector.astype(np.float16)),
            settings().embedding_model,
            chunk.content_hash,
            ["bench"],
            metadata,
        )
        for chunk, vector in zip(prepared.chunks, prepared.vectors, strict=True)
    ]


def _make_tables() -> None:
    _drop_tables()
    with mysql() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE bench_chunks LIKE chunks")
    with postgres() as connection:
        connection.execute("CREATE TABLE bench_embeddings (LIKE chunk_embeddings INCLUDING ALL)")


def _drop_tables() -> None:
    with mysql() as connection, connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS bench_chunks")
    with postgres() as connection:
        connection.execute("DROP TABLE IF EXISTS bench_embeddings")


def mysql() -> pymysql.Connection[pymysql.cursors.Cursor]:
    """Return a bare connection to the system of record."""
    url = make_url(settings().mysql_url.get_secret_value())
    return pymysql.connect(
        host=url.host or "127.0.0.1",
        port=url.port or 3306,
        user=url.username,
        password=str(url.password or ""),
        database=url.database,
        charset="utf8mb4",
    )


def postgres() -> psycopg.Connection[tuple[Any, ...]]:
    """Return a bare connection to the vector store."""
    url = make_url(settings().postgres_url.get_secret_value())
    return psycopg.connect(url.set(drivername="postgresql").render_as_string(hide_password=False))
