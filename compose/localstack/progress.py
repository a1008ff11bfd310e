"""Output on the terminal: one line per step with its seconds; a failure is a sentence and a log."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Failure(Exception):
    """The command cannot go on. ``str(failure)`` is one sentence; ``log`` is where the details are, if anywhere."""

    def __init__(self, sentence: str, *, log: Path | None = None) -> None:
        super().__init__(sentence)
        self.log = log


def say(line: str) -> None:
    """Print one line at once, also into a pipe."""
    print(line, flush=True)


@contextmanager
def step(title: str, *, slow: bool = False) -> Iterator[None]:
    """Print ``title`` and the seconds it took once the block ends; announce a slow one beforehand."""
    started = time.monotonic()
    if slow:
        say(f"  {title} ...")
    yield
    say(f"  {title}: {time.monotonic() - started:.1f} s")


def tail(log: Path, *, since: int = 0, lines: int = 12) -> str:
    """Return the last lines, indented, of a log after ``since`` bytes, or of one emptied since; empty without a log."""
    if not log.is_file():
        return ""
    size = log.stat().st_size
    with log.open("rb") as file:
        file.seek(max(since if since <= size else 0, size - 16_384))
        text = file.read().decode("utf-8", "replace")
    return "\n".join(f"    {line[:400]}" for line in text.splitlines()[-lines:])
