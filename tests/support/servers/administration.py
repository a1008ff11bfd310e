"""The administrators of the local stack's servers, for tests that need users and databases of another kind."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from sqlalchemy import URL, make_url, text

from pipeline.settings import Settings


def mysql_url(settings: Settings, **changes: Any) -> URL:
    """The URL of MySQL with these parts changed; None takes a part away."""
    return make_url(settings.mysql_url.get_secret_value())._replace(**changes)


def postgres_url(settings: Settings, **changes: Any) -> URL:
    """The URL of PostgreSQL with these parts changed; None takes a part away."""
    return make_url(settings.postgres_url.get_secret_value())._replace(**changes)


def as_mysql_root(settings: Settings, *statements: str) -> None:
    """Run statements as MySQL's root, in the database of the settings."""
    password = os.environ.get("CHORDWISE_TEST_MYSQL_ROOT") or _secret(
        "mysql_root"
    )  # the matrix starts a server of its own
    run_as(mysql_url(settings, username="root", password=password), *statements)


def as_postgres_superuser(settings: Settings, *statements: str) -> None:
    """Run statements as PostgreSQL's superuser, in the database of the settings, each in a transaction of its own."""
    run_as(postgres_url(settings, username="postgres", password=_secret("postgres_superuser")), *statements)


def _secret(name: str) -> str:
    file = Path(os.environ["CHORDWISE_STACK_DIR"]) / "secrets.json"
    if not file.is_file():
        pytest.skip("these servers are not the local stack's, so nobody here may administer them")
    return str(json.loads(file.read_text(encoding="utf-8"))[name])


def run_as(url: URL, *statements: str) -> None:
    """Run statements as the user of a URL, each in a transaction of its own."""
    engine = sqlalchemy.create_engine(url, isolation_level="AUTOCOMMIT")
    try:
        with engine.connect() as connection:
            for statement in statements:
                connection.execute(text(statement))
    finally:
        engine.dispose()
