"""Chromium for the tests of the console: its headless shell, the machine's own or Debian's packages unpacked below `.local/`;
the machine's whole browser where there is no shell."""

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from .. import apt, shell
from ..places import LOCAL
from ..progress import Failure

_SHELL = "chromium-headless-shell"
_WHOLE = ("chromium", "chromium-browser", "google-chrome")
_UNPACKED = LOCAL / "browser"
# A font with Chinese characters, and one for the rest: without the first, Chinese is boxes and tests see no difference.
# The shell has no windows of its own: a page takes half of the processor time of the whole browser, and 130 MB less.
_PACKAGES = (_SHELL, "chromium-common", "fonts-wqy-zenhei", "fonts-dejavu-core")
# Graphics drivers, which headless tests do not use: a third of the download.
_WITHOUT = re.compile(r"libgl1-mesa-dri|libllvm|libgtk-4|libqt|libkf5")
_FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir>{fonts}</dir>
  <cachedir>{cache}</cachedir>
</fontconfig>
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chromium:
    """An executable and its environment."""

    executable: Path
    environment: Mapping[str, str] = field(default_factory=dict)


def chromium() -> Chromium | None:
    """Return the shell, else the whole browser; None when there is neither."""
    return _shell() or next((Chromium(executable=Path(path)) for path in map(shutil.which, _WHOLE) if path), None)


def _shell() -> Chromium | None:
    if path := shutil.which(_SHELL):
        return Chromium(executable=Path(path))
    return unpacked(_UNPACKED)


def unpacked(root: Path) -> Chromium | None:
    """Return the browser below ``root``, if it exists and runs."""
    executable = root / "usr/lib/chromium" / _SHELL
    if not executable.is_file():
        return None
    environment = _environment(root)
    version = shell.output([executable, "--version"], environment={**shell.plain_environment(), **environment})
    return Chromium(executable=executable, environment=environment) if version.startswith("Chromium ") else None


def fetch_missing(*, log: Path) -> None:
    """Unpack the shell if there is none."""
    if _shell() is None:
        otherwise = "will fail" if chromium() is None else "open the whole browser instead"
        fetching = partial(fetch, _UNPACKED, log=log)
        apt.fetch_for_tests("Chromium", "tests of the console", _UNPACKED.name, fetching, otherwise=otherwise)


def fetch(root: Path, *, log: Path) -> None:
    """Download and unpack below ``root``. Raises Failure."""
    apt.unpack(_PACKAGES, root, libraries=True, work=root.with_name(f"apt-{root.name}"), log=log, without=_WITHOUT)
    (root / "fonts.conf").write_text(
        _FONTS.format(fonts=root / "usr/share/fonts", cache=root / "font-cache"), encoding="utf-8"
    )
    if unpacked(root) is None:
        raise Failure("was unpacked but does not run here", log=log)


def _environment(root: Path) -> dict[str, str]:
    """Return the paths of its libraries, also those that are opened by name from a folder beside, and of its fonts."""
    parents = {path.parent for folder in ("lib", "usr/lib") for path in root.glob(f"{folder}/*/**/*.so*")}
    libraries = sorted(str(path) for path in parents if "chromium" not in path.parts)
    return {"LD_LIBRARY_PATH": os.pathsep.join(libraries), "FONTCONFIG_FILE": str(root / "fonts.conf")}
