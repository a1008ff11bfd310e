"""Section `graphs`: lists and graphs over the vectors of real passages, and of the synthetic mix beside them.

In databases of its own on the stack's servers. Vectors are those of the built-in model; where a row says 1,024 numbers
they are those of the whole passage and of its thirds, one after the other, and of a question four times. Indexes and
searches are the product's own, on the connections of query workers; a question is asked for a hundred chunks.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import text

from benchmarks import corpus, table
from benchmarks.asking import AT_ONCE
from benchmarks.clusters import Matrix
from benchmarks.passages import Passages, read_passages
from benchmarks.semantic import backend, databases, ticks
from benchmarks.vectors import fill
from pipeline.maintenance.build_indexes import keep_indexes
from pipeline.maintenance.migrate_schema import upgrade
from pipeline.models.make_models import make_local_embedder
from pipeline.records import Filters, Namespace, TenantId
from pipeline.resources import Resources
from pipeline.settings import Settings, settings

SIZES, LARGE, QUICK = (26_000, 200_000), 1_000_000, (26_000,)
KINDS = ("real", "real, 1,024 numbers", "mixed")
_TENANT, _NAMESPACE = TenantId("bench-large"), Namespace("kb")
_NUMBERS = 256
_QUESTIONS = 100  # of each kind
_MEASURED_WITH = 96  # other questions, which upkeep chooses lists and ef_search by
_ASKED, _JUDGED = 100, 10
_TIE = 1e-4  # of the tenth score
_TENTH = 10
_TICKS_MS = 10.0
_AT_ONCE_S = 4.0
_WRITES_S = 0.2  # between two vectors that are written again
_GROWN = 4  # looks of upkeep until nothing changes


@dataclass(frozen=True, slots=True)
class _Texts:
    passages: Matrix
    questions: Matrix
    sources: Sequence[str]

    def metadata(self, number: int) -> dict[str, Any]:
        """Return the metadata of the passage of this number."""
        return {"tenth": number % _TENTH == 0, "source": self.sources[number]}


def run(
    *, folder: Path | None, sizes: Sequence[int], seed: int, keep: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    """Measure each size, real passages first; without a ``folder`` the mix alone. ``keep`` receives the results so far."""
    results: dict[str, Any] = {"rows": []}
    asked = _QUESTIONS + _MEASURED_WITH // 2
    found = read_passages(folder, most=max(sizes), questions=asked, seed=seed) if folder else None
    for size in sizes:
        for name in KINDS:
            if found and name != "mixed" and (name == "real" or size == min(sizes)):
                texts = _real(found.first(size), parts=1 if name == "real" else 4)
            elif name == "mixed":
                texts = _mixed(size, seed=seed)
            else:
                continue
            results["rows"] += _measure(name, texts)
            keep(results)
    return results


def _real(found: Passages, *, parts: int) -> _Texts:
    vectors = _embedded(found.texts)
    questions = _embedded(found.questions)
    if parts > 1:
        thirds = [[_part(text, number) for text in found.texts] for number in range(parts - 1)]
        vectors = _units(np.concatenate([vectors, *map(_embedded, thirds)], axis=1))
        questions = _units(np.concatenate([questions] * parts, axis=1))
    return _Texts(vectors, questions, found.sources)


def _part(passage: str, number: int) -> str:
    third = max(1, len(passage) // 3)
    return passage[number * third : (number + 1) * third]


def _mixed(size: int, *, seed: int) -> _Texts:
    documents = corpus.documents(chunks=size, seed=seed)
    asked = corpus.questions(documents, count=2 * _QUESTIONS + _MEASURED_WITH, seed=seed)
    texts = corpus.paragraphs(documents)
    return _Texts(_embedded(texts), _embedded(asked), ["mixed"] * len(texts))


def _embedded(texts: Sequence[str]) -> Matrix:
    return make_local_embedder("wordllama-l2-supercat-256", _NUMBERS).embed(texts)


def _units(vectors: Matrix) -> Matrix:
    lengths = np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
    return np.asarray(vectors / lengths, dtype=np.float32)


def _measure(name: str, texts: _Texts) -> list[dict[str, Any]]:
    """Fill one tenant, and measure it without indexes, with lists, and with graphs."""
    dimension, size = texts.passages.shape[1], len(texts.passages)
    print(f"graphs: {name}, {size:,} passages", flush=True)
    rng = np.random.default_rng(1)
    order = rng.permutation(len(texts.questions))
    measured_with, asked = texts.questions[order[:_MEASURED_WITH]], texts.questions[order[_MEASURED_WITH:]]
    rows = []
    with databases(settings().model_copy(update={"embedding_dim": dimension})) as moved:
        use = Resources(moved, timeout_s=600.0)
        upgrade(use.mysql, use.postgres, moved)
        fill(use, _TENANT, texts.passages, namespace=_NAMESPACE, metadata=texts.metadata)
        for choice in ("exact", "ivfflat", "hnsw"):
            built = {} if choice == "exact" else _build(moved, choice, measured_with)
            rows.append({"texts": name, "chunks": size, "index": choice, **built, "cells": _cells(moved, texts, asked)})
        use.close()
    return rows


def _build(moved: Settings, choice: str, questions: Matrix) -> dict[str, Any]:
    use = Resources(moved.model_copy(update={"vector_index": choice}), timeout_s=600.0)
    for _ in range(_GROWN):
        keep_indexes(use, questions=lambda *_, **__: questions)
    with use.postgres.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("UPDATE vector_indexes SET changed_at = now() - interval '1 hour'"))
    keep_indexes(use, questions=lambda *_, **__: questions)
    statement = text(
        "SELECT sum(build_s) AS build_s, sum(chunks) AS rows, sum(pg_relation_size(to_regclass(index_name))) AS bytes,"
        " min(recall) AS recall, max(probes) AS probes, max(deep_probes) AS deep_probes, max(lists) AS lists"
        " FROM vector_indexes WHERE state = 'ready'"
    )
    with use.postgres.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("VACUUM ANALYZE chunk_embeddings"))
        row = connection.execute(statement).one()
    use.close()
    return {
        "build_ms_a_vector": round(1000 * row.build_s / float(row.rows), 3),
        "index_mb": round(float(row.bytes) / 2**20, 1),
        "measured": {"recall": row.recall, "probes": row.probes, "deep_probes": row.deep_probes, "lists": row.lists},
    }


def _cells(moved: Settings, texts: _Texts, asked: Matrix) -> dict[str, Any]:
    """Return recall and cost without a filter, beside writes, with a filter that any tenth passes, and with one source."""
    most_common = statistics.mode(texts.sources)
    tenth = np.arange(len(texts.passages)) % _TENTH == 0
    source = np.array([each == most_common for each in texts.sources])
    every = np.ones(len(texts.passages), bool)
    cells: dict[str, tuple[Filters, Any]] = {
        "none": (Filters(), every),
        "writes": (Filters(), every),
        "tenth": (Filters(metadata={"tenth": True}), tenth),
    }
    if 0.01 < source.mean() < 0.9:
        cells[f"one source ({source.mean():.0%})"] = (Filters(metadata={"source": most_common}), source)
    reader = Resources(moved, timeout_s=60.0, reading=True)
    found = {}
    for name, (filters, passing) in cells.items():
        with _writing(moved, texts) if name == "writes" else _quiet():
            found[name] = _cell(reader, texts.passages, asked, filters, passing)
    reader.close()
    return found


def _cell(reader: Resources, passages: Matrix, asked: Matrix, filters: Filters, passing: Any) -> dict[str, Any]:
    search = reader.search_in(reader.spaces.base, _TENANT)
    limits = {"namespaces": [_NAMESPACE], "filters": filters, "limit": _ASKED}
    for question in asked[:8]:
        search.nearest(question, **limits)  # type: ignore[arg-type]
    pids = [backend(engine) for engine in (reader.postgres, reader.postgres_indexed)]
    before, took_ms, answers = sum(ticks(pid) for pid in pids), [], []
    for question in asked:
        began = time.perf_counter()
        answers.append(search.nearest(question, **limits))  # type: ignore[arg-type]
        took_ms.append((time.perf_counter() - began) * 1000)
    cpu_ms = (sum(ticks(pid) for pid in pids) - before) * _TICKS_MS / len(asked)
    recalls = [
        _recall(passages, question, answer.hits, passing) for question, answer in zip(asked, answers, strict=True)
    ]
    return {
        "recall_at_10": round(statistics.mean(recalls), 4),
        "cpu_ms": round(cpu_ms, 2),
        "p50_ms": round(statistics.median(took_ms), 2),
        "searches_per_s_at_8": _together(search, asked, limits),
        "methods": _counted([answer.guard.method for answer in answers]),
    }


def _recall(passages: Matrix, question: Matrix, hits: Sequence[tuple[Any, float]], passing: Any) -> float:
    """Return the share of the ten best that have the score of one of the ten best, as halves of numbers are rounded."""
    scores = np.where(passing, passages @ question, -2.0)
    tenth = np.partition(scores, -_JUDGED)[-_JUDGED] - _TIE * 20
    return sum(bool(score >= tenth) for _, score in hits[:_JUDGED]) / _JUDGED


def _together(search: Any, asked: Matrix, limits: Mapping[str, Any]) -> float:
    """Return the searches a second of eight threads."""
    ends = time.perf_counter() + _AT_ONCE_S

    def ask(number: int) -> int:
        count = 0
        while time.perf_counter() < ends:
            search.nearest(asked[(number * 17 + count) % len(asked)], **limits)
            count += 1
        return count

    with ThreadPoolExecutor(AT_ONCE) as threads:
        return round(sum(threads.map(ask, range(AT_ONCE))) / _AT_ONCE_S, 1)


def _counted(methods: Sequence[str]) -> dict[str, int]:
    return {method: methods.count(method) for method in sorted(set(methods))}


@contextmanager
def _quiet() -> Iterator[None]:
    yield


@contextmanager
def _writing(moved: Settings, texts: _Texts) -> Iterator[None]:
    """Write a vector again every fifth of a second, which moves it out of the indexed ranges."""
    use, ended = Resources(moved, timeout_s=60.0), threading.Event()

    def write() -> None:
        number = 0
        while not ended.wait(_WRITES_S):
            fill(
                use,
                _TENANT,
                texts.passages[number : number + 1],
                namespace=_NAMESPACE,
                metadata=texts.metadata,
                first=number,
                resized=len(texts.passages),
            )
            number += 1

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        use.close()


def show(results: dict[str, Any]) -> str:
    """Return the section as a table."""
    heads = ("texts, passages, index, filter", "recall@10", "CPU ms", "p50 ms", "searches/s at 8", "ms a vector", "MB")
    lines = [
        table.row(
            f"{row['texts']}, {row['chunks']:,}, {row['index']}, {name}",
            *(cell[figure] for figure in ("recall_at_10", "cpu_ms", "p50_ms", "searches_per_s_at_8")),
            row.get("build_ms_a_vector", ""),
            row.get("index_mb", ""),
        )
        for row in results["rows"]
        for name, cell in row["cells"].items()
    ]
    return f"lists and graphs\n{table.table(heads, lines)}"
