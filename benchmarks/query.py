"""Section `query`: hybrid queries through the gateway, and the two bare SQL statements in the same run."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import psycopg
import pymysql
from pgvector import HalfVector

from benchmarks import floor, peers
from benchmarks.corpus import Text, questions
from benchmarks.ingest import gateway
from benchmarks.processes import cpu_seconds, own_cpu_seconds, used
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
    found: dict[str, Any] = {"queries": count, "top_k": _TOP, "concurrency": {}}
    for many in _CONCURRENCY:
        print(f"query: {count} questions, {many} at a time", flush=True)
        found["concurrency"][str(many)] = {
            "floor": measured(bare.ask, range(count), many),
            "product": measured(ours.ask, asked, many),
        }
    found["cpu_ms_per_query"] = found["concurrency"]["1"]["product"]["cpu_ms_per_query"]
    if compared:
        chunks = [paragraph for text in texts for paragraph in text.text.split("\n\n")]
        found["peers"] = peers.measure(chunks, asked, pool=_POOL, top=_TOP, concurrency=_CONCURRENCY)
    return found


class Bare:
    """Both statements concurrently, reciprocal rank fusion, the texts of the best: prepared terms and vectors."""

    def __init__(self, asked: Sequence[str], namespace: str) -> None:
        scope = Scope(tenant_id=TenantId(_TENANT), namespace=Namespace(namespace))
        tokenizer, embedder = Tokenizer(scope), make_embedder(settings())
        self._namespace = namespace
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
            for place, chunk_id in enumerate(ranking, start=1):
                totals[chunk_id] += 1 / (_RRF_K + place)
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
        found: pymysql.Connection[pymysql.cursors.Cursor] = self._connections.mysql
        return found

    def _postgres(self) -> psycopg.Connection[tuple[Any, ...]]:
        if not hasattr(self._connections, "postgres"):
            self._connections.postgres = floor.postgres()
            self._connections.postgres.autocommit = True
        found: psycopg.Connection[tuple[Any, ...]] = self._connections.postgres
        return found


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


def measured(ask: Callable[[Any], None], questions_: Sequence[Any], many: int) -> dict[str, Any]:
    """Ask every question, ``many`` at a time, after a few to warm up; return times and processor time for each."""
    for question in questions_[:_WARM_UP]:
        ask(question)
    taken: list[float] = []

    def timed(question: Any) -> None:
        began = time.perf_counter()
        ask(question)
        taken.append(time.perf_counter() - began)

    before, own, began = cpu_seconds(), own_cpu_seconds(), time.perf_counter()
    with ThreadPoolExecutor(many) as threads:
        list(threads.map(timed, questions_))
    wall_s = time.perf_counter() - began
    spent = used(before, cpu_seconds()) | {"client": own_cpu_seconds() - own}
    per_query = 1000 / len(questions_)
    return {
        "p50_ms": round(float(np.percentile(taken, 50)) * 1000, 2),
        "p95_ms": round(float(np.percentile(taken, 95)) * 1000, 2),
        "queries_per_s": round(len(questions_) / wall_s, 1),
        "cpu_ms_per_query": {name: round(seconds * per_query, 3) for name, seconds in sorted(spent.items())},
    }


def show(found: dict[str, Any]) -> str:
    """Return the section as a table, followed by the cost of a query in each process."""
    rows = [
        row(f"{name}, {many} at a time", each["p50_ms"], each["p95_ms"], each["queries_per_s"], cpu(each))
        for many, both in found["concurrency"].items()
        for name, each in both.items()
    ]
    rows += [
        row(
            f"{name}, words in {where}, {many} at a time",
            each["p50_ms"],
            each["p95_ms"],
            each["queries_per_s"],
            cpu(each),
        )
        for name, shapes in found.get("peers", {}).items()
        if "skipped" not in shapes
        for where, by_concurrency in shapes.items()
        for many, each in by_concurrency.items()
    ]
    alone = ", ".join(f"{name} {cost:.1f}" for name, cost in found["cpu_ms_per_query"].items() if cost >= 0.05)
    return f"{table(('', 'p50 ms', 'p95 ms', 'queries/s', 'CPU ms'), rows)}\nCPU ms a query, one at a time: {alone}"


def cpu(each: dict[str, Any]) -> float:
    """Return the total processor time for each query, in milliseconds."""
    return float(sum(each["cpu_ms_per_query"].values()))
