"""Both schemas, from nothing to the newest revision, back, and forth again, in databases of their own."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import sqlalchemy
from sqlalchemy import Engine, text

from pipeline.database import schema
from pipeline.database.engines import mysql_engine, postgres_engine
from pipeline.errors import Misconfigured
from pipeline.maintenance.migrate_schema import check, downgrade, upgrade
from pipeline.resources import Resources
from pipeline.settings import Settings
from tests.record_schema import FILE as RECORD

MYSQL_TABLES = {
    "tenants",
    "api_keys",
    "namespaces",
    "documents",
    "generations",
    "payloads",
    "chunks",
    "retired_generations",
    "term_statistics",
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
        downgrade(mysql, postgres, fresh)
        assert not _tables(mysql) & MYSQL_TABLES
        assert "chunk_embeddings" not in _tables(postgres)
        upgrade(mysql, postgres, fresh)
        upgrade(mysql, postgres, fresh)
        check(mysql, postgres, fresh)

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


def _tables(engine: Engine) -> set[str]:
    return set(sqlalchemy.inspect(engine).get_table_names())
