"""docs/getting-started.md: every block is run in its order by a new tenant, in a folder that looks like a checkout."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import make_tenant
from tests.support.project import ROOT

PAGE = (ROOT / "docs/getting-started.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def checkout(use, tmp_path) -> Path:
    """What `make up` would have left: the environment, the program, and where the stack is."""
    for name in ("Makefile", "compose"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / ".venv").symlink_to(sys.prefix)
    known = {"CHORDWISE_URL": os.environ["CHORDWISE_URL"], "CHORDWISE_API_KEY": make_tenant(use)[1]}
    (tmp_path / ".local").mkdir()
    (tmp_path / ".local/env").write_text("".join(f"{name}={value}\n" for name, value in known.items()))
    return tmp_path


def run(block: str, checkout: Path) -> str:
    """What a block prints in a shell that knows nothing of the stack. MAKEFLAGS=n: make says what it would do."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(checkout), "LANG": "C.UTF-8", "MAKEFLAGS": "n"}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block],
        cwd=checkout,
        env=environment,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, f"{block}{done.stdout}{done.stderr}"
    return done.stdout


def it_leads_from_nothing_to_the_same_answer_at_every_door(checkout):
    printed = []
    for language, block in BLOCKS:
        if language == "python":
            (checkout / "ask.py").write_text(block, encoding="utf-8")
        elif language == "sh":
            printed.append(run(block, checkout))
    up, _, ingested, answered, key, queried, asked, down = printed
    assert "compose/local.py up" in up
    assert "3 succeeded, 0 failed, 3 chunks" in ingested
    assert "router.txt" in answered.splitlines()[1]
    assert key.startswith("CHORDWISE_API_KEY=cw_")
    answer = json.loads(queried)
    assert answer["chunks"][0]["document_id"] == "router.txt"
    assert "five seconds" in answer["context"]["text"]
    assert asked.startswith("router.txt ")
    assert "five seconds" in asked
    assert "compose/local.py down" in down


def it_has_no_block_that_nobody_runs():
    assert {language for language, _ in BLOCKS} == {"sh", "python", "text"}
