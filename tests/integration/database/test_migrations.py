"""Both schemas, from nothing to the newest revision, back, and forth again, in databases of their own."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import sqlalchemy
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Column, Connection, Engine, Integer, MetaData, Table, text

from pipeline.database import mysql_tables, postgres_tables, schema
from pipeline.database.engines import mysql_engine, postgres_engine
from pipeline.database.schema_revisions import MIGRATIONS, refuse_downgrade, revisions
from pipeline.distances import MEASURES
from pipeline.embedding import space_store
from pipeline.errors import Misconfigured, StoreUnavailable
from pipeline.maintenance.migrate_schema import EVERYTHING, check, check_downgrade, downgrade, main, upgrade
from pipeline.maintenance.plan_migrations import plan
from pipeline.resources import Resources
from pipeline.settings import Settings
from tests.record_schema import FILE as RECORD

# A revision of a later release, which reads before it writes.
_LATER = '''"""Note pages. More."""
from alembic import op
from sqlalchemy import inspect

revision, down_revision = "9000", "{newest}"

def upgrade() -> None:
    (table,) = {{"chunks", "chunk_embeddings"}} & set(inspect(op.get_bind()).get_table_names())
    op.execute("CREATE TABLE pages (id INT)")
    op.execute(f"CREATE INDEX noted ON {{table}} (tenant_id, namespace, document_id)")
'''

MYSQL_TABLES = {
    "tenants",
    "api_keys",
    "namespaces",
    "documents",
    "generations",
    "payloads",
    "chunks",
    "retired_generations",
    "jobs",
    "job_items",
}

# These belong to no tenant.
INSTALLATION_TABLES = {
    "schema_version_mysql",
    "schema_version_postgres",
    "embedding_pointer",
    "embedding_spaces",
    "installation",
}


@pytest.fixture
def engines(fresh: Settings) -> Iterator[tuple[Engine, Engine]]:
    """Pools on the empty databases."""
    mysql, postgres = mysql_engine(fresh), postgres_engine(fresh)
    yield mysql, postgres
    mysql.dispose()
    postgres.dispose()


@pytest.fixture(scope="module")
def migrated(use_alone: Resources) -> tuple[Engine, Engine]:
    """Pools on two databases of the newest revision."""
    return use_alone.mysql, use_alone.postgres


class DescribeMigrations:
    def it_goes_up_down_and_up_again(self, fresh, engines):
        mysql, postgres = engines
        upgrade(mysql, postgres, fresh)
        check(mysql, postgres, fresh)
        assert _tables(mysql) >= MYSQL_TABLES
        assert "chunk_embeddings" in _tables(postgres)
        assert main(["downgrade", "--to", "base"], fresh) == 0
        assert not _tables(mysql) & MYSQL_TABLES
        assert "chunk_embeddings" not in _tables(postgres)
        upgrade(mysql, postgres, fresh)
        upgrade(mysql, postgres, fresh)
        check(mysql, postgres, fresh)

    @pytest.mark.parametrize("side", [0, 1], ids=["mysql", "postgres"])
    def it_does_not_run_beside_another_migration(self, fresh, engines, side):
        lock, unlock = (
            ("GET_LOCK(CONCAT('chordwise_migrations.', LEFT(SHA2(DATABASE(), 256), 32)), 0)", "RELEASE_ALL_LOCKS()"),
            ("pg_try_advisory_lock(426953896548)", "pg_advisory_unlock_all()"),
        )[side]
        server = rf"{('MySQL', 'PostgreSQL')[side]} at [^ ]+(, [^ ]+)*, database \w+"
        with engines[side].connect() as other:
            assert other.execute(text(f"SELECT {lock}")).scalar_one() in (1, True)
            other.commit()
            expected = f"^{server}: another migration is running; run this one again when that one has ended$"
            for migrate in (upgrade, partial(downgrade, to=EVERYTHING)):
                with pytest.raises(StoreUnavailable, match=expected):
                    migrate(*engines, fresh, wait_s=0)
            assert _tables(engines[side]) == set()
            other.execute(text(f"SELECT {unlock}"))
        upgrade(*engines, fresh, wait_s=0)

    @pytest.mark.thorough
    def it_takes_one_side_back_to_a_revision_and_keeps_the_rest(self, fresh, engines):
        mysql, postgres = engines
        upgrade(mysql, postgres, fresh)
        newest = revisions(mysql, postgres)
        assert main(["downgrade", "--to", "mysql:0029"], fresh) == 0
        assert revisions(mysql, postgres) == newest | {"mysql": "0029"}
        assert _tables(mysql) >= MYSQL_TABLES
        assert main(["downgrade", "--to", "mysql:0029", "--to", "postgres:0007"], fresh) == 0
        assert revisions(mysql, postgres) == {"mysql": "0029", "postgres": "0007"}
        upgrade(mysql, postgres, fresh)
        check(mysql, postgres, fresh)

    def it_refuses_downgrades_that_it_cannot_do_and_changes_nothing(self, fresh, engines, says):
        upgrade(*engines, fresh)
        before = revisions(*engines), [_tables(engine) for engine in engines]
        needs = "downgrade needs --to SIDE:REVISION, such as .* or --to base, which drops every table"
        unknown = r"postgres has no revision 0003; those .* are 0007 to \d+"
        for flags, sentence in (
            ([], needs),
            (["--to", "0034"], needs),
            (["--to", "mysql:base"], needs),
            (["--to", "mysql:0029", "--to", "postgres:0003"], unknown),
        ):
            assert re.fullmatch(f"migrate: {sentence}", says("downgrade", fresh, *flags)), flags
        assert (revisions(*engines), [_tables(engine) for engine in engines]) == before

    @pytest.mark.thorough
    def it_refuses_to_take_back_a_revision_that_has_no_way_back(self, engines, fresh, tmp_path):
        upgrade(*engines, fresh)
        migrations = shutil.copytree(str(MIGRATIONS), tmp_path / "migrations")
        newest = revisions(*engines)["mysql"]
        (migrations / "mysql/versions/9000_later.py").write_text(_LATER.format(newest=newest), encoding="utf-8")
        with engines[0].begin() as connection:
            connection.execute(text("UPDATE schema_version_mysql SET version_num = '9000'"))
        expected = "^revision 9000 of mysql cannot be taken back: restore a backup from before it"
        with pytest.raises(Misconfigured, match=expected):
            check_downgrade(*engines, to={"mysql": newest}, migrations=migrations)
        with pytest.raises(Misconfigured, match=r"^the mysql schema is at revision 0029, which is before 9000$"):
            refuse_downgrade("mysql", "0029", "9000", migrations)

    def it_makes_what_is_recorded(self, use_alone):
        with use_alone.mysql.connect() as mysql, use_alone.postgres.connect() as postgres:
            made = json.loads(schema.record(mysql, postgres))
        assert made == json.loads(RECORD.read_text(encoding="utf-8")), "run make schema"

    def it_has_the_tenant_in_every_table_and_index(self, migrated):
        for engine in migrated:
            inspector = sqlalchemy.inspect(engine)
            for table in _tables(engine) - INSTALLATION_TABLES:
                primary = inspector.get_pk_constraint(table)["constrained_columns"]
                indexes = [index["column_names"] for index in inspector.get_indexes(table)]
                # The terms of the FULLTEXT index carry the tenant inside: tests/unit/keyword/test_terms.py.
                keyed = [columns for columns in [primary, *indexes] if columns != ["terms"]]
                assert keyed, table
                assert all("tenant_id" in columns for columns in keyed), table
                assert primary[0] == "tenant_id", table

    def it_says_in_one_sentence_what_is_missing(self, fresh, engines):
        with pytest.raises(Misconfigured, match=r"run python -m pipeline.maintenance.migrate_schema upgrade"):
            check(*engines, fresh)

    def it_says_which_revision_is_behind(self, settings, migrated):
        with migrated[0].begin() as connection:
            newest = connection.execute(text("SELECT version_num FROM schema_version_mysql")).scalar_one()
            connection.execute(text("UPDATE schema_version_mysql SET version_num = '0001'"))
        try:
            with pytest.raises(Misconfigured, match=f"is at revision 0001, this code needs {newest}"):
                check(*migrated, settings)
        finally:
            with migrated[0].begin() as connection:
                connection.execute(text("UPDATE schema_version_mysql SET version_num = :newest"), {"newest": newest})

    def it_plans_what_it_would_run(self, engines, fresh):
        mysql, postgres = engines
        before = plan(mysql, postgres, fresh)
        assert re.search(r"^mysql is at revision none: \d+ to run\n  0029: Create every table of the system of", before)
        upgrade(mysql, postgres, fresh)
        assert re.fullmatch(
            r"mysql is at revision \d+: 0 to run\npostgres is at revision \d+: 0 to run", plan(*engines, fresh)
        )
        with mysql.begin() as connection:
            connection.execute(text("UPDATE schema_version_mysql SET version_num = '9999'"))
        check(mysql, postgres, fresh)  # the next release migrated already, and its processes come one after another
        with mysql.begin() as connection:
            connection.execute(text("ALTER TABLE jobs RENAME COLUMN priority TO urgency"))
        with pytest.raises(Misconfigured, match="the schema lacks"):
            check(mysql, postgres, fresh)

    @pytest.mark.thorough
    def it_prints_the_statements_of_a_revision_and_runs_none(self, engines, fresh, tmp_path):
        upgrade(*engines, fresh)
        before = [_tables(engine) for engine in engines]
        migrations = shutil.copytree(str(MIGRATIONS), tmp_path / "migrations")
        for side in ("mysql", "postgres"):
            newest = max((migrations / side / "versions").glob("0*.py")).name[:4]
            (migrations / side / "versions" / "9000_later.py").write_text(
                _LATER.format(newest=newest), encoding="utf-8"
            )
        planned = plan(*engines, fresh, migrations=migrations)
        for side, table in zip(
            re.split(r"^postgres", planned, flags=re.MULTILINE), ("chunks", "chunk_embeddings"), strict=True
        ):
            assert "1 to run\n  9000: Note pages\n    CREATE TABLE pages (id INT)\n" in side
            assert f"    CREATE INDEX noted ON {table} (tenant_id, " in side
        assert [_tables(engine) for engine in engines] == before

    @pytest.mark.thorough
    def it_accepts_another_default_collation_of_the_database(self, engines, fresh):
        with engines[0].begin() as connection:  # MySQL and newer MariaDB have other ones
            connection.execute(text("ALTER DATABASE COLLATE utf8mb4_bin"))
        engines[0].dispose()
        upgrade(*engines, fresh)
        check(*engines, fresh)

    @pytest.mark.parametrize("side", [0, 1], ids=["mysql", "postgres"])
    @pytest.mark.parametrize(
        ("revision", "advice"),
        [("0003", r"bring it to 00\d\d with version 0\.1\.0 first"), ("9999", "a newer version")],
    )
    def it_refuses_a_revision_without_a_migration_in_one_sentence(self, fresh, engines, side, revision, advice):
        name = ("mysql", "postgres")[side]
        with engines[side].begin() as connection:
            connection.execute(text(f"CREATE TABLE schema_version_{name} (version_num VARCHAR(32) PRIMARY KEY)"))
            connection.execute(text(f"INSERT INTO schema_version_{name} VALUES ('{revision}')"))
        expected = f"^the {name} schema is at revision {revision}, which this version cannot migrate: {advice}[^\n]*$"
        with pytest.raises(Misconfigured, match=expected):
            upgrade(*engines, fresh)

    @pytest.mark.parametrize(
        ("change", "named"),
        [
            ({"embedding_dim": 128}, "CHORDWISE_EMBEDDING_DIM"),
            ({"pgvector_distance": "euclidean"}, "CHORDWISE_PGVECTOR_DISTANCE"),
        ],
    )
    def it_refuses_settings_the_stored_vectors_do_not_fit(self, settings, migrated, change, named):
        check(*migrated, settings)
        with pytest.raises(Misconfigured, match=named):
            check(*migrated, settings.model_copy(update=change))

    def it_refuses_an_index_of_another_operator_class(self, settings, migrated):
        with migrated[1].begin() as connection:
            connection.execute(text("CREATE INDEX odd ON chunk_embeddings USING hnsw (embedding halfvec_l2_ops)"))
        try:
            with pytest.raises(Misconfigured, match="odd"):
                check(*migrated, settings)
        finally:
            with migrated[1].begin() as connection:
                connection.execute(text("DROP INDEX odd"))


class DescribeDefinitions:
    def it_finds_no_difference_between_the_definitions_and_a_migrated_mysql(self, migrated):
        with migrated[0].connect() as connection:
            assert differences(connection, defined_in_mysql()) == []

    def it_finds_no_difference_between_the_definitions_and_a_migrated_postgres(self, migrated, settings):
        with migrated[1].connect() as connection:
            assert differences(connection, defined_in_postgres(settings)) == []

    def it_defines_the_table_of_a_further_embedding_space(self, migrated, settings):
        first = space_store.base_space(settings)
        space = replace(first, number=2, table=f"{schema.VECTORS}_2", dimension=first.dimension // 2)
        metadata = defined_in_postgres(settings)
        operator_class = MEASURES[settings.pgvector_distance].operator_class
        table = postgres_tables.vector_table(
            space.table, metadata, dimension=space.dimension, operator_class=operator_class
        )
        table.indexes.clear()  # PostgreSQL names those of a copy; `schema.missing` compares them by definition
        space_store.create_table(migrated[1], space, like=first)
        try:
            with migrated[1].connect() as connection:
                found = differences(connection, metadata)
                assert [change for change in found if change[0] != "remove_index"] == []
                assert schema.missing("postgres", connection, vector_tables=[space.table]) == []
        finally:
            space_store.drop_table(migrated[1], space)

    @pytest.mark.parametrize("side", [0, 1], ids=["mysql", "postgres"])
    @pytest.mark.parametrize("changed", ["column", "index", "default", "type", "null"])
    def it_notices_a_difference(self, migrated, settings, side, changed):
        metadata = defined_in_postgres(settings) if side else defined_in_mysql()
        table = metadata.tables[schema.VECTORS if side else "chunks"]
        change(table, changed)
        with migrated[side].connect() as connection:
            assert differences(connection, metadata)

    def it_defines_the_check_constraints_of_postgres(self, migrated, settings):
        inspector = sqlalchemy.inspect(migrated[1])
        for table in defined_in_postgres(settings).tables.values():
            made = {
                (check["name"], values_in(check["sqltext"])) for check in inspector.get_check_constraints(table.name)
            }
            assert made == {
                (constraint.name, values_in(str(constraint.sqltext)))
                for constraint in table.constraints
                if isinstance(constraint, sqlalchemy.CheckConstraint)
            }


def defined_in_mysql() -> MetaData:
    """A copy of the definitions, to be changed."""
    return copy_of(mysql_tables.metadata)


def defined_in_postgres(settings: Settings) -> MetaData:
    """The same with the table of the first embedding space."""
    metadata = copy_of(postgres_tables.metadata)
    operator_class = MEASURES[settings.pgvector_distance].operator_class
    postgres_tables.vector_table(
        schema.VECTORS, metadata, dimension=settings.embedding_dim, operator_class=operator_class
    )
    return metadata


def copy_of(metadata: MetaData) -> MetaData:
    copy = MetaData()
    for table in metadata.tables.values():
        table.to_metadata(copy)
    return copy


def change(table: Table, changed: str) -> None:
    """Make a definition differ from what the migrations make."""
    if changed == "column":
        table.append_column(Column("extra", Integer))
    elif changed == "index":
        table.indexes.remove(next(index for index in table.indexes if not index.name.endswith("_by_seq")))
    elif changed == "default":
        next(column for column in table.columns if column.server_default is not None).server_default = None
    elif changed == "type":
        table.columns["namespace"].type = Integer()
    else:
        table.columns["namespace"].nullable = True


def differences(connection: Connection, metadata: MetaData) -> list[Any]:
    """Return the changes by which Alembic's autogenerate would change to make the database like the definitions."""
    options = {
        "version_table": f"schema_version_{'mysql' if connection.dialect.name != 'postgresql' else 'postgres'}",
        "compare_type": differs,
        "compare_server_default": True,
        "include_object": is_comparable,
    }
    return compare_metadata(MigrationContext.configure(connection, opts=options), metadata)


