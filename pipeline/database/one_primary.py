"""Refuse writes to MySQL while two of its servers take them beside each other, as after a promotion that did not end the
former primary.

The row `installation` names the server that claimed it, with a term that each claim raises; Redis has the last claim. A
promoted server has replicated the claim of the server before it, and is claimed anew. A server whose own claim is the last
in its row, although Redis has a later one of another server, takes writes that its successor lacks. Nothing is concluded
from times, names or addresses, so that restarts, clocks and a failover without a second primary raise no alarm. The nodes
of one Galera, and the members of one group, count as one server.
"""

import time
from collections.abc import Callable
from contextlib import closing
from typing import Any, Final

import pymysql
import redis
import structlog
from sqlalchemy import Connection, Engine, event
from sqlalchemy.engine import ExceptionContext

from pipeline.database.engines import redis_errors
from pipeline.errors import StoreReadOnly
from pipeline.outages import OutagePause, tolerate_outage

log = structlog.get_logger(__name__)

CLAIM: Final = "chordwise:mysql:claim"  # in Redis: the installation's id, the term and the server of the last claim
SPLIT: Final = "chordwise:mysql:split"  # in Redis: the installation's id, and the sentence that names two servers
SPLIT_S: Final = 15  # after a process last met the former primary

_FRESH_S: Final = 2.0  # a comparison, while the connections of the process lead to the same server
_AWAY_S: Final = 10.0  # until Redis is asked again if it did not answer
_AGAIN_S: Final = 60.0
_SERVER, _OPENED_AT, _REFUSAL = "chordwise_server", "chordwise_opened_at", "chordwise_refusal"
_NOT_IN_READ_ONLY: Final = 1792  # a write in a transaction that may only read

_FACTS = "SHOW GLOBAL VARIABLES WHERE variable_name IN ('hostname', 'port', 'server_id', 'server_uuid', '{group}')"
_GROUP = "group_replication_group_name"
_CLUSTER = "SHOW GLOBAL STATUS WHERE variable_name = 'wsrep_cluster_state_uuid'"  # zeros outside Galera
_LONGEST: Final = 255  # characters of a server's name
_ROW = "SELECT @@GLOBAL.read_only, installation_id, primary_term, primary_server FROM installation WHERE id = 1"
_TAKE = (
    "UPDATE installation SET primary_term = %s, primary_server = %s"
    " WHERE id = 1 AND primary_term = %s AND primary_server = %s"
)
_PUBLIC: Final = "Two servers of MySQL take writes beside each other, so nothing is written until one of them has ended"

Claim = tuple[str, int, str]  # of an installation: its id, the term and the server


