"""Query loops while gateways are stopped, killed and started again: a client loses no query."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from signal import SIGKILL, SIGTERM
from subprocess import Popen

import httpx
import pytest
from sqlalchemy import Connection, text

from chordwise import AsyncChordwise, Chordwise
from pipeline.resources import Resources
from tests.conftest import make_tenant
from tests.support.clients.loop import PATIENCE_S, Loop
from tests.support.clients.operating import eventually
from tests.support.stacks.processes import end, free_port, on_socket, process, wait_for_http, wait_for_log

NAMESPACE = "restarts"
QUESTION = "When does the pump start?"


@pytest.fixture(scope="module")
def key(use: Resources) -> str:
    """The key of a tenant with one document."""
    _, made = make_tenant(use)
    with Chordwise(os.environ["CHORDWISE_URL"], made) as client:
        document = {"document_id": "pump", "text": "The pump starts at 12 bar."}
        assert client.wait(client.ingest([document], namespace=NAMESPACE), timeout=60).done
    return made


@contextmanager
def gateway_at(port: int, log: Path) -> Iterator[Popen[bytes]]:
    """A gateway that opens its own socket, once it answers."""
    with process("api_gateway", log=log, CHORDWISE_GATEWAY_PORT=str(port)) as running:
        wait_for_http(f"http://127.0.0.1:{port}/healthz", seconds=90)
        yield running


def ask(client: Chordwise) -> None:
    """Ask and expect the one document."""
    answer = client.query(QUESTION, namespace=NAMESPACE, timeout=PATIENCE_S, fresh=True)
    assert [hit.document_id for hit in answer.chunks] == ["pump"]


async def ask_asynchronously(url: str, key: str) -> None:
    """Ask by a new asynchronous client."""
    async with AsyncChordwise(url, key) as client:
        answer = await client.query(QUESTION, namespace=NAMESPACE, timeout=PATIENCE_S, fresh=True)
        assert [hit.document_id for hit in answer.chunks] == ["pump"]


def _claimed_keys(connection: Connection) -> int:
    """Return how many idempotency keys are held."""
    connection.rollback()  # a new snapshot
    return int(connection.execute(text("SELECT COUNT(*) FROM idempotency_keys WHERE status IS NULL")).scalar_one())


@pytest.mark.timeout(400)
class DescribeARestartedGateway:
    @pytest.mark.parametrize(
        "how", [SIGKILL, pytest.param(SIGTERM, marks=pytest.mark.thorough)], ids=["killed", "ended"]
    )  # one that is ended in order hands its socket over below
    def it_costs_clients_that_wait_no_query(self, key, tmp_path, how):
        port = free_port()
        url = f"http://127.0.0.1:{port}"
        with ExitStack() as gateways, Chordwise(url, key) as client:
            running = gateways.enter_context(gateway_at(port, tmp_path / "0.log"))
            # They end before the gateways: a call to none lasts as long as its patience.
            with Loop(lambda: ask(client)) as one, Loop(lambda: asyncio.run(ask_asynchronously(url, key))) as other:
                for loop in (one, other):
                    loop.goes_on()
                end(running, how)
                time.sleep(4)  # longer than four attempts with the usual pauses
                gateways.enter_context(gateway_at(port, tmp_path / "1.log"))
                for loop in (one, other):
                    loop.goes_on()

    @pytest.mark.thorough
    def it_frees_the_key_of_an_upload_that_it_was_reading_in_ten_seconds(self, key, use, tmp_path):
        """The caller sends the upload again through another gateway."""
        dying, other = free_port(), free_port()
        head = {"Authorization": f"Bearer {key}", "Idempotency-Key": "upload-1", "Content-Type": "application/json"}
        document = {"document_id": "valve", "text": "The valve opens at 3 bar."}
        body = json.dumps({"namespace": "keys", "documents": [document]}).encode()
        lines = [f"{name}: {value}" for name, value in {"Host": "gateway", "Content-Length": len(body), **head}.items()]
        with (
            gateway_at(dying, tmp_path / "dying.log") as running,
            gateway_at(other, tmp_path / "other.log"),
            socket.create_connection(("127.0.0.1", dying)) as half,
        ):
            half.sendall("\r\n".join(["POST /v1/documents HTTP/1.1", *lines, "", ""]).encode() + body[:20])
            with use.mysql.connect() as connection:
                eventually(lambda: _claimed_keys(connection) > 0, within_s=10)
            end(running, SIGKILL)

            def is_accepted() -> bool:
                answer = httpx.post(f"http://127.0.0.1:{other}/v1/documents", content=body, headers=head)
                assert answer.status_code in (202, 409), answer.text
                return answer.status_code == 202

            assert not is_accepted()
            eventually(is_accepted, within_s=10)

    @pytest.mark.thorough
    def it_refuses_no_connection_to_an_inherited_socket_which_two_gateways_share(self, key, tmp_path):
        with socket.create_server(("127.0.0.1", 0), backlog=64) as shared, ExitStack() as whole:
            address = shared.getsockname()
            client = whole.enter_context(Chordwise(f"http://127.0.0.1:{address[1]}", key))

            def look() -> None:
                with socket.create_connection(address, timeout=PATIENCE_S) as connection:
                    connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\n\r\n")
                    assert connection.recv(64).startswith(b"HTTP/1.1 200")

            first = whole.enter_context(on_socket("api_gateway", shared, log=tmp_path / "first.log"))
            with Loop(look) as looking:
                looking.goes_on()
                end(first, SIGTERM)
                second = whole.enter_context(on_socket("api_gateway", shared, log=tmp_path / "second.log"))
                looking.goes_on()
            third = tmp_path / "third.log"
            whole.enter_context(on_socket("api_gateway", shared, log=third))
            wait_for_log(third, "Application startup complete", seconds=90)
            with Loop(lambda: ask(client)) as asking:
                asking.goes_on(10)
                end(second, SIGKILL)
                asking.goes_on(10)
            assert asking.slowest_s < 10  # no start of a gateway is in it
