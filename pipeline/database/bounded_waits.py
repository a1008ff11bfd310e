"""Connections to MySQL and PostgreSQL whose every wait ends on this side, and that are replaced once the server closed them.

The kernel of a stopped server acknowledges what is sent, so no timeout of TCP notices it, and its own statement timeout
never fires. A wait therefore ends after its limit, or sooner: once a call has waited for half of ``silent_s``, the
process connects anew, and a server that greets nobody within the other half is silent. Statements without a limit, such
as index builds, may take as long as the server greets.
"""

import io
import select
import socket
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, Self

import psycopg
import pymysql
from psycopg.abc import PQGen, PQGenConn
from psycopg.waiting import Ready
from pymysql.constants import CR, ER
from sqlalchemy import Engine, event
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import DisconnectionError

from pipeline.errors import causes
from pipeline.store_urls import host_and_port

SILENT_S: Final = 10.0  # a busy server greets later than an idle one
NO_LIMIT: Final = float("inf")
LIMIT_REACHED: Final = "no answer to the statement within"  # of a server that greets others
_HEARD_S: Final = 1.0  # after a greeting no call asks for another one
_REFUSED_S: Final = 0.5  # after the server greeted nobody, no call connects
_SHORT_S: Final = 1.5  # a wait of this limit is over before a greeting would help
_IDLE_S: Final = 60.0  # a proxy or a failover drops idle connections, some without a sign
STAY_CONNECTED_S: Final = 25.0  # between two uses of a connection that shall not be idle for so long
_MYSQL_PORT: Final = 3306
_POSTGRES_PORT: Final = "5432"
_DEMOTED: Final = (
    1290,
    1836,
    1047,
)  # read_only; of MySQL 8 while it is in recovery; a node of Galera without the others
_READ_ONLY_TRANSACTION: Final = "25006"
_LOST: Final = (CR.CR_SERVER_GONE_ERROR, CR.CR_SERVER_LOST)
_SMALLEST_PACKET: Final = 16_384  # of a statement for which it is worth asking; the server's own minimum is 1,024
_ENDED: Final = select.POLLIN | select.POLLHUP | select.POLLERR | select.POLLRDHUP

Connect = Callable[[float], Any]  # connects within the given seconds, and closes


class _Login(threading.local):
    """Whether the server has sent anything to the login that this thread attempts."""

    is_greeted = False


_LOGIN: Final = _Login()


class Greetings:
    """Whether one server greets new connections, as last seen by any call of this process. Safe between threads."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._heard_at = self._silent_at = float("-inf")

    @property
    def is_silent(self) -> bool:
        """Return whether the server left a new connection without a greeting a moment ago."""
        return self._clock() - self._silent_at < _REFUSED_S

    def note_silence(self) -> None:
        """Note that the server has just left a new connection without a greeting."""
        self._silent_at = self._clock()

    def wait_for(self, connect: Connect, *, within_s: float) -> None:
        """Connect unless another call has just done so. Raises TimeoutError if the server is silent. A server that
        refuses the connection, or takes longer for the login than for its greeting, is not."""
        with self._lock:
            if self.is_silent:
                raise TimeoutError("it greets no new connection")
            if self._clock() - self._heard_at < _HEARD_S:
                return
            _LOGIN.is_greeted = False
            try:
                connect(within_s)
            except (pymysql.err.Error, psycopg.Error, OSError) as error:
                if _is_silence(error):
                    self.note_silence()
                    raise TimeoutError(f"no greeting within {within_s:g} s") from error
            self._heard_at = self._clock()


_GREETINGS: dict[str, Greetings] = {}  # by server; all engines of a process share what one of them has seen


class Patience:
    """How long calls on one connection wait: ``limit_s`` for the next bytes, ``silent_s`` while the server greets nobody."""

    def __init__(self, limit_s: float, silent_s: float, greetings: Greetings, connect: Connect) -> None:
        self._limit_s = limit_s
        self._looks = limit_s > _SHORT_S
        self.pause_s = min(silent_s, limit_s) / 2 if self._looks else limit_s
        self._greetings = greetings
        self._connect = connect

    def check(self, waited_s: float) -> None:
        """Return if a call that has waited so long may go on. Raises TimeoutError."""
        if waited_s >= self._limit_s:
            raise TimeoutError(f"{LIMIT_REACHED if self._looks else 'no answer within'} {self._limit_s:.3g} s")
        if self._looks and waited_s >= self.pause_s:
            self._greetings.wait_for(self._connect, within_s=self.pause_s)


def timed_out(error: BaseException) -> bool:
    """Return whether a driver's error comes from a wait that ended without an answer."""
    return any(isinstance(cause, TimeoutError | psycopg.errors.ConnectionTimeout) for cause in causes(error))


