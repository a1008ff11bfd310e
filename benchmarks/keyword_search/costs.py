"""Section `keyword`: the cost of a keyword search in MariaDB and this process, by design, size of the table and of the
tenant.

Processor time is that of the connection's own thread in the server, so other clients of it do not disturb. Needs a
database user that may create databases beside the main one, as the local stack's may.
"""

from __future__ import annotations

import statistics
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pymysql
from pydantic import SecretStr
from sqlalchemy import Engine, make_url

from benchmarks import floor
from benchmarks.keyword_search import synthetic_rows as keyword_rows
from benchmarks.keyword_search.designs import Design, FullText, Local, Packed, Postings, exact, make_tables
from benchmarks.keyword_search.synthetic_rows import Tenant, chunk_id, frequencies
from benchmarks.table import row, table
from pipeline.database.engines import mysql_engine
from pipeline.maintenance.migrate_schema import upgrade_mysql
from pipeline.settings import settings

_SIZES, _QUICK_SIZES = (26_000, 200_000), (3_000, 26_000)
_QUERIES, _QUICK_QUERIES = 100, 30
_COMPARED = 20  # of the questions, with exact BM25
_TOP = 10
_ADDED = 2_048  # chunks
_WARM_UP = 10
_STATEMENT_S = 600.0  # making a FULLTEXT index of 200,000 chunks

Cursor = pymysql.cursors.Cursor


def run(*, quick: bool) -> dict[str, Any]:
    """Measure each size in a database of its own, and drop it afterwards."""
    results: dict[str, Any] = {}
    for size in _QUICK_SIZES if quick else _SIZES:
        print(f"keyword: {size:,} chunks", flush=True)
        with database() as engine, closing(engine.raw_connection()) as borrowed:
            connection = borrowed.driver_connection
            assert isinstance(connection, pymysql.Connection)
            with connection.cursor() as cursor:
                results[str(size)] = _measured(cursor, engine, size, _QUICK_QUERIES if quick else _QUERIES)
    return results


def _measured(cursor: Cursor, engine: Engine, size: int, queries: int) -> dict[str, Any]:
    every = keyword_rows.tenants(size)
    asking = {"50 %": every[0], "1 %": every[1]}
    # COPY also drops the hidden column that FULLTEXT leaves behind: rows loaded under it would never be found.
    cursor.execute("ALTER TABLE chunks DROP KEY chunks_terms, ALGORITHM=COPY")
    for tenant in every:
        keyword_rows.load(cursor, tenant)
        cursor.connection.commit()
    cursor.execute("ALTER TABLE chunks ADD FULLTEXT KEY chunks_terms (terms)")
    make_tables(cursor, list(asking.values()))
    cursor.connection.commit()
    results: dict[str, Any] = {}
    local = Local(engine)
    designs: list[Design] = [FullText(engine), Postings(), Packed()]
    for design in designs:
        for tenant in asking.values():
            design.load(cursor, tenant)
            cursor.connection.commit()
        cursor.execute("ANALYZE TABLE chunks, documents, generations, bench_frequencies, bench_postings, bench_packed")
        cursor.fetchall()
    before = _server_cpu_ms(cursor)
    loading = local.load() | {"load_server_ms": round(_server_cpu_ms(cursor) - before, 1)}
    for design in (*designs, local):
        results[design.name] = {
            name: _searches(cursor, engine, design, tenant, queries) for name, tenant in asking.items()
        }
    results[Local.name]["loading"] = loading
    indexed = sum(tenant.chunks for tenant in asking.values())
    files = {FullText.name: "FTS_*.ibd", Postings.name: "bench_postings.ibd", Packed.name: "bench_packed.ibd"}
    rows_alone = _rows_alone(cursor, every[0])
    for design in designs:
        chunks = size if design.name == FullText.name else indexed
        results[design.name]["disk_kb_per_chunk"] = round(_kilobytes(cursor, files[design.name]) / chunks, 2)
        inserted = _insertion(cursor, design, size)
        if design.name == FullText.name:
            inserted = {name: round(cost - rows_alone[name], 3) for name, cost in inserted.items()}
        results[design.name] |= inserted
    return results


def _searches(cursor: Cursor, engine: Engine, design: Design, tenant: Tenant, count: int) -> dict[str, Any]:
    questions, frequency = tenant.questions(count), frequencies(tenant)
    server = _Thread(engine, cursor)
    in_server, in_process, shares = [], [], []
    for number, words in enumerate([*questions[:_WARM_UP], *questions]):
        before, own = server.cpu_ms(), time.process_time()
        hits = design.search(cursor, tenant, words)
        own_ms, server_ms = (time.process_time() - own) * 1000, server.cpu_ms() - before
        if number >= _WARM_UP:
            in_server.append(server_ms)
            in_process.append(own_ms)
        if number < _COMPARED:
            best = {chunk_id(tenant, chunk) for chunk in exact(tenant, words, frequency, _TOP)}
            shares.append(len(best & set(hits[:_TOP])) / len(best))
    return {
        "chunks": tenant.chunks,
        "server_ms": round(statistics.mean(in_server), 2),
        "process_ms": round(statistics.mean(in_process), 2),
        "server_p50_ms": round(statistics.median(in_server), 2),
        "process_p50_ms": round(statistics.median(in_process), 2),
        "top_10_of_exact_bm25": round(statistics.mean(shares), 3),
    }


