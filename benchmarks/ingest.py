"""Section `ingest`: documents through the gateway with real workers, and the raw floor in the same run."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

import httpx

from benchmarks import floor
from benchmarks.corpus import MAX_TOKENS, Text
from benchmarks.processes import cpu_seconds, peak_mb, used
from benchmarks.rows import prepare
from benchmarks.table import row, table

_CLIENTS = ("gateway", "worker-ingest", "worker-upkeep", "beat")
_MOST_DOCUMENTS = 10_000
_LONGEST_S = 1800.0
_WALL_GOAL, _CPU_GOAL_MS, _PEER_GOAL = 0.8, 0.6, 6.0


def run(texts: Sequence[Text], *, namespace: str, peers: bool) -> dict[str, Any]:
    """Measure the floor, the product and, if requested and installable, the peer. Return the content of the results
    file."""
    prepared = prepare(texts, tenant_id="demo", namespace=namespace)
    chunks = len(prepared.chunks)
    print(f"ingest: {len(texts)} documents, {chunks} chunks; measuring the floor", flush=True)
    floors = floor.measure(prepared)
    print("ingest: the product", flush=True)
    ours = product(texts, namespace)
    if ours["chunks"] != chunks:
        raise SystemExit(f"ingest: {ours['chunks']} chunks went in, {chunks} were prepared")
    ours |= {
        "parse_ms_per_chunk": round(prepared.parse_ms, 4),
        "embed_ms_per_chunk": round(prepared.embed_ms, 4),
        "client_cpu_ms_per_chunk": round(
            ours["client_cpu_ms_per_chunk_in_all"] - prepared.parse_ms - prepared.embed_ms, 4
        ),
    }
    found: dict[str, Any] = {"documents": len(texts), "chunks": chunks, "floor": floors, "product": ours}
    best = max(each["chunks_per_s"] for each in floors)
    found["ratio_to_floor"] = round(ours["chunks_per_s"] / best, 3)
    # The parts that the floor excludes and no product can: parsing and embedding, spread over all processors.
    preparing_s = (prepared.parse_ms + prepared.embed_ms) / 1000 / (os.cpu_count() or 1)
    found["floor_with_preparation_chunks_per_s"] = round(1 / (1 / best + preparing_s), 1)
    found["ratio_to_floor_with_preparation"] = round(
        ours["chunks_per_s"] / found["floor_with_preparation_chunks_per_s"], 3
    )
    found["goals"] = {
        "ratio_to_floor": _WALL_GOAL,
        "client_cpu_ms_per_chunk": _CPU_GOAL_MS,
        "ratio_to_peer": _PEER_GOAL,
    }
    if peers:
        from benchmarks import langchain

        print("ingest: LangChain's PGVectorStore", flush=True)
        found["langchain"] = peer = langchain.measure([chunk.embedding_text for chunk in prepared.chunks])
        if "chunks_per_s" in peer:
            found["ratio_to_peer"] = round(ours["chunks_per_s"] / peer["chunks_per_s"], 2)
    return found


def product(texts: Sequence[Text], namespace: str) -> dict[str, Any]:
    """Send every document, wait until the last job ends, and return the cost."""
    before, began = cpu_seconds(), time.perf_counter()
    with gateway() as client:
        jobs = []
        for start in range(0, len(texts), _MOST_DOCUMENTS):
            body = {
                "namespace": namespace,
                "chunking": {"max_tokens": MAX_TOKENS},
                "documents": [text.as_json() for text in texts[start : start + _MOST_DOCUMENTS]],
            }
            accepted = client.post("/v1/documents", json=body)
            accepted.raise_for_status()
            jobs.append(str(accepted.json()["job_id"]))
        accepted_s = time.perf_counter() - began
        ended = [finished(client, job_id) for job_id in jobs]
    wall_s = time.perf_counter() - began
    spent = used(before, cpu_seconds())
    chunks = sum(job["chunks"] for job in ended)
    if any(job["status"] != "succeeded" for job in ended):
        raise SystemExit(f"ingest: not every document went in: {[job['status'] for job in ended]}")
    peak = peak_mb()
    return {
        "chunks": chunks,
        "wall_s": round(wall_s, 3),
        "accepted_s": round(accepted_s, 3),
        "chunks_per_s": round(chunks / wall_s, 1),
        "client_cpu_ms_per_chunk_in_all": round(sum(spent.get(name, 0.0) for name in _CLIENTS) * 1000 / chunks, 4),
        "cpu_s": spent,
        "peak_mb": {name: round(peak[name], 1) for name in sorted(peak)},
    }


def gateway() -> httpx.Client:
    """Return the stack's gateway with the key of its first tenant."""
    headers = {"Authorization": f"Bearer {os.environ['CHORDWISE_API_KEY']}"}
    return httpx.Client(base_url=os.environ["CHORDWISE_URL"], headers=headers, timeout=120)


def finished(client: httpx.Client, job_id: str) -> dict[str, Any]:
    """Return the job once it has ended."""
    ends = time.monotonic() + _LONGEST_S
    while time.monotonic() < ends:
        job: dict[str, Any] = client.get(f"/v1/jobs/{job_id}", params={"wait": 10}).json()
        if job["finished_at"] is not None:
            return job
    raise SystemExit(f"ingest: job {job_id} did not end within {_LONGEST_S:.0f} s")


def show(found: dict[str, Any]) -> str:
    """Return the section as a table."""
    ours = found["product"]
    rows = [
        row(
            f"raw floor, {each['mysql_connections']} MySQL connection(s)",
            each["chunks_per_s"],
            each["client_cpu_ms_per_chunk"],
            "",
        )
        for each in found["floor"]
    ]
    rows.append(row("raw floor + preparation on all processors", found["floor_with_preparation_chunks_per_s"], "", ""))
    memory = ours["peak_mb"]
    rows.append(
        row(
            "Chordwise",
            ours["chunks_per_s"],
            ours["client_cpu_ms_per_chunk"],
            f"gateway {memory.get('gateway', 0):.0f}, worker {memory.get('worker-ingest', 0):.0f}",
        )
    )
    peer = found.get("langchain", {})
    if "chunks_per_s" in peer:
        for name, each in (("HNSW", peer), ("no vector index", peer["exact"])):
            cells = (each["chunks_per_s"], each["client_cpu_ms_per_chunk"], f"{each['peak_mb']:.0f}")
            rows.append(row(f"LangChain PGVectorStore, {name}", *cells))
    elif peer:
        rows.append(row(f"LangChain: {peer['skipped']}", "", "", ""))
    lines = table(("", "chunks/s", "client CPU ms/chunk", "peak MB"), rows)
    ratio = (
        f"{found['ratio_to_floor']:.2f} of the floor's rate (goal {_WALL_GOAL}),"
        f" {found['ratio_to_floor_with_preparation']:.2f} of what it is with parsing and embedding"
    )
    beside = f"; {found['ratio_to_peer']:.1f} times LangChain's (goal {_PEER_GOAL})" if "ratio_to_peer" in found else ""
    cost = (
        f"CPU without parsing ({ours['parse_ms_per_chunk']:.2f} ms) and embedding ({ours['embed_ms_per_chunk']:.2f} ms):"
        f" {ours['client_cpu_ms_per_chunk']:.2f} ms a chunk (goal {_CPU_GOAL_MS})"
    )
    return "\n".join((lines, ratio + beside, cost))
