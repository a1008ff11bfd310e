"""Commands of `chordwise` without a process for each: to start one takes longer than what most of them do."""

from __future__ import annotations

import io
import os
import subprocess
from contextlib import redirect_stderr, redirect_stdout
from unittest.mock import patch

from chordwise.cli import run


def called(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """What the command line would have said and ended with, had it been started with these variables as well."""
    words = [str(argument) for argument in arguments]
    output, complaints = _stream(), _stream()
    with patch.dict(os.environ, environment), redirect_stdout(output), redirect_stderr(complaints):
        status = run(words)
    return subprocess.CompletedProcess(words, status, _written(output), _written(complaints))


def _stream() -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace", newline="", write_through=True)


def _written(stream: io.TextIOWrapper) -> str:
    stream.flush()
    written = stream.buffer
    assert isinstance(written, io.BytesIO)
    return written.getvalue().decode()
