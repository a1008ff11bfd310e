"""Every role of an installation as a process of its own, on a MariaDB, a PostgreSQL and a Redis of its own."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from pipeline.resources import Resources
from pipeline.settings import Settings
from tests.conftest import make_tables, make_tenant
from tests.support.servers.brokers import OwnServer, own_redis
from tests.support.servers.own_stores import own_mariadb, own_postgres
from tests.support.stacks.processes import environment_of, free_port, process, wait_for_http, wait_for_log
from workers.roles import ROLES, clock_command, worker_command

NO_DISKS: Mapping[str, int] = MappingProxyType({})
ADMIN_KEY = "an operator's key of these tests"


@dataclass(frozen=True, kw_only=True)
class OwnInstallation:
    """``servers``: mysql, postgres, redis. ``processes``: gateway, clock, and the roles of workers, whose logs are
    ``worker_logs``. ``client`` has the key of a tenant. ``environment``: that of every process."""

    servers: dict[str, OwnServer]
    processes: dict[str, subprocess.Popen[bytes]]
    client: httpx.Client
    use: Resources
    folder: Path
    environment: dict[str, str]

    @property
    def worker_logs(self) -> list[Path]:
        """The logs of the workers."""
        return [self.folder / f"{role}.log" for role in ROLES]

    def readiness(self) -> dict[str, Any]:
        """Return the body of /readyz, whatever its status."""
        return dict(self.client.get("/readyz").json())

    def findings(self) -> dict[str, dict[str, Any]]:
        """Return the doctor's findings by check."""
        answer = self.client.get("/v1/doctor", headers={"Authorization": f"Bearer {ADMIN_KEY}"}).raise_for_status()
        return {finding["check"]: finding for finding in answer.json()["findings"]}


@contextmanager
def small_disk(folder: Path, *, megabytes: int) -> Iterator[Path]:
    """A folder on a disk of its own, which needs root."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=0755", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no disk can be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@contextmanager
def own_installation(
    settings: Settings, folder: Path, *, disks: Mapping[str, int] = NO_DISKS, **changed: str
) -> Iterator[OwnInstallation]:
    """Run the installation until the block ends, with logs in ``folder``. ``disks``: megabytes of the servers that have a
    disk of their own. ``changed``: variables of its environment."""
    with ExitStack() as whole:
        for name, megabytes in disks.items():
            whole.enter_context(small_disk(folder / name, megabytes=megabytes))
        servers = {
            "mysql": whole.enter_context(own_mariadb(folder / "mysql")),
            "postgres": whole.enter_context(own_postgres(folder / "postgres")),
            "redis": own_redis(folder / "redis"),
        }
        whole.callback(servers["redis"].close)
        servers["redis"].start()
        urls = {f"{name}_url": SecretStr(server.url) for name, server in servers.items()}
        use = whole.enter_context(closing(Resources(settings.model_copy(update=urls))))
        make_tables(use)
        _, key = make_tenant(use)
        port = free_port()
        environment = environment_of(use.settings, redis_url=servers["redis"].url, port=port) | {
            "CHORDWISE_ADMIN_KEY": ADMIN_KEY,
            "CHORDWISE_SWEEP_INTERVAL_S": "1",
            "CHORDWISE_KEYWORD_ENGINE": "mysql",
            **changed,
        }
        commands = {
            "gateway": ("api_gateway",),
            **{role: tuple(worker_command(role)) for role in ROLES},
            "clock": tuple(clock_command(str(folder / "schedule"))),
        }
        running = {
            name: whole.enter_context(
                process(*command, log=folder / f"{name}.log", ending=signal.SIGKILL, **environment)
            )
            for name, command in commands.items()
        }
        for role in ROLES:
            wait_for_log(folder / f"{role}.log", " ready.", seconds=120)
        url = f"http://127.0.0.1:{port}"
        wait_for_http(f"{url}/readyz", seconds=120)
        headers = {"Authorization": f"Bearer {key}"}
        client = whole.enter_context(httpx.Client(base_url=url, headers=headers, timeout=60))
        yield OwnInstallation(
            servers=servers, processes=running, client=client, use=use, folder=folder, environment=environment
        )
