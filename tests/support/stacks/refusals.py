"""Settings that point elsewhere, and what the migrate command says of them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from pydantic import SecretStr
from sqlalchemy import URL

from pipeline.settings import Settings
from tests.support.servers.administration import as_postgres_superuser, postgres_url

PASSWORD = "geheim42"


def moved(settings: Settings, *, mysql: URL | None = None, postgres: URL | None = None) -> Settings:
    """Return the settings with other URLs."""
    found = {"mysql_url": mysql, "postgres_url": postgres}
    urls = {name: SecretStr(url.render_as_string(hide_password=False)) for name, url in found.items() if url}
    return settings.model_copy(update=urls)


@contextmanager
def bare_postgres(settings: Settings) -> Iterator[Settings]:
    """The settings with a PostgreSQL database of the user's own that has no pgvector."""
    name = f"chordwise_{uuid.uuid4().hex[:12]}"
    as_postgres_superuser(settings, f"CREATE DATABASE {name} TEMPLATE template0 OWNER chordwise")
    try:
        yield moved(settings, postgres=postgres_url(settings, database=name))
    finally:
        as_postgres_superuser(settings, f"DROP DATABASE {name} WITH (FORCE)")
