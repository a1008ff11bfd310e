"""Whether everything the gateway needs answers, dependency by dependency."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import anyio
from kombu.exceptions import KombuError
from redis.exceptions import RedisError
from sqlalchemy import text

from pipeline.errors import PipelineError
from pipeline.flows.resources import Resources
from pipeline.settings import Settings
from pipeline.stores import migrate
from pipeline.stores.engines import mysql_errors, postgres_errors, redis_errors
from workers.names import Queue
from workers.producer import producer

if TYPE_CHECKING:
    from api_gateway.gateway import Gateway

PROBE_S = 1.5
_WORKERS_ASKED_S = 2.0  # a busy worker answers late; nobody waits for this
_WORKERS_FRESH_S = 5.0
_SCHEMA_FRESH_S = 30.0
_BROKER_ERRORS = (KombuError, RedisError, OSError)

Probe = Callable[[], str | None]


@functools.cache
def installed_version() -> str:
    """The version of this installation."""
    try:
        return version("chordwise")
    except PackageNotFoundError:
        return "0"


async def readiness(gateway: Gateway) -> dict[str, Any]:
    """The body of /readyz: probes all dependencies side by side, each for at most 1.5 seconds."""
    probes = gateway.probes
    names = list(probes.required)
    found = await asyncio.gather(*(_probed(probe) for probe in probes.required.values()), _workers(gateway))
    dependencies = dict(zip([*names, "workers"], found, strict=True))
    ready = all(dependencies[name]["status"] == "ok" for name in names)
    return {
        "status": "ready" if ready else "not_ready",
        "version": installed_version(),
        "dependencies": dependencies,
    }


class Probes:
    """How to ask each dependency whether it is there. Blocking; a probe raises what it finds."""

    def __init__(self, settings: Settings, quick: Resources) -> None:
        self._settings = settings
        self._quick = quick
        self._schema_fits_until = 0.0
        self.workers_told: dict[str, Any] | None = None
        self.workers_asked_at = 0.0
        self.required: dict[str, Probe] = {
            "mysql": self._mysql,
            "postgres": self._postgres,
            "redis": self._redis,
            "broker": self._broker,
            "schema": self._schema,
        }

    def _mysql(self) -> None:
        with mysql_errors(), self._quick.mysql.connect() as connection:
            connection.execute(text("SELECT 1"))

    def _postgres(self) -> None:
        with postgres_errors(), self._quick.postgres.connect() as connection:
            connection.execute(text("SELECT 1"))

    def _redis(self) -> None:
        with redis_errors():
            self._quick.redis.ping()

    def _broker(self) -> None:
        with producer.connection_for_write() as connection:
            connection.ensure_connection(max_retries=1, interval_start=0, interval_step=0)

    def _schema(self) -> None:
        if time.monotonic() < self._schema_fits_until:
            return
        migrate.check(self._quick.mysql, self._quick.postgres, self._settings)
        self._schema_fits_until = time.monotonic() + _SCHEMA_FRESH_S


async def _probed(probe: Probe, *, limit_s: float = PROBE_S) -> dict[str, Any]:
    """One dependency's line. A probe that hangs is left behind in its thread; its own timeouts end it."""
    started = time.perf_counter()
    problem: str | None = f"no answer within {limit_s:g} s"
    with anyio.move_on_after(limit_s):
        try:
            problem = await anyio.to_thread.run_sync(probe, abandon_on_cancel=True)
        except PipelineError as error:
            problem = str(error)
        except _BROKER_ERRORS as error:
            problem = type(error).__name__
    line: dict[str, Any] = {
        "status": "ok" if problem is None else "down",
        "latency_ms": round((time.perf_counter() - started) * 1000, 1),
    }
    return line if problem is None else {**line, "detail": problem}


async def _workers(gateway: Gateway) -> dict[str, Any]:
    """What was last heard of the workers; asking takes seconds, so nobody waits for it."""
    probes = gateway.probes
    if time.monotonic() - probes.workers_asked_at > _WORKERS_FRESH_S:
        probes.workers_asked_at = time.monotonic()
        gateway.spawn(_ask_workers(gateway))
    if probes.workers_told is None:
        return {"status": "unknown", "detail": "not asked yet"}
    return probes.workers_told


async def _ask_workers(gateway: Gateway) -> None:
    gateway.probes.workers_told = await _probed(queues_without_worker, limit_s=3 * _WORKERS_ASKED_S)


def queues_without_worker() -> str | None:
    """A sentence naming the queues no worker listens to, None if each has one. Blocking, about two seconds."""
    answered = producer.control.inspect(timeout=_WORKERS_ASKED_S).active_queues() or {}
    served = {queue["name"] for queues in answered.values() for queue in queues}
    missing = [queue.value for queue in Queue if queue.value not in served]
    return f"no worker listens to {', '.join(missing)}" if missing else None
