"""Readiness checks for everything the gateway needs: stores, broker, schema, a worker for each queue, the sweeper."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import anyio
import celery
import kombu
import structlog
from anyio import CapacityLimiter
from kombu.exceptions import KombuError
from redis.exceptions import RedisError

from api_gateway.live.lane import LaneFacts
from pipeline.database.bounded_waits import STAY_CONNECTED_S
from pipeline.database.disk_space import servers_here
from pipeline.database.redis_checks import ping_broker
from pipeline.database.worker_heartbeats import (
    EVERY_S,
    EXPIRES_S,
    SIGN_EVERY_S,
    DiskSpace,
    ProcessState,
    WorkerHeartbeat,
    broker_address,
    host_states,
    installed_version,
    silent_processes,
    unserved,
)
from pipeline.deadline import Deadline
from pipeline.errors import Misconfigured, PipelineError, Unavailable, WrongInstallation
from pipeline.maintenance import doctor, examine_nodes, examine_stores, find_causes, migrate_schema
from pipeline.maintenance.doctor import CheckResult, Severity, Versions, WorkerFacts
from pipeline.outages import tolerate_outage
from pipeline.resources import Resources
from pipeline.settings import Settings
from pipeline.store_urls import host_and_port, hosts_of, sentinel_url
from workers.names import Queue
from workers.producer import broker_nodes, check_broker
from workers.roles import ROLE_OF

if TYPE_CHECKING:
    from api_gateway.gateway import Gateway

FRESH_S: Final = 0.5
# After Redis was unavailable or emptied, every worker's heartbeat is missing until its next beat.
_BEATS_ARE_BACK_AFTER_S: Final = 2 * EVERY_S

log = structlog.get_logger(__name__)

PROBE_S = 1.5
REQUIRED_QUEUES: Final = (Queue.INGEST, Queue.RECALL, Queue.ANSWER)  # without them, no documents or queries are served
_REQUIRED_LINES: Final = frozenset(f"queue:{queue}" for queue in REQUIRED_QUEUES)
_SCHEMA_FRESH_S = 30.0
_STORES_FRESH_S = 5.0
_STANDBYS_FRESH_S = 15.0
_REMEMBERED: Final = ("schema", "installation")  # answered from a check of some seconds ago
_BROKER_ERRORS = (KombuError, RedisError, OSError)
_STATUSES: Final = {
    Severity.OK: "ok",
    Severity.WARNING: "warning",
    Severity.FAILED: "down",
    Severity.UNKNOWN: "unknown",
}
_DISKS_EVERY_S: Final = 60.0
_THREADS: Final = 16
_RECORDS: Final = "records"  # of processes and sweeps, which are in Redis

Probe = Callable[[], str | None]  # returns a problem
T = TypeVar("T")


def own_versions() -> Versions:
    """Return this process's versions, with which those of the workers are compared."""
    return {"chordwise": installed_version(), "celery": celery.__version__, "kombu": kombu.__version__}


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A finding with the circumstances of its check, as /readyz shows both; `DependencyHealth` describes them. ``checked_at``:
    in seconds since the epoch. ``figures``: further fields of the answer."""

    finding: CheckResult
    required: bool
    checked_at: float
    latency_ms: float | None = None
    timeout_s: float | None = None
    figures: Mapping[str, Any] = field(default_factory=dict)

    def body(self, now: float) -> dict[str, Any]:
        """Return the check as JSON, without unknown fields."""
        found = self.finding
        is_judged = found.severity is not Severity.UNKNOWN or not found.cause
        body = {
            "status": _STATUSES[found.severity],
            "required": self.required,
            "checked_at": _moment(self.checked_at),
            "age_s": round(max(0.0, now - self.checked_at), 1),
            "latency_ms": self.latency_ms if is_judged else None,
            "detail": found.detail or None,
            "timeout_s": self.timeout_s,
            "cause": found.cause or None,
            "condition": found.condition or None,
            **(self.figures if is_judged else {}),
        }
        return {name: value for name, value in body.items() if value is not None}


def shown_silent(state: ProcessState, now: float) -> dict[str, Any]:
    """Return a silent process as JSON."""
    sign = state.sign
    return {"host": sign.host, "name": sign.name, "served": list(sign.serves), "since": _moment(now - state.silent_s)}


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")


async def readiness(gateway: Gateway) -> dict[str, Any]:
    """Return the body of /readyz. Run all checks concurrently, each within 1.5 seconds. Every result is newer than the
    request, except that of the schema, whose entry gives its age."""
    probes = gateway.probes
    groups = await asyncio.gather(
        *(read(probes) for read in (_required, _workers, _processes, _standbys)),
        *(_looked(probes, line, *look) for line, look in _LOOKS.items()),
    )
    checks = {check.finding.check: check for group in (*groups, _lane(gateway.lane.facts)) for check in group}
    if probes.schema.age_s is not None:
        checks["schema"] = replace(checks["schema"], checked_at=time.time() - probes.schema.age_s)
    for name in _REMEMBERED:  # reading what is known takes no time, and says nothing of a store
        checks[name] = replace(checks[name], latency_ms=None)
    now = time.time()
    folded = find_causes.fold([check.finding for check in checks.values()])
    checks = {finding.check: replace(checks[finding.check], finding=finding) for finding in folded}
    is_ready = all(check.finding.severity is Severity.OK for check in checks.values() if check.required)
    return {
        "status": "ready" if is_ready else "not_ready",
        "version": installed_version(),
        "checked_at": _moment(now),
        "failing": [finding.check for finding in find_causes.causes(folded)],
        "dependencies": {name: check.body(now) for name, check in checks.items()},
    }


class Probes:
    """The probe of each dependency. Blocking; a failing probe raises."""

    def __init__(self, settings: Settings, quick: Resources) -> None:
        self.settings = settings
        self.use = quick
        self._started = time.monotonic()
        self._threads: dict[str, CapacityLimiter] = {}
        self._next_comparison = self._next_look = Deadline.after(0)
        self.seen_standbys: CheckResult | None = None
        self.schema = migrate_schema.SchemaCheck(
            lambda: quick.mysql, lambda: quick.postgres, settings, fresh_s=_SCHEMA_FRESH_S
        )
        self.required: dict[str, Probe] = {
            "mysql": partial(examine_stores.write_mysql, quick),
            "postgres": partial(examine_stores.write_postgres, quick),
            "redis": partial(examine_stores.ping_redis, quick),
            "broker": self._broker,
            "schema": self.schema,
            "installation": self._installation,
        }

    @property
    def answering(self) -> Mapping[str, Probe]:
        """The probes that only ask for an answer: a store that takes no writes can still be read."""
        return {
            "mysql": partial(examine_stores.ping_mysql, self.use),
            "postgres": partial(examine_stores.ping_postgres, self.use),
            "redis": partial(examine_stores.greet_redis, self.use),
            "broker": partial(self._broker, writes=False),
        }

    def threads(self, asked: str) -> CapacityLimiter:
        """Return the threads for probes of one server: those that hang keep no probe of another one waiting."""
        return self._threads.setdefault(asked, CapacityLimiter(_THREADS))

    def watched_s(self) -> float:
        """Return the seconds during which this process could have seen a sweep."""
        return time.monotonic() - self._started

    def standbys(self) -> CheckResult | None:
        """Check that another server could take over from each store that has several; None if none has. A look at them serves
        for some seconds, also one that took longer than its reader waited."""
        if self._next_look.has_passed:
            self._next_look = Deadline.after(_STANDBYS_FRESH_S)
            found = [*examine_nodes.nodes(self.use), *broker_nodes(self.settings.broker)]
            self.seen_standbys = doctor.standbys(found) if found else None
        return self.seen_standbys

    def _broker(self, *, writes: bool = True) -> None:
        if self.settings.has_redis_as_broker:
            ping_broker(self.settings, writes=writes)
        else:
            check_broker()

    def _installation(self) -> str | None:
        """Check whether the stores belong to one installation. An unavailable store is reported by its own check."""
        try:
            if self._next_comparison.has_passed:
                self.use.installation.confirm_redis()
                self._next_comparison = Deadline.after(_STORES_FRESH_S)
        except WrongInstallation as error:
            return error.public
        except (Unavailable, Misconfigured):
            return None
        return None


def shares_server(settings: Settings) -> bool:
    """Return whether the broker is the Redis of the results, so that one outage is one cause."""
    own = _nodes(settings.redis_url.get_secret_value())
    return settings.has_redis_as_broker and own == _nodes(settings.broker)


def _nodes(url: str) -> tuple[str, frozenset[tuple[str, int]]]:
    """Return the name by which sentinels know a Redis, empty without sentinels, and every address."""
    if (named := sentinel_url(url)) is not None:
        return named.name, frozenset(named.nodes)
    return "", frozenset(host_and_port(host, 6379) for host in hosts_of(url))


async def _probed(name: str, probe: Callable[[], T], threads: CapacityLimiter) -> tuple[T | None, Check]:
    """Return the result of a probe, and the check of this name on whether it succeeded. A hanging probe is abandoned in its
    thread; its own timeouts end it."""
    started = time.perf_counter()
    result: T | None = None
    problem: str | None = f"no answer within {PROBE_S:g} s"
    condition = "does not answer"
    with anyio.move_on_after(PROBE_S):
        try:
            result = await anyio.to_thread.run_sync(probe, abandon_on_cancel=True, limiter=threads)
            problem = None
        except PipelineError as error:
            problem, condition = str(error), find_causes.condition(error)
        except _BROKER_ERRORS as error:
            problem, condition = type(error).__name__, find_causes.condition(error)
    finding = _finding(name, problem)
    check = Check(
        finding=finding if problem is None else replace(finding, condition=condition),
        required=True,
        checked_at=time.time(),
        latency_ms=round((time.perf_counter() - started) * 1000, 1),
        timeout_s=PROBE_S,
    )
    return result, check


def _finding(name: str, problem: str | None) -> CheckResult:
    return CheckResult(check=name, severity=Severity.OK if problem is None else Severity.FAILED, detail=problem or "")


async def _all_probed(probes: Probes, of: Mapping[str, Probe]) -> list[tuple[str | None, Check]]:
    return await asyncio.gather(*(_probed(name, probe, probes.threads(name)) for name, probe in of.items()))


async def answering(probes: Probes) -> dict[str, bool]:
    """Return by store whether it answers now, after 1.5 seconds at most."""
    checks = [check for _, check in await _all_probed(probes, probes.answering)]
    return {check.finding.check: check.finding.severity is Severity.OK for check in checks}


async def _required(probes: Probes) -> list[Check]:
    checks = []
    for problem, check in await _all_probed(probes, probes.required):
        found = check.finding if problem is None else _finding(check.finding.check, problem)
        explains = frozenset({"broker"} if found.check == "redis" and shares_server(probes.settings) else ())
        finding = replace(found, is_part=found.check in find_causes.NAMES, explains=explains)
        checks.append(replace(check, finding=finding))
    return checks


async def _workers(probes: Probes) -> list[Check]:
    """Return a check for each queue, one for the workers' versions and one for their broker."""
    beats = probes.use.heartbeats
    found, reading = await _records(probes, lambda: (beats.all(), [state.sign for state in beats.processes()]))
    if found is None:
        lines = [f"queue:{queue}" for queue in Queue]
        return [_unknown(line, "heartbeats", reading) for line in (*lines, "worker_versions", "worker_brokers")]
    heartbeats, signs = found
    workers = [facts_of(heartbeat) for heartbeat in heartbeats]
    checks = []
    for queue in Queue:
        finding = doctor.queue_served(queue.value, workers, role=ROLE_OF[queue], signs=signs)
        checks.append(_line(finding, reading, workers=sum(queue.value in worker.queues for worker in workers)))
    findings = [] if workers else [doctor.no_worker(ROLE_OF, signs)]
    findings.append(doctor.worker_versions(workers, own_versions()))
    findings.append(doctor.worker_brokers(workers, broker_address(probes.settings.broker)))
    return [*checks, *(_line(finding, reading) for finding in findings)]


