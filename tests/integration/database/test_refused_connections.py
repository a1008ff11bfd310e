"""Servers that refuse a connection or a right: every command shows one sentence with the server and the fix."""

from __future__ import annotations

import socket
import ssl
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from pipeline.resources import Resources
from pipeline.settings import Settings
from tests.conftest import scratch_databases
from tests.support.servers import certificates
from tests.support.servers.administration import as_mysql_root, as_postgres_superuser, mysql_url, postgres_url
from tests.support.servers.certificates import Certificates
from tests.support.stacks.refusals import PASSWORD, bare_postgres, moved


@pytest.fixture
def small_user(settings: Settings) -> Iterator[str]:
    """A user of both servers that may log in and nothing else."""
    name = f"small_{uuid.uuid4().hex[:8]}"
    as_mysql_root(settings, f"CREATE USER {name}@'127.0.0.1' IDENTIFIED BY '{PASSWORD}'")
    as_postgres_superuser(settings, f"CREATE ROLE {name} LOGIN PASSWORD '{PASSWORD}'")
    yield name
    as_mysql_root(settings, f"DROP USER {name}@'127.0.0.1'")
    as_postgres_superuser(settings, f"DROP OWNED BY {name}", f"DROP ROLE {name}")


class DescribeRights:
    def it_names_what_a_mysql_user_may_not_do(self, settings: Settings, small_user, says):
        with scratch_databases(settings) as empty:
            database = mysql_url(empty).database
            as_mysql_root(empty, f"GRANT SELECT ON {database}.* TO {small_user}@'127.0.0.1'")
            line = says("upgrade", moved(empty, mysql=mysql_url(empty, username=small_user, password=PASSWORD)))
        assert f"MySQL at 127.0.0.1:{mysql_url(empty).port}, database {database}: CREATE command denied" in line
        assert line.endswith(
            f"as an administrator run: GRANT ALL PRIVILEGES ON `{database}`.* TO '{small_user}'@'127.0.0.1'"
        )

    def it_names_the_database_that_a_mysql_user_may_not_use(self, settings: Settings, small_user, says):
        line = says("check", moved(settings, mysql=mysql_url(settings, username=small_user, password=PASSWORD)))
        assert "Access denied for user" in line
        assert f"GRANT ALL PRIVILEGES ON `chordwise`.* TO '{small_user}'@'127.0.0.1'" in line

    def it_names_what_a_postgres_role_may_not_read(self, use_alone: Resources, small_user, says):
        url = postgres_url(use_alone.settings, username=small_user, password=PASSWORD)
        line = says("check", moved(use_alone.settings, postgres=url))
        assert "permission denied for table schema_version_postgres" in line
        assert f'GRANT ALL ON ALL TABLES IN SCHEMA public TO "{small_user}"' in line

    def it_names_the_schema_that_a_postgres_role_may_not_write(self, use_alone: Resources, small_user, says):
        with bare_postgres(use_alone.settings) as bare:
            as_postgres_superuser(bare, "CREATE EXTENSION vector")
            line = says("upgrade", moved(bare, postgres=postgres_url(bare, username=small_user, password=PASSWORD)))
        assert "permission denied for schema public" in line
        assert f'GRANT ALL ON SCHEMA public TO "{small_user}"' in line


class DescribeAddresses:
    @pytest.mark.parametrize(
        ("server", "change", "expected"),
        [
            ("mysql", {"password": PASSWORD}, "check CHORDWISE_MYSQL_URL and CHORDWISE_MYSQL_PASSWORD"),
            (
                "mysql",
                {"database": "chordwise_nope"},
                "there is no such database; check CHORDWISE_MYSQL_URL, or as an admin",
            ),
            ("mysql", {"port": 9}, "MySQL at 127.0.0.1:9, database chordwise: it does not answer (Connection refused)"),
            ("mysql", {"host": "nohost.invalid"}, "it does not answer (Name or service not known)"),
            (
                "postgres",
                {"password": PASSWORD},
                'password authentication failed for user "chordwise"; check CHORDWISE_POST',
            ),
            (
                "postgres",
                {"database": "nope"},
                'database "nope" does not exist; check CHORDWISE_POSTGRES_URL, or as an admin',
            ),
            (
                "postgres",
                {"port": 9},
                "PostgreSQL at 127.0.0.1:9, database chordwise: it does not answer (Connection refused",
            ),
            ("postgres", {"host": "nohost.invalid"}, "it does not answer"),
            (
                "postgres",
                {"query": {"sslmode": "require"}},
                "turn TLS on in the server, or remove sslmode from CHORDW",
            ),
        ],
    )
    def it_says_which_part_of_the_url_is_wrong(self, settings: Settings, says, server, change, expected):
        make = {"mysql": mysql_url, "postgres": postgres_url}[server]
        assert expected in says("check", moved(settings, **{server: make(settings, **change)}))


class DescribeCertificates:
    @pytest.mark.parametrize("expired", [False, True])
    def it_says_that_the_one_of_postgres_is_not_trusted(self, settings: Settings, says, tmp_path, expired):
        files = certificates.make(tmp_path, expired=expired)
        with _tls_only(files) as port:
            query = {"sslmode": "verify-full", "sslrootcert": str(files.authority if expired else files.stranger)}
            url = postgres_url(settings, port=port, query=query)
            line = says("check", moved(settings, postgres=url))
        assert f"PostgreSQL at 127.0.0.1:{port}" in line
        assert "certificate verify failed" in line
        assert "append ?sslrootcert=/path/ca.pem with the CA of this server to CHORDWISE_POSTGRES_URL" in line
        assert line.endswith(", or renew a certificate that has expired")


@contextmanager
def _tls_only(files: Certificates) -> Iterator[int]:
    """A PostgreSQL server as far as its TLS handshake: the one of the tests is built without TLS."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(files.server, files.server_key)
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    with connection, suppress(OSError):
                        connection.recv(8)  # SSLRequest
                        connection.sendall(b"S")
                        context.wrap_socket(connection, server_side=True).close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield int(listening.getsockname()[1])
        listening.shutdown(socket.SHUT_RDWR)
        thread.join(5)
