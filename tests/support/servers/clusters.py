"""Stores of several servers that take over from each other: a Redis with a replica under three sentinels, and a
MariaDB with a replica."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import redis
from sqlalchemy import create_engine, make_url

from compose.localstack import programs
from compose.localstack.places import StackFolder
from compose.localstack.probes import log_says
from compose.localstack.processes import Program
from compose.localstack.servers import redis as redis_server
from compose.localstack.variables import write_private
from tests.support.clients.operating import eventually
from tests.support.servers.administration import run_as
from tests.support.servers.brokers import OwnServer
from tests.support.servers.own_stores import own_mariadb
from tests.support.servers.proxy import Proxy
from tests.support.stacks.processes import free_port

NAME = "own"
_SENTINELS = 3


@dataclass(frozen=True, kw_only=True)
class WatchedRedis:
    """``servers`` by port, the primary one first at the start, each behind its wire of ``wires``; ``url`` names the
    sentinels, by their wires."""

    url: str
    servers: dict[int, OwnServer]
    wires: dict[int, Proxy]
    sentinels: tuple[OwnServer, ...]
    sentinel_wires: tuple[Proxy, ...]
    _ask: redis.Redis

    def primary(self) -> int:
        """Return the port of the server that the last sentinel calls primary: tests take the first one away."""
        return int(self._ask.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME)[1])

    def is_followed(self) -> bool:
        """Return whether a replica that answers has what the primary server has."""
        return _is_followed(self._ask)

    def hand_over(self) -> None:
        """Have the sentinels make the replica the primary server, and the primary one its replica."""
        port = self.primary()
        self._ask.execute_command("SENTINEL", "FAILOVER", NAME)
        eventually(lambda: self.primary() != port, within_s=60)

    def fail_over(self, *, freeze: bool = False) -> OwnServer:
        """Kill or freeze the primary server once it has a replica, and wait until the sentinels have another one; return the
        lost one."""
        eventually(lambda: _is_followed(self._ask), within_s=60)
        port = self.primary()
        lost = self.servers[port]
        lost.freeze() if freeze else lost.kill()
        eventually(lambda: self.primary() != port, within_s=60)
        return lost


@contextmanager
def watched_redis(folder: Path) -> Iterator[WatchedRedis]:
    """Run the servers and their sentinels, which have a password of their own and see a server as lost after a second."""
    found = programs.redis()
    assert found is not None, "there is no Redis to start"
    password, of_sentinels = secrets.token_hex(16), secrets.token_hex(16)
    with ExitStack() as whole:
        servers: dict[int, OwnServer] = {}
        wires: dict[int, Proxy] = {}
        for name in ("first", "second"):
            stack, port = StackFolder(name, local=folder), free_port()
            stack.make()
            wire = whole.enter_context(Proxy("127.0.0.1", port))
            program = redis_server.program(found, stack, password, port=port)
            options = ["--masterauth", password, "--repl-diskless-sync-delay", "0"]
            options += [f"--replica-announce-ip 127.0.0.1 --replica-announce-port {wire.port}"]
            options += [f"--replicaof 127.0.0.1 {next(iter(servers))}"] if servers else []
            server = OwnServer(f"redis://:{password}@127.0.0.1:{wire.port}/0", _with(program, *options))
            whole.callback(server.close)
            server.start()
            servers[wire.port], wires[wire.port] = server, wire
        first = next(iter(servers))
        ports = [free_port() for _ in range(_SENTINELS)]
        sentinels = tuple(_sentinel(folder, port, first, password, of_sentinels) for port in ports)
        for sentinel in sentinels:
            whole.callback(sentinel.close)
            sentinel.start()
        of_clients = tuple(whole.enter_context(Proxy("127.0.0.1", port)) for port in ports)
        hosts = ",".join(f"127.0.0.1:{wire.port}" for wire in of_clients)
        url = f"redis+sentinel://:{password}@{hosts}/{NAME}/0?sentinel_password={of_sentinels}"
        ask = whole.enter_context(closing(redis.Redis(port=ports[-1], password=of_sentinels, decode_responses=True)))
        eventually(lambda: _agree(ask), within_s=60)
        yield WatchedRedis(
            url=url, servers=servers, wires=wires, sentinels=sentinels, sentinel_wires=of_clients, _ask=ask
        )


def _with(program: Program, *options: str) -> Program:
    return replace(program, command=(*program.command, *(part for option in options for part in option.split())))


def _agree(ask: redis.Redis) -> bool:
    """Return whether the sentinels know each other and the replica, which has what the primary server has."""
    known = ask.execute_command("SENTINEL", "MASTER", NAME)
    facts = known if isinstance(known, dict) else dict(zip(known[::2], known[1::2], strict=True))
    return (int(facts["num-slaves"]), int(facts["num-other-sentinels"])) == (1, _SENTINELS - 1)


def _is_followed(ask: redis.Redis) -> bool:
    """Return whether a replica that answers has what the primary server has."""
    replicas = ask.execute_command("SENTINEL", "REPLICAS", NAME)
    facts = [each if isinstance(each, dict) else dict(zip(each[::2], each[1::2], strict=True)) for each in replicas]
    return any(each["master-link-status"] == "ok" and "down" not in each["flags"] for each in facts)


def _sentinel(folder: Path, port: int, primary: int, password: str, own_password: str) -> OwnServer:
    found = programs.redis()
    assert found is not None
    stack = StackFolder(f"sentinel-{port}", local=folder)
    stack.make()
    file = stack.run / "sentinel.conf"
    write_private(
        file,
        f"""bind 127.0.0.1
