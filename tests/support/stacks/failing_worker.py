"""A worker whose tasks fail with somebody's text in the error, for what Flower then shows. Run with `celery -A`."""

from __future__ import annotations

import os

from celery import Celery

from workers.base import LoggedTask
from workers.names import Queue, TaskName

app = Celery("failing", broker=os.environ["CHORDWISE_REDIS_URL"])
app.config_from_object("celery_config")


@app.task(base=LoggedTask, name=TaskName.INGEST.value)
def fail(tenant_id: str, job_id: str) -> None:
    """As a bug in a parser would."""
    raise RuntimeError(f"cannot parse: {os.environ['PLANTED_TEXT']} {tenant_id} {job_id} {Queue.INGEST}")