def _is_silence(error: BaseException) -> bool:
    """Return whether a login ended without a greeting. A busy server greets at once, and may be slow with the rest."""
    return timed_out(error) and not _LOGIN.is_greeted


class _Reader(io.RawIOBase):
    """The bytes of a socket, each wait for which its connection's patience ends."""

    def __init__(self, source: socket.socket, patience: Patience) -> None:
        super().__init__()
        self._socket = source
        self._patience = patience

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer with the next bytes. Raises TimeoutError."""
        began = time.monotonic()
        while True:
            try:
                return self._socket.recv_into(buffer)
            except TimeoutError:
                self._patience.check(time.monotonic() - began)


class MySqlConnection(pymysql.connections.Connection):  # type: ignore[misc]  # the driver has no types
    """A connection to MySQL whose waits are bounded."""

    def __init__(self, *args: Any, patience: Patience, **kwargs: Any) -> None:
        self._patience = patience
        self._again = partial(MySqlConnection, *args, patience=patience, **kwargs)
        super().__init__(*args, **kwargs)

    def connect(self, sock: Any = None) -> None:
        """Connect and log in; each wait of the login takes ``connect_timeout`` at most."""
        self._read_timeout = self._write_timeout = self.connect_timeout
        super().connect(sock)
        # The driver changes the socket's timeout when one of these differs: none does from here on.
        self._read_timeout = self._write_timeout = self._current_timeout = self._patience.pause_s
        self._sock.settimeout(self._patience.pause_s)
        self._rfile = io.BufferedReader(_Reader(self._sock, self._patience))

    def _get_server_information(self) -> None:
        super()._get_server_information()
        _LOGIN.is_greeted = True

    def query(self, sql: Any, unbuffered: bool = False) -> int:
        """Send a statement. Raises error 1153 with both sizes for one above max_allowed_packet, for which the server often
        ends the connection without a word."""
        try:
            return int(super().query(sql, unbuffered))
        except pymysql.err.OperationalError as error:
            size = len(sql.encode(self.encoding, "surrogateescape") if isinstance(sql, str) else sql)
            is_lost = error.args[0] in _LOST and not timed_out(error)
            if size < _SMALLEST_PACKET or not (is_lost or error.args[0] == ER.NET_PACKET_TOO_LARGE):
                raise
            if size <= (limit := self._packet_limit()):
                raise
            message = f"Got a packet of {size} of {limit} bytes (max_allowed_packet)"
            raise pymysql.err.OperationalError(ER.NET_PACKET_TOO_LARGE, message) from error

    def _packet_limit(self) -> float:
        """Return the server's max_allowed_packet, by a connection of its own; infinity if it does not answer."""
        try:
            with self._again() as other, other.cursor() as cursor:
                cursor.execute("SELECT @@max_allowed_packet")
                return int(cursor.fetchone()[0])
        except pymysql.err.Error:
            return float("inf")

    def _write_bytes(self, data: bytes) -> None:
        if self._current_timeout != self._patience.pause_s:  # not logged in yet
            super()._write_bytes(data)
            return
        rest = memoryview(data)
        began = time.monotonic()
        try:
            while rest:
                try:
                    rest = rest[self._sock.send(rest) :]
                    began = time.monotonic()
                except TimeoutError:
                    self._patience.check(time.monotonic() - began)
        except OSError as error:
            self._force_close()
            raise pymysql.err.OperationalError(
                CR.CR_SERVER_GONE_ERROR, f"MySQL server has gone away ({error})"
            ) from error


