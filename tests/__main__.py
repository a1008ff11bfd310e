"""`python -m tests`: the whole suite, side by side where tests do not mind each other. With arguments: pytest, once.

What failed is tried once more, with nothing beside it: a shared machine stands still now and then for longer than some
promises last. A defect fails twice.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import certifi

# Tests wait for processes, deadlines and servers more than they compute. A file stays with one process, because what is
# set up for it (databases, gateways) costs more than most tests.
_SIDE_BY_SIDE = ("--dist", "loadfile", "--no-loadscope-reorder")
_TOGETHER = ("-n", "4", *_SIDE_BY_SIDE, "-m", "not alone and not calm")
_CALM = ("-n", "2", *_SIDE_BY_SIDE, "-m", "calm")
_ALONE = ("-m", "alone")
_HALVES = (("tests/unit",), ("tests", "--ignore=tests/unit"))  # of what there is to compile
_AGAIN = ("--last-failed", "--last-failed-no-failures", "none")
_PASSED, _FAILED = 0, 1  # other statuses say that tests were not run as they should


def main(arguments: Sequence[str]) -> int:
    """0 if everything passed."""
    with TemporaryDirectory(prefix="chordwise-tests-") as folder:
        os.environ["SSL_CERT_FILE"] = str(_one_authority(Path(folder)))
        return _run(arguments)


def _run(arguments: Sequence[str]) -> int:
    if arguments:
        return _pytest(*arguments)
    _compile()
    statuses = {_pytest(*run) for run in (_TOGETHER, _CALM, _ALONE)}
    if statuses - {_PASSED, _FAILED}:
        return max(statuses)
    return _pytest(*_AGAIN) if _FAILED in statuses else _PASSED


def _compile() -> None:
    """Have each file of tests compiled by one process, where none has been: every process side by side would do them all."""
    if any(Path(__file__).parent.glob("unit/__pycache__/*-pytest-*.pyc")):
        return
    halves = [
        subprocess.Popen([sys.executable, "-m", "pytest", "--collect-only", *half], stdout=subprocess.DEVNULL)
        for half in _HALVES
    ]
    for half in halves:
        half.wait()


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
