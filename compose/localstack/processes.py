"""Processes that outlive a call: start them, recognise them again, and end them with their children."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .shell import Account, as_account
from .variables import open_log

_PR_SET_PDEATHSIG = 1
_LISTENING = "0A"  # in /proc/net/tcp
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


@dataclass(frozen=True, slots=True)
class Identity:
    """A process id with the moment its process started, so that a reused id is never mistaken for it."""

    pid: int
    started: str

    @property
    def alive(self) -> bool:
        """Whether the process still runs under this id."""
        return identify(self.pid) == self


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program that the supervisor keeps running.

    ``ready`` takes the log and the offset at which this start begins, and returns at once. ``port``: the port on which
    the program listens, so that no other program that answers there is mistaken for it. ``stop_signal`` asks for a
    clean end within ``grace_s`` seconds; after that the supervisor kills the program with its children.
    """

    name: str
    command: tuple[str, ...]
    log: Path
    ready: Callable[[Path, int], bool]
    environment: Mapping[str, str] = field(default_factory=dict)
    cwd: Path | None = None
    port: int | None = None
    account: Account | None = None
    umask: int = -1  # of the files that it makes; that of the caller
    stop_signal: signal.Signals = signal.SIGTERM
    grace_s: float = 15.0


def identify(pid: int) -> Identity | None:
    """Return the identity of the process with this id; None when there is none, or only a zombie."""
    try:
        # The name, in parentheses, may contain spaces and parentheses.
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return None if Path("/proc/self/stat").exists() else _identify_without_proc(pid)
    state, started = fields[0], fields[19]
    return None if state in "ZX" else Identity(pid, f"{boot}/{started}")


def listens(pid: int, port: int) -> bool:
    """Return whether this process listens on the port; True also where the system does not show it, as outside Linux."""
    try:
        sockets = {os.readlink(entry) for entry in _entries(Path(f"/proc/{pid}/fd"))}
        tables = [Path(f"/proc/{pid}/net/{name}") for name in ("tcp", "tcp6")]
        rows = [line.split() for table in tables if table.exists() for line in table.read_text().splitlines()[1:]]
    except OSError:
        return True
    return any(
        row[3] == _LISTENING and int(row[1].rpartition(":")[2], 16) == port and f"socket:[{row[9]}]" in sockets
        for row in rows
    )


def _entries(folder: Path) -> list[Path]:
    """Return the links in a folder, without those that vanish while it is read."""
    return [entry for entry in folder.iterdir() if os.path.lexists(entry)]


def _identify_without_proc(pid: int) -> Identity | None:
    done = subprocess.run(["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    state, _, started = done.stdout.strip().partition(" ")
    return Identity(pid, started.strip()) if started and not state.startswith("Z") else None


def spawn(program: Program) -> subprocess.Popen[bytes]:
    """Start ``program`` in a session of its own, so that Ctrl-C reaches only us and we end the programs in order.

    On Linux it is killed together with us. Call from the main thread: that guarantee is tied to the thread.
    """
    ourselves = os.getpid()

    def die_with_parent() -> None:
        if _LIBC is not None:
            _LIBC.prctl(_PR_SET_PDEATHSIG, program.stop_signal)
            if os.getppid() != ourselves:
                os._exit(1)

    with open_log(program.log) as log:
        return subprocess.Popen(
            program.command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=dict(program.environment),
            cwd=program.cwd,
            start_new_session=True,
            preexec_fn=die_with_parent,
            umask=program.umask,
            **as_account(program.account),
        )


def signal_group(pid: int, number: signal.Signals) -> None:
    """Signal every process in the session that ``pid`` leads; do nothing when none is left."""
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):
        return


def finished(process: subprocess.Popen[bytes]) -> bool:
    """Return whether a child of ours has ended. If so, kill its own children while its id cannot be reused yet."""
    if process.returncode is not None:
        return True
    if os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        return False
    signal_group(process.pid, signal.SIGKILL)
    process.wait()
    return True


def end_children(processes: list[tuple[Program, subprocess.Popen[bytes]]]) -> None:
    """End children of ours, all at the same time; return when every one of them is gone."""
    now = time.monotonic()
    for program, process in processes:
        if not finished(process):
            process.send_signal(program.stop_signal)
    waiting = [(process, now + program.grace_s) for program, process in processes]
    while waiting := [(process, until) for process, until in waiting if not finished(process)]:
        for process, until in waiting:
            if time.monotonic() > until:
                signal_group(process.pid, signal.SIGKILL)
        time.sleep(0.05)


def end_stranger(who: Identity, *, grace_s: float = 15.0) -> None:
    """End a process that is not our child, together with its session; return when it is gone, at once if it was."""
    until = time.monotonic() + grace_s
    if not who.alive:
        return
    os.kill(who.pid, signal.SIGTERM)
    while who.alive:
        if time.monotonic() > until:
            signal_group(who.pid, signal.SIGKILL)
            until += 5
        time.sleep(0.05)
