"""Documents for the console's tests, handed in over the API by the tenant that the tab belongs to."""

from __future__ import annotations

import time
from typing import Any, Final

import httpx

_PATIENCE_S: Final = 180.0  # behind the jobs of other tests on a busy machine

MANUAL = {
    "document_id": "reset",
    "title": "Resetting the router",
    "text": "Hold the reset button for five seconds until the light blinks. The router then starts with its first settings.",
}
OTHERS = [
    {"document_id": "wifi", "title": "Wireless range", "text": "Thick walls shorten the range of the wireless signal."},
    {"document_id": "power", "title": "Power supply", "text": "Use only the adapter that came with the device."},
    {"document_id": "数据库", "title": "数据库备份", "text": "每个季度至少做一次恢复演练，并核对行数与校验和。"},
]


def hand_in(client: httpx.Client, *documents: dict[str, Any], namespace: str = "kb") -> dict[str, Any]:
    """Hand documents in and wait for the end; gives the job."""
    answer = client.post("/v1/documents", json={"namespace": namespace, "documents": list(documents)})
    answer.raise_for_status()
    return _ended(client, answer.json()["job_id"])


def fail_one(client: httpx.Client, *, namespace: str = "kb") -> dict[str, Any]:
    """Hand in a file that is no PDF, whatever it says; gives the job, in which it failed."""
    files = {"file": ("broken.pdf", b"%PDF-1.4 this is no PDF at all", "application/pdf")}
    answer = client.post("/v1/files", files=files, data={"namespace": namespace})
    answer.raise_for_status()
    return _ended(client, answer.json()["job_id"])


def _ended(client: httpx.Client, job_id: str) -> dict[str, Any]:
    ends = time.monotonic() + _PATIENCE_S
    while not (job := client.get(f"/v1/jobs/{job_id}", params={"wait": 30}).json())["finished_at"]:
        assert time.monotonic() < ends, job
    return job