def _clocks(skews: Mapping[str, float]) -> CheckResult:
    """Check the clock that differs most from ours."""
    name, skew_s = max(skews.items(), key=lambda skew: abs(skew[1]))
    finding = doctor.clock(name, skew_s)
    bad = f"{name} is {finding.detail}; {finding.advice}"
    return replace(finding, check="clocks", detail=bad if finding.advice else finding.detail)


async def _processes(probes: Probes) -> list[Check]:
    """Return the checks of hosts, of silent processes, of clocks and of disks: all by the processes' signs of life."""
    beats = probes.use.heartbeats
    signs, reading = await _records(probes, lambda: (beats.processes(), beats.skews(), beats.disks()))
    if signs is None:
        lines = ("hosts", "workers_silent", "clocks", "disk_space")
        return [_unknown(line, "signs of life", reading) for line in lines]
    states, skews, disks = signs
    hosts, silent, now = host_states(states), silent_processes(states), time.time()
    lost = [
        {"host": state.host, "since": _moment(now - state.silent_s), "served": list(state.serves)}
        for state in hosts
        if state.is_lost
    ]
    checks = [
        _line(doctor.hosts(hosts), reading, lost=lost or None),
        _line(doctor.silent(silent), reading, silent=[shown_silent(state, now) for state in silent] or None),
        _line(doctor.disk_space(disks), reading),
    ]
    return [*checks, _line(_clocks(skews), reading)] if skews else checks


