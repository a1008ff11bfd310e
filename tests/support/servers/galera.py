"""A Galera cluster of MariaDB behind HAProxy."""

from __future__ import annotations

import os
import pwd
import re
import secrets
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pymysql

from compose.localstack import programs
from compose.localstack.places import StackFolder
from compose.localstack.processes import Program
from compose.localstack.servers import mariadb
from tests.support.clients.operating import eventually
from tests.support.servers import tools_for_tests
from tests.support.servers.brokers import OwnServer
from tests.support.servers.haproxy import of_nodes
from tests.support.servers.members import Cluster, Member
from tests.support.servers.own_stores import FEW_MB
from tests.support.servers.proxy import Proxy
from tests.support.stacks.processes import free_port

_NODES = 3
_ANSWER_S = 1.8
_SYNCED = "4"  # of wsrep_local_state
# A node that says nothing is expelled after two seconds; by default after five to fifteen.
_PROVIDER = (
    "gmcast.listen_addr=tcp://127.0.0.1:{group};ist.recv_addr=127.0.0.1:{ist};gcache.size=32M;evs.keepalive_period=PT0.5S;"
    "evs.inactive_check_period=PT0.5S;evs.suspect_timeout=PT2S;evs.inactive_timeout=PT4S;evs.install_timeout=PT4S"
)


class _Node(OwnServer):
    """A node that joins with the transactions it has."""

    def start(self) -> None:
        """Start it where its own log ends, so that the others send only what it lacks."""
        command = tuple(part for part in self._server.command if not part.startswith("--wsrep-start-position"))
        if (state := _data(command) / "grastate.dat").exists() and "uuid:    0000" not in state.read_text():
            program = replace(self._server, command=(*command, "--wsrep-recover"))
            said = subprocess.run(
                program.command, env=dict(program.environment), cwd="/", capture_output=True, text=True, check=False
            )
            found = re.search(r"Recovered position: (\S+:\d+)", said.stderr + said.stdout)
            command = (*command, f"--wsrep-start-position={found[1]}") if found else command
        self._server = replace(self._server, command=command)
        super().start()

    def join_from_now_on(self) -> None:
        """Start as a member of a cluster that is there, without changes of its own."""
        left_out = ("--wsrep-new-cluster", "--init-file")
        command = tuple(part for part in self._server.command if not part.startswith(left_out))
        self._server = replace(self._server, command=command)


@dataclass(kw_only=True)
class Galera(Cluster):
    """``url`` is HAProxy's, whose section is ``section``; ``password``: of the user and of root."""

    url: str
    section: str = ""
    password: str = field(repr=False)
    kind: str = "mysql"

    def state(self, member: Member) -> Mapping[str, str]:
        """Return the variables of a node's state, none if it does not answer."""
        assert member.wire is not None
        limits = {"connect_timeout": _ANSWER_S, "read_timeout": _ANSWER_S, "write_timeout": _ANSWER_S}
        try:
            with (
                pymysql.connect(
                    host="127.0.0.1", port=member.wire.port, user="chordwise", password=self.password, **limits
                ) as connection,
                connection.cursor() as cursor,
            ):
                cursor.execute("SHOW GLOBAL STATUS LIKE 'wsrep_%'")
                return dict(cursor.fetchall())
        except (pymysql.err.Error, OSError):
            return {}

    def is_whole(self) -> bool:
        """Return whether every node is ready and knows all others."""
        states = [self.state(member) for member in self.members]
        return all(
            state.get("wsrep_cluster_size") == str(len(self.members)) and state["wsrep_local_state"] == _SYNCED
            for state in states
        )


@contextmanager
def galera(folder: Path, *, writers: int = 1) -> Iterator[Galera]:
    """Run the nodes. HAProxy is to be started with the cluster's ``section``. ``writers``: nodes that take connections; with
    more than one a node has all earlier writes of the others before it reads."""
    password, port = secrets.token_hex(16), free_port()
    groups = [free_port() for _ in range(_NODES)]
    others = ",".join(f"127.0.0.1:{group}" for group in groups)
    with ExitStack() as whole:
        members = []
        for name, group in zip(("node-a", "node-b", "node-c"), groups, strict=True):
            program = _program(folder / name, password, group, others)
            own = (f"--wsrep-node-name={name}", f"--wsrep-sync-wait={int(writers > 1)}")
            server = _Node("", replace(program, command=(*program.command, *own)))
            whole.callback(server.close)
            if members:
                server.join_from_now_on()
            else:
                server._server = replace(server._server, command=(*server._server.command, "--wsrep-new-cluster"))
            server.start()
            server.join_from_now_on()
            wire = whole.enter_context(Proxy("127.0.0.1", int(program.port or 0)))
            members.append(Member(name=name, server=server, wire=wire))
        url = f"mysql+pymysql://chordwise:{password}@127.0.0.1:{port}/chordwise?charset=utf8mb4"
        cluster = Galera(url=url, password=password, members=members)
        eventually(cluster.is_whole, within_s=60)
        cluster.section = of_nodes(port, members, writers=writers)
        yield cluster


def _program(folder: Path, password: str, group: int, others: str) -> Program:
    found, tools = programs.mariadb(), tools_for_tests.galera()
    assert found is not None, "there is no MariaDB to start"
    assert tools is not None, "there is no Galera to start"
    stack = StackFolder("own", local=folder)
    stack.make()
    if group == int(others.partition(",")[0].rpartition(":")[2]):  # the others get theirs from the first
        mariadb.prepare(found, stack.data / "mariadb", stack.logs / "mariadb.log")
    else:
        (stack.data / "mariadb").mkdir()
    if os.geteuid() == 0:  # a receiving rsync that root started writes as nobody
        nobody = pwd.getpwnam("nobody")
        os.chown(stack.data / "mariadb", nobody.pw_uid, nobody.pw_gid)
    program = mariadb.program(found, stack, {"mysql_root": password, "mysql": password}, port=free_port())
    provider = _PROVIDER.format(group=group, ist=free_port())
    options = (
        "--binlog-format=ROW",
        "--innodb-autoinc-lock-mode=2",
        "--wsrep-on=ON",
        f"--wsrep-provider={tools.provider}",
        f"--wsrep-provider-options={provider}",
        f"--wsrep-cluster-address=gcomm://{others}",
        "--wsrep-cluster-name=chordwise",
        f"--wsrep-node-address=127.0.0.1:{group}",
        "--wsrep-sst-method=rsync",
        f"--wsrep-sst-receive-address=127.0.0.1:{free_port()}",
    )
    environment = dict(program.environment)
    for name, first in tools.environment.items():
        environment[name] = os.pathsep.join(filter(None, (first, environment.get(name, ""))))
    return replace(program, command=(*program.command, *FEW_MB, *options), environment=environment)


def _data(command: tuple[str, ...]) -> Path:
    return Path(next(part.partition("=")[2] for part in command if part.startswith("--datadir=")))
