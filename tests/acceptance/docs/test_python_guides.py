"""The pages about Python do what they say: every block of code on them is run, from top to bottom, by a new user."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from itertools import combinations
from pathlib import Path

import pytest

from chordwise import Chordwise
from pipeline.resources import Resources
from tests.conftest import make_tenant
from tests.support.repository.guides import README, blocks, whole_blocks
from tests.support.repository.project import ROOT

GUIDES = ("docs/python.md", "docs/frameworks.md")


@pytest.fixture(scope="module")
def key(use: Resources) -> str:
    """The key of one tenant who reads all of the pages."""
    return make_tenant(use)[1]


@pytest.mark.parametrize("page", [GUIDES[0], pytest.param(GUIDES[1], marks=pytest.mark.thorough)])
def it_runs(page: str, key: str, tmp_path: Path) -> None:
    program = tmp_path / "guide.py"
    program.write_text("\n".join(block.text for block in blocks(page, "python")))
    environment = {**os.environ, "CHORDWISE_API_KEY": key}
    command = [sys.executable, str(program)]
    ran = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=90
    )
    assert ran.returncode == 0, ran.stderr


def it_leaves_the_namespaces_of_the_other_pages_alone() -> None:
    used = {page: namespaces_of(page) for page in (README, "docs/getting-started.md", *GUIDES)}
    assert all(used.values())
    assert [(one, two) for one, two in combinations(used, 2) if used[one] & used[two]] == []


def namespaces_of(page: str) -> set[str]:
    """Return the namespaces that the blocks of a page write to or search."""
    text = "".join(block.text for block in whole_blocks(page))
    named = re.findall(r"""--namespace (\w+)|"?namespaces?"?[=:] ?\[?"(\w+)\"""", text)
    return {name for each in named for name in each if name}


def it_lists_every_method() -> None:
    listed = set(re.findall(r"`(\w+)`", (ROOT / "docs/python.md").read_text()))
    methods = {name for name, _ in inspect.getmembers(Chordwise, inspect.isfunction) if not name.startswith("_")}
    assert methods - {"close"} <= listed
