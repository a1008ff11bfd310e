"""Podman, which needs no daemon: the machine's own, or Debian's packages unpacked below `.local/` and run by root.

Images and containers are kept below `.local/containers` either way, so that the machine's own stay as they are.
"""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import zlib
from pathlib import Path

from .. import apt, shell
from ..places import LOCAL
from ..progress import Failure, step

FOLDER = LOCAL / "containers"
COMMAND = FOLDER / "podman"
_LOG = LOCAL / "logs" / "containers.log"
# runc, because crun 1.8 runs beside control groups of version 2 only.
_PACKAGES = ("podman", "runc", "conmon", "catatonit", "mmdebstrap", "golang-github-containers-common")
# Parts of every system, which must stay those that its other libraries know.
_WITHOUT = re.compile(r"lib(systemd|udev|mount|blkid|selinux|audit|crypt|cap|pcre|bz2|ffi|tinfo|ncurses|readline|fuse)")
_SCRIPT = """#!/bin/sh
export CONTAINERS_CONF='{folder}/containers.conf' CONTAINERS_STORAGE_CONF='{folder}/storage.conf' HOME='{folder}/home'
{libraries}exec '{program}' "$@"
"""
# Every image that is pulled is named by its digest.
_POLICY = {"default": [{"type": "insecureAcceptAnything"}]}
_CONFIGURATION = """[containers]
default_ulimits = ["nofile={files}:{files}", "nproc={processes}:{processes}"]
{init}[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
tmp_dir = "{run}/libpod"
lock_type = "file"
{programs}"""
_PROGRAMS = """conmon_path = ["{root}/usr/bin/conmon"]
runtime = "runc"
[engine.runtimes]
runc = ["{root}/usr/sbin/runc"]
"""
_INIT = 'init_path = "{root}/usr/bin/catatonit"\n'
_STORAGE = '[storage]\ndriver = "{driver}"\ngraphroot = "{folder}/storage"\nrunroot = "{run}/storage"\n'


def fetch_missing() -> Path:
    """Return the command, an executable that takes podman's arguments. Raises Failure where none can run."""
    if os.geteuid() != 0:
        raise Failure("an image is built by root here: use sudo, or build it with your own engine (docs/containers.md)")
    program, root = shutil.which("podman"), FOLDER / "programs"
    if not (root / "usr/bin/podman").is_file() and (program is None or shutil.which("mmdebstrap") is None):
        if not apt.available():
            raise Failure("there is no apt-get to fetch podman and mmdebstrap with")
        with step("Podman: fetching the distribution's packages into .local/containers", slow=True):
            work = LOCAL / "apt-containers"
            apt.unpack(_PACKAGES, root, libraries=True, work=work, log=_LOG, without=_WITHOUT)
    _write(program, root)
    if not shell.output([COMMAND, "info"]):
        shell.run([COMMAND, "info"], what="podman", log=_LOG)
    return COMMAND


def mmdebstrap() -> tuple[str, dict[str, str]]:
    """Return the program that makes a Debian system, and its environment."""
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), str(FOLDER / "programs/usr/bin")])
    return shutil.which("mmdebstrap", path=path) or "mmdebstrap", shell.plain_environment() | {"PATH": path}


def _write(program: str | None, root: Path) -> None:
    """Write the command and its configuration: all that it keeps is below `FOLDER`, or gone after the next boot."""
    run = f"/run/chordwise-{zlib.crc32(str(FOLDER).encode()):08x}"
    ours = program is None
    home = FOLDER / "home/.config/containers"
    home.mkdir(parents=True, exist_ok=True)
    (home / "policy.json").write_text(json.dumps(_POLICY), encoding="utf-8")
    (home / "registries.conf").write_text("unqualified-search-registries = []\n", encoding="utf-8")
    engine = _CONFIGURATION.format(
        files=_at_most(resource.RLIMIT_NOFILE, 1 << 20),
        processes=_at_most(resource.RLIMIT_NPROC, 1 << 15),  # builds have this limit, and may not raise it
        run=run,
        init=_INIT.format(root=root) if ours else "",
        programs=_PROGRAMS.format(root=root) if ours else "",
    )
    (FOLDER / "containers.conf").write_text(engine, encoding="utf-8")
    driver = "overlay" if "\toverlay\n" in Path("/proc/filesystems").read_text(encoding="ascii") else "vfs"
    (FOLDER / "storage.conf").write_text(_STORAGE.format(driver=driver, folder=FOLDER, run=run), encoding="utf-8")
    folders = sorted({str(library.parent) for library in root.glob("**/*.so*")}) if ours else []
    libraries = f"export LD_LIBRARY_PATH='{os.pathsep.join(folders)}'\n" if folders else ""
    COMMAND.write_text(
        _SCRIPT.format(folder=FOLDER, libraries=libraries, program=program or root / "usr/bin/podman"), encoding="utf-8"
    )
    COMMAND.chmod(0o755)


def _at_most(limit: int, most: int) -> int:
    """Return the hard limit of this process, which containers cannot exceed, or ``most``."""
    hard = resource.getrlimit(limit)[1]
    return most if hard == resource.RLIM_INFINITY else min(hard, most)
