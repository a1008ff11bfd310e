"""The lock of one tenant's moves, in the default pair's MySQL, and the changes of its placement, which need the lock."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Final

import pymysql
from sqlalchemy import Connection, Engine, event, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from pipeline.database.engines import mysql_errors
from pipeline.deadline import Deadline
from pipeline.errors import PlacementRefused
from pipeline.records import TenantId
from pipeline.tenants.placement import Placement
from pipeline.tenants.placement_store import Placements

# The server ends the session of a mover that is suspended, or whose host is gone, after this time, and frees its lock.
_SILENCE_S: Final = 30
_BEAT_S: Final = 1.0


class MoverLock:
    """The right to move one tenant. It lasts as long as its connection, on which the placement is also changed: a process
    that has lost the lock can change nothing. Thread-safe but for `change`."""

    def __init__(self, connection: Connection, tenant_id: TenantId, beat_s: float = _BEAT_S) -> None:
        self.tenant_id = tenant_id
        self._connection, self._beat_s = connection, beat_s
        self._name = {"name": f"chordwise_move_{tenant_id}"[:64]}
        self._placements = Placements(connection, tenant_id)
        self._use = threading.Lock()  # of the connection, for one statement
        self._ended = threading.Event()
        self._until = Deadline.after(None)
        self._is_lost = False

    @property
    def is_lost(self) -> bool:
        """Return whether the lock is known to be lost. It does not come back."""
        return self._is_lost

    def take(self, silence_s: int) -> bool:
        """Take the lock if it is free; return whether it was."""
        self._connection.execute(text(f"SET SESSION wait_timeout = {int(silence_s)}"))
        is_free = self._connection.execute(text("SELECT GET_LOCK(:name, 0)"), self._name).scalar()
        self._connection.commit()
        return bool(is_free)

    def keep(self) -> None:
        """Give signs of life until the lock is freed or lost; the body of a thread, which writes no log that could block."""
        while not self._is_lost and not self._ended.wait(self._beat_s):
            with self._use:
                if self._until.has_passed or not self._lives():
                    self._lose()

    def free(self) -> None:
        """Free the lock and end its connection."""
        self._ended.set()
        with self._use:
            with suppress(SQLAlchemyError):
                if not self._is_lost and not self._connection.invalidated:
                    self._connection.rollback()
                    self._connection.execute(text("SELECT RELEASE_LOCK(:name)"), self._name)
            self._lose()  # no other user of the pool gets a session with a short timeout

    @contextmanager
    def at_most(self, until: Deadline) -> Iterator[None]:
        """Lose the lock at a deadline that passes in the block, whatever keeps the mover waiting there."""
        self._until = until
        try:
            yield
        finally:
            self._until = Deadline.after(None)

    def confirm(self) -> None:
        """Raise PlacementRefused unless this process still holds the lock."""
        with mysql_errors(), self._use:
            self._refuse_lost()
            self._connection.rollback()

    def find(self) -> Placement:
        """Return the tenant's placement. Raises PlacementRefused as `confirm`."""
        with mysql_errors(), self._use:
            self._refuse_lost()
            placement = self._placements.find()
            self._connection.rollback()
        return placement

    def change(self, before: Placement, act: Callable[[], object] = lambda: None, **fields: object) -> Placement:
        """Replace the placement, if it is still ``before``, and return the new one. ``act`` is called in between, while no
        other process can change the placement. Raises PlacementRefused, before or after ``act``, and the stores' errors."""
        with mysql_errors():
            try:
                with self._use:
                    self._refuse_lost()
                    if self._placements.hold() != before:
                        raise PlacementRefused(f"the placement of tenant {self.tenant_id} was changed meanwhile")
                act()
                with self._use:
                    self._refuse_lost()
                    after = self._placements.change(before, **fields)
                    self._connection.commit()
            finally:  # nothing is left to roll back after the commit
                with self._use, suppress(SQLAlchemyError):
                    self._connection.rollback()
        return after

    def _refuse_lost(self) -> None:
        if self._is_lost or not self._holds():
            self._is_lost = True
            raise PlacementRefused(
                f"this process has lost the right to move tenant {self.tenant_id}, by a pause, an outage of MySQL or the"
                " limit of the freeze; the tenant goes on where it is: run the command again"
            )

    def _holds(self) -> bool:
        """Ask the server: SQLAlchemy opens another session, without the lock, where the server has ended the first."""
        try:
            held = text("SELECT IS_USED_LOCK(:name) = CONNECTION_ID()")
            return bool(self._connection.execute(held, self._name).scalar())
        except DBAPIError as error:
            if error.connection_invalidated:
                return False
            raise

    def _lives(self) -> bool:
        """Return whether the server answers in the same session, beside any transaction."""
        if self._connection.invalidated:
            return False
        try:
            self._connection.connection.driver_connection.ping(reconnect=False)  # type: ignore[union-attr]
        except (pymysql.Error, OSError, SQLAlchemyError):
            return False
        return True

    def _lose(self) -> None:
        self._is_lost = True
        with suppress(SQLAlchemyError):
            self._connection.invalidate()


def end_silent_sessions(mysql: Engine) -> None:
    """Have the server end the engine's sessions, with their transactions and locks, as it ends that of a mover's lock."""

    def shorten(connection: Any, _: object) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"SET SESSION wait_timeout = {_SILENCE_S}")

    event.listen(mysql, "connect", shorten)


@contextmanager
def hold_moves(
    mysql: Engine, tenant_id: TenantId, *, silence_s: int = _SILENCE_S, beat_s: float = _BEAT_S
) -> Iterator[MoverLock]:
    """Hold the lock of the tenant's moves, which the server frees if this process dies, or gives no sign of life for
    ``silence_s``. Raises PlacementRefused if another process holds it."""
    with ExitStack() as stack:
        with mysql_errors():
            lock = MoverLock(stack.enter_context(mysql.connect()), tenant_id, beat_s)
            stack.callback(lock.free)
            if not lock.take(silence_s):
                raise PlacementRefused(f"another process moves tenant {tenant_id}")
        keeper = threading.Thread(target=lock.keep, name="mover-lock", daemon=True)
        keeper.start()
        yield lock
