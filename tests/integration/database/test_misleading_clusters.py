"""Addresses of clusters that mislead: a certificate for one node, a sentinel that names the wrong server, nodes that all go."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import redis
from kombu import Connection
from sqlalchemy import make_url, text

from compose.localstack.progress import Failure
from pipeline.database.engines import (
    mysql_engine,
    mysql_errors,
    postgres_engine,
    postgres_errors,
    redis_client,
    redis_errors,
)
from pipeline.database.installation import confirm_redis
from pipeline.database.redis_checks import check_redis
from pipeline.errors import StoreMisconfigured, StoreUnavailable, WrongInstallation
from pipeline.resources import Resources
from pipeline.settings import Settings, load
from pipeline.store_urls import for_celery
from tests.conftest import make_tables, scratch_databases
from tests.support.clients.operating import eventually
from tests.support.servers import certificates, newer
from tests.support.servers.brokers import own_guarded_rabbitmq, own_redis
from tests.support.servers.clusters import NAME, WatchedRedis, two_mariadbs, watched_redis
from tests.support.servers.lying_sentinel import lying_sentinel
from tests.support.servers.own_stores import own_mariadb
from tests.support.servers.standby import postgres_pair
from tests.support.servers.tls_front import tls_front
from workers.transport import use_these

_FITS, _DOES_NOT = "127.0.0.1", "127.0.0.2"  # both are loopback; certificates of tests name the first alone


def named(settings: Settings, **urls: str) -> Settings:
    """Return the settings with these URLs, completed as those of the environment are."""
    return settings.model_copy(update={name: getattr(load({name: url}), name) for name, url in urls.items()})


@pytest.mark.thorough
class DescribeACertificateThatFitsOneNode:
    def it_passes_over_the_other_mysql_and_names_the_reason_if_none_fits(self, settings: Settings, tmp_path: Path):
        files = certificates.make(tmp_path)
        options = [f"--ssl-cert={files.server}", f"--ssl-key={files.server_key}", "--require-secure-transport=ON"]
        with own_mariadb(tmp_path, *options, f"--bind-address={_FITS},{_DOES_NOT}") as server:
            url = make_url(server.url)

            def ask(*hosts: str) -> str:
                named_hosts = ",".join(f"{host}:{url.port}" for host in hosts)
                query = f"charset=utf8mb4&ssl_ca={files.authority}"
                address = f"mysql+pymysql://{url.username}:{url.password}@{named_hosts}/chordwise?{query}"
                return _address(named(settings, mysql_url=address))

            assert ask(_DOES_NOT, _FITS) == _FITS
            with pytest.raises(StoreMisconfigured, match="certificate") as raised:
                ask(_DOES_NOT, _DOES_NOT)
            assert str(url.password) not in str(raised.value)

    def it_passes_over_the_other_postgresql_and_names_the_reason_if_none_fits(self, settings: Settings, tmp_path: Path):
        files = certificates.make(tmp_path)
        own = make_url(settings.postgres_url.get_secret_value())
        with tls_front(files, own.port or 5432, (_FITS, _DOES_NOT), of_postgres=True) as port:

            def ask(*hosts: str) -> str:
                named_hosts = ",".join(f"{host}:{port}" for host in hosts)
                query = f"sslmode=verify-full&sslrootcert={files.authority}"
                address = f"postgresql+psycopg://{own.username}:{own.password}@{named_hosts}/{own.database}?{query}"
                engine = postgres_engine(named(settings, postgres_url=address))
                try:
                    with postgres_errors(), engine.connect() as connection:
                        return str(connection.connection.driver_connection.info.host)  # type: ignore[union-attr]
                finally:
                    engine.dispose()

            assert ask(_DOES_NOT, _FITS) == _FITS
            with pytest.raises(StoreMisconfigured, match="certificate") as raised:
                ask(_DOES_NOT, _DOES_NOT)
            assert str(own.password) not in str(raised.value)

    def it_passes_over_the_other_sentinel_and_names_the_reason_if_the_server_does_not_fit(
        self, settings: Settings, tmp_path: Path
    ):
        files, server = certificates.make(tmp_path), own_redis(tmp_path)
        server.start()
        address, both = urlsplit(server.url), (_FITS, _DOES_NOT)
        try:
            with (
                tls_front(files, address.port or 0, both) as port,
                lying_sentinel(port) as sentinel,
                tls_front(files, sentinel.port, both) as at,
            ):
                hosts = f"{_DOES_NOT}:{at},{_FITS}:{at}"
                url = f"rediss+sentinel://:{address.password}@{hosts}/{NAME}/0?ssl_ca_certs={files.authority}"
                own = named(settings, redis_url=url).model_copy(update={"broker_url": None})
                with closing(redis_client(own)) as client:
                    assert client.set("of-a-certificate", "1")
                sentinel.host = _DOES_NOT  # promoted
                with closing(redis_client(own)) as client:
                    with pytest.raises(StoreMisconfigured, match="certificate") as raised, redis_errors():
                        client.get("of-a-certificate")
                    assert str(address.password) not in str(raised.value)
                    sentinel.host = _FITS
                    assert client.get("of-a-certificate") == b"1"
        finally:
            server.close()

    def it_passes_over_the_other_rabbitmq(self, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        use_these()
        try:
            monkeypatch.setenv("CHORDWISE_LOCAL_RABBITMQ", str(newer.fetch_rabbitmq("rabbitmq-4.3")))
            server = own_guarded_rabbitmq(tmp_path)
        except Failure as missing:
            pytest.skip(str(missing))
        server.start()
        try:
            several = f"{server.url.replace(_FITS, _DOES_NOT, 1)};{server.url}"
            bare, tls = for_celery(named(settings, broker_url=several).broker)
            with Connection(bare, ssl=tls, transport_options={"socket_timeout": 5.0}) as connection:
                connection.ensure_connection(max_retries=1, interval_start=0, interval_step=0)
                assert connection.hostname == _FITS
        finally:
            server.close()


def _address(own: Settings) -> str:
    """Connect to MySQL, and return which address the connection went to."""
    engine = mysql_engine(own)
    try:
        with mysql_errors(), engine.connect() as connection:
            connection.execute(text("SELECT 1"))
            return str(connection.connection.driver_connection._sock.getpeername()[0])  # type: ignore[union-attr]
    finally:
        engine.dispose()


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WatchedRedis]:
    with watched_redis(tmp_path_factory.mktemp("watched")) as cluster:
        yield cluster


def with_sentinel(cluster: WatchedRedis, port: int, *, alone: bool = False) -> str:
    """Return the address of a cluster with another sentinel before its own, or instead of them."""
    parts = urlsplit(cluster.url)
    account, _, hosts = parts.netloc.rpartition("@")
    others = "" if alone else f",{hosts}"
    return parts._replace(netloc=f"{account}@127.0.0.1:{port}{others}").geturl()


@pytest.mark.thorough
class DescribeASentinelThatLies:
    def it_has_nothing_written_to_a_replica_and_says_so(self, settings: Settings, watched: WatchedRedis):
        replica = next(port for port in watched.servers if port != watched.primary())
        with lying_sentinel(replica) as sentinel:
            own = named(settings, redis_url=with_sentinel(watched, sentinel.port)).model_copy(
                update={"broker_url": None}
            )
            with closing(redis_client(own)) as client:
                with pytest.raises(StoreUnavailable), redis_errors():
                    client.set("of-a-liar", "1")
                sentinel.names = watched.primary()
                assert client.set("of-a-liar", "2")  # the same process goes on once the sentinel is right again
            sentinel.names = replica
            with pytest.raises(StoreMisconfigured, match="replica"):
                check_redis(own)

    def it_is_noticed_that_it_names_the_redis_of_another_installation(
        self, settings: Settings, watched: WatchedRedis, tmp_path: Path
    ):
        other = own_redis(tmp_path)
        other.start()
        try:
            address = urlsplit(other.url)
            with closing(redis.Redis.from_url(other.url)) as client:
                client.set("chordwise:installation", "the-other-one")
            with lying_sentinel(address.port or 0) as sentinel:
                url = f"redis+sentinel://:{address.password}@127.0.0.1:{sentinel.port}/{NAME}/0"
                own = named(settings, redis_url=url).model_copy(update={"broker_url": None})
                with pytest.raises(WrongInstallation, match="the-other-one"):
                    confirm_redis("this-one", own)
                with closing(redis.Redis.from_url(other.url)) as client:
                    assert client.keys() == [b"chordwise:installation"]
        finally:
            other.close()


@pytest.mark.thorough
class DescribeSentinelsWithoutAMajority:
    def it_refuses_until_one_of_them_is_back_and_loses_nothing(self, settings: Settings, watched: WatchedRedis):
        eventually(watched.is_followed, within_s=60)
        own = named(settings, redis_url=watched.url).model_copy(update={"broker_url": None})
        lost = [*watched.sentinels[:2], watched.servers[watched.primary()]]
        with closing(redis_client(own)) as client:
            client.set("before", "kept")
            client.wait(1, 1000)
            for server in lost:
                server.kill()
            for _ in range(3):
                with pytest.raises(StoreUnavailable), redis_errors():
                    client.get("before")
                time.sleep(1)  # longer than the sentinel that is left takes to notice
            lost[0].start()
            eventually(lambda: _kept(client), within_s=60)
        for server in lost[1:]:
            server.start()
        eventually(watched.is_followed, within_s=60)


def _kept(client: redis.Redis) -> bool:
    try:
        with redis_errors():
            return client.get("before") == b"kept" and bool(client.set("after", "taken"))
    except StoreUnavailable:
        return False


@pytest.mark.thorough
class DescribeAStandbyThatIsGivenAsThePrimary:
    def it_is_refused_with_the_name_of_the_setting(self, settings: Settings, says, tmp_path: Path):
        with scratch_databases(settings) as scratch, postgres_pair(tmp_path) as pair:
            with closing(Resources(named(scratch, postgres_url=pair.url))) as use:
                make_tables(use)
            eventually(pair.is_whole, within_s=30)
            first, second = (member.wire.port for member in pair.members if member.wire is not None)
            alone = named(scratch, postgres_url=pair.url.replace(f"127.0.0.1:{first},", ""))
            assert f":{second}/" in alone.postgres_url.get_secret_value()
            for action in ("check", "upgrade"):
                line = says(action, alone)
                assert line.endswith("takes no writes (read only); name the primary server in CHORDWISE_POSTGRES_URL")


@pytest.mark.thorough
class DescribeNodesThatAllGo:
    def it_refuses_while_they_are_away_and_goes_on_with_the_first_that_returns(
        self, settings: Settings, tmp_path: Path
    ):
        with two_mariadbs(tmp_path) as pair:
            engine = mysql_engine(named(settings, mysql_url=pair.url))
            try:
                assert _reads(engine)
                for server in (pair.first, pair.second):
                    server.kill()
                for _ in range(2):
                    with pytest.raises(StoreUnavailable), mysql_errors(), engine.connect() as connection:
                        connection.execute(text("SELECT 1"))
                pair.second.start()
                eventually(lambda: _reads(engine), within_s=20)
                _refuses_writes(engine)
                pair.first.start()
                eventually(lambda: _writes(engine), within_s=20)
            finally:
                engine.dispose()


def _reads(engine) -> bool:  # type: ignore[no-untyped-def]
    try:
        with mysql_errors(), engine.connect() as connection:
            return bool(connection.execute(text("SELECT 1")).scalar_one())
    except StoreUnavailable:
        return False


def _refuses_writes(engine) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(StoreUnavailable), mysql_errors(), engine.begin() as connection:
        connection.execute(text("CREATE TABLE IF NOT EXISTS of_all (n INT)"))


def _writes(engine) -> bool:  # type: ignore[no-untyped-def]
    try:
        with mysql_errors(), engine.begin() as connection:
            connection.execute(text("CREATE TABLE IF NOT EXISTS of_all (n INT)"))
    except StoreUnavailable:
        return False
    return True
