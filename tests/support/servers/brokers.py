"""A Redis or a RabbitMQ of a test's own, to be killed, frozen and started again without anybody else noticing."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from compose.localstack import processes, programs
from compose.localstack.places import StackFolder
from compose.localstack.processes import Program
from compose.localstack.servers import rabbitmq, redis
from tests.support.servers import certificates, newer
from tests.support.stacks.processes import free_port, stopped, with_children

_STARTS_WITHIN_S = 180.0


class OwnServer:
    """A server with the programs that must run before it. ``url`` is its address."""

    def __init__(self, url: str, server: Program, *before: Program) -> None:
        self.url = url
        self._server, self._before = server, before
        self._running: list[tuple[Program, subprocess.Popen[bytes]]] = []

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables it runs with."""
        return self._server.environment

    def start(self) -> None:
        """Start it, with the data it had, and wait until it is ready."""
        for program in (*self._before, self._server) if not self._running else (self._server,):
            offset = program.log.stat().st_size if program.log.exists() else 0
            self._running.append((program, processes.spawn(program)))
            ends = time.monotonic() + _STARTS_WITHIN_S
            while not program.ready(program.log, offset):
                if time.monotonic() > ends or processes.finished(self._running[-1][1]):
                    raise AssertionError(f"{program.name} did not start:\n{program.log.read_text()[-2000:]}")
                time.sleep(0.05)

    def kill(self) -> None:
        """``kill -9`` of all its processes. PostgreSQL and RabbitMQ give some of theirs a group of their own, and one that is
        frozen does not notice that the first is gone."""
        _, running = self._running.pop()
        pids = stopped(running.pid)
        for pid in pids:
            with suppress(ProcessLookupError):  # it ended meanwhile
                os.kill(pid, signal.SIGKILL)
        while not processes.finished(running) or any(processes.identify(pid) for pid in pids):
            time.sleep(0.02)

    def stop(self) -> None:
        """Have it end in order."""
        processes.end_children([self._running.pop()])

    def freeze(self) -> None:
        """SIGSTOP of all its processes: connections stay open, and nothing is answered."""
        stopped(self._running[-1][1].pid)

    def thaw(self) -> None:
        """SIGCONT."""
        for pid in with_children(self._running[-1][1].pid):
            with suppress(ProcessLookupError):  # it ended meanwhile
                os.kill(pid, signal.SIGCONT)

    def control(self, *arguments: str, tool: str = "rabbitmqctl") -> str:
        """Have rabbitmqctl or another tool change a RabbitMQ that runs, or look at it; return what it says."""
        command = [str(Path(self._server.command[0]).with_name(tool)), *arguments]
        environment, folder = dict(self._server.environment), self._server.cwd
        done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, check=True, timeout=180)
        return done.stdout.decode()

    def close(self) -> None:
        """End everything that runs."""
        while self._running:
            self.kill()


def own_redis(folder: Path) -> OwnServer:
    """A Redis that writes to disk what it is given."""
    found = programs.redis()
    assert found is not None, "there is no Redis to start"
    stack, password, port = _folder(folder), secrets.token_hex(16), free_port()
    return OwnServer(f"redis://:{password}@127.0.0.1:{port}/0", redis.program(found, stack, password, port=port))


def own_guarded_redis(folder: Path, *, expired: bool = False) -> OwnServer:
    """A Redis that accepts only TLS, with a user that may not administrate it. ``expired``: its certificate is."""
    found = programs.redis()
    assert found is not None, "there is no Redis to start"
    stack, password, port = _folder(folder), secrets.token_hex(16), free_port()
    files = certificates.make(folder, expired=expired)
    program = redis.program(found, stack, secrets.token_hex(16), port=port)
    with (stack.run / "redis.conf").open("a", encoding="utf-8") as settings:
        settings.write(
            f"port 0\ntls-port {port}\ntls-auth-clients no\ntls-cert-file {files.server}\n"
            f"tls-key-file {files.server_key}\ntls-ca-cert-file {files.authority}\n"
            f"user chordwise on >{password} ~* &* +@all -@admin\n"
        )
    return OwnServer(f"rediss://chordwise:{password}@127.0.0.1:{port}/0?ssl_ca_certs={files.authority}", program)


def own_rabbitmq(folder: Path, *, root: Path | None = None, settings: str = "") -> OwnServer:
    """A RabbitMQ with its own Erlang name register: the one below ``root``, or the stack's. ``settings``: more lines of its
    file. Raises Failure where it is not installed."""
    stack, password = _folder(folder), secrets.token_hex(16)
    port, nodes_port, epmd_port = free_port(), free_port(), free_port()
    with pytest.MonkeyPatch.context() as environment:
        if root is not None:
            environment.setenv("CHORDWISE_LOCAL_RABBITMQ", str(root))
        if settings:
            environment.setenv("CHORDWISE_LOCAL_RABBITMQ_SETTINGS", settings)
        return OwnServer(
            rabbitmq.url(password, port=port),
            rabbitmq.program(stack, password, port=port, nodes_port=nodes_port, epmd_port=epmd_port),
            rabbitmq.epmd(stack, port=epmd_port),
        )


def own_guarded_rabbitmq(folder: Path, *, expired: bool = False) -> OwnServer:
    """A RabbitMQ that is reached by TLS alone, also by 127.0.0.2, for which its certificate is none. ``expired``: its
    certificate is. Raises Failure where it is not installed."""
    folder.mkdir(parents=True, exist_ok=True)
    files, port = certificates.make(folder, expired=expired), free_port()
    lines = (
        f"listeners.ssl.1 = 127.0.0.1:{port}",
        f"listeners.ssl.2 = 127.0.0.2:{port}",
        f"ssl_options.cacertfile = {files.authority}",
        f"ssl_options.certfile = {files.server}",
        f"ssl_options.keyfile = {files.server_key}",
        "ssl_options.verify = verify_none",
    )
    server = own_rabbitmq(folder, settings="\n".join(lines))
    account = server.url.removeprefix("amqp://").partition("@")[0]
    server.url = f"amqps://{account}@127.0.0.1:{port}//?ssl_ca_certs={files.authority}"
    return server


def own_old_rabbitmq(folder: Path) -> OwnServer:
    """A RabbitMQ 3.8. Raises Failure where it cannot be fetched."""
    return own_rabbitmq(folder, root=newer.fetch_rabbitmq("rabbitmq-3.8"))


def _folder(folder: Path) -> StackFolder:
    made = StackFolder("own", local=folder)
    made.make()
    return made
