"""What is sent while a job is followed."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from api_gateway.following import View
from api_gateway.wire.shapes import Shape
from pipeline.records import ItemState
from pipeline.stores.job_signals import Failure


class JobProgress(Shape):
    """`data` of `progress` and `finished`. `rate`: documents a second lately; `eta_seconds`: until the end at that rate.
    Both are null while the recent past says too little about the future."""

    job_id: str
    namespace: str
    status: Literal["queued", "running", "succeeded", "partly_failed", "failed", "cancelled"]
    total: int
    queued: int
    running: int
    succeeded: int
    failed: int
    cancelled: int
    chunks: int
    stages: dict[str, int]
    waiting_reason: Literal["queued_behind_others", "no_worker", "paused", "retrying"] | None
    rate: float | None
    eta_seconds: int | None
    created_at: datetime
    updated_at: datetime
    finished_at: datetime | None
    paused_at: datetime | None


class ItemFailed(Shape):
    """`data` of `item_failed`."""

    document_id: str | None
    code: str
    detail: str | None
    pointer: str | None


def progress(view: View) -> dict[str, Any]:
    """How the job stands."""
    job, pace = view.job, view.pace
    eta_s = pace.eta_s if pace else None
    return {
        "job_id": job.job_id,
        "namespace": job.namespace,
        "status": job.status,
        "total": job.total,
        **{state.value: job.items[state] for state in ItemState},
        "chunks": job.chunks,
        "stages": dict(job.stages),
        "waiting_reason": job.waiting_reason,
        "rate": round(pace.rate, 2) if pace else None,
        "eta_seconds": None if eta_s is None else round(eta_s),
        "created_at": job.created_at,
        "updated_at": job.updated_at,
        "finished_at": job.finished_at,
        "paused_at": job.paused_at,
    }


def finished(view: View) -> dict[str, Any]:
    """How the job ended: the same words."""
    return progress(view)


def item_failed(failure: Failure) -> dict[str, Any]:
    """A document that failed."""
    return {
        "document_id": failure.document_id,
        "code": failure.code,
        "detail": failure.detail,
        "pointer": failure.pointer,
    }
