"""What the commands share: the connection, where they write, and how they show progress and text of unknown origin."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from datetime import datetime
from types import TracebackType
from typing import Annotated, Self

import typer
from rich.cells import cell_len, chop_cells, set_cell_size
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from chordwise.client import Chordwise
from chordwise.config import Connection, as_operator, discover

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]

PIPED_WIDTH = 120  # columns of a table that does not go to a terminal
_PLAIN_EVERY_S = 2.0
_WIDE = r"\u1100-\u115f\u2e80-\ud7af\uf900-\ufaff\uff00-\uffef"  # written without spaces: a line may end anywhere
_UNITS = re.compile(rf"\s+|[{_WIDE}]|[^\s{_WIDE}]+")
_KEPT_INVISIBLES = "\u200c\u200d\ufe0e\ufe0f"  # they join letters and emoji; other invisible characters only deceive


def connection() -> Connection:
    """Where the server is, from the environment or from what ``make up`` wrote."""
    return discover()


def connect() -> Chordwise:
    """A client. Raises NotConfigured."""
    known = connection()
    return Chordwise(known.url, known.api_key)


def connect_as_operator() -> Chordwise:
    """A client for what concerns the whole installation. Raises NotConfigured."""
    known = as_operator(connection())
    return Chordwise(known.url, known.api_key)


def stdout() -> Console:
    """Where results go. NO_COLOR and COLUMNS are respected."""
    wide = None if sys.stdout.isatty() or os.environ.get("COLUMNS") else PIPED_WIDTH
    return Console(width=wide, highlight=False, markup=False, emoji=False)


def stderr() -> Console:
    """Where progress and complaints go."""
    return Console(stderr=True, highlight=False, markup=False, emoji=False)


def say(line: str) -> None:
    """One plain line of output, never broken."""
    stdout().print(Text(line), soft_wrap=True)


def warn(line: str) -> None:
    """One plain line of warning on standard error, never broken."""
    stderr().print(Text(f"chordwise: {line}"), soft_wrap=True)


def print_json(value: object) -> None:
    """The one JSON document of ``--json``."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def clean(text: str) -> str:
    """Text on one line and without anything that could move the cursor, change colours or turn the direction."""
    return " ".join("".join(_shown(char) for char in text).split())


def _shown(char: str) -> str:
    if char.isprintable() or char.isspace() or char in _KEPT_INVISIBLES:
        return char
    return "\ufffd" if "\ud800" <= char <= "\udfff" else ""


def moment(at: datetime | None, otherwise: str = "") -> str:
    """A moment in local time to the minute, or what stands for none."""
    return otherwise if at is None else f"{at.astimezone():%Y-%m-%d %H:%M}"


def folded(text: str, width: int, *, lines: int) -> list[str]:
    """Text cut into lines of ``width`` cells, the last of at most ``lines`` ending in an ellipsis if there was more.

    Lines end between words, or beside a wide character, of which each takes two cells; a longer word is cut.
    """
    kept = [""]
    for unit in _UNITS.findall(text):
        for piece in chop_cells(unit, width):
            if cell_len(kept[-1]) + cell_len(piece) <= width:
                kept[-1] += piece
            else:
                kept.append("" if piece.isspace() else piece)
        if len(kept) > lines:
            last = set_cell_size(kept[lines - 1], min(width - 1, cell_len(kept[lines - 1]))).rstrip()
            return [*kept[: lines - 1], last + "…"]
    return kept


def table(*columns: str, numbers: tuple[str, ...] = ()) -> Table:
    """An empty table; the columns in ``numbers`` are aligned to the right."""
    made = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in columns:
        made.add_column(column, justify="right" if column in numbers else "left", overflow="fold")
    return made


class Ticker:
    """How far something has got: a bar on a terminal, else a plain line now and then, or nothing if ``quiet``.

    The bar is on standard error and goes away, so that standard output holds results only.
    """

    def __init__(self, *, quiet: bool) -> None:
        console = stderr()
        self._quiet = quiet
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._told_at = -_PLAIN_EVERY_S
        if console.is_terminal and not console.is_dumb_terminal:
            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
            self._bar = Progress(*columns, console=console, transient=True)

    def __enter__(self) -> Self:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()

    def tell(self, what: str, done: int, total: int | None = None) -> None:
        """Say "``done`` of ``total`` ``what``"; the total may be unknown."""
        if self._bar:
            if self._task is None:
                self._task = self._bar.add_task(what, total=total)
            self._bar.update(self._task, description=what, completed=done, total=total)
        elif not self._quiet and time.monotonic() - self._told_at >= _PLAIN_EVERY_S:
            self._told_at = time.monotonic()
            say((f"{done} of {total}" if total is not None else f"{done}") + f" {what}")


def plural(count: int, one: str, many: str | None = None) -> str:
    """``1 job``, ``2 jobs``."""
    return f"{count} {one if count == 1 else many or one + 's'}"
