"""mariadb-dump for the tests of backups: the installed one, or that of Debian's package unpacked below `.local/`."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from .. import apt, programs
from ..places import LOCAL

_UNPACKED = LOCAL / "mariadb-client"
_SERVERS = LOCAL / "servers"


def environment() -> Mapping[str, str] | None:
    """Return the variables by which the programs of both servers' backups are found and run; None without
    mariadb-dump."""
    postgres = programs.postgres_installation() / "bin"
    if shutil.which("mariadb-dump"):
        return {"PATH": os.pathsep.join([str(postgres), os.environ["PATH"]])}
    if not (_UNPACKED / "usr/bin/mariadb-dump").is_file():
        return None
    folders = [postgres, _UNPACKED / "usr/bin", _SERVERS / "usr/bin"]
    return {
        "PATH": os.pathsep.join([*map(str, folders), os.environ["PATH"]]),
        **programs.loader_environment(_SERVERS),
    }


def fetch_missing(*, log: Path) -> None:
    """Unpack mariadb-dump if there is none."""
    work = LOCAL / "apt-mariadb-client"
    unpack = partial(apt.unpack, ("mariadb-client",), _UNPACKED, libraries=False, work=work, log=log)
    if environment() is None:
        apt.fetch_for_tests("mariadb-dump", "tests of backups", _UNPACKED.name, unpack)
