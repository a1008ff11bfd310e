"""Stores of several servers: connections go to the one that takes writes, and to its successor after a failover."""

from __future__ import annotations

import asyncio
import re
import socket
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis
from kombu import Connection, Queue
from pydantic import SecretStr
from sqlalchemy import URL, Engine, make_url, text

from api_gateway.app import create_app
from pipeline.database.engines import (
    mysql_engine,
    mysql_errors,
    postgres_engine,
    postgres_errors,
    redis_client,
    redis_errors,
)
from pipeline.database.redis_checks import check_redis
from pipeline.database.redis_connections import async_redis_of, sentinel_options, until_handed_over
from pipeline.errors import StoreMisconfigured, StoreUnavailable, WrongInstallation
from pipeline.maintenance import examine_stores
from pipeline.maintenance.doctor import Severity
from pipeline.maintenance.verify import verify
from pipeline.records import TenantId
from pipeline.resources import Resources
from pipeline.settings import Settings, load
from pipeline.store_urls import for_celery
from tests.conftest import make_tables, scratch_databases
from tests.support.clients.operating import eventually
from tests.support.servers.administration import postgres_url, run_as
from tests.support.servers.clusters import WatchedRedis, two_mariadbs, watched_redis
from tests.support.servers.own_stores import own_postgres
from tests.support.servers.proxy import Proxy
from tests.support.servers.standby import postgres_pair
from workers.transport import use_these


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory):
    with watched_redis(tmp_path_factory.mktemp("watched")) as cluster:
        yield cluster


def named(settings: Settings, **urls: str) -> Settings:
    """Return the settings with these URLs, completed as those of the environment are."""
    return settings.model_copy(update={name: getattr(load({name: url}), name) for name, url in urls.items()})


@pytest.mark.thorough
class DescribeARedisUnderSentinels:
    def it_counts_the_replicas_and_how_far_they_are_behind(self, settings: Settings, watched: WatchedRedis):
        eventually(watched.is_followed, within_s=60)
        counted = (
            rf"the primary server of Redis is 127.0.0.1:{watched.primary()}, 1 of 1 could take over, \d\.\d s behind"
        )
        own = named(settings, redis_url=watched.url).model_copy(update={"broker_url": None})
        assert re.fullmatch(counted, _readiness(own)["detail"])
        direct = watched.servers[watched.primary()].url
        assert re.fullmatch(counted, _readiness(named(own, redis_url=direct))["detail"]), "behind one name"

    def it_serves_stores_and_messages_before_and_after_a_failover(self, settings: Settings, watched: WatchedRedis):
        own = named(settings, redis_url=watched.url, broker_url=watched.url)
        check_redis(own)
        use_these()
        bare, tls = for_celery(own.broker)
        options = {"socket_timeout": 1.0, "socket_connect_timeout": 1.0} | sentinel_options(own.broker)
        assert tls is None
        with closing(redis_client(own)) as client:
            client.set("before", "kept")
            client.wait(1, 1000)
            _deliver(bare, options, "one")
            lost = watched.fail_over()
            eventually(lambda: _set(client, "after"), within_s=20)
            assert client.mget("before", "after") == [b"kept", b"1"]
        _deliver(bare, options, "two")
        check_redis(own)
        lost.start()

    def it_leaves_a_server_that_hands_over_and_still_takes_writes(self, settings: Settings, watched: WatchedRedis):
        eventually(watched.is_followed, within_s=60)
        former = watched.servers[watched.primary()].url
        with (
            closing(redis_client(named(settings, redis_url=watched.url))) as client,
            closing(redis.Redis.from_url(former)) as beside,
        ):
            client.incr("written")
            watched.hand_over()
            eventually(lambda: client.incr("written") != int(beside.get("written") or 0), within_s=3)
            assert beside.execute_command("ROLE")[0] == b"master"
            written = client.incr("written")
            eventually(watched.is_followed, within_s=60)
            assert int(client.get("written") or 0) == written

    async def it_ends_a_subscription_at_a_server_that_hands_over(self, settings: Settings, watched: WatchedRedis):
        eventually(watched.is_followed, within_s=60)
        client = async_redis_of(watched.url)
        async with client.pubsub() as subscription:
            await subscription.subscribe("a channel")
            watched.hand_over()
            async with asyncio.timeout(3):
                await until_handed_over(subscription)
        pool: Any = client.connection_pool
        for each in (client, *pool.sentinel_manager.sentinels):
            await each.aclose()

    def it_leaves_a_server_that_hangs(self, settings: Settings, watched: WatchedRedis):
        with closing(redis_client(named(settings, redis_url=watched.url))) as client:
            client.set("name", "before")
            with client.pipeline() as own_connection:
                own_connection.watch("name")
                client.get("name")  # so that there are two
            eventually(watched.is_followed, within_s=60)
            port = watched.primary()
            lost = watched.servers[port]
            lost.freeze()
            try:
                with pytest.raises(redis.TimeoutError):
                    client.get("name")
                eventually(lambda: watched.primary() != port, within_s=60)
                with client.pipeline() as own_connection:
                    own_connection.watch("name")
                    client.set("name", "after")
                    assert client.get("name") == b"after"
            finally:
                lost.thaw()

    def it_names_the_sentinels_when_none_knows_the_name(self, settings: Settings, watched: WatchedRedis):
        wrong = named(settings, redis_url=watched.url.replace("/own/", "/another/"))
        with pytest.raises(StoreUnavailable) as raised:
            check_redis(wrong.model_copy(update={"broker_url": None}))
        assert "Redis at 127.0.0.1:" in str(raised.value)
        assert "the sentinels name no primary server that answers" in str(raised.value)

    def it_names_the_wrong_password_of_the_sentinels(self, settings: Settings, watched: WatchedRedis):
        wrong = named(settings, redis_url=watched.url.partition("?")[0] + "?sentinel_password=wrong")
        with pytest.raises(StoreMisconfigured, match="sentinel_password"):
            check_redis(wrong.model_copy(update={"broker_url": None}))


