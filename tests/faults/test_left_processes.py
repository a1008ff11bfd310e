"""Servers of a stage that is interrupted, or does not start: no process of theirs is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from compose.localstack.processes import Identity, identify
from tests.support.clients.operating import eventually
from tests.support.repository.project import ROOT
from tests.support.servers.own_stores import own_postgres
from tests.support.stacks.processes import with_children

# A leader, and a child in a session of its own, as PostgreSQL has them.
_LEADER = "setsid sleep 600 & exec sleep 600"
_INTERRUPTED = f"""
import subprocess, time
from tests.support.stacks.processes import leaving_no_process
with leaving_no_process():
    subprocess.Popen(["sh", "-c", {_LEADER!r}], start_new_session=True)
    time.sleep(600)
"""
_NOT_STARTED = f"""
import subprocess, sys, time
from tests.support.stacks.processes import leaving_no_process
with leaving_no_process():
    leader = subprocess.Popen(["sh", "-c", {_LEADER!r}], start_new_session=True)
    sys.stdin.readline()
    leader.kill()
    leader.wait()
    raise AssertionError("it did not start")
"""


@contextmanager
def _stage(program: str) -> Iterator[tuple[subprocess.Popen[bytes], list[Identity]]]:
    """Run a program until it has a leader with its child; provide it with their identities."""
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as running:
        eventually(lambda: len([*with_children(running.pid)]) == 3, within_s=60)
        yield running, [found for pid in with_children(running.pid) if (found := identify(pid))]


def _left(those: list[Identity]) -> list[Identity]:
    return [each for each in those if each.alive]


class DescribeAStage:
    def it_leaves_no_process_after_ctrl_c(self):
        with _stage(_INTERRUPTED) as (running, started):
            running.send_signal(signal.SIGINT)
            running.wait(60)
        assert _left(started) == []

    def it_leaves_no_process_of_a_leader_that_is_gone_when_another_server_does_not_start(self):
        with _stage(_NOT_STARTED) as (running, started):
            running.communicate(b"\n", timeout=60)
        assert _left(started) == []


class DescribeAServerThatHangs:
    def it_leaves_no_process_when_it_is_killed(self, tmp_path_factory: pytest.TempPathFactory):
        """Its processes are stopped, so that they do not notice that the first of them is gone."""
        folder: Path = tmp_path_factory.mktemp("postgres")
        for each in (folder, folder.parent):
            each.chmod(0o711)  # PostgreSQL runs as another user
        with own_postgres(folder) as server:
            below = [found for pid in with_children(os.getpid()) if (found := identify(pid))]
            server.freeze()
        frozen = [each for each in below if each.pid != os.getpid()]
        assert len(frozen) > 3
        assert _left(frozen) == []
