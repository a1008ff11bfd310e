"""A Redis that is too old, a replica, full or behind an expired certificate: one sentence with the remedy."""

from __future__ import annotations

import asyncio
import shutil
import socketserver
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
import pytest
import redis
from celery import Celery
from pydantic import SecretStr
from sqlalchemy import make_url

from api_gateway.app import create_app
from api_gateway.resources.doctor import examine
from pipeline.database.engines import redis_errors
from pipeline.database.expiring_record_store import FullStores
from pipeline.database.redis_checks import check_redis
from pipeline.errors import StoreFull, StoreMisconfigured, StoreUnavailable
from pipeline.jobs.clock_lock_store import ClockLock
from pipeline.maintenance import examine_stores
from pipeline.maintenance.doctor import CheckResult, Severity
from pipeline.query.query_store import Queries
from pipeline.records import QueryId, TenantId
from pipeline.resources import Resources
from pipeline.settings import Settings
from tests.support.clients.operating import eventually
from tests.support.servers.brokers import OwnServer, own_guarded_redis, own_redis


def pointed(settings: Settings, url: str) -> Settings:
    return settings.model_copy(update={"redis_url": SecretStr(url), "broker_url": SecretStr(url)})


@contextmanager
def running(server: OwnServer) -> Iterator[OwnServer]:
    with closing(server):
        server.start()
        yield server


@contextmanager
def answering(hello: bytes) -> Iterator[str]:
    """The URL of a server that answers HELLO with these bytes, and everything else with OK."""

    class Answer(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while header := self.rfile.readline():
                words = []
                for _ in range(int(header[1:])):
                    length = int(self.rfile.readline()[1:])
                    words.append(self.rfile.read(length + 2)[:-2].upper())
                self.wfile.write(hello if words[0] == b"HELLO" else b"+PONG\r\n" if words[0] == b"PING" else b"+OK\r\n")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Answer) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"redis://127.0.0.1:{server.server_address[1]}/0"
        server.shutdown()


def greeting(version: str, mode: str = "standalone") -> bytes:
    pairs = {"server": "redis", "version": version, "mode": mode, "role": "master"}
    words = [word for pair in pairs.items() for word in pair]
    return f"*{len(words)}\r\n".encode() + b"".join(f"${len(word)}\r\n{word}\r\n".encode() for word in words)


class DescribeTheStart:
    @pytest.mark.parametrize(
        ("hello", "expected"),
        [
            (b"-ERR unknown command `HELLO`\r\n", "the server is older than Redis 6, but Redis 6.2 or newer is needed"),
            (greeting("6.0.16"), "the server is version 6.0.16, but Redis 6.2 or newer is needed; upgrade it"),
            (greeting("7.2.4", "cluster"), "part of a cluster; name one without cluster mode in CHORDWISE_REDIS_URL"),
        ],
    )
    def it_refuses_a_server_that_lacks_commands(self, settings: Settings, hello, expected):
        with answering(hello) as url, pytest.raises(StoreMisconfigured) as raised:
            check_redis(pointed(settings, url))
        assert expected in str(raised.value)

    def it_refuses_a_replica(self, settings: Settings, tmp_path: Path):
        with running(own_redis(tmp_path)) as server:
            with redis.Redis.from_url(server.url) as administrator:
                administrator.replicaof("127.0.0.1", 9)
            with pytest.raises(StoreMisconfigured) as raised:
                check_redis(pointed(settings, server.url))
            assert str(raised.value).endswith(
                "the server is a replica, which takes no writes; name the primary server in CHORDWISE_REDIS_URL"
            )
            with closing(Resources(pointed(settings, server.url))) as use, pytest.raises(StoreMisconfigured) as raised:
                examine_stores.ping_redis(use)
            assert "takes no writes" in str(raised.value)

    def it_says_that_a_certificate_has_expired(self, settings: Settings, tmp_path: Path):
        with running(own_guarded_redis(tmp_path, expired=True)) as server, pytest.raises(StoreMisconfigured) as raised:
            check_redis(pointed(settings, server.url))
        assert str(raised.value).endswith(
            "is not trusted (certificate has expired); renew it on the server, and compare both clocks"
        )

    @pytest.mark.parametrize(
        ("rights", "missing"),
        [("~* +@all", "channels"), pytest.param("~chordwise:* &* +@all", "keys", marks=pytest.mark.thorough)],
    )
    def it_refuses_a_user_without_rights_to_channels_or_keys(self, use_alone: Resources, tmp_path, rights, missing):
        with running(own_redis(tmp_path)) as server, redis.Redis.from_url(server.url) as administrator:
            # resetchannels is the default of Redis 7, and has to be said to Redis 6.
            administrator.execute_command("ACL", "SETUSER", "small", "on", ">secret", "resetchannels", *rights.split())
            small = make_url(server.url).set(username="small", password="secret").render_as_string(hide_password=False)
            expected = "; give it the rights in docs/install.md (Servers, users and rights)"
            for variable, settings in both_variables(use_alone.settings, small):
                with pytest.raises(StoreMisconfigured) as raised:
                    check_redis(settings)
                assert "the user may not run a command of this service (" in str(raised.value), variable
                assert missing.removesuffix("s") in str(raised.value)
                assert str(raised.value).endswith(expected)
                line = _readyz(settings)[variable]
                assert (line["status"], line["required"]) == ("down", True)
                assert str(line["detail"]).endswith(expected)
                finding = _doctor(settings)[variable]
                assert (finding.severity, finding.detail.endswith(expected)) == (Severity.FAILED, True)


