"""Databases, users and sessions with odd defaults on the shared servers: each works, or is named in one sentence."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

import pytest
from sqlalchemy import Engine, exc, text

from pipeline.database import schema
from pipeline.database.engines import SQL_MODE, mysql_engine, mysql_errors, postgres_engine, postgres_errors
from pipeline.errors import StoreMisconfigured, StoreUnavailable
from pipeline.maintenance import examine_stores, migrate_schema
from pipeline.maintenance.doctor import Severity
from pipeline.records import TenantId
from pipeline.resources import Resources
from pipeline.settings import Settings
from pipeline.tenants.tenant_store import Tenants
from tests.conftest import make_tables, scratch_databases
from tests.support.servers.administration import as_mysql_root, as_postgres_superuser, mysql_url, postgres_url
from tests.support.stacks.refusals import PASSWORD, bare_postgres, moved

ODD_MODES = "ANSI_QUOTES,NO_BACKSLASH_ESCAPES,ONLY_FULL_GROUP_BY"


@pytest.fixture
def name() -> str:
    return f"odd_{uuid.uuid4().hex[:8]}"


@contextmanager
def mysql_user(use: Resources, name: str, rights: str, options: str = "") -> Iterator[Settings]:
    """Settings with a MySQL user of these rights in the database."""
    database = mysql_url(use.settings).database
    as_mysql_root(
        use.settings,
        f"CREATE USER {name}@'127.0.0.1' IDENTIFIED BY '{PASSWORD}' {options}",
        f"GRANT {rights} ON {database}.* TO {name}@'127.0.0.1'",
    )
    yield moved(use.settings, mysql=mysql_url(use.settings, username=name, password=PASSWORD))
    as_mysql_root(use.settings, f"DROP USER {name}@'127.0.0.1'")


@contextmanager
def postgres_role(use: Resources, name: str, rights: str, options: str = "") -> Iterator[Settings]:
    """Settings with a PostgreSQL role of these rights on every table."""
    as_postgres_superuser(
        use.settings,
        f"CREATE ROLE {name} LOGIN PASSWORD '{PASSWORD}' {options}",
        f"GRANT {rights} ON ALL TABLES IN SCHEMA public TO {name}",
    )
    yield moved(use.settings, postgres=postgres_url(use.settings, username=name, password=PASSWORD))
    as_postgres_superuser(use.settings, f"DROP OWNED BY {name}", f"DROP ROLE {name}")


@contextmanager
def disposed(engine: Engine) -> Iterator[Engine]:
    yield engine
    engine.dispose()


class DescribeSessions:
    @pytest.mark.parametrize("reading", [False, True])
    def it_sets_modes_time_zone_and_characters_of_mysql(self, settings: Settings, reading):
        odd = moved(settings, mysql=mysql_url(settings, query={"sql_mode": ODD_MODES}))
        asked = text("SELECT @@sql_mode, @@time_zone, @@character_set_client, @@character_set_results")
        with disposed(mysql_engine(odd, reading=reading)) as engine, engine.connect() as connection:
            modes, *others = connection.execute(asked).one()
        assert set(modes.split(",")) == set(SQL_MODE.split(","))
        assert others == ["+00:00", "utf8mb4", "utf8mb4"]

    def it_cuts_no_text_where_the_server_is_not_strict(self, settings: Settings):
        lax = moved(settings, mysql=mysql_url(settings, query={"sql_mode": ""}))
        insert = text("INSERT INTO tenants (tenant_id, name, created_at) VALUES ('cut', :name, UTC_TIMESTAMP())")
        with disposed(mysql_engine(lax)) as engine, engine.connect() as connection, pytest.raises(exc.DataError):
            connection.execute(insert, {"name": "n" * 256})

    def it_sets_the_time_zone_of_postgres(self, use_alone: Resources, name):
        with postgres_role(use_alone, name, "SELECT") as odd:
            as_postgres_superuser(odd, f"ALTER ROLE {name} SET timezone = 'Asia/Kathmandu'")
            with disposed(postgres_engine(odd)) as engine, engine.connect() as connection:
                assert connection.execute(text("SHOW timezone")).scalar_one() == "UTC"


class DescribeDatabases:
    def it_stores_every_script_where_the_default_is_latin1(self, settings: Settings):
        with scratch_databases(settings) as odd, closing(Resources(odd)) as use:
            as_mysql_root(odd, f"ALTER DATABASE {mysql_url(odd).database} CHARACTER SET latin1")
            make_tables(use)
            name = '绿茶 🍵 and a "red" fox\'s \\ den'
            with use.mysql.begin() as connection:
                Tenants(connection, TenantId("t")).create(name)
                assert connection.execute(text("SELECT name FROM tenants")).scalars().all() == [name]
            assert migrate_schema.main(["check"], odd) == 0

    def it_refuses_a_postgres_database_that_lacks_most_characters(self, settings: Settings, says):
        with bare_postgres(settings) as bare:
            database = postgres_url(bare).database
            as_postgres_superuser(
                settings,
                f"DROP DATABASE {database}",
                f"CREATE DATABASE {database} TEMPLATE template0 OWNER chordwise ENCODING 'LATIN1' LOCALE 'C'",
            )
            line = says("upgrade", bare)
        assert (
            "the database stores text as LATIN1, which lacks most characters; make a new one: CREATE DATABASE" in line
        )


class DescribeRights:
    def it_names_a_mysql_user_that_may_only_read(self, use_alone: Resources, says, name):
        with mysql_user(use_alone, name, "SELECT") as odd:
            line = says("check", odd)
        assert f"INSERT command denied to user '{name}'@'127.0.0.1'" in line
        assert line.endswith(f"TO '{name}'@'127.0.0.1'")

    def it_names_a_postgres_role_that_may_only_read(self, use_alone: Resources, says, name):
        with postgres_role(use_alone, name, "SELECT") as odd:
            line = says("check", odd)
        assert "permission denied for table" in line
        assert f'GRANT ALL ON ALL TABLES IN SCHEMA public TO "{name}"' in line

    @pytest.mark.parametrize("action", ["check", "upgrade"])
    def it_names_a_postgres_that_takes_no_writes(self, use_alone: Resources, says, name, action):
        with postgres_role(use_alone, name, "ALL") as odd:
            as_postgres_superuser(odd, f"ALTER ROLE {name} SET default_transaction_read_only = on")
            line = says(action, odd)
        assert line.endswith("takes no writes (read only); name the primary server in CHORDWISE_POSTGRES_URL")

    @pytest.mark.thorough
    def it_continues_a_migration_once_the_missing_right_is_there(self, settings: Settings, says, name):
        with scratch_databases(settings) as empty, closing(Resources(empty)) as use:
            rights = "SELECT, CREATE"
            with mysql_user(use, name, rights) as odd:
                line = says("upgrade", odd)
                assert "command denied" in line
                as_mysql_root(odd, f"GRANT ALL ON {mysql_url(odd).database}.* TO {name}@'127.0.0.1'")
                assert migrate_schema.main(["upgrade"], odd) == 0
            assert migrate_schema.main(["check"], empty) == 0

    @pytest.mark.thorough
    def it_changes_no_database_unless_both_can_be_migrated(self, settings: Settings, says, name):
        with scratch_databases(settings) as empty, closing(Resources(empty)) as use:
            with postgres_role(use, name, "ALL") as odd:
                line = says("upgrade", odd)
            assert f'GRANT ALL ON SCHEMA public TO "{name}"' in line
            with use.mysql.connect() as connection:
                assert connection.execute(text("SHOW TABLES")).all() == []


class DescribeClocks:
    @pytest.mark.parametrize(("apart_s", "named"), [(300, "behind"), (-300, "ahead of")])
    def it_refuses_a_host_whose_clock_is_wrong(self, use_alone: Resources, apart_s, named):
        with use_alone.mysql.connect() as connection:
            schema.check_clock(connection, clock=lambda: time.time() + apart_s / 60)
            with pytest.raises(StoreMisconfigured) as raised:
                schema.check_clock(connection, clock=lambda: time.time() + apart_s)
        expected = rf"its clock is (299|300|301) s {named} this host's; have NTP or chrony keep the time on both"
        assert re.search(expected, str(raised.value))


class DescribeConnections:
    @pytest.mark.thorough
    def it_names_the_limit_of_a_mysql_user(self, use_alone: Resources, name):
        with (
            mysql_user(use_alone, name, "ALL", "WITH MAX_USER_CONNECTIONS 1") as odd,
            disposed(mysql_engine(odd)) as engine,
            engine.connect(),
            pytest.raises(StoreUnavailable) as raised,
            mysql_errors(),
            engine.connect(),
        ):
            pass
        assert "max_user_connections' resource (current value: 1)" in str(raised.value)
        assert str(raised.value).endswith(
            f"; raise MAX_USER_CONNECTIONS of user {name}, or lower CHORDWISE_STORE_POOL_SIZE or the number of processes"
        )

    @pytest.mark.thorough
    def it_names_the_limit_of_a_postgres_role(self, use_alone: Resources, name):
        with (
            postgres_role(use_alone, name, "ALL", "CONNECTION LIMIT 1") as odd,
            disposed(postgres_engine(odd)) as engine,
            engine.connect(),
            pytest.raises(StoreUnavailable) as raised,
            postgres_errors(),
            engine.connect(),
        ):
            pass
        assert f'too many connections for role "{name}"; raise the CONNECTION LIMIT of role "{name}", or lower' in str(
            raised.value
        )

    def it_warns_before_a_limit_is_reached(self, use_alone: Resources, name):
        with ExitStack() as whole:
            mysql = whole.enter_context(mysql_user(use_alone, name, "ALL", "WITH MAX_USER_CONNECTIONS 2"))
            both = whole.enter_context(postgres_role(use_alone, name, "ALL", "CONNECTION LIMIT 9"))
            url = mysql.mysql_url
            odd = whole.enter_context(closing(Resources(both.model_copy(update={"mysql_url": url}))))
            with odd.mysql.connect():
                crowded = examine_stores.mysql_connections(odd)
                calm = examine_stores.postgres_connections(odd)
        assert (crowded.check, crowded.severity) == ("connections:mysql", Severity.WARNING)
        assert crowded.detail == "2 of 2 connections are in use"
        assert "raise the limit of the user or of MySQL" in crowded.advice
        assert (calm.check, calm.severity) == ("connections:postgresql", Severity.OK)
        assert calm.detail == "1 of 9 connections are in use"
