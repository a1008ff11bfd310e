"""Processes that find imported what most of them need: to import the project and what it stands on takes longer than most
files of tests."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

# The server of forks imports these once, before the first fork. What fails to be imported is left to who asks for it.
_IMPORTED = (
    "api_gateway.app",
    "workers.tasks.ingest",
    "workers.tasks.recall",
    "workers.tasks.upkeep",
    "alembic.command",
    "chordwise.cli",
    "fakeredis",
    "hypothesis",
    "langchain_core.prompts.chat",
    "openai.resources",
    "openpyxl",
    "prometheus_client.parser",
    "tests.support.described_already",
)
_WARM = multiprocessing.get_context("forkserver")
_WARM.set_forkserver_preload(list(_IMPORTED))


def pytest_apart(arguments: Sequence[str], said: Path) -> int:
    """Run pytest in a process of its own, which writes into ``said``; its status, negative for a signal."""
    running = _WARM.Process(target=_pytest, args=(list(arguments), said))
    running.start()
    running.join()
    assert running.exitcode is not None
    return running.exitcode


def _pytest(arguments: list[str], said: Path) -> None:
    with said.open("wb") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    # Imported before pytest could rewrite its assertions, which nobody misses.
    sys.exit(pytest.main(["-W", "ignore:Module already imported:pytest.PytestAssertRewriteWarning", *arguments]))
