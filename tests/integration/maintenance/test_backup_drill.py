"""A drill: a backup under load, restored into servers of its own, and a recovery to a moment before a mistake."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

import pytest
import structlog
from pydantic import SecretStr
from sqlalchemy import make_url

from chordwise import Chordwise
from pipeline.administration.delete_documents import delete_document
from pipeline.maintenance import migrate_schema
from pipeline.maintenance.verify import verify
from pipeline.records import ChannelName, DocumentId, Namespace, TenantId
from pipeline.resources import Resources
from pipeline.retrieval.make_channels import make_channels
from pipeline.settings import Settings
from tests.conftest import make_tenant, redis_of_its_own, scratch_databases
from tests.support.clients.loop import PATIENCE_S, Loop
from tests.support.servers import tools_for_tests
from tests.support.servers.brokers import OwnServer
from tests.support.servers.own_stores import own_mariadb, own_postgres
from tests.support.stacks.corner import Corner, documents
from tests.support.stacks.processes import (
    environment_of,
    free_port,
    server_command,
    small_installation,
)

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(900)]

log = structlog.get_logger(__name__)

CORPUS = 1_000
TEXTS = ("The pump PPR-{n} starts at {n} bar and the valve opens.", "第{n}号水泵启动，阀门随后打开。")


@pytest.fixture(scope="module")
def found() -> Mapping[str, str]:
    """The variables by which the programs of both servers are found."""
    environment = tools_for_tests.backup_environment()
    if environment is None:
        pytest.fail("these tests need mariadb-dump: python3 compose/local.py install --dev", pytrace=False)
    return environment


def on(settings: Settings, mysql: OwnServer, postgres: OwnServer, redis_url: str) -> Settings:
    """Settings with these servers."""
    urls = {"mysql_url": f"{mysql.url}?charset=utf8mb4", "postgres_url": postgres.url, "redis_url": redis_url}
    engine = {"keyword_engine": "mysql"}  # no indexer runs here
    return settings.model_copy(update={name: SecretStr(url) for name, url in urls.items()} | engine)


@pytest.fixture
def empty(settings: Settings, tmp_path: Path) -> Iterator[Settings]:
    """A MariaDB, a PostgreSQL and a Redis database with nothing in them."""
    with (
        own_mariadb(tmp_path / "target") as mysql,
        own_postgres(tmp_path / "target") as postgres,
        redis_of_its_own(settings) as redis_url,
    ):
        yield on(settings, mysql, postgres, redis_url)


@pytest.fixture
def installation(settings: Settings, tmp_path: Path) -> Iterator[tuple[Resources, TenantId, str, str]]:
    """A gateway, two workers for all queues and a clock, on databases of their own."""
    with scratch_databases(settings) as config, ExitStack() as whole:
        assert migrate_schema.main(["upgrade"], config) == 0
        use = whole.enter_context(closing(Resources(config)))
        tenant_id, key = make_tenant(use)
        redis_url = config.redis_url.get_secret_value()
        environment = environment_of(config, redis_url=redis_url, port=free_port())
        url = small_installation(environment | {"CHORDWISE_SWEEP_INTERVAL_S": "1"}, tmp_path, whole)
        yield use, tenant_id, url, key


def text_of(number: int) -> str:
    return TEXTS[number % 2].format(n=number)


class DescribeADrill:
    def it_finds_every_document_again_that_was_searchable_when_the_backup_began(
        self, installation, empty, found, tmp_path
    ):
        use, tenant_id, url, key = installation
        numbers, searchable = itertools.count(), set[int]()
        folder = tmp_path / "backup"
        with Chordwise(url, key, timeout=2 * PATIENCE_S) as client:

            def upload(count: int = 4) -> None:
                some = list(itertools.islice(numbers, count))
                again = {n // 2 for n in some if searchable}  # replaced by the same text with other metadata
                uploads = [{"document_id": f"d{n}", "text": text_of(n)} for n in some] + [
                    {"document_id": f"d{n}", "text": text_of(n), "metadata": {"round": some[0]}} for n in again
                ]
                done = client.wait(client.ingest(uploads, namespace="kb"), timeout=2 * PATIENCE_S)
                assert done.done
                assert not done.errors
                searchable.update(some)

            upload(CORPUS)
            with Loop(upload) as uploads:
                uploads.goes_on()
                then, began = set(searchable), time.monotonic()
                made = server_command(use.settings, "backup", str(folder), **found)
                backup_s, jobs = time.monotonic() - began, uploads.done
                uploads.goes_on()
        assert made.returncode == 0, made.stderr
        began = time.monotonic()
        restored = server_command(empty, "restore", str(folder), **found)
        restore_s = time.monotonic() - began
        assert restored.returncode == 0, restored.stderr
        log.info(
            "drill",
            documents=len(then),
            jobs_meanwhile=jobs,
            backup_s=round(backup_s, 1),
            restore_s=round(restore_s, 1),
            megabytes={file.name: round(file.stat().st_size / 1e6, 2) for file in folder.iterdir()},
            restored=restored.stdout.splitlines()[0],
        )
        with closing(Resources(empty)) as again:
            report = verify(tenant_id, None, again, repair=False)
            assert (report.missing, report.orphaned, report.stale) == (0, 0, 0)
            corner = Corner(again, tenant_id, Namespace("kb"))
            shown = corner.shown()
            assert {name: shown.get(name) for name in (f"d{n}" for n in then)} == {f"d{n}": [text_of(n)] for n in then}
            channels = make_channels(again)
            for number in sorted(then)[::50]:
                for name in (ChannelName.SEMANTIC, ChannelName.KEYWORD):
                    hits = documents(corner.ask(corner.query(text_of(number)), {name: channels[name]}))
                    assert f"d{number}" in hits, name  # others with the same digits are as near


class DescribeARecoveryToAMoment:
    """The commands of docs/backup.md, with PostgreSQL left as it is."""

    def it_has_the_document_that_was_deleted_after_it(self, settings, found, tmp_path):
        options = ("--log-bin=binary", "--binlog-format=ROW", "--server-id=1")
        with (
            own_mariadb(tmp_path / "source", *options) as mysql,
            own_mariadb(tmp_path / "target") as other,
            own_postgres(tmp_path / "postgres") as postgres,
            redis_of_its_own(settings) as redis_url,
        ):
            source = on(settings, mysql, postgres, redis_url)
            assert migrate_schema.main(["upgrade"], source) == 0
            with closing(Resources(source)) as use:
                tenant_id, _ = make_tenant(use)
                corner = Corner(use, tenant_id, Namespace("kb"))
                corner.fill({"before": "The lid of the pump is opened by turning it left."})
                dump = tmp_path / "chordwise.sql"
                client("mariadb-dump", mysql, "--single-transaction", "--master-data=2", f"-r{dump}", "chordwise")
                corner.fill({"since": "The drain of the pump is cleaned every week."})
                time.sleep(1.1)  # the log has whole seconds
                moment = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S")
                time.sleep(1.1)
                delete_document(tenant_id, Namespace("kb"), DocumentId("since"), use)
                corner.fill({"after": "A note that is not wanted back."})
                corner.assert_clean()
                assert set(corner.shown()) == {"before", "after"}
            with dump.open("rb") as script:
                client("mariadb", other, "chordwise", stdin=script)
            position = re.search(r"MASTER_LOG_FILE='(.+?)', MASTER_LOG_POS=(\d+)", dump.read_text("utf-8", "replace"))
            assert position is not None
            files = sorted(file for file in tmp_path.glob("source/**/binary.0*") if file.name >= position[1])
            events = tmp_path / "since.sql"
            until = [f"--start-position={position[2]}", f"--stop-datetime={moment}", f"--result-file={events}"]
            client("mariadb-binlog", None, *until, *map(str, files))
            with events.open("rb") as script:
                client("mariadb", other, "chordwise", stdin=script)
            recovered = on(settings, other, postgres, redis_url)
            assert migrate_schema.main(["adopt"], recovered) == 0
            with closing(Resources(recovered)) as use:
                assert verify(tenant_id, None, use, repair=True, delete_share=1.0).repaired > 0
                corner = Corner(use, tenant_id, Namespace("kb"))
                assert set(corner.shown()) == {"before", "since"}
                for question, name in (("the drain is cleaned", "since"), ("the lid is opened", "before")):
                    assert documents(corner.ask(corner.query(question)))[0] == name
                corner.assert_clean()


def client(program: str, server: OwnServer | None, *arguments: str, stdin: IO[bytes] | None = None) -> None:
    """Run a program of MariaDB as root of a server, or without one."""
    environment = {**os.environ, **(tools_for_tests.backup_environment() or {}), "TZ": "UTC"}
    login = []
    if server is not None:
        url = make_url(server.url)
        environment["MYSQL_PWD"] = str(url.password)
        login = ["--user=root", f"--host={url.host}", f"--port={url.port}"]
    ended = subprocess.run(
        [program, *login, *arguments], env=environment, stdin=stdin, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
