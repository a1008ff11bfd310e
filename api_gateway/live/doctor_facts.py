"""Gather the facts that `maintenance.doctor` judges, from the stores, the broker, every worker and Flower. Blocking, a
few seconds."""

from __future__ import annotations

import ipaddress
import socket
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import httpx
import redis
import structlog
from celery import Celery
from kombu.exceptions import KombuError

from api_gateway.live.lane import LaneFacts
from api_gateway.live.readiness import facts_of, own_versions
from pipeline.database.worker_heartbeats import WorkerHeartbeat, broker_address
from pipeline.errors import PipelineError
from pipeline.maintenance import doctor, examine_stores
from pipeline.maintenance.doctor import CheckResult, FlowerFacts, Severity, WorkerFacts
from pipeline.resources import Resources
from pipeline.settings import Settings
from workers.names import Queue
from workers.producer import producer

log = structlog.get_logger(__name__)

_WORKERS_ASKED_S = 2.0  # a busy worker answers late
_FLOWER_ASKED_S = 2.0
_DEFAULT_VISIBILITY_S = 3600.0  # a task of kombu
_COMMAND = "chordwise_facts"  # defined in workers.heartbeat, which would load the worker's part of Celery

_BROKER_ERRORS = (KombuError, redis.RedisError, OSError)

Ask = Callable[[], list[CheckResult]]
ReadHeartbeats = Callable[[], list[WorkerHeartbeat]]


def examine(
    use: Resources,
    broker: redis.Redis | None,
    settings: Settings,
    *,
    app: Celery = producer,
    heartbeats: ReadHeartbeats | None = None,
    watched_s: float = float("inf"),
    lane: LaneFacts | None = None,
) -> list[CheckResult]:
    """Run every check, in the order of the documentation; a store or worker that does not answer is a finding too.

    ``app`` reaches the workers; ``watched_s``: seconds during which this process could have seen a sweep; ``lane``: the
    state of the gateway's own query processes, if it has any.
    """
    beating = heartbeats or use.heartbeats.all
    checks = _checks(use, broker, settings, app, beating, watched_s, lane)
    return [finding for name, ask in checks for finding in _asked(name, ask)]


def _checks(
    use: Resources,
    broker: redis.Redis | None,
    settings: Settings,
    app: Celery,
    beating: ReadHeartbeats,
    watched_s: float,
    lane: LaneFacts | None,
) -> Iterator[tuple[str, Ask]]:
    told: list[WorkerFacts] = []

    def ask_workers() -> list[CheckResult]:
        before = beating()
        answers = ask_every_worker(app, expected={heartbeat.name for heartbeat in before})
        told.extend(known_workers(answers, beating()))
        queues = [queue.value for queue in Queue]
        own_broker = broker_address(settings.broker)
        return list(doctor.workers(told, queues=queues, own=own_versions(), broker=own_broker))

    def ask_sweeper() -> list[CheckResult]:
        age_s = use.last_sweep.age_s()
        return [doctor.last_sweep(age_s, interval_s=settings.sweep_interval_s, watched_s=watched_s)]

    def ask_broker() -> list[CheckResult]:
        own = app.conf
        return [
            doctor.visibility(
                told,
                own_timeout_s=float(own.broker_transport_options.get("visibility_timeout", _DEFAULT_VISIBILITY_S)),
                own_limit_s=float(own.task_time_limit or 0),
                seen_s=examine_stores.longest_task_s(use),
            )
        ]

    yield "workers", ask_workers
    yield "last_sweep", ask_sweeper
    if lane is not None:
        yield "query_lane", lambda: [doctor.query_lane(wanted=lane.wanted, ready=lane.ready)]
    if settings.keyword_engine == "tantivy":
        yield "keyword_index", lambda: [doctor.keyword_index(use.indexer_reports.all())]
    if broker is not None:
        yield "broker_visibility_timeout", ask_broker
        yield "broker_eviction", lambda: [examine_stores.eviction("broker_eviction", broker)]
    yield "redis_eviction", lambda: [examine_stores.eviction("redis_eviction", use.quick_redis)]
    yield "installation", lambda: [examine_stores.installation(use)]
    yield "deletions", lambda: [examine_stores.deletions(use)]
    yield "result_expiry", lambda: [result_expiry(settings, app)]
    yield "schema", lambda: [examine_stores.schema(use)]
    yield "vectors", lambda: examine_stores.vectors(use)
    yield "model", lambda: examine_stores.models(use)
    yield "fulltext", lambda: [examine_stores.fulltext(use)]
    yield "clock:mysql", lambda: [doctor.clock("mysql", examine_stores.mysql_skew(use))]
    yield "clock:postgres", lambda: [doctor.clock("postgres", examine_stores.postgres_skew(use))]
    yield "clock:redis", lambda: [doctor.clock("redis", examine_stores.redis_skew(use))]
    yield "clock:workers", lambda: worker_clocks(told)
    yield "flower", lambda: [doctor.flower(flower_facts(settings.flower_url))]


def _asked(name: str, ask: Ask) -> list[CheckResult]:
    try:
        return ask()
    except (PipelineError, *_BROKER_ERRORS) as error:
        said = str(error) if isinstance(error, PipelineError) else type(error).__name__
        log.warning("not_examined", check=name, error=type(error).__name__)
        advice = "see GET /readyz: what does not answer cannot be examined"
        return [CheckResult(check=name, severity=Severity.FAILED, detail=f"could not be asked: {said}", advice=advice)]


