"""kill -9 of the ingest worker in the middle of a batch: nothing lost, nothing twice, nothing stuck."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from tests.support.corpora.documents import assert_whole, finished, half_done

DOCUMENTS = 400


def _kill_ingest_worker() -> int:
    """Kill the stack's ingest worker and its children; the supervisor starts another. Gives the process id."""
    state = json.loads((Path(os.environ["CHORDWISE_STACK_DIR"]) / "run" / "state.json").read_text())
    leader = int(state["processes"]["worker-ingest"]["pid"])
    children = Path(f"/proc/{leader}/task/{leader}/children").read_text().split()
    for pid in (leader, *map(int, children)):
        os.kill(pid, signal.SIGKILL)
    return leader


@pytest.mark.alone
@pytest.mark.timeout(180)
def it_loses_nothing_when_the_worker_is_killed_in_the_middle(client, namespace):
    job_id = half_done(client, namespace, DOCUMENTS)
    _kill_ingest_worker()
    job = finished(client, job_id, wait_s=150)
    assert (job["status"], job["succeeded"], job["failed"]) == ("succeeded", DOCUMENTS, 0)
    assert_whole(client, namespace, documents=DOCUMENTS, chunks=job["chunks"])
