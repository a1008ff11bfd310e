"""`python -m benchmarks [SECTION…] [--quick]`: measure, print, write `benchmarks/results/*.json`."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import (
    batches,
    console,
    corpus,
    curves,
    graphs,
    growth,
    hosts,
    ingest,
    keyword_index,
    lanes,
    migration,
    operation,
    parsers,
    paths,
    price,
    query,
    schema_changes,
    semantic,
    words_kept,
)

_RESULTS = Path(__file__).parent / "results"
_SECTIONS = ("ingest", "query", "semantic")
_ON_REQUEST = (
    "batches",
    "console",
    "graphs",
    "growth",
    "hosts",
    "index",
    "lanes",
    "migration",
    "operation",
    "parsers",
    "paths",
    "price",
    "schema",
    "writes",
)
_WITHOUT_CORPUS = {
    "console",
    "graphs",
    "growth",
    "hosts",
    "index",
    "operation",
    "parsers",
    "paths",
    "schema",
    "semantic",
    "writes",
}
_CHUNKS, _QUICK_CHUNKS = 25_000, 3_000
_QUERIES, _QUICK_QUERIES = 400, 100
_GROWTH_QUERIES = 200  # of each cell, one at a time and eight at a time
_LANE_QUERIES = 200  # in each of four rounds


def main(arguments: list[str]) -> int:
    """Run the requested sections. Exit code 0 when all were measured, 2 without a stack."""
    chosen = _parser().parse_args(arguments)
    if "CHORDWISE_STACK_DIR" not in os.environ:
        print("the benchmark needs a stack of its own: run it with make bench", file=sys.stderr)
        return 2
    chunks = chosen.chunks or (_QUICK_CHUNKS if chosen.quick else _CHUNKS)
    sections = chosen.sections or _SECTIONS
    if unknown := set(sections) - {*_SECTIONS, *_ON_REQUEST}:
        allowed = ", ".join((*_SECTIONS, *_ON_REQUEST))
        print(f"unknown section {', '.join(sorted(unknown))}; the sections are: {allowed}", file=sys.stderr)
        return 2
    judged: list[str] = []
    texts: list[corpus.Text] = []
    if chosen.folder and {"batches", "price"} & set(sections):
        texts, judged = corpus.of_collection(chosen.folder)
    elif set(sections) - _WITHOUT_CORPUS:
        texts = corpus.documents(chunks=chunks, seed=chosen.seed)
    about = {
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{platform.machine()}, {os.cpu_count()} processors, Python {platform.python_version()}",
        "seed": chosen.seed,
        "quick": chosen.quick,
    }
    namespace, seed, peers = f"bench-{uuid.uuid4().hex[:8]}", chosen.seed, not chosen.no_peers

    def count(full: int) -> int:
        return _QUICK_QUERIES if chosen.quick else full

    def sizes(section: Any) -> tuple[int, ...]:
        return section.QUICK if chosen.quick else (*section.SIZES, *((section.LARGE,) if chosen.large else ()))

    def store(section: str, results: dict[str, Any]) -> None:
        _RESULTS.mkdir(exist_ok=True)
        content = json.dumps(about | results, indent=1, ensure_ascii=False)
        (_RESULTS / f"{section}.json").write_text(f"{content}\n")

    def report(section: str, results: dict[str, Any], show: Callable[[dict[str, Any]], str]) -> None:
        store(section, results)
        print(show(results), flush=True)

    if "operation" in sections:
        report("operation", operation.run(quick=chosen.quick), operation.show)
    if "console" in sections:
        report("console", console.run(quick=chosen.quick), console.show)
    if "parsers" in sections:
        if chosen.folder:
            report("parsers", words_kept.run(chosen.folder), words_kept.show)
        else:
            report("parsers", parsers.run(), parsers.show)
    if "paths" in sections:
        report("paths", paths.run(), paths.show)
    if "index" in sections:
        report("index", keyword_index.run(sizes=sizes(keyword_index)), keyword_index.show)
    if "ingest" in sections:
        report("ingest", ingest.run(texts, namespace=namespace, peers=peers), ingest.show)
    elif texts:
        ingest.product(texts, namespace, None if judged else ingest.CHUNKING)
    if "query" in sections:
        results = query.run(texts, namespace=namespace, seed=seed, count=count(_QUERIES), compared=peers)
        report("query", results, query.show)
    if "price" in sections:
        results = price.run(texts, namespace=namespace, seed=seed, count=count(_QUERIES), judged=judged)
        report("price", results, price.show)
    if "batches" in sections:
        results = batches.run(texts, namespace=namespace, seed=seed, count=count(_QUERIES), judged=judged)
        report("batches", results, batches.show)
    if "lanes" in sections:
        report("lanes", lanes.run(texts, namespace=namespace, seed=seed, count=count(_LANE_QUERIES)), lanes.show)
    if "semantic" in sections:
        report("semantic", semantic.run(seed=seed, quick=chosen.quick), semantic.show)
    if "graphs" in sections:
        measured = (chosen.chunks,) if chosen.chunks else sizes(graphs)
        report(
            "graphs",
            graphs.run(folder=chosen.folder, sizes=measured, seed=seed, keep=partial(store, "graphs")),
            graphs.show,
        )
    if "growth" in sections:
        results = growth.run(
            sizes=(chosen.chunks,) if chosen.chunks else sizes(growth),
            seed=seed,
            count=count(_GROWTH_QUERIES),
            compared=peers,
            keep=partial(store, "growth"),
        )
        (_RESULTS / "growth.svg").write_text(curves.picture(results))
        print(growth.show(results), flush=True)
    if "schema" in sections:
        report("schema", schema_changes.run(quick=chosen.quick, seed=chosen.seed), schema_changes.show)
    if "writes" in sections:
        results = growth.writes(chunks=chunks, seed=seed, count=count(_GROWTH_QUERIES))
        report("writes", results, growth.show_writes)
    if "migration" in sections:
        report("migration", migration.run(texts, namespace=namespace, seed=seed), migration.show)
    if "hosts" in sections:
        report("hosts", hosts.run(seed=seed, quick=chosen.quick, keep=partial(store, "hosts")), hosts.show)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "sections",
        nargs="*",
        help=f"{', '.join((*_SECTIONS, *_ON_REQUEST))}; default: the first three",
    )
    parser.add_argument("--quick", action="store_true", help=f"{_QUICK_CHUNKS:,} chunks instead of {_CHUNKS:,}")
    parser.add_argument("--chunks", type=int, help="another number of chunks")
    parser.add_argument(
        "--large",
        action="store_true",
        help=f"growth, graphs: also {growth.LARGE:,} chunks; index: {keyword_index.LARGE:,}",
    )
    parser.add_argument("--seed", type=int, default=1)
    of_folder = (
        "parsers: its PDF files and Word documents, for the words kept; graphs: its judged collections and texts;"
        " batches, price: a judged collection instead of the synthetic documents"
    )
    parser.add_argument("--folder", type=Path, help=of_folder)
    parser.add_argument("--no-peers", action="store_true", help="do not install and measure other products")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
