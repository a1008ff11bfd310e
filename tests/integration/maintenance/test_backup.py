"""Backups made while documents are written, and restored into empty servers, by the commands that an operator runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from compose.localstack.servers import tools_for_tests
from pipeline.maintenance.verify import verify
from pipeline.records import ChannelName, Namespace
from pipeline.resources import Resources
from pipeline.retrieval.make_channels import make_channels
from pipeline.settings import Settings
from tests.conftest import databases_of_its_own, make_tenant, scratch_databases
from tests.support.repository.project import ROOT
from tests.support.stacks.corner import Corner, documents

ENGLISH = {f"en-{number}": f"The valve of pump {number:03d} is opened by turning it left." for number in range(12)}
CHINESE = {f"zh-{number}": f"水泵 {number:03d} 的阀门向左旋转即可打开。" for number in range(12)}


def server(settings: Settings, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run `chordwise-server` with these settings and the servers' own programs."""
    programs = tools_for_tests.backup_environment()
    if programs is None:
        pytest.fail("the tests of backups need mariadb-dump: python3 compose/local.py install --dev", pytrace=False)
    urls = {
        f"CHORDWISE_{name.upper()}": getattr(settings, name).get_secret_value()
        for name in ("mysql_url", "postgres_url", "redis_url")
    }
    environment = {**os.environ, **programs, **urls, "CHORDWISE_BROKER_URL": urls["CHORDWISE_REDIS_URL"], **more}
    command = [sys.executable, "-m", "workers.server", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=180, check=False)


def names_found(corner: Corner, question: str, channel: ChannelName | None = None) -> list[str]:
    """The documents of an answer in order, asked of one channel or of all."""
    channels = make_channels(corner.use)
    chosen = channels if channel is None else {channel: channels[channel]}
    return documents(corner.ask(corner.query(question), chosen))


@pytest.fixture(scope="module")
def source(settings: Settings) -> Iterator[Corner]:
    with databases_of_its_own(settings) as use:
        tenant, _ = make_tenant(use)
        corner = Corner(use, tenant, Namespace("kb"))
        corner.fill({**ENGLISH, **CHINESE})
        yield corner


@pytest.fixture(scope="module")
def backup(source: Corner, tmp_path_factory: pytest.TempPathFactory) -> Path:
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
        made = server(source.use.settings, "backup", str(folder))
    finally:
        stop.set()
        writer.join()
    assert made.returncode == 0, made.stderr
    assert written > 0
    return folder


class DescribeBackup:
    def it_writes_a_folder_for_its_owner_alone(self, backup: Path):
        manifest = json.loads((backup / "manifest.json").read_text(encoding="utf-8"))
        assert sorted(path.name for path in backup.iterdir()) == ["manifest.json", "mysql.sql", "postgres.dump"]
        assert backup.stat().st_mode & 0o077 == 0
        assert manifest["revisions"].keys() == {"mysql", "postgres"}

    def it_refuses_a_folder_that_exists(self, source: Corner, backup: Path):
        again = server(source.use.settings, "backup", str(backup))
        assert (again.returncode, again.stdout) == (1, "")
        assert again.stderr == f"backup: {backup} exists already; name a new folder\n"

    def it_leaves_nothing_behind_when_a_server_refuses(self, source: Corner, tmp_path: Path):
        programs = tmp_path / "programs"
        programs.mkdir()
        (programs / "pg_dump").write_text("#!/bin/sh\necho 'pg_dump: error: no space left on device' >&2; exit 1\n")
        (programs / "pg_dump").chmod(0o755)
        path = (tools_for_tests.backup_environment() or {})["PATH"]
        failed = server(source.use.settings, "backup", str(tmp_path / "b"), PATH=f"{programs}{os.pathsep}{path}")
        assert failed.returncode == 1
        assert failed.stderr == "backup: pg_dump ended with 1: pg_dump: error: no space left on device\n"
        assert sorted(path.name for path in tmp_path.iterdir()) == ["programs"]


class DescribeRestore:
    def it_brings_back_every_document_that_was_searchable(self, settings: Settings, source: Corner, backup: Path):
        with scratch_databases(settings) as empty:
            restored = server(empty, "restore", str(backup))
            assert restored.returncode == 0, restored.stderr
            assert restored.stdout.splitlines()[0].startswith(f"tenant {source.tenant}: ")
            use = Resources(empty)
            try:
                corner = Corner(use, source.tenant, source.namespace)
                shown = corner.shown()
                assert {*ENGLISH, *CHINESE} <= shown.keys()
                assert shown["en-3"] == [ENGLISH["en-3"]]
                report = verify(source.tenant, None, use, repair=False)
                assert (report.missing, report.orphaned, report.stale) == (0, 0, 0)
                for channel in (ChannelName.SEMANTIC, ChannelName.KEYWORD):
                    assert names_found(corner, "valve of pump 007", channel)[0] == "en-7"
                    assert names_found(corner, "水泵 007 的阀门", channel)[0] == "zh-7"
                corner.fill({"after": "A document that is added after the restoration."})
                assert names_found(corner, "added after the restoration")[0] == "after"
            finally:
                use.close()

    def it_refuses_databases_with_tables_and_changes_nothing(self, source: Corner, backup: Path):
        before = source.shown()
        refused = server(source.use.settings, "restore", str(backup))
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
        self, settings: Settings, backup: Path, tmp_path: Path, spoil: Mapping[str, bytes], sentence: str
    ):
        for path in backup.iterdir():
            (tmp_path / path.name).write_bytes(spoil.get(path.name, path.read_bytes()))
        with scratch_databases(settings) as empty:
            refused = server(empty, "restore", str(tmp_path))
        assert refused.returncode == 1
        assert refused.stderr == f"restore: {sentence.format(folder=tmp_path)}\n"

    def it_names_a_setting_that_differs(self, settings: Settings, backup: Path):
        with scratch_databases(settings) as empty:
            refused = server(empty, "restore", str(backup), CHORDWISE_PGVECTOR_DISTANCE="euclidean")
        assert refused.returncode == 1
        assert refused.stderr == (
            "restore: CHORDWISE_PGVECTOR_DISTANCE is euclidean, and the backup was made with cosine\n"
        )
