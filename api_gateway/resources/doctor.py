"""The doctor: findings about the installation, for its operator."""

import socket
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import replace
from functools import partial
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

import httpx
import redis
import structlog
from celery import Celery
from fastapi import APIRouter, Depends, Response
from kombu.exceptions import KombuError

from api_gateway.http.auth import require_operator
from api_gateway.http.fields import shown
from api_gateway.http.responses import json_response
from api_gateway.http.route_descriptions import route
from api_gateway.live.lane import LaneFacts
from api_gateway.live.readiness import facts_of, own_versions, shares_server
from api_gateway.resources.route_parts import CurrentGateway
from chordwise.contract.process import REMEDIES, Diagnosis, Finding
from pipeline.database.clock_skew import distance
from pipeline.database.engines import redis_errors
from pipeline.database.redis_checks import broker_location, ping_redis
from pipeline.database.store_errors import REDIS, Location
from pipeline.database.worker_heartbeats import WorkerHeartbeat, broker_address
from pipeline.errors import PipelineError, StoreFull, StoreMisconfigured
from pipeline.maintenance import doctor as checks
from pipeline.maintenance import examine_nodes, examine_stores, find_causes
from pipeline.maintenance.doctor import CheckResult, FlowerFacts, Severity, WorkerFacts
from pipeline.resources import Resources
from pipeline.sandbox.accepted_formats import recognition_flaw
from pipeline.settings import Settings
from pipeline.threads import start_call
from workers.producer import amqp_errors, broker_nodes, broker_version, check_broker, producer
from workers.roles import ROLE_OF

log = structlog.get_logger(__name__)

_WORKERS_S = 2.0  # a busy worker replies late
_FLOWER_S = 2.0
_PART_S = 5.0  # libpq takes two for a connection, and each server may need a new one
_DEFAULT_VISIBILITY_S = 3600.0  # a task of kombu
_COMMAND = "chordwise_facts"  # defined in workers.heartbeat, which would load the worker's part of Celery

_BROKER_ERRORS = (KombuError, redis.RedisError, OSError)

Check = Callable[[], list[CheckResult]]
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
    """Run every check side by side; return the findings in the order of the documentation. A store or worker that does
    not answer is a finding too. The parts that others need come first: what cannot be judged without one is not asked.

    ``app`` reaches the workers; ``watched_s``: seconds during which this process could have seen a sweep; ``lane``: the
    state of the gateway's own query processes, if it has any.
    """
    findings = examine_parts(_parts(use, broker, settings, app))
    if shares_server(settings):
        at_once = frozenset({"broker"})
        findings = [replace(each, explains=at_once) if each.check == "redis" else each for each in findings]
    unsound = {finding.check: finding for finding in findings if finding.severity is Severity.FAILED}
    named = list(_checks(use, broker, settings, app, heartbeats or use.heartbeats.all, watched_s, lane))
    parts = {name: find_causes.obstacle(name, unsound) for name, _ in named}
    running = {name: start_call(_carry_out, name, check) for name, check in named if parts[name] is None}
    for name, part in parts.items():
        findings += running[name].result() if part is None else [find_causes.unjudged(name, part)]
    return find_causes.fold(findings)


def _parts(use: Resources, broker: redis.Redis | None, settings: Settings, app: Celery) -> dict[str, Callable[[], str]]:
    """Return a probe of each server."""
    greet = partial(_greet_broker, app) if broker is None else partial(_write_to, broker, broker_location(settings))
    return {
        "mysql": partial(_answers, partial(examine_stores.write_mysql, use)),
        "postgres": partial(_answers, partial(examine_stores.write_postgres, use)),
        "redis": partial(_write_to, use.quick_redis, REDIS),
        "broker": greet,
    }


