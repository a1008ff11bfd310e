"""Semantic recall: its agreement with exact search, and its cost, for tenants of 1, 10 and 50 per cent.

In databases of its own on the stack's servers, with synthetic vectors of the real dimension. Searches and indexes are
the product's own, on the connections of query workers.
"""

from __future__ import annotations

import statistics
import time
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

import redis
import sqlalchemy
from pydantic import SecretStr
from sqlalchemy import Engine, make_url, text

from benchmarks import table
from benchmarks.clusters import Clusters, Matrix
from benchmarks.vectors import fill
from pipeline.maintenance.build_indexes import keep_indexes
from pipeline.maintenance.migrate_schema import upgrade
from pipeline.records import Filters, Namespace, TenantId
from pipeline.resources import Resources
from pipeline.semantic.search_store import VectorSearch
from pipeline.settings import Settings, settings

_SIZES, _QUICK_SIZES = (26_000, 104_000), (26_000,)
_SHARES = {"1 %": 0.01, "10 %": 0.1, "50 %": 0.5}
_OTHERS = 39
_NAMESPACE = Namespace("kb")
_QUESTIONS, _QUICK_QUESTIONS = 200, 60
_ASKED, _JUDGED = 100, 10  # the channel's limit, and the compared part of the top
_TICKS_MS = 10.0  # the kernel's clock for processor time

# The rows that pass each filter: the n-th one has metadata of these names where n is a multiple.
_FILTERS = {"none": None, "10 %": 10, "0.1 %": 1000}


@dataclass(frozen=True, slots=True)
class _Answers:
    """The chunks that each question found, and the methods used. Times for one query; CPU of the server process."""

    ids: list[list[str]]
    methods: set[str]
    p50_ms: float
    cpu_ms: float


def run(*, seed: int, quick: bool) -> dict[str, Any]:
    """Measure both sizes, each in new databases."""
    rows: list[dict[str, Any]] = []
    builds: list[dict[str, Any]] = []
    for size in _QUICK_SIZES if quick else _SIZES:
        with databases(settings()) as moved:
            use = Resources(moved)
            upgrade(use.mysql, use.postgres, moved)
            clusters = Clusters.of(size, dimension=moved.embedding_dim, seed=seed)
            tenants = _fill(use, clusters, size)
            measured = clusters.questions(64)
            for _ in range(2):  # a tenant gets its index when it has stopped growing
                keep_indexes(use, questions=lambda *_, given=measured, **__: given)
            with use.postgres.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                connection.execute(text("VACUUM ANALYZE chunk_embeddings"))
            builds += _builds(use.postgres, size)
            questions = clusters.questions(_QUICK_QUESTIONS if quick else _QUESTIONS)
            rows += _measure(use, tenants, questions, size)
            use.close()
    return {"rows": rows, "builds": builds}


def show(results: dict[str, Any]) -> str:
    """Return the section as a table."""
    heads = ("vectors, tenant, filter", "method", "recall@10", "p50 ms", "CPU ms", "exact p50", "exact CPU")
    lines = [
        table.row(
            f"{row['vectors']:,}, {row['tenant']}, {row['filter']}",
            *itemgetter("method", "recall_at_10", "p50_ms", "cpu_ms", "exact_p50_ms", "exact_cpu_ms")(row),
        )
        for row in results["rows"]
    ]
    built = "; ".join(
        f"{index['chunks']:,} chunks {index['build_s']:.1f} s, {index['mb']:.0f} MB" for index in results["builds"]
    )
    return f"semantic recall\n{table.table(heads, lines)}\nindexes built: {built}"


