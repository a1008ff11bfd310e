"""Servers of a test's own with options that no shared one may have: the product works on them, or one sentence names the
reason; a full one leaves nothing half written."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from pydantic import SecretStr
from sqlalchemy import make_url

from pipeline.errors import StoreFull
from pipeline.maintenance import examine_stores, migrate_schema
from pipeline.records import Namespace
from pipeline.resources import Resources
from pipeline.settings import Settings
from tests.conftest import make_tables, make_tenant, scratch_databases
from tests.support.corpora.uploads import upload
from tests.support.servers import certificates
from tests.support.servers.administration import run_as
from tests.support.servers.own_stores import own_mariadb, own_postgres
from tests.support.stacks.corner import Corner, documents

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(300)]

ODD = (
    "--character-set-server=latin1",
    "--collation-server=latin1_swedish_ci",
    "--skip-character-set-client-handshake",
    "--init-connect=SET NAMES latin1",
    "--default-time-zone=+05:45",
    "--sql-mode=ANSI_QUOTES,NO_BACKSLASH_ESCAPES,ONLY_FULL_GROUP_BY",
    "--lower-case-table-names=1",
    "--default-storage-engine=MyISAM",
)
# All tables in one file that may not grow: full without a file system of its own.
SMALL = ("--innodb-file-per-table=OFF", "--innodb-data-file-path=ibdata1:12M:autoextend:max:20M")


@contextmanager
def moved(settings: Settings, *, mysql: str = "", postgres: str = "") -> Iterator[Settings]:
    """Settings with one or both databases on other servers, and a Redis database of the test's own."""
    with scratch_databases(settings) as empty:
        urls = {"mysql_url": mysql, "postgres_url": postgres}
        yield empty.model_copy(update={name: SecretStr(url) for name, url in urls.items() if url})


def corner_of(use: Resources) -> Corner:
    make_tables(use)
    tenant, _ = make_tenant(use)
    return Corner(use, tenant, Namespace("kb"))


def accept_until_full(corner: Corner) -> tuple[int, StoreFull]:
    """Accept documents until the store refuses one. Returns how many it took, and its refusal."""
    for number in range(100):
        try:
            corner.accept(upload(f"big-{number}", f"{number} " + "x" * 500_000))
        except StoreFull as error:
            return number, error
    pytest.fail("the store takes everything")


class DescribeOddDefaults:
    def it_ingests_and_answers_as_everywhere(self, settings: Settings, tmp_path: Path):
        postgres_options = {
            "timezone": "Asia/Kathmandu",
            "datestyle": "SQL, DMY",
            "standard_conforming_strings": "off",
            "bytea_output": "escape",
        }
        with ExitStack() as whole:
            mysql = whole.enter_context(own_mariadb(tmp_path / "mysql", *ODD))
            postgres = whole.enter_context(own_postgres(tmp_path / "postgres", **postgres_options))
            odd = whole.enter_context(moved(settings, mysql=mysql.url, postgres=postgres.url))
            corner = corner_of(whole.enter_context(closing(Resources(odd))))
            texts = {"a\"b'c": 'A red fox \\ sleeps in the "old" den\'s end — 😀.', "b": "绿茶用八十度的水冲泡。"}
            corner.fill(texts)
            assert corner.shown() == {name: [text] for name, text in texts.items()}
            assert documents(corner.ask(corner.query("red fox")))[0] == "a\"b'c"
            assert documents(corner.ask(corner.query("绿茶")))[0] == "b"
            corner.assert_clean()
            others = corner.execute(
                "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE()"
                " AND (engine <> 'InnoDB' OR table_collation <> 'utf8mb4_bin')"
            )
            assert [row[0] for row in others] == ["schema_version_mysql"]  # Alembic's own, of digits


