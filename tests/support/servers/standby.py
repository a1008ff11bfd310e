"""A PostgreSQL with a streaming standby that can be promoted, also without the last transactions."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import psycopg
from sqlalchemy import make_url

from compose.localstack import shell
from compose.localstack.places import StackFolder
from compose.localstack.probes import log_says
from compose.localstack.servers import postgres
from tests.support.clients.operating import eventually
from tests.support.servers.administration import run_as
from tests.support.servers.brokers import OwnServer
from tests.support.servers.members import Cluster, Member
from tests.support.servers.proxy import Proxy
from tests.support.stacks.processes import free_port

_OPTIONS = (
    "shared_buffers=16MB",
    "wal_sender_timeout=3s",
    "wal_receiver_timeout=3s",
    "wal_retrieve_retry_interval=500ms",
)
_READY = log_says(r"ready to accept (?:read-only )?connections")
_BEHIND = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming' AND replay_lsn = pg_current_wal_lsn()"


class _Server(OwnServer):
    """One of the two. ``link``: the port from which the other one copies."""

    def __init__(self, folder: Path, password: str, whole: ExitStack) -> None:
        self._stack = StackFolder(f"own-{secrets.token_hex(4)}", local=folder)
        self._stack.make()
        self._home, self._password, self.port = postgres.home(self._stack), password, free_port()
        whole.callback(postgres.remove_outside, self._stack)
        program = postgres.program(self._home, self._stack, port=self.port)
        options = [part for option in _OPTIONS for part in ("-c", option)]
        url = f"postgresql+psycopg://chordwise:{password}@127.0.0.1:{self.port}/chordwise"
        super().__init__(url, replace(program, command=(*program.command, *options), ready=_READY))
        whole.callback(self.close)
        self.link = whole.enter_context(Proxy("127.0.0.1", self.port))

    def make(self) -> None:
        """Make an empty database."""
        passwords = {"postgres_superuser": self._password, "postgres": self._password}
        postgres.prepare(self._home, passwords, self._stack.logs / "postgres.log")

    def copy(self, other: _Server) -> None:
        """Become a standby of the other server, with its data instead of our own."""
        data, account = self._home.data, self._home.account
        shutil.rmtree(data, ignore_errors=True)
        data.mkdir(mode=0o700, parents=True)
        if account is not None:
            os.chown(data, account.uid, account.gid)
        command = [self._home.installation / "bin/pg_basebackup", "-D", data, "-R", "-X", "stream", "-c", "fast"]
        command += ["-h", "127.0.0.1", "-p", str(other.link.port), "-U", "postgres", "--no-sync"]
        environment = {**self._home.environment, "PGPASSWORD": self._password}
        log = self._stack.logs / "postgres.log"
        shell.run(command, what="copying PostgreSQL", log=log, environment=environment, cwd=Path("/"), account=account)

    def ask(self, statement: str) -> object:
        """Return one value, as the superuser."""
        with psycopg.connect(self._as_superuser(), connect_timeout=2) as connection:
            row = connection.execute(statement.encode()).fetchone()
            return row and row[0]

    def promote(self) -> None:
        """Let it take writes."""
        run_as(make_url(self.url).set(username="postgres"), "SELECT pg_promote(true, 30)")

    def _as_superuser(self) -> str:
        url = make_url(self.url).set(drivername="postgresql", username="postgres")
        return url.render_as_string(hide_password=False)


@dataclass(kw_only=True)
class PostgresPair(Cluster):
    """``url`` names both servers."""

    url: str
    kind: str = "postgres"
    _first: int = field(default=0)

    def primary(self) -> Member:
        """Return the one that takes writes."""
        return self.members[self._first]

    def take_over(self) -> None:
        """Promote the standby."""
        self._first = 1 - self._first
        self._server(self._first).promote()

    def fall_behind(self) -> None:
        """Let the standby receive nothing from now on."""
        self._server(self._first).link.cut()

    def bring_back(self, lost: Member) -> None:
        """Let a former primary follow the new one: it may have transactions that nobody else has."""
        server, leader = self.members.index(lost), self._server(self._first)
        if server != self._first:
            if lost.fault not in ("killed", "handed over"):
                lost.server.kill()
            self._server(server).copy(leader)
            lost.fault = "killed"
        lost.bring_back()
        self._server(server).link.heal()

    def is_whole(self) -> bool:
        """Return whether the standby has everything."""
        try:
            return bool(self._server(self._first).ask(_BEHIND))
        except psycopg.Error:
            return False

    def _server(self, place: int) -> _Server:
        server = self.members[place].server
        assert isinstance(server, _Server)
        return server


@contextmanager
def postgres_pair(folder: Path) -> Iterator[PostgresPair]:
    """Run the primary and the standby."""
    password = secrets.token_hex(16)
    with ExitStack() as whole:
        first, second = (_Server(folder / name, password, whole) for name in ("first", "second"))
        first.make()
        first.start()
        second.copy(first)
        second.start()
        members = [
            Member(name=name, server=server, wire=whole.enter_context(Proxy("127.0.0.1", server.port)))
            for name, server in (("first", first), ("second", second))
        ]
        hosts = ",".join(f"127.0.0.1:{member.wire.port}" for member in members if member.wire)
        url = f"postgresql+psycopg://chordwise:{password}@{hosts}/chordwise"
        pair = PostgresPair(url=url, members=members)
        eventually(pair.is_whole, within_s=30)
        yield pair
