"""The common measurement of all peers. Runs in their environments, so it uses the standard library alone."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import wordllama

from benchmarks.processes import timed_calls

_WARM_UP = 20


class Embedder:
    """The embedder of Chordwise: unit vectors as lists."""

    def __init__(self) -> None:
        self._model = wordllama.WordLlama.load(
            cache_dir=Path(wordllama.__file__).parent, trunc_dim=256, disable_download=True
        )

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one vector for each text."""
        vectors: list[list[float]] = self._model.embed(list(texts), norm=True).tolist()
        return vectors


def task() -> dict[str, Any]:
    """Return the task on standard input."""
    content: dict[str, Any] = json.load(sys.stdin)
    return content


def tell(results: Mapping[str, Any]) -> None:
    """Write the result as the last line of standard output."""
    print(json.dumps(results), flush=True)


def measured(ask: Callable[[str], int], questions: Sequence[str], concurrency: Sequence[int]) -> dict[str, Any]:
    """Return latency, rate and processor time of the same questions at each concurrency; ``ask`` returns the number of
    hits.

    Raises SystemExit when most questions found nothing, because the figures would be meaningless.
    """
    results = {}
    for many in concurrency:
        with ThreadPoolExecutor(many) as threads:
            list(threads.map(ask, questions[:_WARM_UP]))
            hits, figures = timed_calls(ask, questions, threads)
        if sum(map(bool, hits)) < len(questions) / 2:
            raise SystemExit("most questions found nothing")
        cpu = figures["cpu_ms_per_query"]  # PostgreSQL is the only server that they use
        results[str(many)] = figures | {"cpu_ms_per_query": {"postgres": cpu["postgres"], "peer": cpu["client"]}}
    return results
