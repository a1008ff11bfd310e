"""Two servers of MySQL that take writes behind one address: noticed by their rows, and stopped on both."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import httpx
import pytest
from celery import Celery
from pydantic import SecretStr
from sqlalchemy import URL, create_engine, make_url

from api_gateway.app import create_app
from api_gateway.resources.doctor import examine
from pipeline.database.engines import engines, mysql_engine
from pipeline.database.one_primary import CLAIM, SPLIT, SPLIT_S, OnePrimary
from pipeline.errors import StoreReadOnly, StoreUnavailable, WrongInstallation
from pipeline.maintenance import examine_stores
from pipeline.maintenance.doctor import CheckResult, Severity
from pipeline.maintenance.migrate_schema import adopt
from pipeline.maintenance.sweep import find_work
from pipeline.resources import Resources
from pipeline.settings import Settings
from tests.conftest import make_tables, make_tenant, scratch_databases
from tests.support.clients.operating import eventually
from tests.support.servers.administration import run_as
from tests.support.servers.clusters import TwoMariadbs, two_mariadbs
from tests.support.servers.proxy import Proxy
from tests.support.stacks.connections import in_mysql


@dataclass(kw_only=True)
class Pair:
    """A MariaDB with a replica behind one address, and processes of an installation that connect there. ``seconds``: what
    their clocks show."""

    servers: TwoMariadbs
    address: Proxy
    settings: Settings
    opened: ExitStack
    seconds: list[float] = field(default_factory=lambda: [0.0])

    def process(self) -> Resources:
        """Return what a process of the installation has that starts now."""
        use = self.opened.enter_context(closing(Resources(self.settings)))
        use.__dict__["mysql"] = engine = mysql_engine(self.settings)
        OnePrimary(lambda: use.quick_redis, clock=lambda: self.seconds[0]).guard(engine)
        return use

    def lead_to(self, place: int) -> None:
        """Let further connections go to the first server, 0, or to the second one."""
        self.address.turn_to("127.0.0.1", self.ports[place])

    def later(self, seconds: float = 3.0) -> None:
        """Turn the clocks of the processes, and that of Redis for the alarm."""
        self.seconds[0] += seconds

    @property
    def ports(self) -> list[int]:
        """Return the ports of both servers."""
        return [make_url(server.url).port or 0 for server in (self.servers.first, self.servers.second)]

    def promote(self) -> None:
        """Let the second server take writes once it has all of the first, which is not ended; connect to it from now on."""
        eventually(self.servers.has_caught_up, within_s=20)
        self.servers.promote()
        self.lead_to(1)


@pytest.fixture
def pair(settings: Settings, tmp_path: Path) -> Iterator[Pair]:
    with (
        two_mariadbs(tmp_path) as servers,
        scratch_databases(settings) as scratch,
        Proxy("127.0.0.1", make_url(servers.first.url).port or 0) as address,
        ExitStack() as opened,
    ):
        url = make_url(servers.first.url).set(port=address.port).render_as_string(hide_password=False)
        own = scratch.model_copy(update={"mysql_url": SecretStr(url), "broker_url": None})
        found = Pair(servers=servers, address=address, settings=own, opened=opened)
        make_tables(found.process())
        yield found


@pytest.mark.thorough
class DescribeTwoServersThatTakeWrites:
    def it_refuses_writes_on_both_and_answers_reads_until_one_has_ended(self, pair: Pair):
        former = pair.process()
        tenant, key = make_tenant(former)
        pair.promote()
        successor = pair.process()
        make_tenant(successor)  # as after any promotion
        pair.lead_to(0)  # the address alternates: it leads to both
        pair.later()
        for _ in range(2):  # the connection that there was, and a new one
            with pytest.raises(StoreReadOnly) as raised:
                make_tenant(former)
        assert all(f":{port} (server_id " in str(raised.value) for port in pair.ports)
        assert not any(str(port) in raised.value.public for port in pair.ports)
        pair.later()
        with pytest.raises(StoreReadOnly, match="two servers of MySQL take writes"):
            make_tenant(successor)
        for use in (former, successor):
            assert in_mysql(use, "SELECT COUNT(*) FROM tenants WHERE tenant_id = :tenant", tenant=tenant) == [(1,)]
            find_work(use)
            with pytest.raises(WrongInstallation):
                use.installation.confirm()

        upload, ready, listed = _asked(pair.settings, key)
        assert (upload.status_code, upload.json()["code"]) == (503, "store_read_only")
        assert int(upload.headers["Retry-After"]) >= 1
        assert upload.json()["detail"].startswith("Two servers of MySQL take writes beside each other")
        assert listed.status_code == 200
        assert (ready.status_code, ready.json()["status"]) == (503, "not_ready")
        assert [check for check in ready.json()["failing"] if check != "queues"] == ["mysql"]  # no worker runs here
        finding = _doctor(pair.settings)["mysql"]
        assert finding.severity is Severity.FAILED
        for sentence in (ready.json()["dependencies"]["mysql"]["detail"], finding.detail):
            assert "two servers of MySQL take writes" in sentence
            assert all(str(port) in sentence for port in pair.ports)

        pair.servers.demote()
        pair.lead_to(1)
        assert 0 < former.redis.ttl(SPLIT) <= SPLIT_S  # type: ignore[operator]
        former.redis.delete(SPLIT)  # as it expires
        pair.later()
        for use in (former, successor):
            eventually(partial(_writes, use), within_s=5)
            assert examine_stores.installation(use).severity is Severity.OK
        upload, ready, _ = _asked(pair.settings, key)
        assert upload.status_code == 202
        assert ready.json()["dependencies"]["installation"]["status"] == "ok"

    def it_takes_the_former_one_again_if_the_operator_says_so(self, pair: Pair):
        former = pair.process()
        make_tenant(former)
        pair.promote()
        make_tenant(pair.process())
        pair.lead_to(0)
        pair.later()
        assert not _writes(former)
        pair.servers.second.kill()
        pair.later(120)
        assert not _writes(former)  # it lacks what the other one took
        with engines(pair.settings) as (mysql, postgres):
            adopt(mysql, postgres, pair.settings)
        pair.later()
        make_tenant(former)
        make_tenant(pair.process())
        assert examine_stores.installation(former).severity is Severity.OK


@pytest.mark.thorough
class DescribeAFailover:
    def it_is_no_second_primary_that_was_promoted_there_and_back(self, pair: Pair):
        use = pair.process()
        make_tenant(use)
        pair.promote()
        pair.servers.demote()
        pair.later()
        eventually(partial(_writes, use), within_s=5)
        _follow(pair)
        pair.later()
        eventually(partial(_writes, use), within_s=5)  # on the second one, by the connection that there is
        eventually(partial(_has_caught_up, pair), within_s=20)
        _let_read(pair, 1)
        run_as(_as_root(pair, 0), "STOP SLAVE")
        run_as(_as_root(pair, 0), "SET GLOBAL read_only = OFF")
        pair.lead_to(0)
        pair.later()
        eventually(partial(_writes, use), within_s=5)
        make_tenant(pair.process())
        assert [claim.split(b" ")[1] for claim in use.redis.mget(CLAIM)] == [b"3"]  # type: ignore[union-attr]
        assert use.redis.get(SPLIT) is None

    def it_goes_on_when_the_former_primary_is_killed_or_a_connection_to_it_is_left(self, pair: Pair):
        one, other = pair.process(), pair.process()
        make_tenant(one)
        make_tenant(other)
        pair.promote()
        make_tenant(pair.process())
        pair.later()
        with pytest.raises(StoreReadOnly):  # its pooled connection leads to the former one, which was not ended
            make_tenant(one)
        make_tenant(one)
        assert one.redis.get(SPLIT) is None
        pair.servers.first.kill()
        make_tenant(one)
        eventually(partial(_writes, other), within_s=5)
        assert one.redis.get(SPLIT) is None


class DescribeOneServer:
    def it_writes_on_after_redis_was_emptied_or_another_name_was_given_to_it(self, fresh: Settings):
        with _installation(fresh) as use:
            make_tenant(use)
            row = in_mysql(use, "SELECT primary_term, primary_server FROM installation")[0]
            assert row[0] == 1
            use.redis.flushdb()
            with closing(Resources(fresh)) as other:
                make_tenant(other)
            installation = in_mysql(use, "SELECT installation_id FROM installation")[0][0]
            assert use.redis.get(CLAIM) == f"{installation} {row[0]} {row[1]}".encode()
            with use.mysql.begin() as connection:  # as a server that had another host name before
                connection.exec_driver_sql("UPDATE installation SET primary_server = 'before:3306 (server_id 1)'")
            use.redis.set(CLAIM, f"{installation} 1 before:3306 (server_id 1)")
            with closing(Resources(fresh)) as other:
                make_tenant(other)
            assert use.redis.get(CLAIM) == f"{installation} 2 {row[1]}".encode()

    def it_lets_transactions_only_read_if_a_later_claim_of_another_one_is_known(self, fresh: Settings):
        with _installation(fresh) as use:
            make_tenant(use)
            installation, name = in_mysql(use, "SELECT installation_id, primary_server FROM installation")[0]
            use.redis.set(CLAIM, f"{installation} 2 another:3306 (server_id 2)")
            with closing(Resources(fresh)) as other:
                with pytest.raises(StoreReadOnly, match="another:3306") as raised:
                    make_tenant(other)
                assert name in str(raised.value)
                assert in_mysql(other, "SELECT COUNT(*) FROM tenants") == [(1,)]
            use.redis.delete(SPLIT)  # as it expires
            use.redis.set(CLAIM, "another-installation 2 another:3306 (server_id 2)")
            with closing(Resources(fresh)) as other:
                make_tenant(other)

    def it_asks_mysql_nothing_more_for_a_transaction_on_the_same_connection(self, fresh: Settings):
        with _installation(fresh) as use:
            make_tenant(use)
            with use.mysql.connect() as connection:
                own = connection.exec_driver_sql("SHOW SESSION STATUS LIKE 'Questions'").one()[1]
            with use.mysql.connect() as connection:
                later = connection.exec_driver_sql("SHOW SESSION STATUS LIKE 'Questions'").one()[1]
            assert int(later) - int(own) <= 3  # this statement, the ping before it and the rollback after the first one


@contextmanager
def _installation(settings: Settings) -> Iterator[Resources]:
    with closing(Resources(settings)) as use:
        make_tables(use)
        yield use


def _writes(use: Resources) -> bool:
    try:
        make_tenant(use)
    except StoreUnavailable:
        return False
    return True


def _asked(settings: Settings, key: str) -> list[httpx.Response]:
    """Return the answers of a gateway to an upload, to /readyz and to a list."""

    async def ask() -> list[httpx.Response]:
        app = create_app(settings)
        headers = {"Authorization": f"Bearer {key}"}
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test", headers=headers) as client:
            body = {"namespace": "kb", "documents": [{"document_id": "d", "text": "A fox sleeps."}]}
            for _ in range(2):  # the first may be refused for what its process does not know yet
                upload = await client.post("/v1/documents", json=body)
            answers = [upload, await client.get("/readyz"), await client.get("/v1/jobs?limit=5")]
        await app.state.gateway.close()
        return answers

    return asyncio.run(ask())


def _doctor(settings: Settings) -> dict[str, CheckResult]:
    app = Celery("test", broker=settings.broker, set_as_current=False)
    with closing(Resources(settings)) as use:
        return {finding.check: finding for finding in examine(use, None, settings, app=app, heartbeats=list)}


def _as_root(pair: Pair, place: int) -> URL:
    server = (pair.servers.first, pair.servers.second)[place]
    return make_url(server.url).set(username="root")


def _follow(pair: Pair) -> None:
    """Let the first server, which was demoted, follow the second."""
    url = make_url(pair.servers.second.url)
    run_as(
        _as_root(pair, 0),
        f"CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {url.port}, MASTER_USER = 'chordwise',"
        f" MASTER_PASSWORD = '{url.password}', MASTER_USE_GTID = current_pos",
    )
    run_as(_as_root(pair, 0), "START SLAVE")


def _let_read(pair: Pair, place: int) -> None:
    run_as(_as_root(pair, place), "SET GLOBAL read_only = ON")


def _has_caught_up(pair: Pair) -> bool:
    positions = []
    for place, variable in ((0, "@@gtid_slave_pos"), (1, "@@gtid_binlog_pos")):
        engine = create_engine(_as_root(pair, place))
        with engine.connect() as connection:
            positions.append(str(connection.exec_driver_sql(f"SELECT {variable}").scalar_one()))
        engine.dispose()
    return positions[0] == positions[1]
