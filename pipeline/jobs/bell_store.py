"""Wake callers that follow a job: cheap enough after every batch, and silent while Redis is away."""

import threading
import time
from collections.abc import Callable

import redis
import structlog
from cachetools import TTLCache

from pipeline.database.engines import redis_errors
from pipeline.outages import OutagePause, tolerate_outage
from pipeline.query.query_store import announce_job
from pipeline.query.wake_names import WAKE_CHANNEL, wake_name
from pipeline.records import JobId, TenantId

log = structlog.get_logger(__name__)

SHORTEST_PAUSE_S = 0.25  # between two news of one job's progress
_SILENT_S = 5.0  # after Redis did not answer: followers look by themselves meanwhile
_MOST_JOBS = 1000


class JobBells:
    """One process's bells; thread-safe, never raises. A missed bell is harmless: listeners also poll."""

    def __init__(self, client: redis.Redis, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._redis = client
        self._rung: TTLCache[JobId, None] = TTLCache(_MOST_JOBS, SHORTEST_PAUSE_S, timer=clock)
        self._lock = threading.Lock()
        self._silence = OutagePause(_SILENT_S, clock=clock)

    def ended(self, tenant_id: TenantId, job_id: JobId) -> None:
        """Wake callers that wait for the end of the job or follow it."""
        with self._lock:
            self._rung.pop(job_id, None)
        with tolerate_outage(log.warning, "job_end_not_announced", job_id=job_id):
            announce_job(self._redis, tenant_id, job_id)

    def progressed(self, tenant_id: TenantId, job_id: JobId, *, always: bool = False) -> None:
        """Wake callers that follow the job, unless they were woken a moment ago; ``always``: in any case."""
        if not self._silence.is_over:
            return
        with self._lock:
            if not always and job_id in self._rung:
                return
            self._rung[job_id] = None
        with self._silence.after_outage(log.info, "job_progress_not_announced"), redis_errors():
            self._redis.publish(WAKE_CHANNEL, wake_name("progress", tenant_id, job_id))
