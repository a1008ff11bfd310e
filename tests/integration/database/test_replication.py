"""A MariaDB that replicates to another one: a caller sees each of its writes, whatever becomes of the replica."""

from __future__ import annotations

import itertools
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr
from sqlalchemy import URL, make_url

from chordwise import Chordwise
from pipeline.maintenance import examine_stores, migrate_schema
from pipeline.maintenance.doctor import Severity
from pipeline.metrics.meter_store import read_totals
from pipeline.resources import Resources
from pipeline.settings import Settings
from tests.conftest import make_tenant, scratch_databases
from tests.support.clients.loop import PATIENCE_S, Loop
from tests.support.servers.administration import run_as
from tests.support.servers.brokers import OwnServer
from tests.support.servers.own_stores import own_mariadb
from tests.support.stacks.processes import environment_of, free_port, process, wait_for_http, wait_for_log, worker
from workers.names import Queue

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(600)]

TEXTS = ("The pump starts at {n} bar and the valve opens.", "第{n}号水泵启动，阀门随后打开。")


@dataclass(frozen=True)
class Installation:
    """A gateway and a worker with a primary server and its replica."""

    url: str
    key: str
    use: Resources
    replica: OwnServer
    administrator: URL  # of the replica

    def tell_replica(self, statement: str) -> None:
        """Run a statement as the replica's administrator."""
        run_as(self.administrator, statement)

    def served(self, result: str) -> float:
        """Return how many reads of all processes ended so."""
        self.use.meter.flush()
        return read_totals(self.use.quick_redis).get(("chordwise_replica_reads", "", (result,)), 0.0)

    def until_more(self, result: str, read: Callable[[], object]) -> None:
        """Repeat a read until the replica's part in it has this result."""
        before, ends = self.served(result), time.monotonic() + PATIENCE_S
        while self.served(result) <= before:
            assert time.monotonic() < ends, f"no read of the replica was {result}"
            read()
            time.sleep(0.2)


@pytest.fixture
def installation(settings: Settings, tmp_path: Path) -> Iterator[Installation]:
    primary_folder, replica_folder, password = tmp_path / "primary", tmp_path / "replica", secrets.token_hex(16)
    with (
        scratch_databases(settings) as scratch,
        own_mariadb(
            primary_folder, "--log-bin=primary", "--server-id=1", "--binlog-format=ROW", password=password
        ) as primary,
        own_mariadb(replica_folder, "--server-id=2", "--read-only=ON", password=password) as replica,
        ExitStack() as whole,
    ):
        source, own = make_url(primary.url), make_url(replica.url)
        administrator = own._replace(username="root", database=None)
        run_as(
            administrator,
            f"CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {source.port}, MASTER_USER = 'root',"
            f" MASTER_PASSWORD = '{password}', MASTER_USE_GTID = slave_pos",
            "START SLAVE",
        )
        config = scratch.model_copy(
            update={
                "mysql_url": SecretStr(f"{primary.url}?charset=utf8mb4"),
                "mysql_replica_url": SecretStr(f"{replica.url}?charset=utf8mb4"),
            }
        )
        assert migrate_schema.main(["upgrade"], config) == 0
        use = Resources(config)
        whole.callback(use.close)
        key, port = make_tenant(use)[1], free_port()
        environment = {
            **environment_of(config, redis_url=config.redis_url.get_secret_value(), port=port),
            "CHORDWISE_MYSQL_REPLICA_URL": config.mysql_replica_url.get_secret_value(),
            "CHORDWISE_QUERY_DEADLINE_MS": "10000",  # on a busy machine too
            "CHORDWISE_KEYWORD_ENGINE": "mysql",  # no indexer runs here
            "OPENBLAS_NUM_THREADS": "1",
        }
        queues = ",".join(queue.value for queue in Queue)
        whole.enter_context(worker("all", queues, log=tmp_path / "worker.log", **environment))
        whole.enter_context(process("api_gateway", log=tmp_path / "gateway.log", **environment))
        wait_for_log(tmp_path / "worker.log", " ready.", seconds=240)
        url = f"http://127.0.0.1:{port}"
        wait_for_http(f"{url}/readyz", seconds=120)
        yield Installation(url, key, use, replica, administrator)


class DescribeAReplicaUnderLoad:
    def it_never_shows_less_than_was_written(self, installation):
        numbers = itertools.count()
        with (
            Chordwise(installation.url, installation.key, timeout=PATIENCE_S) as client,
            Chordwise(installation.url, installation.key, timeout=PATIENCE_S) as other,
            httpx.Client(base_url=installation.url, headers={"Authorization": f"Bearer {installation.key}"}) as http,
        ):

            def listed() -> list[str]:
                page = http.get("/v1/documents", params={"namespace": "kb", "limit": 100}, timeout=PATIENCE_S)
                return [document["document_id"] for document in page.raise_for_status().json()["data"]]

            def write_and_read() -> None:
                n = next(numbers)
                name = f"d{n % 40}"
                job = client.ingest([{"document_id": name, "text": TEXTS[n % 2].format(n=n)}], namespace="kb")
                assert name in listed()  # accepted
                done = client.wait(job, timeout=4 * PATIENCE_S)
                assert not done.errors
                assert any(
                    chunk.text == TEXTS[n % 2].format(n=n) for chunk in other.query(str(n), namespace="kb").chunks
                )
                if n % 3 == 0:
                    http.delete(
                        f"/v1/documents/{name}", params={"namespace": "kb"}, timeout=PATIENCE_S
                    ).raise_for_status()
                    assert name not in listed()

            def ask() -> None:
                assert other.query("pump 水泵", namespace="kb", fresh=True, timeout=PATIENCE_S).chunks

            for _ in range(5):
                write_and_read()
            installation.until_more("current", listed)
            installation.until_more("current", ask)
            assert examine_stores.replica(installation.use).severity is Severity.OK
            with Loop(write_and_read) as writes, Loop(ask) as queries:
                installation.tell_replica("STOP SLAVE SQL_THREAD")
                installation.until_more("behind", listed)
                writes.goes_on()
                queries.goes_on()
                installation.tell_replica("START SLAVE SQL_THREAD")
                for end, back in (
                    (installation.replica.freeze, installation.replica.thaw),
                    (installation.replica.kill, installation.replica.start),
                ):
                    end()
                    installation.until_more("away", listed)
                    ready = http.get("/readyz").raise_for_status().json()
                    assert ready["dependencies"]["mysql_replica"]["status"] == "down"
                    writes.goes_on()
                    queries.goes_on()
                    back()
                    writes.goes_on()
            assert queries.slowest_s < PATIENCE_S
            installation.until_more("current", listed)
            installation.until_more("current", ask)
