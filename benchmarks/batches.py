"""Section `batches`: the same questions from sixteen clients and as one batch, by turns; and what a batch costs the queries of
another tenant."""

from __future__ import annotations

import json
import statistics
import time
import uuid
from collections.abc import Sequence
from typing import Any

import httpx

from benchmarks.corpus import Text, questions
from benchmarks.ingest import CHUNKING, finished, gateway, submit
from benchmarks.operation import another_tenant
from benchmarks.processes import cpu_seconds, used
from benchmarks.query import Product, cpu, measured
from benchmarks.table import row, table

_CLIENTS = 16
_ROUNDS = 3
_TOP = 10
_CALM_DOCUMENTS = 500
_CALM_QUERIES = 120
_CALM_PAUSE_S = 0.25  # between two queries of a tenant that reads what it gets


def run(texts: Sequence[Text], *, namespace: str, seed: int, count: int, judged: Sequence[str] = ()) -> dict[str, Any]:
    """Ask ``count`` questions in each of three rounds both ways, compare the answers, then ask as a calm tenant without and
    beside a batch."""
    asked = list(judged[:count]) or questions(list(texts), count=count, seed=seed)
    rounds: dict[str, list[dict[str, Any]]] = {"single": [], "batch": []}
    single = Product(namespace)
    client = gateway()
    for turn in range(_ROUNDS):
        print(f"batches: {len(asked)} questions, round {turn + 1} of {_ROUNDS}", flush=True)
        rounds["single"].append(measured(single.ask, asked, _CLIENTS))
        rounds["batch"].append(_batch(client, namespace, asked))
        print(*(f"{way}: {each[-1]['queries_per_s']} a second" for way, each in rounds.items()), flush=True)
    same = _same(client, namespace, asked)
    return {
        "questions": len(asked),
        "rounds": rounds,
        "ratio": statistics.median(
            batch["queries_per_s"] / single["queries_per_s"]
            for single, batch in zip(rounds["single"], rounds["batch"], strict=True)
        ),
        "same_answers": same,
        "calm": _calm(client, texts, namespace, asked),
    }


def _batch(client: httpx.Client, namespace: str, asked: Sequence[str]) -> dict[str, Any]:
    """Ask all questions as one batch; return the rate from the request to the last line, and the processor time."""
    before, began = cpu_seconds(), time.perf_counter()
    path = _submitted(client, namespace, asked)
    _results(client, path)
    wall_s = time.perf_counter() - began
    cpu_s = used(before, cpu_seconds())
    return {
        "queries_per_s": round(len(asked) / wall_s, 1),
        "cpu_ms_per_query": {name: round(cpu_s[name] * 1000 / len(asked), 3) for name in sorted(cpu_s)},
    }


def _submitted(client: httpx.Client, namespace: str, asked: Sequence[str]) -> str:
    body = {
        "queries": [{"query_text": text} for text in asked],
        "defaults": {"namespaces": [namespace], "top_k": _TOP},
    }
    return str(client.post("/v1/query-batches", json=body).raise_for_status().headers["location"])


def _results(client: httpx.Client, path: str) -> list[Any]:
    while client.get(path, params={"wait": 30}).raise_for_status().json()["finished_at"] is None:
        pass
    return [json.loads(line) for line in client.get(f"{path}/results").raise_for_status().text.splitlines()]


def _same(client: httpx.Client, namespace: str, asked: Sequence[str]) -> int:
    """Return how many questions have the same hits with the same scores both ways."""
    lines = _results(client, _submitted(client, namespace, asked))
    same = 0
    for text, line in zip(asked, lines, strict=True):
        body = {"query_text": text, "namespaces": [namespace], "top_k": _TOP}
        single = client.post("/v1/rag/query", json=body, headers={"Cache-Control": "no-cache"}).json()
        same += line["answer"]["chunks"] == single["chunks"]
    return same


def _calm(client: httpx.Client, texts: Sequence[Text], namespace: str, asked: Sequence[str]) -> dict[str, Any]:
    """Return the latencies of another tenant's single queries, by turns without a batch and beside one."""
    _, other = another_tenant()
    own = f"calm-{uuid.uuid4().hex[:8]}"
    finished(other, submit(other, own, [text.as_json() for text in texts[:_CALM_DOCUMENTS]], CHUNKING))
    latencies: dict[str, list[float]] = {"quiet": [], "beside": []}
    _asked_calmly(other, own, asked[:20])
    for _ in range(_ROUNDS):
        latencies["quiet"] += _asked_calmly(other, own, asked[: _CALM_QUERIES // _ROUNDS])
        path = _submitted(client, namespace, [f"{text} {n}" for n in range(20) for text in asked])
        latencies["beside"] += _asked_calmly(other, own, asked[: _CALM_QUERIES // _ROUNDS])
        ended = client.get(path).raise_for_status().json()
        if ended["finished_at"] is not None:
            raise SystemExit("batches: the batch ended before the calm tenant's queries")
        client.post(f"{path}/cancel").raise_for_status()
    figures = {name: _quantiles(values) for name, values in latencies.items()}
    return {**figures, "ratio_p95": round(figures["beside"]["p95_ms"] / figures["quiet"]["p95_ms"], 2)}


def _asked_calmly(client: httpx.Client, namespace: str, asked: Sequence[str]) -> list[float]:
    latencies = []
    for text in asked:
        began = time.perf_counter()
        body = {"query_text": text, "namespaces": [namespace], "top_k": _TOP}
        headers = {"Prefer": "wait=10", "Cache-Control": "no-cache"}
        client.post("/v1/queries", json=body, headers=headers).raise_for_status()
        latencies.append((time.perf_counter() - began) * 1000)
        time.sleep(_CALM_PAUSE_S)
    return latencies


def _quantiles(latencies_ms: Sequence[float]) -> dict[str, float]:
    return {
        "p50_ms": round(statistics.median(latencies_ms), 1),
        "p95_ms": round(statistics.quantiles(latencies_ms, n=20, method="inclusive")[-1], 1),
    }


def show(results: dict[str, Any]) -> str:
    """Return the section as tables."""
    rows = [
        row(f"{way}, round {number}", figures["queries_per_s"], cpu(figures))
        for way, rounds in results["rounds"].items()
        for number, figures in enumerate(rounds, start=1)
    ]
    parts = sorted(results["rounds"]["single"][0]["cpu_ms_per_query"])
    costs = [
        row(name, *(rounds[-1]["cpu_ms_per_query"].get(name, 0.0) for rounds in results["rounds"].values()))
        for name in parts
    ]
    calm = results["calm"]
    others = [row(name, calm[name]["p50_ms"], calm[name]["p95_ms"]) for name in ("quiet", "beside")]
    return "\n".join(
        (
            table(("", "queries/s", "CPU ms"), rows),
            table(("CPU ms a query, last round", "single", "batch"), costs),
            table(("another tenant", "p50 ms", "p95 ms"), others),
            f"a batch answers {results['ratio']:.2f} times as many questions a second as {_CLIENTS} clients;"
            f" {results['same_answers']} of {results['questions']} have the same hits and scores;"
            f" another tenant's p95 is {calm['ratio_p95']} times that without a batch",
        )
    )
