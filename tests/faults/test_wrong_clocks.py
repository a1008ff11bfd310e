"""A worker on a host whose clock is five minutes off: it does not start, and one that runs already is named by readyz."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from compose.localstack.servers import tools_for_tests
from pipeline.resources import Resources
from tests.conftest import make_tenant
from tests.support.clients.operating import eventually
from tests.support.corpora.documents import document, finished
from tests.support.stacks.processes import free_port, process, wait_for_log, worker

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(300)]

_QUEUES = "ingest,recall,answer,rerank,upkeep,compute"


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
    """A gateway with the right time beside a worker for all queues with its own."""
    port = free_port()
    own = {"CHORDWISE_GATEWAY_HOST": "127.0.0.1", "CHORDWISE_GATEWAY_PORT": str(port)}
    with ExitStack() as whole:
        whole.enter_context(process("api_gateway", log=tmp_path / "gateway.log", **stores, **own))
        whole.enter_context(worker("wrong", _QUEUES, log=tmp_path / "worker.log", **stores, **own_clock))
        wait_for_log(tmp_path / "worker.log", " ready.", seconds=120)
        wait_for_log(tmp_path / "gateway.log", "Application startup complete", seconds=120)
        _, key = make_tenant(use_alone)
        headers = {"Authorization": f"Bearer {key}"}
        yield whole.enter_context(httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=60))


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
