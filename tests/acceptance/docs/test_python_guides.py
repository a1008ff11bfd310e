"""The pages about Python do what they say: every block of code on them is run, from top to bottom, by a new user."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from chordwise import Chordwise
from pipeline.resources import Resources
from tests.conftest import make_tenant
from tests.support.repository.guides import blocks
from tests.support.repository.project import ROOT

GUIDES = ("docs/python.md", "docs/frameworks.md")


@pytest.mark.parametrize("page", GUIDES)
def it_runs(page: str, use: Resources, tmp_path: Path) -> None:
    program = tmp_path / "guide.py"
    program.write_text("\n".join(block.text for block in blocks(page, "python")))
    _, key = make_tenant(use)
    environment = {**os.environ, "CHORDWISE_API_KEY": key}
    command = [sys.executable, str(program)]
    ran = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=90
    )
    assert ran.returncode == 0, ran.stderr


def it_lists_every_method() -> None:
    listed = set(re.findall(r"`(\w+)`", (ROOT / "docs/python.md").read_text()))
    methods = {name for name, _ in inspect.getmembers(Chordwise, inspect.isfunction) if not name.startswith("_")}
    assert methods - {"close"} <= listed
