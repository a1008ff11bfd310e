"""Somebody who reads a page of docs/ and types what it says, in a folder that looks like a checkout after `make up`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.repository.project import ROOT

# A reader sees that curl printed a problem; the shell has to be told.
_SHELL = 'curl() { command curl --fail-with-body "$@"; }\n'


class Reader:
    """Runs what is on a page with a key. MAKEFLAGS=n: make says what it would do, as the stack is up already. Its checkout
    is `~/chordwise`; ``elsewhere`` puts the reader into another folder than that."""

    def __init__(self, folder: Path, key: str, *, elsewhere: bool = False, **known: str) -> None:
        self.folder, self.key = folder, key
        self._cwd = folder / "elsewhere" if elsewhere else folder
        self._cwd.mkdir(exist_ok=True)
        (folder / "chordwise").symlink_to(folder)
        for name in ("Makefile", "compose", "pipeline"):
            (folder / name).symlink_to(ROOT / name)
        _environment_like_ours(folder / ".venv")
        (folder / "docs").mkdir()
        for name in ("ingestion.md", "chunking.md"):
            shutil.copy(ROOT / "docs" / name, folder / "docs")
        stack = {"CHORDWISE_URL": os.environ["CHORDWISE_URL"], "CHORDWISE_API_KEY": key}
        (folder / ".local").mkdir()
        (folder / ".local/env").write_text("".join(f"{name}={value}\n" for name, value in stack.items()))
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self._bare = {"PATH": path, "HOME": str(folder), "LANG": "C.UTF-8", "MAKEFLAGS": "n"}
        self._known = {**stack, **known}

    def types(self, text: str, *, status: int = 0, knowing: bool = True) -> str:
        """Return the output of a shell; without ``knowing``, one without the stack's variables."""
        return self._run(["bash", "-euo", "pipefail", "-c", _SHELL + text], status, knowing)

    def runs(self, program: str) -> str:
        """Return the output of a Python program."""
        return self._run([sys.executable, "-c", program], 0, True)

    def _run(self, command: list[str], status: int, knowing: bool) -> str:
        done = subprocess.run(
            command,
            cwd=self._cwd,
            env=self._bare | (self._known if knowing else {}),
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        assert done.returncode == status, f"{command[-1]}{done.stdout}{done.stderr}"
        assert "Traceback" not in done.stderr
        return done.stdout + (done.stderr if status else "")


def _environment_like_ours(folder: Path) -> None:
    """Make a virtual environment with the packages of this one, whose commands take ``folder`` for theirs."""
    (folder / "bin").mkdir(parents=True)
    shutil.copy(Path(sys.prefix) / "pyvenv.cfg", folder)
    (folder / "lib").symlink_to(Path(sys.prefix) / "lib")
    python = folder / "bin/python"
    python.symlink_to(sys.executable)
    command = folder / "bin/chordwise"
    command.write_text(
        f'#!/bin/sh\nexec "{python}" -c "import sys; from chordwise.cli import main; sys.exit(main())" "$@"\n'
    )
    command.chmod(0o755)
