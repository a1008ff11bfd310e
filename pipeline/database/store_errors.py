"""Translation of the drivers' errors into ours, naming the server, the database and the operator's remedy.

Messages of the drivers are repeated only for the errors listed here, whose messages name users, tables and rights.
Other messages may quote a statement, and thus a user's text.
"""

import re
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, replace

import psycopg
import redis
import redis.sentinel
from sqlalchemy import URL, exc, make_url
from sqlalchemy.engine import ExceptionContext

from pipeline.database.bounded_waits import LIMIT_REACHED
from pipeline.errors import (
    NoSuchName,
    OutcomeUnknown,
    PipelineError,
    StatementTooLarge,
    StoreFull,
    StoreMisconfigured,
    StoreReadOnly,
    StoreUnavailable,
    causes,
)
from pipeline.store_urls import sentinel_url

MIGRATE = "python -m pipeline.maintenance.migrate_schema"


class Conflict(StoreUnavailable):
    """The database rolled back one of two conflicting transactions; the caller may run it again."""

    code = "store_conflict"


class LockHeld(Conflict):
    """Another transaction held a lock for longer than this one may wait; running it again at once would wait as long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """One database of one server, described for an operator; never a password. ``variable``: the setting of its URL."""

    server: str
    variable: str
    address: str = ""
    database: str = ""
    user: str = ""

    def __str__(self) -> str:
        at = f" at {self.address}" if self.address else ""
        database = f", database {self.database}" if self.database else ""
        return f"{self.server}{at}{database}"

    @property
    def settings(self) -> str:
        """Return the variables that hold address and password."""
        return f"{self.variable} and {self.variable.removesuffix('_URL')}_PASSWORD"

    @property
    def _sessions(self) -> str:
        return "SHOW FULL PROCESSLIST" if self.server == "MySQL" else "pg_stat_activity"

    def refused(self, reason: str) -> StoreMisconfigured:
        """Return the error for a fault that the operator has to remove."""
        public = (
            f"{self.server} is not set up completely; the operator of this installation finds the reason in the log."
        )
        return StoreMisconfigured(f"{self}: {reason}", public=public)

    def conflict(self) -> Conflict:
        """Return the error for a transaction that lost against another one."""
        return Conflict(f"{self}: two transactions collided", public=f"{self.server}: two writers collided")

    def locked(self) -> LockHeld:
        """Return the error for a transaction that waited for another's lock in vain."""
        return LockHeld(
            f"{self}: another transaction held a lock for too long; {self._sessions} shows whose",
            public=f"{self.server} did not give a lock in time: another statement holds it",
        )

    def full(self, reason: str, remedy: str = "free space on the server's disk") -> StoreFull:
        """Return the error for a server without space; callers try again, so work continues once there is some."""
        return StoreFull(f"{self}: {reason}; {remedy}", server=self.server)

    def away(self, reason: str) -> StoreUnavailable:
        """Return the error for a server that may answer later."""
        return StoreUnavailable(f"{self}: {reason}", public=f"{self.server} is not answering")

    def crowded(self, reason: str) -> StoreUnavailable:
        """Return the error for a server that runs and has no connection left for this process."""
        return StoreUnavailable(f"{self}: {reason}", public=f"{self.server} has no connection left")

    def held_up(self, reason: str) -> StoreUnavailable:
        """Return the error for a statement that a server which runs did not end in time."""
        return StoreUnavailable(
            f"{self}: {reason}; {self._sessions} shows what holds it up",
            public=f"{self.server} did not end a statement in time: it waits for a lock, or is busy",
        )

    def read_only(self, reason: str) -> StoreReadOnly:
        """Return the error for a server that takes no writes."""
        return StoreReadOnly(
            f"{self}: the server takes no writes ({reason}); name the primary server in {self.variable}",
            public=f"{self.server} takes no writes at the moment",
        )

    def outcome_unknown(self) -> OutcomeUnknown:
        """Return the error for a commit without an answer."""
        public = (
            f"{self.server} stopped answering during the commit, so the request was carried out or not: send it again with"
            " the same Idempotency-Key, or look before you send it again without one"
        )
        return OutcomeUnknown(f"{self}: no answer to a commit", public=public)

    def packet_too_small(self, message: str) -> StatementTooLarge:
        """Return the error for a statement above MySQL's max_allowed_packet. ``message``: that of the driver."""
        sizes = _SIZES.search(message)
        needed, taken = (f"{int(size):,} bytes" for size in sizes.groups()) if sizes else ("more", "less")
        return StatementTooLarge(
            f"{self.server} takes statements of {taken} (max_allowed_packet), and {needed} are needed: send less at once, or"
            " have the operator raise max_allowed_packet"
        )


