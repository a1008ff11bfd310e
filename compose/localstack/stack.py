"""The lifetime of one stack: servers, schemas, a key, services; and a complete end."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from . import ports, probes, processes, programs, services, shell, state, stopping, variables
from .endpoints import endpoints, external, for_client
from .places import ENVIRONMENT, ROOT, VENV, StackFolder
from .processes import Identity, Program
from .progress import Failure, say, step, tail
from .servers import mariadb, postgres, rabbitmq, redis
from .supervisor import Supervisor

_SERVER = VENV / "bin" / "chordwise-server"
_PASSWORDS = ("mysql_root", "mysql", "postgres_superuser", "postgres", "redis", "admin_key", "flower")
_USUAL_PORTS = {"gateway": 8080, "flower": 5555, "mysql": 3306, "postgres": 5432, "redis": 6379}
_PORT_OF = {"mariadb": "mysql"}  # the other servers' names are those of their ports
_OTHER_PORTS = 5  # how often a start may find a port taken before it fails
_SERVERS_WITHIN_S = 60.0
_SERVICES_WITHIN_S = 180.0  # a shared machine may need most of them for the imports of eight processes


class Stack:
    """A context manager that runs the stack; its exit, also by an exception, ends every program it started.

    ``fresh`` empties the stack first; not ``synced``, MySQL and PostgreSQL do not wait for the disk; ``rabbitmq`` carries
    messages through the stack's own RabbitMQ; ``adopt`` assigns PostgreSQL and Redis to the installation of the given
    MySQL, whichever installation they belonged to. Raises Failure if another command is using the stack.
    """

    def __init__(
        self, name: str, *, fresh: bool = False, synced: bool = True, rabbitmq: bool = False, adopt: bool = False
    ) -> None:
        self.folder = StackFolder(name)
        self._rabbitmq = rabbitmq
        self._fresh = fresh
        self._synced = synced
        self._adopt = adopt
        self._reserved = ports.Reservations()
        self._ports: dict[str, int] = {}
        self._ready = False
        self._running: dict[str, Identity] = {}
        self._closing = ExitStack()
        self._supervisor = Supervisor(self._record)
        self._environment: dict[str, str] = {}

    def __enter__(self) -> Stack:
        self._closing.enter_context(state.held(self.folder))
        self._closing.callback(self._reserved.close)
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
        passwords = variables.passwords(self.folder.secrets, [*_PASSWORDS, *(["rabbitmq"] if self._rabbitmq else [])])
        self._choose_ports()
        self._on_free_ports(lambda: self._start_servers(passwords))
        programs.link_clients(self.folder)
        addresses = self._settle(passwords)
        if self._rabbitmq:
            self._on_free_ports(lambda: self._start_rabbitmq(passwords["rabbitmq"]))
            addresses = self._settle(passwords)
        if not servers_only:
            installation_id = self._migrate()
            self._on_free_ports(lambda: self._start_services(passwords, installation_id))
            addresses = self._settle(passwords) | {"CHORDWISE_API_KEY": self._key_that_works()}
            self._environment |= addresses
        variables.write_private(self.folder.environment, variables.dump(addresses))
        if self.folder.name == "up" and not servers_only:
            variables.write_private(ENVIRONMENT, variables.dump(for_client(addresses)))
        self._ready = True
        self._record(self._running)
        say(f"  stack '{self.folder.name}' is ready after {time.monotonic() - begun:.1f} s")

    def watch(self) -> None:
        """Keep everything running until asked to stop. Raises Stopped."""
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

    def _settle(self, passwords: dict[str, str]) -> dict[str, str]:
        """Return the addresses with the current ports, and add them to the environment of programs that start next."""
        addresses = endpoints(self.folder, passwords, self._ports)
        self._environment = shell.plain_environment() | addresses
        if self._rabbitmq:
            broker = rabbitmq.url(passwords["rabbitmq"], port=self._ports[rabbitmq.PORTS[0]])
            self._environment["CHORDWISE_BROKER_URL"] = broker
        self._environment["PATH"] = f"{VENV / 'bin'}{os.pathsep}{self._environment.get('PATH', os.defpath)}"
        return addresses

    def _on_free_ports(self, start: Callable[[], None]) -> None:
        """Start some programs. If one finds its port taken by then, choose another port for it and start all again."""
        running = set(self._running)
        for _ in range(_OTHER_PORTS):
            try:
                start()
                return
            except ports.PortTaken as lost:
                self._supervisor.stop(self._supervisor.names - running)
                name = _PORT_OF.get(lost.server, lost.server)
                before = self._ports[name]
                self._choose_ports(instead_of=name)
                say(f"  {lost.server}: port {before} was taken meanwhile, {self._ports[name]} instead")
        start()

    def _start_services(self, passwords: dict[str, str], installation_id: str) -> None:
        addresses = self._settle(passwords)
        login = f"{addresses['CHORDWISE_FLOWER_USER']}:{addresses['CHORDWISE_FLOWER_PASSWORD']}"
        table = services.programs(
            self.folder,
            self._environment | {"FLOWER_BASIC_AUTH": login},
            gateway_port=self._ports["gateway"],
            flower_port=self._ports["flower"],
            installation_id=installation_id,
        )
        self._supervisor.start(table, within_s=_SERVICES_WITHIN_S)

    def _start_servers(self, passwords: dict[str, str]) -> None:
        """Make the data folders side by side, then start the servers, except for those that run elsewhere."""
        chosen = self._ports
        folder, log = self.folder, self.folder.logs / "prepare.log"
        programs_: list[Program] = []
        with ThreadPoolExecutor() as beside:
            preparing = []
            if not external("mysql"):
                server = programs.mariadb()
                if server is None:
                    raise Failure("MariaDB is not installed: run `python3 compose/local.py install`")
                data = folder.data / "mariadb"
                preparing.append(beside.submit(mariadb.prepare, server, data, log))
                programs_.append(mariadb.program(server, folder, passwords, port=chosen["mysql"], synced=self._synced))
            if not external("postgres"):
                home = postgres.home(folder)
                preparing.append(beside.submit(postgres.prepare, home, passwords, log))
                programs_.append(postgres.program(home, folder, port=chosen["postgres"], synced=self._synced))
            if not external("redis"):
                broker = programs.redis()
                if broker is None:
                    raise Failure("Redis is not installed: run `python3 compose/local.py install`")
                programs_.append(redis.program(broker, folder, passwords["redis"], port=chosen["redis"]))
            for future in preparing:
                future.result()
        self._supervisor.start(programs_, within_s=_SERVERS_WITHIN_S)

    def _start_rabbitmq(self, password: str) -> None:
        port, nodes_port, epmd_port = (self._ports[name] for name in rabbitmq.PORTS)
        self._supervisor.start([rabbitmq.epmd(self.folder, port=epmd_port)], within_s=_SERVERS_WITHIN_S)
        server = rabbitmq.program(self.folder, password, port=port, nodes_port=nodes_port, epmd_port=epmd_port)
        self._supervisor.start([server], within_s=rabbitmq.STARTS_WITHIN_S)

    def _migrate(self) -> str:
        """Upgrade both schemas and return the id of the installation that the stores belong to."""
        log = self.folder.logs / "migrate.log"
        seen = log.stat().st_size if log.exists() else 0
        action = "adopt" if self._adopt else "upgrade"
        migrate: list[str | Path] = [_SERVER, "migrate", action]
        with step("schemas up to date"):
            try:
                return shell.secret_line(
                    migrate, what="bringing the schemas up to date", log=log, environment=self._environment, cwd=ROOT
                )
            except Failure as failure:
                reason = tail(log, since=seen, lines=1).strip()
                if not reason.startswith("migrate: "):
                    raise
                raise Failure(f"{reason.removeprefix('migrate: ')}{self._how_to_adopt(reason)}", log=log) from failure

    def _how_to_adopt(self, reason: str) -> str:
        command = f"{Path(sys.executable).name} compose/local.py up --adopt"
        return f" (here: {command})" if self.folder.name == "up" and "migrate_schema adopt" in reason else ""

    def _key_that_works(self) -> str:
        """Return a key of tenant demo that the gateway accepts: the saved one, or a new one if the database does not
        know it, as after a restore. Raises Failure if the gateway accepts neither."""
        saved_key = variables.read(self.folder.environment).get("CHORDWISE_API_KEY", "")
        port = self._ports["gateway"]
        status = probes.key_status(port, saved_key) if saved_key else 401
        if status == 200:
            return saved_key
        if status != 401:
            raise Failure(f"the gateway at 127.0.0.1:{port} answers {status or 'nothing'} to a call with its key")
        log = self.folder.logs / "migrate.log"
        make_key: list[str | Path] = [_SERVER, "key", "demo"]
        with step("a key for tenant demo"):
            made = shell.secret_line(make_key, what="making a key", log=log, environment=self._environment, cwd=ROOT)
        status = probes.key_status(port, made)
        if status != 200:
            raise Failure(f"the gateway at 127.0.0.1:{port} answers {status} to a key that was just made", log=log)
        return made

    def _choose_ports(self, *, instead_of: str | None = None) -> None:
        """Choose a port for each server and service: the last run's if it is free, else for `up` the usual one, else
        any. ``instead_of``: the name whose port has to change."""
        file = self.folder.path / "ports.json"
        before: dict[str, int] = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
        usual: dict[str, int] = {}
        wish: int | None = None
        if self.folder.name == "up":
            usual = _USUAL_PORTS
            wish = ports.wished(os.environ.get("CHORDWISE_GATEWAY_PORT", ""), variable="CHORDWISE_GATEWAY_PORT")
        taken = set(self._ports.values())
        names = [*_USUAL_PORTS, *(rabbitmq.PORTS if self._rabbitmq else ())]
        for name in [instead_of] if instead_of else names:
            first = wish if name == "gateway" else None
            preferred = [first, before.get(name), None if first else usual.get(name)]
            self._ports[name] = ports.choose(preferred, taken, free=self._reserved.take)
        variables.write_private(file, json.dumps(self._ports) + "\n")

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
    """End processes of a stack whose supervisor was killed; return how many there were. The caller holds the stack."""
    previous = state.read(folder)
    leftovers = [identity for identity in previous.processes.values() if identity.alive] if previous else []
    for identity in leftovers:
        processes.end_stranger(identity)
    return len(leftovers)


def _end_command(process: subprocess.Popen[bytes], number: int) -> None:
    """End the command. Ctrl-C has most likely reached it through the terminal already; other signals have not."""
    polite_until = time.monotonic() + (2 if number == signal.SIGINT else 0)
    patient_until = polite_until + 15
    signalled = False
    while process.poll() is None:
        if not signalled and time.monotonic() >= polite_until:
            process.send_signal(number)
            signalled = True
        if time.monotonic() >= patient_until:
            process.kill()
        time.sleep(0.1)
