"""Sections `growth` and `writes`: the speed of queries and ingestion as a namespace grows, beside writes, filters and
tenants."""

from __future__ import annotations

import statistics
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter
from typing import Any

import httpx

from benchmarks import exact
from benchmarks.asking import AT_ONCE, Asker, Writer, agreement, cell
from benchmarks.corpus import Corpus, Text, paragraphs, questions
from benchmarks.ingest import gateway, ingest
from benchmarks.operation import another_tenant
from benchmarks.processes import cpu_seconds, disk_mb, peak_mb, used
from benchmarks.products import peers
from benchmarks.query import Bare, cpu, measured, times
from benchmarks.table import row, table

SIZES, LARGE, QUICK = (26_000, 200_000), 1_000_000, (3_000,)
_TENANT = "demo"
_OTHERS, _NAMESPACES, _MOST_ASKED = 50, 200, 32  # the most namespaces in a query
_SENT_AT_ONCE = 5_000  # documents
_LAST = 6_000  # chunks over which the rate at a size is measured
_KEPT = 4_000  # documents that questions are made of and that are replaced
_BARE = 40  # questions to the bare statements, which are slow on large tables: a quarter of them at `LARGE`
_CHECKED = 60  # questions whose lists are compared with exact ones
_FIRST_S = 60.0  # after a load: half of it one at a time, half of it eight at a time
_SEALED_WITHIN_S = 900.0


