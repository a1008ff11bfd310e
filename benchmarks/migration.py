"""A model migration beside queries: its speed, and its effect on query times."""

from __future__ import annotations

import statistics
import time
from typing import Any

import httpx

from benchmarks import corpus, table
from benchmarks.corpus import Text
from benchmarks.ingest import gateway, operator

_MIGRATIONS = "/v1/admin/embedding-migrations"
_ALONE_S = 10.0
_LONGEST_S = 600.0
_TARGET = {"provider": "local", "model": "wordllama-l2-supercat", "dimension": 128}


def run(texts: list[Text], *, namespace: str, seed: int) -> dict[str, Any]:
    """Send one query after the other, alone for some seconds, then until the migration is ready; then abort the
    migration. Raises for a failed or degraded query."""
    asked = corpus.questions(texts, count=400, seed=seed)
    with gateway() as client, operator() as migrating:
        _ask(client, namespace, asked, until=time.monotonic() + _ALONE_S / 2)
        alone = _ask(client, namespace, asked, until=time.monotonic() + _ALONE_S)
        begun = migrating.post(_MIGRATIONS, json=_TARGET).raise_for_status().json()
        started, looked = time.monotonic(), 0.0
        beside: list[float] = []
        state: dict[str, Any] = begun
        filled_s = None
        while state["state"] != "ready":
            assert time.monotonic() - started < _LONGEST_S, state
            beside += _ask(client, namespace, asked, until=time.monotonic() + 0.5)
            looked = time.monotonic()
            state = migrating.get(f"{_MIGRATIONS}/{begun['number']}").json()
            if state["state"] != "backfilling" and filled_s is None:
                filled_s = looked - started
        ready_s = looked - started
        migrating.post(f"{_MIGRATIONS}/{begun['number']}/abort").raise_for_status()
    chunks = state["progress"]["embedded"]
    return {
        "chunks": chunks,
        "fill_s": round(filled_s or ready_s, 1),
        "ready_s": round(ready_s, 1),
        "chunks_per_s": round(chunks / (filled_s or ready_s)),
        "query_ms_alone": _figures(alone),
        "query_ms_during": _figures(beside),
    }


def show(results: dict[str, Any]) -> str:
    """Return the figures as text."""
    sides = (("alone", results["query_ms_alone"]), ("during the move", results["query_ms_during"]))
    rows = [table.row(name, side["queries"], side["median"], side["p95"], side["p99"]) for name, side in sides]
    filled = f"{results['chunks']:,} chunks in {results['fill_s']} s ({results['chunks_per_s']:,} a second)"
    heads = ("queries", "count", "median ms", "p95 ms", "p99 ms")
    return f"model migration: {filled}, verified after {results['ready_s']} s\n{table.table(heads, rows)}"


def _ask(client: httpx.Client, namespace: str, asked: list[str], *, until: float) -> list[float]:
    """Return the milliseconds of each query. Raises for a failed or degraded one."""
    latencies_ms: list[float] = []
    while time.monotonic() < until:
        body = {"query_text": asked[len(latencies_ms) % len(asked)], "namespaces": [namespace], "enable_rerank": False}
        began = time.perf_counter()
        answer = client.post("/v1/queries", json=body, headers={"Prefer": "wait=10", "Cache-Control": "no-cache"})
        latencies_ms.append((time.perf_counter() - began) * 1000)
        if answer.status_code != 200 or answer.json()["stats"]["degraded"]:
            raise RuntimeError(
                f"a query failed: {answer.status_code} {answer.json().get('stats', {}).get('degradations')}"
            )
    return latencies_ms


def _figures(times: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(times, n=100)
    return {"queries": len(times)} | {
        name: round(cuts[percent - 1], 1) for name, percent in (("median", 50), ("p95", 95), ("p99", 99))
    }