async def keep_sign(gateway: Gateway) -> None:
    """Give signs of life for this gateway's host for as long as the gateway runs, with the disks of servers on it."""
    disks: tuple[DiskSpace, ...] = ()
    looked_at = used_at = float("-inf")
    while True:
        if time.monotonic() - looked_at >= _DISKS_EVERY_S:
            use, looked_at = gateway.quick, time.monotonic()
            with anyio.move_on_after(PROBE_S):
                look = partial(servers_here, gateway.settings, use.mysql, use.postgres, use.quick_redis)
                disks = await anyio.to_thread.run_sync(look, abandon_on_cancel=True)
        with suppress(Unavailable):  # the check of Redis reports it
            await gateway.run(gateway.quick.heartbeats.sign, replace(gateway.sign, disks=disks))
        if time.monotonic() - used_at >= STAY_CONNECTED_S:
            used_at = time.monotonic()
            for use in (gateway.quick, gateway.answer_cache.use):
                with suppress(Unavailable):
                    await gateway.run_or_leave(use.stay_connected)
        await asyncio.sleep(SIGN_EVERY_S)


Look = Callable[
    [Probes], tuple[CheckResult | None, Mapping[str, Any]]
]  # a finding, None where it does not apply, and figures


def _sweeper(probes: Probes) -> tuple[CheckResult, Mapping[str, Any]]:
    age_s = probes.use.last_sweep.age_s()
    finding = doctor.last_sweep(age_s, interval_s=probes.settings.sweep_interval_s, watched_s=probes.watched_s())
    return finding, {"sweep_age_s": None if age_s is None else round(age_s, 1)}


