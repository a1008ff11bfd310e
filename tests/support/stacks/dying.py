"""Stores that die: just before any one statement or commit, as a process that was killed there would leave them."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Engine, event

_SPACE = re.compile(r"\s+")
_VERB = re.compile(r"(INSERT IGNORE INTO|INSERT INTO|DELETE FROM|UPDATE|SELECT|COPY)\b", re.IGNORECASE)
_TABLE = re.compile(r"\b(?:INTO|UPDATE|FROM)\s+`?\"?([a-z_]+)", re.IGNORECASE)


class Died(BaseException):
    """The process is gone: nothing that catches errors may go on after this."""


class Moments:
    """Numbers the moments of a run, each the one before a statement or a commit, and dies in one of them."""

    def __init__(self, *, die_at: int | None = None) -> None:
        self.names: list[str] = []
        self._die_at = die_at
        self._thread = threading.get_ident()

    def pass_by(self, name: str) -> None:
        """Called in every moment; only those of the thread that made this count."""
        if threading.get_ident() != self._thread:
            return
        self.names.append(name)
        if self._die_at is not None and len(self.names) > self._die_at:
            raise Died(f"before {name}")


@contextmanager
def watched(mysql: Engine, postgres: Engine, moments: Moments) -> Iterator[None]:
    """Let ``moments`` see every statement and commit of both engines within the block."""
    listeners: list[tuple[Engine, str, Callable[..., None]]] = []
    for name, engine in (("mysql", mysql), ("postgres", postgres)):

        def statement(*arguments: Any, name: str = name) -> None:
            moments.pass_by(f"{name}: {_short(arguments[2])}")

        def commit(connection: Any, name: str = name) -> None:
            moments.pass_by(f"{name}: commit")

        listeners += [(engine, "before_cursor_execute", statement), (engine, "commit", commit)]
    for engine, kind, listener in listeners:
        event.listen(engine, kind, listener)
    try:
        yield
    finally:
        for engine, kind, listener in listeners:
            event.remove(engine, kind, listener)


def _short(statement: str) -> str:
    """The verb and the table."""
    flat = _SPACE.sub(" ", statement).strip()
    verb, table = _VERB.match(flat), _TABLE.search(flat)
    return f"{verb.group(1).upper() if verb else flat[:20]} {table.group(1) if table else ''}".strip()
