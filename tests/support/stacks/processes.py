"""Processes of the project's own, started by a test with settings of its own and ended by it."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx

from compose.localstack import processes
from pipeline.settings import Settings
from tests.support.repository.project import ROOT
from workers.names import Queue
from workers.roles import clock_command


def free_port() -> int:
    """A loopback port nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def process(
    *arguments: str,
    log: Path,
    ending: signal.Signals = signal.SIGTERM,
    descriptors: Collection[int] = (),
    python: Path = Path(sys.executable),
    cwd: Path = ROOT,
    **environment: str,
) -> Iterator[subprocess.Popen[bytes]]:
    """Run ``python -m arguments`` in a process group of its own; ends the group with the block. ``ending``: SIGKILL where
    nobody looks at how it ends, which spares the seconds of an orderly end. ``descriptors``: open files for it. ``python``
    and ``cwd``: another installation, and a folder without this checkout's code. With databases of its own, it has a keyword
    index of its own as well."""
    if "CHORDWISE_MYSQL_URL" in environment:
        environment = {"CHORDWISE_KEYWORD_INDEX_DIR": str(log.parent / "keyword-index"), **environment}
    with log.open("wb") as output:
        running = subprocess.Popen(
            [python, "-m", *arguments],
            cwd=cwd,
            env={**os.environ, **environment},
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=descriptors,
        )
    try:
        yield running
    finally:
        end(running, ending)


def end(running: subprocess.Popen[bytes], how: signal.Signals) -> None:
    """Send a signal to the whole group, and wait until its leader is gone; kill what is left of the group then."""
    if processes.finished(running):
        return
    os.killpg(running.pid, how)
    ends = time.monotonic() + 15
    while not processes.finished(running):
        if time.monotonic() > ends:
            processes.signal_group(running.pid, signal.SIGKILL)
        time.sleep(0.02)


_PR_SET_CHILD_SUBREAPER = 36
_ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def leaving_no_process() -> Iterator[None]:
    """Kill every process that began below this one in the block, however the block ends: also those in a group of their
    own, and those whose parent was killed, which Linux hands to this process from now on. A second Ctrl-C does not interrupt
    it. Call it in the main thread, once in a process."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    before = set(with_children(os.getpid()))
    try:
        yield
    finally:
        for number in _ENDINGS:
            signal.signal(number, signal.SIG_IGN)
        while left := [pid for pid in with_children(os.getpid()) if pid not in before and processes.identify(pid)]:
            for pid in left:
                with suppress(ProcessLookupError):  # it ended meanwhile
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)
        with suppress(ChildProcessError):  # none is left
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def stopped(pid: int) -> list[int]:
    """Stop a process and its descendants, and return them. Each is stopped before its children are looked at, so that it
    makes no further ones."""
    found = []
    for each in with_children(pid):
        with suppress(ProcessLookupError):  # it ended meanwhile
            os.kill(each, signal.SIGSTOP)
        found.append(each)
    return found


def with_children(pid: int) -> Iterator[int]:
    """Yield a process and its descendants, each before its own children."""
    yield pid
    children: list[str] = []
    for thread in Path(f"/proc/{pid}/task").glob("*"):
        with suppress(OSError):  # it ended meanwhile
            children += (thread / "children").read_text().split()
    for child in children:
        yield from with_children(int(child))


def worker(  # type: ignore[no-untyped-def]
    name: str, queues: str, *, log: Path, pool: str = "threads", threads: int = 4, **options: Any
):
    """A Celery worker as the stack runs it."""
    flags = ["--pool", pool, "-c", str(threads) if pool == "threads" else "2", "--prefetch-multiplier", "1"]
    arguments = ["-n", f"{name}@%h", "-Q", queues, *flags, "--without-gossip", "--without-mingle", "-l", "INFO"]
    return process("celery", "-A", "workers.app", "worker", *arguments, log=log, **options)


def on_socket(module: str, listening: socket.socket, *, log: Path, **environment: str):  # type: ignore[no-untyped-def]
    """A module that systemd would have started, on a socket that stays open without it."""
    descriptor = listening.fileno()
    arguments = ("tests.support.servers.hand_over", str(descriptor), module)
    return process(*arguments, log=log, descriptors=[descriptor], **environment)


def environment_of(settings: Settings, *, redis_url: str, port: int) -> dict[str, str]:
    """Return the variables of processes with these databases and a Redis for answers and messages."""
    return {
        "CHORDWISE_MYSQL_URL": settings.mysql_url.get_secret_value(),
        "CHORDWISE_POSTGRES_URL": settings.postgres_url.get_secret_value(),
        "CHORDWISE_REDIS_URL": redis_url,
        "CHORDWISE_BROKER_URL": redis_url,
        "CHORDWISE_GATEWAY_PORT": str(port),
    }


_OF_QUERIES = (Queue.RECALL, Queue.ANSWER)
_QUERIES = ",".join(_OF_QUERIES)
_REST = ",".join(queue for queue in Queue if queue not in _OF_QUERIES)


def small_installation(environment: dict[str, str], folder: Path, whole: ExitStack) -> str:
    """Run a gateway, two workers and a clock until ``whole`` ends, with logs in ``folder``; return the gateway's URL when it is
    ready. No indexer: FULLTEXT answers."""
    environment = {**environment, "CHORDWISE_KEYWORD_ENGINE": "mysql", "OPENBLAS_NUM_THREADS": "1"}
    logs = {name: folder / f"{name}.log" for name in ("queries", "rest", "gateway", "clock")}
    schedule = str(folder / "schedule")
    started = {
        "queries": (worker("queries", _QUERIES, log=logs["queries"], **environment), " ready."),
        "rest": (worker("rest", _REST, log=logs["rest"], **environment), " ready."),
        "gateway": (process("api_gateway", log=logs["gateway"], **environment), "startup complete"),
        "clock": (process(*clock_command(schedule), log=logs["clock"], **environment), "beat: Starting"),
    }
    for running, _ in started.values():
        whole.enter_context(running)
    for name, (_, says) in started.items():
        wait_for_log(logs[name], says, seconds=240)
    url = f"http://127.0.0.1:{environment['CHORDWISE_GATEWAY_PORT']}"
    wait_for_http(f"{url}/readyz", seconds=120)
    return url


def server_command(settings: Settings, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `chordwise-server` with these databases to its end."""
    urls = environment_of(settings, redis_url=settings.redis_url.get_secret_value(), port=0)
    return subprocess.run(
        [sys.executable, "-m", "workers.server", *arguments],
        cwd=ROOT,
        env={**os.environ, **urls, **environment},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


def wait_for_log(log: Path, text: str, *, seconds: float = 40) -> None:
    """Wait until a process has written ``text``. Fails with the end of the log."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        if text in log.read_text(errors="replace"):
            return
        time.sleep(0.1)
    raise AssertionError(f"{log.name} never said {text!r}:\n{log.read_text(errors='replace')[-3000:]}")


def wait_for_http(url: str, *, seconds: float = 40) -> None:
    """Wait until something answers 200 there."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        try:
            if httpx.get(url, timeout=2).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    raise AssertionError(f"{url} does not answer")
