"""The in-process lane: processes of this gateway that answer queries with the code of the workers, without the broker.

The event loop's interpreter computes nothing (decision 38); it sends ids over a socket to a process of its own, which
stores the answer in Redis as a worker does (decision 50). If the lane fails, the chord answers. A query that Redis does not
return is sent itself, and its answer comes back over the socket (decision 126); without a process of its own, to the query
workers of this host (decision 130).
"""

import asyncio
import os
import socket
import sys
import time
from collections.abc import Callable, Coroutine
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import structlog

import pipeline
from pipeline.outages import tolerate_outage
from pipeline.query.compression import compressed
from pipeline.query.request import Query
from pipeline.query.wake_names import wake_name
from pipeline.resources import Resources
from pipeline.telemetry import tracing
from workers import dispatch
from workers.lane_messages import THREADS, LaneReply, LaneRequest, Step, worker_sockets

log = structlog.get_logger(__name__)

_PROGRAM: Final = ("-m", "workers.lane")
_ROOT: Final = Path(pipeline.__file__).parent.parent
_START_S: Final = 180.0  # for loading the model on a busy host; the chord answers meanwhile
_MOST_OPEN: Final = 32  # queries that a process holds, most of them waiting for a thread; the chord takes the others
_OVERDUE_S: Final = 5.0  # after a query's deadline: a process that still holds it is replaced
_LOOK_S: Final = 1.0
_GREETS_S: Final = 0.25  # a worker of this host; one that hangs says nothing
_AGAIN_S: Final = (0.2, 1.0, 5.0)  # before a process is restarted, longer each time it dies young
_YOUNG_S: Final = 20.0
_STOP_S: Final = 6.0  # for running queries when the gateway stops
_LONGEST_REPLY: Final = 64 * 1024 * 1024  # bytes, with an answer
_LEAST_S: Final = 0.05  # before its deadline a query is worth sending again
_WITHHELD: Final = frozenset({"CHORDWISE_ADMIN_KEY", "CHORDWISE_OIDC"})