class OnePrimary:
    """The server that a process writes to on MySQL, and the last claim that it knows. Thread-safe.

    The last claim is compared when a connection leads to another server than the one before, and every two seconds in which
    there are transactions: a command of Redis, and a statement if the servers differ. A transaction on a former primary may
    only read, and its connection is not used again. If a connection made after that leads to it too, both are reached by
    the same address, and no process writes to either until none has met the former one for 15 seconds.
    """

    def __init__(self, client: Callable[[], redis.Redis], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._server = ""
        self._due_at = self._met_at = float("-inf")  # the next comparison; the last meeting with a former primary
        self._pause = OutagePause(_AWAY_S, clock=clock)
        self._installation = ""
        self._known: Claim | None = None
        self._alarm = ""  # as it stands in Redis

    def guard(self, engine: Engine) -> None:
        """Compare before the transactions of an engine, and raise StoreReadOnly for the writes of those that may only read."""
        event.listen(engine, "begin", self._compare)
        event.listen(engine, "handle_error", _explain)

    def _compare(self, connection: Connection) -> None:
        info = connection.info
        info.pop(_REFUSAL, None)
        if info.get(_SERVER) == self._server and self._clock() < self._due_at:
            return
        self._due_at = self._clock() + _FRESH_S
        try:
            with closing(connection.connection.cursor()) as cursor:
                if _SERVER not in info:
                    info[_SERVER], info[_OPENED_AT] = server_of(cursor), self._clock()
                refusal = self._refusal(connection, cursor, info[_SERVER], opened_at=info[_OPENED_AT])
                if refusal:
                    info[_REFUSAL] = refusal
                    cursor.execute("SET TRANSACTION READ ONLY")
                    connection.connection.invalidate(soft=True)  # the next one shows where the address leads now
        except pymysql.err.MySQLError as error:  # the transaction's own statement meets it as well
            self._server = ""
            log.info("mysql_not_compared", error=type(error).__name__)

    def _refusal(self, connection: Connection, cursor: Any, server: str, *, opened_at: float) -> str:
        """Return why nothing may be written by this connection, empty if it may; claim a server that was promoted."""
        known = self._last_claim()
        if known is not None and known[0] == self._installation and known[2] == server:
            return self._settled(server)
        cursor.execute(_ROW)
        row = cursor.fetchone()
        connection.connection.rollback()
        if row is None or str(row[0]) not in ("0", "OFF"):  # no installation yet; or this server writes nothing
            return self._split
        self._installation, term, holder = row[1], int(row[2]), str(row[3])
        latest, claimed = known[1:] if known is not None and known[0] == self._installation else (0, "")
        if claimed == server:
            return self._settled(server)
        if claimed and holder == server and term <= latest:
            return self._meet(server, claimed, opened_at)
        if holder != server:
            cursor.execute(_TAKE, (max(term, latest) + 1, server, term, holder))
            connection.connection.commit()
            if not cursor.rowcount:  # another process came first
                return self._split
            term = max(term, latest) + 1
            log.warning("mysql_server_claimed", server=server, former=holder, term=term)
        self._note(CLAIM, f"{self._installation} {term} {server}")
        self._known = (self._installation, term, server)
        return self._settled(server)

    def _settled(self, server: str) -> str:
        """Note that the server is the claimed one, so that the next transactions go on without a comparison unless two servers
        are reached; return the sentence about these."""
        self._server = "" if self._split else server
        return self._split

    def _meet(self, former: str, successor: str, opened_at: float) -> str:
        """Return the sentence about two servers that take writes; tell every process if both are reached again and again."""
        sentence = str(two_primaries(former, successor))
        self._server = ""
        met_at, self._met_at = self._met_at, self._clock()
        if met_at <= opened_at and self._met_at - met_at < _AGAIN_S:
            self._note(SPLIT, f"{self._installation} {sentence}", ex=SPLIT_S)
            log.error("two_primaries", former=former, successor=successor)
        else:
            log.warning("former_primary_left", former=former, successor=successor)
        return sentence

    def _last_claim(self) -> Claim | None:
        """Return the last claim, and note whether two servers are reached: as known before while Redis does not answer."""
        if not self._pause.is_over:
            return self._known
        with self._pause.after_outage(log.info, "mysql_not_compared"), redis_errors():
            claim, alarm = self._client().mget(CLAIM, SPLIT)  # type: ignore[misc]
            self._known = claim_in(claim) or self._known
            self._alarm = (alarm or b"").decode()
        return self._known

    @property
    def _split(self) -> str:
        """Return the sentence about two servers that other processes met, empty without one."""
        installation, _, sentence = self._alarm.partition(" ")
        return sentence if installation == self._installation else ""

    def _note(self, key: str, value: str, *, ex: int | None = None) -> None:
        with tolerate_outage(log.info, "mysql_not_compared"), redis_errors():
            self._client().set(key, value, ex=ex)


def server_of(cursor: Any) -> str:
    """Return a name of the server that nobody else has: of a cluster whose nodes have the same rows, the cluster's."""
    cursor.execute(_CLUSTER)
    cluster = dict(cursor.fetchall()).get("wsrep_cluster_state_uuid", "")
    if cluster.strip("0-"):
        return f"Galera {cluster}"
    cursor.execute(_FACTS.format(group=_GROUP))
    facts = {name.lower(): value for name, value in cursor.fetchall()}
    if facts.get(_GROUP):
        return f"group {facts[_GROUP]}"
    own = facts.get("server_uuid") or f"server_id {facts['server_id']}"
    return f"{facts['hostname']}:{facts['port']} ({own})"[-_LONGEST:]


def claim_in(value: bytes | None) -> Claim | None:
    """Return the claim that a value in Redis is, None without one."""
    installation, _, rest = (value or b"").decode().partition(" ")
    term, _, server = rest.partition(" ")
    return (installation, int(term), server) if server and term.isdigit() else None


def refusal_of(connection: Connection) -> str:
    """Return why the connection's transaction may only read, empty if it may write."""
    return str(connection.info.get(_REFUSAL, ""))


def claim_for_good(connection: Connection, client: redis.Redis) -> None:
    """Claim the connection's server whatever Redis knows: an operator says that it is to stay. Ends the alarm."""
    with closing(connection.connection.cursor()) as cursor:
        server = server_of(cursor)
        cursor.execute(_ROW)
        row = cursor.fetchone()
        assert row is not None
        _, installation, term, holder = row
        known = claim_in(client.get(CLAIM))  # type: ignore[arg-type]
        latest = known[1] if known is not None and known[0] == installation else 0
        cursor.execute(_TAKE, (max(int(term), latest) + 1, server, term, holder))
    connection.commit()
    client.set(CLAIM, f"{installation} {max(int(term), latest) + 1} {server}")
    client.delete(SPLIT)


def two_primaries(former: str, successor: str) -> StoreReadOnly:
    """Return the error for writes while both take them."""
    return _refused(
        f"two servers of MySQL take writes, {former} and its successor {successor}, each without what the other one took:"
        " end one of them, or let it only read (read_only); writes go on by themselves if the successor stays; if the"
        " former one is to stay, run python -m pipeline.maintenance.migrate_schema adopt"
    )


def _refused(sentence: str) -> StoreReadOnly:
    return StoreReadOnly(sentence, public=_PUBLIC)


def _explain(context: ExceptionContext) -> None:
    """Raise StoreReadOnly for a write in a transaction that may only read because of two primaries."""
    if getattr(context.original_exception, "args", ())[:1] != (_NOT_IN_READ_ONLY,) or context.connection is None:
        return  # a connection that was lost has no facts, and asking for them raises
    if refusal := refusal_of(context.connection):
        raise _refused(refusal)