def _insertion(cursor: Cursor, design: Design, size: int) -> dict[str, float]:
    """Return the cost of more chunks, beside their rows."""
    first = size // 2
    tenant = Tenant(keyword_rows.tenants(size)[0].tenant_id, first + _ADDED, 1)
    return _costs_of(cursor, lambda: design.add(cursor, tenant, first, tenant.chunks))


def _rows_alone(cursor: Cursor, tenant: Tenant) -> dict[str, float]:
    """Return the cost of the same rows without a FULLTEXT index."""
    cursor.execute("CREATE TABLE bench_chunks LIKE chunks")
    cursor.execute("ALTER TABLE bench_chunks DROP KEY chunks_terms, ALGORITHM=COPY")
    more = Tenant(tenant.tenant_id, min(tenant.chunks, _ADDED), 1)
    return _costs_of(cursor, lambda: keyword_rows.write(cursor, more, 0, more.chunks, commit=256, table="bench_chunks"))


def _costs_of(cursor: Cursor, work: Callable[[], None]) -> dict[str, float]:
    """Return the processor time of the whole server, since FULLTEXT writes its index in threads of its own."""
    server, own = _server_cpu_ms(cursor), time.process_time()
    work()
    cursor.connection.commit()
    return {
        "insert_server_ms_per_chunk": round((_server_cpu_ms(cursor) - server) / _ADDED, 3),
        "insert_process_ms_per_chunk": round((time.process_time() - own) * 1000 / _ADDED, 3),
    }


def show(results: dict[str, Any]) -> str:
    """Return the section as three tables: searching, keeping the index, and building that of a host."""
    searching = [
        row(f"{int(size):,} chunks, tenant of {name}: {design}", *_costs(figures[name]))
        for size, designs in results.items()
        for name in ("1 %", "50 %")
        for design, figures in designs.items()
    ]
    keeping = [
        row(
            f"{int(size):,} chunks: {design}",
            figures["insert_server_ms_per_chunk"],
            figures["insert_process_ms_per_chunk"],
            figures["disk_kb_per_chunk"],
        )
        for size, designs in results.items()
        for design, figures in designs.items()
        if design != Local.name
    ]
    loading = [
        row(f"{int(size):,} chunks", *designs[Local.name]["loading"].values()) for size, designs in results.items()
    ]
    heads = ("CPU ms a query (mean; p50 of both)", "MariaDB", "process", "p50", "top 10")
    keeping_table = table(("CPU ms a chunk", "MariaDB", "process", "disk KB"), keeping)
    loading_table = table(("CPU ms to build the indexes of a host", "process", "MB", "MariaDB"), loading)
    return f"{table(heads, searching)}\n\n{keeping_table}\n\n{loading_table}"


def _costs(figures: dict[str, float]) -> tuple[float, ...]:
    middle = figures["server_p50_ms"] + figures["process_p50_ms"]
    return figures["server_ms"], figures["process_ms"], middle, figures["top_10_of_exact_bm25"]


class _Thread:
    """The server's threads that work for this process; thread ids are those of the operating system."""

    def __init__(self, engine: Engine, cursor: Cursor) -> None:
        with engine.connect():  # so that the pool has opened the connections it will use
            cursor.execute("SELECT tid FROM information_schema.processlist WHERE db = DATABASE()")
        self._paths = [Path(f"/proc/{tid}/schedstat") for (tid,) in cursor.fetchall()]

    def cpu_ms(self) -> float:
        """Return the processor time so far."""
        return sum(int(path.read_text().split()[0]) for path in self._paths) / 1e6


def _server_cpu_ms(cursor: Cursor) -> float:
    cursor.execute("SELECT tid FROM information_schema.processlist WHERE id = CONNECTION_ID()")
    (tid,) = cursor.fetchone() or (0,)
    return sum(int(stat.read_text().split()[0]) for stat in Path(f"/proc/{tid}/task").glob("*/schedstat")) / 1e6


def _kilobytes(cursor: Cursor, pattern: str) -> float:
    """Return the size of a table's files, or 0 if this process may not read it."""
    cursor.execute("SELECT @@datadir, DATABASE()")
    folder, database = cursor.fetchone() or ("", "")
    try:
        return sum(file.stat().st_size for file in (Path(folder) / database).glob(pattern)) / 1000
    except OSError:
        return 0.0


@contextmanager
def database() -> Iterator[Engine]:
    """Create an empty database beside the main one, with the product's tables."""
    name = f"chordwise_bench_{uuid.uuid4().hex[:12]}"
    use = settings()
    url = make_url(use.mysql_url.get_secret_value()).set(database=name)
    with closing(floor.mysql()) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name}")
        moved = use.model_copy(update={"mysql_url": SecretStr(url.render_as_string(hide_password=False))})
        engine = mysql_engine(moved, timeout_s=_STATEMENT_S, reading=True)
        try:
            upgrade_mysql(engine, moved)
            yield engine
        finally:
            engine.dispose()
            cursor.execute(f"DROP DATABASE {name}")
