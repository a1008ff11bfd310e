"""`python -m benchmarks [SECTION…] [--quick]`: measure, print, write `benchmarks/results/*.json`."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import (
    corpus,
    curves,
    growth,
    ingest,
    keyword,
    keyword_large,
    lanes,
    migration,
    operation,
    query,
    semantic,
)

_RESULTS = Path(__file__).parent / "results"
_SECTIONS = ("ingest", "query", "semantic")
_ON_REQUEST = ("growth", "index", "keyword", "lanes", "migration", "operation", "writes")
_WITHOUT_CORPUS = {"growth", "index", "keyword", "operation", "semantic", "writes"}
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
    texts = corpus.documents(chunks=chunks, seed=chosen.seed) if set(sections) - _WITHOUT_CORPUS else []
    if unknown := set(sections) - {*_SECTIONS, *_ON_REQUEST}:
        print(
            f"unknown section {', '.join(sorted(unknown))}; the sections are: {', '.join((*_SECTIONS, *_ON_REQUEST))}",
            file=sys.stderr,
        )
        return 2
    about = {
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{platform.machine()}, {os.cpu_count()} processors, Python {platform.python_version()}",
        "seed": chosen.seed,
        "quick": chosen.quick,
    }
    namespace = f"bench-{uuid.uuid4().hex[:8]}"
    if "operation" in sections:
        found = operation.run(quick=chosen.quick)
        _keep("operation", about | found)
        print(operation.show(found), flush=True)
    if "keyword" in sections:
        found = keyword.run(quick=chosen.quick)
        _keep("keyword", about | found)
        print(keyword.show(found), flush=True)
    if "index" in sections:
        sizes = (
            keyword_large.QUICK
            if chosen.quick
            else (*keyword_large.SIZES, *((keyword_large.LARGE,) if chosen.large else ()))
        )
        found = keyword_large.run(sizes=sizes)
        _keep("index", about | found)
        print(keyword_large.show(found), flush=True)
    if "ingest" in sections:
        found = ingest.run(texts, namespace=namespace, peers=not chosen.no_peers)
        _keep("ingest", about | found)
        print(ingest.show(found), flush=True)
    elif set(sections) - _WITHOUT_CORPUS:
        ingest.product(texts, namespace)
    if "query" in sections:
        found = query.run(
            texts,
            namespace=namespace,
            seed=chosen.seed,
            count=_QUICK_QUERIES if chosen.quick else _QUERIES,
            compared=not chosen.no_peers,
        )
        _keep("query", about | found)
        print(query.show(found), flush=True)
    if "lanes" in sections:
        found = lanes.run(
            texts, namespace=namespace, seed=chosen.seed, count=_QUICK_QUERIES if chosen.quick else _LANE_QUERIES
        )
        _keep("lanes", about | found)
        print(lanes.show(found), flush=True)
    if "semantic" in sections:
        found = semantic.run(seed=chosen.seed, quick=chosen.quick)
        _keep("semantic", about | found)
        print(semantic.show(found), flush=True)
    if "growth" in sections:
        sizes = growth.QUICK if chosen.quick else (*growth.SIZES, *((growth.LARGE,) if chosen.large else ()))
        found = growth.run(
            sizes=(chosen.chunks,) if chosen.chunks else sizes,
            seed=chosen.seed,
            count=_QUICK_QUERIES if chosen.quick else _GROWTH_QUERIES,
            compared=not chosen.no_peers,
            keep=lambda so_far: _keep("growth", about | so_far),
        )
        (_RESULTS / "growth.svg").write_text(curves.picture(found))
        print(growth.show(found), flush=True)
    if "writes" in sections:
        found = growth.writes(
            chunks=chunks, seed=chosen.seed, count=_QUICK_QUERIES if chosen.quick else _GROWTH_QUERIES
        )
        _keep("writes", about | found)
        print(growth.show_writes(found), flush=True)
    if "migration" in sections:
        found = migration.run(texts, namespace=namespace, seed=chosen.seed)
        _keep("migration", about | found)
        print(migration.show(found), flush=True)
    return 0


def _keep(section: str, found: dict[str, Any]) -> None:
    _RESULTS.mkdir(exist_ok=True)
    (_RESULTS / f"{section}.json").write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "sections",
        nargs="*",
        help="ingest, query, semantic, growth, index, keyword, lanes, migration, operation, writes; default: the first three",
    )
    parser.add_argument("--quick", action="store_true", help=f"{_QUICK_CHUNKS:,} chunks instead of {_CHUNKS:,}")
    parser.add_argument("--chunks", type=int, help="another number of chunks")
    parser.add_argument(
        "--large",
        action="store_true",
        help=f"growth: also {growth.LARGE:,} chunks; index: {keyword_large.LARGE:,}",
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-peers", action="store_true", help="do not install and measure other products")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
