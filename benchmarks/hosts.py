"""Section `hosts`: one, two and four simulated hosts with one set of stores: throughput, the cost of each process, and the
store that is the bound.

Every host may use the same small part of a processor, so that the stores have more than the hosts can ask for. Then the
same load is repeated with stores that have less: the one that is held back is the bound.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from benchmarks import corpus, processes
from benchmarks.corpus import Corpus, Text
from benchmarks.ingest import CHUNKING, finished, gateway, ingest, submit
from benchmarks.simulated_hosts import EVERYTHING, KINDS, STORES, Allowance, Host, preferred_stores, simulated_hosts
from benchmarks.table import row, table
from workers.producer import producer

COUNTS = (1, 2, 4)
SHARE = 0.2  # of a processor, for each host
_STARTING = 0.5  # while the newest ones start
_CALLERS = 4  # of each host, one query at a time each
_SEARCHED, _QUICK_SEARCHED = 3_000, 1_000  # chunks
_ADDED, _QUICK_ADDED = 2_000, 500  # chunks for each host
_ASKED_S, _QUICK_ASKED_S = 20.0, 6.0
_WARM_S = 6.0
_IDLE_S = 6.0
_SETTLES_WITHIN_S = 600.0
_FRESH = {"Prefer": "wait=10", "Cache-Control": "no-cache"}
_OTHERS = {"upkeep": "worker-upkeep", "compute": "worker-compute"}
_SERVERS = {"CHORDWISE_MYSQL_URL": "mysql", "CHORDWISE_POSTGRES_URL": "postgres", "CHORDWISE_REDIS_URL": "redis"}


def run(*, seed: int, quick: bool, keep: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Measure with one host, then two, then four, then four with stores that have less. ``keep`` gets what is
    known after each."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # ends the hosts
    supply, namespace = Corpus(seed=seed), f"hosts-{uuid.uuid4().hex[:8]}"
    searched = supply.take(_QUICK_SEARCHED if quick else _SEARCHED)
    load = _Load(
        namespace=namespace,
        questions=corpus.questions(searched, count=1000, seed=seed),
        supply=supply,
        asked_s=_QUICK_ASKED_S if quick else _ASKED_S,
        added=_QUICK_ADDED if quick else _ADDED,
    )
    with gateway() as client:
        ingest(client, namespace, [text.as_json() for text in searched])
    rounds: dict[str, Any] = {}
    with simulated_hosts(max(COUNTS)) as hosts, preferred_stores() as stores, _others_idle():
        running: list[Host] = []
        for count in COUNTS:
            _start(hosts[len(running) : count], running)
            load.warm(running)
            for host in running:
                host.allowance.limit(SHARE)
            print(f"hosts: {count} with {SHARE} processors each", flush=True)
            rounds[str(count)] = {
                "idle": load.rest(running),
                "queries": load.ask(running),
                "ingestion": load.add(running),
            }
            keep({"share": SHARE, "hosts": rounds})
        last = rounds[str(max(COUNTS))]
        return {
            "share": SHARE,
            "callers_per_host": _CALLERS,
            "chunks_searched": len(corpus.paragraphs(searched)),
            "hosts": rounds,
            "growth": {kind: _growth(rounds, kind) for kind in ("queries", "ingestion")},
            "processes": _processes(running, rounds),
            "stores": _stores(last),
            "limited": {
                "queries": _limited(stores, last["queries"], lambda: load.ask(running)),
                "ingestion": _limited(stores, last["ingestion"], lambda: load.add(running)),
            },
        }


def _start(hosts: Sequence[Host], running: list[Host]) -> None:
    """Start hosts with more, and wait until they work and their keyword indexes are complete."""
    print(f"hosts: starting {', '.join(host.name for host in hosts)}", flush=True)
    for host in hosts:
        host.allowance.limit(_STARTING)
        host.start()
        running.append(host)
    for host in running:
        host.wait(len(running))
    _settle(running)


def _settle(hosts: Sequence[Host]) -> None:
    """Wait until every host's keyword index has every change."""
    ends = time.monotonic() + _SETTLES_WITHIN_S
    with gateway() as client:
        while not _are_indexed(hosts, client.get("/v1/metrics").text):
            if time.monotonic() > ends:
                raise SystemExit("hosts: the keyword indexes did not become complete")
            time.sleep(0.5)


