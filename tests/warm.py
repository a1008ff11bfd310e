"""Processes that find imported what most of them need: to import the project and what it stands on takes longer than most
files of tests."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
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
    "tests.support.repository.described_already",
)
_WARM = multiprocessing.get_context("forkserver")
_WARM.set_forkserver_preload(list(_IMPORTED))


def pytest_apart(arguments: Sequence[str], said: Path, *, yielding: bool = False) -> int:
    """Run pytest in a process of its own, which writes into ``said``; its status, negative for a signal. A
    ``yielding`` one lets others use the processors first."""
    running = _WARM.Process(target=_pytest, args=(list(arguments), said, yielding))
    running.start()
    running.join()
    assert running.exitcode is not None
    return running.exitcode


def _pytest(arguments: list[str], said: Path, yielding: bool) -> None:
    if yielding:
        _give_way()
    with said.open("wb") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    # Imported before pytest could rewrite its assertions, which nobody misses.
    sys.exit(pytest.main(["-W", "ignore:Module already imported:pytest.PytestAssertRewriteWarning", *arguments]))


def _give_way() -> None:
    """Let every other process go first. A session of its own, because Linux shares out processor time by session
    before it looks at priorities (sched(7), autogroup)."""
    os.setsid()
    os.nice(19)
    with suppress(FileNotFoundError):  # a kernel without groups by session
        Path("/proc/self/autogroup").write_text("19", encoding="ascii")