_SIZES = re.compile(r"a packet of (\d+) of (\d+) bytes")

MYSQL = Location(server="MySQL", variable="CHORDWISE_MYSQL_URL")
POSTGRES = Location(server="PostgreSQL", variable="CHORDWISE_POSTGRES_URL")
REDIS = Location(server="Redis", variable="CHORDWISE_REDIS_URL")


def location(of: Location, url: URL) -> Location:
    """Return ``of`` with the address, the database and the user of a URL; every address, if it has several."""
    port = f":{url.port}" if url.port else ""
    others = url.query.get("host", ())
    address = f"{url.host}{port}" if url.host else ", ".join([others] if isinstance(others, str) else others)
    return replace(of, address=address or "localhost", database=url.database or "", user=url.username or "")


def redis_location(url: str, of: Location) -> Location:
    """Return ``of`` with the address and the database of a Redis, or those of the sentinels that name it."""
    named = sentinel_url(url)
    if named is None:
        return location(of, make_url(url))
    address = ", ".join(f"{host}:{port}" for host, port in named.nodes)
    server = make_url(named.server)
    return replace(of, address=address, database=f"{named.name}/{named.database}", user=server.username or "")


_LOCATION = "chordwise_location"


def attach_location(at: Location, context: ExceptionContext) -> None:
    """Attach the location to an error of SQLAlchemy; a listener of ``handle_error``."""
    if context.sqlalchemy_exception is not None:
        setattr(context.sqlalchemy_exception, _LOCATION, at)


def translated(of: Location) -> Iterator[None]:
    """Translate every exception of SQLAlchemy, PyMySQL or psycopg in the block; the body of a context manager."""
    try:
        yield
    except PipelineError:
        raise
    except exc.DBAPIError as error:
        at = getattr(error, _LOCATION, of)
        translation = _of_mysql(at, error) if of.server == MYSQL.server else _of_postgres(at, error)
        if translation is None:
            raise
        raise translation from error
    except psycopg.errors.DiskFull as error:  # from COPY, on psycopg's own cursor, as the next
        raise of.full(_words(str(error))) from error
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        raise of.away(type(error).__name__) from error
    except exc.TimeoutError as error:
        raise of.crowded("no free connection in the pool of this process") from error


_LOCK_HELD, _DEADLOCK = 1205, 1213
_WRITTEN_ALREADY = 1062  # another transaction wrote the same row first; run again, this one finds it
# "Illegal mix of collations": MySQL cannot write a literal in the characters of the column it is compared with.
_INCOMPARABLE = 1267
_MIGRATE_OR_LOOK = f"run {MIGRATE} upgrade, then {MIGRATE} check"
# Numbers of errors, with the reason and the remedy.
_MYSQL_REFUSALS = (
    (
        {1045, 1698},
        "{words}: the password is wrong, or this user may log in from another host or over TLS only; check {at.settings};"
        " for TLS append ?ssl_ca=/path/ca.pem",
    ),
    ({1044, 1142, 1143, 1227, 1370}, "{words}; as an administrator run: {grant}"),
    (
        {1049},
        "there is no such database; check {at.variable}, or as an administrator run:"
        " CREATE DATABASE `{at.database}` CHARACTER SET utf8mb4; {grant}",
    ),
    ({1130, 3159}, "{words}; append ?ssl_ca=/path/ca.pem to {at.variable} if the server asks for TLS"),
    ({1054, 1146, 1176, 1191, 1305}, f"{{words}}: {_MIGRATE_OR_LOOK}"),
)


