"""Section `query`: hybrid queries through the gateway, and the two bare SQL statements in the same run."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import psycopg
import pymysql
from pgvector import HalfVector

from benchmarks import floor
from benchmarks.corpus import Text, paragraphs, questions
from benchmarks.ingest import gateway
from benchmarks.processes import timed_calls
from benchmarks.products import peers
from benchmarks.table import row, table
from pipeline.keyword.terms import Tokenizer, query_terms
from pipeline.models.make_models import make_embedder
from pipeline.records import Namespace, Scope, TenantId
from pipeline.settings import settings

_CONCURRENCY = (1, 4, 16)
_POOL, _TOP = 100, 10
_RRF_K = 60
_TENANT = "demo"
_WARM_UP = 20

_KEYWORD = (
    "SELECT chunk_id FROM chunks WHERE MATCH(terms) AGAINST(%s IN BOOLEAN MODE) AND tenant_id = %s AND namespace = %s"
    f" ORDER BY MATCH(terms) AGAINST(%s IN BOOLEAN MODE) DESC LIMIT {_POOL}"
)
_SEMANTIC = (
    "SELECT chunk_id::text FROM chunk_embeddings WHERE tenant_id = %s AND namespace = %s"
    f" ORDER BY embedding <=> %s::halfvec LIMIT {_POOL}"
)
_TEXTS = "SELECT chunk_id, text FROM chunks WHERE tenant_id = %s AND chunk_id IN %s"


def run(texts: Sequence[Text], *, namespace: str, seed: int, count: int, compared: bool = True) -> dict[str, Any]:
    """Send the same questions to the bare stores and to the product, at each concurrency, and then to the peers."""
    asked = questions(list(texts), count=count, seed=seed)
    bare, ours = Bare(asked, namespace), Product(namespace)
    results: dict[str, Any] = {"queries": count, "top_k": _TOP, "concurrency": {}}
    for many in _CONCURRENCY:
        print(f"query: {count} questions, {many} at a time", flush=True)
        results["concurrency"][str(many)] = {
            "floor": measured(bare.ask, range(count), many),
            "product": measured(ours.ask, asked, many),
        }
    results["cpu_ms_per_query"] = results["concurrency"]["1"]["product"]["cpu_ms_per_query"]
    if compared:
        results["peers"] = peers.measure(paragraphs(texts), asked, pool=_POOL, top=_TOP, concurrency=_CONCURRENCY)
    return results


class Bare:
    """Both statements concurrently, reciprocal rank fusion, the texts of the best: prepared terms and vectors."""

    def __init__(self, asked: Sequence[str], namespace: str) -> None:
        scope = Scope(tenant_id=TenantId(_TENANT), namespace=Namespace(namespace))
        tokenizer, embedder = Tokenizer(scope), make_embedder(settings())
        self._namespace, self.questions = namespace, len(asked)
        self._tokens = [" ".join(tokenizer.tokens(query_terms(question))) for question in asked]
        self._vectors = [HalfVector(vector.astype(np.float16)).to_text() for vector in embedder.embed(asked)]
        self._side = ThreadPoolExecutor(max(_CONCURRENCY))
        self._connections = threading.local()

    def ask(self, number: int) -> None:
        """Ask one question."""
        semantic = self._side.submit(self._semantic, number)
        keyword = self._keyword(number)
        totals: defaultdict[str, float] = defaultdict(float)
        for ranking in (keyword, semantic.result()):
            for position, chunk_id in enumerate(ranking, start=1):
                totals[chunk_id] += 1 / (_RRF_K + position)
        best = sorted(totals, key=lambda chunk_id: (-totals[chunk_id], chunk_id))[:_TOP]
        with self._mysql().cursor() as cursor:
            cursor.execute(_TEXTS, (_TENANT, best or [""]))
            cursor.fetchall()

    def _keyword(self, number: int) -> list[str]:
        with self._mysql().cursor() as cursor:
            cursor.execute(_KEYWORD, (self._tokens[number], _TENANT, self._namespace, self._tokens[number]))
            return [chunk_id for (chunk_id,) in cursor.fetchall()]

    def _semantic(self, number: int) -> list[str]:
        rows = self._postgres().execute(_SEMANTIC, (_TENANT, self._namespace, self._vectors[number]))
        return [chunk_id for (chunk_id,) in rows]

    def _mysql(self) -> pymysql.Connection[pymysql.cursors.Cursor]:
        if not hasattr(self._connections, "mysql"):
            self._connections.mysql = floor.mysql()
            self._connections.mysql.autocommit(True)
        connection: pymysql.Connection[pymysql.cursors.Cursor] = self._connections.mysql
        return connection

    def _postgres(self) -> psycopg.Connection[tuple[Any, ...]]:
        if not hasattr(self._connections, "postgres"):
            self._connections.postgres = floor.postgres()
            self._connections.postgres.autocommit = True
        connection: psycopg.Connection[tuple[Any, ...]] = self._connections.postgres
        return connection


class Product:
    """Queries over HTTP, each waiting for its answer. ``profile``: one of the tenant's."""

    def __init__(self, namespace: str, *, profile: str | None = None) -> None:
        self._namespace, self._profile, self._client = namespace, profile, gateway()

    def ask(self, question: str) -> None:
        """Ask one question; stop the benchmark if the answer is incomplete."""
        answer = self._client.post(
            "/v1/queries",
            json={"query_text": question, "namespaces": [self._namespace], "top_k": _TOP, "profile": self._profile},
            headers={"Prefer": "wait=10", "Cache-Control": "no-cache"},  # without the answer cache
        )
        if answer.status_code != 200:
            raise SystemExit(f"query: {answer.status_code} {answer.text[:200]}")


def measured(ask: Callable[[Any], None], asked: Sequence[Any], many: int) -> dict[str, Any]:
    """Ask every question, ``many`` at a time, after a few to warm up; return times and processor time for each."""
    for question in asked[:_WARM_UP]:
        ask(question)
    with ThreadPoolExecutor(many) as threads:
        return timed_calls(ask, asked, threads)[1]


TIMES = ("p50 ms", "p95 ms", "queries/s", "CPU ms")


def times(figures: dict[str, Any]) -> tuple[float, float, float, float]:
    """Return the cells below the heads `TIMES`."""
    return figures["p50_ms"], figures["p95_ms"], figures["queries_per_s"], cpu(figures)


def show(results: dict[str, Any]) -> str:
    """Return the section as a table, followed by the cost of a query in each process."""
    rows = [
        row(f"{name}, {many} at a time", *times(figures))
        for many, both in results["concurrency"].items()
        for name, figures in both.items()
    ]
    rows += [
        row(f"{name}, words in {where}, {many} at a time", *times(figures))
        for name, shapes in results.get("peers", {}).items()
        if "skipped" not in shapes
        for where, by_concurrency in shapes.items()
        for many, figures in by_concurrency.items()
    ]
    alone = ", ".join(f"{name} {cost:.1f}" for name, cost in results["cpu_ms_per_query"].items() if cost >= 0.05)
    return f"{table(('', *TIMES), rows)}\nCPU ms a query, one at a time: {alone}"


def cpu(figures: dict[str, Any]) -> float:
    """Return the total processor time for each query, in milliseconds."""
    return float(sum(figures["cpu_ms_per_query"].values()))
