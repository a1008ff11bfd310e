"""Virtual environments of a reader, linked from this one: what `make up` installs, and what `pip install` on a page adds.

Run as a module it stands in for pip: `--python PYTHON install [--quiet] REQUIREMENT…` links the named distributions and all
that they require, and nothing else. A program that imports what its page does not install fails, without a registry.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

from tests.support.repository.project import ROOT

_CLIENT = "chordwise-client"
_PIP = f"""import os, sys
sys.path.clear()
os.environ["PYTHONPATH"] = {str(ROOT)!r}
os.execv({sys.executable!r}, [{sys.executable!r}, "-m", {__name__!r}, *sys.argv[1:]])
"""


def like_make_up(folder: Path, *, registry: bool = False) -> None:
    """Make an environment with the packages of `requirements.lock`, whose commands take the folder above for theirs. Its pip
    is this module; with ``registry`` the real one."""
    (folder / "bin").mkdir(parents=True)
    shutil.copy(Path(sys.prefix) / "pyvenv.cfg", folder)
    packages = folder / _packages().relative_to(sys.prefix)
    packages.mkdir(parents=True)
    python = folder / "bin/python"
    python.symlink_to(sys.executable)
    command = folder / "bin/chordwise"
    command.write_text(
        f'#!/bin/sh\nexec "{python}" -c "import sys; from chordwise.cli import main; sys.exit(main())" "$@"\n'
    )
    command.chmod(0o755)
    _link(packages, _locked())
    if registry:
        _link(packages, ["pip"])
    else:
        (packages / "pip").mkdir()
        (packages / "pip/__main__.py").write_text(_PIP, encoding="utf-8")


@cache
def _locked() -> tuple[str, ...]:
    names = re.findall(r"^([\w.-]+)==", (ROOT / "requirements.lock").read_text(encoding="utf-8"), re.MULTILINE)
    return (*names, "chordwise", _CLIENT)


def _packages() -> Path:
    return next(Path(sys.prefix).glob("lib/python3*/site-packages"))


def _link(packages: Path, names: Iterable[str]) -> None:
    """Link the files and folders of distributions; one that is not installed here, as those for other systems, is left out."""
    for name in names:
        for part in _parts(name):
            if not (packages / part).is_symlink():
                (packages / part).symlink_to(_packages() / part)


@cache
def _parts(name: str) -> frozenset[str]:
    """Return the names in `site-packages` that belong to a distribution."""
    try:
        files = distribution(name).files or ()
    except PackageNotFoundError:
        return frozenset()
    return frozenset(file.parts[0] for file in files if file.parts[0] not in ("..", "__pycache__"))


def _required(wanted: Requirement, seen: set[tuple[str, str]]) -> Iterator[str]:
    """Yield a distribution and all that it requires. Raises PackageNotFoundError for a wanted one that is not installed."""
    for extra in ("", *sorted(wanted.extras)):
        if (wanted.name, extra) in seen:
            continue
        seen.add((wanted.name, extra))
        yield wanted.name
        for line in distribution(wanted.name).requires or ():
            needed = Requirement(line)
            if needed.marker is None or needed.marker.evaluate({"extra": extra}):
                yield from _required(needed, seen)


def _requirement(text: str) -> Requirement:
    """Return the requirement of an argument of pip; the client's folder in a checkout counts as the client."""
    if match := re.fullmatch(r".*/chordwise/chordwise(\[[\w,]+\])?", text):
        text = _CLIENT + (match[1] or "")
    return Requirement(text)


def _main(arguments: list[str]) -> None:
    option, python, install, *named = arguments
    assert (option, install) == ("--python", "install"), arguments
    packages = next(Path(os.path.abspath(python)).parents[1].glob("lib/python3*/site-packages"))
    for text in named:
        if not text.startswith("-"):
            _link(packages, _required(_requirement(text), set()))


if __name__ == "__main__":
    _main(sys.argv[1:])