def examine_parts(parts: Mapping[str, Callable[[], str]]) -> list[CheckResult]:
    """Ask all parts at the same time, and wait `_PART_S` for each. ``parts``: a probe of each by name."""
    running = {name: start_call(_examine_part, name, probe) for name, probe in parts.items()}
    answered = wait(running.values(), timeout=_PART_S).done
    return [
        part.result()
        if part in answered
        else _unsound(name, f"no answer within {_PART_S:g} s", REMEDIES[name], "does not answer")
        for name, part in running.items()
    ]


def _examine_part(name: str, probe: Callable[[], str]) -> CheckResult:
    try:
        return CheckResult(check=name, severity=Severity.OK, detail=probe(), is_part=True)
    except (StoreMisconfigured, StoreFull) as error:  # the sentence has the remedy
        return _unsound(name, str(error), "", find_causes.condition(error))
    except (PipelineError, *_BROKER_ERRORS) as error:
        detail = str(error) if isinstance(error, PipelineError) else type(error).__name__
        return _unsound(name, detail, "" if ";" in detail else REMEDIES[name], find_causes.condition(error))


def _unsound(name: str, detail: str, advice: str, condition: str) -> CheckResult:
    log.warning("part_unsound", check=name, detail=detail)
    return CheckResult(
        check=name, severity=Severity.FAILED, detail=detail, advice=advice, is_part=True, condition=condition
    )


def _answers(ping: Callable[[], None]) -> str:
    began = time.perf_counter()
    ping()
    return f"it takes writes, and answers in {(time.perf_counter() - began) * 1000:.0f} ms"


def _checks(
    use: Resources,
    broker: redis.Redis | None,
    settings: Settings,
    app: Celery,
    heartbeats: ReadHeartbeats,
    watched_s: float,
    lane: LaneFacts | None,
) -> Iterator[tuple[str, Check]]:
    asked: Future[list[WorkerFacts]] = Future()  # by the first check, for later ones

    def ask() -> list[WorkerFacts]:
        expected = {heartbeat.name for heartbeat in heartbeats()}
        return known_workers(ask_every_worker(app, expected=expected), heartbeats())

    def replies() -> list[WorkerFacts]:
        with suppress(PipelineError, *_BROKER_ERRORS):  # the first check reports it
            return asked.result()
        return []

    def check_workers() -> list[CheckResult]:
        try:
            asked.set_result(ask())
        except BaseException as error:
            asked.set_exception(error)
            raise
        workers, signs = asked.result(), [state.sign for state in use.heartbeats.processes()]
        own, broker_name = own_versions(), broker_address(settings.broker)
        return list(checks.workers(workers, roles=ROLE_OF, own=own, broker=broker_name, signs=signs))

    def check_sweeper() -> list[CheckResult]:
        age_s = use.last_sweep.age_s()
        return [checks.last_sweep(age_s, interval_s=settings.sweep_interval_s, watched_s=watched_s)]

    def check_broker() -> list[CheckResult]:
        own = app.conf
        return [
            checks.visibility(
                replies(),
                own_timeout_s=float(own.broker_transport_options.get("visibility_timeout", _DEFAULT_VISIBILITY_S)),
                own_limit_s=float(own.task_time_limit or 0),
                seen_s=examine_stores.longest_task_s(use),
            )
        ]

    def check_standbys() -> list[CheckResult]:
        found = [*examine_nodes.nodes(use), *broker_nodes(settings.broker)]
        return [checks.standbys(found)] if found else []

    yield "queues", check_workers
    yield "workers_silent", lambda: [examine_stores.silent(use)]
    yield "hosts", lambda: [checks.hosts(use.heartbeats.hosts())]
    yield "last_sweep", check_sweeper
    if lane is not None:
        yield "query_lane", lambda: [checks.query_lane(wanted=lane.wanted, ready=lane.ready)]
    if settings.keyword_engine == "tantivy":
        yield "keyword_index", lambda: [checks.keyword_index(use.indexer_reports.all())]
    if broker is not None:
        yield "broker_visibility_timeout", check_broker
        yield "broker_eviction", lambda: [examine_stores.eviction("broker_eviction", broker)]
    yield "redis_eviction", lambda: [examine_stores.eviction("redis_eviction", use.quick_redis)]
    yield "installation", lambda: [examine_stores.installation(use)]
    yield "recognition", lambda: [checks.recognition(use.settings.ocr_languages, recognition_flaw(use.settings))]
    yield "deletions", lambda: [examine_stores.deletions(use)]
    yield "result_expiry", lambda: [result_expiry(settings, app)]
    yield "store_space", lambda: [examine_stores.store_space(examine_stores.full_stores(use))]
    yield "standbys", check_standbys
    yield "disk_space", lambda: [examine_stores.disk_space(use)]
    yield "circuits", lambda: [examine_stores.circuits(use)]
    yield "connections:mysql", lambda: [examine_stores.mysql_connections(use)]
    yield "connections:postgresql", lambda: [examine_stores.postgres_connections(use)]
    yield "schema", lambda: [examine_stores.schema(use)]
    yield "servers", lambda: [checks.servers(examine_stores.server_versions(use) | broker_version(app))]
    yield "vectors", lambda: examine_stores.vectors(use)
    yield "model", lambda: examine_stores.models(use)
    yield "fulltext", lambda: [examine_stores.fulltext(use)]
    yield "mysql_packet", lambda: [examine_stores.packet(use)]
    yield "clock:mysql", lambda: [checks.clock("mysql", examine_stores.mysql_skew(use))]
    yield "clock:postgres", lambda: [checks.clock("postgres", examine_stores.postgres_skew(use))]
    yield "clock:redis", lambda: [checks.clock("redis", examine_stores.redis_skew(use))]
    yield "clock:workers", lambda: process_clocks(replies(), use.heartbeats.skews())
    yield "flower", lambda: [checks.flower(flower_facts(settings.flower_url))]


