"""nginx with the configuration of `compose/nginx` in front of two gateways that are restarted one after the other."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from signal import SIGKILL, SIGTERM
from subprocess import Popen

import pytest
import structlog

from chordwise import Chordwise
from pipeline.resources import Resources
from tests.conftest import make_tenant
from tests.support.clients.loop import PATIENCE_S, Loop
from tests.support.repository.project import ROOT
from tests.support.servers import certificates, tools_for_tests
from tests.support.stacks.processes import end, free_port, process, wait_for_http

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(400)]

log = structlog.get_logger(__name__)

CONFIGURATION = ROOT / "compose" / "nginx" / "chordwise.conf"


@contextmanager
def gateway_at(port: int, output: Path) -> Iterator[Popen[bytes]]:
    """A gateway that trusts the proxy, once it answers."""
    environment = {"CHORDWISE_GATEWAY_PORT": str(port), "CHORDWISE_TRUSTED_PROXIES": "127.0.0.1"}
    with process("api_gateway", log=output, **environment) as running:
        wait_for_http(f"http://127.0.0.1:{port}/healthz", seconds=90)
        yield running


@contextmanager
def nginx(folder: Path, gateways: tuple[int, int]) -> Iterator[str]:
    """Run nginx with the shipped file, of which addresses and certificate are replaced; yield the URL."""
    found = tools_for_tests.nginx()
    if found is None:
        pytest.fail("these tests need nginx: python3 compose/local.py install --dev", pytrace=False)
    program, libraries = found
    port, files = free_port(), certificates.make(folder)
    shipped = CONFIGURATION.read_text(encoding="utf-8")
    for there, here in {
        "10.0.0.11:8080": f"127.0.0.1:{gateways[0]}",
        "10.0.0.12:8080": f"127.0.0.1:{gateways[1]}",
        "listen 443 ssl": f"listen 127.0.0.1:{port} ssl",
        "/etc/ssl/chordwise/fullchain.pem": str(files.server),
        "/etc/ssl/chordwise/key.pem": str(files.server_key),
    }.items():
        assert there in shipped
        shipped = shipped.replace(there, here)
    (folder / "chordwise.conf").write_text(shipped, encoding="utf-8")
    temporary = "".join(
        f"{kind}_temp_path {folder}/{kind}; " for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    user = "user root;" if os.geteuid() == 0 else ""
    (folder / "nginx.conf").write_text(
        f"daemon off; {user} pid {folder}/pid; events {{}}\n"
        f"http {{ access_log off; {temporary} include {folder}/chordwise.conf; }}\n",
        encoding="utf-8",
    )
    command = [program, "-e", folder / "error.log", "-c", folder / "nginx.conf"]
    with (folder / "output").open("wb") as output:
        server = Popen(command, env={**os.environ, **libraries}, stdout=output, stderr=output)
    try:
        yield f"https://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(10)


class DescribeTwoGatewaysBehindNginx:
    def it_loses_no_query_while_one_after_the_other_is_restarted(self, use: Resources, tmp_path, monkeypatch):
        ports = free_port(), free_port()
        _, key = make_tenant(use)
        with ExitStack() as whole:
            url = whole.enter_context(nginx(tmp_path, ports))
            monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
            running = [whole.enter_context(gateway_at(port, tmp_path / f"{port}.log")) for port in ports]
            client, patient = (whole.enter_context(Chordwise(url, key)) for _ in range(2))
            document = {"document_id": "pump", "text": "The pump starts at 12 bar."}
            assert client.wait(client.ingest([document], namespace="kb"), timeout=PATIENCE_S).done

            def ask() -> None:
                answer = client.query("When does the pump start?", namespace="kb", timeout=PATIENCE_S, fresh=True)
                assert [hit.document_id for hit in answer.chunks] == ["pump"]

            def watch() -> None:
                job = patient.wait(patient.ingest([document], namespace="kb"), timeout=PATIENCE_S)
                assert not job.errors

            with Loop(ask) as queries, Loop(watch) as uploads:
                for number, how in enumerate((SIGTERM, SIGTERM, SIGKILL, SIGKILL)):
                    queries.goes_on(10)
                    uploads.goes_on()
                    end(running[number % 2], how)
                    queries.goes_on(10)
                    uploads.goes_on()
                    port = ports[number % 2]
                    running[number % 2] = whole.enter_context(gateway_at(port, tmp_path / f"{port}.{number}.log"))
                queries.goes_on(10)
                uploads.goes_on()
            log.info(
                "restarted_behind_nginx",
                queries=queries.done,
                jobs=uploads.done,
                query_s=round(queries.slowest_s, 1),
                job_s=round(uploads.slowest_s, 1),
            )