@dataclass(slots=True)
class _Namespace:
    """A namespace that grows, and some of its documents."""

    client: httpx.Client
    tenant_id: str
    name: str
    corpus: Corpus
    chunks: int = 0
    texts: list[Text] = field(default_factory=list)

    def grow(self, chunks: int) -> float:
        """Ingest until there are ``chunks``. Return the chunks ingested per second."""
        began, before = time.perf_counter(), self.chunks
        while self.chunks < chunks:
            some = self.corpus.take(min(chunks - self.chunks, _SENT_AT_ONCE * 3))
            ingest(self.client, self.name, [text.as_json() for text in some])
            self.chunks += sum(text.paragraphs for text in some)
            self.texts = (some[:: max(1, len(some) // 500)] + self.texts)[:_KEPT]
        return round((self.chunks - before) / (time.perf_counter() - began), 1)

    def asker(self, **more: Any) -> Asker:
        """Return a client for this namespace."""
        return Asker(self.client, self.tenant_id, [self.name], **more)


def run(
    *, sizes: Sequence[int], seed: int, count: int, compared: bool, keep: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    """Measure a namespace at each size; at the first one also other tenants beside it, many namespaces, and the peers.

    ``keep`` receives the results after each size, so that an interrupted run keeps them.
    """
    big = _Namespace(gateway(), _TENANT, f"growth-{uuid.uuid4().hex[:8]}", Corpus(seed=seed))
    results: dict[str, Any] = {"queries": count, "checked": _CHECKED, "sizes": {}}
    results["empty_chunks_per_s"] = big.grow(min(_LAST, sizes[0]))
    for size in sizes:
        print(f"growth: {size:,} chunks", flush=True)
        results["sizes"][str(size)] = at_size = _at_size(big, size, seed=seed, count=count)
        is_first, texts = size == sizes[0], list[str]()
        if compared and (is_first or size < LARGE):
            texts = paragraphs(Corpus(seed=seed).take(size))
        if is_first:
            at_size["cells"] |= _beside_others(big, size, seed=seed, count=count)
            if texts:
                asked = questions(big.texts, count=count, seed=seed)
                at_size["peers"] = peers.measure(texts, asked, pool=100, top=exact.TOP, concurrency=(1, AT_ONCE))
        if texts and size < LARGE:
            added = paragraphs(Corpus(seed=seed + 1).take(_LAST))
            at_size["langchain"] = peers.measure_langchain(added, into=texts)
        keep(results)
    return results


def writes(*, chunks: int, seed: int, count: int, rounds: int = 3) -> dict[str, Any]:
    """Measure alternately without changes and with one document replaced every second."""
    space = _Namespace(gateway(), _TENANT, f"writes-{uuid.uuid4().hex[:8]}", Corpus(seed=seed))
    space.grow(chunks)
    _settle()
    asked, asker = questions(space.texts, count=count, seed=seed), space.asker()
    writer = Writer(space.client, space.name, space.texts)
    turns: list[dict[str, Any]] = []
    for turn in range(rounds):
        print(f"writes: round {turn + 1} of {rounds}", flush=True)
        still = cell(asker, asked, checked=0)
        with writer.writing():
            changing = cell(asker, asked, checked=_CHECKED)
        still.pop("first_tens")
        turns.append({"still": still, "one replacement a second": _checked(changing, asker, asked)})
    return {"chunks": chunks, "queries": count, "rounds": turns, "searchable_s": _median(writer.searchable_s)}


def _at_size(space: _Namespace, size: int, *, seed: int, count: int) -> dict[str, Any]:
    space.grow(max(space.chunks, size - _LAST))
    rate = space.grow(size)
    asked, asker = questions(space.texts, count=count, seed=seed), space.asker()
    figures: dict[str, Any] = {"chunks_per_s": rate, "first": _first(asker, asked), "sealed_after_s": _settle()}
    tagged = space.asker(tagged=True)
    cells = {"still": cell(asker, asked, checked=_CHECKED)}
    cells["tag of 10 %"] = cell(tagged, asked, checked=_CHECKED)
    writer = Writer(space.client, space.name, space.texts)
    with writer.writing():
        cells["one replacement a second"] = cell(asker, asked, checked=_CHECKED)
    bare = Bare(asked[: _BARE if size < LARGE else _BARE // 4], space.name)
    figures["bare"] = {str(many): measured(bare.ask, range(bare.questions), many) for many in (1, AT_ONCE)}
    return figures | {
        "cells": {
            name: _checked(measurement, tagged if name == "tag of 10 %" else asker, asked)
            for name, measurement in cells.items()
        },
        "searchable_s": _median(writer.searchable_s),
        "disk_mb": {name: round(size_mb) for name, size_mb in disk_mb().items()},
        "peak_mb": {name: round(most) for name, most in peak_mb().items()},
    }


def _beside_others(big: _Namespace, size: int, *, seed: int, count: int) -> dict[str, Any]:
    """Add fifty tenants with as many chunks as the big one together, and a tenant of two hundred namespaces."""
    print(f"growth: {_OTHERS} tenants beside it", flush=True)
    others = [_another(Corpus(seed=seed + 1 + number)) for number in range(_OTHERS)]
    for other in others:
        other.grow(size // _OTHERS)
    _settle()
    cells = {
        name: _cell(space.asker(), questions(space.texts, count=count, seed=seed))
        for name, space in (("tenant of 50 %", big), ("tenant of 1 %", others[0]))
    }
    print(f"growth: {_NAMESPACES} namespaces of one tenant", flush=True)
    many = _another(Corpus(seed=seed + 1000))
    names, texts = [], []
    for number in range(_NAMESPACES):
        many.name, many.chunks = f"n{number:03d}", 0
        many.grow(max(5, size // _NAMESPACES))
        names.append(many.name)
        texts.append(many.texts[0])
    _settle()
    asked = questions(texts[:_MOST_ASKED], count=count, seed=seed)
    for number in (1, _MOST_ASKED):
        asker = Asker(many.client, many.tenant_id, names[:number])
        cells[f"{number} of {_NAMESPACES} namespaces"] = _cell(asker, asked)
    return cells


def _another(corpus: Corpus) -> _Namespace:
    tenant_id, client = another_tenant()
    return _Namespace(client, tenant_id, "kb", corpus)


def _cell(asker: Asker, asked: Sequence[str]) -> dict[str, Any]:
    return _checked(cell(asker, asked, checked=_CHECKED), asker, asked)


def _checked(measurement: dict[str, Any], asker: Asker, asked: Sequence[str]) -> dict[str, Any]:
    """Return a cell with its agreement with the exact lists instead of the ids."""
    lists = exact.lists(asker.tenant_id, asker.namespaces, asked[:_CHECKED], tagged=asker.tagged)
    return measurement | agreement(measurement.pop("first_tens"), lists)


def _first(asker: Asker, asked: Sequence[str]) -> dict[str, Any]:
    """Ask one at a time and then eight at a time in the first minute after a load."""
    before = asker.degraded
    alone = _ask_for(_FIRST_S / 2, asker, asked)
    between = asker.degraded
    with ThreadPoolExecutor(AT_ONCE) as threads:
        runs = threads.map(lambda number: _ask_for(_FIRST_S / 2, asker, asked[number:]), range(AT_ONCE))
        together = list(chain.from_iterable(runs))
    return {
        "p50_ms": _median(alone),
        "queries": len(alone),
        "degraded": between - before,
        "p50_ms_at_8": _median(together),
        "queries_at_8": len(together),
        "degraded_at_8": asker.degraded - between,
    }


def _ask_for(seconds: float, asker: Asker, asked: Sequence[str]) -> list[float]:
    """Return the milliseconds of each query that was asked within the time."""
    latencies_ms: list[float] = []
    ends = time.perf_counter() + seconds
    while (began := time.perf_counter()) < ends:
        asker.ask(asked[len(latencies_ms) % len(asked)])
        latencies_ms.append((time.perf_counter() - began) * 1000)
    return latencies_ms


def _settle() -> float:
    """Wait until the stack is idle. Return the seconds this took."""
    began, calm = time.perf_counter(), 0
    while calm < 3 and time.perf_counter() - began < _SEALED_WITHIN_S:
        before = cpu_seconds()
        time.sleep(5)
        busy = sum(used(before, cpu_seconds()).values()) / 5
        calm = calm + 1 if busy < 0.3 else 0
    return round(time.perf_counter() - began, 1)


def _median(values: Sequence[float]) -> float:
    return round(statistics.median_high(values), 3) if values else 0.0


def show(results: dict[str, Any]) -> str:
    """Return the section `growth` as two tables."""
    quality = itemgetter("keyword_top_10", "vector_recall_10", "degraded")
    rows = [
        row(f"{int(size):,}, {name}", *times(figures), *quality(figures))
        for size, at in results["sizes"].items()
        for name, figures in at["cells"].items()
    ]
    rows += [
        row(f"{int(size):,}, {name}", one["p50_ms"], one["p95_ms"], many["queries_per_s"], cpu(many), "", "", "")
        for size, at in results["sizes"].items()
        for name, by_number in _beside(at)
        if (one := by_number["1"]) and (many := by_number.get(str(AT_ONCE), by_number["1"]))
    ]
    heads = ("chunks", "p50 ms", "p95 ms", "queries/s at 8", "CPU ms", "BM25's ten", "recall@10", "degraded")
    sizes = [
        row(
            f"{int(size):,}",
            *(at["chunks_per_s"], at["first"]["p50_ms"], at["first"]["p50_ms_at_8"]),
            at["first"]["degraded"] + at["first"]["degraded_at_8"],
            *(at["sealed_after_s"], at["searchable_s"]),
            *(float(sum(at[name].values())) for name in ("disk_mb", "peak_mb")),
        )
        for size, at in results["sizes"].items()
    ]
    sizes.insert(0, row("into an empty one", results["empty_chunks_per_s"], *[""] * 7))
    sizes += [
        row(f"LangChain PGVectorStore, HNSW of {peer.get('into', 0):,}", peer["chunks_per_s"], *[""] * 7)
        for at in results["sizes"].values()
        if "chunks_per_s" in (peer := at.get("langchain", {}))
    ]
    at_size = ("chunks", "chunks/s", "first p50 ms", "at 8", "degraded", "quiet after s", "replaced in s")
    return f"{table(heads, rows)}\n\n{table((*at_size, 'disk MB', 'memory MB'), sizes)}"


def _beside(at: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each other product, and its figures by concurrency."""
    yield "bare statements", at["bare"]
    for peer, shapes in at.get("peers", {}).items():
        if "skipped" not in shapes:
            for where, by_number in shapes.items():
                yield f"{peer}, words in {where}", by_number


def show_writes(results: dict[str, Any]) -> str:
    """Return the section `writes` as a table, and the ratio of each round."""
    rows = [
        row(f"round {number}, {name}", *times(figures), figures["degraded"])
        for number, turn in enumerate(results["rounds"], start=1)
        for name, figures in turn.items()
    ]
    ratios = ", ".join(
        f"{turn['one replacement a second']['queries_per_s'] / turn['still']['queries_per_s']:.2f}"
        for turn in results["rounds"]
    )
    last = f"queries/s with writes, of those without: {ratios}; a replacement is searchable after"
    heads = ("", "p50 ms", "p95 ms", "queries/s at 8", "CPU ms", "degraded")
    return f"{table(heads, rows)}\n{last} {results['searchable_s']} s"
