"""The table of services: every queue is listened to, and nothing secret is on a command line."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from compose.localstack import services
from compose.localstack.background import password_notice
from compose.localstack.endpoints import endpoints, for_client
from compose.localstack.places import ROOT, StackFolder
from compose.localstack.programs import MariaDb, Redis
from compose.localstack.progress import Failure
from compose.localstack.servers import mariadb, redis
from workers.names import Queue
from workers.roles import ROLES

PASSWORDS = {name: f"secret-{name}" for name in ("mysql_root", "mysql", "postgres", "redis", "admin_key", "flower")}
PORTS = {"mysql": 1, "postgres": 2, "redis": 3, "gateway": 4, "flower": 5}


@pytest.fixture
def folder(tmp_path: Path) -> StackFolder:
    made = StackFolder("try", local=tmp_path)
    made.make()
    return made


class DescribeTheServices:
    def it_gives_every_queue_one_kind_of_worker_that_listens(self) -> None:
        kinds = {service.name.removesuffix("-2"): service.queues for service in services.SERVICES}
        listened = [queue for queues in kinds.values() for queue in queues]
        assert sorted(listened) == sorted(Queue)

    def it_starts_every_role(self) -> None:
        roles = {
            service.arguments[service.arguments.index("--role") + 1]: service.queues
            for service in services.SERVICES
            if "worker" in service.arguments
        }
        assert roles == {name: role.queues for name, role in ROLES.items()}

    def it_runs_nothing_else_beside_slow_ingestion(self) -> None:
        assert [service.queues for service in services.SERVICES if Queue.INGEST in service.queues] == [("ingest",)]

    def it_fills_in_every_blank(self, folder: StackFolder) -> None:
        programs = services.programs(folder, {}, gateway_port=4, flower_port=5, installation_id="it")
        assert len({program.name for program in programs}) == len(services.SERVICES)
        assert not [part for program in programs for part in program.command if "{" in part]
        assert any("--port=5" in program.command for program in programs)


class DescribeTheServers:
    def it_puts_no_password_on_a_command_line(self, folder: StackFolder) -> None:
        database = mariadb.program(MariaDb(server=Path("m"), install_db=Path("i")), folder, PASSWORDS, port=1)
        broker = redis.program(Redis(server=Path("r")), folder, PASSWORDS["redis"], port=3)
        assert "secret-" not in " ".join([*database.command, *broker.command])

    def it_has_mariadb_wait_for_the_disk_unless_nothing_is_to_last(self, folder: StackFolder) -> None:
        server = MariaDb(server=Path("m"), install_db=Path("i"))
        durable = mariadb.program(server, folder, PASSWORDS, port=1).command
        fleeting = mariadb.program(server, folder, PASSWORDS, port=1, synced=False).command
        assert set(durable) - set(fleeting) == {"--innodb-flush-log-at-trx-commit=1"}
        assert "--innodb-flush-log-at-trx-commit=2" in fleeting  # so that a killed server loses nothing

    def it_keeps_the_files_that_hold_passwords_to_their_owner(self, folder: StackFolder) -> None:
        mariadb.program(MariaDb(server=Path("m"), install_db=Path("i")), folder, PASSWORDS, port=1)
        redis.program(Redis(server=Path("r")), folder, PASSWORDS["redis"], port=3)
        holding = [path for path in folder.run.iterdir() if "secret-" in path.read_text()]
        assert len(holding) == 2
        assert all(path.stat().st_mode & 0o077 == 0 for path in holding)

    def it_gives_mariadb_whole_statements_line_by_line(self) -> None:
        lines = mariadb.accounts(PASSWORDS).splitlines()
        assert all(line.endswith(";") and line.count(";") == 1 for line in lines)

    def it_never_lets_redis_evict_or_forget(self, tmp_path: Path) -> None:
        settings = redis.configuration(tmp_path, "secret", port=3).splitlines()
        assert {"maxmemory-policy noeviction", "appendonly yes", 'save ""', "bind 127.0.0.1"} <= set(settings)


class DescribeTheEndpoints:
    def it_uses_the_stacks_own_servers(self, folder: StackFolder) -> None:
        variables = endpoints(folder, PASSWORDS, PORTS, environment={})
        assert variables["CHORDWISE_MYSQL_URL"].startswith("mysql+pymysql://chordwise:secret-mysql@127.0.0.1:1/")
        assert variables["CHORDWISE_REDIS_URL"] == "redis://:secret-redis@127.0.0.1:3/0"

    def it_uses_an_existing_server_where_the_environment_names_one(self, folder: StackFolder) -> None:
        elsewhere = {"CHORDWISE_MYSQL_URL": "mysql+pymysql://u:p@db/x"}
        variables = endpoints(folder, PASSWORDS, PORTS, environment=elsewhere)
        assert variables["CHORDWISE_MYSQL_URL"] == "mysql+pymysql://u:p@db/x"
        assert "127.0.0.1:2" in variables["CHORDWISE_POSTGRES_URL"]

    def it_gives_the_client_an_address_and_a_key_alone(self, folder: StackFolder) -> None:
        client = for_client(endpoints(folder, PASSWORDS, PORTS, environment={}) | {"CHORDWISE_API_KEY": "k"})
        assert client == {"CHORDWISE_URL": "http://127.0.0.1:4", "CHORDWISE_API_KEY": "k"}


def test_old_pythons_can_read_the_entry_point_and_say_what_is_missing() -> None:
    text = (ROOT / "compose" / "local.py").read_text(encoding="utf-8")
    ast.parse(text, feature_version=(3, 6))


class DescribeFlowersPassword:
    def it_is_made_unless_one_is_set(self, folder: StackFolder) -> None:
        login = ("CHORDWISE_FLOWER_USER", "CHORDWISE_FLOWER_PASSWORD")
        made = endpoints(folder, PASSWORDS, PORTS, environment={})
        assert [made[name] for name in login] == ["chordwise", "secret-flower"]
        given = endpoints(folder, PASSWORDS, PORTS, environment={"FLOWER_BASIC_AUTH": "ann:pass:word"})
        assert [given[name] for name in login] == ["ann", "pass:word"]

    @pytest.mark.parametrize("wrong", ["ann", ":", "ann:", ":secret", "a:b,c:d"])
    def it_refuses_what_would_let_nobody_in_or_everybody(self, folder: StackFolder, wrong: str) -> None:
        with pytest.raises(Failure, match="FLOWER_BASIC_AUTH"):
            endpoints(folder, PASSWORDS, PORTS, environment={"FLOWER_BASIC_AUTH": wrong})

    def it_is_shown_once(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("FLOWER_BASIC_AUTH", raising=False)
        said = [password_notice(tmp_path / "told", "cw-made", where=".local/up/env") for _ in range(2)]
        assert ["cw-made" in each for each in said] == [True, False]
        assert ".local/up/env" in said[1]
        monkeypatch.setenv("FLOWER_BASIC_AUTH", "ann:secret")
        assert "secret" not in password_notice(tmp_path / "other", "secret", where=".local/up/env")
