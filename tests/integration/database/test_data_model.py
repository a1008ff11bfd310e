"""docs/data-model.md names every table that exists, none besides, and the primary key of each."""

from __future__ import annotations

import re

import pytest
import sqlalchemy
from sqlalchemy import Engine

from tests.support.repository.project import ROOT

SHORT = {"t": "tenant_id", "n": "namespace", "d": "document_id", "g": "generation"}
TEXT = (ROOT / "docs/data-model.md").read_text(encoding="utf-8")


def described(section: str) -> dict[str, list[str]]:
    """The tables of a section and their keys, as the page says them."""
    rows = re.findall(
        r"^\| `(\w+)` \| [^|]+ \| ([^|]+) \|", TEXT.partition(f"\n## {section}\n")[2].partition("\n## ")[0], re.M
    )
    assert len(dict(rows)) == len(rows), "a table is named twice"
    return {table: [SHORT.get(column, column) for column in key.strip().split(", ")] for table, key in rows}


def existing(engine: Engine) -> dict[str, list[str]]:
    """The tables of a database and their keys."""
    found = sqlalchemy.inspect(engine)
    return {table: found.get_pk_constraint(table)["constrained_columns"] for table in found.get_table_names()}


@pytest.mark.parametrize(("section", "store"), [("MySQL", "mysql"), ("PostgreSQL", "postgres")])
def it_is_what_a_migrated_database_has(use_alone, section, store):
    assert described(section) == existing(getattr(use_alone, store))


def it_draws_only_tables_that_exist(use_alone):
    (figure,) = re.findall(r"```mermaid\n(.*?)```", TEXT, re.DOTALL)
    drawn = set(re.findall(r"^\s+(\w+) \S+--\S+ (\w+)", figure, re.M))
    tables = {table for pair in drawn for table in pair}
    assert len(tables) >= 6
    assert tables <= {*existing(use_alone.mysql), *existing(use_alone.postgres)}


def it_names_every_family_of_keys_that_the_tenant_owns():
    """By the names in the program: `f"{tenant_id}:audit"`, `f"{self._tenant_id}:query:…"`."""
    spoken = {"query-step", "document", "delivery"}  # said on the wake channel, or hashed: no keys
    program = "\n".join(
        path.read_text(encoding="utf-8") for part in ("pipeline", "api_gateway") for path in (ROOT / part).rglob("*.py")
    )
    families = set(re.findall(r'f"\{(?:self\._?|principal\.)?(?:tenant_id|owner)\}:([a-z-]+)', program)) - spoken
    assert families == set(re.findall(r"`\{t\}:([a-z-]+)", TEXT))
