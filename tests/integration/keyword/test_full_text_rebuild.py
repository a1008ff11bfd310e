"""The statements of docs/troubleshooting.md that rebuild InnoDB's full-text index, carried out while documents are written and
questions asked."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pydantic import SecretStr

from compose.localstack.progress import Failure
from pipeline.administration.drop_replaced import drop_retired
from pipeline.maintenance.migrate_schema import check_all
from pipeline.records import ChannelName, Namespace
from pipeline.resources import Resources
from pipeline.retrieval.make_channels import make_channels
from pipeline.settings import Settings
from tests.conftest import make_tables, make_tenant, scratch_databases
from tests.support.corpora.uploads import upload
from tests.support.repository.guides import blocks
from tests.support.servers.own_stores import own_mariadb, own_mysql
from tests.support.stacks.corner import Corner, documents

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(600)]

SERVERS = {"mariadb": own_mariadb, "mysql-9": own_mysql}
DOCUMENTS, REPLACEMENTS = 60, 6
_WORDS = [f"{first}{second}" for first in ("pump", "valve", "rotor", "seal") for second in range(1000)]


def documented_statements() -> list[str]:
    """The statements of the page, in order."""
    (block,) = blocks("docs/troubleshooting.md", "sql")
    return [statement.strip() for statement in block.text.split(";") if statement.strip()]


def text_of(name: str, version: int) -> str:
    """A text with a word of its own, and others that differ between versions."""
    return " ".join([f"only{name}", *random.Random(f"{name}/{version}").choices(_WORDS, k=200)])


@dataclass(frozen=True)
class Installation:
    """A tenant on a server of the test's own. ``data``: the folder of the server's files."""

    corner: Corner
    data: Path

    def index_bytes(self) -> int:
        """The size of the full-text index on disk."""
        return sum(file.stat().st_size for file in self.data.glob("chordwise/*") if file.name.lower()[:4] == "fts_")

    def replace_documents(self, times: int) -> None:
        """Ingest each document anew, and drop the replaced chunks."""
        for version in range(times):
            self.corner.fill({f"d{number}": text_of(f"d{number}", version) for number in range(DOCUMENTS)})
            self.corner.execute("UPDATE retired_generations SET due_at = '2000-01-01' WHERE tenant_id = :tenant")
            drop_retired(self.corner.tenant, self.corner.use)

    def first_hit(self, name: str) -> str:
        """The document that FULLTEXT finds for the word that only ``name`` holds; empty without any."""
        channel = {ChannelName.KEYWORD: make_channels(self.corner.use)[ChannelName.KEYWORD]}
        answer = self.corner.ask(self.corner.query(f"only{name}"), channel)
        return next(iter(documents(answer)), "")


@dataclass
class Traffic:
    """Uploads and questions by turns, until it is stopped. ``wrong``: the questions without the right answer."""

    installation: Installation
    written: list[str] = field(default_factory=list)
    asked: int = 0
    wrong: list[str] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)
    _errors: list[BaseException] = field(default_factory=list)

    def __enter__(self) -> Traffic:
        self._threads = [threading.Thread(target=self._repeat, args=(step,)) for step in (self._write, self._ask)]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)
        assert self._errors == []

    def _repeat(self, step: Callable[[], None]) -> None:
        try:
            while not self._stop.is_set():
                step()
        except BaseException as error:
            self._errors.append(error)

    def _write(self) -> None:
        name = f"w{len(self.written)}"
        job = self.installation.corner.ingest(upload(name, text_of(name, 0)))
        assert job.succeeded == 1, job
        self.written.append(name)

    def _ask(self) -> None:
        name = f"d{self.asked % DOCUMENTS}"
        if self.installation.first_hit(name) != name:
            self.wrong.append(name)
        self.asked += 1


@pytest.fixture(params=SERVERS)
def installation(request: pytest.FixtureRequest, settings: Settings, tmp_path: Path) -> Iterator[Installation]:
    with ExitStack() as whole:
        try:
            server = whole.enter_context(SERVERS[request.param](tmp_path, "--innodb-buffer-pool-size=128M"))
        except Failure as missing:
            pytest.skip(str(missing))
        scratch = whole.enter_context(scratch_databases(settings))
        own = scratch.model_copy(update={"mysql_url": SecretStr(server.url), "keyword_engine": "mysql"})
        use = whole.enter_context(closing(Resources(own)))
        make_tables(use)
        corner = Corner(use, make_tenant(use)[0], Namespace("kb"))
        (data,) = (path.parent for path in tmp_path.glob("stacks/own/data/*/chordwise"))
        yield Installation(corner, data)


def not_found(installation: Installation, names: Sequence[str]) -> list[str]:
    """The documents that their own word does not find."""
    return [name for name in names if installation.first_hit(name) != name]


class DescribeTheRebuildOfTheFullTextIndex:
    def it_makes_the_index_smaller_while_documents_are_written_and_found(self, installation: Installation):
        installation.replace_documents(REPLACEMENTS)
        with Traffic(installation) as traffic:
            time.sleep(2)
            before = installation.index_bytes()
            for statement in documented_statements():
                installation.corner.execute(statement)
            after = installation.index_bytes()
            during = len(traffic.written)
            time.sleep(2)
        assert traffic.wrong == []
        assert after < before / 2, f"{before} bytes before, {after} after"
        assert len(traffic.written) > during > 0
        assert not_found(installation, [*traffic.written, *(f"d{number}" for number in range(DOCUMENTS))]) == []
        use = installation.corner.use
        check_all(use.mysql, use.postgres, use.settings)
        installation.replace_documents(1)
        installation.corner.assert_clean()

    def it_lets_documents_wait_for_longer_than_a_worker_does(self, settings: Settings):
        with ExitStack() as whole:
            scratch = whole.enter_context(scratch_databases(settings))
            use = whole.enter_context(closing(Resources(scratch)))
            make_tables(use)
            corner = Corner(use, make_tenant(use)[0], Namespace("kb"))
            hasty = whole.enter_context(closing(Resources(scratch, timeout_s=1.0)))
            ticket = corner.accept(upload("a", "a document"))
            with use.mysql.connect() as connection:
                connection.exec_driver_sql("LOCK TABLES chunks READ")  # readers go on, as beside the first statement
                corner.work(ticket, hasty)
                connection.exec_driver_sql("UNLOCK TABLES")
            states = corner.execute("SELECT state, attempts FROM job_items WHERE tenant_id = :tenant")
            assert [tuple(row) for row in states] == [("queued", 1)]
            corner.make_due()
            corner.work(ticket)
            assert corner.job(ticket).succeeded == 1
            assert corner.shown() == {"a": ["a document"]}
            corner.assert_clean()
