"""The Core definitions of both databases' tables, compared with the recorded schema (`make schema`)."""

from __future__ import annotations

import re

import pytest
from sqlalchemy import Index, MetaData, Table
from sqlalchemy.dialects import mysql, postgresql

from pipeline.database import mysql_tables, postgres_tables, schema
from pipeline.database.schema import RecordedTable

MYSQL = mysql.dialect()
POSTGRES = postgresql.dialect()

FIRST_SPACE = postgres_tables.vector_table(
    schema.VECTORS, MetaData(), dimension=384, operator_class="halfvec_cosine_ops"
)
MYSQL_TABLES = dict(mysql_tables.metadata.tables)
POSTGRES_TABLES = {**postgres_tables.metadata.tables, FIRST_SPACE.name: FIRST_SPACE}


def mysql_type(kind: str) -> str:
    """Return a type as the record writes it."""
    if kind == "JSON":
        return "longtext utf8mb4_bin"
    plain = re.sub(r" character set \w+ collate", "", kind.lower().replace("integer", "int"))
    return plain.replace(", ", ",")


def mysql_index(index: Index) -> str:
    kind = "fulltext" if index.dialect_options["mysql"]["prefix"] == "FULLTEXT" else "btree"
    return f"{'unique ' if index.unique else ''}{kind} ({', '.join(column.name for column in index.columns)})"


def postgres_type(kind: str) -> str:
    return re.sub(r"halfvec\(\d+\)", "halfvec", kind.lower())


def postgres_index(index: Index) -> str:
    return f"btree ({', '.join(str(part).rpartition('.')[2] for part in index.expressions)})"


def in_mysql(table: Table) -> RecordedTable:
    indexes = {index.name: mysql_index(index) for index in table.indexes}
    return RecordedTable(
        columns={column.name: mysql_type(column.type.compile(MYSQL)) for column in table.columns},
        indexes=indexes | {"PRIMARY": f"unique btree ({', '.join(column.name for column in table.primary_key)})"},
    )


def in_postgres(table: Table) -> RecordedTable:
    indexes = {index.name: postgres_index(index) for index in table.indexes}
    key = f"unique btree ({', '.join(column.name for column in table.primary_key)})"
    return RecordedTable(
        columns={column.name: postgres_type(column.type.compile(POSTGRES)) for column in table.columns},
        indexes=indexes | {f"{table.name}_pkey": key},
    )


class DescribeDefinitions:
    @pytest.mark.parametrize("side", ["mysql", "postgres"])
    def it_defines_every_recorded_table_and_no_other(self, side):
        defined = MYSQL_TABLES if side == "mysql" else POSTGRES_TABLES
        assert set(defined) == set(schema.recorded(side))

    @pytest.mark.parametrize("name", MYSQL_TABLES)
    def it_defines_a_table_of_mysql_as_it_is_recorded(self, name):
        assert in_mysql(MYSQL_TABLES[name]) == schema.recorded("mysql")[name]

    def it_reads_floating_point_numbers_as_floats(self):
        columns = [column for table in MYSQL_TABLES.values() for column in table.columns]
        doubles = [column for column in columns if isinstance(column.type, mysql.DOUBLE)]
        assert {str(column) for column in doubles} == {"feedback.score", "profile_heads.trial_share"}
        assert [column for column in doubles if column.type.asdecimal] == []

    @pytest.mark.parametrize("name", POSTGRES_TABLES)
    def it_defines_a_table_of_postgres_as_it_is_recorded(self, name):
        assert in_postgres(POSTGRES_TABLES[name]) == schema.recorded("postgres")[name]
