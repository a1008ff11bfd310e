"""The pages for operators: every block of commands is run as it stands there, and prints what is shown below it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from tests.conftest import gateway, make_tenant
from tests.support.corpora.documents import finished
from tests.support.repository.guides import blocks, whole_blocks
from tests.support.repository.reading import first_missing

PAGES = ("docs/watch.md", "docs/troubleshooting.md", "docs/change.md", "docs/backup.md")


def steps(page: str) -> list[tuple[str, str, list[str]]]:
    """Return the commands of a page, each with its heading and with the lines that the page shows below it."""
    shown = {}
    for before, after in pairwise(whole_blocks(page)):
        if (before.language, after.language, after.heading) == ("sh", "text", before.heading):
            shown[before.heading, before.lines[0]] = after.lines
    return [(block.heading, block.text, shown.get((block.heading, block.lines[0]), [])) for block in blocks(page, "sh")]


STEPS = [step for page in PAGES for step in steps(page)]


@pytest.fixture
def shell(use, tmp_path):
    """Run a block for a tenant that has a job of which one document failed."""
    tenant, key = make_tenant(use)
    with gateway(key) as client:
        files = {"good.txt": b"The kettle boils.", "broken.pdf": b"%PDF-1.7 no document"}
        sent = client.post("/v1/files", data={"namespace": "kb"}, files=[("file", each) for each in files.items()])
        job = finished(client, sent.raise_for_status().json()["job_id"])
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


@pytest.mark.thorough
@pytest.mark.parametrize(("title", "block", "shown"), STEPS, ids=[f"{step[0]} {n}" for n, step in enumerate(STEPS)])
def it_prints_what_the_page_shows(shell, title, block, shown):
    done = shell(block)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert first_missing(shown, done.stdout) is None, done.stdout


def it_covers_what_happens():
    assert list(dict.fromkeys(title for title, *_ in STEPS)) == [
        "Quick check",
        "Something is wrong",
        "A job is stuck",
        "Documents failed",
        "The broker was lost",
        "The stores drift apart",
        "A repair withholds deletions",
        "Vectors are lost",
        "Parts of the schema are missing",
        "Erase a tenant",
        "By hand",
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
