"""Redis as broker, result store and cache: every write logged, nothing evicted."""

import os
from pathlib import Path

from ..places import StackFolder
from ..probes import log_says
from ..processes import Program
from ..programs import Redis
from ..variables import write_private


def program(server: Redis, folder: StackFolder, password: str, *, port: int) -> Program:
    """Return the server as a Program. Write its settings, with the password, into a file for its owner only."""
    data = folder.data / "redis"
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    settings = folder.run / "redis.conf"
    write_private(settings, configuration(data, password, port=port))
    return Program(
        name="redis",
        command=(str(server.server), str(settings)),
        log=folder.logs / "redis.log",
        ready=log_says(r"eady to accept connections"),
        port=port,
        environment={"PATH": os.defpath, "LC_ALL": "C.UTF-8", **server.environment},
        cwd=Path("/"),
    )


def configuration(data: Path, password: str, *, port: int) -> str:
    """Return the settings file. Memory pressure must not lose a message, and a crash at most one second of them.

    Redis rewrites the append-only file repeatedly, and compression would take four times the processor time. An idle Redis
    looks five times a second for what has expired, instead of ten. Tests create installations beside the main one, each
    with its own database.
    """
    quoted = str(data).replace("\\", "\\\\").replace('"', '\\"')
    return f"""bind 127.0.0.1
port {port}
databases 64
dir "{quoted}"
requirepass {password}
appendonly yes
appendfsync everysec
rdbcompression no
hz 5
save ""
maxmemory-policy noeviction
"""