def _set(client: redis.Redis, name: str) -> bool:
    try:
        return bool(client.set(name, 1))
    except redis.RedisError:
        return False


def _deliver(url: str, options: dict, text: str) -> None:
    """Send a message through the broker and take it."""
    received: list[str] = []
    with Connection(url, transport_options=options) as connection, connection.channel() as channel:
        queue = Queue("of-tests", channel=channel)
        queue.declare()
        with connection.Producer(channel) as producer:
            producer.publish(text, routing_key="of-tests", declare=[queue], serializer="json")
        with connection.Consumer([queue], callbacks=[lambda body, message: (received.append(body), message.ack())]):
            while not received:
                connection.drain_events(timeout=5)
    assert received == [text]


@pytest.mark.thorough
class DescribeAMariadbWithAReplica:
    def it_goes_to_the_server_that_takes_writes_and_to_its_successor(self, settings: Settings, tmp_path: Path):
        with two_mariadbs(tmp_path) as pair:
            own = named(settings, mysql_url=pair.url)
            ports = [make_url(server.url).port for server in (pair.first, pair.second)]
            engine = mysql_engine(own)
            try:
                assert _port(engine) == ports[0]
                with mysql_errors(), engine.begin() as connection:
                    connection.execute(text("CREATE TABLE t (n INT)"))
                eventually(pair.has_caught_up)
                pair.promote()
                pair.demote()
                with pytest.raises(StoreUnavailable), mysql_errors(), engine.begin() as connection:
                    connection.execute(text("INSERT INTO t VALUES (1)"))
                with mysql_errors(), engine.begin() as connection:
                    connection.execute(text("INSERT INTO t VALUES (2)"))
                assert _port(engine) == ports[1]
                pair.second.kill()
                with mysql_errors(), engine.connect() as connection:  # the first one can still be read
                    assert connection.execute(text("SELECT @@port")).scalar_one() == ports[0]
            finally:
                engine.dispose()

    def it_says_in_readiness_which_server_is_used_and_when_none_could_take_over(
        self, settings: Settings, tmp_path: Path
    ):
        with scratch_databases(settings) as scratch, two_mariadbs(tmp_path) as pair:
            own = named(scratch, mysql_url=pair.url).model_copy(update={"broker_url": None})
            with closing(Resources(own)) as use:
                make_tables(use)
            used = f"127.0.0.1:{make_url(pair.first.url).port}"
            found = _readiness(own)
            assert (found["status"], found["required"]) == ("ok", False)
            assert found["detail"] == f"the primary server of MySQL is {used}, 1 of 1 could take over"
            as_root = [make_url(server.url).set(username="root") for server in (pair.first, pair.second)]
            run_as(as_root[0], "GRANT REPLICA MONITOR ON *.* TO chordwise@'127.0.0.1'")
            eventually(pair.has_caught_up)
            found = _readiness(own)
            assert found["detail"] == f"the primary server of MySQL is {used}, 1 of 1 could take over, 0.0 s behind"
            run_as(as_root[1], "STOP SLAVE SQL_THREAD")
            found = _readiness(own)
            assert found["detail"] == f"no server could take over from MySQL at {used}"
            run_as(as_root[1], "START SLAVE")
            pair.second.kill()
            found = _readiness(own)
            assert found["status"] == "warning"
            assert found["detail"] == f"no server could take over from MySQL at {used}"

    def it_counts_the_replicas_that_a_server_behind_one_name_knows(self, settings: Settings, tmp_path: Path):
        with scratch_databases(settings) as scratch, two_mariadbs(tmp_path) as pair:
            own = named(scratch, mysql_url=pair.first.url).model_copy(update={"broker_url": None})
            with closing(Resources(own)) as use:
                make_tables(use)
            assert _readiness(own) == {}, "the server tells this user nothing"
            as_root = make_url(pair.first.url).set(username="root")
            run_as(as_root, "GRANT REPLICATION MASTER ADMIN ON *.* TO chordwise@'127.0.0.1'")
            used = f"127.0.0.1:{make_url(pair.first.url).port}"
            assert _readiness(own)["detail"] == f"the primary server of MySQL is {used}, 1 of 1 could take over"

    def it_leaves_a_demoted_server_behind_a_moving_address(self, settings: Settings, tmp_path: Path):
        with two_mariadbs(tmp_path) as pair:
            addresses = [make_url(server.url) for server in (pair.first, pair.second)]
            with Proxy("127.0.0.1", addresses[0].port or 0) as moving:
                url = addresses[0].set(port=moving.port).render_as_string(hide_password=False)
                engine = mysql_engine(named(settings, mysql_url=url))
                try:
                    assert _port(engine) == addresses[0].port
                    pair.promote()
                    pair.demote()
                    moving.turn_to("127.0.0.1", addresses[1].port or 0)
                    with pytest.raises(StoreUnavailable), mysql_errors(), engine.begin() as connection:
                        connection.execute(text("CREATE TABLE t (n INT)"))
                    assert _port(engine) == addresses[1].port
                finally:
                    engine.dispose()


