"""The stack's use of resources: processor time and peak memory of its processes, from /proc, and its data on disk.

Standard library only, because the other products' environments import it.
"""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from pathlib import Path
from typing import Any

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_OPEN = "01"  # in /proc/net/tcp


def cpu_seconds() -> dict[str, float]:
    """Return the processor time that each of the stack's servers and services has used, with its children."""
    return {name: sum(_cpu(pid) for pid in pids) for name, pids in trees().items()}


def peak_mb() -> dict[str, float]:
    """Return the peak memory of each, the largest process of a tree (they share pages)."""
    return {name: max((_peak(pid) for pid in pids), default=0.0) for name, pids in trees().items()}


def used(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    """Return the difference, name by name."""
    return {name: round(after[name] - before.get(name, 0.0), 3) for name in sorted(after)}


def timed_calls(
    ask: Callable[[Any], Any], questions: Sequence[Any], threads: Executor
) -> tuple[list[Any], dict[str, Any]]:
    """Ask every question on these threads. Return the answers, and latency, rate and processor time for each."""
    latencies_s: list[float] = []

    def timed(question: Any) -> Any:
        began = time.perf_counter()
        answer = ask(question)
        latencies_s.append(time.perf_counter() - began)
        return answer

    servers, own, began = cpu_seconds(), time.process_time(), time.perf_counter()
    answers = list(threads.map(timed, questions))
    wall_s = time.perf_counter() - began
    cpu_s = used(servers, cpu_seconds()) | {"client": time.process_time() - own}
    return answers, {
        "p50_ms": round(statistics.median(latencies_s) * 1000, 2),
        "p95_ms": round(statistics.quantiles(latencies_s, n=20, method="inclusive")[-1] * 1000, 2),
        "queries_per_s": round(len(questions) / wall_s, 1),
        "cpu_ms_per_query": {name: round(cpu_s[name] * 1000 / len(questions), 3) for name in sorted(cpu_s)},
    }


def tree_cpu_seconds(pid: int) -> float:
    """Return the processor time of a process and its children."""
    return sum(map(_cpu, _with_children(pid)))


def tree_mb(pid: int) -> float:
    """Return the memory of a process and its children; pages that children share with it count once."""
    first, *children = _with_children(pid)
    own = _kilobytes(first, "smaps_rollup", "Rss:")
    return (own + sum(_kilobytes(child, "smaps_rollup", "Private_") for child in children)) / 1024


def connections(pid: int, servers: Mapping[int, str]) -> dict[str, int]:
    """Return the open TCP connections of a process and its children to each of ``servers``, names by port."""
    rows = [line.split() for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
    server_of = {
        f"socket:[{row[9]}]": servers.get(int(row[2].rpartition(":")[2], 16)) for row in rows if row[3] == _OPEN
    }
    counts = dict.fromkeys(servers.values(), 0)
    for entry in (entry for member in _with_children(pid) for entry in Path(f"/proc/{member}/fd").glob("*")):
        with suppress(OSError):
            if server := server_of.get(str(entry.readlink())):
                counts[server] += 1
    return counts


def trees() -> dict[str, list[int]]:
    """Return the process ids of each of the stack's servers and services, with its children's."""
    state = json.loads((Path(os.environ["CHORDWISE_STACK_DIR"]) / "run" / "state.json").read_text())
    return {name: _with_children(int(process["pid"])) for name, process in state["processes"].items()}


def _with_children(pid: int) -> list[int]:
    pids = [pid]
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            pids += [process for child in children.read_text().split() for process in _with_children(int(child))]
    return pids


def _cpu(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / _TICKS_PER_S  # its own, and that of ended children


def _peak(pid: int) -> float:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmHWM:")), 0.0)


def _kilobytes(pid: int, file: str, field: str) -> int:
    """Return the sum of the lines of a file of /proc that begin with ``field``."""
    try:
        lines = Path(f"/proc/{pid}/{file}").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith(field))


def disk_mb() -> dict[str, float]:
    """Return the megabytes on disk of each server's and each service's data."""
    data = Path(os.environ["CHORDWISE_STACK_DIR"]) / "data"
    return {
        folder.name: sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 2**20
        for folder in sorted(data.iterdir())
        if folder.is_dir()
    }
