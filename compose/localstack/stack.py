"""One stack from start to end: servers, schemas, a key, services; and everything gone afterwards."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from . import mariadb, ports, postgres, processes, programs, redis, services, shell, state, stopping, variables
from .endpoints import Endpoints, external
from .install import PYTHON
from .places import ENVIRONMENT, ROOT, VENV, StackFolder
from .processes import Identity, Program
from .progress import Failure, say, step
from .supervisor import Supervisor

_PASSWORDS = ("mysql_root", "mysql", "postgres_superuser", "postgres", "redis", "admin_key", "flower")
_USUAL_PORTS = {"gateway": 8080, "flower": 5555, "mysql": 3306, "postgres": 5432, "redis": 6379}
_SERVERS_WITHIN_S = 60.0
_SERVICES_WITHIN_S = 180.0  # a shared machine may need most of them for the imports of eight processes


class Stack:
    """Use as a context manager: leaving it ends whatever was started, however it is left.

    ``fresh`` empties the stack first. Raises Failure when another command is using the stack.
    """

    def __init__(self, name: str, *, fresh: bool = False) -> None:
        self.folder = StackFolder(name)
        self._fresh = fresh
        self._ready = False
        self._running: dict[str, Identity] = {}
        self._closing = ExitStack()
        self._supervisor = Supervisor(self._record)
        self._environment: dict[str, str] = {}

    def __enter__(self) -> Stack:
        self._closing.enter_context(state.held(self.folder))
        end_leftovers(self.folder)
        self._record({})
        return self

    def __exit__(self, *_error: object) -> None:
        stopping.forget()
        with self._closing, step(f"stack '{self.folder.name}': everything ended"):
            self._supervisor.stop(service.name for service in services.SERVICES)
            self._supervisor.stop()
            if self._fresh:
                postgres.remove_outside(self.folder)

    def start(self, *, servers_only: bool) -> None:
        """Start the servers, and unless ``servers_only`` bring the schemas up to date and start the services."""
        begun = time.monotonic()
        if self._fresh:
            self._empty()
        self.folder.make()
        passwords = variables.passwords(self.folder.secrets, _PASSWORDS)
        chosen = self._ports()
        self._start_servers(passwords, chosen)
        endpoints = Endpoints.of(self.folder, passwords, chosen)
        self._environment = shell.plain_environment() | endpoints.variables()
        self._environment["PATH"] = f"{VENV / 'bin'}{os.pathsep}{self._environment.get('PATH', os.defpath)}"
        if not servers_only:
            endpoints = endpoints.with_key(self._migrate_and_make_key())
            self._environment |= endpoints.variables()
            own = {"FLOWER_BASIC_AUTH": f"{endpoints.flower_user}:{endpoints.flower_password}"}
            table = services.programs(
                self.folder, self._environment | own, gateway_port=chosen["gateway"], flower_port=chosen["flower"]
            )
            self._supervisor.start(table, within_s=_SERVICES_WITHIN_S)
        variables.write_private(self.folder.environment, variables.dump(endpoints.variables()))
        if self.folder.name == "up" and not servers_only:
            variables.write_private(ENVIRONMENT, variables.dump(endpoints.for_client()))
        self._ready = True
        self._record(self._running)
        say(f"  stack '{self.folder.name}' is ready after {time.monotonic() - begun:.1f} s")

    def watch(self) -> None:
        """Keep everything running until asked to stop: raises Stopped."""
        while True:
            self._supervisor.tick()
            stopping.pause(0.5)

    def run(self, command: Sequence[str]) -> int:
        """Run ``command`` with the stack's variables, from the checkout's root, and return its exit code.

        When we are asked to stop, the command is asked as well, and Stopped is raised once it has ended.
        """
        try:
            process = subprocess.Popen(command, env=self._environment, cwd=ROOT)
        except OSError as error:
            raise Failure(f"{command[0]} could not be started: {error.strerror}") from error
        try:
            while process.poll() is None:
                self._supervisor.tick()
                stopping.pause(0.1)
        except (stopping.Stopped, Failure) as error:
            _end_command(process, error.number if isinstance(error, stopping.Stopped) else signal.SIGTERM)
            raise
        return process.returncode if process.returncode >= 0 else 128 - process.returncode

    def _start_servers(self, passwords: dict[str, str], chosen: Mapping[str, int]) -> None:
        """Make the data folders side by side, then start the servers, save for those that run elsewhere."""
        folder, log = self.folder, self.folder.logs / "prepare.log"
        programs_: list[Program] = []
        with ThreadPoolExecutor() as beside:
            preparing = []
            if not external("mysql"):
                server = programs.mariadb()
                if server is None:
                    raise Failure("MariaDB is not installed: run `python3 compose/local.py install`")
                data = folder.data / "mariadb"
                if not data.exists():
                    folder.environment.unlink(missing_ok=True)  # the key it holds is one of a database that is gone
                preparing.append(beside.submit(mariadb.prepare, server, data, log))
                programs_.append(mariadb.program(server, folder, passwords, port=chosen["mysql"]))
            if not external("postgres"):
                home = postgres.home(folder)
                preparing.append(beside.submit(postgres.prepare, home, passwords, log))
                programs_.append(postgres.program(home, folder, port=chosen["postgres"]))
            if not external("redis"):
                broker = programs.redis()
                if broker is None:
                    raise Failure("Redis is not installed: run `python3 compose/local.py install`")
                programs_.append(redis.program(broker, folder, passwords["redis"], port=chosen["redis"]))
            for future in preparing:
                future.result()
        self._supervisor.start(programs_, within_s=_SERVERS_WITHIN_S)

    def _migrate_and_make_key(self) -> str:
        """Bring both schemas up to date; returns a key of tenant demo, a new one unless this database has one already."""
        log, environment = self.folder.logs / "migrate.log", self._environment
        migrate: list[str | Path] = [PYTHON, "-m", "pipeline.stores.migrate", "upgrade"]
        with step("schemas up to date"):
            shell.run(migrate, what="bringing the schemas up to date", log=log, environment=environment, cwd=ROOT)
        known = variables.read(self.folder.environment)
        database = external("mysql") or "own"
        if known.get("CHORDWISE_API_KEY") and known.get("CHORDWISE_STACK_DATABASE", "own") == database:
            return known["CHORDWISE_API_KEY"]
        make_key: list[str | Path] = [PYTHON, "-m", "pipeline.stores.bootstrap", "demo"]
        with step("a key for tenant demo"):
            return shell.secret_line(make_key, what="making a key", log=log, environment=environment, cwd=ROOT)

    def _ports(self) -> dict[str, int]:
        """A port for each server and service: `up` takes the usual ones when they are free; a stack keeps its ports."""
        file = self.folder.path / "ports.json"
        before: dict[str, int] = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
        usual: dict[str, int] = {}
        if self.folder.name == "up":
            wish = ports.wished(os.environ.get("CHORDWISE_GATEWAY_PORT", ""), variable="CHORDWISE_GATEWAY_PORT")
            usual = _USUAL_PORTS | ({"gateway": wish} if wish is not None else {})
        taken: set[int] = set()
        chosen = {name: ports.choose([usual.get(name), before.get(name)], taken) for name in _USUAL_PORTS}
        file.write_text(json.dumps(chosen) + "\n", encoding="utf-8")
        return chosen

    def _empty(self) -> None:
        for path in (self.folder.data, self.folder.logs, self.folder.run):
            shutil.rmtree(path, ignore_errors=True)
        for file in (self.folder.environment, self.folder.secrets, self.folder.path / "ports.json"):
            file.unlink(missing_ok=True)
        postgres.remove_outside(self.folder)

    def _record(self, running: Mapping[str, Identity]) -> None:
        self._running = dict(running)
        ourselves = processes.identify(os.getpid())
        if ourselves is not None:
            state.write(self.folder, state.State(supervisor=ourselves, ready=self._ready, processes=self._running))


def end_leftovers(folder: StackFolder) -> int:
    """End processes of a stack whose supervisor was killed; returns how many there were. The caller holds the stack."""
    known = state.read(folder)
    left = [identity for identity in known.processes.values() if identity.alive] if known else []
    for identity in left:
        processes.end_stranger(identity)
    return len(left)


def _end_command(process: subprocess.Popen[bytes], number: int) -> None:
    """Let the command end. Ctrl-C has reached it through the terminal already, most likely; any other signal has not."""
    polite_until = time.monotonic() + (2 if number == signal.SIGINT else 0)
    patient_until = polite_until + 15
    asked = False
    while process.poll() is None:
        if not asked and time.monotonic() >= polite_until:
            process.send_signal(number)
            asked = True
        if time.monotonic() >= patient_until:
            process.kill()
        time.sleep(0.1)