def _indexers(probes: Probes) -> tuple[CheckResult | None, Mapping[str, Any]]:
    if probes.settings.keyword_engine != "tantivy":
        return None, {}
    indexers = probes.use.indexer_reports.all()
    return doctor.keyword_index(indexers), {"workers": len(indexers)}


# Checks of single records in Redis, each with the noun for what cannot be read without it.
_LOOKS: Final[Mapping[str, tuple[str, Look]]] = {
    "last_sweep": ("record of sweeps", _sweeper),
    "keyword_index": ("reports of indexers", _indexers),
    "store_space": (
        "reports of full stores",
        lambda probes: (examine_stores.store_space(examine_stores.full_stores(probes.use)), {}),
    ),
    "circuits": ("circuits", lambda probes: (examine_stores.circuits(probes.use), {})),
}


async def _looked(probes: Probes, line: str, noun: str, look: Look) -> list[Check]:
    found, reading = await _records(probes, partial(look, probes))
    if found is None:
        return [_unknown(line, noun, reading)]
    finding, figures = found
    return [] if finding is None else [_line(finding, reading, **figures)]


async def _records(probes: Probes, read: Callable[[], T]) -> tuple[T | None, Check]:
    return await _probed(_RECORDS, read, probes.threads(_RECORDS))


async def _standbys(probes: Probes) -> list[Check]:
    """Return the check of the servers that could take over; empty where no store has several."""
    _, reading = await _records(probes, probes.standbys)
    finding = probes.seen_standbys  # of the last look, if this one waits for a server that hangs
    if finding is None and not examine_nodes.names_several(probes.settings):
        return []
    return [_unknown("standbys", "other servers", reading) if finding is None else _line(finding, reading)]


