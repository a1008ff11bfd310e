"""Backups made while documents are written, and restored into empty servers, by the commands that an operator runs."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from pydantic import SecretStr
from sqlalchemy import inspect

from compose.localstack import programs
from compose.localstack.progress import Failure
from pipeline.maintenance.examine_stores import server_versions
from pipeline.maintenance.verify import verify
from pipeline.records import ChannelName, Namespace
from pipeline.resources import Resources
from pipeline.retrieval.make_channels import make_channels
from pipeline.settings import Settings
from tests.conftest import databases_of_its_own, make_tenant, scratch_databases
from tests.support.servers import newer, tools_for_tests
from tests.support.servers.own_stores import own_mysql
from tests.support.stacks.corner import Corner, documents
from tests.support.stacks.processes import server_command
from workers import server

PARTS = {
    **{"valve": "阀门", "lid": "盖子", "drain": "排水口", "filter": "滤网", "hatch": "舱口", "seal": "密封圈"},
    **{"cabinet": "机柜", "gearbox": "齿轮箱", "nozzle": "喷嘴", "funnel": "漏斗", "tank": "水箱", "rotor": "转子"},
}
ENGLISH = {f"en-{number}": f"The {part} of the pump is opened by turning it left." for number, part in enumerate(PARTS)}
CHINESE = {f"zh-{number}": f"水泵的{part}向左旋转即可打开。" for number, part in enumerate(PARTS.values())}
# With global transaction ids a dump needs more rights than the application has, unless it leaves them out.
SMALL_WITH_GTIDS = ("--innodb-buffer-pool-size=64M", "--gtid-mode=ON", "--enforce-gtid-consistency=ON")


@dataclass(frozen=True, slots=True, kw_only=True)
class Servers:
    """The servers to back up and those to restore into. ``programs``: variables by which the commands find the servers' own;
    ``dump``: how a dump of MySQL's data by these names itself."""

    source: Settings
    target: Settings
    programs: Mapping[str, str]
    dump: str

    def run(self, settings: Settings, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run `chordwise-server` with these settings and the servers' own programs."""
        return server_command(settings, *arguments, **{**self.programs, **more})


def names_found(corner: Corner, question: str, channel: ChannelName | None = None) -> list[str]:
    """The documents of an answer in order, asked of one channel or of all."""
    channels = make_channels(corner.use)
    chosen = channels if channel is None else {channel: channels[channel]}
    return documents(corner.ask(corner.query(question), chosen))


def assert_searchable(corner: Corner) -> None:
    """Each document is the first hit of its own text, in both channels."""
    texts = {**ENGLISH, **CHINESE}
    for channel in (ChannelName.SEMANTIC, ChannelName.KEYWORD):
        assert {name: names_found(corner, text, channel)[0] for name, text in texts.items()} == {
            name: name for name in texts
        }, channel


@pytest.fixture(
    scope="module",
    params=["stack", pytest.param("mysql-9", marks=[pytest.mark.thorough, pytest.mark.timeout(600)])],
)
def servers(
    request: pytest.FixtureRequest, settings: Settings, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Servers]:
    """The stack's servers for both, or two new servers of MySQL with its own programs and without those of MariaDB."""
    if request.param == "stack":
        with closing(Resources(settings)) as use:
            is_mysql = "MySQL" in server_versions(use)
        if is_mysql:
            yield Servers(source=settings, target=settings, programs=_programs_of_mysql(), dump="MySQL dump")
            return
        found = tools_for_tests.backup_environment()
        if found is None:
            pytest.fail("the tests of backups need mariadb-dump: python3 compose/local.py install --dev", pytrace=False)
        yield Servers(source=settings, target=settings, programs=found, dump="MariaDB dump")
        return
    with ExitStack() as whole:
        try:
            found = _programs_of_mysql()
            first, second = (
                whole.enter_context(own_mysql(tmp_path_factory.mktemp(name), *SMALL_WITH_GTIDS))
                for name in ("first", "second")
            )
        except Failure as missing:
            pytest.skip(str(missing))
        source, target = (settings.model_copy(update={"mysql_url": SecretStr(each.url)}) for each in (first, second))
        yield Servers(source=source, target=target, programs=found, dump="MySQL dump")


def _programs_of_mysql() -> Mapping[str, str]:
    folders = [newer.fetch("mysql-9-client"), programs.postgres_installation() / "bin"]
    return {"PATH": os.pathsep.join([*map(str, folders), os.environ["PATH"]])}


def with_manifest(backup: Path, to: Path, change: Callable[[dict[str, object]], dict[str, object]]) -> None:
    """Copy a backup with another manifest."""
    shutil.copytree(backup, to, dirs_exist_ok=True)
    manifest = to / "manifest.json"
    manifest.write_text(json.dumps(change(json.loads(manifest.read_text(encoding="utf-8")))), encoding="utf-8")


def shadowed(servers: Servers, folder: Path, program: str, script: str) -> str:
    """Return a PATH on which a shell script runs before a program."""
    programs_of_test = folder / "programs"
    programs_of_test.mkdir()
    real = shutil.which(program, path=servers.programs["PATH"])
    (programs_of_test / program).write_text(f'#!/bin/sh\n{script}\nexec "{real}" "$@"\n', encoding="utf-8")
    (programs_of_test / program).chmod(0o755)
    return f"{programs_of_test}{os.pathsep}{servers.programs['PATH']}"


@pytest.fixture(scope="module")
def source(servers: Servers) -> Iterator[Corner]:
    with databases_of_its_own(servers.source) as use:
        tenant, _ = make_tenant(use)
        corner = Corner(use, tenant, Namespace("kb"))
        corner.fill({**ENGLISH, **CHINESE})
        assert_searchable(corner)
        yield corner


@pytest.fixture(scope="module")
def backup(servers: Servers, source: Corner, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A backup made while documents are added and replaced."""
    folder, stop = tmp_path_factory.mktemp("backups") / "monday", threading.Event()
    written = 0

    def write() -> None:
        nonlocal written
        while not stop.is_set():
            source.fill({f"new-{written}": f"A note written meanwhile, number {written}.", "en-0": ENGLISH["en-0"]})
            written += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        made = servers.run(source.use.settings, "backup", str(folder))
    finally:
        stop.set()
        writer.join()
    assert made.returncode == 0, made.stderr
    assert written > 0
    return folder


Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def command(servers: Servers, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run `chordwise-server` as `Servers.run` does, in this process: a refusal needs no process of its own, whose start
    takes longer."""
    for name, value in servers.programs.items():
        monkeypatch.setenv(name, value)

    def run(settings: Settings, *arguments: str) -> subprocess.CompletedProcess[str]:
        monkeypatch.setattr(server, "_settings", lambda: settings)
        capsys.readouterr()
        status = server.main(arguments)
        said = capsys.readouterr()
        return subprocess.CompletedProcess(arguments, status, said.out, said.err)

    return run


class DescribeBackup:
    def it_writes_a_folder_for_its_owner_alone(self, servers: Servers, backup: Path):
        manifest = json.loads((backup / "manifest.json").read_text(encoding="utf-8"))
        assert sorted(path.name for path in backup.iterdir()) == ["manifest.json", "mysql.sql", "postgres.dump"]
        assert backup.stat().st_mode & 0o077 == 0
        assert manifest["revisions"].keys() == {"mysql", "postgres"}
        assert manifest["servers"].keys() == {servers.dump.partition(" ")[0], "PostgreSQL"}
        with (backup / "mysql.sql").open(encoding="utf-8") as dump:
            assert servers.dump in dump.read(200)

    def it_refuses_a_folder_that_exists(self, command: Command, source: Corner, backup: Path):
        again = command(source.use.settings, "backup", str(backup))
        assert (again.returncode, again.stdout) == (1, "")
        assert again.stderr == f"backup: {backup} exists already; name a new folder\n"

    @pytest.mark.thorough
    def it_leaves_nothing_behind_when_a_server_refuses(self, servers: Servers, source: Corner, tmp_path: Path):
        path = shadowed(servers, tmp_path, "pg_dump", "echo 'pg_dump: error: no space left on device' >&2; exit 1")
        failed = servers.run(source.use.settings, "backup", str(tmp_path / "b"), PATH=path)
        assert failed.returncode == 1
        assert failed.stderr == "backup: pg_dump ended with 1: pg_dump: error: no space left on device\n"
        assert sorted(path.name for path in tmp_path.iterdir()) == ["programs"]

    @pytest.mark.thorough
    def it_takes_the_programs_of_the_local_stack_where_those_on_path_are_older_than_the_server(
        self, servers: Servers, source: Corner, tmp_path: Path
    ):
        older = shadowed(servers, tmp_path, "pg_dump", "echo 'pg_dump (PostgreSQL) 9.6.1'; exit 0")
        clients = tmp_path / "stack/clients"
        clients.mkdir(parents=True)
        for name in ("pg_dump", "mariadb-dump", "mysqldump"):
            if real := shutil.which(name, path=servers.programs["PATH"]):
                (clients / name).symlink_to(real)
        path = older.partition(os.pathsep)[0] + os.pathsep + os.defpath
        stack = {"PATH": path, "CHORDWISE_STACK_DIR": str(clients.parent)}
        made = servers.run(source.use.settings, "backup", str(tmp_path / "backup"), **stack)
        assert made.returncode == 0, made.stderr
        assert (tmp_path / "backup/postgres.dump").stat().st_size > 1000

    @pytest.mark.thorough
    def it_begins_postgres_after_mysql_so_that_what_is_added_between_needs_no_embedding(
        self, servers: Servers, source: Corner, tmp_path: Path
    ):
        asked, go = tmp_path / "asked", tmp_path / "go"
        slow = shadowed(
            servers,
            tmp_path,
            "mariadb-dump" if servers.dump.startswith("MariaDB") else "mysqldump",
            f'case "$*" in *single-transaction*) touch {asked}; until [ -e {go} ]; do sleep 0.1; done;; esac',
        )
        folder = tmp_path / "backup"
        with ThreadPoolExecutor(1) as beside:
            running = beside.submit(servers.run, source.use.settings, "backup", str(folder), PATH=slow)
            while not asked.exists():
                assert not running.done(), running.result().stderr
                time.sleep(0.1)
            time.sleep(1.0)  # in which a dump of PostgreSQL that waited for nothing ends
            source.fill({"late": "A document that is added before MySQL's snapshot begins."})
            go.touch()
            assert running.result().returncode == 0, running.result().stderr
        with scratch_databases(servers.target) as empty:
            restored = servers.run(empty, "restore", str(folder))
        assert restored.returncode == 0, restored.stderr
        assert restored.stdout.splitlines()[0].endswith(" 0 differences repaired")


class DescribeRestore:
    def it_brings_back_every_document_that_was_searchable(
        self, servers: Servers, source: Corner, backup: Path, tmp_path: Path
    ):
        with_manifest(backup, tmp_path, lambda manifest: manifest | {"later": 1})  # as a later version may add
        with scratch_databases(servers.target) as empty:
            restored = servers.run(empty, "restore", str(tmp_path))
            assert restored.returncode == 0, restored.stderr
            of_tenant, of_backup = restored.stdout.splitlines()
            assert of_tenant.startswith(f"tenant {source.tenant}: ")
            assert of_backup.startswith("installation ")
            use = Resources(empty)
            try:
                corner = Corner(use, source.tenant, source.namespace)
                shown = corner.shown()
                assert {*ENGLISH, *CHINESE} <= shown.keys()
                assert shown["en-3"] == [ENGLISH["en-3"]]
                report = verify(source.tenant, None, use, repair=False)
                assert (report.missing, report.orphaned, report.stale) == (0, 0, 0)
                assert_searchable(corner)
                corner.fill({"after": "A document that is added after the restoration."})
                assert names_found(corner, "added after the restoration")[0] == "after"
            finally:
                use.close()

    def it_refuses_databases_with_tables_and_changes_nothing(self, command: Command, source: Corner, backup: Path):
        before = source.shown()
        refused = command(source.use.settings, "restore", str(backup))
        assert refused.returncode == 1
        assert " tables, such as " in refused.stderr
        assert source.shown() == before

    @pytest.mark.parametrize(
        ("spoil", "sentence"),
        [
            ({"mysql.sql": b"SELECT 1;"}, "mysql.sql in {folder} differs from the manifest: the backup is damaged"),
            ({"manifest.json": b"{}"}, "{folder}/manifest.json has format None; this version reads 1"),
            ({"manifest.json": b"nonsense"}, "{folder}/manifest.json is not the manifest of a backup"),
        ],
    )
    def it_names_the_damage(
        self,
        servers: Servers,
        command: Command,
        backup: Path,
        tmp_path: Path,
        spoil: Mapping[str, bytes],
        sentence: str,
    ):
        for path in backup.iterdir():
            (tmp_path / path.name).write_bytes(spoil.get(path.name, path.read_bytes()))
        with scratch_databases(servers.target) as empty:
            refused = command(empty, "restore", str(tmp_path))
        assert refused.returncode == 1
        assert refused.stderr == f"restore: {sentence.format(folder=tmp_path)}\n"

    @pytest.mark.parametrize(
        ("change", "sentence"),
        [
            (
                {"revisions": {"mysql": "9999", "postgres": "9999"}},
                r"the mysql schema of the backup is at revision 9999, which this version cannot migrate: a newer version of"
                r" Chordwise made it, so use that one",
            ),
            (
                {"servers": {"Oracle": "23.1", "PostgreSQL": "13.1"}},
                r"the backup was made from Oracle 23\.1, and this is (MariaDB|MySQL): restore into Oracle 23 or newer",
            ),
            (
                {"servers": {"PostgreSQL": "99.1"}},
                r"the backup was made from PostgreSQL 99\.1, and this is PostgreSQL [\d.]+: restore into PostgreSQL 99 or"
                r" newer",
            ),
        ],
        ids=["newer-schema", "other-server", "older-server"],
    )
    def it_refuses_what_it_could_not_finish_before_it_loads_anything(
        self,
        servers: Servers,
        command: Command,
        backup: Path,
        tmp_path: Path,
        change: Mapping[str, object],
        sentence: str,
    ):
        with_manifest(backup, tmp_path, lambda manifest: manifest | change)
        with scratch_databases(servers.target) as empty:
            refused = command(empty, "restore", str(tmp_path))
            with closing(Resources(empty)) as use:
                assert [inspect(engine).get_table_names() for engine in (use.mysql, use.postgres)] == [[], []]
        assert refused.returncode == 1
        assert re.fullmatch(f"restore: {sentence}\n", refused.stderr)

    def it_names_a_setting_that_differs(self, servers: Servers, command: Command, backup: Path):
        with scratch_databases(servers.target) as empty:
            other = empty.model_copy(update={"pgvector_distance": "euclidean"})
            refused = command(other, "restore", str(backup))
        assert refused.returncode == 1
        assert refused.stderr == (
            "restore: CHORDWISE_PGVECTOR_DISTANCE is euclidean, and the backup was made with cosine\n"
        )
