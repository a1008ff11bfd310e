"""The processes of the local stack, as the system shows them: their environments, priorities and logs."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def folder() -> Path:
    return Path(os.environ["CHORDWISE_STACK_DIR"])


@pytest.fixture(scope="module")
def pids(folder) -> dict[str, int]:
    """Return the process id of each service; of one with several processes, of their parent."""
    processes = json.loads((folder / "run" / "state.json").read_text())["processes"]
    return {name: int(process["pid"]) for name, process in processes.items()}


@pytest.fixture(scope="module")
def environments(pids) -> dict[str, set[str]]:
    """Return the names of each service's environment variables at its start."""
    return {
        name: {
            entry.partition(b"=")[0].decode()
            for entry in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            if entry
        }
        for name, pid in pids.items()
    }


def priority(pid: int) -> int:
    """Return how far a process gives way to those of other services: Linux shares out processor time by session first."""
    group = Path(f"/proc/{pid}/autogroup")
    if group.exists():
        return int(group.read_text().split()[-1])
    return os.getpriority(os.PRIO_PROCESS, pid)


class DescribeTheStacksProcesses:
    def it_gives_the_operators_key_to_the_gateway_alone(self, environments):
        assert {name for name, variables in environments.items() if "CHORDWISE_ADMIN_KEY" in variables} == {"gateway"}

    def it_gives_no_process_the_credentials_of_people(self, environments):
        for name, variables in environments.items():
            assert not variables & {"CHORDWISE_API_KEY", "CHORDWISE_FLOWER_PASSWORD"}, name
            assert ("FLOWER_BASIC_AUTH" in variables) == (name == "flower"), name

    def it_shows_the_stores_to_those_that_use_them(self, environments):
        for name, variables in environments.items():
            uses_stores = name in ("gateway", "beat", "indexer") or name.startswith("worker-")
            assert ("CHORDWISE_MYSQL_URL" in variables) == uses_stores, name

    def it_gives_processors_to_queries_before_ingestion_and_to_the_gateway_before_both(self, pids):
        of = {name: priority(pid) for name, pid in pids.items()}
        last = [of[name] for name in ("worker-ingest", "worker-long", "worker-compute", "indexer")]
        assert of["gateway"] < of["worker-queries"] < min(last)

    def it_keeps_logs_to_their_owner(self, folder):
        logs = folder / "logs"
        assert stat.S_IMODE(logs.stat().st_mode) == 0o700
        assert {path.name: stat.S_IMODE(path.stat().st_mode) for path in logs.iterdir()} == {
            path.name: 0o600 for path in logs.iterdir()
        }
