"""The local stack on real sockets: stacks that start together share no port, and only the own gateway counts as
ready."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
import redis

from compose.localstack import probes, programs
from compose.localstack.places import LOCAL, ROOT, StackFolder
from compose.localstack.ports import PortTaken, Reservations
from compose.localstack.processes import Program
from compose.localstack.progress import Failure
from compose.localstack.stack import Stack
from compose.localstack.supervisor import Supervisor
from tests.support.servers.http_server import serving
from tests.support.stacks.processes import free_port

# Chooses one port for each number it is given, all stacks at the same moment, and keeps them until it is ended.
_CHOOSE = """
import sys
from compose.localstack.ports import Reservations, choose
wished, reserved, taken = [int(each) for each in sys.argv[1:]], Reservations(), set()
print("here", flush=True)
sys.stdin.readline()
print(*[choose([port], taken, free=reserved.take) for port in wished], flush=True)
sys.stdin.readline()
"""

# A gateway as far as a probe can see, of the installation it is given.
_GATEWAY = """
import json, sys
from http.server import BaseHTTPRequestHandler, HTTPServer
class Answer(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"status": "ok", "installation_id": sys.argv[2]}).encode())
HTTPServer(("127.0.0.1", int(sys.argv[1])), Answer).serve_forever()
"""


class FakeGateway(BaseHTTPRequestHandler):
    """Another stack's gateway, of installation `theirs`, which takes the key `good`."""

    def do_GET(self) -> None:
        wrong = self.path.startswith("/v1/") and self.headers["Authorization"] != "Bearer good"
        self.send_response(401 if wrong else 200)
        self.end_headers()
        self.wfile.write(json.dumps({"status": "ok", "installation_id": "theirs"}).encode())

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def theirs() -> Iterator[int]:
    """Yield the port of another stack's gateway."""
    with serving(FakeGateway) as url:
        yield int(url.rpartition(":")[2])


@contextmanager
def listening(port: int) -> Iterator[None]:
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
        other.listen()
        yield


def gateway(folder: Path, port: int, *, command: tuple[str, ...] = ()) -> Program:
    own = (sys.executable, "-c", _GATEWAY, str(port), "ours")
    log = folder / "gateway.log"
    return Program(
        name="gateway", command=command or own, log=log, ready=probes.answers_as(port, "ours"), port=port, grace_s=1.0
    )


@pytest.fixture
def supervisor() -> Iterator[Supervisor]:
    made = Supervisor(lambda _: None)
    yield made
    made.stop()


