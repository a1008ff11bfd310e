"""Examine the stores that are named with several servers: which one is used, and how many could take over from it."""

from contextlib import suppress
from typing import Any

from pydantic import SecretStr
from sqlalchemy import Engine, make_url, text

from pipeline.database.engines import (
    mysql_engine,
    mysql_errors,
    postgres_engine,
    postgres_errors,
    redis_errors,
    used_server,
)
from pipeline.errors import PipelineError
from pipeline.maintenance.doctor import NodeFacts
from pipeline.resources import Resources
from pipeline.settings import Settings
from pipeline.store_urls import host_and_port, hosts_of, sentinel_url

_ANSWER_S = 1.0  # of a server that is not used now
_LAG = text(
    "SELECT CASE WHEN NOT pg_is_in_recovery() OR pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn() THEN 0"
    " ELSE EXTRACT(EPOCH FROM clock_timestamp() - pg_last_xact_replay_timestamp()) END"
)
_GREETING = text("SELECT 0")


def names_several(settings: Settings) -> bool:
    """Return whether a store, or a RabbitMQ, is named with several servers."""
    urls = (settings.mysql_url, settings.postgres_url, settings.redis_url)
    return ";" in settings.broker or any(len(hosts_of(url.get_secret_value())) > 1 for url in urls)


def nodes(use: Resources) -> list[NodeFacts]:
    """Return the servers of each store that is named with several. Raises StoreUnavailable."""
    settings = use.settings
    found = []
    if len(hosts_of(settings.mysql_url.get_secret_value())) > 1:
        with mysql_errors(), use.mysql.connect() as connection:
            found.append(_of_database("MySQL", settings, used_server(connection)))
    if len(hosts_of(settings.postgres_url.get_secret_value())) > 1:
        with postgres_errors(), use.postgres.connect() as connection:
            found.append(_of_database("PostgreSQL", settings, used_server(connection)))
    if sentinel_url(settings.redis_url.get_secret_value()) is not None:
        found.append(_of_redis(use))
    return found


def _of_database(server: str, settings: Settings, used: tuple[str, int]) -> NodeFacts:
    """Return the facts of a database: each of its other servers is asked for an answer."""
    field, port = ("mysql_url", 3306) if server == "MySQL" else ("postgres_url", 5432)
    url = getattr(settings, field).get_secret_value()
    others = [node for host in hosts_of(url) if (node := host_and_port(host, port)) != used]
    lags = [_lag(server, settings, field, node) for node in others]
    answering = [lag for lag in lags if lag is not None]
    return NodeFacts(
        server=server,
        node=f"{used[0]}:{used[1]}",
        others=len(others),
        ready=len(answering),
        lag_s=min(answering) if answering and server == "PostgreSQL" else None,
    )


def _lag(server: str, settings: Settings, field: str, node: tuple[str, int]) -> float | None:
    """Return the seconds by which a server is behind, 0 if it cannot be known; None if it does not answer."""
    whole = make_url(getattr(settings, field).get_secret_value())
    alone = whole.difference_update_query(["host", "target_session_attrs"]).set(host=node[0], port=node[1])
    one = settings.model_copy(update={field: SecretStr(alone.render_as_string(hide_password=False))})
    with suppress(PipelineError):
        if server == "MySQL":
            with mysql_errors():
                return _asked(mysql_engine(one, timeout_s=_ANSWER_S), _GREETING)
        with postgres_errors():
            return _asked(postgres_engine(one, timeout_s=_ANSWER_S), _LAG)
    return None


def _asked(engine: Engine, statement: Any) -> float:
    try:
        with engine.connect() as connection:
            return float(connection.execute(statement).scalar() or 0.0)
    finally:
        engine.dispose()


def _of_redis(use: Resources) -> NodeFacts:
    """Return the facts of a Redis, as its sentinels know them."""
    pool: Any = use.quick_redis.connection_pool
    sentinels: Any = pool.sentinel_manager  # redis-py has no types for these
    with redis_errors():
        host, port = sentinels.discover_master(pool.service_name)
        replicas = sentinels.discover_slaves(pool.service_name)
        known = sentinels.sentinels[0].sentinel_slaves(pool.service_name)
    return NodeFacts(server="Redis", node=f"{host}:{port}", others=len(known), ready=len(replicas))
