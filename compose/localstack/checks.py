"""`make check`: all checks without a server, each tool in turn, so that one run shows every fault."""

from __future__ import annotations

import subprocess
import time

from . import shell, stopping
from .places import ROOT, VENV
from .progress import say

_TOOLS = (
    ("format", "ruff format --check ."),
    ("lint", "ruff check ."),
    ("types", "mypy"),
    ("types of the local stack", "mypy -p compose.localstack"),
    ("import contracts", "lint-imports"),
    ("unit tests", "pytest tests/unit tests/spec"),
)


def check() -> int:
    """Run every tool and return 1 if any of them complains."""
    environment = shell.plain_environment()
    failed = []
    for title, command in _TOOLS:
        tool, *arguments = command.split()
        arguments = [part for part in arguments if not part.startswith("tests/") or (ROOT / part).is_dir()]
        started = time.monotonic()
        code = subprocess.call([str(VENV / "bin" / tool), *arguments], cwd=ROOT, env=environment)
        stopping.check()
        say(f"  {title}: {'ok' if code == 0 else 'FAILED'}, {time.monotonic() - started:.1f} s")
        if code != 0:
            failed.append(title)
    if failed:
        say(f"failed: {', '.join(failed)}")
    return 1 if failed else 0
