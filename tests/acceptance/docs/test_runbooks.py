"""The runbooks: every block of commands is run as it stands in the document."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import gateway, make_tenant
from tests.support.corpora.documents import document, upload
from tests.support.repository.guides import blocks

BLOCKS = [(block.heading, block.text) for block in blocks("docs/operations.md", "sh")]


@pytest.fixture
def shell(use, tmp_path):
    """Run a block for a tenant that has a job of which one document failed."""
    tenant, key = make_tenant(use)
    with gateway(key) as client:
        job = upload(client, "kb", [document("good", "The kettle boils."), document("empty", " ")])
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    known = {"CHORDWISE_API_KEY": key, "TENANT": tenant, "JOB": job["job_id"], "PATH": path}

    def run(block: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block],
            env={**os.environ, **known},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=110,
            check=False,
        )

    return run


@pytest.mark.parametrize(("title", "block"), BLOCKS, ids=[f"{title} {n}" for n, (title, _) in enumerate(BLOCKS)])
def it_can_be_done_as_it_is_written(shell, title, block):
    done = shell(block)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    if "erased" in title:
        assert json.loads(done.stdout)["remaining"] == {}


def it_covers_what_happens():
    assert [title for title, _ in dict(BLOCKS).items()] == [
        "A job is stuck",
        "The broker was lost",
        "The stores drift apart",
        "A repair withholds deletions",
        "Parts of the schema are missing",
        "Everything must be embedded again",
        "A tenant is to be erased",
        "Backup and restore",
    ]


class DescribeTheDoctorOnTheStack:
    def it_finds_nothing_wrong(self, shell):
        done = shell("chordwise doctor --json")
        found = {each["check"]: each for each in json.loads(done.stdout)["findings"]}
        assert done.returncode == 0, done.stdout
        broker = "broker_visibility_timeout" if "broker_visibility_timeout" in found else "broker"  # of RabbitMQ
        for check in (
            "installation",
            "deletions",
            "queues",
            "worker_versions",
            broker,
            "redis_eviction",
            "vectors",
            "flower",
        ):
            assert found[check]["severity"] == "ok", found[check]

    def it_is_not_for_tenants(self, client):
        refused = client.get("/v1/doctor")
        assert (refused.status_code, refused.json()["code"]) == (403, "insufficient_scope")
