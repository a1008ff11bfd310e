"""What a worker says of itself when the doctor asks all of them at once."""

from __future__ import annotations

import functools
import time
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import celery
import kombu
from celery.worker.control import control_command, inspect_command

from workers.query_events import events

COMMAND = "chordwise_facts"


@functools.cache
def installed_version() -> str:
    """The version of this installation."""
    try:
        return version("chordwise")
    except PackageNotFoundError:
        return "0"


@inspect_command(name=COMMAND)
def chordwise_facts(state: Any) -> dict[str, Any]:
    """Version, clock (seconds since the epoch), queues, and the times that must fit together."""
    configured = state.app.conf
    transport = configured.broker_transport_options
    return {
        "version": installed_version(),
        "celery": celery.__version__,
        "kombu": kombu.__version__,
        "now": time.time(),
        "queues": sorted(queue.name for queue in state.consumer.task_consumer.queues),
        # None: nothing is handed to somebody else, as nothing is written down of what was taken.
        "visibility_timeout_s": transport.get("visibility_timeout") if transport.get("ack_emulation", True) else None,
        "task_time_limit_s": configured.task_time_limit,
    }


@control_command(name="query_events", args=[("percent", float)], signature="[PERCENT]")
def show_queries(_state: Any, percent: float | str | None = None, **_: Any) -> dict[str, Any]:
    """Set the percentage, 0 to 100, of unremarkable queries that Flower shows until this worker ends; without one,
    report it."""
    if percent is not None:
        try:
            wanted = float(percent)
        except ValueError:
            wanted = -1.0
        if not 0 <= wanted <= 100:
            return {"error": f"the share is a number of percent from 0 to 100, not {percent}"}
        events.percent = wanted
    return {"ok": f"{events.percent:g} % of queries are shown"}
