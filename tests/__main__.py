"""`python -m tests`: the whole suite, side by side where tests do not mind each other. With arguments: pytest, once.

Tests that failed run once more, with nothing beside them, because a shared machine sometimes stops for longer than a
test allows. A defect fails twice.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import certifi

from tests.lanes import APART_FOLDERS, bundled, kind, marked, spare, together
from tests.warm import pytest_apart

_PASSED, _FAILED, _NONE = 0, 1, 5  # pytest's; others say that tests were not run as they should
_USUAL = {_PASSED, _FAILED, _NONE}


@dataclass(frozen=True, slots=True)
class Part:
    """Some files of the suite: how many processes run them at a time, which of their tests are meant, and whether the processes
    give way to all others."""

    name: str
    files: list[Path]
    processes: int
    expression: str
    yielding: bool = False


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the suite: a folder for what its processes write, the kinds of tests meant (all if empty), whether the
    thorough ones are, and where pytest's reports go."""

    folder: Path
    kinds: Sequence[str] = ()
    also_thorough: bool = False
    reports: Path | None = None

    def report(self, name: str) -> list[str]:
        """Return pytest's option for the report of one process."""
        return [f"--junitxml={self.reports / name}.xml"] if self.reports else []


def main(arguments: Sequence[str]) -> int:
    """0 if everything passed."""
    with _prepared() as folder:
        if others := [each for each in arguments if each != "--thorough"]:
            return _pytest(*others)
        return _suite(Run(folder, also_thorough="--thorough" in arguments))


def run_kinds(kinds: Sequence[str], reports: Path) -> int:
    """Run these kinds of tests but the thorough ones, with pytest's reports into a folder, that of repeated tests last by
    name; 0 if everything passed."""
    with _prepared() as folder:
        return _suite(Run(folder, kinds, reports=reports))


@contextmanager
def _prepared() -> Iterator[Path]:
    """Set what every process of tests needs; a folder for their files."""
    with TemporaryDirectory(prefix="chordwise-tests-") as folder:
        os.environ["SSL_CERT_FILE"] = str(_one_authority(Path(folder)))
        os.environ["OPENBLAS_NUM_THREADS"] = "1"  # as the stack's own processes have it
        yield Path(folder)


def _suite(run: Run) -> int:
    which = "" if run.also_thorough else " and not thorough"
    # Tests wait for processes, deadlines and servers more than they compute.
    first = Part("together", together(), 5, f"not alone and not apart{which}")
    # Tests that measure time or kill processes mostly wait, so that tests without a server get on beside them.
    apart = Part("apart", marked("apart", APART_FOLDERS), 3, f"apart{which}")
    alone = Part("alone", marked("alone", ()), 1, f"alone{which}")
    beside = Part("spare", spare(), 3, f"not alone and not apart{which}", yielding=True)
    statuses = set(_side_by_side(first, run))
    with ThreadPoolExecutor(1) as thread:
        statuses_beside = thread.submit(lambda: set(_side_by_side(beside, run)))
        statuses |= {status for part in (apart, alone) for status in _side_by_side(part, run)}
    statuses |= statuses_beside.result()
    if odd := statuses - _USUAL:
        return max(odd, key=abs)
    kept = run.folder.glob("*/v/cache/lastfailed")
    failed = sorted({name for each in kept for name in json.loads(each.read_bytes())})
    if failed:
        _say("\n  ".join([f"{len(failed)} failed; each once more:", *failed]))
        return _pytest(*run.report("zz-once-more"), *failed)
    return _FAILED if _FAILED in statuses else _PASSED


def _side_by_side(part: Part, of: Run) -> Iterator[int]:
    """Run each bundle in a process of its own, some at a time, and say what it said when it ends; their statuses."""

    def run(number: int, bundle: Sequence[Path]) -> int:
        begun = time.monotonic()
        name = f"{part.name}-{number}"
        output = of.folder / f"{name}.txt"
        options = ["-o", f"cache_dir={of.folder / name}", "-m", part.expression, *of.report(name)]
        arguments = [*options, *map(str, bundle)]
        status = pytest_apart(arguments, output, yielding=part.yielding)
        if status not in _USUAL:  # its process was ended, or could not begin
            _say(f"{output.read_text(encoding='utf-8', errors='replace')}{name}: status {status}; the files once more")
            status = pytest_apart(arguments, output, yielding=part.yielding)
        took = time.monotonic() - begun
        said = output.read_text(encoding="utf-8", errors="replace")
        _say(f"{said}{part.name} {number} of {len(bundles)}: status {status} after {took:.0f} s")
        return status

    meant = [file for file in part.files if not of.kinds or kind(file) in of.kinds]
    bundles = bundled(meant, part.processes)
    with ThreadPoolExecutor(part.processes) as threads:
        yield from threads.map(run, range(1, len(bundles) + 1), bundles)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _one_authority(folder: Path) -> Path:
    """A file with one certificate for all clients, who are made by the thousand and encrypt nothing: reading the
    system's hundreds took a sixth of the suite's time."""
    end = "-----END CERTIFICATE-----\n"
    first = Path(certifi.where()).read_text(encoding="utf-8").partition(end)[0]
    file = folder / "authority.pem"
    file.write_text(first + end, encoding="utf-8")
    return file


def _pytest(*arguments: str) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
