"""The step of `make chaos` with a mistyped CHORDWISE_MYSQL_URL: an empty MySQL beside the right PostgreSQL.

The step starts a worker with that URL again and again while the servers are killed, so that some starts find no server
to compare, and runs a reconciler and a confirmed repair with it as often as possible. Nothing may be deleted.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import sqlalchemy
from pydantic import SecretStr
from sqlalchemy import make_url, text

from pipeline.database.unit_of_work import unit_of_work
from pipeline.errors import PipelineError, WrongInstallation
from pipeline.maintenance.migrate_schema import upgrade_mysql
from pipeline.maintenance.reconcile import reconcile
from pipeline.maintenance.verify import verify
from pipeline.records import TenantId
from pipeline.resources import Resources
from pipeline.tenants.tenant_store import Tenants
from tests.support.stacks.connections import in_mysql

_WORKER = (
    "celery -A workers.app worker -n mistaken@%h -Q upkeep,ingest -P threads -c 2 --without-mingle --without-gossip"
)
_LIVES_S = 30.0  # a busy machine may need most of them for a worker's imports, which come before its check
_PAUSE_S = 2.0
_VECTORS = text("SELECT count(*) FROM chunk_embeddings WHERE tenant_id = :tenant")


class WrongMySQL:
    """An empty database on the stack's own MySQL server, and the processes started with it by mistake.

    ``watched``: a tenant whose documents no other step touches, so that its vectors can be counted.
    """

    def __init__(self, use: Resources, tenants: Sequence[TenantId], watched: TenantId) -> None:
        right = make_url(use.settings.mysql_url.get_secret_value())
        self._database = f"chordwise_wrong_{os.getpid()}"
        with sqlalchemy.create_engine(right, isolation_level="AUTOCOMMIT").connect() as connection:
            connection.execute(text(f"CREATE DATABASE {self._database}"))
        url = right.set(database=self._database).render_as_string(hide_password=False)
        self._use = use
        self._wrong = Resources(use.settings.model_copy(update={"mysql_url": SecretStr(url)}))
        upgrade_mysql(self._wrong.mysql, self._wrong.settings)
        for tenant_id in (*tenants, watched):  # a reconciler looks after the tenants that its MySQL knows
            with unit_of_work(self._wrong.mysql) as work:
                Tenants(work.connection, tenant_id).create("the same name")
        self._watched = watched
        self._before = self._count()
        self._refused = self._done = self._ended = self._lived = 0

    def carry_out(self, *, until: float) -> None:
        """Repeat the mistake until ``until`` on the monotonic clock."""
        environment = {**os.environ, "CHORDWISE_MYSQL_URL": self._wrong.settings.mysql_url.get_secret_value()}
        while time.monotonic() < until:
            worker = subprocess.Popen(
                [sys.executable, "-m", *_WORKER.split()],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            over = time.monotonic() + _LIVES_S
            while time.monotonic() < over and worker.poll() is None:
                self._repair()
                time.sleep(_PAUSE_S)
            if worker.poll() is None:
                self._lived += 1
                worker.terminate()
                with suppress(subprocess.TimeoutExpired):
                    worker.wait(20)
                worker.kill()
            else:
                self._ended += worker.returncode == 1
            worker.wait()

    def problems(self) -> list[str]:
        """Return the broken promises, and drop the database."""
        after = self._count()
        print(
            f"chaos: a wrong MySQL: {self._ended} workers refused to start, {self._lived} were ended after {_LIVES_S:.0f} s,"
            f" {self._refused} repairs refused, {self._before} vectors before and {after} after",
            flush=True,
        )
        in_mysql(self._use, f"DROP DATABASE {self._database}")
        self._wrong.close()
        found = []
        if after != self._before:
            found.append(f"a wrong MySQL: {self._before} vectors before, {after} after")
        if self._done:
            found.append(f"a wrong MySQL: {self._done} repairs were not refused")
        if not self._refused:
            found.append("a wrong MySQL: it was not tried while the servers were there")
        return found

    def _repair(self) -> None:
        # New resources each time: a process that knows its installation has one more reason to refuse.
        use = replace(self._wrong)
        try:
            reconcile(use)
            verify(self._watched, None, use, repair=True, delete_share=1.0)
            self._done += 1
        except WrongInstallation:
            self._refused += 1
        except PipelineError:  # a server is being started again
            pass
        finally:
            use.close()

    def _count(self) -> int:
        with self._use.postgres.connect() as connection:
            return int(connection.execute(_VECTORS, {"tenant": self._watched}).scalar_one())
