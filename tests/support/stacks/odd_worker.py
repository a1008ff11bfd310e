"""A worker as it should not be: another version, a wrong clock, an impatient broker, and one queue alone.

Run as `python -m tests.support.stacks.odd_worker BROKER_URL QUEUE`.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from celery import Celery
from celery.worker.control import inspect_command
from kombu import Queue

AHEAD_S = 60.0
FACTS = {"version": "0.0.1", "celery": "5.0", "kombu": "5.0", "visibility_timeout_s": 20.0, "task_time_limit_s": 1800}


@inspect_command(name="chordwise_facts")
def odd_facts(state: Any) -> dict[str, Any]:
    queues = [queue.name for queue in state.consumer.task_consumer.queues]
    return {**FACTS, "queues": queues, "now": time.time() + AHEAD_S}


def main(broker: str, queue: str) -> None:
    app = Celery("odd", broker=broker)
    app.conf.update(task_queues=[Queue(queue)], worker_hijack_root_logger=False)
    app.worker_main(["worker", "-n", "odd@test", "--pool", "solo", "--without-gossip", "--without-mingle"])


if __name__ == "__main__":
    main(*sys.argv[1:])
