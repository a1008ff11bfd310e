"""The processes of an installation."""

from dataclasses import dataclass
from datetime import datetime

from chordwise.contract.record import Answered, Complete


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding(Complete):
    """One check; `advice` says what to do, and is empty if all is well. `cause`: the failing check from which this result
    follows, empty if it stands for itself; a check of severity `unknown` cannot be judged while its cause lasts."""

    check: str
    severity: str
    detail: str = ""
    advice: str = ""
    cause: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis(Answered):
    """All checks. `ok` is false if any failed; warnings do not count."""

    ok: bool
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SilentProcess(Answered):
    """A process that has given no sign of life `since` then although it did not end in order: killed, frozen, or cut off.
    `served`: its queues, or `gateway`, `indexer`, `clock`."""

    host: str
    name: str
    since: datetime
    served: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningWork(Answered):
    """A task that a worker runs. `work_id`: of its job, query or computation."""

    task: str
    work_id: str
    running_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerState(Answered):
    """One worker with its latest heartbeat. `running`: up to 16 tasks that it runs, those that run longest first, of `busy`
    in all; `slots`: how many it can run at a time, 0 if unknown."""

    name: str
    host: str
    pid: int
    queues: tuple[str, ...]
    version: str
    celery: str
    started_at: datetime
    last_seen: datetime
    running: tuple[RunningWork, ...]
    busy: int
    slots: int
