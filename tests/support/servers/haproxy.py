"""HAProxy in front of the nodes of a Galera cluster and of the gateways."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from compose.localstack.places import StackFolder
from compose.localstack.probes import log_says
from compose.localstack.processes import Program
from tests.support.servers import tools_for_tests
from tests.support.servers.brokers import OwnServer
from tests.support.servers.members import Member
from tests.support.stacks.processes import ROOT

_EVERY_MS = 1000  # a server is left after the second check without an answer
_GLOBAL = """global
  maxconn 2000
defaults
  timeout connect 1s
  timeout client 2h
  timeout server 2h
  timeout check 2s
  retries 3
  option redispatch
  default-server check inter {every}ms fall 2 rise 2 on-marked-down shutdown-sessions
"""


@contextmanager
def haproxy(folder: Path, *listens: str) -> Iterator[OwnServer]:
    """Run HAProxy with these sections. Raises AssertionError where it cannot be had."""
    found = tools_for_tests.haproxy()
    assert found is not None, "there is no HAProxy to start"
    program, environment = found
    stack = StackFolder("haproxy", local=folder)
    stack.make()
    file = stack.run / "haproxy.cfg"
    file.write_text("\n".join((_GLOBAL.format(every=_EVERY_MS), *listens, "")), encoding="utf-8")
    server = OwnServer(
        "",
        Program(
            name="haproxy",
            command=(str(program), "-W", "-db", "-f", str(file)),
            log=stack.logs / "haproxy.log",
            ready=log_says(r"Loading success"),
            environment={"PATH": "/usr/bin:/bin", **environment},
            cwd=Path("/"),
        ),
    )
    try:
        server.start()
        yield server
    finally:
        server.close()


def of_gateways(port: int, gateways: Sequence[Member]) -> str:
    """Return the section for gateways, each in turn: that of the file for operators, with these addresses."""
    given = (ROOT / "compose/haproxy/chordwise.cfg").read_text(encoding="utf-8").splitlines()
    kept = [line for line in given if line.split()[:1] not in (["bind"], ["server"])]
    servers = [f"  server {each.name} 127.0.0.1:{_port(each)}" for each in gateways]
    return "\n".join([*kept, f"  bind 127.0.0.1:{port}", *servers, ""])


def of_nodes(port: int, nodes: Sequence[Member], *, writers: int) -> str:
    """Return the section for the nodes of a cluster: so many take connections, the others when none of these greets."""
    servers = [
        f"  server {each.name} 127.0.0.1:{_port(each)}{'' if place < writers else ' backup'}"
        for place, each in enumerate(nodes)
    ]
    head = f"listen mysql\n  bind 127.0.0.1:{port}\n  mode tcp\n  balance leastconn\n  option mysql-check"
    return "\n".join([head, "  default-server on-marked-up shutdown-backup-sessions", *servers, ""])


def _port(member: Member) -> int:
    assert member.wire is not None
    return member.wire.port
