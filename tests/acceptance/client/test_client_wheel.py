"""The client alone, as a new user installs it: from the wheel that `make dist` writes, in an environment of its own. With
the frameworks, which take longest to install, where time does not matter."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from chordwise import __version__
from compose.localstack.locks import pins
from pipeline.resources import Resources
from tests.conftest import make_tenant
from tests.support.repository.guides import blocks, whole_blocks
from tests.support.repository.project import LOCKS, ROOT

PAGE = "docs/frameworks.md"
SERVER = {"celery", "flower", "alembic", "sqlalchemy", "fastapi", "redis", "pymysql", "psycopg", "chordwise"}
pytestmark = [pytest.mark.stack, pytest.mark.thorough, pytest.mark.timeout(600)]


def command(*words: str | Path, cwd: Path = ROOT, **environment: str) -> str:
    done = subprocess.run(
        words, cwd=cwd, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def pip(python: Path, *words: str | Path) -> str:
    """Run this environment's pip for that one: making one there takes as long as most files of tests."""
    return command(sys.executable, "-m", "pip", f"--python={python}", *words)


@pytest.fixture(scope="module")
def wheel() -> Path:
    """Build the wheel as the page says."""
    for block in blocks(PAGE, "sh"):
        command("sh", "-ec", block.text)
    return next((ROOT / "dist").glob("chordwise_client-*.whl"))


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel and what it needs at the locked versions."""
    folder = tmp_path_factory.mktemp("client")
    (folder / "versions.txt").write_text(
        "".join(
            f"{name}=={version}\n"
            for lock in LOCKS
            for name, version in pins((ROOT / lock).read_text(encoding="utf-8")).items()
        )
    )
    command(sys.executable, "-m", "venv", "--without-pip", folder / "venv")
    program = folder / "venv" / "bin" / "python"
    install(program, wheel)
    return program


@pytest.fixture(scope="module")
def frameworks(python: Path) -> Path:
    """The environment with the frameworks that the page installs; LlamaIndex, which takes a minute, apart."""
    text = "".join(block.text for block in whole_blocks(PAGE) if block.language == "sh")
    wheels = [wheel for wheel in re.findall(r"pip install '(.+)'", text) if "[llamaindex]" not in wheel]
    assert len(wheels) == 2
    install(python, *wheels)
    return python


def install(python: Path, *wheels: str | Path) -> None:
    """Install wheels into the environment, at the locked versions."""
    pip(python, "install", "-q", "--no-compile", "-c", python.parents[2] / "versions.txt", *wheels)


def names_in(python: Path) -> set[str]:
    """Return the names of the distributions in the environment, in which nothing may be missing."""
    installed = pip(python, "list", "--format=freeze").lower()
    pip(python, "check")
    return set(re.findall(r"^([\w.-]+)==", installed, re.MULTILINE))


def run_page(python: Path, folder: Path, use: Resources, *, without: str) -> None:
    """Run the page's blocks, but for those below the heading ``without``, as one program."""
    program = folder / "guide.py"
    program.write_text("\n".join(block.text for block in blocks(PAGE, "python") if block.heading != without))
    _, key = make_tenant(use)
    command(python, program, cwd=folder, CHORDWISE_API_KEY=key)


class DescribeTheWheel:
    def it_brings_nothing_of_the_server(self, python: Path) -> None:
        names = names_in(python)
        assert {"chordwise-client", "httpx", "rich", "typer"} <= names
        assert names & SERVER == set()

    def it_knows_its_version(self, python: Path, tmp_path: Path) -> None:
        assert command(python.with_name("chordwise"), "--version", cwd=tmp_path).strip() == f"chordwise {__version__}"
        known = command(
            python, "-c", "import importlib.metadata as m; print(m.version('chordwise-client'))", cwd=tmp_path
        )
        assert known.strip() == __version__

    def it_searches_on_the_command_line(self, python: Path, use: Resources, tmp_path: Path) -> None:
        _, key = make_tenant(use)
        (tmp_path / "tea.md").write_text("# Tea\n\nGreen tea is brewed with water of eighty degrees.")
        chordwise = python.with_name("chordwise")
        command(chordwise, "ingest", "tea.md", "-n", "kb", "--wait", cwd=tmp_path, CHORDWISE_API_KEY=key)
        answer = command(chordwise, "query", "water for tea", "-n", "kb", cwd=tmp_path, CHORDWISE_API_KEY=key)
        assert "eighty degrees" in answer


@pytest.mark.thorough  # tests of documentation run the page with the frameworks of this environment
class DescribeTheFrameworks:
    def it_brings_nothing_of_the_server_with_them(self, frameworks: Path) -> None:
        names = names_in(frameworks)
        assert {"chordwise-client", "httpx", "rich", "typer", "langchain-core", "langgraph"} <= names
        assert names & SERVER == set()

    def it_runs_the_page_about_frameworks(self, frameworks: Path, use: Resources, tmp_path: Path) -> None:
        run_page(frameworks, tmp_path, use, without="LlamaIndex")

    def it_runs_the_whole_page_with_llamaindex(
        self, frameworks: Path, wheel: Path, use: Resources, tmp_path: Path
    ) -> None:
        install(frameworks, f"{wheel}[llamaindex]")
        run_page(frameworks, tmp_path, use, without="")
