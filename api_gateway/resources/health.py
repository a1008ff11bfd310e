"""Liveness, readiness and metrics. They need no key and show no tenant's data."""

import threading
from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Final, Literal

import structlog
from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, Metric, generate_latest

from api_gateway.gateway import Gateway
from api_gateway.http.fields import Shape
from api_gateway.http.metrics import (
    FLEET,
    LANE_PROCESSES,
    LANE_QUERIES,
    LEDGER,
    PLACES_AWAITED,
    PLACES_HELD,
    STORES_MATCH,
    STORES_UP,
    STREAMS,
    VECTOR_INDEXES,
    WAITERS,
)
from api_gateway.http.responses import json_response
from api_gateway.http.route_descriptions import Parameter, route
from api_gateway.live.readiness import answering, readiness
from api_gateway.resources.route_parts import CurrentGateway
from chordwise.contract.process import Readiness
from pipeline.administration.read_metrics import read_ledger, read_vector_indexes
from pipeline.errors import PipelineError, WrongInstallation
from pipeline.outages import tolerate_outage
from pipeline.query.places import WorkKind
from workers.producer import waiting_messages


class Alive(Shape):
    """The process answers. `installation_id` is that of the stores it started with."""

    status: Literal["ok"]
    installation_id: str | None


router = APIRouter(tags=["operation"])

log = structlog.get_logger(__name__)

_PAGE = threading.Lock()
_MOST_NAMES: Final = 50

Names = Annotated[
    list[str] | None,
    Parameter(alias="name[]", max_length=_MOST_NAMES, description="Only the series of these names; all without it."),
]


@router.head("/healthz", include_in_schema=False)
@router.get("/healthz", **route("Is it alive?", Alive, "The process answers."))
async def healthz(gateway: CurrentGateway) -> Response:
    """Return at once, without using any store. `installation_id` tells two gateways apart: it is that of the stores
    with which this one started."""
    return json_response({"status": "ok", "installation_id": gateway.installation_id})


@router.get(
    "/readyz",
    **route("Can it serve?", Readiness, "Documents and queries can be served.", also={503: "A required check fails."}),
)
async def readyz(gateway: CurrentGateway) -> Response:
    """Return every check by name, each within 1.5 seconds and with its age. 503 unless MySQL, PostgreSQL, Redis, the
    broker and the schema are well and a worker listens to each of `ingest`, `recall` and `answer`; `queue:rerank`,
    `queue:upkeep`, `worker_versions`, `worker_brokers`, `clocks` (of processes), `hosts`, `workers_silent` (processes
    that vanished), `last_sweep`, `store_space` (stores that refused a write as full), `disk_space`, `circuits` (parts
    left out of queries), `keyword_index` (the indexers; not with the engine `mysql`), `standbys` (servers that could take
    over, where a store has several) and `query_lane` (this gateway's processes for queries, once it has any)
    are named in `failing` and decide nothing.
    """
    answer = await readiness(gateway)
    return json_response(answer, status=200 if answer["status"] == "ready" else 503)


@router.get(
    "/v1/metrics",
    **route("Metrics", None, "Prometheus text format.", 422, content={"text/plain": {"schema": {"type": "string"}}}),
)
async def metrics(gateway: CurrentGateway, names: Names = None) -> Response:
    """Return queries, channels and their times over all processes, requests by route and status, backlog and queue age,
    dead letters, alignment: docs/metrics.md. Labels hold no ids. Answers within seconds with the figures of the stores
    that answer; `chordwise_store_up` is 0 for the others."""
    WAITERS.set(gateway.wakes.count)
    STREAMS.set(gateway.following.count)
    lane = gateway.lane.facts
    LANE_PROCESSES.set(0 if lane is None else lane.ready)
    LANE_QUERIES.set(0 if lane is None else lane.queries)
    for pool, count in gateway.admission.waiting.items():
        PLACES_AWAITED.labels(pool).set(count)
    page = await gateway.run(_page, gateway, names, await answering(gateway.probes))
    return Response(page, headers={"Content-Type": CONTENT_TYPE_LATEST})


class _Chosen(CollectorRegistry):
    """The series of some names. A restricted registry of the library omits metrics that had no series at the start."""

    def __init__(self, names: Collection[str]) -> None:
        super().__init__()
        self._names = frozenset(names)

    def collect(self) -> Iterator[Metric]:
        """Yield each metric that has such series, with these alone."""
        for metric in REGISTRY.collect():
            samples = [sample for sample in metric.samples if sample.name in self._names]
            if samples:
                chosen = Metric(metric.name, metric.documentation, metric.type, metric.unit)
                chosen.samples = samples
                yield chosen


def _page(gateway: Gateway, names: Collection[str] | None, up: Mapping[str, bool]) -> bytes:
    """Render metrics, in a thread: thousands of series take a tenth of a second of the processor."""
    with _PAGE:  # one page at a time uses the figures
        for store, answers in up.items():
            STORES_UP.labels(store).set(answers)
        _read_mysql(gateway, answers=up["mysql"])
        _read_postgres(gateway, answers=up["postgres"])
        _compare(gateway, answer=up["mysql"] and up["postgres"] and up["redis"])
        _read_redis(gateway, answers=up["redis"])
        return generate_latest(REGISTRY if names is None else _Chosen(names))


def _read_mysql(gateway: Gateway, *, answers: bool) -> None:
    """Read the backlog and the reconciler's findings; of the latter, the last values stay while MySQL is away."""
    LEDGER.clear()
    if not answers:
        return
    with tolerate_outage(log.warning, "stores_not_read"):
        LEDGER.take(*read_ledger(gateway.quick))


def _read_postgres(gateway: Gateway, *, answers: bool) -> None:
    """Read the vector indexes."""
    VECTOR_INDEXES.take(())
    if not answers:
        return
    with tolerate_outage(log.warning, "stores_not_read"):
        VECTOR_INDEXES.take(read_vector_indexes(gateway.quick))


def _compare(gateway: Gateway, *, answer: bool) -> None:
    """Compare the installations of the stores; a comparison of an earlier scrape does not count."""
    STORES_MATCH.set(float("nan"))
    if not answer:
        return
    try:
        gateway.quick.installation.confirm_redis()
        STORES_MATCH.set(1)
    except WrongInstallation:
        STORES_MATCH.set(0)
    except PipelineError as error:
        log.warning("installation_not_compared", code=error.code)


def _read_redis(gateway: Gateway, *, answers: bool) -> None:
    if not answers:
        FLEET.clear()
        return
    gateway.quick.meter.flush()  # this gateway's own counts must be as recent as the page
    gateway.answer_cache.use.meter.flush()
    gateway.resources.meter.flush()
    try:
        FLEET.read(gateway.quick, gateway.broker_redis, count_messages=waiting_messages)
        for pool, count in gateway.quick.places.held(tuple(WorkKind)).items():
            PLACES_HELD.labels(pool).set(count)
    except PipelineError as error:
        log.warning("metrics_not_read", code=error.code)