def is_comparable(item: Any, name: str | None, kind: str, reflected: bool, other: Any) -> bool:
    """Leave out an index whose collation reflection does not see; tests/unit/database/test_tables.py compares it."""
    return not (kind == "index" and name == f"{schema.VECTORS}_by_seq")


def differs(context: MigrationContext, found: Column, wanted: Column, found_type: Any, wanted_type: Any) -> bool:
    """Compare types as the dialect writes them, JSON as MariaDB stores it."""
    return written(found_type, context) != written(wanted_type, context)


def written(kind: Any, context: MigrationContext) -> str:
    name = re.sub(r"character set \w+ ", "", kind.compile(context.dialect).lower().replace("integer", "int"))
    if name in ("json", "longtext"):
        return "longtext collate utf8mb4_bin"
    plain = re.sub(r"\b((?:tiny|small|medium|big)?int)\(\d+\)", r"\1", name)
    is_text = re.fullmatch(r"(?:var)?char\(\d+\)|\w*text", plain) and context.dialect.name != "postgresql"
    return f"{plain} collate utf8mb4_bin" if is_text else plain


def values_in(condition: str) -> frozenset[str]:
    """The literals of a condition, which PostgreSQL writes in its own words."""
    return frozenset(re.findall(r"'\w+'|\b\d+\b", condition))


def _tables(engine: Engine) -> set[str]:
    return set(sqlalchemy.inspect(engine).get_table_names())