def _carry_out(name: str, check: Check) -> list[CheckResult]:
    try:
        return check()
    except (PipelineError, *_BROKER_ERRORS) as error:
        reason = str(error) if isinstance(error, PipelineError) else type(error).__name__
        log.warning("check_not_run", check=name, error=type(error).__name__)
        advice = "see the gateway's log event check_not_run"
        detail = f"could not be asked: {reason}"
        return [CheckResult(check=name, severity=Severity.FAILED, detail=detail, advice=advice)]


def _greet_broker(app: Celery) -> str:
    """Check an AMQP broker as processes do at their start; return its version."""
    check_broker(app)
    return " ".join(f"{name} {version}" for name, version in broker_version(app).items())


def _write_to(client: redis.Redis, at: Location) -> str:
    with redis_errors(at):
        ping_redis(client)
    return "it takes writes and messages"


def result_expiry(settings: Settings, app: Celery = producer) -> CheckResult:
    """Check that Celery keeps the parts of a chord long enough."""
    expires = app.conf.result_expires
    seconds = expires.total_seconds() if hasattr(expires, "total_seconds") else expires
    return checks.expiry(seconds, deadline_s=settings.query_deadline_ms / 1000)


def process_clocks(workers: Sequence[WorkerFacts], signs: Mapping[str, float]) -> list[CheckResult]:
    """Report the process whose clock differs most from ours, in one line for all. ``signs``: skews by signs of life, which
    are less exact than a worker's reply."""
    skews = {**signs, **{worker.name: worker.skew_s for worker in workers if worker.skew_s is not None}}
    if not skews:
        return []
    name, skew_s = max(skews.items(), key=lambda skew: abs(skew[1]))
    return [checks.clock(name if abs(skew_s) >= checks.SKEW_WARNING_S else "workers", skew_s)]


def known_workers(replies: Sequence[WorkerFacts], heartbeats: Sequence[WorkerHeartbeat]) -> list[WorkerFacts]:
    """Merge the workers that replied with those that have a heartbeat."""
    workers = {heartbeat.name: facts_of(heartbeat) for heartbeat in heartbeats}
    for reply in replies:
        beat = workers.get(reply.name)
        workers[reply.name] = replace(reply, broker=beat.broker) if beat else reply
    return [facts for _, facts in sorted(workers.items())]