@pytest.mark.thorough
class DescribeAPostgresqlWithAStandby:
    def it_goes_to_the_server_that_takes_writes_and_to_its_successor(self, settings: Settings, tmp_path: Path):
        password = "both have this one"
        with (
            own_postgres(tmp_path / "first", password=password) as first,
            own_postgres(tmp_path / "second", password=password) as second,
        ):
            ports = [make_url(server.url).port for server in (first, second)]
            hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
            url = f"postgresql+psycopg://chordwise:{password.replace(' ', '%20')}@{hosts}/chordwise"
            as_administrator = [make_url(server.url).set(username="postgres") for server in (first, second)]
            _turn(as_administrator[0], "on")
            engine = postgres_engine(named(settings, postgres_url=url))
            try:
                assert _port_of_postgres(engine) == ports[1]
                _turn(as_administrator[0], "off")
                _turn(as_administrator[1], "on")
                with pytest.raises(StoreUnavailable), postgres_errors(), engine.begin() as connection:
                    connection.execute(text("CREATE TABLE t (n INT)"))
                with postgres_errors(), engine.begin() as connection:
                    connection.execute(text("CREATE TABLE t (n INT)"))
                assert _port_of_postgres(engine) == ports[0]
                _turn(as_administrator[0], "on")
                engine.dispose()
                with pytest.raises(StoreUnavailable):  # only standbys are left
                    _port_of_postgres(engine)
            finally:
                engine.dispose()

    def it_counts_the_standbys_that_a_server_behind_one_name_knows(self, settings: Settings, tmp_path: Path):
        with scratch_databases(settings) as scratch, postgres_pair(tmp_path) as pair:
            first, second = (member.wire.port for member in pair.members if member.wire is not None)
            alone = pair.url.replace(f",127.0.0.1:{second}", "")
            own = named(scratch, postgres_url=alone).model_copy(update={"broker_url": None})
            with closing(Resources(own)) as use:
                make_tables(use)
            counted = f"the primary server of PostgreSQL is 127.0.0.1:{first}, 1 of 1 could take over"
            assert _readiness(own)["detail"] == counted
            as_administrator = make_url(own.postgres_url.get_secret_value()).set(username="postgres")
            run_as(as_administrator, "GRANT pg_monitor TO chordwise")
            eventually(pair.is_whole, within_s=30)
            assert re.fullmatch(rf"{counted}, \d\.\d s behind", _readiness(own)["detail"])
            pair.members[1].strike("killed")
            eventually(lambda: _readiness(own) == {}, within_s=30)

    def it_repairs_nothing_once_a_former_primary_answers_beside_its_successor(self, settings: Settings, tmp_path: Path):
        """The address leads to both, as one that an operator forgot to take from the first."""
        with scratch_databases(settings) as scratch, postgres_pair(tmp_path) as pair:
            first, second = (member.wire.port for member in pair.members if member.wire is not None)
            with Proxy("127.0.0.1", first) as address:
                url = make_url(pair.url.replace(f"{first},127.0.0.1:{second}", str(address.port)))
                given = SecretStr(url.render_as_string(hide_password=False))
                own = scratch.model_copy(update={"postgres_url": given, "broker_url": None})
                with closing(Resources(own)) as use:
                    make_tables(use)
                    use.installation.confirm()
                    eventually(pair.is_whole, within_s=30)
                    pair.take_over()
                    for port in (second, first):
                        address.turn_to("127.0.0.1", port)
                        use.postgres.dispose()
                        if port == second:
                            use.installation.confirm()
                    with pytest.raises(WrongInstallation, match="a former primary server takes writes"):
                        verify(TenantId("t"), None, use, repair=True)
                    assert examine_stores.installation(use).severity is Severity.FAILED


