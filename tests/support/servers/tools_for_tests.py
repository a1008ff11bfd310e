"""Programs that only tests need: the machine's own, or those of Debian's packages unpacked below `.local/`."""

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from compose.localstack import apt, programs, shell
from compose.localstack.places import LOCAL
from compose.localstack.progress import Failure

_LOGS = LOCAL / "logs"
_PROMETHEUS = LOCAL / "prometheus"
_SERVERS = LOCAL / "servers"
_FAKETIME = LOCAL / "faketime"
_PGBOUNCER = LOCAL / "pgbouncer"
_NGINX = LOCAL / "nginx"
_TESSERACT = LOCAL / "tesseract"
_CLUSTERS = LOCAL / "clusters"
_OF_CLUSTERS = ("haproxy", "galera-4", "mariadb-server", "rsync", "lsof")
_PACKAGES = ("tesseract-ocr", "tesseract-ocr-eng", "tesseract-ocr-chi-sim")
_LANGUAGES = frozenset({"eng", "chi_sim"})
# Libraries of the programs that train models: more than a third of the download.
_WITHOUT = re.compile(r"libpango|libcairo|libharfbuzz|libx|libglib|libfontconfig|libfreetype|libp11|libgnutls")
# The program knows neither where its libraries nor where its data are unpacked.
_SCRIPT = """#!/bin/sh
LD_LIBRARY_PATH='{libraries}' TESSDATA_PREFIX='{data}' exec '{program}' "$@"
"""


def fetch_missing() -> None:
    """Unpack the programs that are missing."""
    if promtool() is None:
        _fetch("promtool", "tests of the alert rules", _PROMETHEUS, "prometheus")
    if tesseract() is None:
        apt.fetch_for_tests("tesseract", "tests of recognised pictures", _TESSERACT.name, _fetch_tesseract)
    if other_time() is None:
        _fetch("libfaketime", "tests of wrong clocks", _FAKETIME, "libfaketime")
    if pgbouncer() is None:
        _fetch("pgbouncer", "tests of pooled connections", _PGBOUNCER, "pgbouncer", libraries=True)
    if nginx() is None:
        _fetch("nginx", "tests of gateways behind a proxy", _NGINX, "nginx", libraries=True)


def fetch_for_clusters() -> None:
    """Unpack what `make ha` needs besides, unless it is there. Raises Failure."""
    if haproxy() is None or galera() is None:
        log = _LOGS / f"{_CLUSTERS.name}.log"
        work = LOCAL / f"apt-{_CLUSTERS.name}"
        apt.unpack(
            _OF_CLUSTERS, _CLUSTERS, libraries=True, work=work, log=log, without=re.compile("libperl|libmariadb")
        )


def promtool() -> Path | None:
    """Return the path of promtool, from PATH or unpacked; None if there is neither."""
    return _of_prometheus("promtool")


def prometheus() -> Path | None:
    """Return the path of Prometheus itself, which comes with promtool; None without it."""
    return _of_prometheus("prometheus")


def backup_environment() -> Mapping[str, str] | None:
    """Return the variables to find and run the programs of both servers' backups; None without mariadb-dump."""
    if not programs.has_mariadb_dump():
        return None
    postgres = programs.postgres_installation() / "bin"
    if shutil.which("mariadb-dump"):
        return {"PATH": os.pathsep.join([str(postgres), os.environ["PATH"]])}
    folders = [postgres, _SERVERS / "usr/bin"]
    path = os.pathsep.join([*map(str, folders), os.environ["PATH"]])
    return {"PATH": path, **programs.loader_environment(_SERVERS)}


def other_time() -> Path | None:
    """Return the library that gives a process another clock, as the machine's loader can use it; None without it."""
    folders = (_FAKETIME / "usr/lib", Path("/usr/lib"))
    return next((path for folder in folders for path in folder.glob("*/faketime/libfaketime.so.1")), None)


def pgbouncer() -> tuple[Path, Mapping[str, str]] | None:
    """Return the program, from PATH or unpacked, and the variables to run it with; None if there is neither."""
    return _server("pgbouncer", _PGBOUNCER)


def nginx() -> tuple[Path, Mapping[str, str]] | None:
    """Return as `pgbouncer`."""
    return _server("nginx", _NGINX)


def haproxy() -> tuple[Path, Mapping[str, str]] | None:
    """Return as `pgbouncer`."""
    return _server("haproxy", _CLUSTERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class GaleraTools:
    """Galera's library, and variables by which a node finds the scripts that send and receive a whole database."""

    provider: Path
    environment: Mapping[str, str]


def galera() -> GaleraTools | None:
    """Return the library and scripts for a MariaDB that is to be a node, installed or unpacked; None without them."""
    for root in (Path("/"), _CLUSTERS):
        libraries = sorted(root.glob("usr/lib/galera/libgalera_smm.so")) or sorted(
            root.glob("usr/lib/libgalera_smm.so")
        )
        if libraries and (root / "usr/bin/wsrep_sst_rsync").is_file():
            loader = {} if root == Path("/") else programs.loader_environment(root)
            folders = [str(folder / "usr/bin") for folder in (root, _SERVERS)]
            return GaleraTools(provider=libraries[0], environment={"PATH": os.pathsep.join(folders), **loader})
    return None


def tesseract() -> Path | None:
    """Return the program, from PATH or unpacked; None unless it has the data of English and Chinese."""
    candidates = (shutil.which("tesseract"), _TESSERACT / "tesseract")
    return next((Path(path) for path in candidates if path and _runs(Path(path))), None)


def _server(name: str, folder: Path) -> tuple[Path, Mapping[str, str]] | None:
    if path := shutil.which(name):
        return Path(path), {}
    unpacked = folder / "usr/sbin" / name
    return (unpacked, programs.loader_environment(folder)) if unpacked.is_file() else None


def _of_prometheus(name: str) -> Path | None:
    if path := shutil.which(name):
        return Path(path)
    unpacked = _PROMETHEUS / "usr/bin" / name
    return unpacked if unpacked.is_file() else None


def _fetch(name: str, tests: str, into: Path, package: str, *, libraries: bool = False) -> None:
    work, log = LOCAL / f"apt-{into.name}", _LOGS / f"{into.name}.log"
    apt.fetch_for_tests(
        name, tests, into.name, partial(apt.unpack, (package,), into, libraries=libraries, work=work, log=log)
    )


def _fetch_tesseract() -> None:
    root, log = _TESSERACT, _LOGS / "tesseract.log"
    apt.unpack(_PACKAGES, root, libraries=True, work=root.with_name(f"apt-{root.name}"), log=log, without=_WITHOUT)
    data = next(root.glob("usr/share/tesseract-ocr/*/tessdata"), root)
    folders = sorted({str(library.parent) for library in root.glob("**/*.so*")})
    script = root / "tesseract"
    text = _SCRIPT.format(libraries=os.pathsep.join(folders), data=data, program=root / "usr/bin/tesseract")
    script.write_text(text, encoding="utf-8")
    script.chmod(0o755)
    if not _runs(script):
        raise Failure("was unpacked but does not run here", log=log)


def _runs(program: Path) -> bool:
    return program.is_file() and set(shell.output([program, "--list-langs"]).split()) >= _LANGUAGES
