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

from workers.priorities import Niceness

# The server of forks imports these once, before the first fork. A failing import is left to the process that needs it.
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
_LAST = 19
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
    _give_way(_LAST if yielding else Niceness.BACKGROUND)
    with said.open("wb") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    # Imported before pytest could rewrite its assertions, which nobody misses.
    sys.exit(pytest.main(["-W", "ignore:Module already imported:pytest.PytestAssertRewriteWarning", *arguments]))


def _give_way(niceness: int) -> None:
    """Let others go first: tests wait for ingestion, which gives way to every process that does not. A session of its own,
    because Linux shares out processor time by session before it looks at priorities (sched(7), autogroup)."""
    os.setsid()
    os.nice(niceness)
    with suppress(FileNotFoundError):  # a kernel without groups by session
        Path("/proc/self/autogroup").write_text(str(int(niceness)), encoding="ascii")