class DescribeSeveralServersOfPostgresql:
    def it_waits_once_for_a_server_that_hangs(self, settings: Settings):
        with socket.create_server(("127.0.0.1", 0)) as hanging:  # the kernel takes connections that nobody greets
            own = postgres_url(settings)
            hosts = f"127.0.0.1:{hanging.getsockname()[1]},{own.host}:{own.port}"
            url = f"postgresql+psycopg://{own.username}:{own.password}@{hosts}/{own.database}"
            engine = postgres_engine(named(settings, postgres_url=url))
            try:
                assert _port_of_postgres(engine) == own.port
                engine.dispose()
                began = time.monotonic()
                assert _port_of_postgres(engine) == own.port
                assert time.monotonic() - began < 1.5  # libpq would wait for two seconds again
            finally:
                engine.dispose()

    def it_gives_up_a_server_that_hangs_although_another_one_greets(self, settings: Settings):
        own = postgres_url(settings)
        with Proxy(own.host or "", own.port or 5432) as first:
            hosts = f"127.0.0.1:{first.port},{own.host}:{own.port}"
            url = f"postgresql+psycopg://{own.username}:{own.password}@{hosts}/{own.database}"
            engine = postgres_engine(named(settings, postgres_url=url), timeout_s=20.0, silent_s=2.0)
            try:
                assert _port_of_postgres(engine) == own.port
                first.freeze()
                began = time.monotonic()
                with pytest.raises(StoreUnavailable):
                    _port_of_postgres(engine)
                assert time.monotonic() - began < 10
            finally:
                engine.dispose()


