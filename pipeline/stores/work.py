"""One block, one transaction; what must be told to others leaves after the commit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from sqlalchemy import Connection, Engine

from pipeline.stores.engines import mysql_errors


class UnitOfWork:
    """A transaction on MySQL and the messages that wait for it."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._waiting: list[Callable[[], None]] = []

    def after_commit(self, send: Callable[[], None]) -> None:
        """Call ``send`` once the transaction stands; never if it fails."""
        self._waiting.append(send)

    def send_all(self) -> None:
        """Tell what waited, in the order it was given."""
        for send in self._waiting:
            send()


@contextmanager
def unit_of_work(mysql: Engine) -> Iterator[UnitOfWork]:
    """Commit if the block returns, roll back if it raises. Nothing inside commits by itself.

    Raises StoreUnavailable, or its kind Conflict when the same block may simply be run again.
    """
    with mysql_errors(), mysql.begin() as connection:
        work = UnitOfWork(connection)
        yield work
    work.send_all()


@contextmanager
def reading(mysql: Engine) -> Iterator[Connection]:
    """A connection for statements that only read, each by itself: on an engine made for reading, no BEGIN and no
    ROLLBACK travel around them. Raises StoreUnavailable."""
    with mysql_errors(), mysql.connect() as connection:
        yield connection


@contextmanager
def reading_if_asked(mysql: Engine) -> Iterator[Callable[[], Connection]]:
    """What gives the connection of `reading`, which is taken when it is first asked for: who finds all he needs in the
    process takes none."""
    taken: list[Connection] = []
    with ExitStack() as block:

        def connection() -> Connection:
            if not taken:
                taken.append(block.enter_context(reading(mysql)))
            return taken[0]

        yield connection
