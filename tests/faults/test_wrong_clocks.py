"""A worker or a clock process on a host whose clock is five minutes off: it does not start, and one that runs already is
named by readyz."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

from pipeline.resources import Resources
from tests.conftest import make_tenant
from tests.support.clients.operating import eventually
from tests.support.corpora.documents import document, finished
from tests.support.servers import tools_for_tests
from tests.support.stacks.processes import free_port, process, wait_for_log, worker
from workers.names import Queue

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(300)]

_QUEUES = ",".join(Queue)


@pytest.fixture
def own_clock(tmp_path: Path) -> dict[str, str]:
    """The variables of a process whose clock is as far off as the file ``clock`` says."""
    library = tools_for_tests.other_time()
    if library is None:
        pytest.fail("these tests need libfaketime: python3 compose/local.py install --dev", pytrace=False)
    (tmp_path / "clock").write_text("+0s")
    return {
        "LD_PRELOAD": str(library),
        "FAKETIME_TIMESTAMP_FILE": str(tmp_path / "clock"),
        "FAKETIME_CACHE_DURATION": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }


@pytest.fixture
def stores(use_alone: Resources) -> dict[str, str]:
    """The variables of databases that no other worker serves."""
    fields = ("mysql_url", "postgres_url", "redis_url")
    urls = {f"CHORDWISE_{name.upper()}": getattr(use_alone.settings, name).get_secret_value() for name in fields}
    return urls | {"CHORDWISE_BROKER_URL": urls["CHORDWISE_REDIS_URL"], "CHORDWISE_KEYWORD_ENGINE": "mysql"}


@pytest.fixture
def gateway(use_alone: Resources, stores: dict[str, str], own_clock, tmp_path: Path) -> Iterator[httpx.Client]:
    """A gateway and a clock process with the right time beside a worker for all queues with its own."""
    with ExitStack() as whole:
        address = whole.enter_context(right_gateway(stores, tmp_path))
        # It queues again the items that were not yet due by the worker's time.
        whole.enter_context(clock("right", tmp_path, **stores))
        whole.enter_context(worker("wrong", _QUEUES, log=tmp_path / "worker.log", **stores, **own_clock))
        wait_for_log(tmp_path / "worker.log", " ready.", seconds=120)
        _, key = make_tenant(use_alone)
        headers = {"Authorization": f"Bearer {key}"}
        yield whole.enter_context(httpx.Client(base_url=address, headers=headers, timeout=60))


@contextmanager
def right_gateway(stores: dict[str, str], folder: Path) -> Iterator[str]:
    """The address of a gateway with the right time."""
    port = free_port()
    own = {"CHORDWISE_GATEWAY_HOST": "127.0.0.1", "CHORDWISE_GATEWAY_PORT": str(port)}
    with process("api_gateway", log=folder / "gateway.log", **stores, **own):
        wait_for_log(folder / "gateway.log", "Application startup complete", seconds=120)
        yield f"http://127.0.0.1:{port}"


class DescribeAClockFiveMinutesOff:
    @pytest.mark.parametrize(("offset", "named"), [("-300s", "behind"), ("+300s", "ahead of")])
    def it_is_named_by_readyz_and_every_document_is_whole_in_the_end(self, gateway, tmp_path: Path, offset, named):
        (tmp_path / "clock").write_text(offset)

        def line() -> dict[str, str]:
            return dict(gateway.get("/readyz").json()["dependencies"]["clocks"])

        eventually(lambda: line()["status"] == "down", within_s=30)
        assert f" s {named} the gateway's; have NTP or chrony keep the time on both machines" in line()["detail"]
        texts = [document(f"d{number}", f"A red fox sleeps, number {number}.") for number in range(20)]
        sent = gateway.post("/v1/documents", json={"namespace": "kb", "documents": texts}).raise_for_status().json()
        (tmp_path / "clock").write_text("+0s")
        job = finished(gateway, sent["job_id"], wait_s=120)
        assert (job["status"], job["succeeded"], job["chunks"]) == ("succeeded", 20, 20)
        eventually(lambda: line()["status"] == "ok", within_s=30)
        answer = gateway.post("/v1/rag/query", json={"query_text": "red fox number 7", "namespaces": ["kb"]}).json()
        assert answer["status"] == "succeeded"
        assert answer["chunks"][0]["document_id"] == "d7"

    def it_does_not_start(self, stores: dict[str, str], own_clock, tmp_path: Path):
        (tmp_path / "clock").write_text("+300s")
        with worker("late", "upkeep", log=tmp_path / "late.log", **stores, **own_clock) as running:
            assert running.wait(120) == 1
        log = (tmp_path / "late.log").read_text(encoding="utf-8")
        assert "the worker cannot start: MySQL at" in log
        assert " s behind this host's; have NTP or chrony keep the time on both" in log


@pytest.fixture
def sleepers_clock(own_clock: dict[str, str]) -> dict[str, str]:
    """The same for a process whose main thread sleeps, which libfaketime refuses beside the true monotonic clock."""
    return {name: value for name, value in own_clock.items() if name != "FAKETIME_DONT_FAKE_MONOTONIC"}


class DescribeAClockProcessFiveMinutesOff:
    def it_does_not_start(self, stores: dict[str, str], sleepers_clock, tmp_path: Path):
        (tmp_path / "clock").write_text("-300s")
        with clock("late", tmp_path, **stores, **sleepers_clock) as running:
            assert running.wait(60) == 1
        log = (tmp_path / "late.log").read_text(encoding="utf-8")
        assert "the clock cannot start: Redis at" in log
        assert " s ahead of this host's; have NTP or chrony keep the time on both" in log

    @pytest.mark.parametrize(("offset", "named"), [("-300s", "behind"), ("+300s", "ahead of")])
    def it_is_named_by_readyz_and_a_standby_takes_over(self, stores, sleepers_clock, tmp_path: Path, offset, named):
        operator = {"Authorization": f"Bearer {os.environ['CHORDWISE_ADMIN_KEY']}"}
        with ExitStack() as whole:
            address = whole.enter_context(right_gateway(stores, tmp_path))
            whole.enter_context(clock("wrong", tmp_path, **stores, **sleepers_clock))
            wait_for_log(tmp_path / "wrong.log", "clock_active")
            whole.enter_context(clock("standby", tmp_path, **stores))
            wait_for_log(tmp_path / "standby.log", "clock_standby")
            (tmp_path / "clock").write_text(offset)
            wait_for_log(
                tmp_path / "wrong.log", f"clock is 300 s {named} that of Redis; have NTP or chrony keep", seconds=15
            )
            wait_for_log(tmp_path / "standby.log", "clock_active", seconds=10)
            wait_for_log(tmp_path / "standby.log", "Sending due task")

            def line() -> dict[str, str]:
                return dict(httpx.get(f"{address}/readyz", timeout=30).json()["dependencies"]["clocks"])

            eventually(lambda: line()["status"] == "down", within_s=10)
            assert line()["detail"].startswith("clock on wrong is at least ")
            assert f" s {named} the gateway's; have NTP or chrony keep the time on both machines" in line()["detail"]
            found = httpx.get(f"{address}/v1/doctor", headers=operator, timeout=60).json()["findings"]
            severities = {finding["check"]: finding["severity"] for finding in found}
            assert severities["clock:clock on wrong"] == "failed"
            (tmp_path / "clock").write_text("+0s")
            eventually(lambda: line()["status"] == "ok", within_s=30)
            wait_for_log(tmp_path / "wrong.log", "clock_standby")


def clock(host: str, folder: Path, **environment: str):  # type: ignore[no-untyped-def]
    """A clock process on a host of this name."""
    arguments = ("workers.server", "clock", "--schedule", str(folder / f"{host}-schedule"))
    return process(*arguments, log=folder / f"{host}.log", CHORDWISE_HOST_NAME=host, **environment)
