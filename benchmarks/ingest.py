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
from benchmarks.products.peers import measure_langchain
from benchmarks.table import row, table

_CLIENTS = ("gateway", "worker-ingest", "worker-upkeep")
CHUNKING = {"max_tokens": MAX_TOKENS}
_MOST_DOCUMENTS = 10_000
_LONGEST_S = 1800.0
_WALL_GOAL, _CPU_GOAL_MS, _PEER_GOAL = 0.8, 0.6, 6.0


def run(texts: Sequence[Text], *, namespace: str, peers: bool) -> dict[str, Any]:
    """Measure the floor, the product and, if requested and installable, the peer. Return the results file's content."""
    prepared = floor.prepare(texts, tenant_id="demo", namespace=namespace)
    chunks, preparation_ms = len(prepared.chunks), prepared.parse_ms + prepared.embed_ms
    print(f"ingest: {len(texts)} documents, {chunks} chunks; measuring the floor", flush=True)
    floors = floor.measure(prepared)
    print("ingest: the product", flush=True)
    ours = product(texts, namespace)
    if ours["chunks"] != chunks:
        raise SystemExit(f"ingest: {ours['chunks']} chunks went in, {chunks} were prepared")
    ours |= {
        "parse_ms_per_chunk": round(prepared.parse_ms, 4),
        "embed_ms_per_chunk": round(prepared.embed_ms, 4),
        "client_cpu_ms_per_chunk": round(ours["client_cpu_ms_per_chunk_in_all"] - preparation_ms, 4),
    }
    best = max(figures["chunks_per_s"] for figures in floors)
    # The parts that the floor excludes and no product can: parsing and embedding, spread over all processors.
    with_preparation = round(1 / (1 / best + preparation_ms / 1000 / (os.cpu_count() or 1)), 1)
    results: dict[str, Any] = {
        "documents": len(texts),
        "chunks": chunks,
        "floor": floors,
        "product": ours,
        "ratio_to_floor": round(ours["chunks_per_s"] / best, 3),
        "floor_with_preparation_chunks_per_s": with_preparation,
        "ratio_to_floor_with_preparation": round(ours["chunks_per_s"] / with_preparation, 3),
        "goals": {
            "ratio_to_floor": _WALL_GOAL,
            "client_cpu_ms_per_chunk": _CPU_GOAL_MS,
            "ratio_to_peer": _PEER_GOAL,
        },
    }
    if peers:
        print("ingest: LangChain's PGVectorStore", flush=True)
        results["langchain"] = peer = measure_langchain([chunk.embedding_text for chunk in prepared.chunks])
        if "chunks_per_s" in peer:
            results["ratio_to_peer"] = round(ours["chunks_per_s"] / peer["chunks_per_s"], 2)
    return results


def product(texts: Sequence[Text], namespace: str, chunking: dict[str, Any] | None = CHUNKING) -> dict[str, Any]:
    """Send every document, wait until the last job ends, and return the cost. ``chunking`` None: as users get it by default."""
    before, began = cpu_seconds(), time.perf_counter()
    with gateway() as client:
        batches = [texts[start : start + _MOST_DOCUMENTS] for start in range(0, len(texts), _MOST_DOCUMENTS)]
        job_ids = [submit(client, namespace, [text.as_json() for text in batch], chunking) for batch in batches]
        accepted_s = time.perf_counter() - began
        jobs = [finished(client, job_id) for job_id in job_ids]
    wall_s = time.perf_counter() - began
    cpu_s, peaks = used(before, cpu_seconds()), peak_mb()
    if any(job["status"] != "succeeded" for job in jobs):
        raise SystemExit(f"ingest: not every document went in: {[job['status'] for job in jobs]}")
    chunks = sum(job["chunks"] for job in jobs)
    return {
        "chunks": chunks,
        "wall_s": round(wall_s, 3),
        "accepted_s": round(accepted_s, 3),
        "chunks_per_s": round(chunks / wall_s, 1),
        "client_cpu_ms_per_chunk_in_all": round(sum(cpu_s.get(name, 0.0) for name in _CLIENTS) * 1000 / chunks, 4),
        "cpu_s": cpu_s,
        "peak_mb": {name: round(peaks[name], 1) for name in sorted(peaks)},
    }


