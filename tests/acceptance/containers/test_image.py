"""The image, built by its Dockerfile and run as compose.yaml says, with the stack's servers."""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import structlog

from chordwise import Chordwise
from compose.localstack import apt
from compose.localstack.image import PIP_SECRET
from pipeline.settings import Settings
from tests.acceptance.containers.services import IMAGE, Containers, build_image, podman, variables_for
from tests.conftest import scratch_databases
from tests.support.repository.project import PROJECT, ROOT, SERVICES, locked_requirements

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.timeout(2400),
    pytest.mark.skipif(os.geteuid() != 0 or not apt.available(), reason="root runs them, with Debian's packages"),
]

log = structlog.get_logger(__name__)

SERVED = ("worker-ingest", "worker-queries", "worker-compute", "worker-upkeep", "indexer", "beat", "flower", "gateway")
PATIENCE_S = 600.0
# Over 4 KiB of HTML goes to the parser's process, and is confined there as far as a container allows.
SENTENCE = "The harbour crane lifts eleven containers an hour while the tide is high."
PAGE = f"<html><body><h1>Cranes</h1>{'<p>A paragraph about quays and ropes.</p>' * 150}<p>{SENTENCE}</p></body></html>"


@pytest.fixture(scope="module", autouse=True)
def _image() -> None:
    build_image()


@pytest.fixture(scope="module")
def variables(settings: Settings) -> Iterator[dict[str, str]]:
    """An .env of an installation with empty databases."""
    with scratch_databases(settings) as own:
        keys = {"FLOWER_BASIC_AUTH": f"operator:{secrets.token_hex(12)}", "CHORDWISE_ADMIN_KEY": secrets.token_hex(24)}
        yield variables_for(own, keys)


@pytest.fixture(scope="module")
def refused(variables: dict[str, str]) -> tuple[int, str]:
    """Exit code and output of a gateway that was started before the migration."""
    early = Containers(variables)
    try:
        return early.run("gateway")
    finally:
        early.remove()


@pytest.fixture(scope="module")
def installation(variables: dict[str, str], refused: tuple[int, str]) -> Iterator[Containers]:
    """Every service of ours, healthy."""
    containers = Containers(variables)
    try:
        code, output = containers.run("migrate")
        assert code == 0, output
        healthy_s = {}
        for service in SERVED:  # one after another: started together, all of them take minutes on two processors
            containers.start(service)
            healthy_s[service] = round(containers.wait_until_healthy(service, seconds=PATIENCE_S), 1)
        log.info("containers_healthy", seconds=healthy_s)
        yield containers
    finally:
        containers.remove()


