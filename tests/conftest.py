"""Fixtures of the whole suite. Tests that need the real servers find them through the environment `make test` sets."""

from __future__ import annotations

import gc
import os
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from urllib.parse import urlsplit, urlunsplit

import httpx
import hypothesis
import pytest
import sqlalchemy
import structlog
from pydantic import SecretStr
from sqlalchemy import make_url, text

from pipeline.database.redis_connections import redis_of
from pipeline.database.unit_of_work import unit_of_work
from pipeline.maintenance.migrate_schema import upgrade
from pipeline.records import Namespace, TenantId
from pipeline.resources import Resources
from pipeline.settings import Settings, load
from pipeline.tenants.tenant_store import Tenants
from tests.lanes import APART_FOLDERS, kind

# A busy machine is no defect: what a property takes is not what it promises.
hypothesis.settings.register_profile("chordwise", deadline=None)
hypothesis.settings.load_profile("chordwise")

# The pretty traceback of an error that was raised many times takes seconds to draw.
structlog.configure(
    processors=[
        *structlog.get_config()["processors"][:-1],
        structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback),
    ]
)

# In a narrow terminal, tables break the text that tests look for.
os.environ.pop("COLUMNS", None)

# Looking for cycles among what was imported took a fifth of the unit tests' time.
gc.set_threshold(20_000, 20, 50)

STACK_FOLDERS = ("integration", "acceptance", "faults", "quality", "browser")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark by the folder it is in what needs the servers, and what little may run beside."""
    for item in items:
        if kind(item.path) in STACK_FOLDERS:
            item.add_marker(pytest.mark.stack)
        if kind(item.path) in APART_FOLDERS and not item.get_closest_marker("alone"):
            item.add_marker(pytest.mark.apart)


def pytest_collection_finish() -> None:
    """Exclude everything imported so far from garbage collection: it stays until the end."""
    gc.freeze()


@pytest.fixture(scope="session")
def settings() -> Settings:
    """The settings of the stack that `make test` started."""
    if "CHORDWISE_MYSQL_URL" not in os.environ:
        pytest.fail("these tests need the real servers: run them with make test", pytrace=False)
    return load()


@pytest.fixture(scope="session")
def use(settings: Settings) -> Iterator[Resources]:
    """Connections of the test process itself."""
    resources = Resources(settings)
    yield resources
    resources.close()


@pytest.fixture
def tenant(use: Resources) -> TenantId:
    """A tenant of one test: the suite shares one stack, and tenants keep tests apart."""
    return make_tenant(use)[0]


@pytest.fixture
def namespace() -> Namespace:
    """A namespace nobody has used."""
    return Namespace(f"ns-{uuid.uuid4().hex[:12]}")


@pytest.fixture
def client(use: Resources) -> Iterator[httpx.Client]:
    """The gateway over HTTP with the key of a new tenant."""
    _, key = make_tenant(use)
    with gateway(key) as found:
        yield found


@pytest.fixture
def fresh(settings: Settings) -> Iterator[Settings]:
    """Settings that point to two empty databases on the stack's servers."""
    with scratch_databases(settings) as moved:
        yield moved


@pytest.fixture(scope="module")
def use_alone(settings: Settings) -> Iterator[Resources]:
    """Connections to databases of the module's own, where no worker of the stack interferes."""
    with databases_of_its_own(settings) as resources:
        yield resources


# Databases of Redis for installations that tests make; the others are named in single tests.
_REDIS_DATABASES = (1, 2, 3, 4, 6, 12, *range(16, 64))
_REDIS_CLAIM = "chordwise-tests:taken"


@contextmanager
def redis_of_its_own(settings: Settings) -> Iterator[str]:
    """Yield the URL of a Redis database that no other test uses: a Redis database belongs to one installation."""
    url = urlsplit(settings.redis_url.get_secret_value())
    for number in _REDIS_DATABASES:
        found = urlunsplit(url._replace(path=f"{url.path.rpartition('/')[0]}/{number}"))
        with closing(redis_of(found)) as client:
            if not client.set(_REDIS_CLAIM, 1, nx=True, ex=3600):
                continue
            yield found
            client.flushdb()
            return
    pytest.fail("every Redis database for tests is taken")


@contextmanager
def scratch_databases(settings: Settings) -> Iterator[Settings]:
    """Yield settings with two empty databases on the stack's servers and one of Redis; drop them at the end."""
    name = f"chordwise_{uuid.uuid4().hex[:12]}"
    mysql = make_url(settings.mysql_url.get_secret_value())
    postgres = make_url(settings.postgres_url.get_secret_value())
    for url in (mysql, postgres):
        _outside_a_transaction(url, f"CREATE DATABASE {name}")
    try:
        with redis_of_its_own(settings) as redis_url:
            yield settings.model_copy(
                update={
                    "mysql_url": SecretStr(mysql.set(database=name).render_as_string(hide_password=False)),
                    "postgres_url": SecretStr(postgres.set(database=name).render_as_string(hide_password=False)),
                    "redis_url": SecretStr(redis_url),
                    "keyword_index_dir": settings.keyword_index_dir / name,
                }
            )
    finally:
        for url in (mysql, postgres):
            _outside_a_transaction(url, f"DROP DATABASE {name}")


def make_tenant(use: Resources) -> tuple[TenantId, str]:
    """A new tenant and a key for it."""
    tenant_id = TenantId(f"test-{uuid.uuid4().hex[:16]}")
    with unit_of_work(use.mysql) as work:
        tenants = Tenants(work.connection, tenant_id)
        tenants.create("a test")
        return tenant_id, tenants.issue_key("test")


@contextmanager
def databases_of_its_own(settings: Settings) -> Iterator[Resources]:
    """Connections to two new databases with our tables."""
    with scratch_databases(settings) as moved:
        resources = Resources(moved)
        try:
            make_tables(resources)
            yield resources
        finally:
            resources.close()


def make_tables(use: Resources) -> None:
    """Make our tables in two empty databases."""
    upgrade(use.mysql, use.postgres, use.settings)


def gateway(key: str) -> httpx.Client:
    """A client of the gateway with the given key."""
    headers = {"Authorization": f"Bearer {key}"}
    return httpx.Client(base_url=os.environ["CHORDWISE_URL"], headers=headers, timeout=60)


def _outside_a_transaction(url: sqlalchemy.URL, statement: str) -> None:
    engine = sqlalchemy.create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(statement))
    engine.dispose()
