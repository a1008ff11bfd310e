"""Announce the end and the progress of jobs to the callers that wait for them or follow them."""

import time
from collections.abc import Callable

import redis
import structlog

from pipeline.database.engines import redis_errors
from pipeline.outages import OutagePause, tolerate_outage
from pipeline.query.query_store import announce_job
from pipeline.query.wake_names import WAKE_CHANNEL, wake_name
from pipeline.records import JobId, TenantId

log = structlog.get_logger(__name__)

_SILENT_S = 5.0  # after Redis did not answer: followers read the job at intervals meanwhile


class JobNotifications:
    """Announcements by one process; thread-safe, never raises. A lost one only delays: followers also read at intervals,
    and at most every 0.3 s however many announcements there are."""

    def __init__(self, client: redis.Redis, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._redis = client
        self._silence = OutagePause(_SILENT_S, clock=clock)

    def ended(self, tenant_id: TenantId, job_id: JobId) -> None:
        """Wake callers that wait for the end of the job or follow it."""
        with tolerate_outage(log.warning, "job_end_not_announced", job_id=job_id):
            announce_job(self._redis, tenant_id, job_id)

    def progressed(self, tenant_id: TenantId, job_id: JobId) -> None:
        """Wake callers that follow the job; no call is made for a while after an outage."""
        if not self._silence.is_over:
            return
        with self._silence.after_outage(log.info, "job_progress_not_announced"), redis_errors():
            self._redis.publish(WAKE_CHANNEL, wake_name("progress", tenant_id, job_id))
