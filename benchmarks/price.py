"""Section `price`: what one query costs, part by part: processor time of every process, commands and bytes of Redis, SQL
statements, and the bytes of the answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from statistics import mean
from typing import Any

import redis

from benchmarks import floor
from benchmarks.corpus import Text, questions
from benchmarks.ingest import gateway
from benchmarks.query import TIMES, cpu, measured, times
from benchmarks.table import row, table
from pipeline.settings import settings

_CONCURRENCY = (1, 8)
_TOP = 10
_SHOWN_FROM = 0.05  # of a command, in calls a query
_STATEMENTS = "SHOW GLOBAL STATUS WHERE Variable_name IN ('Com_select', 'Com_insert', 'Com_update', 'Com_delete')"
_TRANSACTIONS = "SELECT sum(xact_commit + xact_rollback) FROM pg_stat_database WHERE datname = current_database()"


def run(texts: Sequence[Text], *, namespace: str, seed: int, count: int, judged: Sequence[str] = ()) -> dict[str, Any]:
    """Ask ``count`` questions one at a time and eight at a time, and count what the servers did meanwhile. ``judged``: those of
    a collection, instead of some made from ``texts``."""
    asked = judged[:count] or questions(list(texts), count=count, seed=seed)
    asker = _Asker(namespace)
    results: dict[str, Any] = {"documents": len(texts), "queries": len(asked), "top_k": _TOP, "concurrency": {}}
    for many in _CONCURRENCY:
        print(f"price: {len(asked)} questions, {many} at a time", flush=True)
        asker.sizes.clear()
        asker.received.clear()
        before = _counted()
        figures = measured(asker.ask, asked, many)
        calls = _counted() - before
        asked_in_all = len(asker.sizes)  # with those that warm up
        figures |= {name: round(calls.pop(name) / asked_in_all, 2) for name in ("statements", "transactions", "bytes")}
        figures["answer_bytes"], figures["received_bytes"] = round(mean(asker.sizes)), round(mean(asker.received))
        figures["commands"] = {name: round(calls[name] / asked_in_all, 2) for name in sorted(calls)}
        results["concurrency"][str(many)] = figures
    return results


class _Asker:
    """Asks questions that no answer cache answers, and notes the sizes of the answers, as JSON and as they were sent."""

    def __init__(self, namespace: str) -> None:
        self._client, self._namespace = gateway(), namespace
        self.sizes: list[int] = []
        self.received: list[int] = []

    def ask(self, question: str) -> None:
        """Ask one question; stop the benchmark if the answer is an error."""
        answer = self._client.post(
            "/v1/queries",
            json={"query_text": question, "namespaces": [self._namespace], "top_k": _TOP},
            headers={"Prefer": "wait=10", "Cache-Control": "no-cache"},
        )
        if answer.status_code != 200:
            raise SystemExit(f"price: {answer.status_code} {answer.text[:200]}")
        self.sizes.append(len(answer.content))
        self.received.append(answer.num_bytes_downloaded)


def _counted() -> Counter[str]:
    """Return what the servers have done so far: calls of each Redis command, inside of scripts too, and the totals."""
    with closing(redis.Redis.from_url(settings().redis_url.get_secret_value())) as client:
        commands, traffic = client.info("commandstats"), client.info("stats")
    counts = Counter({name.removeprefix("cmdstat_"): figures["calls"] for name, figures in commands.items()})
    counts["bytes"] = traffic["total_net_input_bytes"] + traffic["total_net_output_bytes"]
    with closing(floor.mysql()) as mysql, mysql.cursor() as cursor:
        cursor.execute(_STATEMENTS)
        counts["statements"] = sum(int(value) for _, value in cursor.fetchall())
    with closing(floor.postgres()) as postgres:
        [[transactions]] = postgres.execute(_TRANSACTIONS).fetchall()
        counts["transactions"] = int(transactions)
    return counts


def show(results: dict[str, Any]) -> str:
    """Return the section as tables."""
    by_concurrency = results["concurrency"]
    totals = [
        row(
            f"{many} at a time",
            *times(figures),
            sum(figures["commands"].values()),
            figures["bytes"] / 1000,
            figures["statements"] + figures["transactions"],
            figures["answer_bytes"] / 1000,
            figures["received_bytes"] / 1000,
        )
        for many, figures in by_concurrency.items()
    ]
    heads = ("", *TIMES, "Redis commands", "Redis kB", "SQL statements", "answer kB", "sent kB")
    parts = sorted({name for figures in by_concurrency.values() for name in figures["cpu_ms_per_query"]})
    processes = [
        row(name, *(figures["cpu_ms_per_query"][name] for figures in by_concurrency.values())) for name in parts
    ]
    processes.append(row("all", *map(cpu, by_concurrency.values())))
    alone = by_concurrency[str(_CONCURRENCY[0])]["commands"]
    commands = ", ".join(f"{name} {calls}" for name, calls in sorted(alone.items()) if calls >= _SHOWN_FROM)
    return "\n".join(
        (
            table(heads, totals),
            table(("CPU ms a query", *(f"{many} at a time" for many in by_concurrency)), processes),
            f"Redis commands a query, one at a time: {commands}",
        )
    )