class DescribeAReadOnlyMysql:
    def it_is_refused_even_to_a_user_who_could_write(self, settings: Settings, tmp_path: Path, capsys):
        with own_mariadb(tmp_path) as mysql, moved(settings, mysql=mysql.url) as own:
            with closing(Resources(own)) as use:
                make_tables(use)
            as_root = make_url(mysql.url).set(username="root")
            run_as(as_root, "SET GLOBAL read_only = ON")
            for user in ("chordwise", "root"):
                url = as_root.set(username=user).render_as_string(hide_password=False)
                for action in ("check", "upgrade"):
                    assert migrate_schema.main([action], own.model_copy(update={"mysql_url": SecretStr(url)})) == 1
                    line = capsys.readouterr().err
                    assert "takes no writes (read_only); name the primary server in CHORDWISE_MYSQL_URL" in line


class DescribeExpiredCertificates:
    def it_says_that_the_one_of_mysql_has_expired(self, settings: Settings, tmp_path: Path, capsys):
        files = certificates.make(tmp_path, expired=True)
        tls = (f"--ssl-ca={files.authority}", f"--ssl-cert={files.server}", f"--ssl-key={files.server_key}")
        with own_mariadb(tmp_path / "mysql", *tls) as mysql:
            trusted = make_url(mysql.url).update_query_dict({"ssl_ca": str(files.authority)})
            moved_url = SecretStr(trusted.render_as_string(hide_password=False))
            assert migrate_schema.main(["check"], settings.model_copy(update={"mysql_url": moved_url})) == 1
        line = capsys.readouterr().err
        assert "certificate is not trusted (certificate has expired); renew it on the server, and compare both" in line


class DescribeAFullMysql:
    def it_refuses_a_document_whole_and_keeps_what_it_has(self, settings: Settings, tmp_path: Path):
        with ExitStack() as whole:
            mysql = whole.enter_context(own_mariadb(tmp_path, *SMALL))
            own = whole.enter_context(moved(settings, mysql=mysql.url))
            corner = corner_of(whole.enter_context(closing(Resources(own))))
            corner.fill({"fox": "A red fox sleeps."})
            accepted, error = accept_until_full(corner)
            assert str(error).endswith("is full; free space on the server's disk")
            assert error.public == "MySQL has no space left"
            for table in ("documents", "jobs", "generations", "payloads"):
                assert corner.rows(table) == accepted + 1, table
            assert documents(corner.ask(corner.query("red fox"))) == ["fox"]


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[Path]:
    """A file system of this size for the user of PostgreSQL; only root can make one."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small file system")
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=700", "tmpfs", folder], check=True)
    shutil.chown(folder, "nobody")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


class DescribeAFullPostgres:
    def it_lets_documents_wait_until_there_is_space(self, settings: Settings):
        with ExitStack() as whole:
            # Servers that run as another user than root enter no private folder.
            folder = Path(whole.enter_context(TemporaryDirectory(prefix="chordwise-full-", dir="/tmp")))
            folder.chmod(0o755)
            disk = whole.enter_context(small_disk(folder / "disk", 64))
            postgres = whole.enter_context(own_postgres(folder / "postgres"))
            administrator = make_url(postgres.url).set(username="postgres", database="postgres")
            run_as(administrator, f"CREATE TABLESPACE small LOCATION '{disk}'")
            run_as(administrator, "ALTER DATABASE chordwise SET TABLESPACE small")
            own = whole.enter_context(moved(settings, postgres=postgres.url))
            corner = corner_of(whole.enter_context(closing(Resources(own))))
            corner.fill({"fox": "A red fox sleeps."})
            ballast, free = disk / "ballast", shutil.disk_usage(disk).free
            ballast.write_bytes(bytes(free - 100_000))
            words = " ".join(f"word{number}" for number in range(20_000))
            ticket = corner.accept(*(upload(f"long-{number}", f"{number} {words}") for number in range(8)))
            corner.work(ticket)
            states = corner.execute("SELECT DISTINCT state, error_detail FROM job_items WHERE tenant_id = :tenant")
            assert ("queued", "PostgreSQL has no space left") in {tuple(row) for row in states}
            (sentence,) = examine_stores.full_stores(corner.use)
            assert "No space left on device; free space on the server's disk" in sentence
            assert documents(corner.ask(corner.query("red fox")))[0] == "fox"
            ballast.unlink()
            while corner.job(ticket).finished_at is None:
                corner.make_due()
                corner.work(ticket)
            assert corner.job(ticket).succeeded == 8
            corner.assert_clean()
