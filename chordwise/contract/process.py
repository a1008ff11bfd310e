"""The processes of an installation."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Final, Literal

from chordwise.contract.record import Answered, Complete

RESTART: Final = "see whether it hangs or was killed, and restart it"
_SERVERS = ("mysql", "postgres", "redis", "broker")

# The advice for a failed check by its name. The server's diagnosis gives it; /readyz does not, so `chordwise doctor` adds it.
REMEDIES: Final[Mapping[str, str]] = MappingProxyType(
    {name: f"see whether it runs or hangs, and compare CHORDWISE_{name.upper()}_URL of the server" for name in _SERVERS}
    | {
        "workers_silent": f"{RESTART}; chordwise workers dismiss HOST NAME forgets one that is not to come back",
        "worker_versions": (
            "restart these workers with the gateway's versions: messages of one version need not suit another"
        ),
        "worker_brokers": (
            "compare CHORDWISE_BROKER_URL: a worker at another broker never gets what the gateway sends"
        ),
        "last_sweep": (
            "see that a clock runs, that a worker listens to upkeep, and what its log says of the task upkeep.sweep"
        ),
        "standbys": "start the other servers of its address, and see that they follow it",
        "disk_space": "free space or enlarge the disk: a full one refuses writes",
        "store_space": (
            "send refused uploads again; accepted documents are tried twelve times, then replay the dead letters"
        ),
        "circuits": "see the log event circuit_opened; a part is tried again by itself, and called once it answers",
        "query_lane": (
            "see the gateway's log events lane_process_ended and lane_process_not_started; is there memory for them?"
        ),
    }
)


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
class LostHost(Answered):
    """A host none of whose processes has given a sign of life `since` then. `served`: their queues, and `gateway`,
    `indexer`, `clock`."""

    host: str
    since: datetime
    served: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DependencyHealth(Answered):
    """One check. `required`: the gateway is not ready unless it is `ok`. `checked_at`: time of the result, `age_s`
    seconds before the answer. `latency_ms`: how long the dependency took, of checks that ask one. `timeout_s`: when the
    check gives up. `workers`: number of workers that consume a queue. `sweep_age_s`: seconds since the last sweep. `lost`:
    hosts that have vanished with all of their processes; a host is forgotten after a week, and one that ends in order at
    once. `silent`: processes that have vanished from hosts where others live, until they are back or dismissed. `cause`:
    the failing check from which this result follows; a check that cannot be judged because of it is `unknown`.
    `condition`: the state of a server that fails, as in "is full"."""

    status: Literal["ok", "warning", "down", "unknown"]
    required: bool
    checked_at: datetime
    age_s: float
    latency_ms: float | None = None
    detail: str | None = None
    workers: int | None = None
    sweep_age_s: float | None = None
    lost: tuple[LostHost, ...] | None = None
    silent: tuple[SilentProcess, ...] | None = None
    timeout_s: float | None = None
    cause: str | None = None
    condition: str | None = None

    @property
    def ok(self) -> bool:
        """Return whether the dependency can be used."""
        return self.status == "ok"


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness(Answered):
    """Readiness for documents and queries, check by check. `failing` names the causes: every check that is not `ok` and
    does not follow from another one, also those that do not make the gateway `not_ready`."""

    status: Literal["ready", "not_ready"]
    version: str
    checked_at: datetime
    failing: tuple[str, ...]
    dependencies: Mapping[str, DependencyHealth]

    @property
    def ready(self) -> bool:
        """Return whether requests can be served."""
        return self.status == "ready"


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
