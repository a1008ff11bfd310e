"""MariaDB: its data folder and its program."""

import os
import shutil
from pathlib import Path

from .. import shell
from ..places import StackFolder
from ..probes import log_says
from ..processes import Program
from ..programs import MariaDb, cache_mb
from ..progress import step
from ..variables import write_private

_UNSYNCED = ("--innodb-flush-log-at-trx-commit=2", "--innodb-flush-method=nosync", "--debug-no-sync")


def prepare(server: MariaDb, data: Path, log: Path) -> None:
    """Make the data folder unless it exists. Raises Failure."""
    if data.exists():
        return
    unfinished = data.with_name(f"{data.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(mode=0o700, parents=True)
    command: list[str | Path] = [server.install_db, "--no-defaults", *server.options, f"--datadir={unfinished}"]
    command += ["--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve", "--force"]
    command += _user()
    what, environment = "making MariaDB's data folder", _environment(server)
    with step("MariaDB: new data folder"):
        shell.run(command, what=what, log=log, environment=environment, cwd=Path("/"))
    unfinished.rename(data)


def program(
    server: MariaDb, folder: StackFolder, passwords: dict[str, str], *, port: int, synced: bool = True
) -> Program:
    """Return the server as the supervisor runs it: loopback only, and durable before it acknowledges; not ``synced``:
    durable but for a crash of the machine."""
    first_statements = folder.run / "mariadb.sql"
    write_private(first_statements, accounts(passwords))
    options = (
        f"--datadir={folder.data / 'mariadb'}",
        "--socket=mariadb.sock",  # relative to the data folder: a socket's whole path may have no more than 107 characters
        f"--pid-file={folder.run / 'mariadb.pid'}",
        f"--init-file={first_statements}",
        f"--port={port}",
        "--bind-address=127.0.0.1",
        "--skip-name-resolve",
        "--skip-log-bin",
        "--performance-schema=OFF",
        "--character-set-server=utf8mb4",
        "--transaction-isolation=READ-COMMITTED",
        *(["--innodb-flush-log-at-trx-commit=1"] if synced else _UNSYNCED),
        f"--innodb-buffer-pool-size={cache_mb(most=2048)}M",
        f"--innodb-log-file-size={cache_mb(most=1024)}M",  # a small one has the same pages written again and again
        "--max-allowed-packet=256M",
        "--max-connections=200",
        "--default-time-zone=+00:00",
    )
    return Program(
        name="mariadb",
        command=(str(server.server), "--no-defaults", *server.options, *_user(), *options),
        log=folder.logs / "mariadb.log",
        ready=log_says(r"ready for connections"),
        port=port,
        environment=_environment(server),
        cwd=Path("/"),
        grace_s=30.0,
    )


def accounts(passwords: dict[str, str]) -> str:
    """Return the statements of every start, one a line: the password of root, and the project's database and user."""
    root, ours = passwords["mysql_root"], passwords["mysql"]
    statements = [
        *(f"ALTER USER IF EXISTS root@'{host}' IDENTIFIED BY '{root}'" for host in ("localhost", "127.0.0.1", "::1")),
        "DELETE FROM mysql.global_priv WHERE User = ''",
        "CREATE DATABASE IF NOT EXISTS chordwise",
        "CREATE USER IF NOT EXISTS chordwise@'127.0.0.1'",
        f"ALTER USER chordwise@'127.0.0.1' IDENTIFIED BY '{ours}'",
        "GRANT ALL ON `chordwise%`.* TO chordwise@'127.0.0.1'",  # tests create databases beside the main one
        "FLUSH PRIVILEGES",
    ]
    return "".join(f"{statement};\n" for statement in statements)


def _user() -> list[str]:
    return ["--user=root"] if os.geteuid() == 0 else []


def _environment(server: MariaDb) -> dict[str, str]:
    # glibc keeps in each of its arenas, 16 on two processors, the most that threads ever took.
    lean = {"MALLOC_ARENA_MAX": "2"}
    return {"PATH": f"{os.defpath}:/usr/sbin:/sbin", "LC_ALL": "C.UTF-8", "TZ": "UTC", **lean, **server.environment}