def _are_indexed(hosts: Sequence[Host], page: str) -> bool:
    return all(host.is_indexed(page) for host in hosts)


@contextmanager
def _others_idle() -> Iterator[None]:
    """Take the queues of the hosts from the stack's own workers, and pause its indexer."""
    with gateway(os.environ["CHORDWISE_ADMIN_KEY"]) as client:
        workers = client.get("/v1/workers").raise_for_status().json()["data"]
    queues = {queue: [worker["name"] for worker in workers if queue in worker["queues"]] for queue in _QUEUES}
    for queue, names in queues.items():
        producer.control.cancel_consumer(queue, destination=names)
    [indexer, *_] = processes.trees()["indexer"]
    os.kill(indexer, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(indexer, signal.SIGCONT)
        for queue, names in queues.items():
            producer.control.add_consumer(queue, destination=names)


_QUEUES = ("recall", "answer", "ingest")


class _Load:
    """The work for the hosts. Each call loads all of them alike, through their own gateways. Costs are those beyond a
    rest's."""

    def __init__(self, *, namespace: str, questions: Sequence[str], supply: Corpus, asked_s: float, added: int) -> None:
        self._namespace, self._questions, self._supply = namespace, questions, supply
        self._asked_s, self._added = asked_s, added
        self._numbers = itertools.count()
        self._idle: Mapping[str, float] = {}

    def warm(self, hosts: Sequence[Host]) -> None:
        """Have every process load what it needs."""
        self._callers(hosts, _WARM_S)

    def rest(self, hosts: Sequence[Host]) -> Mapping[str, float]:
        """Do nothing for some seconds. Return the use of a processor by all processes of a kind, and by each store."""
        _, figures = _measured(hosts, lambda: time.sleep(_IDLE_S))
        idle = {name: round(seconds / figures["wall_s"], 4) for name, seconds in figures["cpu_s"].items()}
        own_work = {name: min(idle[name], self._idle.get(name, idle[name])) for name in STORES}  # it comes and goes
        self._idle = idle | own_work
        return idle

    def ask(self, hosts: Sequence[Host]) -> dict[str, Any]:
        """Send queries for some seconds, a fixed number at a time to each host; return rate, times and cost."""
        self._callers(hosts, self._asked_s / 4)
        answers, figures = _measured(hosts, lambda: self._callers(hosts, self._asked_s))
        latencies = sorted(latency_s for latency_s, _ in answers)
        return {
            "queries": len(answers),
            "queries_per_s": round(len(answers) / figures["wall_s"], 1),
            "p50_ms": round(latencies[len(latencies) // 2] * 1000, 1),
            "p95_ms": round(latencies[int(len(latencies) * 0.95)] * 1000, 1),
            "degraded": sum(degraded for _, degraded in answers),
            **self._each(figures, len(answers)),
        }

    def _callers(self, hosts: Sequence[Host], seconds: float) -> list[tuple[float, bool]]:
        answers: list[tuple[float, bool]] = []
        ends = time.monotonic() + seconds
        callers = [threading.Thread(target=self._call, args=(host, ends, answers)) for host in hosts * _CALLERS]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
        return answers

    def _call(self, host: Host, ends: float, answers: list[tuple[float, bool]]) -> None:
        with host.client as client:
            while time.monotonic() < ends:
                question = self._questions[next(self._numbers) % len(self._questions)]
                body = {"query_text": question, "namespaces": [self._namespace], "top_k": 10}
                began = time.monotonic()
                answer = client.post("/v1/queries", json=body, headers=_FRESH)
                if answer.status_code == 200:
                    answers.append((time.monotonic() - began, b'"degraded":true' in answer.content))

    def add(self, hosts: Sequence[Host]) -> dict[str, Any]:
        """Send one job to each host; return the rate until all are done, and the cost until all are indexed."""
        texts = [self._supply.take(self._added) for _ in hosts]
        waits: list[float] = []
        seconds, figures = _measured(hosts, lambda: self._add(hosts, texts, waits))
        chunks = self._added * len(hosts)
        return {
            "chunks": chunks,
            "chunks_per_s": round(chunks / seconds, 1),
            "indexed_after_s": round(figures["wall_s"] - seconds, 1),
            "longest_role_wait_s": round(max(waits), 1),
            "role_wait_after_s": round(waits[-1], 1),
            **self._each(figures, chunks),
        }

    def _add(self, hosts: Sequence[Host], texts: Sequence[Sequence[Text]], waits: list[float]) -> float:
        """Return the seconds until the last job ended; ``waits`` gets the signal to scale by, again and again."""
        began, namespace, done = time.monotonic(), f"added-{uuid.uuid4().hex[:8]}", threading.Event()
        watching = threading.Thread(target=_watch, args=(waits, done))
        watching.start()
        try:
            jobs = []
            for host, part in zip(hosts, texts, strict=True):
                with host.client as client:
                    jobs.append(submit(client, namespace, [text.as_json() for text in part], CHUNKING))
            with gateway() as client:
                statuses = [finished(client, job_id)["status"] for job_id in jobs]
            if set(statuses) != {"succeeded"}:
                raise SystemExit(f"hosts: jobs ended {', '.join(statuses)}")
            seconds = time.monotonic() - began
            _settle(hosts)
        finally:
            done.set()
            watching.join()
        return seconds

    def _each(self, figures: Mapping[str, Any], count: int) -> dict[str, Any]:
        """Return the processor time of each kind for one query or chunk, and the use of a processor."""
        cpu_s, wall_s = figures["cpu_s"], figures["wall_s"]
        beyond_s = {name: max(0.0, seconds - self._idle[name] * wall_s) for name, seconds in cpu_s.items()}
        return {
            "cpu_ms": {name: round(seconds * 1000 / count, 3) for name, seconds in beyond_s.items()},
            "processors": {name: round(seconds / wall_s, 3) for name, seconds in cpu_s.items()},
        }


def _watch(waits: list[float], done: threading.Event) -> None:
    """Read the age of the oldest message for ingest workers, until it was read after the end."""
    name = 'chordwise_role_oldest_seconds{role="ingest"} '
    with gateway() as client:
        while True:
            is_last = done.wait(0.5)
            lines = [line for line in client.get("/v1/metrics").text.splitlines() if line.startswith(name)]
            waits += [float(line.removeprefix(name)) for line in lines]  # none while Redis is slow to answer
            if is_last and lines:
                return


def _measured(hosts: Sequence[Host], work: Callable[[], Any]) -> tuple[Any, dict[str, Any]]:
    """Do some work. Return its result, the seconds it took, and the processor time of each kind of process and store."""
    before, began = _cpu(hosts), time.monotonic()
    result = work()
    wall_s = time.monotonic() - began
    return result, {"wall_s": wall_s, "cpu_s": processes.used(before, _cpu(hosts))}


def _cpu(hosts: Sequence[Host]) -> dict[str, float]:
    totals = dict.fromkeys(KINDS, 0.0)
    for host in hosts:
        for kind, seconds in host.cpu_seconds().items():
            totals[kind] += seconds
    servers = processes.cpu_seconds()
    return totals | {name: servers[name] for name in STORES} | {"client": time.process_time()}


_RATES = {"queries": "queries_per_s", "ingestion": "chunks_per_s"}


def _growth(rounds: Mapping[str, Any], kind: str) -> dict[str, float]:
    """Return each round's rate as a multiple of the first one's."""
    rates = {count: figures[kind][_RATES[kind]] for count, figures in rounds.items()}
    return {count: round(rate / rates[str(COUNTS[0])], 2) for count, rate in rates.items()}


def _processes(hosts: Sequence[Host], rounds: Mapping[str, Any]) -> dict[str, Any]:
    """Return what one process of each kind needs: connections, memory, time without work, and for a query or chunk. The
    stack's own processes of the other kinds have done next to nothing."""
    ports = {urlsplit(os.environ[variable]).port or 0: name for variable, name in _SERVERS.items()}
    last = rounds[str(max(COUNTS))]
    members = {kind: [host.running[kind].pid for host in hosts] for kind in KINDS}
    members |= {kind: processes.trees()[name][:1] for kind, name in _OTHERS.items()}
    needs: dict[str, Any] = {}
    for kind, pids in members.items():
        counts = [processes.connections(pid, ports) for pid in pids]
        needs[kind] = {
            "connections": {server: max(count[server] for count in counts) for server in _SERVERS.values()},
            "memory_mb": round(max(map(processes.tree_mb, pids))),
        }
    for kind in KINDS:
        share = len(hosts) if kind == "indexer" else 1  # every indexer takes every chunk
        needs[kind] |= {
            "idle_percent": round(last["idle"][kind] / len(hosts) * 100, 1),
            "cpu_ms_per_query": last["queries"]["cpu_ms"][kind],
            "cpu_ms_per_chunk": round(last["ingestion"]["cpu_ms"][kind] / share, 3),
        }
    return needs


def _stores(last: Mapping[str, Any]) -> dict[str, Any]:
    """Return what one processor of each store bears, by its cost with the most hosts."""
    return {
        store: {
            f"{rate}_per_processor": round(1000 / max(0.001, last[kind]["cpu_ms"][store]))
            for kind, rate in (("queries", "queries_per_s"), ("ingestion", "chunks_per_s"))
        }
        for store in STORES
    }


def _limited(
    stores: Mapping[str, Allowance], free: Mapping[str, Any], work: Callable[[], dict[str, Any]]
) -> dict[str, Any]:
    """Repeat a load with stores that may each use half of what the busiest one used. Name the one that is held back."""
    cores = round(max(free["processors"][store] for store in STORES) / 2, 3)
    for store in stores.values():
        store.limit(cores)
    before = {name: store.held_back() for name, store in stores.items()}
    figures = work()
    after = {name: store.held_back() for name, store in stores.items()}
    for store in stores.values():
        store.limit(EVERYTHING)
    held = {
        name: round((after[name][1] - before[name][1]) / max(1, after[name][0] - before[name][0]), 3) for name in STORES
    }
    return figures | {"processors_per_store": cores, "held_back": held, "bound": max(held, key=lambda name: held[name])}


def show(results: dict[str, Any]) -> str:
    """Return the section as tables: throughput by hosts, and the cost of each process."""
    throughput = [
        row(
            f"{count} hosts",
            *_cells(both),
            f"{results['growth']['queries'][count]} / {results['growth']['ingestion'][count]}",
        )
        for count, both in results["hosts"].items()
    ]
    limited = results["limited"]
    throughput.append(
        row(
            "4 hosts, stores with less",
            *_cells(limited),
            f"bound: {limited['queries']['bound']} / {limited['ingestion']['bound']}",
        )
    )
    needs = [
        row(
            kind,
            *(process["connections"][server] for server in _SERVERS.values()),
            *(process.get(name, "") for name in ("memory_mb", "idle_percent", "cpu_ms_per_query", "cpu_ms_per_chunk")),
        )
        for kind, process in results["processes"].items()
    ]
    heads = ("", *_SERVERS.values(), "MB", "idle %", "ms a query", "ms a chunk")
    return "\n\n".join(
        (
            table(
                (f"{results['share']} processors a host", "queries/s", "p50 ms", "chunks/s", "times one host"),
                throughput,
            ),
            table(heads, needs),
        )
    )


def _cells(both: Mapping[str, Any]) -> tuple[Any, ...]:
    return both["queries"]["queries_per_s"], both["queries"]["p50_ms"], both["ingestion"]["chunks_per_s"]
