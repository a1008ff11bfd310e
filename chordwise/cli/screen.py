"""Shared by all commands: connection, output, progress, and safe display of foreign text."""

from __future__ import annotations

import functools
import inspect
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeVar

import typer
from typer import Option

from chordwise.client import Chordwise
from chordwise.config import as_operator, discover
from chordwise.contract.record import Answered
from chordwise.errors import InvalidInput

if TYPE_CHECKING:  # rich is imported where something is drawn: --json needs none of it
    from rich.console import Console
    from rich.progress import Progress, TaskID
    from rich.table import Table
    from rich.text import Text

    from chordwise.api.jobs import Ingestion, Job, JobError, JobItem

R = TypeVar("R", bound=Answered)
T = TypeVar("T")
_AS_JSON: ContextVar[bool] = ContextVar("as_json", default=False)

PIPED_WIDTH = 120  # columns of a table that is not printed on a terminal
_RETRIES = 4  # of a server that is down: a mistyped address shows within a few seconds
_PLAIN_EVERY_S = 2.0
WIDE = r"\u1100-\u115f\u2e80-\ud7af\uf900-\ufaff\uff00-\uffef"  # scripts without spaces: a line may end anywhere
_UNITS = re.compile(rf"\s+|[{WIDE}]|[^\s{WIDE}]+")
_ALLOWED_INVISIBLES = "\u200c\u200d\ufe0e\ufe0f"  # joiners of letters and emoji; other invisible characters are removed


