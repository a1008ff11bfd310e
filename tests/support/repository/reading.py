"""Somebody who reads a page of docs/ and types what it says, in a folder that looks like a checkout after `make up`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.support.repository.environments import like_make_up
from tests.support.repository.project import ROOT

# A reader sees that curl printed a problem; the shell has to be told.
_SHELL = 'curl() { command curl --fail-with-body "$@"; }\n'
_END = "---- the next block ----"


class Reader:
    """Runs what is on a page with a key. MAKEFLAGS=n: make says what it would do, as the stack is up already. Its checkout
    is `~/chordwise`; ``elsewhere`` puts the reader into another folder than that. ``registry``: pip is the real one."""

    def __init__(self, home: Path, key: str, *, elsewhere: bool = False, registry: bool = False) -> None:
        self.home, self.folder, self.key = home, home / "chordwise", key
        self.cwd = home / "elsewhere" if elsewhere else self.folder
        for folder in (self.folder / "docs", self.folder / ".local/stacks/up", self.cwd):
            folder.mkdir(parents=True, exist_ok=True)
        for name in ("Makefile", "compose", "pipeline"):
            (self.folder / name).symlink_to(ROOT / name)
        # pip builds the client, and may write beside it.
        shutil.copytree(ROOT / "chordwise", self.folder / "chordwise", ignore=shutil.ignore_patterns("__pycache__"))
        like_make_up(self.folder / ".venv", registry=registry)
        for name in ("ingestion.md", "chunking.md"):
            shutil.copy(ROOT / "docs" / name, self.folder / "docs")
        known = {"CHORDWISE_URL": os.environ["CHORDWISE_URL"], "CHORDWISE_API_KEY": key}
        _write(self.folder / ".local/env", known)
        _write(self.folder / ".local/stacks/up/env", {"CHORDWISE_POSTGRES_URL": os.environ["CHORDWISE_POSTGRES_URL"]})
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self._bare = {"PATH": path, "HOME": str(home), "LANG": "C.UTF-8", "MAKEFLAGS": "n"}
        self._known, self._patience_s = known, 500 if registry else 90

    def types(self, text: str, *, status: int = 0, knowing: bool = True) -> str:
        """Return the output of a shell; without ``knowing``, one without the stack's variables."""
        return self._run(["bash", "-euo", "pipefail", "-c", _SHELL + text], status, knowing)

    def types_in_turn(self, texts: Sequence[str]) -> list[str]:
        """Return the output of each text, typed after the ones before it into one new shell."""
        printed = self.types("".join(f"{text}\necho '{_END}'\n" for text in texts), knowing=False)
        return printed.split(f"{_END}\n")[: len(texts)]

    def runs(self, program: str) -> str:
        """Return the output of a Python program."""
        return self._run([sys.executable, "-c", program], 0, True)

    def _run(self, command: list[str], status: int, knowing: bool) -> str:
        done = subprocess.run(
            command,
            cwd=self.cwd,
            env=self._bare | (self._known if knowing else {}),
            capture_output=True,
            text=True,
            timeout=self._patience_s,
            check=False,
        )
        assert done.returncode == status, f"{command[-1]}{done.stdout}{done.stderr}"
        assert "Traceback" not in done.stderr
        return done.stdout + (done.stderr if status else "")


def first_missing(shown: Iterable[str], printed: str) -> str | None:
    """Return the first line of an example that an output lacks at its place. In a line `…` stands for anything."""
    for line in shown:
        found = re.search(".*".join(re.escape(part) for part in line.split("…")), printed)
        if found is None:
            return line
        printed = printed[found.end() :]
    return None


def _write(file: Path, variables: dict[str, str]) -> None:
    file.write_text("".join(f"{name}={value}\n" for name, value in variables.items()), encoding="utf-8")
