"""Oracle's MySQL for the matrix: its data folder and its program."""

from __future__ import annotations

import os
from pathlib import Path

from compose.localstack import shell
from compose.localstack.places import StackFolder
from compose.localstack.probes import log_says
from compose.localstack.processes import Program
from compose.localstack.programs import cache_mb
from compose.localstack.variables import write_private
from tests.support.servers.newer import fetch


def program(folder: StackFolder, password: str, *, port: int) -> Program:
    """Return the server as a Program, with a new data folder. Raises Failure."""
    server, data = fetch("mysql-9") / "mysqld", folder.data / "mysql"
    shell.run(
        [server, "--no-defaults", "--initialize-insecure", f"--datadir={data}", *_user()],
        what="making MySQL's data folder",
        log=folder.logs / "mysql.log",
    )
    first_statements = folder.run / "mysql.sql"
    write_private(first_statements, accounts(password))
    options = (
        f"--datadir={data}",
        f"--socket={folder.run / 'mysql.sock'}",
        f"--pid-file={folder.run / 'mysql.pid'}",
        f"--init-file={first_statements}",
        f"--port={port}",
        "--bind-address=127.0.0.1",
        "--skip-name-resolve",
        "--transaction-isolation=READ-COMMITTED",
        f"--innodb-buffer-pool-size={cache_mb(most=2048)}M",
        "--max-allowed-packet=256M",
        "--max-connections=200",
        "--default-time-zone=+00:00",
    )
    return Program(
        name="mysql",
        command=(str(server), "--no-defaults", *_user(), *options),
        log=folder.logs / "mysql.log",
        ready=log_says(rf"ready for connections.*port: {port}"),
        port=port,
        environment={"PATH": os.defpath, "LC_ALL": "C.UTF-8", "TZ": "UTC"},
        cwd=Path("/"),
        grace_s=30.0,
    )


def accounts(password: str) -> str:
    """Return the statements of every start, one per line: a user for the project's databases and those of tests, and an
    administrator with the same password."""
    return f"""CREATE DATABASE IF NOT EXISTS chordwise;
CREATE USER IF NOT EXISTS root@'127.0.0.1';
ALTER USER root@'127.0.0.1' IDENTIFIED BY '{password}';
GRANT ALL ON *.* TO root@'127.0.0.1' WITH GRANT OPTION;
CREATE USER IF NOT EXISTS chordwise@'127.0.0.1';
ALTER USER chordwise@'127.0.0.1' IDENTIFIED BY '{password}';
GRANT ALL ON `chordwise%`.* TO chordwise@'127.0.0.1';
"""


def _user() -> list[str]:
    return ["--user=root"] if os.geteuid() == 0 else []