class DescribeAddressesOfClusters:
    @pytest.mark.parametrize("kind", ["mysql", "postgres", "redis"])
    def it_names_the_servers_when_none_of_them_answers(self, settings: Settings, kind: str):
        """A port is closed and another one greets nobody, at the start as later."""
        with socket.create_server(("127.0.0.1", 0)) as hanging, socket.create_server(("127.0.0.1", 0)) as closed:
            hosts = [f"127.0.0.1:{each.getsockname()[1]}" for each in (closed, hanging)]
            closed.close()
            url = {
                "mysql": "mysql+pymysql://u:p@{}/db",
                "postgres": "postgresql+psycopg://u:p@{}/db",
                "redis": "redis+sentinel://:p@{}/own/0",
            }[kind].format(",".join(hosts))
            own = named(settings, **{f"{kind}_url": url})
            began = time.monotonic()
            with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1"):
                _ask(kind, own)
            assert time.monotonic() - began < 12

    @pytest.mark.parametrize("kind", ["mysql", "postgres", "redis"])
    def it_tries_every_address_of_a_name(self, settings: Settings, kind: str):
        """The servers listen on 127.0.0.1 alone, and localhost is ::1 as well where the machine says so."""
        url = getattr(settings, f"{kind}_url").get_secret_value()
        _ask(kind, named(settings, **{f"{kind}_url": url.replace("127.0.0.1", "localhost")}))


def _ask(kind: str, own: Settings) -> None:
    """Connect to a store and read something."""
    if kind == "redis":
        with closing(redis_client(own)) as client, redis_errors():
            client.ping()
        return
    make, errors = {"mysql": (mysql_engine, mysql_errors), "postgres": (postgres_engine, postgres_errors)}[kind]
    engine = make(own)
    try:
        with errors(), engine.connect() as connection:
            connection.execute(text("SELECT 1"))
    finally:
        engine.dispose()


def _readiness(own: Settings) -> dict[str, Any]:
    """Return the check of /readyz, in a gateway that has just started, of servers that could take over; empty without one."""

    async def ask() -> dict[str, Any]:
        app = create_app(own)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://test") as client:
            for _ in range(3):  # a server that does not answer is waited for beside the first answer
                found: dict[str, Any] = (await client.get("/readyz")).json()["dependencies"].get("standbys", {})
                if found.get("status") != "unknown":
                    break
                await asyncio.sleep(2)
        await app.state.gateway.close()
        return found

    return asyncio.run(ask())


def _port(engine: Engine) -> int:
    with mysql_errors(), engine.connect() as connection:
        return int(connection.execute(text("SELECT @@port")).scalar_one())


def _port_of_postgres(engine: Engine) -> int:
    with postgres_errors(), engine.connect() as connection:
        return int(connection.execute(text("SHOW port")).scalar_one())


def _turn(url: URL, state: str) -> None:
    """Let a server take writes, ``off``, or only reads, ``on``, from the next transaction on."""
    run_as(url, f"ALTER SYSTEM SET default_transaction_read_only = {state}")
    run_as(url, "SELECT pg_reload_conf()")
