"""Run a command to its end with its output in a log, or end it early when the stack is asked to stop."""

import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from . import stopping
from .progress import Failure
from .variables import open_log

Command = Sequence[str | Path]


@dataclass(frozen=True, slots=True)
class Account:
    """An operating system user that runs a command."""

    uid: int
    gid: int


def plain_environment() -> dict[str, str]:
    """Return our environment without variables that change how another Python finds or caches its modules."""
    dropped = {"PYTHONPATH", "PYTHONHOME", "PYTHONDONTWRITEBYTECODE", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__"}
    return {name: value for name, value in os.environ.items() if name not in dropped}


def run(
    command: Command,
    *,
    what: str,
    log: Path,
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    account: Account | None = None,
    stdin: str = "",
    stdout: IO[bytes] | None = None,
    may_fail: bool = False,
) -> None:
    """Run ``command`` to its end, output appended to ``log``; standard output goes to ``stdout`` instead, if given.

    Raises Failure naming ``what``, unless the command ran and ``may_fail``; and Stopped, once the command is ended.
    """
    with open_log(log) as output:
        try:
            process = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.PIPE,
                stdout=stdout or output,
                stderr=output,
                env=dict(environment) if environment is not None else plain_environment(),
                cwd=cwd,
                **as_account(account),
            )
        except OSError as error:
            raise Failure(f"{what} could not be started: {error.strerror}: {command[0]}", log=log) from error
        _feed(process, stdin)
        code = _finish(process)
    if code != 0 and not may_fail:
        raise Failure(f"{what} failed with exit code {code}", log=log)


def output(command: Command, *, environment: Mapping[str, str] | None = None) -> str:
    """Return the standard output of a quick command; empty when it cannot be run or fails."""
    return _quick(command, env=dict(environment) if environment is not None else plain_environment()) or ""


def secret_line(command: Command, *, what: str, log: Path, environment: Mapping[str, str], cwd: Path) -> str:
    """Return the last output line of a command, kept out of the log. Raises Failure, also without output."""
    with tempfile.TemporaryFile() as printed:
        run(command, what=what, log=log, environment=environment, cwd=cwd, stdout=printed)
        printed.seek(0)
        lines = printed.read().decode().split()
    if not lines:
        raise Failure(f"{what} printed nothing", log=log)
    return lines[-1]


def allowed(account: Account, command: Command) -> bool:
    """Return whether ``command`` succeeds as ``account``: the only reliable test of another user's access."""
    return _quick(command, cwd="/", **as_account(account)) is not None


def _quick(command: Command, **options: Any) -> str | None:
    """Return the standard output of a command that takes less than a minute; None when it cannot be run or fails."""
    words = [str(part) for part in command]
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=60, **options
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout if done.returncode == 0 else None


def as_account(account: Account | None) -> dict[str, Any]:
    """Return the arguments that make subprocess run something as ``account``; none when it is None."""
    return {} if account is None else {"user": account.uid, "group": account.gid, "extra_groups": []}


def _feed(process: subprocess.Popen[bytes], text: str) -> None:
    assert process.stdin is not None
    with suppress(BrokenPipeError):  # it ended without reading; its exit code tells why
        process.stdin.write(text.encode())
        process.stdin.close()


def _finish(process: subprocess.Popen[bytes]) -> int:
    """Wait for the end; when asked to stop, end the command first."""
    while True:
        try:
            return process.wait(timeout=0.2)
        except subprocess.TimeoutExpired:
            try:
                stopping.check()
            except stopping.Stopped:
                process.terminate()
                try:
                    process.wait(timeout=5)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
                raise
