"""Section `lanes`: the same questions answered alternately by the chord and by the in-process lane, on one stack."""

from __future__ import annotations

import json
import statistics
import time
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from benchmarks.corpus import Text, questions
from benchmarks.ingest import gateway
from benchmarks.query import TIMES, Product, cpu, measured, times
from benchmarks.table import row, table

_CONCURRENCY = (1, 16)
_ROUNDS = 4
_LANES = {"chord": "lanes-chord", "in_process": "lanes-in-process"}  # with the profile of each
_READY_S = 60.0


def run(texts: Sequence[Text], *, namespace: str, seed: int, count: int) -> dict[str, Any]:
    """Measure both lanes at each concurrency, ``count`` questions in every one of four rounds; then compare answers."""
    asked = questions(list(texts), count=count, seed=seed)
    for lane, profile in _LANES.items():
        gateway().put(f"/v1/profiles/{profile}", json={"config": {"lane": lane}}).raise_for_status()
    lanes = {lane: Product(namespace, profile=profile) for lane, profile in _LANES.items()}
    _warm(lanes["in_process"], asked, namespace)
    results: dict[str, Any] = {"queries": count, "rounds": _ROUNDS, "concurrency": {}}
    for many in _CONCURRENCY:
        rounds: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        for turn in range(_ROUNDS):
            print(f"lanes: {count} questions, {many} at a time, round {turn + 1} of {_ROUNDS}", flush=True)
            for lane, product in lanes.items():
                rounds[lane].append(measured(product.ask, asked, many))
        results["concurrency"][str(many)] = {lane: _median(turns) for lane, turns in rounds.items()}
    results["answers"] = _compared(asked, namespace)
    return results


def _warm(product: Product, asked: Sequence[str], namespace: str) -> None:
    """Wait until the lane answers, and until every process of both lanes answers from memory."""
    ends = time.monotonic() + _READY_S
    while time.monotonic() < ends:
        product.ask(asked[0])
        check = gateway().get("/readyz").json()["dependencies"].get("query_lane", {})
        if check.get("status") == "ok":
            break
        time.sleep(0.5)
    else:
        raise SystemExit("lanes: the in-process lane did not get ready")
    for _ in range(5):
        for profile in _LANES.values():
            measured(Product(namespace, profile=profile).ask, asked[:60], 16)
        time.sleep(1)  # while they load it


def _median(rounds: Sequence[dict[str, Any]]) -> dict[str, Any]:
    costs = [figures["cpu_ms_per_query"] for figures in rounds]
    return {
        **{name: statistics.median(turn[name] for turn in rounds) for name in ("p50_ms", "p95_ms", "queries_per_s")},
        "cpu_ms_per_query": {
            name: round(statistics.median(cost.get(name, 0.0) for cost in costs), 3)
            for name in sorted(set().union(*costs))
        },
        "rounds": [
            {"p50_ms": turn["p50_ms"], "queries_per_s": turn["queries_per_s"], "cpu_ms": cpu(turn)} for turn in rounds
        ],
    }


def _compared(asked: Sequence[str], namespace: str) -> dict[str, int]:
    """Ask every question once on each lane, under one profile: a query whose caller does not wait uses the chord."""
    client, same = gateway(), 0
    for question in asked:
        body = {"query_text": question, "namespaces": [namespace], "profile": _LANES["in_process"]}
        fresh = {"Cache-Control": "no-cache"}
        here = client.post("/v1/queries", json=body, headers={**fresh, "Prefer": "wait=10"})
        accepted = client.post("/v1/queries", json=body, headers=fresh)
        there = client.get(accepted.headers["Location"], params={"wait": 10})
        same += _timeless(here.content) == _timeless(there.content)
    return {"compared": len(asked), "same_bytes": same}


def _timeless(answer: bytes) -> str:
    """Return an answer without its id and its timings."""
    content = json.loads(answer)
    content["stats"].pop("latency_ms")
    return json.dumps(content).replace(content["query_id"], "")


def show(results: dict[str, Any]) -> str:
    """Return the section as a table, and below it how many answers were the same."""
    rows = [
        row(f"{lane}, {many} at a time", *times(figures))
        for many, both in results["concurrency"].items()
        for lane, figures in both.items()
    ]
    answers = results["answers"]
    same = f"{answers['same_bytes']} of {answers['compared']} answers had the same bytes on both lanes"
    return f"{table(('', *TIMES), rows)}\n{same}"