class DescribeAFullServer:
    def it_is_named_by_readyz_and_nothing_is_evicted(self, use_alone: Resources, tmp_path: Path):
        with running(own_redis(tmp_path)) as server, redis.Redis.from_url(server.url) as administrator:
            administrator.set("kept", "x" * 100)
            administrator.config_set("maxmemory", 1)
            full = pointed(use_alone.settings, server.url)
            with closing(Resources(full)) as use, pytest.raises(StoreFull) as raised:
                examine_stores.ping_redis(use)
            line = _readyz(full)["redis"]
            assert administrator.get("kept") == b"x" * 100
        expected = "its memory is used up (maxmemory); raise maxmemory or shorten CHORDWISE_QUERY_TTL_S"
        assert str(raised.value).endswith(expected)
        assert line["status"] == "down"
        assert line["detail"].endswith(expected)

    @pytest.mark.thorough
    def it_is_named_as_the_broker_too(self, use_alone: Resources, tmp_path: Path):
        with running(own_redis(tmp_path)) as server, redis.Redis.from_url(server.url) as administrator:
            _, settings = both_variables(use_alone.settings, server.url)[1]
            check_redis(settings)
            assert _readyz(settings)["broker"]["status"] == "ok"
            assert _doctor(settings)["broker"].detail == "it takes writes and messages"
            administrator.set("kept", "x" * 100)
            administrator.config_set("maxmemory", 1)
            assert_named(
                settings, "its memory is used up (maxmemory); raise maxmemory or shorten CHORDWISE_QUERY_TTL_S"
            )
            administrator.config_set("maxmemory", 0)
            administrator.replicaof("127.0.0.1", 9)
            assert_named(settings, "takes no writes; name the primary server in CHORDWISE_BROKER_URL")

    @pytest.mark.thorough
    def it_is_named_when_its_disk_is_full(self, use_alone: Resources, tmp_path: Path):
        with running(own_redis(tmp_path)) as server, redis.Redis.from_url(server.url) as administrator:
            administrator.config_set("appendonly", "no")
            administrator.config_set("save", "3600 1")
            shutil.rmtree(administrator.config_get("dir")["dir"])  # its next snapshot cannot be written
            administrator.set("changed", "x")
            administrator.bgsave()
            eventually(lambda: administrator.info("persistence")["rdb_last_bgsave_status"] == "err", within_s=10)
            full = pointed(use_alone.settings, server.url)
            expected = "let the user that it runs as write to its folder; its log has the reason"
            with closing(Resources(full)) as use:
                queries = Queries(use.redis, TenantId("t"), ttl_s=60)
                for write in (  # a pipeline, a script, a single command
                    lambda: queries.cancel(QueryId("q")),
                    lambda: ClockLock(use.redis, seconds=1).hold(),
                    lambda: examine_stores.ping_redis(use),
                ):
                    with pytest.raises(StoreFull) as raised:
                        write()
                    assert str(raised.value).endswith(expected)
            line = _readyz(full)["redis"]
            assert (line["status"], str(line["detail"]).endswith(expected)) == ("down", True)
            assert _doctor(full)["redis"].detail.endswith(expected)

    def it_names_the_limit_of_clients(self, tmp_path: Path):
        with running(own_redis(tmp_path)) as server, redis.Redis.from_url(server.url) as administrator:
            administrator.config_set("maxclients", 1)
            with (
                redis.Redis.from_url(server.url, retry=None) as client,
                pytest.raises(StoreUnavailable, match="raise maxclients of the server, or lower the number of proc"),
                redis_errors(),
            ):
                client.ping()


class DescribeReportsOfFullStores:
    def it_is_in_readyz_for_two_minutes(self, use_alone: Resources):
        reports = FullStores(use_alone.quick_redis)
        sentence = "PostgreSQL: could not extend file; free space on the server's disk"
        reports.note(StoreUnavailable("PostgreSQL is away"))
        assert _readyz(use_alone.settings)["store_space"]["status"] == "ok"
        reports.note(StoreFull(sentence, server="PostgreSQL"))
        line = _readyz(use_alone.settings)["store_space"]
        assert (line["status"], line["required"], line["detail"]) == ("down", False, sentence)
        assert 100_000 < use_alone.quick_redis.pttl("chordwise:full:PostgreSQL") <= 120_000


def both_variables(settings: Settings, url: str) -> list[tuple[str, Settings]]:
    """Settings with this server as Redis, and as the broker beside another Redis, by the name of the check."""
    as_broker = settings.model_copy(update={"broker_url": SecretStr(url)})
    return [("redis", pointed(settings, url)), ("broker", as_broker)]


def assert_named(settings: Settings, sentence: str) -> None:
    """Check that start, readiness and doctor end with this sentence about the broker's Redis."""
    with pytest.raises(StoreUnavailable) as raised:
        check_redis(settings)
    assert str(raised.value).endswith(sentence)
    line, finding = _readyz(settings)["broker"], _doctor(settings)["broker"]
    assert (line["status"], finding.severity) == ("down", Severity.FAILED)
    assert str(line["detail"]).endswith(sentence)
    assert finding.detail.endswith(sentence)


def _doctor(settings: Settings) -> dict[str, CheckResult]:
    app = Celery("test", broker=settings.broker, set_as_current=False)
    with closing(Resources(settings)) as use, redis.Redis.from_url(settings.broker) as broker:
        return {finding.check: finding for finding in examine(use, broker, settings, app=app, heartbeats=list)}


def _readyz(use: Settings) -> dict[str, dict[str, object]]:
    async def ask() -> httpx.Response:
        app = create_app(use)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://test") as client:
            answer = await client.get("/readyz")
        await app.state.gateway.close()
        return answer

    checks: dict[str, dict[str, object]] = asyncio.run(ask()).json()["dependencies"]
    return checks
