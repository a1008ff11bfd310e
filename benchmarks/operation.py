"""Section `operation`: a large submission, a small job beside a large one, dead letters, export, deletion, erasure."""

from __future__ import annotations

import json
import statistics
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx

from benchmarks import table
from benchmarks.ingest import finished, gateway, operator, submit
from benchmarks.processes import peak_mb
from chordwise import Chordwise

_MANY, _QUICK_MANY = 10_000, 2_000
_REJECTED = 500
_SMALL_JOBS = 5
_ACCEPTED_GOAL_S, _MEMORY_GOAL_MB, _SMALL_GOAL_S = 5.0, 200.0, 5.0
_EXAMPLES = 2_000


def run(*, quick: bool) -> dict[str, Any]:
    """Measure on an idle stack; every step waits for its end."""
    many = _QUICK_MANY if quick else _MANY
    namespace = f"many-{uuid.uuid4().hex[:8]}"
    tenant_id, other = another_tenant()
    with gateway() as client, other:
        alone = [_one_document(other) for _ in range(_SMALL_JOBS)]
        before_mb = peak_mb().get("gateway", 0.0)
        accepted_s, job_id = _timed(lambda: submit(client, namespace, [_document(n) for n in range(many)]))
        grown_mb = peak_mb().get("gateway", 0.0) - before_mb
        beside = [_one_document(other) for _ in range(_SMALL_JOBS)]
        still = client.get(f"/v1/jobs/{job_id}").json()["finished_at"] is None
        began = time.perf_counter()
        job = finished(client, job_id)
        drained_s = accepted_s + time.perf_counter() - began
        results: dict[str, Any] = {
            "documents": many,
            "accepted_s": round(accepted_s, 2),
            "gateway_grew_mb": round(grown_mb, 1),
            "drained_s": round(drained_s, 1),
            "small_job_alone_s": round(statistics.median_high(alone), 2),
            "small_job_beside_s": round(statistics.median_high(beside), 2),
            "small_job_beside_worst_s": round(max(beside), 2),
            "large_job_was_still_running": still,
            "chunks": job["chunks"],
        }
        results |= _dead_letters(client) | _archive(client, namespace) | _examples()
        results["namespace_deleted_s"], _ = _timed(lambda: _delete(client, namespace))
        with operator() as deleting:
            results["tenant_erased_s"], _ = _timed(
                lambda: deleting.delete(f"/v1/tenants/{tenant_id}").raise_for_status()
            )
    return {name: round(value, 2) if isinstance(value, float) else value for name, value in results.items()}


def _dead_letters(client: httpx.Client) -> dict[str, Any]:
    """Turn documents without text into dead letters, replay all, and drop them."""
    namespace = f"dead-{uuid.uuid4().hex[:8]}"
    blank = {"text": "<script>1</script>", "source": {"media_type": "text/html"}}
    empty = [{"document_id": f"e{number}", **blank} for number in range(_REJECTED)]
    parked_s, job_id = _timed(lambda: _run_job(client, namespace, empty))
    replay_s, replayed = _timed(
        lambda: client.post("/v1/dead-letters/replay", json={"job_id": job_id}).raise_for_status().json()
    )
    again_s, _ = _timed(lambda: finished(client, job_id))
    left = client.get("/v1/dead-letters", params={"job_id": job_id, "limit": 1}).json()["data"]
    return {
        "dead_letters": _REJECTED,
        "parked_s": parked_s,
        "replay_asked_s": replay_s,
        "replayed": replayed,
        "parked_again_s": again_s,
        "are_dead_again": bool(left),
    }


def _archive(client: httpx.Client, namespace: str) -> dict[str, Any]:
    """Export a namespace to a folder and import it under another name."""
    with TemporaryDirectory() as folder, Chordwise() as chordwise:
        target = Path(folder) / "archive"
        export_s, _ = _timed(lambda: chordwise.export(namespace, target))
        copy = f"copy-{uuid.uuid4().hex[:8]}"

        def bring_in() -> None:
            chordwise.wait(chordwise.import_archive(target, namespace=copy).ingestion, timeout=600)

        import_s, _ = _timed(bring_in)
        _delete(client, copy)
    return {"exported_s": export_s, "imported_s": import_s}


