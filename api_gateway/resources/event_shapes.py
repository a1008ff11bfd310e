"""What is sent while a job is followed."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from api_gateway.live.job_feed import View
from api_gateway.resources.shapes import Shape, shown
from pipeline.jobs.signal_store import Failure
from pipeline.query.request import Envelope
from pipeline.records import ItemState


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


class QueryStep(Shape):
    """`data` of `queued`, `running` and `cancelled`; that of `finished` is the answer."""

    query_id: str
    status: Literal["queued", "running", "cancelled"]


class ChannelAnswered(Shape):
    """`data` of `channel`. `hits`: how many chunks it proposes. `code`: why it has none, where something went wrong."""

    query_id: str
    channel: str
    status: Literal["ok", "failed", "timeout"]
    hits: int
    elapsed_ms: float | None
    code: str | None


def channel_answered(query_id: str, envelope: Envelope, elapsed_ms: float | None) -> dict[str, Any]:
    """What a channel brought."""
    return {
        "query_id": query_id,
        "channel": envelope.channel,
        "status": envelope.status,
        "hits": len(envelope.chunk_ids),
        "elapsed_ms": elapsed_ms,
        "code": envelope.code,
    }


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
    return shown(ItemFailed, failure)