_MORE = "or lower CHORDWISE_STORE_POOL_SIZE or the number of processes"
_TOO_MANY = {
    1040: f"raise max_connections of the server, {_MORE}",
    1203: f"raise MAX_USER_CONNECTIONS of user {{at.user}}, {_MORE}",
    1226: f"raise MAX_USER_CONNECTIONS of user {{at.user}}, {_MORE}",
}
_READ_ONLY = {1290: "read_only, error 1290", 1792: "error 1792", 1836: "read_only, error 1836"}
_PACKET = 1153
# The driver lost its connection.
_LOST = {2006, 2013}
# A file, the disk or a temporary file cannot grow; an error of a storage engine whose text names the reason.
_FULL = {3, 1021, 1026, 1114}
_OF_ENGINE = 1030
_LOST = {2006, 2013, 2055}


def _of_mysql(at: Location, error: exc.DBAPIError) -> PipelineError | None:
    number, message = _number(error), _message(error)
    if _of_system(message):
        return at.refused(f"{_words(message)}; {_OWN_FOLDER}")
    if number == _INCOMPARABLE:
        return NoSuchName("A name or id in the request has characters that no name or id of its kind has.")
    if number == _LOCK_HELD:
        return at.locked()
    if number in (_DEADLOCK, _WRITTEN_ALREADY):
        return at.conflict()
    for numbers, sentence in _MYSQL_REFUSALS:
        if number in numbers:
            words, grant = _words(message), _grant(at, message)
            return at.refused(sentence.format(words=words, grant=grant, at=at, number=number))
    if (reason := untrusted(error)) is not None:
        advice = certificate_advice(reason, f"?ssl_ca=/path/ca.pem with the CA of this server to {at.variable}")
        return at.refused(f"the server's certificate is not trusted ({reason}); {advice}")
    if number in _READ_ONLY:
        return at.read_only(_READ_ONLY[number])
    if number == _PACKET:
        return at.packet_too_small(message)
    if number in _TOO_MANY:
        return at.crowded(f"{_words(message)}; {_TOO_MANY[number].format(at=at)}")
    if number in _FULL or (number == _OF_ENGINE and "No space left" in message):
        return at.full(_words(message))
    if number in _LOST and LIMIT_REACHED in message:
        return at.held_up(_cause(message))
    if number == 2003 or (number in _LOST and message.endswith(")")):
        return at.away(f"it does not answer ({_cause(message)})")
    if number in _LOST:
        return at.away("it does not answer in time, or the connection was lost")
    return _other(at, error, number)


# PostgreSQL reports it as 42501, as a missing GRANT: 'could not open file "base/5/2619": Permission denied'. MySQL and
# MariaDB: "Can't create/write to file '…' (Errcode: 13 "Permission denied")", "Got error 13 … from storage engine".
_SYSTEM = re.compile(r"^could not [^:]+: Permission denied|(?:Errcode|errno): (?:1|13|30)\b|^Got error (?:1|13|30)\b")
_OWN_FOLDER = (
    "the operating system refuses the server its own files: give their folder back to the user that the server runs as"
    " (chown, chmod), or mount the disk for writing"
)


def _of_system(message: str) -> bool:
    """Return whether the operating system denied the server a file; no GRANT helps then."""
    return _SYSTEM.search(message) is not None


def _grant(at: Location, message: str) -> str:
    account = re.search(r"'([^']*)'@'([^']*)'", message)
    user, host = account.groups() if account else (at.user, "%")
    return f"GRANT ALL PRIVILEGES ON `{at.database}`.* TO '{user}'@'{host}'"


# Messages of psycopg's errors on connecting, which carry no SQLSTATE. Servers that speak another language are
# quoted without advice.
DIRECT = "name PostgreSQL itself in CHORDWISE_POSTGRES_DIRECT_URL if {variable} names PgBouncer: docs/install.md"
_CONNECTING = (
    (r"unsupported startup parameter", DIRECT),
    (r"password authentication failed|no password supplied", "check {settings}"),
    (r'role "[^"]*" (does not exist|is not permitted to log in)', "check the user in {variable}"),
    (
        r'database "[^"]*" does not exist',
        'check {variable}, or as an administrator run: CREATE DATABASE "{database}" OWNER "{user}"',
    ),
    (r"permission denied for database", 'as an administrator run: GRANT ALL ON DATABASE "{database}" TO "{user}"'),
    (r"no pg_hba\.conf entry.*no encryption", "append ?sslmode=require to {variable}: the server may ask for TLS"),
    (r"no pg_hba\.conf entry|pg_hba\.conf rejects", "allow this host, user and database in the server's pg_hba.conf"),
    (r"server does not support SSL", "turn TLS on in the server, or remove sslmode from {variable}"),
    (
        r"certificate verify failed|root certificate file|does not match host name",
        "append ?sslrootcert=/path/ca.pem with the CA of this server to {variable}, or renew a certificate that has expired",
    ),
)

