"""The outbox: messages to endpoints, written in the transaction of their event and sent afterwards."""

import uuid
from collections.abc import Sequence
from typing import Any

from pipeline.database.rows import TenantStore, as_utc, now, to_json
from pipeline.database.statements import sql
from pipeline.jobs.job_view_store import JobViews
from pipeline.jobs.job_views import Snapshot
from pipeline.records import ItemState, JobId
from pipeline.webhooks.endpoint import Event

# The namespace of version-5 UUIDs under which the ids of messages are derived.
_MESSAGE_IDS = uuid.UUID("0d4f6a5c-54a5-4f0e-9b0e-2f2a7f0b6c11")


class Outbox(TenantStore):
    """One tenant's messages to its endpoints."""

    def job_ended(self, job_id: JobId) -> int:
        """Write messages on the end of this job, in the transaction that ends it; return their number."""
        if not self._subscribed(None):
            return 0
        job = JobViews(self._connection, self._tenant_id).snapshot(job_id, reasons=False)
        return self._announce(job, Event(f"job.{job.status}")) if job else 0

    def job_progressed(self, job_id: JobId) -> int:
        """Write messages on this job's progress, once per revision; they replace unsent ones."""
        job = JobViews(self._connection, self._tenant_id).snapshot(job_id, reasons=False)
        if job is None or job.finished_at is not None:
            return 0
        messages = self._announce(job, Event.PROGRESS)
        if messages:
            self._run(_DELETE_OVERTAKEN, job=job_id, revision=f"%-{job.revision}")
        return messages

    def test(self, webhook_id: str) -> str:
        """Write a test message to this endpoint, and return its id."""
        message_id = f"msg_{uuid.uuid4().hex}"
        self._write([(webhook_id, message_id)], Event.TEST, None, {"webhook_id": webhook_id})
        return message_id

    def _announce(self, job: Snapshot, event: Event) -> int:
        messages = [(webhook_id, self._message_id(webhook_id, job)) for webhook_id in self._subscribed(event)]
        return self._write(messages, event, job.job_id, _data(job))

    def _subscribed(self, event: Event | None) -> list[str]:
        rows = self._run("SELECT webhook_id, events FROM webhooks WHERE tenant_id = :tenant AND disabled_at IS NULL")
        return [webhook_id for webhook_id, events in rows if event is None or event in events.split()]

    def _message_id(self, webhook_id: str, job: Snapshot) -> str:
        """Return a stable id of the message for this revision of the job."""
        name = "\x1f".join((self._tenant_id, webhook_id, job.job_id))
        return f"msg_{uuid.uuid5(_MESSAGE_IDS, name).hex}-{job.revision}"

    def _write(self, messages: Sequence[tuple[str, str]], event: Event, job_id: JobId | None, data: Any) -> int:
        if not messages:
            return 0
        moment = now()
        body = to_json({"type": event.value, "timestamp": as_utc(moment).isoformat(), "data": data})
        return self._connection.exec_driver_sql(
            "INSERT IGNORE INTO webhook_deliveries (tenant_id, webhook_id, delivery_id, event, job_id, body, state,"
            " next_attempt_at, created_at) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)",
            [
                (self._tenant_id, webhook_id, message_id, event.value, job_id, body, "pending", moment, moment)
                for webhook_id, message_id in messages
            ],
        ).rowcount


def _data(job: Snapshot) -> dict[str, Any]:
    """Return ids and counters; a message never holds document text."""
    return {
        **{name: getattr(job, name) for name in ("job_id", "namespace", "status", "total")},
        **{state.value: job.items[state] for state in (ItemState.SUCCEEDED, ItemState.FAILED, ItemState.CANCELLED)},
        "chunks": job.chunks,
        "stages": dict(job.stages),
        "created_at": job.created_at.isoformat(),
        "finished_at": job.finished_at.isoformat() if job.finished_at else None,
    }


_DELETE_OVERTAKEN = sql(
    "DELETE FROM webhook_deliveries WHERE tenant_id = :tenant AND job_id = :job AND event = 'job.progress'"
    " AND state = 'pending' AND lease_until IS NULL AND delivery_id NOT LIKE :revision"
)
