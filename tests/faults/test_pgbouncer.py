"""PgBouncer in transaction mode between the product and PostgreSQL: every statement may run in another session."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from pydantic import SecretStr
from sqlalchemy import make_url, text

from pipeline.database.engines import postgres_engine
from pipeline.errors import StoreMisconfigured
from pipeline.maintenance import migrate_schema
from pipeline.maintenance.build_indexes import drop_indexes
from pipeline.records import Namespace
from pipeline.resources import Resources
from pipeline.semantic.vector_index_store import index_builder
from pipeline.settings import Settings
from tests.conftest import make_tenant, scratch_databases
from tests.support.servers import tools_for_tests
from tests.support.servers.own_stores import own_postgres
from tests.support.stacks.corner import Corner, documents
from tests.support.stacks.processes import free_port

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(300)]

_SESSIONS = 3  # fewer than the connections of the product
_TEXTS = {"fox": "A red fox sleeps.", "tea": "绿茶用八十度的水冲泡。", "pump": "The pump PPR-9087 takes 12 Nm."}


@contextmanager
def pgbouncer(folder: Path, postgres: str, *lines: str) -> Iterator[str]:
    """Run it in front of a PostgreSQL; yield the URL. ``lines``: more of its settings."""
    found = tools_for_tests.pgbouncer()
    if found is None:
        pytest.fail("these tests need PgBouncer: python3 compose/local.py install --dev", pytrace=False)
    program, libraries = found
    url, port = make_url(postgres), free_port()
    folder.mkdir(mode=0o755)
    users, settings = folder / "users.txt", folder / "pgbouncer.ini"
    users.write_text(f'"{url.username}" "{url.password}"\n', encoding="utf-8")
    settings.write_text(
        f"[databases]\n* = host={url.host} port={url.port}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n"
        f"unix_socket_dir =\nauth_type = scram-sha-256\nauth_file = {users}\npool_mode = transaction\n"
        f"default_pool_size = {_SESSIONS}\n" + "".join(f"{line}\n" for line in lines),
        encoding="utf-8",
    )
    user = ["-u", "nobody"] if os.geteuid() == 0 else []
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            [program, *user, settings], env={**os.environ, **libraries}, stdout=log, stderr=subprocess.STDOUT
        )
    try:
        for _ in range(200):
            if b"process up" in (folder / "log").read_bytes():
                break
            time.sleep(0.05)
        yield url.set(port=port).render_as_string(hide_password=False)
    finally:
        server.terminate()
        server.wait(10)


@pytest.fixture(scope="module")
def direct(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with own_postgres(tmp_path_factory.mktemp("postgres")) as postgres:
        yield postgres.url


@pytest.fixture(scope="module")
def pooled(settings: Settings, direct: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """Settings with a MySQL and a Redis database of the module's own, and PostgreSQL behind PgBouncer."""
    folder = tmp_path_factory.mktemp("pooled") / "pgbouncer"
    with scratch_databases(settings) as own, pgbouncer(folder, direct) as url:
        urls = {"postgres_url": SecretStr(url), "postgres_direct_url": SecretStr(direct)}
        moved = own.model_copy(update=urls | {"recall_timeout_ms": 2000})
        assert migrate_schema.main(["upgrade"], moved) == 0
        yield moved


@pytest.fixture(scope="module")
def corner(pooled: Settings) -> Iterator[Corner]:
    with closing(Resources(pooled)) as use:
        tenant, _ = make_tenant(use)
        corner = Corner(use, tenant, Namespace("kb"))
        corner.fill(_TEXTS)
        yield corner


class DescribePgBouncer:
    def it_ingests_and_answers_with_more_callers_than_sessions(self, pooled: Settings, corner: Corner):
        with closing(Resources(pooled, reading=True)) as reading, ThreadPoolExecutor(8) as many:
            asking = Corner(reading, corner.tenant, corner.namespace)
            questions = ["red fox", "绿茶", "PPR-9087"] * 8
            answers = list(many.map(lambda question: asking.ask(asking.query(question)), questions))
        found = [(documents(answer)[:1], answer.stats.degradations) for answer in answers]
        assert found == [([name], ()) for name in ("fox", "tea", "pump") * 8]
        corner.fill(_TEXTS | {"fox": "A red fox woke up."})
        corner.assert_clean()

    def it_sets_what_a_search_needs_in_each_transaction_and_leaves_nothing(self, pooled: Settings):
        asked = text("SELECT current_setting('enable_seqscan'), current_setting('jit'), current_setting('TimeZone')")
        reading, plain = postgres_engine(pooled, reading=True), postgres_engine(pooled)
        try:
            for engine, scan in ((reading, "off"), (plain, "on")) * _SESSIONS:
                with engine.connect() as connection:
                    assert connection.execute(asked).one() == (scan, "off", "UTC")
        finally:
            reading.dispose()
            plain.dispose()

    def it_builds_indexes_in_a_session_of_its_own(self, corner: Corner):
        direct = postgres_engine(corner.use.settings, direct=True)
        with index_builder(direct) as mine, index_builder(direct) as other:
            assert mine is not None
            assert other is None
        assert drop_indexes(corner.tenant, corner.use) == 0

    def it_passes_the_check_of_the_start(self, pooled: Settings):
        assert migrate_schema.main(["check"], pooled) == 0


class DescribeAPoolerThatNobodyNamed:
    @pytest.mark.parametrize("lines", [(), ("ignore_startup_parameters = options",)])
    def it_is_refused_in_one_sentence(self, pooled: Settings, direct: str, tmp_path: Path, lines):
        with pgbouncer(tmp_path / "pgbouncer", direct, *lines) as url:
            unaware = pooled.model_copy(update={"postgres_url": SecretStr(url), "postgres_direct_url": None})
            with closing(Resources(unaware)) as use, pytest.raises(StoreMisconfigured) as raised:
                migrate_schema.check(use.mysql, use.postgres, unaware)
        assert (
            "name PostgreSQL itself in CHORDWISE_POSTGRES_DIRECT_URL if CHORDWISE_POSTGRES_URL names PgBouncer"
            in str(raised.value)
        )