_DISK_FULL = "53100"
_TOO_MANY_CONNECTING = "too many connections for|too many clients|remaining connection slots"

_STATES_NOT_MIGRATED = {"42P01", "42703", "42704", "42883", "3F000"}


def _of_postgres(at: Location, error: exc.DBAPIError) -> PipelineError | None:
    state, message = getattr(error.orig, "sqlstate", None), _message(error)
    if state in {"40001", "40P01", "55P03"}:
        return at.conflict()
    if _of_system(message):
        return at.refused(f"{_words(message)}; {_OWN_FOLDER}")
    if state == "42501":
        return at.refused(f"{_words(message)}; as an administrator run: {_postgres_grant(at, message)}")
    if state in _STATES_NOT_MIGRATED:
        return at.refused(f"{_words(message)}: {_MIGRATE_OR_LOOK}")
    if state == _DISK_FULL:
        return at.full(_words(message))
    if state == "25006" or (
        state is None and message.endswith("session is read-only")
    ):  # or none of several servers does
        return at.read_only(state or "session is read-only")
    if state == "57014":  # by statement_timeout
        return at.held_up(_words(message))
    if state == "53300":
        return at.crowded(f"{_words(message)}; {_raise_limit(at, message)}")
    if state is None and isinstance(error, exc.OperationalError):
        reason = _words(message.rpartition("failed: ")[2])
        for pattern, advice in _CONNECTING:
            if re.search(pattern, message, re.DOTALL):
                remedy = advice.format(settings=at.settings, variable=at.variable, database=at.database, user=at.user)
                return at.refused(f"{reason.removeprefix('FATAL: ')}; {remedy}")
        if re.search(_TOO_MANY_CONNECTING, message):
            return at.crowded(f"{reason.removeprefix('FATAL: ').strip()}; {_raise_limit(at, message)}")
        if LIMIT_REACHED in message:
            return at.held_up(reason)
        if isinstance(error.orig, psycopg.OperationalError) and re.search("connect|resolve host", message):
            return at.away(f"it does not answer ({reason})")
    return _other(at, error, state)


def _raise_limit(at: Location, message: str) -> str:
    limit = f'CONNECTION LIMIT of role "{at.user}"' if 'for role "' in message else "max_connections of the server"
    return f"raise the {limit}, or lower CHORDWISE_STORE_POOL_SIZE or the number of processes"


def _postgres_grant(at: Location, message: str) -> str:
    if "to create extension" in message:
        return create_extension(at)
    if "for schema" in message:
        return grant_schema(at)
    return grant_tables(at)


def grant_schema(at: Location) -> str:
    """Return the statement that lets the user create tables."""
    return f'GRANT ALL ON SCHEMA public TO "{at.user}" (in database {at.database})'


def grant_tables(at: Location) -> str:
    """Return the statement that lets the user write to every table."""
    return (
        f'GRANT ALL ON ALL TABLES IN SCHEMA public TO "{at.user}" (in database {at.database}; or make it their owner)'
    )


def create_extension(at: Location, statement: str = "CREATE EXTENSION vector") -> str:
    """Return the command line with which a superuser creates pgvector in this database."""
    host, _, port = at.address.rpartition(":")
    where = f" -h {host} -p {port}" if host else f" -h {at.address}" if at.address else ""
    return f'psql{where} -U postgres -d {at.database} -c "{statement}"'


def _other(at: Location, error: exc.DBAPIError, code: int | str | None) -> PipelineError | None:
    """Translate an error outside the lists above: an outage, or a statement that this server does not understand."""
    if isinstance(error, exc.OperationalError | exc.InterfaceError | exc.InternalError):
        return at.away(f"{type(error.orig).__name__} {code or ''}".rstrip())
    if isinstance(error, exc.ProgrammingError):
        reason = f"it does not understand a statement of this version ({code})"
        return at.refused(f"{reason}; compare its version with docs/install.md and run {MIGRATE} check")
    return None


_IN_PIPELINE = re.compile(r"^Command # .*? of pipeline caused error: ", re.DOTALL)


