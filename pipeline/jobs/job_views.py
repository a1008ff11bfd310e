"""Jobs, their items, failures and dead letters as their owner sees them, and the backlog of all tenants."""

from __future__ import annotations

import base64
import binascii
import enum
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from chordwise.contract.job import JobState
from chordwise.contract.job import JobStatus as JobStatus
from pipeline.records import FailureReason, ItemState, JobId

# A job may wait this long before it is worth a word; workers look for work more often than this.
PATIENCE = timedelta(seconds=5)


class WaitingReason(enum.StrEnum):
    """Reasons why an unfinished job makes no progress."""

    QUEUED_BEHIND_OTHERS = "queued_behind_others"  # starved: workers are busy with other tenants
    NO_WORKER = "no_worker"  # stalled: no worker has given a sign of life
    PAUSED = "paused"
    RETRYING = "retrying"  # everything left failed lately and is to be tried again later


def waiting_reason(
    *,
    paused: bool,
    running: int,
    queued: int,
    due_since: datetime | None,
    served_at: datetime | None,
    workers_seen: bool,
    now: datetime,
) -> WaitingReason | None:
    """Return why an unfinished job makes no progress, or None for one that is worked on, has nothing left, or has waited
    less than ``PATIENCE``. ``due_since``: when its oldest due item became due. ``workers_seen``: one was seen lately."""
    if running or not queued:
        return None
    if paused:
        return WaitingReason.PAUSED
    if due_since is None:
        return WaitingReason.RETRYING
    if now - max(due_since, served_at or due_since) < PATIENCE:
        return None
    return WaitingReason.QUEUED_BEHIND_OTHERS if workers_seen else WaitingReason.NO_WORKER


# Differs whenever something has happened to a job, but for steps in the middle of a batch.
Fingerprint = tuple[int, datetime | None]
BACKLOG_STATES = ("due", "later", "running", "paused")


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot(JobState):
    """A job with counters of one moment. ``stages``: the items that have finished each step."""

    job_id: JobId
    revision: int
    items: Mapping[ItemState, int]

    @property
    def ended(self) -> int:
        """The number of final items."""
        return sum(self.items[state] for state in (ItemState.SUCCEEDED, ItemState.FAILED, ItemState.CANCELLED))


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class FailurePosition:
    """A reader's position in the failures of a job, inclusive. The default is the beginning."""

    revision: int = 0
    ordinal: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterFilter:
    """A selection of dead letters; without any field, all."""

    job_id: JobId | None = None
    namespace: str | None = None
    code: str | None = None
    reason: FailureReason | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerPosition:
    """The position of a dead letter in the ledger."""

    job_id: JobId
    ordinal: int

    def to_id(self) -> str:
        """Return the opaque id of the dead letter: letters and digits, because a hyphen in front would be an option."""
        packed = uuid.UUID(self.job_id).bytes + self.ordinal.to_bytes(4, "big")
        return base64.b32hexencode(packed).decode().lower()

    @classmethod
    def from_id(cls, letter_id: str) -> LedgerPosition | None:
        """Return the position that an id names, None for a malformed id."""
        try:
            packed = base64.b32hexdecode(letter_id.upper())
        except (ValueError, binascii.Error):
            return None
        if len(packed) != 20:
            return None
        return cls(job_id=JobId(str(uuid.UUID(bytes=packed[:16]))), ordinal=int.from_bytes(packed[16:], "big"))


# Refusals whose cause is not in the bytes: a server, a limit that an operator may raise, or a model that may be changed.
MENDED_ELSEWHERE = (
    "fetch_refused", "fetch_failed", "parser_timeout", "parser_memory", "cutting_too_slow", "cutting_memory",
    "embedder_refused",
)  # fmt: skip


def is_retryable(reason: FailureReason, code: str, *, available: bool) -> bool:
    """Return whether the same upload may succeed at another attempt. ``available``: its bytes are stored."""
    return available and (reason is not FailureReason.REJECTED or code in MENDED_ELSEWHERE)


def advice_on(reason: FailureReason, code: str, *, available: bool) -> str:
    """Return one sentence on the remedy of a dead letter's owner."""
    if is_retryable(reason, code, available=available):
        return _RETRY_ADVICE.get(code) or _REASON_ADVICE[reason]
    return _NEW_UPLOAD_ADVICE if available else _NO_BYTES_ADVICE


_NEW_UPLOAD_ADVICE = "The same upload fails again: upload a corrected document under this id, or delete the letter."
_NO_BYTES_ADVICE = "The upload is no longer stored: upload the document again, or delete the letter."
_REASON_ADVICE = {
    FailureReason.REJECTED: "Raise the limit that the sentence names or split the document, then replay it.",
    FailureReason.GAVE_UP: "Replay it once the service that the sentence names answers again.",
    FailureReason.BUG: "Replay it after an update, and report the error with the log line of the worker.",
}
_RETRY_ADVICE = {
    "fetch_refused": "Replay it once the operator allows the address, or upload the document itself.",
    "fetch_failed": "Replay it once the address delivers the document, or upload the document itself.",
    "embedder_refused": "Replay it once the embedding model accepts the text, or upload a changed document.",
    "worker_lost": "No worker survived the document: replay it on a machine with more memory, or split it.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerBacklog:
    """Open items and dead letters. ``due``: workable now; ``later``: waits for its next attempt; ``running``: held by a
    worker; ``paused``: in a paused job. ``oldest_s``: seconds in that state; for ``running`` since the last sign of
    life."""

    items: Mapping[str, int]
    oldest_s: Mapping[str, float]
    dead_letters: Mapping[str, int]


WINDOW_S = 30.0
_LEAST_S = 5.0
_LEAST_DONE = 10
_STEADY = 2.0  # how much faster one half of the sample may be than the other


# Items per second over the last 30 s at most, and the seconds until the rest is done at this rate.
Pace = tuple[float, float | None]


def pace(seen: Sequence[tuple[float, int]], *, remaining: int) -> Pace | None:
    """Return the pace from (seconds, ended items), oldest first; None below 5 s or 10 items, or if the halves of the
    sample differ by more than a factor of 2."""
    recent = [(at, done) for at, done in seen if seen[-1][0] - at <= WINDOW_S] if seen else []
    if len(recent) < 3:
        return None
    (first_at, first), (last_at, last) = recent[0], recent[-1]
    if last_at - first_at < _LEAST_S or last - first < _LEAST_DONE:
        return None
    rate = (last - first) / (last_at - first_at)
    middle_at, middle = min(recent[1:-1], key=lambda point: abs(point[0] - (first_at + last_at) / 2))
    halves = sorted([(middle - first) / (middle_at - first_at), (last - middle) / (last_at - middle_at)])
    steady = halves[0] > 0 and halves[1] / halves[0] <= _STEADY
    return rate, remaining / rate if steady else None
