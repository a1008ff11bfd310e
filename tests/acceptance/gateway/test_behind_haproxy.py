"""HAProxy with the configuration of `compose/haproxy` in front of two gateways one of which hangs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import httpx
import pytest
from sqlalchemy import make_url

from compose.localstack.progress import Failure
from tests.support.clients.operating import eventually
from tests.support.servers import tools_for_tests
from tests.support.servers.haproxy import haproxy, of_gateways
from tests.support.servers.http_server import serving
from tests.support.servers.members import Member
from tests.support.servers.proxy import Proxy
from tests.support.stacks.processes import free_port

pytestmark = pytest.mark.thorough

_DEADLINE_S, _LATE_S = 3.0, 0.25  # of a query, and what it may take longer
_ASKERS = 8


class _Gateway(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_: object) -> None:
        pass


class _Unused:
    """Stands for the process of a member: its wire alone is taken away."""

    def start(self) -> None: ...

    kill = freeze = thaw = start


@dataclass(kw_only=True)
class Behind:
    """The proxy's address, and the wires to both gateways."""

    url: str
    wires: list[Proxy]


@pytest.fixture
def behind(tmp_path: Path) -> Iterator[Behind]:
    try:
        tools_for_tests.fetch_for_clusters()
    except Failure as missing:
        pytest.skip(str(missing))
    with ExitStack() as whole:
        ports = [make_url(whole.enter_context(serving(_Gateway))).port or 0 for _ in range(2)]
        wires = [whole.enter_context(Proxy("127.0.0.1", port)) for port in ports]
        members = [Member(name=f"g{place}", server=_Unused(), wire=wire) for place, wire in enumerate(wires)]
        public = free_port()
        whole.enter_context(haproxy(tmp_path, of_gateways(public, members)))
        found = Behind(url=f"http://127.0.0.1:{public}/v1/queries/7", wires=wires)
        eventually(lambda: _asked(found)[0] is not None, within_s=20)
        yield found


def _asked(behind: Behind) -> tuple[int | None, float]:
    """Ask on a new connection; return the status, None if it was broken, and the seconds that this took."""
    began = time.monotonic()
    try:
        status: int | None = httpx.get(behind.url, timeout=20).status_code
    except httpx.TransportError:
        status = None
    return status, time.monotonic() - began


class DescribeAGatewayThatHangs:
    def it_is_left_before_the_deadline_of_the_queries_that_wait_there(self, behind: Behind):
        behind.wires[0].freeze()
        began = time.monotonic()

        def ask_on(_: int) -> list[tuple[float, int | None, float]]:
            seen = []
            while (at_s := time.monotonic() - began) < 2 * _DEADLINE_S:
                seen.append((at_s, *_asked(behind)))
                time.sleep(0.05)
            return seen

        with ThreadPoolExecutor(_ASKERS) as askers:
            seen = [each for one in askers.map(ask_on, range(_ASKERS)) for each in one]
        assert max(took_s for *_, took_s in seen) < _DEADLINE_S + _LATE_S
        broken = [at_s for at_s, status, _ in seen if status != 200]  # the caller asks again
        assert 0 < len(broken) <= _ASKERS
        assert max(broken) < _DEADLINE_S
        behind.wires[0].heal()