class DescribeStacksThatStartTogether:
    def it_gives_each_ports_of_its_own(self):
        wished = [free_port() for _ in range(5)]
        command = [sys.executable, "-c", _CHOOSE, *map(str, wished)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        stacks = [subprocess.Popen(command, cwd=ROOT, text=True, **pipes) for _ in range(4)]
        try:
            assert [each.stdout.readline().strip() for each in stacks] == ["here"] * 4
            for each in stacks:
                each.stdin.write("\n")
                each.stdin.flush()
            chosen = [int(port) for each in stacks for port in each.stdout.readline().split()]
        finally:
            for each in stacks:
                each.communicate("\n", timeout=30)
        assert len(set(chosen)) == 20
        assert set(wished) <= set(chosen)

    def it_keeps_a_port_at_which_nobody_listens_until_it_is_given_back(self):
        port = free_port()
        first, second = Reservations(), Reservations()
        assert first.take(port)
        assert not second.take(port)
        assert not first.take(port)
        first.close()
        assert second.take(port)
        second.close()

    def it_takes_none_at_which_somebody_listens(self):
        port, reserved = free_port(), Reservations()
        with listening(port):
            assert not reserved.take(port)
        assert reserved.take(port)
        reserved.close()


class DescribeReadiness:
    def it_is_not_another_stacks_gateway_that_answers(self, theirs, tmp_path, supervisor):
        assert probes.answers(theirs, "/readyz")(tmp_path, 0)
        waiting = gateway(tmp_path, theirs, command=("sleep", "60"))
        with pytest.raises(Failure, match="not ready within 1 s"):
            supervisor.start([waiting], within_s=1)

    def it_is_not_a_gateway_of_the_same_installation_in_another_process(self, tmp_path, supervisor):
        """As of a copy of the tree with its data in it."""
        port = free_port()
        copied = gateway(tmp_path, port)
        supervisor.start([copied], within_s=20)
        second = Supervisor(lambda _: None)
        with pytest.raises(Failure, match="not ready within 1 s"):
            second.start([gateway(tmp_path / "second", port, command=("sleep", "60"))], within_s=1)
        second.stop()

    def it_says_at_once_that_a_port_is_taken(self, theirs, tmp_path, supervisor):
        with pytest.raises(PortTaken, match="gateway cannot listen"):
            supervisor.start([gateway(tmp_path, theirs)], within_s=20)

    @pytest.mark.parametrize(("key", "status"), [("good", 200), ("bad", 401)])
    def it_tries_a_key(self, theirs, key, status):
        assert probes.key_status(theirs, key) == status
        assert probes.key_status(free_port(), key) == 0


class DescribeAServerWhosePortIsTakenMeanwhile:
    def it_is_given_another_one(self, tmp_path, monkeypatch):
        if programs.redis() is None:
            pytest.skip("no Redis is installed here: the suite runs on somebody else's")
        for name in ("CHORDWISE_MYSQL_URL", "CHORDWISE_POSTGRES_URL"):
            monkeypatch.setenv(name, "elsewhere")
        monkeypatch.delenv("CHORDWISE_REDIS_URL", raising=False)
        stack = Stack("try")
        stack.folder = StackFolder("try", local=tmp_path)
        stack.folder.make()
        with stack:
            stack._choose_ports()
            chosen = stack._ports["redis"]
            with listening(chosen):
                stack._on_free_ports(lambda: stack._start_servers({"redis": "secret"}))
                assert stack._ports["redis"] != chosen
                with redis.Redis(port=stack._ports["redis"], password="secret") as client:
                    assert client.ping()
        assert json.loads((stack.folder.path / "ports.json").read_text())["redis"] == stack._ports["redis"]
        again = Stack("try")
        again.folder = stack.folder
        again._choose_ports()
        assert again._ports == stack._ports  # kept from run to run
        again._reserved.close()


# The command that each stack runs: a real call with its key at its address, and which installation answers.
_CALL = """
import json, os, httpx
url, key = os.environ["CHORDWISE_URL"], os.environ["CHORDWISE_API_KEY"]
answer = httpx.get(url + "/v1/namespaces", headers={"Authorization": "Bearer " + key})
print("CALLED", answer.status_code, httpx.get(url + "/healthz").json()["installation_id"], url, key)
"""

# The same, and then the database forgets every key, as one that was restored from an older dump.
_FORGET = (
    _CALL
    + """
import sqlalchemy
with sqlalchemy.create_engine(os.environ["CHORDWISE_MYSQL_URL"]).begin() as connection:
    connection.execute(sqlalchemy.text("DELETE FROM api_keys"))
"""
)


@pytest.mark.thorough
@pytest.mark.alone
@pytest.mark.timeout(900)
class DescribeRealStacks:
    def it_runs_three_at_once_and_makes_a_key_where_the_old_one_is_lost(self):
        names = [f"together-{number}" for number in range(3)]
        wished = {name: free_port() for name in ("gateway", "flower", "mysql", "postgres", "redis")}
        own = {name: value for name, value in os.environ.items() if not name.startswith("CHORDWISE_")}
        running: list[subprocess.Popen[str]] = []
        try:
            for name in names:
                StackFolder(name).path.mkdir(parents=True, exist_ok=True)
                (StackFolder(name).path / "ports.json").write_text(json.dumps(wished))
            running += [self._start(name, _FORGET, own) for name in names]
            called = [self._called(each) for each in running]
            assert {status for status, *_ in called} == {"200"}
            for place in (1, 2, 3):
                assert len({each[place] for each in called}) == 3
            again = self._called(self._start(names[0], _CALL, own))
            assert again[:3] == called[0][:3]
            assert again[3] != called[0][3]
        finally:
            for each in running:
                each.terminate()
                each.wait(60)
            for name in names:
                shutil.rmtree(LOCAL / "stacks" / name, ignore_errors=True)

    def _start(self, name: str, call: str, environment: dict[str, str]) -> subprocess.Popen[str]:
        command = [sys.executable, "compose/local.py", "with", name, "--dev", "--", sys.executable, "-c", call]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        return subprocess.Popen(command, cwd=ROOT, env=environment, text=True, **pipes)

    def _called(self, running: subprocess.Popen[str]) -> list[str]:
        said, _ = running.communicate(timeout=560)
        logs = "".join(
            log.read_text(errors="replace")[-3000:] for log in (LOCAL / "stacks").glob("together-*/logs/prepare.log")
        )
        assert running.returncode == 0, said + logs
        (line,) = [each for each in said.splitlines() if each.startswith("CALLED ")]
        return line.split()[1:]