def _lane(facts: LaneFacts | None) -> list[Check]:
    """Return the check of the in-process lane; empty while no query wants it."""
    if facts is None:
        return []
    finding = doctor.query_lane(wanted=facts.wanted, ready=facts.ready)
    return [Check(finding=finding, required=False, checked_at=time.time(), figures={"workers": facts.ready})]


def _line(finding: CheckResult, reading: Check, **figures: Any) -> Check:
    return Check(
        finding=finding,
        required=finding.check in _REQUIRED_LINES,
        checked_at=reading.checked_at,
        timeout_s=reading.timeout_s,
        figures=figures,
    )


def _unknown(line: str, noun: str, reading: Check) -> Check:
    detail = f"the {noun} cannot be read: {reading.finding.detail}"
    return _line(CheckResult(check=line, severity=Severity.UNKNOWN, detail=detail), reading)


def facts_of(heartbeat: WorkerHeartbeat) -> WorkerFacts:
    """Convert a heartbeat to the input of the diagnosis rules."""
    names = ("name", "queues", "version", "celery", "kombu", "broker")
    return WorkerFacts(**{name: getattr(heartbeat, name) for name in names})


class LiveWorkers:
    """A cache of the heartbeats, at most `FRESH_S` old on use; concurrent requests share each reading. ``read`` returns
    all heartbeats or raises StoreUnavailable; ``run`` calls it in a thread."""

    def __init__(
        self,
        run: Callable[..., Awaitable[Any]],
        read: Callable[[], list[WorkerHeartbeat]],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._run = run
        self._read_all = read
        self._clock = clock
        self._workers: list[WorkerHeartbeat] = []
        self._read_at = float("-inf")
        self._trusted_from = float("-inf")
        self._reading: asyncio.Task[None] | None = None

    async def unserved(self, queues: Sequence[str]) -> tuple[str, ...]:
        """Return those of ``queues`` that no worker consumes.

        Return nothing while the heartbeats are uncertain: Redis does not answer, or has just come back and the workers
        have not written again. A killed or stopped worker is noticed after `EXPIRES_S` + `FRESH_S` seconds at most.
        """
        if self._clock() - self._read_at > FRESH_S:
            if self._reading is None or self._reading.done():
                self._reading = asyncio.create_task(self._read())
            await asyncio.shield(self._reading)
        now = self._clock()
        is_known = now - self._read_at <= EXPIRES_S and now >= self._trusted_from
        return unserved(queues, self._workers) if is_known else ()

    async def slots(self, queue: str) -> int:
        """Return how many threads or processes consume ``queue``, as far as is known: waits for the first reading only.
        0 if no worker consumes it."""
        if self._clock() - self._read_at > FRESH_S and (self._reading is None or self._reading.done()):
            self._reading = asyncio.create_task(self._read())
        if self._read_at == float("-inf") and self._reading is not None:
            await asyncio.shield(self._reading)
        return sum(max(1, worker.slots) for worker in self._workers if queue in worker.queues)

    async def _read(self) -> None:
        had_some = bool(self._workers)
        with tolerate_outage(log.warning, "heartbeats_not_read"):
            self._workers = await self._run(self._read_all)
            self._read_at = self._clock()
            if self._trusted_from == float("inf") or (had_some and not self._workers):
                self._trusted_from = self._read_at + _BEATS_ARE_BACK_AFTER_S
            return
        self._trusted_from = float("inf")
