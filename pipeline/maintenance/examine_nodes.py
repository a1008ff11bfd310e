"""Examine the servers of each store: which one is used, how many could take over from it, and how far they are behind.

Servers that a URL names are asked each. Where it has one name, as of a proxy or a moving address, the server behind it is asked
for those that follow it; one that knows none, or does not tell this user, counts as a single server.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

import pymysql
import redis
from pydantic import SecretStr
from sqlalchemy import Connection, Engine, make_url, text
from sqlalchemy.exc import DBAPIError

from pipeline.database.engines import (
    mysql_engine,
    mysql_errors,
    postgres_engine,
    postgres_errors,
    redis_errors,
    used_server,
)
from pipeline.database.schema import mysql_server
from pipeline.errors import PipelineError
from pipeline.maintenance.doctor import NodeFacts
from pipeline.resources import Resources
from pipeline.settings import Settings
from pipeline.store_urls import host_and_port, hosts_of, sentinel_url

_ANSWER_S = 1.0  # of a server that is not used now
_NOT_TOLD: Final = (1044, 1045, 1064, 1142, 1227)  # without the right; 1064: MySQL before 8.0.22 has other words
_SYNCED: Final = "4"  # of wsrep_local_state
_GALERA = text(
    "SHOW GLOBAL STATUS WHERE variable_name IN ('wsrep_cluster_size', 'wsrep_local_state', 'wsrep_local_recv_queue')"
)
_GROUP = "SELECT member_state AS state FROM performance_schema.replication_group_members WHERE member_id <> ''"
_LAG = text(
    "SELECT CASE WHEN NOT pg_is_in_recovery() OR pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn() THEN 0"
    " ELSE EXTRACT(EPOCH FROM clock_timestamp() - pg_last_xact_replay_timestamp()) END"
)
# Without pg_monitor a user sees the rows, and nothing in them but the pid.
_STREAMING = text(
    "SELECT COUNT(*), MIN(CASE WHEN state IS NOT NULL THEN EXTRACT(EPOCH FROM COALESCE(replay_lag, INTERVAL '0')) END)"
    " FROM pg_stat_replication r WHERE COALESCE(state, 'streaming') = 'streaming' AND NOT EXISTS"
    " (SELECT 1 FROM pg_replication_slots s WHERE s.active_pid = r.pid AND s.slot_type = 'logical')"
)


def names_several(settings: Settings) -> bool:
    """Return whether a store, or a RabbitMQ, is named with several servers."""
    urls = (settings.mysql_url, settings.postgres_url, settings.redis_url)
    return ";" in settings.broker or any(len(hosts_of(url.get_secret_value())) > 1 for url in urls)


def nodes(use: Resources) -> list[NodeFacts]:
    """Return the servers of each store that has several. Raises StoreUnavailable."""
    settings = use.settings
    found = []
    with mysql_errors(), use.mysql.connect() as connection:
        found.append(_of_database("MySQL", settings, connection))
    with postgres_errors(), use.postgres.connect() as connection:
        found.append(_of_database("PostgreSQL", settings, connection))
    found.append(_of_redis(use))
    return [facts for facts in found if facts is not None]


def _of_database(server: str, settings: Settings, connection: Connection) -> NodeFacts | None:
    """Return the facts of a database, None for a single server. Each other server that the URL names is asked."""
    field, port = ("mysql_url", 3306) if server == "MySQL" else ("postgres_url", 5432)
    url, used = getattr(settings, field).get_secret_value(), used_server(connection)
    named = hosts_of(url)
    if len(named) < 2:
        others, following = (_followers_in_mysql if server == "MySQL" else _followers_in_postgres)(connection)
    else:
        nodes = [node for host in named if (node := host_and_port(host, port)) != used]
        lags = [_lag(server, settings, field, node) for node in nodes]
        others, following = len(nodes), [lag for lag in lags if lag is not None]
    if others is None:
        return None
    return NodeFacts(
        server=server,
        node=f"{used[0]}:{used[1]}",
        others=others,
        ready=len(following),
        behind=_nearest(following),
    )


def _lag(server: str, settings: Settings, field: str, node: tuple[str, int]) -> str | None:
    """Return how far a server is behind with its unit, empty if it cannot be known; None if it does not answer or follow."""
    whole = make_url(getattr(settings, field).get_secret_value())
    alone = whole.difference_update_query(["host", "target_session_attrs"]).set(host=node[0], port=node[1])
    one = settings.model_copy(update={field: SecretStr(alone.render_as_string(hide_password=False))})
    with suppress(PipelineError):
        if server == "MySQL":
            with mysql_errors(), _connected(mysql_engine(one, timeout_s=_ANSWER_S)) as connection:
                return _lag_in_mysql(connection)
        with postgres_errors(), _connected(postgres_engine(one, timeout_s=_ANSWER_S)) as connection:
            return f"{float(connection.execute(_LAG).scalar() or 0.0):.1f} s"
    return None


@contextmanager
def _connected(engine: Engine) -> Iterator[Connection]:
    try:
        with engine.connect() as connection:
            yield connection
    finally:
        engine.dispose()


def _lag_in_mysql(connection: Connection) -> str | None:
    galera = _galera(connection)
    if galera:
        waiting = galera.get("wsrep_local_recv_queue", "0")
        return f"{waiting} transactions" if galera.get("wsrep_local_state") == _SYNCED else None
    status = _told(connection, "SHOW REPLICA STATUS")
    if not status:
        return ""
    seconds = [row.get("Seconds_Behind_Source", row.get("Seconds_Behind_Master")) for row in status]
    return None if None in seconds else f"{max(map(float, seconds)):.1f} s"


def _followers_in_mysql(connection: Connection) -> tuple[int | None, list[str]]:
    """Return how many other servers this one knows, None if there are none, and a lag of each that follows."""
    galera = _galera(connection)
    if galera:
        others = int(galera["wsrep_cluster_size"]) - 1
        return others, [""] * others
    is_mysql = mysql_server(connection)[0] == "MySQL"
    if is_mysql and (members := _told(connection, _GROUP)):
        return len(members) - 1, ["" for row in members if row["state"] == "ONLINE"][1:]
    replicas = _told(connection, "SHOW REPLICAS" if is_mysql else "SHOW REPLICA HOSTS")
    return len(replicas) or None, [""] * len(replicas)


def _galera(connection: Connection) -> dict[str, str]:
    """Return the state of a node of Galera; nothing for another server."""
    state = {str(name): str(value) for name, value in connection.execute(_GALERA)}
    return state if state.get("wsrep_cluster_size", "0") != "0" else {}


def _told(connection: Connection, statement: str) -> Sequence[Mapping[str, Any]]:
    """Return the rows of a statement; none if the server does not tell this user."""
    try:
        return [dict(row) for row in connection.execute(text(statement)).mappings()]
    except DBAPIError as error:
        if isinstance(error.orig, pymysql.err.MySQLError) and error.orig.args[0] in _NOT_TOLD:
            return []
        raise


def _followers_in_postgres(connection: Connection) -> tuple[int | None, list[str]]:
    """Return how many standbys stream from this server, None if there are none, and a lag of each, that of the nearest."""
    count, lag = connection.execute(_STREAMING).one()
    return count or None, ["" if lag is None else f"{float(lag):.1f} s"] * count


def _of_redis(use: Resources) -> NodeFacts | None:
    """Return the facts of a Redis, as its sentinels know them; without sentinels, as the server knows its replicas."""
    with redis_errors():
        replication: dict[str, Any] = {}
        with suppress(redis.exceptions.NoPermissionError):
            replication = use.quick_redis.info("replication")  # type: ignore[assignment]
        copies = [copy for name, copy in replication.items() if name.startswith("slave") and isinstance(copy, dict)]
        lags = [f"{float(copy['lag']):.1f} s" for copy in copies if copy.get("state") == "online" and "lag" in copy]
        pool: Any = use.quick_redis.connection_pool
        if sentinel_url(use.settings.redis_url.get_secret_value()) is None:
            at = pool.connection_kwargs
            node, others, ready = f"{at.get('host')}:{at.get('port')}", len(copies), len(lags)
            if not others:
                return None
        else:
            sentinels: Any = pool.sentinel_manager  # redis-py has no types for these
            node = "{}:{}".format(*sentinels.discover_master(pool.service_name))
            ready = len(sentinels.discover_slaves(pool.service_name))
            others = len(sentinels.sentinels[0].sentinel_slaves(pool.service_name))
    return NodeFacts(server="Redis", node=node, others=others, ready=ready, behind=_nearest(lags))


def _nearest(lags: Sequence[str]) -> str:
    return min(filter(None, lags), key=lambda lag: float(lag.split()[0]), default="")
