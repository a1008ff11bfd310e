"""The installation over time, and its workers: figures without ids of any tenant."""

import asyncio
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Final

import structlog
from fastapi import APIRouter, Depends, Path, Response

from api_gateway.gateway import Gateway
from api_gateway.http.auth import require_operator
from api_gateway.http.fields import Shape, shown
from api_gateway.http.problems import Problem
from api_gateway.http.responses import json_response
from api_gateway.http.route_descriptions import Parameter, route
from api_gateway.live.readiness import shown_silent
from api_gateway.resources.route_parts import CompleteList, CurrentGateway, deleted
from chordwise.contract.process import RunningWork, SilentProcess, WorkerState
from pipeline.administration.read_metrics import read_queues
from pipeline.database.worker_heartbeats import ProcessState, WorkerHeartbeat
from pipeline.errors import PipelineError
from pipeline.maintenance.record_history import read_history, record_history
from pipeline.metrics.definitions import QueueDepth
from pipeline.metrics.history import RANGES, HistoryRange
from pipeline.resources import Resources
from workers.names import Queue
from workers.producer import waiting_messages

log = structlog.get_logger(__name__)

_LOOK_EVERY_S: Final = 15.0
_QUERY_QUEUES: Final = frozenset({Queue.RECALL.value, Queue.ANSWER.value, Queue.RERANK.value})


class HistoryPage(Shape):
    """Figures of the whole installation in steps of `step_s` seconds. `at`: the end of each step, in seconds since the
    epoch. `series`: one value for each step; null where nothing was recorded, or where a share has no queries."""

    range: HistoryRange
    step_s: int
    at: list[float]
    series: dict[str, list[float | None]]


class WorkerList(CompleteList[WorkerState]):
    """The workers with a heartbeat in the last seconds, by name. `silent`: processes of every role that neither give signs
    of life nor ended in order, until they are back, dismissed, or forgotten after a week."""

    silent: list[SilentProcess]


router = APIRouter(tags=["operation"])

Host = Annotated[str, Path(min_length=1, max_length=256, description="As `silent` names it.")]
ProcessName = Annotated[str, Path(min_length=1, max_length=256, description="As `silent` names it.")]
Range = Annotated[HistoryRange, Parameter(alias="range", description="The time up to now.")]


@router.get(
    "/v1/metrics/history", **route("Metrics over time", HistoryPage, "One value a step for each series.", 422, 503)
)
async def history(gateway: CurrentGateway, span: Range = "1h") -> Response:
    """Return queries, latency, shares of degraded, failed and empty answers, ingestion, waiting times, backlog, tokens
    and sizes of the stores over time, as gateways record them once a minute: 24 hours by the minute, 7 days by ten
    minutes. Needs no key, like `/v1/metrics`."""
    ends, series = await gateway.run(read_history, gateway.quick, span, now=time.time())
    return json_response({"range": span, "step_s": RANGES[span].step_s, "at": ends, "series": series})


@router.get(
    "/v1/workers",
    **route("List the workers", WorkerList, "Every worker that is running."),
    dependencies=[Depends(require_operator)],
)
async def workers(gateway: CurrentGateway) -> Response:
    """Return each worker with its host, version, queues, latest heartbeat, and what it runs. A killed or frozen worker
    moves to `silent` after three seconds. Takes the installation's own key or one with the scope `operator`."""
    heartbeats, processes = await gateway.run(_workers_and_processes, gateway.quick)
    now = time.time()
    entries = [
        shown(
            WorkerState,
            heartbeat,
            started_at=datetime.fromtimestamp(heartbeat.started_at, UTC),
            last_seen=datetime.fromtimestamp(heartbeat.beat_at, UTC),
            running=[
                shown(RunningWork, task, running_s=round(max(0.0, heartbeat.beat_at - task.started_at), 1))
                for task in heartbeat.running
            ],
        )
        for heartbeat in heartbeats
    ]
    beating = {(heartbeat.host, heartbeat.name) for heartbeat in heartbeats}
    silent = [
        shown_silent(state, now)
        for state in processes
        if state.is_silent or ("@" in state.sign.name and (state.sign.host, state.sign.name) not in beating)
    ]
    return json_response({"data": entries, "next_cursor": None, "silent": silent})


def _workers_and_processes(use: Resources) -> tuple[list[WorkerHeartbeat], list[ProcessState]]:
    processes = use.heartbeats.processes()
    return use.heartbeats.all(), processes


@router.delete(
    "/v1/workers/{host}/{name}",
    **route("Dismiss a silent process", None, "It is forgotten.", 404),
    dependencies=[Depends(require_operator)],
)
async def dismiss(gateway: CurrentGateway, host: Host, name: ProcessName) -> Response:
    """Forget a silent process that is not to come back, as `silent` of `GET /v1/workers` names it. One that gives signs of
    life cannot be dismissed. Takes the installation's own key or one with the scope `operator`."""
    done = await gateway.run(partial(gateway.quick.heartbeats.dismiss, host=host, name=name))
    return deleted(done, Problem(404, "process_not_silent", f"No silent process {name} is known on host {host}."))


async def keep_history(gateway: Gateway) -> None:
    """Record the installation's figures for as long as the gateway runs."""
    while True:
        try:
            await gateway.run(record_history, gateway.quick, lambda: _depths(gateway), query_queues=_QUERY_QUEUES)
        except PipelineError as error:
            log.info("history_not_recorded", code=error.code)
        except Exception:  # the history must go on
            log.exception("history_bug")
        await asyncio.sleep(_LOOK_EVERY_S)


def _depths(gateway: Gateway) -> Mapping[str, QueueDepth]:
    queues = [queue.value for queue in Queue]
    return read_queues(gateway.quick, gateway.broker_redis, queues, count_messages=waiting_messages)
