"""Heartbeats of workers, the queues that nobody consumes, and the signs of life of every host's processes."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

EVERY_S: Final = 0.5
EXPIRES_S: Final = 3.0
MOST_RUNNING: Final = 16  # tasks in one heartbeat, the oldest ones
SIGN_EVERY_S: Final = 5.0
SILENT_S: Final = 20.0  # a host whose processes have all been silent for longer is lost
FORGOTTEN_S: Final = 86_400.0  # unless it comes back


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningTask:
    """A task that a worker runs. ``work_id``: of its job, query or computation; ``started_at``: epoch seconds."""

    task: str
    work_id: str
    started_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSign:
    """A sign of life of a process. ``name``: unique on ``host``, the same after a restart. ``serves``: its queues, or
    ``gateway``, ``indexer``, ``clock``."""

    host: str
    name: str
    serves: tuple[str, ...]

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


def host_states(signs: Iterable[tuple[ProcessSign, float]]) -> list[HostState]:
    """Return every host by name. ``signs``: the last one of each process, and its age in seconds. Return nothing if all
    are old, the reader's own included: no sign could be written meanwhile."""
    by_host: defaultdict[str, list[tuple[ProcessSign, float]]] = defaultdict(list)
    for sign, age_s in signs:
        by_host[sign.host].append((sign, age_s))
    states = [_host_state(host, processes) for host, processes in sorted(by_host.items())]
    return [] if all(state.is_lost for state in states) else states


def _host_state(host: str, processes: Sequence[tuple[ProcessSign, float]]) -> HostState:
    silent_s = min(age_s for _, age_s in processes)
    together = (sign for sign, age_s in processes if age_s <= silent_s + SILENT_S)
    return HostState(
        host=host, silent_s=silent_s, serves=tuple(sorted({one for sign in together for one in sign.serves}))
    )


def broker_address(url: str) -> str:
    """Return scheme, host, port and path of each broker URL in ``url``, without user, password and options."""
    return ";".join(_without_secrets(one) for one in url.split(";"))


def _without_secrets(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