def of_redis(error: redis.RedisError, of: Location = REDIS) -> StoreUnavailable:
    """Translate an error of redis-py; the result names the server's address if it is known."""
    message = _IN_PIPELINE.sub("", str(error))
    address = re.search(r"connecting to ([^\s]+:\d+)", message)
    at = replace(of, address=of.address or (address[1].rstrip(".") if address else ""), database="")
    if (reason := untrusted(error)) is not None:
        advice = certificate_advice(reason, f"?ssl_ca_certs=/path/ca.pem with the CA of this server to {at.variable}")
        return at.refused(f"the server's certificate is not trusted ({reason}); {advice}")
    if isinstance(error, redis.AuthenticationError) or message.startswith(("NOAUTH", "WRONGPASS")):
        return at.refused(f"the user or the password is wrong; check {at.settings}")
    if isinstance(error, redis.exceptions.NoPermissionError):
        advice = "give it the rights in docs/install.md (Servers, users and rights)"
        return at.refused(f"the user may not run a command of this service ({_words(message)}); {advice}")
    if isinstance(error, redis.exceptions.ReadOnlyError):
        return at.refused(f"the server is a replica, which takes no writes; name the primary server in {at.variable}")
    if isinstance(error, redis.exceptions.OutOfMemoryError):
        return at.full("its memory is used up (maxmemory)", "raise maxmemory or shorten CHORDWISE_QUERY_TTL_S")
    if "MISCONF" in message:  # the words around it depend on where the command stood: alone, in a script, in a pipeline
        return at.full(
            "it cannot write to its disk (MISCONF)",
            "free space there, or let the user that it runs as write to its folder; its log has the reason",
        )
    if "max number of clients" in message:
        return at.away(f"{_words(message)}; raise maxclients of the server, or lower the number of processes")
    if "SSL" in message or isinstance(error.__cause__ or error.__context__, ssl.SSLError):
        advice = f"rediss:// in {at.variable} is for a server with TLS, redis:// for one without"
        return at.refused(f"no TLS connection could be made ({_words(message)}); {advice}")
    if isinstance(error, redis.sentinel.MasterNotFoundError):
        if re.search("AuthenticationError|NOAUTH|WRONGPASS", message):
            return at.refused(
                f"the sentinels refuse the user or the password; check sentinel_password in {at.variable}"
            )
        return at.away("the sentinels name no primary server that answers, or do not answer themselves")
    if isinstance(error, redis.TimeoutError):
        return at.away("it does not answer in time")
    if isinstance(error, redis.ConnectionError) and "connecting to" in message:
        return at.away(f"it does not answer ({_words(message.rpartition('. ')[2])})")
    return at.away(type(error).__name__)


def certificate_advice(reason: str, authority: str) -> str:
    """Return the remedy for a refused certificate. ``authority``: the parameter to append, and where."""
    return (
        "renew it on the server, and compare both clocks"
        if re.search("expired|not yet valid", reason)
        else f"append {authority}"
    )


def untrusted(error: BaseException) -> str | None:
    """Return the reason for a refused certificate, in a cause of the driver's error; None if none was refused."""
    driver_error: BaseException = getattr(error, "orig", None) or error
    for cause in causes(driver_error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return cause.verify_message
    reason = re.search(r"certificate verify failed: ([^(\]]+)", str(driver_error))
    return reason[1].strip() if reason else None


def _cause(message: str) -> str:
    """Return the operating system's text inside a message of PyMySQL."""
    inside = re.search(r"\((?:\[Errno -?\d+\] )?([^()]+)\)$", message)
    return inside[1] if inside else "no connection"


def _number(error: exc.DBAPIError) -> int | None:
    arguments = getattr(error.orig, "args", ())
    return arguments[0] if arguments and isinstance(arguments[0], int) else None


def _message(error: exc.DBAPIError) -> str:
    """Return the server's sentence, without the lines that quote the statement."""
    primary = getattr(getattr(error.orig, "diag", None), "message_primary", None)
    if primary:
        return str(primary)
    arguments = getattr(error.orig, "args", ())
    return str(arguments[-1]) if arguments else ""


def _words(message: str) -> str:
    """Return the first line of a message, as part of a sentence."""
    first = message.strip().splitlines()[0] if message.strip() else "refused"
    return re.sub(r"\s+", " ", first).rstrip(".")
