"""A missing pgvector and an incomplete schema: every command and endpoint shows one sentence with the server and the fix."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest
from sqlalchemy import text

from api_gateway.app import create_app
from api_gateway.resources.doctor import examine
from pipeline.database import schema
from pipeline.database.engines import mysql_errors, postgres_errors
from pipeline.errors import StoreMisconfigured, Unavailable
from pipeline.maintenance import migrate_schema
from pipeline.resources import Resources
from pipeline.settings import Settings
from tests.conftest import make_tenant
from tests.support.servers.administration import as_postgres_superuser, postgres_url
from tests.support.stacks.processes import ROOT
from tests.support.stacks.refusals import bare_postgres

_OUTDATED = "in this database is 0.6.2, but 0.7 or newer is needed"


@contextmanager
def outdated(use: Resources) -> Iterator[str]:
    """The sound database with the catalog entry of pgvector 0.6.2: a server that was upgraded, ALTER EXTENSION not
    run."""
    read = text("SELECT extversion FROM pg_extension WHERE extname = 'vector'")
    with use.postgres.connect() as connection:
        version = connection.execute(read).scalar_one()
    change = "UPDATE pg_extension SET extversion = '{}' WHERE extname = 'vector'"
    as_postgres_superuser(use.settings, change.format("0.6.2"))
    try:
        yield str(version)
    finally:
        as_postgres_superuser(use.settings, change.format(version))


class DescribePgvector:
    def it_says_that_the_server_does_not_have_it(self, use_alone: Resources, says):
        with use_alone.postgres.connect() as connection:
            if (connection.dialect.server_version_info or ()) < (18,):
                pytest.skip("PostgreSQL before 18 looks for extensions in its own folder only")
        with bare_postgres(use_alone.settings) as bare:
            database = postgres_url(bare).database
            as_postgres_superuser(bare, f"ALTER DATABASE {database} SET extension_control_path = '/nowhere'")
            line = says("upgrade", bare)
        assert (
            f"PostgreSQL at 127.0.0.1:{postgres_url(bare).port}, database {database}: the server has no pgvector"
            in line
        )
        assert "but 0.7 or newer is needed" in line
        assert "install pgvector on the server (for example the package postgresql-18-pgvector)" in line
        assert f'-d {database} -c "CREATE EXTENSION vector"' in line

    def it_says_that_the_role_may_not_create_it(self, use_alone: Resources, says):
        with bare_postgres(use_alone.settings) as bare:
            url = postgres_url(bare)
            line = says("upgrade", bare)
        assert "the user chordwise may not create it; as a superuser run: " in line
        assert line.endswith(
            f'psql -h 127.0.0.1 -p {url.port} -U postgres -d {url.database} -c "CREATE EXTENSION vector"'
        )

    @pytest.mark.parametrize("action", ["upgrade", "check"])
    def it_says_that_the_database_has_an_old_one(self, use_alone: Resources, says, action):
        with outdated(use_alone) as available:
            line = says(action, use_alone.settings)
        assert "the extension vector (pgvector) in this database is 0.6.2, but 0.7 or newer is needed" in line
        assert f"and the server has {available}; run: psql" in line
        assert line.endswith('-c "ALTER EXTENSION vector UPDATE"')

    def it_says_that_the_server_has_an_old_one_too(self, use_alone: Resources):
        with use_alone.postgres.connect() as connection, pytest.raises(StoreMisconfigured) as raised:
            schema.check_postgres(connection, pgvector=(99,))
        assert "install pgvector on the server" in str(raised.value)
        assert str(raised.value).endswith('"ALTER EXTENSION vector UPDATE"')

    def it_says_that_the_server_itself_is_old(self, use_alone: Resources):
        with (
            use_alone.postgres.connect() as connection,
            pytest.raises(StoreMisconfigured, match=r"the server is version"),
        ):
            schema.check_postgres(connection, oldest=(99,))

    @pytest.mark.thorough
    def it_is_told_in_both_reports(self, use_alone: Resources):
        with outdated(use_alone):
            found = {each.check: each for each in examine(use_alone, None, use_alone.settings)}
            line = _asked(use_alone.settings, "/readyz").json()["dependencies"]["schema"]
        assert _OUTDATED in found["schema"].detail
        assert line["status"] == "down"
        assert _OUTDATED in line["detail"]

    @pytest.mark.thorough  # every entry refuses to start in one sentence in test_wrong_settings, too
    def it_is_told_at_every_start(self, use_alone: Resources):
        urls = {
            "CHORDWISE_MYSQL_URL": use_alone.settings.mysql_url.get_secret_value(),
            "CHORDWISE_POSTGRES_URL": use_alone.settings.postgres_url.get_secret_value(),
        }
        started = {
            "gateway": ["-m", "api_gateway"],
            "worker": ["-m", "celery", "-A", "workers.app", "worker", "-Q", "upkeep", "--pool", "solo"],
        }
        with outdated(use_alone):
            processes = {
                name: subprocess.Popen(
                    [sys.executable, *command],
                    cwd=ROOT,
                    env={**os.environ, **urls},
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                )
                for name, command in started.items()
            }
            ended = {
                name: (process.communicate(timeout=60)[0], process.returncode) for name, process in processes.items()
            }
        for name, (output, code) in ended.items():
            assert code == 1, (name, output)
            assert _OUTDATED in output
            assert "Traceback" not in output


def _asked(use: Settings, path: str, key: str = "") -> httpx.Response:
    """Return the answer of a gateway that has already started."""

    async def ask() -> httpx.Response:
        app = create_app(use)
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test", headers=headers) as client:
            answer = await client.get(path)
        await app.state.gateway.close()
        return answer

    return asyncio.run(ask())


def _execute(use: Resources, server: str, statement: str) -> None:
    with getattr(use, server).begin() as connection:
        connection.execute(text(statement))


class DescribeTheSchema:
    """Pairs of statements: the first removes a part of a sound schema, the second restores it."""

    @pytest.mark.parametrize(
        ("server", "take", "put_back", "named"),
        [
            (
                "mysql",
                "RENAME TABLE entity_states TO gone",
                "RENAME TABLE gone TO entity_states",
                "table entity_states",
            ),
            pytest.param(
                "mysql",
                "ALTER TABLE chunks RENAME INDEX chunks_terms TO other",
                "ALTER TABLE chunks RENAME INDEX other TO chunks_terms",
                "index chunks_terms of chunks (fulltext (terms))",
                marks=pytest.mark.thorough,
            ),
            pytest.param(
                "mysql",
                "ALTER TABLE chunks DROP INDEX chunks_by_id",
                "ALTER TABLE chunks ADD UNIQUE INDEX chunks_by_id (tenant_id, chunk_id)",
                "index chunks_by_id of chunks (unique btree (tenant_id, chunk_id))",
                marks=pytest.mark.thorough,
            ),
            pytest.param(
                "mysql",
                "ALTER TABLE tenants CHANGE disabled_at off_at DATETIME(6) NULL",
                "ALTER TABLE tenants CHANGE off_at disabled_at DATETIME(6) NULL",
                "column tenants.disabled_at",
                marks=pytest.mark.thorough,
            ),
            (
                "mysql",
                "ALTER TABLE jobs MODIFY request_id VARCHAR(12) CHARACTER SET ascii COLLATE ascii_bin NOT NULL",
                "ALTER TABLE jobs MODIFY request_id VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL",
                "column jobs.request_id (varchar(128) ascii_bin; it is varchar(12) ascii_bin)",
            ),
            (
                "postgres",
                "ALTER TABLE document_embeddings RENAME TO gone",
                "ALTER TABLE gone RENAME TO document_embeddings",
                "table document_embeddings",
            ),
            pytest.param(
                "postgres",
                "DROP INDEX chunk_embeddings_by_document",
                "CREATE INDEX chunk_embeddings_by_document ON chunk_embeddings (tenant_id, namespace, document_id, generation)",
                "index of chunk_embeddings (btree (tenant_id, namespace, document_id, generation))",
                marks=pytest.mark.thorough,
            ),
            pytest.param(
                "postgres",
                "ALTER TABLE vector_indexes RENAME COLUMN build_s TO gone",
                "ALTER TABLE vector_indexes RENAME COLUMN gone TO build_s",
                "column vector_indexes.build_s",
                marks=pytest.mark.thorough,
            ),
        ],
    )
    def it_names_what_was_taken_away(self, use_alone: Resources, says, server, take, put_back, named):
        _execute(use_alone, server, take)
        try:
            line = says("check", use_alone.settings)
        finally:
            _execute(use_alone, server, put_back)
        assert f"the schema lacks {named}; docs/troubleshooting.md" in line
        assert migrate_schema.main(["check"], use_alone.settings) == 0

    def it_allows_what_was_added(self, use_alone: Resources):
        added = "ALTER TABLE jobs ADD COLUMN note INT NULL, ADD INDEX jobs_note (tenant_id, note)"
        wider = "ALTER TABLE jobs MODIFY request_id VARCHAR({}) CHARACTER SET ascii COLLATE ascii_bin NOT NULL"
        for statement in (added, wider.format(200)):
            _execute(use_alone, "mysql", statement)
        try:
            assert migrate_schema.main(["check"], use_alone.settings) == 0
        finally:
            for statement in ("ALTER TABLE jobs DROP INDEX jobs_note, DROP COLUMN note", wider.format(128)):
                _execute(use_alone, "mysql", statement)

    def it_looks_again_only_after_a_while_and_says_how_old_the_look_is(self, use_alone: Resources):
        check = migrate_schema.SchemaCheck(
            lambda: use_alone.mysql, lambda: use_alone.postgres, use_alone.settings, fresh_s=600
        )
        assert check.age_s is None
        check()
        first = check.age_s
        assert first is not None
        _execute(use_alone, "mysql", "RENAME TABLE entity_states TO gone")
        try:
            check()
            assert check.age_s > first
            with pytest.raises(StoreMisconfigured, match="table entity_states"):
                migrate_schema.SchemaCheck(lambda: use_alone.mysql, lambda: use_alone.postgres, use_alone.settings)()
        finally:
            _execute(use_alone, "mysql", "RENAME TABLE gone TO entity_states")

    @pytest.mark.thorough
    def it_answers_503_and_no_address_to_who_needs_a_table_that_is_gone(self, use_alone: Resources):
        _, key = make_tenant(use_alone)
        path = "/v1/entities?namespace=kb"
        assert _asked(use_alone.settings, path, key).status_code in (200, 404)
        _execute(use_alone, "mysql", "RENAME TABLE entity_states TO gone")
        try:
            answer = _asked(use_alone.settings, path, key)
        finally:
            _execute(use_alone, "mysql", "RENAME TABLE gone TO entity_states")
        assert (answer.status_code, answer.json()["code"]) == (503, "store_misconfigured")
        assert int(answer.headers["Retry-After"]) > 0
        assert "MySQL is not set up completely" in answer.json()["detail"]
        assert not any(told in answer.text for told in ("127.0.0.1", "chordwise_", "entity_states"))

    def it_shows_the_age_of_the_look_in_readyz(self, use_alone: Resources):
        line = _asked(use_alone.settings, "/readyz").json()["dependencies"]["schema"]
        assert line["status"] == "ok"
        assert 0 <= line["age_s"] < 30

    def it_is_an_outage_to_who_asks_meanwhile(self, use_alone: Resources):
        with (
            pytest.raises(Unavailable) as raised,
            mysql_errors(),
            use_alone.mysql.connect() as connection,
        ):
            connection.execute(text("SELECT * FROM no_such_table"))
        assert raised.value.code == "store_misconfigured"
        assert "no_such_table' doesn't exist: run python -m pipeline.maintenance.migrate_schema upgrade" in str(
            raised.value
        )
        assert "127.0.0.1" not in raised.value.public
        with pytest.raises(StoreMisconfigured), postgres_errors(), use_alone.postgres.connect() as connection:
            connection.execute(text("SELECT * FROM no_such_table"))
