"""Which statements add rows of a tenant, and of which one."""

from __future__ import annotations

import pytest
from sqlalchemy import insert
from sqlalchemy.dialects import mysql

from pipeline.database.mysql_tables import feedback, profiles
from pipeline.database.tenant_presence import _tenant, _tenant_column


class DescribeStatements:
    @pytest.mark.parametrize(
        ("statement", "parameters"),
        [
            ("INSERT IGNORE INTO audit (tenant_id, at) VALUES (%s, %s)", [("acme", 1), ("acme", 2)]),
            ("\n INSERT INTO `audit` (at, tenant_id) VALUES (%s, %s)", (1, "acme")),
            (
                "INSERT INTO ingest_turns (tenant_id, served_at) SELECT %(tenant)s, %(now)s",
                {"tenant": "acme", "now": 1},
            ),
            ("REPLACE INTO audit (tenant_id) VALUES (%(tenant_id)s)", {"tenant_id": "acme"}),
            (
                str(
                    insert(feedback)
                    .values([{"tenant_id": "acme", "feedback_id": "f"}] * 2)
                    .compile(dialect=mysql.dialect())
                ),
                {"tenant_id_m0": "acme", "tenant_id_m1": "acme"},
            ),
            (str(insert(profiles).compile(dialect=mysql.dialect())), {"tenant_id": "acme"}),
        ],
    )
    def it_finds_the_tenant_of_an_insert(self, statement, parameters):
        position = _tenant_column(statement)
        assert position is not None
        assert _tenant(parameters, position) == "acme"

    @pytest.mark.parametrize(
        "statement",
        [
            "INSERT INTO tenants (tenant_id, name) VALUES (%(tenant)s, 'a')",
            "INSERT INTO erasures (tenant_id) VALUES (%(tenant)s)",
            "INSERT INTO installation (id) VALUES (1)",
            "UPDATE audit SET status = 1 WHERE tenant_id = %(tenant)s",
            "SELECT 1 FROM audit WHERE tenant_id = %(tenant)s",
        ],
    )
    def it_leaves_the_others_alone(self, statement):
        assert _tenant_column(statement) is None
