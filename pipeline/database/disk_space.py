"""The space of the disks that the installation writes: indexes, and the data of servers on the same host."""

import shutil
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import redis
from pydantic import SecretStr
from sqlalchemy import Engine, text

from pipeline.database.engines import mysql_errors, postgres_errors, redis_errors
from pipeline.database.worker_heartbeats import DiskSpace
from pipeline.errors import PipelineError
from pipeline.settings import Settings
from pipeline.store_urls import host_and_port, hosts_of

_LOOPBACK = ("localhost", "127.0.0.1", "::1")


def space_of(holds: str, folder: str | Path) -> DiskSpace | None:
    """Return the space of the disk under a folder; None if this process cannot see it."""
    try:
        usage = shutil.disk_usage(folder)
    except OSError:
        return None
    return DiskSpace(holds=holds, free_bytes=usage.free, total_bytes=usage.total)


def servers_here(settings: Settings, mysql: Engine, postgres: Engine, client: redis.Redis) -> tuple[DiskSpace, ...]:
    """Return the space of the data folders of servers with a loopback address. Leaves out a server that does not answer
    or does not name its folder to this user, and a folder that is not visible here, as in another container."""
    servers: dict[str, tuple[SecretStr, Callable[[], str]]] = {
        "mysql": (settings.mysql_url, partial(_mysql_folder, mysql)),
        "postgres": (settings.postgres_url, partial(_postgres_folder, postgres)),
        "redis": (settings.redis_url, partial(_redis_folder, client)),
    }
    found = []
    for holds, (url, ask) in servers.items():
        hosts = hosts_of(url.get_secret_value())
        if len(hosts) < 2 and all(host_and_port(host, 0)[0] in _LOOPBACK for host in hosts):
            with suppress(PipelineError):  # the check of the server reports it
                found.append(space_of(holds, ask()))
    return tuple(space for space in found if space is not None)


def _mysql_folder(engine: Engine) -> str:
    with mysql_errors(), engine.connect() as connection:
        return str(connection.execute(text("SELECT @@datadir")).scalar_one())


def _postgres_folder(engine: Engine) -> str:
    # NULL for a user without the role pg_read_all_settings, instead of the error of SHOW.
    statement = text("SELECT setting FROM pg_settings WHERE name = 'data_directory'")
    with postgres_errors(), engine.connect() as connection:
        return str(connection.execute(statement).scalar() or "/nonexistent")


def _redis_folder(client: redis.Redis) -> str:
    with redis_errors():
        answer: dict[str, str] = client.config_get("dir")  # type: ignore[assignment]
    return answer.get("dir", "/nonexistent")