def _examples() -> dict[str, Any]:
    """Import a book of examples, as JSON."""
    rows = [
        {
            "user_input": f"问题{number}：第{number}号泵如何启动？",
            "agent_response": f"回答{number}：先打开阀门{number % 97}。",
            "tags": "泵,启动",
            "quality_grade": "优秀",
        }
        for number in range(_EXAMPLES)
    ]
    with TemporaryDirectory() as folder, Chordwise() as chordwise:
        book = Path(folder) / "book.json"
        book.write_text(json.dumps({"qa": rows}, ensure_ascii=False), encoding="utf-8")
        namespace = f"book-{uuid.uuid4().hex[:8]}"
        handed_s, imported = _timed(lambda: chordwise.import_examples(book, namespace=namespace))
        job_id = imported.job_id
        assert job_id is not None
        searchable_s, _ = _timed(lambda: chordwise.wait(job_id, timeout=600))
    return {"examples": _EXAMPLES, "examples_handed_in_s": handed_s, "examples_searchable_s": handed_s + searchable_s}


def _document(number: int) -> dict[str, Any]:
    words = " ".join(f"word{number * 7 % 5003}x{position * 13 % 997}" for position in range(60))
    return {"document_id": f"d{number}", "title": f"Document {number}", "text": words}


def _delete(client: httpx.Client, namespace: str) -> None:
    client.delete(f"/v1/namespaces/{namespace}", timeout=600).raise_for_status()


def _run_job(client: httpx.Client, namespace: str, documents: list[dict[str, Any]]) -> str:
    """Submit documents, wait until the job has ended, and return its id."""
    job_id = submit(client, namespace, documents)
    finished(client, job_id)
    return job_id


def _one_document(client: httpx.Client) -> float:
    return _timed(lambda: _run_job(client, "small", [_document(int(time.time() * 1000) % 10**9)]))[0]


def another_tenant() -> tuple[str, httpx.Client]:
    """Create a tenant as an operator does. Return its id and a client with a key of its own."""
    tenant_id = f"bench-{uuid.uuid4().hex[:8]}"
    with operator() as client:
        client.post("/v1/tenants", json={"tenant_id": tenant_id, "name": "Benchmark"}).raise_for_status()
        body = {"name": "benchmark", "scopes": ["read", "write", "admin"]}
        key = client.post(f"/v1/tenants/{tenant_id}/keys", json=body).raise_for_status().json()["api_key"]
    return tenant_id, gateway(key)


def _timed(call: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    result = call()
    return time.perf_counter() - began, result


def show(results: dict[str, Any]) -> str:
    """Return the section as a table."""
    worst = f"worst {results['small_job_beside_worst_s']}; goal {_SMALL_GOAL_S}"
    rows = [
        ("accepting in one request, s", results["accepted_s"], f"goal {_ACCEPTED_GOAL_S} for {_MANY:,}"),
        ("memory the gateway took for it, MB", results["gateway_grew_mb"], f"goal {_MEMORY_GOAL_MB}"),
        ("until all were searchable, s", results["drained_s"], f"{results['chunks']:,} chunks"),
        ("one document of another tenant, alone, s", results["small_job_alone_s"], ""),
        ("the same beside the large job, s", results["small_job_beside_s"], worst),
        (f"parking {_REJECTED} documents, s", results["parked_s"], ""),
        ("replaying all of them, s", results["replay_asked_s"], ""),
        ("export, s", results["exported_s"], ""),
        ("import with vectors until searchable, s", results["imported_s"], ""),
        (f"{_EXAMPLES:,} examples handed in, s", results["examples_handed_in_s"], ""),
        (f"{_EXAMPLES:,} examples searchable, s", results["examples_searchable_s"], ""),
        ("deleting the namespace, s", results["namespace_deleted_s"], ""),
        ("erasing the other tenant, s", results["tenant_erased_s"], ""),
    ]
    return table.table((f"{results['documents']:,} documents", "", ""), [table.row(*line) for line in rows])