def gateway(key: str = "", *, timeout_s: float = 120) -> httpx.Client:
    """Return a client of the stack's gateway, with the key of its first tenant if no other is given."""
    headers = {"Authorization": f"Bearer {key or os.environ['CHORDWISE_API_KEY']}"}
    return httpx.Client(base_url=os.environ["CHORDWISE_URL"], headers=headers, timeout=timeout_s)


def operator() -> httpx.Client:
    """Return a client of the stack's gateway with the operator's key."""
    return gateway(os.environ["CHORDWISE_ADMIN_KEY"], timeout_s=600)


def submit(
    client: httpx.Client,
    namespace: str,
    documents: Sequence[dict[str, Any]],
    chunking: dict[str, Any] | None = None,
) -> str:
    """Send documents as one job and return its id."""
    body = {"namespace": namespace, "documents": documents} | ({"chunking": chunking} if chunking else {})
    return str(client.post("/v1/documents", json=body).raise_for_status().json()["job_id"])


def ingest(client: httpx.Client, namespace: str, documents: Sequence[dict[str, Any]]) -> None:
    """Send documents and wait until they are searchable; stop the benchmark if one fails."""
    job = finished(client, submit(client, namespace, documents, CHUNKING))
    if job["status"] != "succeeded":
        raise SystemExit(f"ingest: job {job['job_id']} ended {job['status']}")


def finished(client: httpx.Client, job_id: str) -> dict[str, Any]:
    """Return the job once it has ended."""
    ends = time.monotonic() + _LONGEST_S
    while time.monotonic() < ends:
        answer = client.get(f"/v1/jobs/{job_id}", params={"wait": 10})
        job: dict[str, Any] = answer.json() if answer.status_code == 200 else {}  # a busy machine: ask again
        if job.get("finished_at") is not None:
            return job
    raise SystemExit(f"ingest: job {job_id} did not end within {_LONGEST_S:.0f} s")


def show(results: dict[str, Any]) -> str:
    """Return the section as a table."""
    ours, memory = results["product"], results["product"]["peak_mb"]
    rows = [
        row(
            f"raw floor, {figures['mysql_connections']} MySQL connection(s)",
            *(figures["chunks_per_s"], figures["client_cpu_ms_per_chunk"], ""),
        )
        for figures in results["floor"]
    ]
    prepared_per_s = results["floor_with_preparation_chunks_per_s"]
    peaks = f"gateway {memory.get('gateway', 0):.0f}, worker {memory.get('worker-ingest', 0):.0f}"
    rows.append(row("raw floor + preparation on all processors", prepared_per_s, "", ""))
    rows.append(row("Chordwise", ours["chunks_per_s"], ours["client_cpu_ms_per_chunk"], peaks))
    peer = results.get("langchain", {})
    if "chunks_per_s" in peer:
        for name, figures in (("HNSW", peer), ("no vector index", peer["exact"])):
            cells = (figures["chunks_per_s"], figures["client_cpu_ms_per_chunk"], f"{figures['peak_mb']:.0f}")
            rows.append(row(f"LangChain PGVectorStore, {name}", *cells))
    elif peer:
        rows.append(row(f"LangChain: {peer['skipped']}", "", "", ""))
    lines = table(("", "chunks/s", "client CPU ms/chunk", "peak MB"), rows)
    ratio = (
        f"{results['ratio_to_floor']:.2f} of the floor's rate (goal {_WALL_GOAL}),"
        f" {results['ratio_to_floor_with_preparation']:.2f} of what it is with parsing and embedding"
    )
    if "ratio_to_peer" in results:
        ratio += f"; {results['ratio_to_peer']:.1f} times LangChain's (goal {_PEER_GOAL})"
    cost = (
        f"CPU without parsing ({ours['parse_ms_per_chunk']:.2f} ms) and embedding ({ours['embed_ms_per_chunk']:.2f} ms):"
        f" {ours['client_cpu_ms_per_chunk']:.2f} ms a chunk (goal {_CPU_GOAL_MS})"
    )
    return "\n".join((lines, ratio, cost))
