"""Migrations and backups of an installation with two pairs of stores: they neither split it nor join another one to it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from sqlalchemy import Engine, inspect, text

from compose.localstack.servers import tools_for_tests
from pipeline.administration.manage_tenants import create_tenant
from pipeline.database import installation
from pipeline.database.installation import ids_of
from pipeline.maintenance import migrate_schema, move_tenant
from pipeline.maintenance.examine_stores import server_versions
from pipeline.records import Namespace, TenantId
from pipeline.resources import Resources
from pipeline.setting_values import StorePair
from pipeline.settings import Settings
from pipeline.tenants.placement_store import FRESH_S
from tests.conftest import databases_of_its_own, make_tenant, scratch_databases
from tests.support.servers.tenant_moves import begin_move, empty_pairs, two_pairs
from tests.support.stacks.corner import Corner
from workers import server

pytestmark = [pytest.mark.own_databases, pytest.mark.timeout(300)]

ANOTHER = "00000000-0000-4000-8000-000000000000"


def pair_of(settings: Settings) -> StorePair:
    return StorePair(mysql_url=settings.mysql_url, postgres_url=settings.postgres_url)


def beside(settings: Settings, b: Settings) -> Settings:
    """Settings with the databases of others as pair b."""
    return settings.model_copy(update={"store_pairs": {"b": pair_of(b)}})


def ids(use: Resources) -> dict[str, set[str | None]]:
    """The ids of the installation in each pair."""
    return {stores.pair: set(ids_of(stores.mysql, stores.postgres)) for stores in use.pairs}


def rename(engine: Engine) -> None:
    """Give a store the id of another installation."""
    with engine.begin() as connection:
        connection.execute(text("UPDATE installation SET installation_id = :id"), {"id": ANOTHER})


def tables(use: Resources) -> list[str]:
    return inspect(use.mysql).get_table_names() + inspect(use.postgres).get_table_names()


class DescribeAdopting:
    def it_gives_a_new_pair_the_id_and_the_spaces_of_the_installation(self, settings, capsys):
        with databases_of_its_own(settings) as first, scratch_databases(settings) as empty:
            own = first.installation.confirm()
            add_space(first)
            with closing(Resources(beside(first.settings, empty))) as use:
                assert migrate_schema.main(["adopt"], use.settings) == 0
                assert ids(use) == {"default": {own}, "b": {own}}
                assert spaces(use.of_pair("b")) == [7]
                assert use.redis.get(installation.KEY) == own.encode()
                use.installation.confirm_redis()

    def it_takes_over_the_postgres_of_a_pair_and_leaves_redis(self, settings):
        with two_pairs(settings) as use:
            own = use.installation.confirm()
            rename(use.of_pair("b").postgres)
            assert migrate_schema.main(["adopt"], use.settings) == 0
            assert ids(use) == {"default": {own}, "b": {own}}
            assert use.redis.get(installation.KEY) == own.encode()

    def it_refuses_a_pair_of_another_installation_before_any_change(self, settings, capsys):
        """The default pair was lost, and pair b still belongs to the installation."""
        with two_pairs(settings) as use, scratch_databases(settings) as empty:
            lost = empty.model_copy(update={"store_pairs": use.settings.store_pairs})
            assert migrate_schema.main(["adopt"], lost) == 1
            assert "restore a backup of the pair that was lost" in capsys.readouterr().err
            with closing(Resources(lost)) as changed:
                assert tables(changed) == []
            assert len(set.union(*ids(use).values())) == 1


def add_space(use: Resources) -> None:
    """Add an embedding space, which nothing points to."""
    columns = "number, table_name, provider, service, state, model, dimension, next_step_at, created_at"
    values = "7, 'chunk_embeddings_7', 'local', '', 'ended', 'm', 8, '2026-01-01', '2026-01-01'"
    with use.mysql.begin() as connection:
        connection.execute(text(f"INSERT INTO embedding_spaces ({columns}) VALUES ({values})"))


def spaces(use: Resources) -> list[int]:
    with use.mysql.connect() as connection:
        return list(connection.execute(text("SELECT number FROM embedding_spaces ORDER BY number")).scalars())


class DescribeUpgrading:
    @pytest.mark.parametrize("is_new", [False, True], ids=["of-an-installation", "of-a-new-one"])
    def it_changes_nothing_of_another_installation(self, settings, capsys, is_new):
        with scratch_databases(settings) as first, databases_of_its_own(settings) as other:
            if not is_new:
                assert migrate_schema.main(["upgrade"], first) == 0
            add_space(other)
            capsys.readouterr()
            wrong = beside(first, other.settings)
            assert migrate_schema.main(["upgrade"], wrong) == 1
            assert "belongs to installation" in capsys.readouterr().err
            assert spaces(other) == [7]
            if is_new:
                with closing(Resources(first)) as use:
                    assert tables(use) == []


@pytest.fixture(scope="module")
def pairs(settings) -> Iterator[Resources]:
    """Resources with two pairs of migrated databases. The first move of a tenant waits as long as a statement may take."""
    with two_pairs(settings, store_timeout_s=3.0) as use:
        yield use


@pytest.fixture
def command(settings, monkeypatch, capsys) -> Callable[..., tuple[int, str]]:
    """Run `chordwise-server` in this process with its servers' programs; return the exit code and the error."""
    found = tools_for_tests.backup_environment()
    with closing(Resources(settings)) as use:
        if found is None or "MySQL" in server_versions(use):
            pytest.skip("these tests use the programs of MariaDB")
    for name, value in found.items():
        monkeypatch.setenv(name, value)

    def run(config: Settings, *arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(server, "_settings", lambda: config)
        capsys.readouterr()
        status = server.main(arguments)
        return status, capsys.readouterr().err

    return run


@pytest.fixture
def here(pairs: Resources) -> Corner:
    """A document of a tenant of the default pair."""
    return filled(pairs, make_tenant(pairs)[0])


@pytest.fixture
def there(pairs: Resources) -> Corner:
    """A document of a tenant of pair b."""
    tenant_id = TenantId(f"there-{time.time_ns()}")
    move_tenant.place(tenant_id, "b", pairs)
    assert create_tenant(tenant_id, "There", None, pairs)
    return filled(pairs, tenant_id)


def filled(pairs: Resources, tenant_id: TenantId) -> Corner:
    corner = Corner(pairs.placed(tenant_id), tenant_id, Namespace("kb"))
    corner.fill({"a": "A pump moves water. 水泵输送水。"})
    return corner


def move(pairs: Resources, tenant_id: TenantId, to: str) -> None:
    assert move_tenant.move(tenant_id, to, pairs, grace_s=0, known_after_s=FRESH_S + 0.1) is not None


class DescribeBackupsOfPairs:
    def it_restores_each_pair_to_its_own_place(self, settings, pairs, here, there, command, tmp_path):
        folders = {name: str(tmp_path / name) for name in ("default", "b")}
        for name, folder in folders.items():
            assert command(pairs.settings, "backup", folder, "--pair", name)[0] == 0
            assert json.loads((tmp_path / name / "manifest.json").read_text())["pair"] == name
        with empty_pairs(settings) as empty, closing(Resources(empty)) as use:
            status, error = command(empty, "restore", folders["b"])
            assert status == 1
            assert "the backup is that of pair b, not of default" in error
            status, error = command(empty, "restore", folders["default"], "--pair", "b")
            assert status == 1
            assert "the backup is that of pair default, not of b" in error
            status, error = command(empty, "restore", folders["b"], "--pair", "b")
            assert status == 1
            assert "restore the default pair first" in error
            assert [tables(stores) for stores in use.pairs] == [[], []]
            assert command(empty, "restore", folders["default"]) == (0, "")
            assert command(empty, "restore", folders["b"], "--pair", "b") == (0, "")
            assert ids(use) == ids(pairs)
            for corner in (here, there):
                found = Corner(use.placed(corner.tenant), corner.tenant, corner.namespace)
                assert found.use.pair == corner.use.pair
                assert found.shown() == corner.shown()
                found.assert_clean()

    def it_refuses_a_backup_during_a_move(self, pairs, here, command, tmp_path):
        begin_move(pairs, here.tenant)
        for name in ("default", "b"):
            status, error = command(pairs.settings, "backup", str(tmp_path / name), "--pair", name)
            assert status == 1
            assert f"tenants move between pairs of stores: {here.tenant};" in error
        assert list(tmp_path.iterdir()) == []
        assert move_tenant.undo(here.tenant, pairs)

    def it_names_the_tenants_that_moved_between_two_backups(self, settings, pairs, here, there, command, tmp_path):
        """The default pair is from before two moves, and pair b from after them."""
        placed = TenantId(f"placed-{time.time_ns()}")
        first, second = str(tmp_path / "first"), str(tmp_path / "second")
        assert command(pairs.settings, "backup", first)[0] == 0
        move(pairs, here.tenant, "b")
        move(pairs, there.tenant, "default")
        assert command(pairs.settings, "backup", second, "--pair", "b")[0] == 0
        move_tenant.place(placed, "b", pairs)
        with empty_pairs(settings) as empty:
            assert command(empty, "restore", first)[0] == 0
            status, error = command(empty, "restore", second, "--pair", "b")
        assert status == 1
        assert f"{here.tenant} is on default and b, and the directory has it on default" in error
        assert f"{there.tenant} should be on b and is on no pair" in error

    def it_refuses_the_pair_of_another_installation(self, settings, pairs, command, tmp_path):
        folder = str(tmp_path / "b")
        assert command(pairs.settings, "backup", folder, "--pair", "b")[0] == 0
        with databases_of_its_own(settings) as other, scratch_databases(settings) as empty:
            status, error = command(beside(other.settings, empty), "restore", folder, "--pair", "b")
            assert status == 1
            assert "restore the default pair first" in error
            with closing(Resources(empty)) as use:
                assert tables(use) == []