def _fill(use: Resources, clusters: Clusters, size: int) -> dict[str, tuple[TenantId, int]]:
    tenants = {name: (TenantId(f"bench-{name.split()[0]}"), int(size * share)) for name, share in _SHARES.items()}
    left = size - sum(chunks for _, chunks in tenants.values())
    others = [(TenantId(f"bench-other-{number}"), left // _OTHERS) for number in range(_OTHERS)]
    for tenant_id, chunks in (*tenants.values(), *others):
        fill(
            use,
            tenant_id,
            clusters.passages(chunks),
            namespace=_NAMESPACE,
            metadata=lambda n: {f"every {step}": True for step in (10, 1000) if n % step == 0},
        )
    return tenants


def _measure(
    use: Resources, tenants: dict[str, tuple[TenantId, int]], questions: Matrix, size: int
) -> list[dict[str, Any]]:
    reader = Resources(use.settings, timeout_s=30.0, reading=True)
    exact_reader = Resources(use.settings, timeout_s=30.0, reading=True, exact_chunks=10_000_000)
    rows = []
    for name, (tenant_id, chunks) in tenants.items():
        for shown, every in _FILTERS.items():
            filters = Filters() if every is None else Filters(metadata={f"every {every}": True})
            exact = _ask(exact_reader, tenant_id, questions, filters)
            ours = _ask(reader, tenant_id, questions, filters)
            recall = statistics.mean(
                len(set(best[:_JUDGED]).intersection(ids[:_JUDGED])) / max(1, len(best[:_JUDGED]))
                for best, ids in zip(exact.ids, ours.ids, strict=True)
            )
            rows.append(
                {
                    "vectors": size,
                    "tenant": name,
                    "chunks": chunks,
                    "filter": shown,
                    "method": ", ".join(sorted(ours.methods)),
                    "recall_at_10": round(recall, 4),
                    "p50_ms": ours.p50_ms,
                    "cpu_ms": ours.cpu_ms,
                    "exact_p50_ms": exact.p50_ms,
                    "exact_cpu_ms": exact.cpu_ms,
                }
            )
    reader.close()
    exact_reader.close()
    return rows


def _ask(use: Resources, tenant_id: TenantId, questions: Matrix, filters: Filters) -> _Answers:
    search: VectorSearch = use.search_in(use.spaces.base, tenant_id)
    asked = {"namespaces": [_NAMESPACE], "filters": filters, "limit": _ASKED}
    for question in questions[:8]:
        search.nearest(question, **asked)  # type: ignore[arg-type]
    pids = [backend(engine) for engine in (use.postgres, use.postgres_indexed)]
    ids, methods, latencies_ms = [], set(), []
    before = sum(ticks(pid) for pid in pids)
    for question in questions:
        began = time.perf_counter()
        answer = search.nearest(question, **asked)  # type: ignore[arg-type]
        latencies_ms.append((time.perf_counter() - began) * 1000)
        ids.append([str(chunk_id) for chunk_id, _ in answer.hits])
        methods.add(answer.guard.method)
    cpu = (sum(ticks(pid) for pid in pids) - before) * _TICKS_MS / len(questions)
    return _Answers(ids, methods, p50_ms=round(statistics.median(latencies_ms), 2), cpu_ms=round(cpu, 2))


def _builds(postgres: Engine, size: int) -> list[dict[str, Any]]:
    statement = text(
        "SELECT chunks, build_s, pg_relation_size(to_regclass(index_name)) AS bytes FROM vector_indexes"
        " WHERE state = 'ready' ORDER BY tenant_id, first_seq"
    )
    with postgres.connect() as connection:
        return [
            {"vectors": size, "chunks": row.chunks, "build_s": round(row.build_s, 1), "mb": round(row.bytes / 2**20, 1)}
            for row in connection.execute(statement)
        ]


def backend(engine: Engine) -> int:
    """Return the process of a pool's connection."""
    with engine.connect() as connection:
        return int(connection.execute(text("SELECT pg_backend_pid()")).scalar_one())


def ticks(pid: int) -> int:
    """Return the processor time that a process has used, in hundredths of a second."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


@contextmanager
def databases(base: Settings) -> Iterator[Settings]:
    """Provide databases of their own, dropped at the end."""
    name = f"chordwise_bench_{uuid.uuid4().hex[:8]}"
    own_redis = make_url(base.redis_url.get_secret_value()).set(database="15")  # an installation has one of its own
    _empty(own_redis)
    urls = {field: make_url(getattr(base, field).get_secret_value()) for field in ("mysql_url", "postgres_url")}
    for url in urls.values():
        _outside(url, f"CREATE DATABASE {name}")
    try:
        yield base.model_copy(
            update={
                field: SecretStr(url.set(database=name).render_as_string(hide_password=False))
                for field, url in urls.items()
            }
            | {"redis_url": SecretStr(own_redis.render_as_string(hide_password=False))}
        )
    finally:
        _empty(own_redis)
        for url in urls.values():
            _outside(url, f"DROP DATABASE {name}")


def _empty(url: sqlalchemy.URL) -> None:
    with closing(redis.Redis.from_url(url.render_as_string(hide_password=False))) as client:
        client.flushdb()


def _outside(url: sqlalchemy.URL, statement: str) -> None:
    engine = sqlalchemy.create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(statement))
    engine.dispose()
