"""Tesseract for the tests of pictures: the machine's own, or Debian's packages unpacked below `.local/`."""

from __future__ import annotations

import os
import re
import shutil
from functools import partial
from pathlib import Path

from .. import apt, shell
from ..places import LOCAL
from ..progress import Failure

_UNPACKED = LOCAL / "tesseract"
_PACKAGES = ("tesseract-ocr", "tesseract-ocr-eng", "tesseract-ocr-chi-sim")
_LANGUAGES = frozenset({"eng", "chi_sim"})
# Libraries of the programs that train models: more than a third of the download.
_WITHOUT = re.compile(r"libpango|libcairo|libharfbuzz|libx|libglib|libfontconfig|libfreetype|libp11|libgnutls")
# The program knows neither where its libraries nor where its data are unpacked.
_SCRIPT = """#!/bin/sh
LD_LIBRARY_PATH='{libraries}' TESSDATA_PREFIX='{data}' exec '{program}' "$@"
"""


def tesseract() -> Path | None:
    """Return the program, from PATH or unpacked; None unless it has the data of English and Chinese."""
    candidates = (shutil.which("tesseract"), _UNPACKED / "tesseract")
    return next((Path(path) for path in candidates if path and _runs(Path(path))), None)


def fetch_missing(*, log: Path) -> None:
    """Unpack tesseract if there is none."""
    if tesseract() is None:
        fetch = partial(_fetch, _UNPACKED, log=log)
        apt.fetch_for_tests("tesseract", "tests of recognised pictures", _UNPACKED.name, fetch)


def _fetch(root: Path, *, log: Path) -> None:
    apt.unpack(_PACKAGES, root, libraries=True, work=root.with_name(f"apt-{root.name}"), log=log, without=_WITHOUT)
    data = next(root.glob("usr/share/tesseract-ocr/*/tessdata"), root)
    folders = sorted({str(library.parent) for library in root.glob("**/*.so*")})
    script = root / "tesseract"
    script.write_text(
        _SCRIPT.format(libraries=os.pathsep.join(folders), data=data, program=root / "usr/bin/tesseract"),
        encoding="utf-8",
    )
    script.chmod(0o755)
    if not _runs(script):
        raise Failure("was unpacked but does not run here", log=log)


def _runs(program: Path) -> bool:
    return program.is_file() and set(shell.output([program, "--list-langs"]).split()) >= _LANGUAGES
