"""promtool for the tests of the alert rules: the installed one, or that of Debian's package unpacked below
`.local/`."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

from .. import apt
from ..places import LOCAL

_UNPACKED = LOCAL / "prometheus"


def promtool() -> Path | None:
    """Return the path of promtool, from PATH or unpacked; None if there is neither."""
    if path := shutil.which("promtool"):
        return Path(path)
    unpacked = _UNPACKED / "usr/bin/promtool"
    return unpacked if unpacked.is_file() else None


def fetch_missing(*, log: Path) -> None:
    """Unpack promtool if there is none."""
    unpack = partial(apt.unpack, ("prometheus",), _UNPACKED, libraries=False, work=LOCAL / "apt-prometheus", log=log)
    if promtool() is None:
        apt.fetch_for_tests("promtool", "tests of the alert rules", _UNPACKED.name, unpack)
