"""Fixtures of tests in which a server refuses what the product needs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pipeline.maintenance import migrate_schema
from pipeline.settings import Settings
from tests.support.stacks.refusals import PASSWORD

Says = Callable[..., str]


@pytest.fixture
def says(capsys) -> Says:
    """Return a function that runs the migrate command, requires it to fail with one sentence, and returns that."""

    def run(action: str, use: Settings, *flags: str) -> str:
        capsys.readouterr()
        assert migrate_schema.main([action, *flags], use) == 1
        captured = capsys.readouterr()
        assert captured.out == ""
        [line] = captured.err.splitlines()
        assert line.startswith("migrate: ")
        assert "Traceback" not in line
        assert PASSWORD not in line
        return line

    return run