Run = Callable[..., Coroutine[Any, Any, Any]]
Spawn = Callable[[Coroutine[Any, Any, None]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneFacts:
    """The state of the lane: ``wanted`` processes, ``ready`` ones, the ``queries`` they hold."""

    wanted: int
    ready: int
    queries: int


@dataclass(slots=True, eq=False)
class _Process:
    """A ready process and the steps of queries that it holds, each with the number of times it was sent to any process."""

    name: int | str
    writer: asyncio.StreamWriter
    queries: dict[tuple[str, Step], tuple[Query, int]] = field(default_factory=dict)

    def send(self, step: Step, query: Query) -> None:
        patient = dispatch.waits_for_model(query)
        self.writer.write(LaneRequest.of(query, step, patient=patient, headers=tracing.outgoing()).line())


class Lane:
    """The processes of this gateway, all used on its event loop; without one, and while Redis or the broker is away, the query
    workers of its host. ``run`` calls a blocking function in a thread; ``spawn`` runs a coroutine beside the others; ``wake``
    is called with the name of a query and its answer if Redis does not bring it."""

    def __init__(
        self, processes: int, *, run: Run, spawn: Spawn, use: Resources, wake: Callable[[str, bytes], object]
    ) -> None:
        self._wanted = processes
        self._run = run
        self._spawn = spawn
        self._use = use
        self._wake = wake
        self._ready: list[_Process] = []
        self._workers: list[_Process] = []
        self._connecting: list[asyncio.Task[None]] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._closing = False

    @property
    def facts(self) -> LaneFacts | None:
        """The lane's state; None if no query has wanted it so far."""
        if not self._tasks:
            return None
        queries = sum(map(_load, self._ready))
        return LaneFacts(wanted=self._wanted, ready=len(self._ready), queries=queries)

    @property
    def threads(self) -> int:
        """The threads of the ready processes, each of which answers one query at a time."""
        return THREADS * len(self._ready)

    def start(self) -> None:
        """Start the processes, once."""
        if not self._tasks and not self._closing:
            self._tasks = [asyncio.create_task(self._keep_running(number)) for number in range(1, self._wanted + 1)]

    def is_for(self, query: Query) -> bool:
        """Return whether the lane can answer a query whose caller waits: its plan wants it, and a process has room. The
        first such query starts the processes, and the chord answers until they are ready."""
        if query.plan.lane != "in_process" or not self._wanted:
            return False
        self.start()
        if not self._ready:
            self._count("not_ready")
            return False
        if min(map(_load, self._ready)) >= _MOST_OPEN:
            self._count("full")
            return False
        return True

    def take(self, query: Query, *, sent: int = 1, step: Step = "answer") -> bool:
        """Send an open query to the process that holds the fewest. Returns False if there is none."""
        if not self._usable:
            return False
        process = min(self._usable, key=_load)
        process.queries[query.query_id, step] = query, sent
        process.send(step, query)
        return True

    async def answer(self, query: Query, *, step: Step) -> bool:
        """Have a process answer a query that the broker brings to no worker (``answer``), or that Redis does not return
        (``answer_unstored``): its waiters are woken with the answer, which is stored if Redis is back by then. Returns False if
        no process has room."""
        await self.reach()
        has_room = any(_load(process) < _MOST_OPEN for process in self._usable)
        return has_room and self.take(query, step=step)

    def may_reach(self) -> bool:
        """Return whether a process is there for a query that the broker refuses. Blocking."""
        return bool(self._usable or self._sockets())

    async def reach(self) -> None:
        """Connect to the query workers of this host, until one is there, unless there is a process for a query."""
        if self._usable or self._closing:
            return
        if all(task.done() for task in self._connecting):
            self._connecting = [asyncio.create_task(self._connect(path)) for path in self._sockets()]
        while not self._usable and (under_way := [task for task in self._connecting if not task.done()]):
            await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)

    def holds(self, query: Query) -> bool:
        """Return whether a process answers the query."""
        return any((query.query_id, "answer") in process.queries for process in self._usable)

    async def finish(self, query: Query) -> bool:
        """Have an open query answered from the results so far, by every process but the one that holds it, since one of them
        may hang. Returns False if there is no other one."""
        await self.reach()
        others = [process for process in self._usable if (query.query_id, "answer") not in process.queries]
        for process in others:
            process.send("finish", query)
        return bool(others)

    async def close(self) -> None:
        """End the processes, after the running queries."""
        self._closing = True
        for process in (*self._ready, *self._workers):
            process.writer.close()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_STOP_S)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _keep_running(self, number: int) -> None:
        """Keep one process running."""
        died_young = 0
        while not self._closing:
            began = time.monotonic()
            try:
                await self._serve(number)
            except OSError as error:
                log.error("lane_process_not_started", number=number, error=type(error).__name__)
            if self._closing:
                return
            died_young = died_young + 1 if time.monotonic() - began < _YOUNG_S else 0
            await asyncio.sleep(_AGAIN_S[min(died_young, len(_AGAIN_S) - 1)])

    async def _serve(self, number: int) -> None:
        """Start one process and serve with it until it ends. Raises OSError if it cannot be started."""
        ours, theirs = socket.socketpair()
        with theirs:
            program = (*_PROGRAM, str(theirs.fileno()), str(number))
            running = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",
                *program,
                stdin=asyncio.subprocess.DEVNULL,
                cwd=_ROOT,
                env=_environment(),
                pass_fds=(theirs.fileno(),),
                start_new_session=True,  # Ctrl-C stops the gateway, which stops this process
            )
        reader, writer = await asyncio.open_connection(sock=ours, limit=_LONGEST_REPLY)
        try:
            with suppress(TimeoutError):
                if await asyncio.wait_for(reader.readline(), _START_S):
                    log.info("lane_process_ready", number=number, process=running.pid)
                    self._ready.append(process := _Process(name=running.pid, writer=writer))
                    await self._read_replies(process, reader, self._ready)
        finally:
            writer.close()
            if self._closing:
                with suppress(TimeoutError):
                    await asyncio.wait_for(running.wait(), _STOP_S)
            with suppress(ProcessLookupError):
                running.kill()
            await running.wait()
            if not self._closing:
                log.error("lane_process_ended", number=number, process=running.pid, exit_code=running.returncode)

    @property
    def _usable(self) -> list[_Process]:
        return self._ready or self._workers

    def _sockets(self) -> list[Path]:
        folder, prefix = worker_sockets(self._use.settings)
        return [*folder.glob(f"{prefix}*")]

    async def _connect(self, path: Path) -> None:
        """Connect to a query worker of this host, unless it has ended or hangs, for as long as it has queries to answer."""
        with suppress(OSError), ExitStack() as failing:
            async with asyncio.timeout(_GREETS_S):
                reader, writer = await asyncio.open_unix_connection(path, limit=_LONGEST_REPLY)
                failing.callback(writer.close)
                if not await reader.readline():
                    return
            failing.pop_all()
            log.info("worker_reached", worker=path.name)
            self._workers.append(process := _Process(name=path.name, writer=writer))
            self._spawn(self._read_replies(process, reader, self._workers))

    async def _read_replies(self, process: _Process, reader: asyncio.StreamReader, among: list[_Process]) -> None:
        """Read the replies of a process until it ends or has to be replaced, or until a worker has no more queries; then send
        its queries elsewhere. ``among``: the processes that it is one of."""
        try:
            while not self._is_stuck(process):
                try:
                    async with asyncio.timeout(_LOOK_S):
                        line = await reader.readline()
                except TimeoutError:
                    if among is self._workers and not process.queries:
                        return
                    continue
                if not line:
                    return
                reply = LaneReply.read(line)
                query, _ = process.queries.pop((reply.query_id, reply.step), (None, 0))  # none for "finish"
                if query is not None and reply.answer:
                    self._wake(wake_name("query", query.tenant_id, query.query_id), compressed(reply.answer.encode()))
            log.error("lane_process_stuck", process=process.name, queries=len(process.queries))
        except ConnectionError as error:
            log.warning("lane_process_lost", process=process.name, error=type(error).__name__)
        finally:
            process.writer.close()
            among.remove(process)
            if not self._closing:
                for (_, step), (query, sent) in process.queries.items():
                    self._send_again(query, step, sent)

    def _is_stuck(self, process: _Process) -> bool:
        latest = time.time() - _OVERDUE_S
        return any(query.deadline_at < latest for query, _ in process.queries.values())

    def _send_again(self, query: Query, step: Step, sent: int) -> None:
        """Resend a query whose process died, to another process once, then to the workers: the query may have caused
        both crashes."""
        if query.deadline_at - time.time() < _LEAST_S:
            return
        self._count("process_ended")
        if sent == 1 and self.take(query, sent=2, step=step):
            return
        if step == "answer":
            self._spawn(self._send_by_chord(query))

    async def _send_by_chord(self, query: Query) -> None:
        with tolerate_outage(log.warning, "lane_query_not_sent", query_id=query.query_id, tenant_id=query.tenant_id):
            await self._run(dispatch.ask, query)

    def _count(self, reason: str) -> None:
        self._use.meter.count("chordwise_lane_misses", reason=reason)


def _load(process: _Process) -> int:
    return len(process.queries)


def _environment() -> dict[str, str]:
    """Return the environment of a lane process: the gateway's own with its import folders, without the operator's key,
    which only the gateway compares, and with one numpy thread."""
    folders = [str(_ROOT), *(folder for folder in sys.path if os.path.isabs(folder))]
    own = {name: value for name, value in os.environ.items() if name not in _WITHHELD}
    return {"OPENBLAS_NUM_THREADS": "1", **own, "PYTHONPATH": os.pathsep.join(folders)}