class PostgresConnection(psycopg.Connection[Any]):
    """A connection to PostgreSQL whose waits are bounded: statements, COPY, commit and rollback go through `wait`."""

    patience: Patience | None = None

    @classmethod
    def _connect_gen(cls, conninfo: str = "") -> PQGenConn[Self]:
        """Connect, and note the first answer of the server."""
        connecting = super()._connect_gen(conninfo)
        try:
            wanted = next(connecting)
            while True:
                ready = yield wanted
                _LOGIN.is_greeted = _LOGIN.is_greeted or bool(ready & Ready.R)
                wanted = connecting.send(ready)
        except StopIteration as end:
            connected: Self = end.value
            return connected

    def wait(self, gen: PQGen[Any], interval: float = 0.1, timeout: float | None = None) -> Any:
        """Wait for one answer. Raises psycopg.OperationalError on a connection that is closed then."""
        if self.patience is None:
            return super().wait(gen, interval, timeout)
        return super().wait(self._watched(gen, self.patience), interval, timeout)

    def _watched(self, gen: PQGen[Any], patience: Patience) -> PQGen[Any]:
        try:
            wanted = next(gen)
            began = time.monotonic()
            while True:
                ready = yield wanted
                if ready:
                    began = time.monotonic()
                else:
                    patience.check(time.monotonic() - began)
                wanted = gen.send(ready)
        except StopIteration as end:
            return end.value
        except TimeoutError as error:
            self.pgconn.finish()
            raise psycopg.OperationalError(f"connection lost: {error}") from error


class MySqlNodes:
    """The servers of one MySQL that take over from each other, in the order in which they are tried: as named, the one that
    took the last connection first. Safe between threads."""

    def __init__(self, hosts: Sequence[str]) -> None:
        self._nodes = [host_and_port(host, _MYSQL_PORT) for host in hosts]

    def connect(self, open_at: Callable[[str, int], MySqlConnection]) -> MySqlConnection:
        """Return a connection to the first node that takes writes, or else to one that answers: it can be read. A node that is
        lost between its greeting and its answer is passed over. Raises the error of the node that was tried first."""
        spare: MySqlConnection | None = None
        failure: pymysql.err.OperationalError | None = None
        for node in tuple(self._nodes):
            connection = None
            try:
                connection = open_at(*node)
                takes_writes = _takes_writes(connection)
            except pymysql.err.OperationalError as error:
                failure = failure or error
                if connection is not None:
                    connection.close()
                continue
            if takes_writes:
                if spare is not None:
                    spare.close()
                self._nodes = [node, *(other for other in self._nodes if other != node)]
                return connection
            if spare is None:
                spare = connection
            else:
                connection.close()
        if spare is None:
            raise failure or pymysql.err.OperationalError(CR.CR_CONN_HOST_ERROR, "no server is named")
        return spare


