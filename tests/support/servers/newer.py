"""Servers of other releases of the distribution, unpacked below `.local/` with their own C library: for the matrix.

In the place of each program stands a script that starts the real one by its own loader, so that scripts of the packages
find it as well. A folder of links to these programs comes first on PATH.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from compose.localstack import apt, shell
from compose.localstack.places import LOCAL
from compose.localstack.progress import Failure, step
from compose.localstack.servers import rabbitmq

# Replicated queues, and none of the features that RabbitMQ is about to drop: for CHORDWISE_LOCAL_RABBITMQ_SETTINGS.
QUORUM = """default_queue_type = quorum
queue_leader_locator = balanced
deprecated_features.permit.global_qos = false
deprecated_features.permit.transient_nonexcl_queues = false
"""
_SCRIPT = """#!/bin/sh
exec '{loader}' {own_name} --library-path '{libraries}' '{program}' "$@" {options}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Newer:
    """``programs``: by the name to start it by, its path in the packages, which may be a pattern; names of helpers begin with
    an underscore. ``options``: those for its own files, appended to a server's, with a blank for the folder. ``scripts``:
    others to start it by."""

    suite: str
    packages: tuple[str, ...]
    programs: Mapping[str, str]
    options: str = ""
    scripts: Mapping[str, str] = field(default_factory=dict)


def _valkey(suite: str) -> Newer:
    return Newer(
        suite=suite, packages=("valkey-server", "valkey-tools"), programs={"redis-server": "usr/bin/valkey-server"}
    )


def _of_postgres(series: int) -> Mapping[str, str]:
    return {
        f"_{name}": f"usr/lib/postgresql/{series}/bin/{name}"
        for name in ("postgres", "initdb", "pg_dump", "pg_restore")
    }


def _rabbitmq(suite: str) -> Newer:
    machine = ("beam.smp", "epmd", "erl_child_setup", "erlexec", "inet_gethost")
    return Newer(
        suite=suite,
        packages=rabbitmq.PACKAGES,
        programs={f"_{name}": f"usr/lib/erlang/erts-*/bin/{name}" for name in machine}
        | {f"_{name}": f"usr/lib/erlang/lib/os_mon-*/priv/bin/{name}" for name in ("cpu_sup", "memsup")},
    )


NEWER: Mapping[str, Newer] = {
    "mysql-9": Newer(
        suite="unstable",
        packages=("mysql-server-core",),
        programs={"mysqld": "usr/sbin/mysqld"},
        options="--basedir='{root}/usr' --lc-messages-dir='{root}/usr/share/mysql' --secure-file-priv=NULL --mysqlx=OFF",
    ),
    "mysql-9-client": Newer(
        suite="unstable",
        packages=("mysql-client-core",),
        programs={name: f"usr/bin/{name}" for name in ("mysql", "mysqldump")},
    ),
    "mariadb-11": Newer(
        suite="trixie",
        packages=("mariadb-server-core", "mariadb-client-core"),
        programs={
            "mariadbd": "usr/sbin/mariadbd",
            "_defaults": "usr/bin/my_print_defaults",
            "_resolve": "usr/bin/resolveip",
        },
        scripts={"mariadb-install-db": "exec '{root}/usr/bin/mariadb-install-db' \"$@\" --basedir='{root}/usr'"},
        options="--basedir='{root}/usr' --lc-messages-dir='{root}/usr/share/mariadb' --plugin-dir='{root}/usr/lib/mysql/plugin'"
        " --character-sets-dir='{root}/usr/share/mariadb/charsets'",
    ),
    "postgres-17": Newer(
        suite="trixie",
        packages=("postgresql-17", "postgresql-client-17", "postgresql-17-pgvector"),
        programs=_of_postgres(17),
    ),
    "postgres-15": Newer(
        suite="bookworm",
        packages=("postgresql-15", "postgresql-client-15"),
        programs=_of_postgres(15),
    ),
    "redis-8": Newer(
        suite="trixie", packages=("redis-server", "redis-tools"), programs={"redis-server": "usr/bin/redis-server"}
    ),
    "valkey-8": _valkey("trixie"),
    "valkey-9": _valkey("unstable"),
    "rabbitmq-3.8": _rabbitmq("bullseye"),
    "rabbitmq-4.0": _rabbitmq("trixie"),
    "rabbitmq-4.3": _rabbitmq("unstable"),
}


def fetch(name: str, *, below: Path = LOCAL / "newer") -> Path:
    """Return the folder of the scripts of a server of `NEWER`, unpacked unless it is there whole. Raises Failure."""
    newer, root = NEWER[name], below / name
    scripts = root / "scripts"
    if scripts.is_dir() and all(any(root.glob(program)) for program in newer.programs.values()):
        return scripts
    shutil.rmtree(root, ignore_errors=True)
    if not apt.available():
        raise Failure(f"{name}: there is no apt-get here to fetch it with")
    root.parent.mkdir(parents=True, exist_ok=True)
    with step(f"{name}: fetching packages of {newer.suite} into {below}", slow=True):
        work, log = LOCAL / f"apt-{name}", LOCAL / "logs" / "install.log"
        apt.unpack(newer.packages, root, libraries=True, work=work, log=log, suite=newer.suite)
    loader = next(iter(sorted(root.glob("**/ld-linux-*.so.*"))), None)
    if loader is None:
        raise Failure(f"{name}: its C library brought no loader")
    own_name = '--argv0 "$0"' if "--argv0" in shell.output([loader, "--help"]) else ""  # unknown before glibc 2.33
    libraries = ":".join(sorted({str(path.parent) for path in root.glob("**/*-linux-gnu/**/*.so*")}))
    unfinished = root / "scripts.unfinished"
    unfinished.mkdir()
    for name_, program in newer.programs.items():
        is_helper = name_.startswith("_")
        script = next(iter(root.glob(program)), None)
        if script is None:
            raise Failure(f"{name}: its packages have no {program}")
        real = script.with_name(f"{script.name}.real")
        script.rename(real)
        options = "" if is_helper else newer.options.format(root=root)
        text = _SCRIPT.format(loader=loader, own_name=own_name, libraries=libraries, program=real, options=options)
        _write(script, text)
        if not is_helper:
            (unfinished / name_).symlink_to(script)
    for name_, command in newer.scripts.items():
        _write(unfinished / name_, f"#!/bin/sh\n{command.format(root=root)}\n")
    unfinished.rename(scripts)
    return scripts


def fetch_rabbitmq(name: str) -> Path:
    """Return the folder of a RabbitMQ of `NEWER`, for CHORDWISE_LOCAL_RABBITMQ. Raises Failure."""
    root = fetch(name).parent
    rabbitmq.move_erlang(root, to=root)
    return root


def _write(script: Path, text: str) -> None:
    script.write_text(text, encoding="utf-8")
    script.chmod(0o755)
