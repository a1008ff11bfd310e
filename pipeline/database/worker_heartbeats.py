"""Heartbeats of workers, the queues that nobody consumes, and the signs of life of every host's processes."""

import functools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Final
from urllib.parse import urlsplit

EVERY_S: Final = 1.0
EXPIRES_S: Final = 3.0
MOST_RUNNING: Final = 16  # tasks in one heartbeat, the oldest ones
SIGN_EVERY_S: Final = 5.0
SILENT_S: Final = 20.0  # a process without a sign for longer is silent, a host without any is lost
FORGOTTEN_S: Final = 7 * 86_400.0  # a silent process, unless it is back or dismissed before
MOST_SILENT: Final = 200  # remembered; the longest silent are forgotten first


@functools.cache
def installed_version() -> str:
    """Return the version of this installation."""
    try:
        return version("chordwise")
    except PackageNotFoundError:
        return "0"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningTask:
    """A task that a worker runs. ``work_id``: of its job, query or computation; ``started_at``: epoch seconds."""

    task: str
    work_id: str
    started_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskSpace:
    """The space of the disk under a folder. ``holds``: ``keyword_index``, or ``mysql``, ``postgres``, ``redis`` for the data
    of a server on this host."""

    holds: str
    free_bytes: int
    total_bytes: int

    @property
    def free_ratio(self) -> float:
        """Return the free share, 0 to 1."""
        return self.free_bytes / self.total_bytes if self.total_bytes else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSign:
    """A sign of life of a process. ``name``: unique on ``host``, the same after a restart. ``serves``: its queues, or
    ``gateway``, ``indexer``, ``clock``. ``disks``: of the folders that it writes."""

    host: str
    name: str
    serves: tuple[str, ...]
    disks: tuple[DiskSpace, ...] = ()

    @property
    def process_id(self) -> str:
        """Return an id that is unique in the installation."""
        return f"{self.host}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerHeartbeat:
    """One worker's last heartbeat. ``queues``: consumed now. ``broker``: without user and password. ``started_at``,
    ``beat_at``: epoch seconds by its clock. ``running``: the oldest tasks that it runs, of ``busy`` in all; ``slots``: how
    many it can run at a time, 0 if unknown. ``taken``: by queue, when the newest message it took was sent."""

    name: str
    host: str
    pid: int
    queues: tuple[str, ...]
    version: str
    celery: str
    kombu: str
    broker: str
    started_at: float
    beat_at: float
    running: tuple[RunningTask, ...] = ()
    busy: int = 0
    slots: int = 0
    taken: Mapping[str, float] = field(default_factory=dict)

    @property
    def worker_id(self) -> str:
        """Return an id that, unlike ``name``, differs between two workers that were started under one name."""
        return f"{self.name}/{self.pid}"

    @property
    def sign(self) -> ProcessSign:
        """Return the worker's sign of life."""
        return ProcessSign(host=self.host, name=self.name, serves=self.queues)


def unserved(queues: Sequence[str], workers: Sequence[WorkerHeartbeat]) -> tuple[str, ...]:
    """Return the queues that none of ``workers`` consumes, in the order given."""
    served = {queue for worker in workers for queue in worker.queues}
    return tuple(queue for queue in queues if queue not in served)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessState:
    """The last sign of a process. ``silent_s``: its age. ``resumed_s``: how long before the sign the process gave signs
    again after it could not for a while; infinite if it always could."""

    sign: ProcessSign
    silent_s: float
    resumed_s: float = float("inf")

    @property
    def is_silent(self) -> bool:
        """Return whether the process neither gave a sign nor ended in order."""
        return self.silent_s > SILENT_S


@dataclass(frozen=True, slots=True, kw_only=True)
class HostState:
    """A host that runs processes of the installation, or did. ``silent_s``: seconds since the last sign of any of them.
    ``serves``: all that they served then."""

    host: str
    silent_s: float
    serves: tuple[str, ...]

    @property
    def is_lost(self) -> bool:
        """Return whether no process of the host has given a sign for too long."""
        return self.silent_s > SILENT_S


def can_judge(states: Sequence[ProcessState]) -> bool:
    """Return whether an old sign means a silent process. It does not while no process could write, nor until all have had
    the time to write again."""
    fresh = [state for state in states if not state.is_silent]
    return any(state.resumed_s + state.silent_s > 2 * SIGN_EVERY_S for state in fresh)


def host_states(states: Sequence[ProcessState]) -> list[HostState]:
    """Return every host by name; nothing while silence cannot be judged."""
    if not can_judge(states):
        return []
    by_host: defaultdict[str, list[ProcessState]] = defaultdict(list)
    for state in states:
        by_host[state.sign.host].append(state)
    return [_host_state(host, processes) for host, processes in sorted(by_host.items())]


def _host_state(host: str, processes: Sequence[ProcessState]) -> HostState:
    silent_s = min(process.silent_s for process in processes)
    together = (process.sign for process in processes if process.silent_s <= silent_s + SILENT_S)
    return HostState(
        host=host, silent_s=silent_s, serves=tuple(sorted({one for sign in together for one in sign.serves}))
    )


def silent_processes(states: Sequence[ProcessState]) -> list[ProcessState]:
    """Return the silent processes of hosts on which others live, the longest silent first. A lost host is reported as a
    whole; nothing is returned while silence cannot be judged."""
    lost = {state.host for state in host_states(states) if state.is_lost}
    silent = [state for state in states if state.is_silent and state.sign.host not in lost]
    return sorted(silent, key=lambda state: -state.silent_s) if can_judge(states) else []


def broker_address(url: str) -> str:
    """Return scheme, host, port and path of each broker URL in ``url``, without user, password and options."""
    return ";".join(_without_secrets(one) for one in url.split(";"))


def _without_secrets(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
