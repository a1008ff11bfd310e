"""The query client of `growth` and `writes`, and a writer that replaces one document every second."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import httpx
import numpy as np

from benchmarks import exact
from benchmarks.corpus import TENTH, Text
from benchmarks.ingest import ingest
from benchmarks.query import measured

AT_ONCE = 8
_FRESH = {"Prefer": "wait=10", "Cache-Control": "no-cache"}


@dataclass(slots=True)
class Asker:
    """Sends queries of one tenant to some of its namespaces and counts the degraded answers."""

    client: httpx.Client
    tenant_id: str
    namespaces: Sequence[str]
    tagged: bool = False
    degraded: int = 0

    def ask(self, question: str) -> None:
        """Ask one question; stops the benchmark if the answer is an error."""
        self.degraded += b'"degraded":true' in self._answer(question).content

    def first_ten(self, question: str) -> dict[str, list[str]]:
        """Return the ids of the first ten chunks of each channel."""
        query_id = self._answer(question, trace=True).json()["query_id"]
        channels = self.client.get(f"/v1/queries/{query_id}/trace").raise_for_status().json()["channels"]
        return {name: [hit["chunk_id"] for hit in channel["hits"][: exact.TOP]] for name, channel in channels.items()}

    def _answer(self, question: str, **more: Any) -> httpx.Response:
        body = {"query_text": question, "namespaces": list(self.namespaces), "top_k": exact.TOP, **more}
        if self.tagged:
            body["filters"] = {"tags": [TENTH]}
        answer = self.client.post("/v1/queries", json=body, headers=_FRESH)
        if answer.status_code != 200:
            raise SystemExit(f"growth: {answer.status_code} {answer.text[:300]}")
        return answer


@dataclass(slots=True)
class Writer:
    """Replaces one document of a namespace every second, by the same text with one more sentence."""

    client: httpx.Client
    namespace: str
    texts: Sequence[Text]
    searchable_s: list[float] = field(default_factory=list)
    _ends: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Replace documents until the block ends, and wait for the last one."""
        self._ends.clear()
        thread = threading.Thread(target=self._write, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ends.set()
            thread.join()

    def _write(self) -> None:
        random = np.random.default_rng(len(self.searchable_s))
        while not self._ends.is_set():
            began = time.monotonic()
            text = self.texts[int(random.integers(len(self.texts)))]
            body = text.as_json() | {"text": f"{text.text} Revision {time.time_ns()}."}
            ingest(self.client, self.namespace, [body])
            self.searchable_s.append(time.monotonic() - began)
            self._ends.wait(max(0.0, 1.0 - (time.monotonic() - began)))


def cell(asker: Asker, questions: Sequence[str], *, checked: int) -> dict[str, Any]:
    """Measure one at a time and eight at a time, then compare the first ``checked`` questions' lists with exact ones."""
    before = asker.degraded
    alone = measured(asker.ask, questions, 1)
    together = measured(asker.ask, questions, AT_ONCE)
    return {
        "p50_ms": alone["p50_ms"],
        "p95_ms": alone["p95_ms"],
        "queries_per_s": together["queries_per_s"],
        "cpu_ms_alone": alone["cpu_ms_per_query"],
        "cpu_ms_per_query": together["cpu_ms_per_query"],
        "degraded": asker.degraded - before,
        "first_tens": [_passages(asker, question) for question in questions[:checked]],
    }


def agreement(first_tens: Sequence[dict[str, list[exact.Passage]]], lists: exact.Lists) -> dict[str, float]:
    """Return the mean share of the exact first ten that each channel found, over the questions with any."""
    return {
        name: _mean_share([by_channel.get(channel, []) for by_channel in first_tens], best)
        for name, channel, best in (
            ("keyword_top_10", "keyword", lists.keyword),
            ("vector_recall_10", "semantic", lists.semantic),
        )
    }


def _mean_share(first_tens: Sequence[Sequence[exact.Passage]], best: Sequence[set[exact.Passage]]) -> float:
    shares = [
        min(1.0, len(set(first_ten) & wanted) / min(exact.TOP, len(wanted)))
        for first_ten, wanted in zip(first_tens, best, strict=False)
        if wanted
    ]
    return round(float(np.mean(shares)), 4) if shares else 1.0


def _passages(asker: Asker, question: str) -> dict[str, list[exact.Passage]]:
    """Return the first ten of each channel as passages. A chunk deleted meanwhile matches none."""
    ids = asker.first_ten(question)
    passages = exact.passages(asker.tenant_id, list(chain.from_iterable(ids.values())))
    return {name: [passages[chunk_id] for chunk_id in hits if chunk_id in passages] for name, hits in ids.items()}