class DescribeServices:
    def it_starts_nothing_before_the_migration(self, refused: tuple[int, str]) -> None:
        code, output = refused
        assert code not in (0, 137)
        assert "migrate" in output.splitlines()[-1]

    def it_finds_a_document_that_was_ingested_in_it(self, installation: Containers, tmp_path: Path) -> None:
        page = tmp_path / "cranes.html"
        page.write_text(PAGE, encoding="utf-8")
        key = installation.execute("gateway", "chordwise-server", "key", "acme").split()[-1]
        with Chordwise(installation.url, key) as client:
            done = client.wait(client.ingest(page, namespace="wharf"), timeout=PATIENCE_S)
            assert (done.done, done.errors) == (True, ())
            answer = client.query("harbour crane containers an hour", namespace="wharf", timeout=PATIENCE_S)
        assert SENTENCE in answer.chunks[0].text

    def it_knows_its_version_everywhere(self, installation: Containers, variables: dict[str, str]) -> None:
        headers = {"Authorization": f"Bearer {variables['CHORDWISE_ADMIN_KEY']}"}
        report = httpx.get(f"{installation.url}/v1/doctor", headers=headers, timeout=60).json()
        found = {finding["check"]: finding for finding in report["findings"]}
        assert found["worker_versions"]["severity"] == "ok", found["worker_versions"]
        assert PROJECT["project"]["version"] in installation.execute(
            "gateway",
            "python",
            "-c",
            "import importlib.metadata as m; print(m.version('chordwise'), m.version('chordwise-client'))",
        )

    @pytest.mark.parametrize("service", SERVED)
    def it_runs_every_process_without_rights(self, installation: Containers, service: str) -> None:
        processes = installation.processes(service)
        assert processes
        for process in processes:
            status = dict(re.findall(r"^(\w+):\s*(.*)$", (process / "status").read_text("utf-8"), re.MULTILINE))
            assert set(status["Uid"].split() + status["Gid"].split()) == {"10001"}, status["Name"]
            if os.readlink(process / "ns/user") == os.readlink(
                "/proc/self/ns/user"
            ):  # else it is the parser in its own
                assert {status[name] for name in ("CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
            assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")

    @pytest.mark.parametrize("service", SERVED)
    def it_writes_into_its_tmpfs_and_its_volumes_alone(self, installation: Containers, service: str) -> None:
        ask = 'cut -d" " -f2 /proc/mounts | while read -r path; do [ -d "$path" ] && [ -w "$path" ] && echo "$path"; done; true'
        volumes = {volume.partition(":")[2] for volume in SERVICES[service].get("volumes", [])}
        kernel = {"/dev/shm", "/dev/mqueue"}  # in memory, as every engine gives them
        assert set(installation.execute(service, "sh", "-c", ask).split()) - kernel == {"/tmp", *volumes}

    def it_shows_no_secret_on_a_command_line(self, installation: Containers, variables: dict[str, str]) -> None:
        hidden = {value for name, value in variables.items() if re.search("PASSWORD|KEY|AUTH", name) and value}
        assert len(hidden) == 5
        lines = [
            (process / "cmdline").read_text("utf-8")
            for service in SERVED
            for process in installation.processes(service)
        ]
        assert len(lines) > len(SERVED)
        assert [line for line in lines if any(secret in line for secret in hidden)] == []

    def it_says_no_secret_in_its_logs(self, installation: Containers, variables: dict[str, str]) -> None:
        logs = "".join(installation.log(service) for service in ("migrate", *SERVED))
        assert [
            name for name, value in variables.items() if re.search("PASSWORD|KEY|AUTH", name) and value in logs
        ] == []

    def it_ends_at_once_when_asked_to(self, installation: Containers) -> None:
        """The last test of the module: nothing runs afterwards."""
        assert {service: installation.stop(service) for service in SERVED} == dict.fromkeys(SERVED, 0)


class DescribeImage:
    def it_keeps_nothing_of_its_build(self) -> None:
        (mark,) = (line for line in PIP_SECRET.splitlines() if "find-links" in line)
        traces = "ls -d /build /mnt/* ~root/.cache /etc/pip.conf /opt/chordwise/bin/pip /app/tests 2>/dev/null; true"
        search = f"grep -rlF '{mark}' / --exclude-dir=proc --exclude-dir=sys 2>/dev/null; {traces}"
        assert podman("run", "--rm", "--network=none", "--no-healthcheck", "--user=0", IMAGE, "sh", "-c", search) == ""
        history = podman("history", "--no-trunc", "--format", "{{.CreatedBy}}", IMAGE)
        assert mark not in history + podman("image", "inspect", IMAGE)

    def it_lists_what_it_holds(self) -> None:
        project = PROJECT["project"]
        bill = json.loads((ROOT / f"dist/{project['name']}-{project['version']}.image.cdx.json").read_text("utf-8"))
        listed = {f"{part['name'].lower().replace('_', '-')}=={part['version']}" for part in bill["components"]}
        locked = {line.split()[0].lower().replace("_", "-") for line in locked_requirements("requirements.lock")}
        unneeded = {line for line in locked if line.startswith("async-timeout==")}  # of Python before 3.11.3
        assert locked - unneeded - listed == set()
        assert {"chordwise==0.2.0", "chordwise-client==0.2.0"} <= listed
        debian = [part["purl"] for part in bill["components"] if part.get("purl", "").startswith("pkg:deb/debian/")]
        installed = podman("run", "--rm", "--network=none", "--no-healthcheck", IMAGE, "dpkg-query", "--show")
        assert len(debian) == len(installed.splitlines()) > 50