def _takes_writes(connection: MySqlConnection) -> bool:
    """Return whether a server is neither read-only nor a node of Galera that has lost the others."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT @@global.read_only")
        if int(cursor.fetchone()[0]):
            return False
        cursor.execute("SHOW GLOBAL STATUS WHERE variable_name IN ('wsrep_cluster_size', 'wsrep_ready')")
        state = dict(cursor.fetchall())  # outside Galera: none, or a cluster of no node
        return bool(state.get("wsrep_cluster_size", "0") == "0" or state["wsrep_ready"] == "ON")


def bound_mysql(engine: Engine, *, limit_s: float, silent_s: float) -> None:
    """Limit the waits of every connection of this engine for MySQL.

    A connection is replaced once the server has closed it, or once another server has taken over."""
    greetings = _greetings(engine)
    hosts = engine.url.query.get("host", ())
    nodes = MySqlNodes([hosts] if isinstance(hosts, str) else hosts)

    def connect(_dialect: Any, _record: Any, args: Any, options: dict[str, Any]) -> Any:
        def open_at(*node: Any) -> MySqlConnection:
            own = options | dict(zip(("host", "port"), node, strict=False))

            def greet(within_s: float) -> None:
                MySqlConnection(*args, **own | {"patience": patience, "connect_timeout": within_s}).close()

            patience = Patience(limit_s, silent_s, greetings, greet)
            return MySqlConnection(*args, patience=patience, **own)

        if greetings.is_silent:
            message = "Can't connect to MySQL server (it answered nobody a moment ago)"
            raise pymysql.err.OperationalError(CR.CR_CONN_HOST_ERROR, message)
        _LOGIN.is_greeted = False
        try:
            return nodes.connect(open_at) if hosts else open_at()
        except pymysql.err.OperationalError as error:
            _note(error, greetings)
            raise

    event.listen(engine, "do_connect", connect)
    event.listen(engine, "handle_error", _give_up_refused)
    event.listen(engine, "handle_error", _leave_demoted)
    _replace_ended(engine, lambda connection: connection._sock)  # None: closed


def bound_postgres(engine: Engine, *, limit_s: float, silent_s: float) -> None:
    """Have every connection of this engine on PostgreSQL wait within bounds, and be replaced once the server closed it."""
    greetings = _greetings(engine)
    several = bool(engine.url.query.get("host"))
    last: list[str] = []  # host and port of the server that took the last connection

    def connect(_dialect: Any, _record: Any, args: Any, options: dict[str, Any]) -> Any:
        if several:
            options = options | _tried_first(last, options)

        def greet(within_s: float) -> None:
            own = dict(zip(("host", "port"), at, strict=False)) | {"connect_timeout": max(2, round(within_s))}
            PostgresConnection.connect(*args, **options | own).close()

        if greetings.is_silent:
            raise psycopg.OperationalError("connection failed: it answered nobody a moment ago")
        _LOGIN.is_greeted = False
        try:
            connection = PostgresConnection.connect(*args, **options)
        except psycopg.OperationalError as error:
            _note(error, greetings)
            raise
        at = [connection.info.host, str(connection.info.port)] if several else []
        last[:] = at
        connection.patience = Patience(limit_s, silent_s, greetings, greet)
        return connection

    event.listen(engine, "do_connect", connect)
    event.listen(engine, "handle_error", _leave_demoted)
    _replace_ended(engine, lambda connection: None if connection.closed else connection.pgconn.socket)


def _tried_first(node: Sequence[str], options: dict[str, Any]) -> dict[str, Any]:
    """Return libpq's list of hosts and ports with this one first: it waits two seconds at least for one that is silent."""
    nodes = list(zip(options["host"].split(","), str(options.get("port", "")).split(","), strict=True))
    nodes.sort(key=lambda each: (each[0], each[1] or _POSTGRES_PORT) != tuple(node))
    hosts, ports = zip(*nodes, strict=True)
    return {"host": ",".join(hosts), "port": ",".join(ports)}


def _give_up_refused(context: ExceptionContext) -> None:
    """Note that the server ends a connection with its answer to a packet that is too large."""
    if getattr(context.original_exception, "args", ())[:1] == (ER.NET_PACKET_TOO_LARGE,):
        context.is_disconnect, context.invalidate_pool_on_disconnect = True, False


def _leave_demoted(context: ExceptionContext) -> None:
    """Give up all connections to a server that takes no writes any more: the next ones go to the server that took over."""
    error = context.original_exception
    number = getattr(error, "args", ())[:1] if isinstance(error, pymysql.err.Error) else ()
    if (number and number[0] in _DEMOTED) or getattr(error, "sqlstate", None) == _READ_ONLY_TRANSACTION:
        context.is_disconnect = True


def _greetings(engine: Engine) -> Greetings:
    url = engine.url
    return _GREETINGS.setdefault(f"{url.get_backend_name()}:{url.host}:{url.port}:{url.query}", Greetings())


def _note(error: BaseException, greetings: Greetings) -> None:
    if _is_silence(error):
        greetings.note_silence()


def _replace_ended(engine: Engine, socket_of: Callable[[Any], Any]) -> None:
    """Replace a pooled connection on checkout if the server has closed it, or if it was idle for a minute. Asks the
    system alone, so that no query pays for a message."""
    event.listen(engine, "checkin", _note_return)
    event.listen(engine, "checkout", partial(_refuse_ended, socket_of))


def _note_return(_connection: Any, record: Any) -> None:
    record.info["returned_at"] = time.monotonic()


def _refuse_ended(socket_of: Callable[[Any], Any], connection: Any, record: Any, _proxy: Any) -> None:
    if time.monotonic() - record.info.get("returned_at", float("inf")) > _IDLE_S:
        raise DisconnectionError("the connection was idle for long")
    connected = socket_of(connection)
    if connected is None or has_ended(connected):
        raise DisconnectionError("the server has closed the connection")


def has_ended(connected: Any) -> bool:
    """Return whether a socket has something to read although nothing was asked: the server has closed it, or said why."""
    poll = select.poll()
    poll.register(connected, _ENDED)
    return bool(poll.poll(0))
