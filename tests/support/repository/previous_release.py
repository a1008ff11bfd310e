"""The previous release of the server, installed from its wheel in an environment of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from chordwise import __version__
from tests.support.repository.project import ROOT

# No release has a tag yet: a commit whose processes and this one's have to work beside each other.
BEFORE_THE_FIRST_TAG = "765733b5"
WHEELS = "CHORDWISE_PREVIOUS_WHEELS"  # a folder with the wheels of another one


def install(folder: Path) -> Path:
    """Return the Python of a new environment below ``folder``: with the wheels of `WHEELS`, else with those of the newest
    tag of another version, and with the dependencies of this checkout. Skips the test without the history."""
    wheels = Path(given) if (given := os.environ.get(WHEELS, "")) else _build(folder)
    environment = folder / "environment"
    _run(sys.executable, "-m", "venv", "--without-pip", environment)
    python = environment / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--no-deps", "--no-index")
    _run(*pip, *sorted(wheels.glob("*.whl")))
    # Searched after its own packages. This line is not read again in that folder, so an editable install there is not seen.
    (installed,) = environment.glob("lib/python3*/site-packages")
    (installed / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n", encoding="utf-8")
    return python


def _build(folder: Path) -> Path:
    tags = _run("git", "tag", "--list", "v*", "--sort=-version:refname", "--merged", "HEAD").split()
    commit = next((tag for tag in tags if tag != f"v{__version__}"), BEFORE_THE_FIRST_TAG)
    if subprocess.run(["git", "cat-file", "-e", f"{commit}^{{commit}}"], cwd=ROOT, check=False).returncode != 0:
        pytest.skip(f"the previous release, {commit}, is not in the history of this checkout")
    source, wheels = folder / "source", folder / "wheels"
    source.mkdir()
    _run("sh", "-c", f"git archive {commit} | tar -xC '{source}'")
    parts = [source, *(part.parent for part in source.glob("*/pyproject.toml"))]
    _run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", wheels, *parts)
    return wheels


def _run(*command: str | Path) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
