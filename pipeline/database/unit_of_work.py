"""A unit of work: one block, one transaction; its messages are sent after the commit."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import ParamSpec, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError
from tenacity import (
    retry,
    retry_if_exception_type,
    retry_if_not_exception_type,
    stop_after_attempt,
    wait_random_exponential,
)

from pipeline.database.engines import Conflict, LockHeld, mysql_errors, outage_of
from pipeline.database.store_errors import MYSQL, location
from pipeline.errors import StoreUnavailable
from pipeline.threads import start_call

T = TypeVar("T")
P = ParamSpec("P")


def retry_conflicts(attempts: int = 5, *, lock_held: bool = False) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Return a decorator that runs a whole transaction again, up to ``attempts`` times, when it ends in Conflict; after
    waiting for a lock in vain only with ``lock_held``."""
    return retry(
        retry=retry_if_exception_type(Conflict) & retry_if_not_exception_type(() if lock_held else LockHeld),
        stop=stop_after_attempt(attempts),
        wait=wait_random_exponential(multiplier=0.05, max=1),
        reraise=True,
    )


class UnitOfWork:
    """A transaction on MySQL and the messages that wait for it."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._waiting: list[Callable[[], object]] = []

    def after_commit(self, send: Callable[[], object]) -> None:
        """Call ``send`` after a successful commit; never after a rollback."""
        self._waiting.append(send)

    def send_all(self) -> None:
        """Send the waiting messages, in the order in which they were added."""
        for send in self._waiting:
            send()


@contextmanager
def unit_of_work(mysql: Engine) -> Iterator[UnitOfWork]:
    """Commit if the block returns, roll back if it raises. Nothing inside commits. Raises StoreUnavailable, Conflict when
    the block may be run again, and OutcomeUnknown when the server stopped answering during the commit."""
    with mysql_errors(), mysql.connect() as connection, connection.begin() as transaction:
        work = UnitOfWork(connection)
        yield work
        try:
            transaction.commit()
        except DBAPIError as error:
            if error.connection_invalidated:
                raise location(MYSQL, mysql.url).outcome_unknown() from error
            raise
    work.send_all()


@contextmanager
def reading(mysql: Engine) -> Iterator[Connection]:
    """Yield a connection for single read statements: on an engine made for reading, without BEGIN and ROLLBACK. Raises
    StoreUnavailable, at once during a known outage."""
    outage = outage_of(mysql)
    with nullcontext() if outage is None else outage.refused(), mysql_errors(), mysql.connect() as connection:
        yield connection


def read_soon(mysql: Engine, read: Callable[[Connection], T], *, seconds: float) -> T:
    """Return the result of a small read. Raises its errors, and StoreUnavailable if it takes longer than ``seconds``."""

    def call() -> T:
        with reading(mysql) as connection:
            return read(connection)

    outage = outage_of(mysql)
    if outage is not None and outage.is_on:
        return call()  # it is refused; no thread is needed for it
    running = start_call(call)
    try:
        return running.result(timeout=seconds)
    except TimeoutError:
        running.cancel()
        if outage is not None:
            outage.suspect(waited=True)
        raise StoreUnavailable(f"MySQL: no answer within {seconds:g} s", public="MySQL is not answering") from None


@contextmanager
def reading_if_asked(mysql: Engine) -> Iterator[Callable[[], Connection]]:
    """Yield a function that takes the connection of `reading` at its first call only."""
    taken: list[Connection] = []
    with ExitStack() as block:

        def connection() -> Connection:
            if not taken:
                taken.append(block.enter_context(reading(mysql)))
            return taken[0]

        yield connection
