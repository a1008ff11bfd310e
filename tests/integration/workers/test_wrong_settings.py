"""Every entry of the installation ends with one sentence when a setting is wrong, whatever reads it first."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.support.repository.project import ROOT

CELERY = ("-m", "celery", "-A", "workers.app")
ENTRIES = {
    "gateway": ("-m", "api_gateway"),
    "worker": (*CELERY, "worker", "-Q", "upkeep", "--pool", "solo"),
    "beat": (*CELERY, "beat", "--pidfile="),
    "flower": (*CELERY, "flower", "--port=0"),
    "migrate": ("-m", "pipeline.maintenance.migrate_schema", "check"),
    "bootstrap": ("-m", "pipeline.tenants.bootstrap", "acme"),
}


@pytest.mark.parametrize(
    ("name", "value", "complaint", "entries"),
    [
        (
            "CHORDWISE_MYSQL_URL",
            "postgres://chordwise@db/chordwise",
            "must begin with mysql+pymysql://",
            ("gateway", "worker", "migrate"),
        ),
        pytest.param(
            "CHORDWISE_RECALL_SOURCE_WEIGHTS",
            "关键词",
            "must be pairs such as keyword:0.7,semantic:0.3",
            tuple(ENTRIES),
            marks=pytest.mark.thorough,
        ),
    ],
)
def it_is_said_once_by_every_entry(name, value, complaint, entries):
    processes = {
        entry: subprocess.Popen(
            [sys.executable, *ENTRIES[entry]],
            cwd=ROOT,
            env={**os.environ, name: value},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for entry in entries
    }
    for entry, process in processes.items():
        output, errors = process.communicate(timeout=60)
        assert (entry, process.returncode, output) == (entry, 1, "")
        assert errors.count("\n") == 1, (entry, errors)
        assert f"{name}" in errors
        assert complaint in errors
