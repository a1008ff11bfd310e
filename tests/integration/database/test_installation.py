"""Stores of another installation: no process starts, repairs or deletes, and the error message says what to do."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager

import pytest
import redis
import sqlalchemy
from pydantic import SecretStr
from sqlalchemy import make_url, text

from api_gateway.live.readiness import Probes
from pipeline.administration.drop_replaced import drop_retired
from pipeline.database import installation
from pipeline.database.redis_checks import ping_broker
from pipeline.database.unit_of_work import unit_of_work
from pipeline.errors import WrongInstallation
from pipeline.maintenance import examine_stores
from pipeline.maintenance.build_indexes import keep_indexes
from pipeline.maintenance.doctor import Severity
from pipeline.maintenance.erase import erase_tenant
from pipeline.maintenance.migrate_schema import EVERYTHING, adopt, downgrade, upgrade
from pipeline.maintenance.reconcile import reconcile
from pipeline.maintenance.verify import verify
from pipeline.records import Namespace
from pipeline.resources import Resources
from pipeline.settings import Settings
from pipeline.tenants.tenant_store import Tenants
from tests.conftest import databases_of_its_own, make_tables, make_tenant, scratch_databases
from tests.support.corpora.uploads import upload
from tests.support.stacks.connections import in_mysql, in_postgres
from tests.support.stacks.corner import Corner
from tests.support.stacks.processes import ROOT, free_port
from workers.names import Queue

VARIABLES = {
    "mysql_url": "CHORDWISE_MYSQL_URL",
    "postgres_url": "CHORDWISE_POSTGRES_URL",
    "redis_url": "CHORDWISE_REDIS_URL",
}


@pytest.fixture(scope="module")
def use(settings: Settings) -> Iterator[Resources]:
    """Yield an installation for this module alone."""
    with databases_of_its_own(settings) as found:
        yield found


@pytest.fixture
def resources() -> Iterator[Callable[[Settings], Resources]]:
    """Yield a factory of resources; close their connections after the test."""
    with ExitStack() as opened:
        yield lambda settings: opened.enter_context(closing(Resources(settings)))


@pytest.fixture(scope="module")
def corner(use: Resources) -> Corner:
    """Return a tenant with some documents."""
    found = Corner(use, make_tenant(use)[0], Namespace("kb"))
    found.ingest(*(upload(f"d{n}", f"Document number {n} of the pump.") for n in range(8)))
    assert vectors(use) >= 8
    return found


@pytest.fixture
def typo(settings: Settings, use: Resources, corner: Corner) -> Iterator[Resources]:
    """Yield the same PostgreSQL and Redis with another MySQL, which was migrated beside other stores and has the
    tenant."""
    with scratch_databases(settings) as elsewhere:
        own = Resources(elsewhere)
        make_tables(own)
        with unit_of_work(own.mysql) as work:
            Tenants(work.connection, corner.tenant).create("the same name")
        own.close()
        found = Resources(use.settings.model_copy(update={"mysql_url": elsewhere.mysql_url}))
        yield found
        found.close()


def vectors(use: Resources) -> int:
    return int(in_postgres(use, "SELECT count(*) FROM chunk_embeddings")[0][0])


def id_of(engine: sqlalchemy.Engine) -> str:
    with engine.connect() as connection:
        return str(connection.execute(text("SELECT installation_id FROM installation")).scalar_one())


def set_id(engine: sqlalchemy.Engine, installation_id: str) -> None:
    with engine.begin() as connection:
        connection.execute(text("UPDATE installation SET installation_id = :id"), {"id": installation_id})


def forget_id(engine: sqlalchemy.Engine) -> None:
    with engine.begin() as connection:
        connection.execute(text("DELETE FROM installation"))


@contextmanager
def exchanged(engine: sqlalchemy.Engine) -> Iterator[None]:
    """Make the engine's next connection see a database of another installation."""
    own = id_of(engine)
    set_id(engine, "00000000-0000-4000-8000-000000000000")
    yield
    set_id(engine, own)


def environment(settings: Settings) -> dict[str, str]:
    return {name: getattr(settings, field).get_secret_value() for field, name in VARIABLES.items()}


