"""Redis as broker, result store and cache: every write logged, nothing evicted."""

from __future__ import annotations

import os
from pathlib import Path

from .places import StackFolder
from .probes import log_says
from .processes import Program
from .programs import Redis
from .variables import write_private


def program(server: Redis, folder: StackFolder, password: str, *, port: int) -> Program:
    """The server as the supervisor runs it. Its settings, with the password, go into a file of its owner's."""
    data = folder.data / "redis"
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    settings = folder.run / "redis.conf"
    write_private(settings, configuration(data, password, port=port))
    return Program(
        name="redis",
        command=(str(server.server), str(settings)),
        log=folder.logs / "redis.log",
        ready=log_says(r"eady to accept connections"),
        environment={"PATH": os.defpath, "LC_ALL": "C.UTF-8", **server.environment},
        cwd=Path("/"),
    )


def configuration(data: Path, password: str, *, port: int) -> str:
    """The settings file. A message must not be lost to memory pressure or, for more than a second, to a crash. What is
    appended is rewritten again and again: compressing it there takes four times the processor time."""
    quoted = str(data).replace("\\", "\\\\").replace('"', '\\"')
    return f"""bind 127.0.0.1
port {port}
dir "{quoted}"
requirepass {password}
appendonly yes
appendfsync everysec
rdbcompression no
save ""
maxmemory-policy noeviction
"""