def result_expiry(settings: Settings, app: Celery = producer) -> CheckResult:
    """Check that Celery keeps the parts of a chord long enough."""
    expires = app.conf.result_expires
    seconds = expires.total_seconds() if hasattr(expires, "total_seconds") else expires
    return doctor.expiry(seconds, deadline_s=settings.query_deadline_ms / 1000)


def worker_clocks(told: Sequence[WorkerFacts]) -> list[CheckResult]:
    """Report the worker whose clock differs most from ours, in one line for all workers."""
    known = [(abs(each.skew_s), each) for each in told if each.skew_s is not None]
    if not known:
        return []
    _, furthest = max(known, key=lambda pair: pair[0])
    assert furthest.skew_s is not None
    far = abs(furthest.skew_s) >= doctor.SKEW_WARNING_S
    return [doctor.clock(furthest.name if far else "workers", furthest.skew_s)]


def known_workers(answers: Sequence[WorkerFacts], beating: Sequence[WorkerHeartbeat]) -> list[WorkerFacts]:
    """Merge the workers that answered with those that have a heartbeat."""
    from_beats = {heartbeat.name: facts_of(heartbeat) for heartbeat in beating}
    answered = {
        facts.name: replace(facts, broker=beat.broker) if (beat := from_beats.get(facts.name)) else facts
        for facts in answers
    }
    return [facts for _, facts in sorted({**from_beats, **answered}.items())]


def ask_every_worker(
    app: Celery = producer, *, expected: Collection[str] = (), clock: Callable[[], float] = time.time
) -> list[WorkerFacts]:
    """Return each worker's reply within two seconds, or a little longer while one of ``expected`` has not replied.

    A worker too old for this inspection replies with fewer facts. Raises OSError and the broker's own errors.
    """
    heard: dict[str, tuple[Any, float]] = {}
    asked_at = clock()

    def hear(reply: dict[str, Any]) -> None:
        heard.update({name: (said, clock()) for name, said in reply.items()})

    # Open a new connection: pooled ones may date from before a restart of the broker.
    with app.connection_for_write() as connection:
        connection.ensure_connection(max_retries=1, interval_start=0, interval_step=0)
        ask = partial(app.control.broadcast, _COMMAND, reply=True, callback=hear, connection=connection)
        ask(timeout=_WORKERS_ASKED_S)
        if not heard or not heard.keys() >= set(expected):
            asked_at = clock()
            ask(timeout=2 * _WORKERS_ASKED_S)
        silent = [name for name, (said, _) in heard.items() if "now" not in said]
        inspect = app.control.inspect(destination=silent, timeout=1.0, connection=connection)
        queues = (inspect.active_queues() or {}) if silent else {}
    return [
        _facts(name, said, asked_at, heard_at, queues.get(name, [])) for name, (said, heard_at) in sorted(heard.items())
    ]


def _facts(
    name: str, said: dict[str, Any], asked_at: float, heard_at: float, queues: Sequence[dict[str, Any]]
) -> WorkerFacts:
    if "now" not in said:
        return WorkerFacts(name=name, queues=tuple(queue["name"] for queue in queues))
    return WorkerFacts(
        name=name,
        queues=tuple(said["queues"]),
        version=said["version"],
        celery=said.get("celery"),
        kombu=said.get("kombu"),
        skew_s=doctor.distance(said["now"], asked_at, heard_at),
        visibility_timeout_s=said["visibility_timeout_s"],
        task_time_limit_s=said["task_time_limit_s"],
    )


def flower_facts(url: str, *, own_addresses: Callable[[], Sequence[str]] | None = None) -> FlowerFacts | None:
    """Return Flower's public facts, and whether other machines reach it; None without a URL."""
    if not url:
        return None
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    status = _status(url)
    if status is None:
        return FlowerFacts(url=url, status=None)
    resolved = [address for address in _resolved(host) if ipaddress.ip_address(address).is_global]
    elsewhere: list[str] = []
    if all(ipaddress.ip_address(address).is_loopback for address in _resolved(host)):
        others = (own_addresses or _own_addresses)()
        elsewhere = [address for address in others if _status(_at(address, port), path="/healthcheck") == 200]
    public = [*resolved, *(each for each in elsewhere if ipaddress.ip_address(each).is_global)]
    return FlowerFacts(
        url=url, status=status, public=tuple(public), elsewhere=tuple(each for each in elsewhere if each not in public)
    )


def _status(url: str, *, path: str = "/") -> int | None:
    try:
        return httpx.get(url.rstrip("/") + path, timeout=_FLOWER_ASKED_S, trust_env=False).status_code
    except httpx.HTTPError:
        return None


def _at(address: str, port: int) -> str:
    return f"http://[{address}]:{port}" if ":" in address else f"http://{address}:{port}"


def _resolved(host: str) -> list[str]:
    try:
        return sorted({str(found[4][0]) for found in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)})
    except OSError:
        return []


def _own_addresses() -> list[str]:
    """Return this machine's addresses by its own name, without loopback."""
    return [each for each in _resolved(socket.gethostname()) if not ipaddress.ip_address(each).is_loopback]
