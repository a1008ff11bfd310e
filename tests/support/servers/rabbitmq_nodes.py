"""A RabbitMQ of three nodes, whose queues are quorum queues."""

from __future__ import annotations

import json
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from compose.localstack.places import StackFolder
from compose.localstack.servers import rabbitmq
from compose.localstack.variables import write_private
from tests.support.clients.operating import eventually
from tests.support.servers import newer
from tests.support.servers.brokers import OwnServer
from tests.support.servers.members import Cluster, Member
from tests.support.servers.proxy import Proxy
from tests.support.stacks.processes import free_port
from workers.names import QUERY_QUEUES

_NODES = 3
_ARGUMENTS = "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS"
_NOTICES_AFTER_S = 6  # a node that says nothing; by default a minute


@dataclass(kw_only=True)
class RabbitMqNodes(Cluster):
    """``url`` names every node."""

    url: str
    kind: str = "rabbitmq"

    def bring_back(self, lost: Member) -> None:
        """Let a node join again, and give the queues of queries a leader on each node, as docs/high-availability.md says."""
        lost.bring_back()
        eventually(self._is_rebalanced, within_s=60)

    def leader(self, queue: str) -> Member:
        """Return the node with the leader of a queue."""
        sound = next(member for member in self.members if member.fault is None)
        queues = json.loads(_server(sound).control("list_queues", "name", "leader", "--formatter", "json"))
        name = next(each["leader"] for each in queues if each["name"] == queue)
        return next(member for member in self.members if _server(member).environment["RABBITMQ_NODENAME"] == name)

    def _is_rebalanced(self) -> bool:
        with suppress(subprocess.CalledProcessError):  # a node that thaws is not among the others yet
            pattern = f"^({'|'.join(QUERY_QUEUES)})$"
            _server(self.members[0]).control("rebalance", "quorum", "--queue-pattern", pattern, tool="rabbitmq-queues")
            return True
        return False


def _server(member: Member) -> OwnServer:
    assert isinstance(member.server, OwnServer)
    return member.server


@contextmanager
def rabbitmq_nodes(folder: Path) -> Iterator[RabbitMqNodes]:
    """Run the nodes. Raises Failure where RabbitMQ 4 cannot be fetched."""
    password, cookie, epmd_port = secrets.token_hex(16), secrets.token_hex(20), free_port()
    ports = [free_port() for _ in range(_NODES)]
    with ExitStack() as whole:
        environment = whole.enter_context(pytest.MonkeyPatch.context())
        environment.setenv("CHORDWISE_LOCAL_RABBITMQ", str(newer.fetch_rabbitmq("rabbitmq-4.3")))
        environment.setenv("CHORDWISE_LOCAL_RABBITMQ_SETTINGS", newer.QUORUM)
        members: list[Member] = []
        urls: list[str] = []
        for place, port in enumerate(ports):
            stack = StackFolder(f"node-{place + 1}", local=folder)
            stack.make()
            write_private(stack.data / "rabbitmq" / ".erlang.cookie", cookie)
            program = rabbitmq.program(stack, password, port=port, nodes_port=free_port(), epmd_port=epmd_port)
            arguments = f"{program.environment[_ARGUMENTS]} -kernel net_ticktime {_NOTICES_AFTER_S}"
            program = replace(program, environment={**program.environment, _ARGUMENTS: arguments})
            before = [] if members else [rabbitmq.epmd(stack, port=epmd_port)]
            server = OwnServer(rabbitmq.url(password, port=port), program, *before)
            whole.callback(server.close)
            server.start()
            for step in (("stop_app",), ("join_cluster", f"chordwise-{ports[0]}@localhost"), ("start_app",)):
                if members:
                    server.control(*step)
            wire = whole.enter_context(Proxy("127.0.0.1", port))
            members.append(Member(name=f"node-{place + 1}", server=server, wire=wire))
            urls.append(rabbitmq.url(password, port=wire.port))
        yield RabbitMqNodes(url=";".join(urls), members=members)