def with_json(run: Callable[..., Any]) -> Callable[..., Any]:
    """Return a command with the option --json, its last one; a command that declares ``as_json`` has it already."""
    signature = inspect.signature(run, eval_str=True)
    declared = "as_json" in signature.parameters

    @functools.wraps(run)
    def command(*, as_json: bool = False, **options: Any) -> Any:
        _AS_JSON.set(as_json)
        return run(**options, as_json=as_json) if declared else run(**options)

    if not declared:
        kind = Annotated[bool, Option("--json", help="Print one JSON document.")]
        option = inspect.Parameter("as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=kind)
        command.__annotations__ = {**run.__annotations__, "as_json": kind}
        signature = signature.replace(parameters=[*signature.parameters.values(), option])
    command.__signature__ = signature  # type: ignore[attr-defined]
    return command


def as_json() -> bool:
    """Return whether the running command has the option --json."""
    return _AS_JSON.get()


def connect() -> Chordwise:
    """Return a client, which soon gives up on a server that is down. Raises NotConfigured."""
    server = discover()
    return Chordwise(server.url, server.api_key, retries=_RETRIES)


def connect_as_operator() -> Chordwise:
    """Return a client with the operator's key. Raises NotConfigured."""
    server = as_operator(discover())
    return Chordwise(server.url, server.api_key, retries=_RETRIES)


def require_choice(value: str | None, choices: Sequence[str], option: str) -> None:
    """Raise a usage error if ``value`` is given and not one of ``choices``."""
    if value is not None and value not in choices:
        raise typer.BadParameter(f"must be {', '.join(choices[:-1])} or {choices[-1]}", param_hint=option)


def stdout() -> Console:
    """Return the console for results. NO_COLOR and COLUMNS are respected."""
    from rich.console import Console

    wide = None if sys.stdout.isatty() or os.environ.get("COLUMNS") else PIPED_WIDTH
    return Console(width=wide, highlight=False, markup=False, emoji=False)


def stderr() -> Console:
    """Return the console for progress and warnings."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, markup=False, emoji=False)


def say(line: str) -> None:
    """Print one plain line, without wrapping."""
    from rich.text import Text

    stdout().print(Text(line), soft_wrap=True)


def warn(line: str) -> None:
    """Print one plain line of warning on standard error, without wrapping."""
    from rich.text import Text

    stderr().print(Text(f"chordwise: {line}"), soft_wrap=True)


MOST_LINES = 20  # of one kind in text; --json has all


def warn_of_each(lines: Sequence[str]) -> None:
    """Print lines of warning, `MOST_LINES` at most, and how many there are more."""
    for line in lines[:MOST_LINES]:
        warn(clean(line))
    if len(lines) > MOST_LINES:
        warn(f"and {len(lines) - MOST_LINES} more (all of them with --json)")


def failure_lines(errors: Sequence[JobError | JobItem]) -> list[str]:
    """Return one line for each document that failed: its name and the reason."""
    return [f"{error.document_id or error.pointer or 'a document'}: {error.detail or error.code}" for error in errors]


def print_json(value: object) -> None:
    """Print the JSON document of ``--json``."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def clean(text: str) -> str:
    """Return text on one line, without characters that move the cursor, change colours or the writing direction."""
    return " ".join("".join(map(_printable, text)).split())


def clean_lines(text: str) -> str:
    """Return text with its lines and spaces, otherwise as ``clean`` does."""
    return "".join(char if char == "\n" else " " if char.isspace() else _printable(char) for char in text)


def _printable(char: str) -> str:
    if char.isprintable() or char.isspace() or char in _ALLOWED_INVISIBLES:
        return char
    return "\ufffd" if "\ud800" <= char <= "\udfff" else ""


def moment(at: datetime | None, otherwise: str = "", *, seconds: bool = False) -> str:
    """Format a moment in local time to the minute, or to the second; ``otherwise`` for None."""
    return otherwise if at is None else f"{at.astimezone():{'%Y-%m-%d %H:%M:%S' if seconds else '%Y-%m-%d %H:%M'}}"


def folded(text: str, width: int, *, lines: int) -> list[str]:
    """Wrap text to at most ``lines`` lines of ``width`` cells; the last one ends in an ellipsis if text was cut off.

    Lines end between words or beside a wide character, which takes two cells; a longer word is split.
    """
    from rich.cells import cell_len, chop_cells, set_cell_size

    wrapped = [""]
    for unit in _UNITS.findall(text):
        for piece in chop_cells(unit, width):
            if cell_len(wrapped[-1]) + cell_len(piece) <= width:
                wrapped[-1] += piece
            else:
                wrapped.append("" if piece.isspace() else piece)
        if len(wrapped) > lines:
            last = set_cell_size(wrapped[lines - 1], min(width - 1, cell_len(wrapped[lines - 1]))).rstrip()
            return [*wrapped[: lines - 1], last + "…"]
    return wrapped


def is_wide(text: str) -> bool:
    """Return whether the first character belongs to a script without spaces between words."""
    return re.match(f"[{WIDE}]", text) is not None


def table(*columns: str, numbers: tuple[str, ...] = ()) -> Table:
    """Return an empty table; the columns in ``numbers`` are aligned to the right."""
    from rich.table import Table

    empty = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in columns:
        empty.add_column(column, justify="right" if column in numbers else "left", overflow="fold")
    return empty


def print_table(columns: Sequence[str], rows: Iterable[Iterable[object]], *, numbers: tuple[str, ...] = ()) -> None:
    """Print rows as a table. Cells are cleaned unless they are a Text; None is an empty cell."""
    filled = table(*columns, numbers=numbers)
    for row in rows:
        filled.add_row(*map(_cell, row))
    stdout().print(filled)


def report(value: object, sentence: str) -> None:
    """Print a value as one JSON document, or else a sentence about it."""
    if as_json():
        print_json(value)
    else:
        say(sentence)


def print_fields(record: Answered, fields: Mapping[str, str | None]) -> None:
    """Print a record as one JSON document, or these fields of it, one on each unwrapped line, to be copied from."""
    if as_json():
        print_json(record.raw)
        return
    width = max(map(len, fields))
    for name, value in fields.items():
        say(f"{name:<{width}}  {clean(value or '')}")


def print_facts(record: Answered, facts: Mapping[str, object]) -> None:
    """Print a record as one JSON document, or these facts about it as a table, one a line."""
    if as_json():
        print_json(record.raw)
        return
    lines = table("", "")
    lines.show_header = False
    for name, value in facts.items():
        lines.add_row(name, _cell(value))
    stdout().print(lines)


def print_list(
    records: Sequence[R],
    columns: Sequence[str],
    row: Callable[[R], Iterable[object]],
    *,
    empty: str = "",
    numbers: tuple[str, ...] = (),
) -> None:
    """Print records as one JSON document, or as a table with ``row`` of each; ``empty`` is printed if there are none."""
    if as_json():
        print_json({"data": [record.raw for record in records]})
    elif not records and empty:
        say(empty)
    else:
        print_table(columns, map(row, records), numbers=numbers)


def _cell(value: object) -> Text:
    from rich.text import Text

    if isinstance(value, datetime):
        return Text(moment(value, seconds=True))
    return value if isinstance(value, Text) else Text(clean("" if value is None else str(value)))


class Ticker:
    """Progress: a bar on a terminal, else a plain line every two seconds while it changes, or nothing with --json.

    The bar is on standard error and disappears at the end, so that standard output holds only results.
    """

    def __init__(self) -> None:
        console = stderr()
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._printed_at = -_PLAIN_EVERY_S
        self._printed = ""
        if console.is_terminal and not console.is_dumb_terminal:
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

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

    def show(self, what: str, done: int, total: int | None = None) -> None:
        """Show "``done`` of ``total`` ``what``"; the total may be unknown."""
        if self._bar:
            if self._task is None:
                self._task = self._bar.add_task(what, total=total)
            self._bar.update(self._task, description=what, completed=done, total=total)
        elif not as_json() and time.monotonic() - self._printed_at >= _PLAIN_EVERY_S:
            line = (f"{done} of {total}" if total is not None else f"{done}") + f" {what}"
            if line != self._printed:
                say(line)
            self._printed_at, self._printed = time.monotonic(), line

    def show_finished(self, what: str, state: Job | Ingestion) -> None:
        """Show the number of finished documents, failed ones included."""
        self.show(what, state.succeeded + state.failed + state.cancelled, state.total)


UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_SPAN = re.compile(r"(\d{1,5})([smhd])")


def span_s(text: str, option: str) -> int:
    """Parse a time span into seconds. Raises a usage error."""
    match = _SPAN.fullmatch(text)
    if match is None:
        raise typer.BadParameter("must be a number with s, m, h or d, such as 90d", param_hint=option)
    return int(match[1]) * UNITS_S[match[2]]


def plural(count: int, one: str, many: str | None = None) -> str:
    """Return ``1 job``, ``2 jobs``."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def read_json(file: Path, kind: type[T]) -> T:
    """Read a JSON object or list from a file, or from standard input for ``-``. Raises InvalidInput."""
    try:
        text = typer.get_text_stream("stdin").read() if str(file) == "-" else file.read_text(encoding="utf-8")
        value = json.loads(text)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else f"it is not JSON: {error}"
        raise InvalidInput(f"{file} cannot be read: {reason}") from error
    if not isinstance(value, kind):
        raise InvalidInput(f"{file} must hold a JSON {'list' if kind is list else 'object'}")
    return value
