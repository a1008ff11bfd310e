"""The raw floor of ingestion: the same rows into both stores by the best plain code, and nothing else.

Multi-row INSERTs into a copy of `chunks` with its indexes, FULLTEXT included, and binary COPY into a copy of
`chunk_embeddings` with its btrees; concurrently, one thread for each connection. It excludes parsing, embedding and
making the rows, the ledger, the generations and the statistics: no product can be faster than this.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import psycopg
import pymysql
from numpy.typing import NDArray
from pgvector import HalfVector
from pgvector.psycopg import register_vector
from psycopg.types.json import Jsonb
from sqlalchemy import make_url

from benchmarks.corpus import MAX_TOKENS, Text
from benchmarks.processes import cpu_seconds, used
from pipeline.documents.cut_document import assembled, cut_document
from pipeline.keyword.terms import Tokenizer
from pipeline.models.make_models import make_embedder
from pipeline.parsing.formats import parse
from pipeline.records import Chunk, Chunking, DocumentId, Generation, Namespace, Scope, TenantId
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
class Prepared:
    """Chunks with their vectors, and the cost of making them on one processor, in milliseconds a chunk."""

    chunks: list[Chunk]
    vectors: NDArray[np.float32]
    parse_ms: float
    embed_ms: float


def prepare(texts: Sequence[Text], *, tenant_id: str, namespace: str) -> Prepared:
    """Parse, cut, analyse and embed everything once, in this process."""
    scope = Scope(tenant_id=TenantId(tenant_id), namespace=Namespace(namespace))
    tokenizer, chunking = Tokenizer(scope), Chunking(max_tokens=MAX_TOKENS)
    began = time.process_time()
    chunks: list[Chunk] = []
    for text in texts:
        generation = Generation(scope=scope, document_id=DocumentId(text.document_id), number=1)
        parsed = parse(text.text.encode(), media_type="text/plain", filename=None)
        cut = cut_document(parsed, title=text.title, chunking=chunking, tokenizer=tokenizer, most=1_000_000)
        chunks += assembled(cut, generation).chunks
    parse_s = time.process_time() - began
    embedder = make_embedder(settings())
    embedder.embed(["warm up"])
    began = time.process_time()
    vectors = embedder.embed([chunk.embedding_text for chunk in chunks])
    embed_s = time.process_time() - began
    embedder.close()
    per_ms = 1000 / len(chunks)
    return Prepared(chunks=chunks, vectors=vectors, parse_ms=parse_s * per_ms, embed_ms=embed_s * per_ms)


def measure(prepared: Prepared) -> list[dict[str, Any]]:
    """Return the floor with one and with two connections to MySQL; compare with the faster one."""
    mysql_rows, postgres_rows = _mysql_rows(prepared), _postgres_rows(prepared)
    return [_once(mysql_rows, postgres_rows, connections=connections) for connections in (1, 2)]


def _once(
    mysql_rows: list[tuple[Any, ...]], postgres_rows: list[tuple[Any, ...]], *, connections: int
) -> dict[str, Any]:
    share = -(-len(mysql_rows) // connections)
    parts = [mysql_rows[start : start + share] for start in range(0, len(mysql_rows), share)]
    with _empty_tables(), ThreadPoolExecutor(len(parts) + 1) as threads:
        servers, own, began = cpu_seconds(), time.process_time(), time.perf_counter()
        inserts = [threads.submit(_into_mysql, part) for part in parts]
        copying = threads.submit(_into_postgres, postgres_rows)
        mysql_s = max(future.result() for future in inserts)
        postgres_s = copying.result()
        wall_s, own_s = time.perf_counter() - began, time.process_time() - own
        server_s = used(servers, cpu_seconds())
    return {
        "mysql_connections": connections,
        "wall_s": round(wall_s, 3),
        "mysql_s": round(mysql_s, 3),
        "postgres_s": round(postgres_s, 3),
        "chunks_per_s": round(len(mysql_rows) / wall_s, 1),
        "client_cpu_ms_per_chunk": round(own_s * 1000 / len(mysql_rows), 4),
        "server_cpu_s": {name: server_s[name] for name in ("mariadb", "postgres") if name in server_s},
    }


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


@contextmanager
def _empty_tables() -> Iterator[None]:
    """Create empty copies of both tables, and drop them at the end."""
    drop_mysql, drop_postgres = (f"DROP TABLE IF EXISTS {name}" for name in ("bench_chunks", "bench_embeddings"))
    with closing(mysql()) as connection, connection.cursor() as cursor, postgres() as vectors:
        cursor.execute(drop_mysql)
        cursor.execute("CREATE TABLE bench_chunks LIKE chunks")
        vectors.execute(drop_postgres)
        vectors.execute("CREATE TABLE bench_embeddings (LIKE chunk_embeddings INCLUDING ALL)")
        vectors.commit()
        yield
        cursor.execute(drop_mysql)
        vectors.execute(drop_postgres)


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
