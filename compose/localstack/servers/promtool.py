"""promtool for the tests of the alert rules: the installed one, or that of Debian's package unpacked below
`.local/`."""

from __future__ import annotations

import shutil
from pathlib import Path

from .. import apt
from ..places import LOCAL
from ..progress import Failure, say, step

_UNPACKED = LOCAL / "prometheus"


def promtool() -> Path | None:
    """Return the path of promtool, from PATH or unpacked; None if there is neither."""
    found = shutil.which("promtool")
    unpacked = _UNPACKED / "usr/bin/promtool"
    if found:
        return Path(found)
    return unpacked if unpacked.is_file() else None


def fetch_missing(*, log: Path) -> None:
    """Download and unpack promtool if it is missing. Print a failure and go on: the tests that need promtool then
    fail."""
    if promtool() is not None:
        return
    if not apt.available():
        say("  promtool: not found, and there is no apt-get to fetch it with; tests of the alert rules will fail")
        return
    try:
        with step("promtool for tests: fetching the distribution's package into .local/prometheus", slow=True):
            apt.unpack(("prometheus",), _UNPACKED, libraries=False, work=LOCAL / "apt-prometheus", log=log)
    except Failure as failure:
        say(f"  promtool: {failure}; tests of the alert rules will fail")
