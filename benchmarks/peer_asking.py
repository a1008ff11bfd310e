"""The common measurement of all peers. Runs in their environments, so it uses the standard library alone."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import wordllama

from benchmarks.processes import cpu_seconds, own_cpu_seconds, used

_WARM_UP = 20
_SERVERS = ("postgres",)  # the only one they use


class Embedder:
    """The embedder of Chordwise: unit vectors as lists."""

    def __init__(self) -> None:
        self._model = wordllama.WordLlama.load(
            cache_dir=Path(wordllama.__file__).parent, trunc_dim=256, disable_download=True
        )

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one vector for each text."""
        found: list[list[float]] = self._model.embed(list(texts), norm=True).tolist()
        return found


def task() -> dict[str, Any]:
    """Return the task on standard input."""
    read: dict[str, Any] = json.load(sys.stdin)
    return read


def tell(found: Mapping[str, Any]) -> None:
    """Write the result as the last line of standard output."""
    print(json.dumps(found), flush=True)


def measured(ask: Callable[[str], int], asked: Sequence[str], concurrency: Sequence[int]) -> dict[str, Any]:
    """Return latency, rate and processor time of the same questions at each concurrency; ``ask`` returns the number of
    hits.

    Raises SystemExit when most questions found nothing, because the figures would be meaningless.
    """
    found = {}
    for many in concurrency:
        taken: list[float] = []
        hits: list[int] = []

        def timed(question: str, taken: list[float] = taken, hits: list[int] = hits) -> None:
            began = time.perf_counter()
            hits.append(ask(question))
            taken.append(time.perf_counter() - began)

        with ThreadPoolExecutor(many) as threads:
            list(threads.map(ask, asked[:_WARM_UP]))
            before, own, began = cpu_seconds(), own_cpu_seconds(), time.perf_counter()
            list(threads.map(timed, asked))
            wall_s = time.perf_counter() - began
            spent = used(before, cpu_seconds())
        if sum(1 for count in hits if count) < len(asked) / 2:
            raise SystemExit("most questions found nothing")
        cpu = {name: spent[name] for name in _SERVERS} | {"peer": own_cpu_seconds() - own}
        per_query = 1000 / len(asked)
        found[str(many)] = {
            "p50_ms": round(statistics.median(taken) * 1000, 2),
            "p95_ms": round(statistics.quantiles(taken, n=20)[-1] * 1000, 2),
            "queries_per_s": round(len(asked) / wall_s, 1),
            "cpu_ms_per_query": {name: round(seconds * per_query, 3) for name, seconds in cpu.items()},
        }
    return found