port {port}
dir "{stack.data}"
requirepass {own_password}
sentinel sentinel-pass {own_password}
sentinel monitor {NAME} 127.0.0.1 {primary} 2
sentinel auth-pass {NAME} {password}
sentinel down-after-milliseconds {NAME} 1000
sentinel failover-timeout {NAME} 4000
""",
    )
    program = redis_server.program(found, stack, password, port=port)
    started = log_says(r"Sentinel ID is")
    return OwnServer(
        "", replace(program, name="sentinel", command=(program.command[0], str(file), "--sentinel"), ready=started)
    )


@dataclass(frozen=True, kw_only=True)
class TwoMariadbs:
    """A MariaDB and its replica, which takes no writes. ``url`` names both."""

    url: str
    first: OwnServer
    second: OwnServer

    def has_caught_up(self) -> bool:
        """Return whether the replica has every transaction of the first server."""
        return _position(self.first, "@@gtid_binlog_pos") == _position(self.second, "@@gtid_slave_pos")

    def promote(self) -> None:
        """Let the second server take writes."""
        as_root = make_url(self.second.url).set(username="root")
        run_as(as_root, "STOP SLAVE")
        run_as(as_root, "SET GLOBAL read_only = OFF")

    def demote(self) -> None:
        """Let the first server take none."""
        run_as(make_url(self.first.url).set(username="root"), "SET GLOBAL read_only = ON")


def _position(server: OwnServer, variable: str) -> str:
    engine = create_engine(make_url(server.url).set(username="root"))
    try:
        with engine.connect() as connection:
            return str(connection.exec_driver_sql(f"SELECT {variable}").scalar_one())
    finally:
        engine.dispose()


@contextmanager
def two_mariadbs(folder: Path) -> Iterator[TwoMariadbs]:
    """Run both, the second as a replica of the first that has caught up."""
    password = secrets.token_hex(16)
    with (
        own_mariadb(folder / "first", "--server-id=1", "--log-bin=binlog", password=password) as first,
        own_mariadb(
            folder / "second", "--server-id=2", "--log-bin=binlog", "--read-only=1", password=password
        ) as second,
    ):
        urls = [make_url(server.url) for server in (first, second)]
        run_as(urls[0].set(username="root"), "GRANT REPLICATION SLAVE ON *.* TO chordwise@'127.0.0.1'")
        follow = (
            f"CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {urls[0].port}, MASTER_USER = 'chordwise',"
            f" MASTER_PASSWORD = '{password}', MASTER_USE_GTID = slave_pos"
        )
        as_root = urls[1].set(username="root")
        run_as(as_root, "SET GLOBAL gtid_slave_pos = ''")
        run_as(as_root, follow)
        run_as(as_root, "START SLAVE")
        hosts = ",".join(f"127.0.0.1:{url.port}" for url in urls)
        url = f"mysql+pymysql://chordwise:{password}@{hosts}/chordwise?charset=utf8mb4"
        yield TwoMariadbs(url=url, first=first, second=second)