def ask_every_worker(
    app: Celery = producer, *, expected: Collection[str] = (), clock: Callable[[], float] = time.time
) -> list[WorkerFacts]:
    """Return each worker's reply within two seconds, or a little longer while one of ``expected`` has not replied.

    Raises OSError and the broker's own errors.
    """
    replies: dict[str, tuple[dict[str, Any], float]] = {}  # with the time of the reply
    asked_at = clock()

    def receive(reply: dict[str, Any]) -> None:
        replies.update({name: (facts, clock()) for name, facts in reply.items()})

    # Open a new connection: pooled ones may date from before a restart of the broker.
    with app.connection_for_write() as connection, amqp_errors(connection):
        connection.ensure_connection(max_retries=1, interval_start=0, interval_step=0)
        ask = partial(app.control.broadcast, _COMMAND, reply=True, callback=receive, connection=connection)
        ask(timeout=_WORKERS_S)
        if not replies or not replies.keys() >= set(expected):
            asked_at = clock()
            ask(timeout=2 * _WORKERS_S)
    return [_facts(name, facts, asked_at, replied_at) for name, (facts, replied_at) in sorted(replies.items())]


def _facts(name: str, facts: dict[str, Any], asked_at: float, replied_at: float) -> WorkerFacts:
    return WorkerFacts(
        name=name,
        queues=tuple(facts["queues"]),
        version=facts["version"],
        celery=facts["celery"],
        kombu=facts["kombu"],
        skew_s=distance(facts["now"], asked_at, replied_at),
        visibility_timeout_s=facts["visibility_timeout_s"],
        task_time_limit_s=facts["task_time_limit_s"],
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
    resolved = _resolved(host)
    elsewhere: list[str] = []
    if all(ip_address(address).is_loopback for address in resolved):
        others = (own_addresses or _own_addresses)()
        elsewhere = [address for address in others if _status(_at(address, port), path="/healthcheck") == 200]
    return FlowerFacts(
        url=url,
        status=status,
        public=tuple(address for address in [*resolved, *elsewhere] if ip_address(address).is_global),
        elsewhere=tuple(address for address in elsewhere if not ip_address(address).is_global),
    )


def _status(url: str, *, path: str = "/") -> int | None:
    try:
        return httpx.get(url.rstrip("/") + path, timeout=_FLOWER_S, trust_env=False).status_code
    except httpx.HTTPError:
        return None


def _at(address: str, port: int) -> str:
    return f"http://[{address}]:{port}" if ":" in address else f"http://{address}:{port}"


def _resolved(host: str) -> list[str]:
    try:
        return sorted({str(entry[4][0]) for entry in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)})
    except OSError:
        return []


def _own_addresses() -> list[str]:
    """Return this machine's addresses by its own name, without loopback."""
    return [address for address in _resolved(socket.gethostname()) if not ip_address(address).is_loopback]


router = APIRouter(tags=["operation"], dependencies=[Depends(require_operator)])


@router.get(
    "/v1/doctor", **route("Examine the installation", Diagnosis, "The checks, and advice for each that failed.")
)
async def doctor(gateway: CurrentGateway) -> Response:
    """Check broker timeouts, eviction, result expiry, vectors against the settings, clocks, queues without a worker,
    worker versions, the last sweep, Flower. Takes about three seconds, as every worker has two to answer. Contains no
    tenant's data; takes the installation's own key or one with the scope `operator`. `docs/watch.md` explains each
    check."""
    run = partial(examine, gateway.quick, gateway.broker_redis, gateway.settings)
    findings = await gateway.run_heavy(run, watched_s=gateway.probes.watched_s(), lane=gateway.lane.facts)
    ok = all(finding.severity is not Severity.FAILED for finding in findings)
    return json_response({"ok": ok, "findings": [shown(Finding, finding) for finding in findings]})
