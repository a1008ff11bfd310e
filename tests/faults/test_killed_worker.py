"""kill -9 of the ingest worker in the middle of a batch: nothing lost, nothing twice, nothing stuck."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from tests.support.documents import document, finished

DOCUMENTS = 1400


def _kill_ingest_worker() -> int:
    """Kill the stack's ingest worker and its children; the supervisor starts another. Gives the process id."""
    state = json.loads((Path(os.environ["CHORDWISE_STACK_DIR"]) / "run" / "state.json").read_text())
    leader = int(state["processes"]["worker-ingest"]["pid"])
    children = Path(f"/proc/{leader}/task/{leader}/children").read_text().split()
    for pid in (leader, *map(int, children)):
        os.kill(pid, signal.SIGKILL)
    return leader


@pytest.mark.timeout(180)
def it_loses_nothing_when_the_worker_is_killed_in_the_middle(client, namespace):
    documents = [
        document(f"d{n}", " ".join(f"Sentence {m} of document {n} speaks of subject {n * m % 97}." for m in range(40)))
        for n in range(DOCUMENTS)
    ]
    accepted = client.post("/v1/documents", json={"namespace": namespace, "documents": documents})
    assert accepted.status_code == 202
    location = accepted.headers["Location"]
    ends = time.monotonic() + 60
    while (done := client.get(location).json()["succeeded"]) < 64 and time.monotonic() < ends:
        time.sleep(0.05)
    assert 64 <= done < DOCUMENTS, "the worker has to be killed in the middle"
    _kill_ingest_worker()
    job = finished(client, accepted.json()["job_id"], wait_s=150)
    assert (job["status"], job["succeeded"], job["failed"]) == ("succeeded", DOCUMENTS, 0)
    report = client.post("/v1/verify", json={"namespaces": [namespace]}).json()
    assert (report["missing"], report["orphaned"], report["stale"]) == (0, 0, 0)
    assert report["namespaces"][0]["documents"] == DOCUMENTS
    assert report["namespaces"][0]["chunks"] == job["chunks"]
