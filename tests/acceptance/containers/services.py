"""The services of compose.yaml as containers of the image that `make image` builds, by what that file says of each: user,
rights, limits, volumes, environment, command and health check. They share the machine's network, on ports of their own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sqlalchemy import URL, make_url

from compose.localstack.image import tag
from compose.localstack.places import LOCAL
from compose.localstack.servers.podman import COMMAND
from pipeline.settings import Settings
from tests.support.repository.project import COMPOSE, ROOT, SERVICES, interpolated, words
from tests.support.stacks.processes import free_port

IMAGE = tag()


def build_image() -> None:
    """Bring the image up to date: seconds when nothing has changed, minutes the first time."""
    done = subprocess.run([sys.executable, "compose/local.py", "image"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr + (LOCAL / "logs/image.log").read_text("utf-8")[-3000:]


def podman(*arguments: str, may_fail: bool = False, environment: Mapping[str, str] | None = None) -> str:
    """Run one podman command; return its output."""
    done = subprocess.run([COMMAND, *arguments], capture_output=True, text=True, env=environment)
    assert may_fail or done.returncode == 0, (arguments, done.stdout, done.stderr)
    return done.stdout


def variables_for(settings: Settings, passwords: Mapping[str, str]) -> dict[str, str]:
    """Return an .env for compose.yaml by which its services reach these stores."""
    variables = dict(passwords)
    for store in ("mysql", "postgres", "redis"):
        url = make_url(getattr(settings, f"{store}_url").get_secret_value())
        variables[f"{store.upper()}_PASSWORD"] = url.password or ""
        bare = URL.create(url.drivername, url.username, None, url.host, url.port, url.database, url.query)
        variables[f"CHORDWISE_{store.upper()}_URL"] = bare.render_as_string()
    return variables


class Containers:
    """Containers of one installation, named after their services; removed with their volumes at the end."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = dict(variables)
        self._prefix = f"chordwise-{uuid.uuid4().hex[:8]}"
        self._ports = {"8080": str(free_port()), "5555": str(free_port())}
        self._started: dict[str, float] = {}
        self.url = f"http://127.0.0.1:{self._ports['8080']}"

    def start(self, service: str) -> str:
        """Start a service in the background; return its container."""
        container = f"{self._prefix}-{service}"
        self._started[service] = time.monotonic()
        environment = interpolated(service, self._variables)
        if service == "gateway":
            environment |= {"CHORDWISE_GATEWAY_HOST": "127.0.0.1", "CHORDWISE_GATEWAY_PORT": self._ports["8080"]}
        # By its name alone, podman takes a value from its own environment, so that it is on no command line.
        names = [f"--env={key}" for key in environment]
        command = [self._filled(word) for word in words(SERVICES[service]["command"])]
        podman(
            *("run", "--detach", "--name", container, *self._options(service), *names, IMAGE, *command),
            environment={**os.environ, **environment},
        )
        return container

    def run(self, service: str) -> tuple[int, str]:
        """Run a service that ends by itself; return exit code and output."""
        container = self.start(service)
        code = int(podman("wait", container))
        return code, self.log(service)

    def execute(self, service: str, *command: str, may_fail: bool = False) -> str:
        """Run a command in a service's container."""
        return podman("exec", f"{self._prefix}-{service}", *command, may_fail=may_fail)

    def processes(self, service: str) -> list[Path]:
        """Return the folders in /proc of a service's processes, as the machine sees them."""
        container = podman("inspect", "--format", "{{.Id}}", f"{self._prefix}-{service}").strip()
        return [path.parent for path in Path("/proc").glob("[0-9]*/cgroup") if container in _read(path)]

    def is_healthy(self, service: str) -> bool:
        """Run the health check of compose.yaml, as the engine would."""
        kind, *command = SERVICES[service]["healthcheck"]["test"]
        if kind == "CMD-SHELL":
            command = ["/bin/sh", "-c", *command]
        done = subprocess.run(
            [COMMAND, "exec", f"{self._prefix}-{service}", *(self._filled(word) for word in command)],
            capture_output=True,
        )
        return done.returncode == 0

    def wait_until_healthy(self, service: str, *, seconds: float) -> float:
        """Return the seconds since its start."""
        started = self._started[service]
        while not self.is_healthy(service):
            state = self.state(service)
            assert state["Running"], (service, state["ExitCode"], self.log(service))
            assert time.monotonic() - started < seconds, (service, self.log(service))
            time.sleep(0.5)
        return time.monotonic() - started

    def state(self, service: str) -> dict[str, Any]:
        """Return podman's state of a service's container."""
        state: dict[str, Any] = json.loads(podman("inspect", "--format", "json", f"{self._prefix}-{service}"))[0][
            "State"
        ]
        return state

    def log(self, service: str) -> str:
        """Return everything that a service printed."""
        done = subprocess.run(
            [COMMAND, "logs", f"{self._prefix}-{service}"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        return done.stdout

    def stop(self, service: str) -> int:
        """End a service as the engine does, with its own patience; return its exit code, 137 for one that was killed."""
        seconds = SERVICES[service].get("stop_grace_period", "10s").removesuffix("s")
        podman("stop", "--time", seconds, f"{self._prefix}-{service}")
        return int(self.state(service)["ExitCode"])

    def remove(self) -> None:
        """End everything."""
        for service in self._started:
            podman("rm", "--force", "--time", "0", f"{self._prefix}-{service}", may_fail=True)
        for volume in COMPOSE["volumes"]:
            podman("volume", "rm", "--force", f"{self._prefix}-{volume}", may_fail=True)

    def _options(self, name: str) -> list[str]:
        service = SERVICES[name]
        limits = service["deploy"]["resources"]["limits"]
        options = ["--network=host", "--no-healthcheck", f"--user={service['user']}", f"--memory={limits['memory']}"]
        options += [f"--cpus={limits['cpus']}", f"--pids-limit={limits['pids']}", "--read-only-tmpfs=false"]
        options += ["--read-only"] if service["read_only"] else []
        options += ["--init"] if service["init"] else []
        options += [f"--tmpfs={mount}" for mount in service["tmpfs"]]
        options += [f"--cap-drop={capability}" for capability in service["cap_drop"]]
        options += [f"--security-opt={option.removesuffix(':true')}" for option in service["security_opt"]]
        options += [f"--volume={self._prefix}-{volume}" for volume in service.get("volumes", [])]
        return options

    def _filled(self, text: str) -> str:
        """Return a text of compose.yaml with our ports, and its doubled dollar signs single."""
        for port, ours in self._ports.items():
            text = text.replace(port, ours)
        return text.replace("$$", "$").replace("0.0.0.0", "127.0.0.1")


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:  # it has just ended
        return ""
