"""JavaScript in the Node that comes with Playwright's wheel."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import playwright

NODE = Path(playwright.__file__).parent / "driver" / "node"


def node(program: Path, *, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a module to its end."""
    return subprocess.run(
        [NODE, program],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
