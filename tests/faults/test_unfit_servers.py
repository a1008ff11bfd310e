"""Servers of a test's own with options that no shared one may have: the product works on them, or one sentence names the
reason; a full one leaves nothing half written."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
import pytest
from celery import Celery
from pydantic import SecretStr
from sqlalchemy import make_url, text

from compose.localstack.progress import Failure
from pipeline.database.unit_of_work import reading
from pipeline.errors import StatementTooLarge, StoreFull, StoreMisconfigured, StoreReadOnly, StoreUnavailable
from pipeline.maintenance import examine_stores, migrate_schema
from pipeline.records import Namespace
from pipeline.resources import Resources
from pipeline.settings import Settings
from pipeline.store_urls import for_celery
from tests.conftest import databases_of_its_own, make_tables, make_tenant, scratch_databases
from tests.support.corpora.uploads import upload
from tests.support.repository.project import ROOT
from tests.support.servers import certificates
from tests.support.servers.administration import run_as
from tests.support.servers.brokers import OwnServer, own_guarded_rabbitmq, own_old_rabbitmq, own_rabbitmq
from tests.support.servers.own_stores import own_mariadb, own_postgres
from tests.support.stacks.corner import Corner, documents
from tests.support.stacks.processes import environment_of, free_port, process, wait_for_http
from workers.producer import check_broker, producer

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
    """Accept jobs of a hundred documents until the store refuses one. Returns how many it took, and its refusal. The texts
    fit into pages: MariaDB may end itself where one beyond a page must be taken back and no page is free."""
    for number in range(100):
        try:
            corner.accept(*(upload(f"big-{number}-{one}", f"{number} {one} " + "x" * 5_000) for one in range(100)))
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


class DescribeASmallPacket:
    def it_is_named_with_its_size_at_the_start_and_to_whoever_sends_more(
        self, settings: Settings, tmp_path: Path, capsys
    ):
        with own_mariadb(tmp_path) as mysql, moved(settings, mysql=mysql.url) as own:
            with closing(Resources(own)) as use:
                make_tables(use)
            run_as(make_url(mysql.url).set(username="root"), "SET GLOBAL max_allowed_packet = 65536")
            assert migrate_schema.main(["check"], own) == 1
            assert "takes statements of 65,536 bytes (max_allowed_packet)" in capsys.readouterr().err
            with closing(Resources(own)) as use:
                for size in (100_000, 900_000, 20_000_000):
                    with (
                        pytest.raises(StatementTooLarge, match=r"takes statements of 65,536 bytes"),
                        reading(use.mysql) as sql,
                    ):
                        sql.execute(text("SELECT LENGTH(:long)"), {"long": "x" * size})
                with reading(use.mysql) as sql:
                    assert sql.execute(text("SELECT LENGTH(:short)"), {"short": "x" * 60_000}).scalar_one() == 60_000


class DescribeAServerThatBecomesReadOnly:
    def it_is_named_by_the_check_of_readiness(self, settings: Settings, tmp_path: Path):
        with own_mariadb(tmp_path) as mysql, moved(settings, mysql=mysql.url) as own, closing(Resources(own)) as use:
            make_tables(use)
            examine_stores.write_mysql(use)
            run_as(make_url(mysql.url).set(username="root"), "SET GLOBAL read_only = ON")
            with pytest.raises(StoreReadOnly, match="takes no writes"):
                examine_stores.write_mysql(use)
            examine_stores.ping_mysql(use)


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
            assert corner.rows("jobs") == accepted + 1
            for table in ("documents", "generations", "payloads"):
                assert corner.rows(table) == accepted * 100 + 1, table
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


class DescribeAGuardedRabbitMq:
    def it_is_trusted_as_the_url_says(self, tmp_path: Path):
        try:
            server = own_guarded_rabbitmq(tmp_path)
        except Failure as missing:
            pytest.skip(str(missing))
        bare, stranger = server.url.partition("?")[0], tmp_path / "stranger.pem"
        otherwise = server.url.replace("127.0.0.1", "127.1")  # the same address, which the certificate does not name
        refused = {
            bare: "append ?ssl_ca_certs=/path/ca.pem with the CA of this server to CHORDWISE_BROKER_URL",
            f"{bare}?ssl_ca_certs={stranger}": "append ?ssl_ca_certs=/path/ca.pem with the CA of this server",
            otherwise: "not valid for '127.1'",
            bare.replace("amqps", "amqp"): "it does not answer",
        }
        with closing(server):
            server.start()
            for url in (server.url, f"{bare}?ssl_cert_reqs=none", f"{otherwise}&ssl_check_hostname=false"):
                assert check_broker(_app_of(url)), url
            for url, reason in refused.items():
                with pytest.raises(StoreUnavailable) as raised:
                    check_broker(_app_of(url))
                assert reason in str(raised.value), url


def _app_of(url: str) -> Celery:
    """Return an app with this broker, as `celery_config` makes one."""
    app = Celery("test", set_as_current=False)
    app.conf.task_queues = producer.conf.task_queues
    app.conf.broker_url, tls = for_celery(url)
    app.conf.update(broker_use_ssl=tls or False, broker_connection_timeout=2.0)
    return app


class DescribeTheRightsOfARabbitMqUser:
    def it_names_the_first_that_is_missing(self, tmp_path: Path):
        try:
            server = own_rabbitmq(tmp_path)
        except Failure as missing:
            pytest.skip(str(missing))
        with closing(server):
            server.start()
            app = _app_of(server.url)
            for patterns, lacking in _RIGHTS.items():
                server.control("set_permissions", "-p", "/", "chordwise", *patterns)
                with pytest.raises(StoreMisconfigured) as raised:
                    check_broker(app)
                assert str(raised.value).endswith(f": user chordwise lacks the {lacking}; {_GRANT}")
            server.control("set_permissions", "-p", "/", "chordwise", ".*", ".*", ".*")
            assert check_broker(app)


def _expired_rabbitmq(folder: Path) -> OwnServer:
    return own_guarded_rabbitmq(folder, expired=True)


def _rabbitmq_with_another_password(folder: Path) -> OwnServer:
    server = own_rabbitmq(folder)
    server.url = make_url(server.url).set(password="wrong").render_as_string(hide_password=False)
    return server


def _rabbitmq_with_another_host(folder: Path) -> OwnServer:
    server = own_rabbitmq(folder)
    server.url = f"{server.url.removesuffix('/')}other"
    return server


def _rabbitmq_without_a_right(folder: Path) -> OwnServer:
    """Return a RabbitMQ whose user may use the virtual host, but make no queues in it."""
    rights = {"configure": "none", "write": ".*", "read": ".*"}
    return own_rabbitmq(folder, settings="\n".join(f"default_permissions.{name} = {of}" for name, of in rights.items()))


_GRANT = "as an administrator run: rabbitmqctl set_permissions -p / chordwise '.*' '.*' '.*'"
# The patterns for configure, write and read, with the permission that is missing.
_RIGHTS = {
    ("none", ".*", ".*"): "configure permission on exchange 'ingest'",
    (".*", "none", ".*"): "write permission on queue 'ingest'",
    (".*", ".*", "^(?!rerank)"): "read permission on exchange 'rerank'",
    ("^(?!celery)", ".*", ".*"): "configure permission on exchange 'celery.pidbox'",
    # To which messages are published. It must be the last: declaring succeeds, and is not tried again within 30 s.
    (".*", "^(?!amq.default)", ".*"): "write permission on exchange 'amq.default'",
}
_UNFIT_BROKERS = {
    "old": (
        own_old_rabbitmq,
        "3.8.9, but RabbitMQ 3.10 or newer is needed; upgrade it, or name another one in {variable}",
    ),
    "expired": (
        _expired_rabbitmq,
        "the certificate of the server in {variable} is not trusted (certificate has expired); renew it on the server,"
        " and compare both clocks",
    ),
    "password": (
        _rabbitmq_with_another_password,
        "the user or the password is wrong; check {variable} and CHORDWISE_BROKER_PASSWORD",
    ),
    "host": (
        _rabbitmq_with_another_host,
        "the user may not use the virtual host in {variable}; create it, or run rabbitmqctl set_permissions as"
        " docs/install.md says",
    ),
    "right": (
        _rabbitmq_without_a_right,
        f"user chordwise lacks the configure permission on exchange 'ingest'; {_GRANT}",
    ),
}
_PROCESSES = {
    "gateway": ("api_gateway",),
    "worker": ("celery", "-A", "workers.app", "worker", "-Q", "upkeep", "--pool", "threads", "-c", "1"),
    "clock": ("celery", "-A", "workers.app", "beat", "-s", "{folder}/schedule", "--pidfile="),
}


class DescribeAnUnfitRabbitMq:
    @pytest.mark.parametrize(("make", "expected"), _UNFIT_BROKERS.values(), ids=_UNFIT_BROKERS)
    def it_is_named_by_what_runs_and_refused_by_what_starts(
        self, settings: Settings, tmp_path: Path, make: Callable[[Path], OwnServer], expected: str
    ):
        sentence = expected.format(variable="CHORDWISE_BROKER_URL")
        with databases_of_its_own(settings) as use, ExitStack() as whole:
            try:
                broker = make(tmp_path / "broker")
            except Failure as missing:
                pytest.skip(str(missing))
            whole.callback(broker.close)
            port = free_port()
            redis_url = use.settings.redis_url.get_secret_value()
            environment = environment_of(use.settings, redis_url=redis_url, port=port)
            environment |= {"CHORDWISE_BROKER_URL": broker.url, "CHORDWISE_ADMIN_KEY": "an operator's key of this test"}
            gateway = process("api_gateway", log=tmp_path / "gateway.log", ending=signal.SIGKILL, **environment)
            whole.enter_context(gateway)
            wait_for_http(f"http://127.0.0.1:{port}/healthz", seconds=90)
            key = {"Authorization": f"Bearer {environment['CHORDWISE_ADMIN_KEY']}"}
            client = whole.enter_context(httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=key, timeout=60))
            away = client.get("/readyz").json()["dependencies"]["broker"]
            assert away["status"] == "down"
            assert away["detail"].endswith(
                ": it does not answer (Connection refused); start it, or correct CHORDWISE_BROKER_URL"
            )
            broker.start()
            readiness = client.get("/readyz")
            assert readiness.status_code == 503
            assert readiness.json()["dependencies"]["broker"]["detail"].endswith(sentence)
            findings = {finding["check"]: finding for finding in client.get("/v1/doctor").json()["findings"]}
            assert findings["broker"]["severity"] == "failed"
            assert findings["broker"]["detail"].endswith(sentence)
            document = {"namespace": "kb", "documents": [{"document_id": "fox", "text": "A red fox sleeps."}]}
            of_tenant = {"Authorization": f"Bearer {make_tenant(use)[1]}"}
            assert client.post("/v1/documents", json=document, headers=of_tenant).status_code == 202
            assert client.get("/v1/metrics").status_code == 200
            for name, arguments in _PROCESSES.items():
                command = [sys.executable, "-m", *(part.format(folder=tmp_path) for part in arguments)]
                values = {**os.environ, **environment, "CHORDWISE_GATEWAY_PORT": str(free_port())}
                ended = subprocess.run(
                    command, cwd=ROOT, env=values, capture_output=True, text=True, timeout=90, check=False
                )
                assert ended.returncode == 1, f"{name}: {ended.stderr}"
                assert sentence in ended.stderr, name