class DescribeAnotherMySQL:
    def it_deletes_nothing_and_names_both(self, use, corner, typo):
        before = vectors(use)
        with pytest.raises(WrongInstallation) as refused:
            reconcile(typo)
        for repair in (False, True):
            with pytest.raises(WrongInstallation):
                verify(corner.tenant, None, typo, repair=repair, delete_share=1.0)
        with pytest.raises(WrongInstallation):
            erase_tenant(corner.tenant, typo)
        with pytest.raises(WrongInstallation):
            keep_indexes(typo)
        assert vectors(use) == before
        corner.assert_clean()
        said = str(refused.value)
        assert id_of(use.mysql) in said
        assert id_of(typo.mysql) in said
        for url in (typo.settings.mysql_url, typo.settings.postgres_url):
            address = make_url(url.get_secret_value())
            assert f"@127.0.0.1:{address.port}/{address.database}" in said
            assert str(address.password) not in said
        assert "migrate_schema adopt" in said

    @pytest.mark.thorough
    def it_would_have_deleted_everything_without_the_id(self, settings):
        """Show on separate stores that only the id stops an empty MySQL from deleting everything."""
        with databases_of_its_own(settings) as full, databases_of_its_own(settings) as empty:
            corner = Corner(full, make_tenant(full)[0], Namespace("kb"))
            corner.ingest(*(upload(f"d{n}", f"Document number {n} of the pump.") for n in range(4)))
            with unit_of_work(empty.mysql) as work:
                Tenants(work.connection, corner.tenant).create("the same name")
            set_id(empty.mysql, id_of(full.mysql))
            moved = full.settings.model_copy(update={"mysql_url": empty.settings.mysql_url})
            assert vectors(full) > 0
            with closing(Resources(moved)) as wrong:
                reconcile(wrong)
            assert vectors(full) == 0

    @pytest.mark.thorough
    def it_lets_no_process_start(self, typo, tmp_path):
        """Gateway, worker, beat and commands each end with exit code 1 and the error message."""
        commands = {
            "gateway": ("api_gateway",),
            "worker": ("celery", "-A", "workers.app", "worker", "-Q", "upkeep", "-P", "solo", "--without-mingle"),
            "beat": ("celery", "-A", "workers.app", "beat", "-s", str(tmp_path / "schedule"), "--pidfile="),
            "migrate": ("pipeline.maintenance.migrate_schema", "upgrade"),
            "check": ("pipeline.maintenance.migrate_schema", "check"),
            "bootstrap": ("pipeline.tenants.bootstrap", "another"),
        }
        own = {**os.environ, **environment(typo.settings), "CHORDWISE_GATEWAY_PORT": str(free_port())}
        own.pop("CHORDWISE_BROKER_URL", None)
        running = {
            name: subprocess.Popen(
                [sys.executable, "-m", *command],
                cwd=ROOT,
                env=own,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
            for name, command in commands.items()
        }
        try:
            for name, each in running.items():
                said = each.communicate(timeout=150)[0].decode()
                assert each.returncode == 1, (name, said)
                assert "belongs to installation" in said, (name, said)
                assert "Traceback" not in said, (name, said)
        finally:
            for each in running.values():
                each.kill()


class DescribeAnExchangedStore:
    def it_stops_repairs_and_sweeping_and_says_so(self, use, corner, resources):
        running = resources(use.settings)
        running.installation.confirm()
        gateway = Probes(use.settings, running)
        corner.ingest(upload("d0", "Another text for the first document."))
        in_mysql(use, "UPDATE retired_generations SET due_at = '2000-01-01'")
        before = vectors(use)
        assert gateway.required["installation"]() is None
        for engine in (use.postgres, use.mysql):
            with exchanged(engine):
                for act in (
                    lambda: reconcile(running),
                    lambda: verify(corner.tenant, None, running, repair=True),
                    lambda: drop_retired(corner.tenant, running),
                ):
                    with pytest.raises(WrongInstallation):
                        act()
                asked = Probes(use.settings, running).required["installation"]()
                assert asked is not None
                assert "different installations" in asked
                assert "//" not in asked, "no address is told"
                found = examine_stores.installation(running)
                assert found.severity is Severity.FAILED
                assert "00000000-0000-4000-8000-000000000000" in found.detail
        assert vectors(use) == before
        assert examine_stores.installation(running).severity is Severity.OK
        assert drop_retired(corner.tenant, running) >= 1

    def it_is_not_fooled_by_two_stores_that_were_exchanged_together(self, use, resources):
        running = resources(use.settings)
        running.installation.confirm()
        with (
            exchanged(use.postgres),
            exchanged(use.mysql),
            pytest.raises(WrongInstallation, match="when this process started"),
        ):
            running.installation.confirm()


class DescribeMigrations:
    @pytest.mark.thorough
    def it_gives_an_empty_postgres_the_id_of_a_full_mysql(self, settings, use, corner):
        with scratch_databases(settings) as elsewhere:
            changed = use.settings.model_copy(update={"postgres_url": elsewhere.postgres_url})
            with closing(Resources(changed)) as moved:
                upgrade(moved.mysql, moved.postgres, moved.settings)
                assert id_of(moved.postgres) == id_of(use.mysql)
                assert verify(corner.tenant, None, moved, repair=True).repaired >= 8
                assert vectors(moved) >= 8

    def it_refuses_an_empty_mysql_beside_full_vectors_and_changes_nothing(self, settings, use, corner):
        with scratch_databases(settings) as elsewhere:
            changed = use.settings.model_copy(update={"mysql_url": elsewhere.mysql_url})
            with closing(Resources(changed)) as moved:
                with pytest.raises(WrongInstallation, match="migrate_schema adopt"):
                    upgrade(moved.mysql, moved.postgres, moved.settings)
                assert sqlalchemy.inspect(moved.mysql).get_table_names() == []

    def it_adopts_when_asked_and_drops_what_redis_kept(self, settings):
        with databases_of_its_own(settings) as old, scratch_databases(settings) as elsewhere:
            Corner(old, make_tenant(old)[0], Namespace("kb")).ingest(upload("d0", "The pump."))
            left = ["demo:answer:ab", "demo:computation:ab", *(queue.value for queue in Queue)]
            for name in left:
                old.redis.set(name, b"of the old installation")
            old.redis.set("somebody", b"else's")
            changed = old.settings.model_copy(update={"mysql_url": elsewhere.mysql_url})
            with closing(Resources(changed)) as fresh:
                adopt(fresh.mysql, fresh.postgres, fresh.settings)
                assert id_of(fresh.mysql) == id_of(fresh.postgres) != id_of(old.mysql)
                assert old.redis.get(installation.KEY) == id_of(fresh.mysql).encode()
                assert [name for name in left if old.redis.exists(name)] == []
                assert old.redis.get("somebody") == b"else's"
                assert vectors(fresh) >= 1

    @pytest.mark.thorough
    def it_joins_stores_from_before_there_were_ids_by_what_they_hold(self, settings):
        with databases_of_its_own(settings) as old, databases_of_its_own(settings) as other:
            Corner(old, make_tenant(old)[0], Namespace("kb")).ingest(upload("d0", "The pump."))
            for engine in (old.mysql, old.postgres, other.mysql):
                forget_id(engine)
            old.redis.delete(installation.KEY)
            changed = old.settings.model_copy(update={"mysql_url": other.settings.mysql_url})
            with (
                closing(Resources(changed)) as wrong,
                pytest.raises(WrongInstallation, match="knows 0 of 1 chunks"),
            ):
                upgrade(wrong.mysql, wrong.postgres, wrong.settings)
            upgrade(old.mysql, old.postgres, old.settings)
            assert id_of(old.mysql) == id_of(old.postgres)

    @pytest.mark.thorough
    def it_goes_down_and_up_again_beside_the_same_redis(self, fresh, resources):
        use = resources(fresh)
        upgrade(use.mysql, use.postgres, fresh)
        before = id_of(use.mysql)
        downgrade(use.mysql, use.postgres, fresh, to=EVERYTHING)
        upgrade(use.mysql, use.postgres, fresh)
        assert id_of(use.mysql) != before
        use.installation.confirm_redis()


class DescribeLookingAgain:
    def it_leaves_little_memory_to_the_collector_of_garbage(self, use):
        """A gateway looks for every scrape, and the collector counts objects, not their bytes."""
        gc.collect()
        gc.disable()
        tracemalloc.start()
        try:
            for _ in range(20):
                use.installation.confirm_redis()
                ping_broker(use.settings)
            left, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
            gc.enable()
        assert left < 20 * 2 * 2**14


class DescribeOneRedisForTwo:
    def it_names_both_and_claims_one_that_is_empty(self, use, fresh, resources):
        shared = fresh.model_copy(update={"redis_url": use.settings.redis_url})
        second = resources(shared)
        with pytest.raises(WrongInstallation, match="a Redis database of its own") as refused:
            upgrade(second.mysql, second.postgres, shared)
        assert id_of(use.mysql) in str(refused.value)
        assert id_of(second.mysql) in str(refused.value)
        alone = resources(fresh)
        alone.installation.confirm_redis()
        with redis.Redis.from_url(fresh.redis_url.get_secret_value()) as client:
            assert client.get(installation.KEY) == id_of(alone.mysql).encode()

    @pytest.mark.thorough
    def it_looks_at_a_broker_that_is_another_redis(self, use, fresh, resources):
        second = resources(
            fresh.model_copy(update={"broker_url": SecretStr(use.settings.redis_url.get_secret_value())})
        )
        with pytest.raises(WrongInstallation, match="CHORDWISE_BROKER_URL"):
            upgrade(second.mysql, second.postgres, second.settings)
