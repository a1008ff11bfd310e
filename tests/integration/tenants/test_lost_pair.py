"""A pair of stores that does not answer, and the tenants of the others."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from pydantic import SecretStr

from api_gateway.app import create_app
from api_gateway.gateway import THREADS
from api_gateway.http.auth import FRESH_S
from api_gateway.live.stale_cache import PATIENCE_S
from pipeline.administration import edit_webhooks
from pipeline.administration.manage_tenants import create_tenant, issue_key, list_keys, revoke_key
from pipeline.database.engines import mysql_errors
from pipeline.database.unit_of_work import unit_of_work
from pipeline.errors import Unavailable
from pipeline.ingestion.run import ingest_next, take
from pipeline.keyword_index.local_index_store import LocalIndexReader
from pipeline.maintenance import migrate_schema, move_tenant
from pipeline.maintenance.index_keywords import KeywordIndexer
from pipeline.outbound.addresses import parse_networks
from pipeline.records import Namespace, TenantId
from pipeline.resources import Resources
from pipeline.retrieval import record_search
from pipeline.retrieval.reuse_answer import AnswerCache
from pipeline.setting_values import StorePair
from pipeline.tenants.audit import AuditRow
from pipeline.tenants.audit_store import Audit
from tests.conftest import make_tenant, scratch_databases
from tests.support.clients.operating import eventually
from tests.support.corpora.queries import query_of
from tests.support.corpora.uploads import upload
from tests.support.servers.administration import mysql_url
from tests.support.servers.proxy import Proxy
from tests.support.servers.receiver import LOOPBACK, receiving
from tests.support.servers.tenant_moves import begin_move, freeze
from tests.support.stacks.asking import Asker
from tests.support.stacks.corner import Corner
from workers.tasks import upkeep

pytestmark = [pytest.mark.own_databases, pytest.mark.timeout(300)]

KB = Namespace("kb")
TIMEOUT_S = 2.0


@pytest.fixture(scope="module")
def proxy(settings) -> Iterator[Proxy]:
    """The way to the MySQL of pair b."""
    url = mysql_url(settings)
    with Proxy(url.host or "", url.port or 3306) as running:
        yield running


@pytest.fixture(scope="module")
def both(settings, proxy) -> Iterator[Resources]:
    """Resources with two pairs of migrated databases."""
    with scratch_databases(settings) as first, scratch_databases(settings) as second:
        through = mysql_url(second, host="127.0.0.1", port=proxy.port).render_as_string(hide_password=False)
        b = StorePair(mysql_url=SecretStr(through), postgres_url=second.postgres_url)
        private = parse_networks(LOOPBACK)
        config = first.model_copy(
            update={"store_pairs": {"b": b}, "store_timeout_s": TIMEOUT_S, "webhook_allow_private": private}
        )
        assert migrate_schema.main(["upgrade"], config) == 0
        use = Resources(config)
        yield use
        use.close()


@pytest.fixture
def pairs(both: Resources, proxy: Proxy) -> Iterator[Resources]:
    """The same for one test, after which pair b answers again."""
    yield both
    proxy.heal()
    eventually(lambda: greets(both))


def greets(both: Resources) -> bool:
    """Return whether pair b takes new connections: a server that greeted nobody is not asked for half a second."""
    engine = both.of_pair("b").mysql
    engine.dispose()
    with suppress(Unavailable), mysql_errors(), engine.connect():
        return True
    return False


@pytest.fixture
def here(pairs: Resources) -> Corner:
    """A namespace of a tenant of the default pair."""
    tenant_id = make_tenant(pairs)[0]
    return Corner(pairs.placed(tenant_id), tenant_id, KB)


def on_b(pairs: Resources, name: str) -> Corner:
    """Return a namespace of a new tenant of pair b."""
    tenant_id = TenantId(f"{name}-{time.time_ns()}")
    move_tenant.place(tenant_id, "b", pairs)
    assert create_tenant(tenant_id, name, None, pairs)
    return Corner(pairs.placed(tenant_id), tenant_id, KB)


class DescribeUpkeepWithoutAPair:
    """The periodic work while one of two pairs does not answer."""

    def it_releases_the_work_of_the_other_pair(self, pairs, here, proxy):
        ticket = here.accept(upload("a", "waits 等待"))
        claims = take(here.tenant, ticket.job_id, here.use)
        assert claims is not None
        here.execute("UPDATE job_items SET lease_until = '2000-01-01' WHERE tenant_id = :tenant")
        frozen = on_b(pairs, "a-frozen")  # the first of the tenants in order
        frozen.accept(upload("b", "moves"))
        dying = begin_move(pairs, frozen.tenant, "default", pair="b")
        move_tenant._round(dying._copies(pairs))
        freeze(pairs, dying)
        proxy.cut()
        assert move_tenant.thaw_abandoned(pairs) == 0
        with pytest.raises(Unavailable):
            upkeep.sweep_pairs(pairs)
        here.work(ticket)
        assert here.job(ticket).finished_at
        proxy.heal()
        eventually(lambda: sweeps_all(pairs))
        frozen.work(frozen.accept(upload("c", "written again")))
        assert move_tenant.undo(frozen.tenant, pairs)

    def it_waits_once_for_a_pair_that_takes_statements_and_answers_none(self, pairs, here, proxy):
        there = on_b(pairs, "swept")
        ticket = there.accept(upload("a", "waits 等待"))
        assert take(there.tenant, ticket.job_id, there.use) is not None
        there.execute("UPDATE job_items SET lease_until = '2000-01-01' WHERE tenant_id = :tenant")
        proxy.freeze()
        with pytest.raises(Unavailable):
            upkeep.sweep_pairs(pairs)
        began = time.monotonic()
        for _ in range(5):
            with pytest.raises(Unavailable):
                upkeep.sweep_pairs(pairs)
            with pytest.raises(Unavailable):
                upkeep.send_messages(pairs)
        assert time.monotonic() - began < 5 * TIMEOUT_S  # each of the ten rounds would wait twice
        proxy.heal()
        eventually(lambda: sweeps_all(pairs))
        there.work(ticket)
        assert there.job(ticket).finished_at

    def it_sends_the_webhooks_of_the_other_pair(self, pairs, here, proxy):
        with receiving() as receiver:
            edit_webhooks.add(here.tenant, receiver.url, ["job.succeeded"], here.use)
            assert here.ingest(upload("a", "done")).finished_at
            proxy.cut()
            with pytest.raises(Unavailable):
                upkeep.send_messages(pairs)
            assert len(receiver.calls) == 1

    def it_writes_and_expires_the_audit_of_the_other_pair(self, pairs, here, proxy):
        there = [on_b(pairs, f"audited-{number}") for number in range(3)]
        for corner in (here, *there):
            add_expired_search(corner)
            Asker(corner).ask_for("owl 猫头鹰")
        proxy.freeze()
        began = time.monotonic()
        assert record_search.drain(pairs) == 1
        with pytest.raises(Unavailable):
            record_search.forget_old(pairs)
        assert time.monotonic() - began < 4 * TIMEOUT_S  # one call waits in each, not one for every tenant
        assert searches(here) == 1
        proxy.heal()
        eventually(lambda: record_search.drain(pairs) == len(there))
        eventually(lambda: expires_all(pairs))
        assert [searches(corner) for corner in there] == [1, 1, 1]


def add_expired_search(corner: Corner) -> None:
    """Write a search to a tenant's audit that is older than the audit's retention."""
    days = corner.use.settings.audit_keep_days
    row = AuditRow(audit_id=str(uuid.uuid4()), at=datetime.now(UTC) - timedelta(days=days, minutes=1), action="search")
    with unit_of_work(corner.use.mysql) as work:
        Audit(work.connection, corner.tenant).add([row])


def searches(corner: Corner) -> int:
    """Return how many searches a tenant's audit has."""
    return len(corner.execute("SELECT 1 FROM audit WHERE tenant_id = :tenant AND action = 'search'"))


def expires_all(pairs: Resources) -> bool:
    """Delete expired rows of the audit; return whether every pair answered."""
    try:
        record_search.forget_old(pairs)
    except Unavailable:
        return False
    return True


def sweeps_all(pairs: Resources) -> bool:
    """Sweep once; return whether every pair answered."""
    try:
        upkeep.sweep_pairs(pairs)
    except Unavailable:
        return False
    return True


class DescribeAGatewayWithoutAPair:
    """A gateway while one of two pairs takes statements and answers none."""

    async def it_answers_the_tenants_of_the_other_pair_as_fast_as_ever(self, pairs, here, proxy, client):
        there = on_b(pairs, "waits")
        mine, theirs = key_of(here), key_of(there)
        for key in (mine, theirs):
            assert (await ask(client, key)).status_code == 200
        proxy.freeze()
        waiting = [ask(client, theirs) for _ in range(THREADS + 8)]
        await asyncio.sleep(0.5)  # until as many threads wait as may
        began = time.monotonic()
        assert (await ask(client, mine)).status_code == 200
        assert time.monotonic() - began < TIMEOUT_S / 2
        assert {answer.status_code for answer in await asyncio.gather(*waiting)} == {503}

    def it_goes_on_to_cache_answers_for_the_tenants_of_the_other_pair(self, pairs, here, proxy):
        there = on_b(pairs, "cached")
        cache = AnswerCache(pairs)
        proxy.freeze()
        assert not cache.keyed(query_of("owl 猫头鹰", tenant_id=there.tenant, namespaces=(KB,))).stamps
        here.ingest(upload("a", "owl 猫头鹰"))
        assert cache.keyed(query_of("owl 猫头鹰", tenant_id=here.tenant, namespaces=(KB,))).stamps
        began = time.monotonic()
        assert not cache.keyed(query_of("owl 猫头鹰", tenant_id=there.tenant, namespaces=(KB,))).stamps
        assert time.monotonic() - began < TIMEOUT_S / 2

    async def it_notices_the_revoked_keys_of_the_other_pair(self, pairs, here, proxy, client):
        there = on_b(pairs, "waits")
        mine, theirs = key_of(here), key_of(there)
        for key in (mine, theirs):
            assert (await ask(client, key)).status_code == 200
        proxy.freeze()
        for issued in list_keys(here.tenant, here.use, after=None, limit=10):
            revoke_key(here.tenant, here.use, issued.key_id)
        await asyncio.sleep(FRESH_S)
        waiting = ask(client, theirs)
        await asyncio.sleep(PATIENCE_S + 0.25)  # by then this pair is known to be away
        assert (await ask(client, mine)).status_code == 401
        await waiting

    async def it_shows_which_pair_is_away_and_the_backlog_of_the_other(self, pairs, here, proxy, client):
        ticket = here.accept(upload("a", "waits 等待"))
        assert await shown(client, "chordwise_store_pair_up") == {"default": 1.0, "b": 1.0}
        proxy.freeze()
        assert await shown(client, "chordwise_store_pair_up") == {"default": 1.0, "b": 0.0}
        began = time.monotonic()
        assert (await shown(client, "chordwise_ingest_items"))["due"] >= 1
        assert time.monotonic() - began < TIMEOUT_S / 2
        here.work(ticket)


async def shown(client: httpx.AsyncClient, name: str) -> dict[str, float]:
    """Return the values of a metric by its label."""
    page = (await client.get("/v1/metrics", params={"name[]": name})).text
    samples = [sample for family in text_string_to_metric_families(page) for sample in family.samples]
    return {next(iter(sample.labels.values())): sample.value for sample in samples}


def ask(client: httpx.AsyncClient, key: dict[str, str]) -> asyncio.Task[httpx.Response]:
    """Begin a request in a task of its own, as a server does."""
    return asyncio.create_task(client.get("/v1/namespaces", headers=key))


@pytest.fixture
async def client(pairs: Resources) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a gateway of its own."""
    config = pairs.settings.model_copy(update={"quota_requests_per_minute": 0})
    app = create_app(config)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway", timeout=60) as found:
        yield found
    await app.state.gateway.close()


def key_of(corner: Corner) -> dict[str, str]:
    """Return the header with a new key of a corner's tenant."""
    secret = issue_key(corner.tenant, corner.use, "k", ("read",)).secret
    return {"Authorization": f"Bearer {secret}"}


class DescribeIngestionWithoutAPair:
    """Batches while one of two pairs takes statements and answers none."""

    def it_waits_for_that_pair_once_and_serves_it_when_it_is_back(self, pairs, here, proxy):
        ingest_all(pairs)  # of the tests before
        there = on_b(pairs, "ingested")
        waiting = there.accept(upload("a", "waits 等待"))
        tickets = [here.accept(upload(f"d{number}", f"document {number} 文档")) for number in range(6)]
        proxy.freeze()
        began = time.monotonic()
        assert ingest_all(pairs) == 6
        assert time.monotonic() - began < 4 * TIMEOUT_S  # a ping, a new connection, and the work
        assert all(here.job(ticket).finished_at for ticket in tickets)
        proxy.heal()
        eventually(lambda: greets(pairs))
        ends = time.monotonic() + 30
        while not there.job(waiting).finished_at and time.monotonic() < ends:
            ingest_all(pairs)
            time.sleep(0.1)
        assert there.job(waiting).finished_at


def ingest_all(pairs: Resources) -> int:
    """Ingest batch by batch until nothing is due; return how many documents."""
    done = 0
    while batch := ingest_next(pairs, ring=lambda *_: None):
        done += batch
    return done


class DescribeIndexingWithoutAPair:
    """An indexer while one of two pairs does not answer."""

    def it_keeps_the_indexes_of_that_pair_when_it_starts(self, pairs, here, proxy, tmp_path):
        there = on_b(pairs, "indexed")
        for corner in (here, there):
            corner.fill({"a": "pump 水泵"})
        catch_up(KeywordIndexer(pairs.mysql, tmp_path, pairs.meter, use=pairs))
        proxy.cut()
        started = KeywordIndexer(pairs.mysql, tmp_path, pairs.meter, use=pairs)
        started.tidy()
        here.fill({"b": "valve 阀门"})
        catch_up(started)
        assert indexed(tmp_path, there.tenant) == 1
        assert indexed(tmp_path, here.tenant) == 2

    def it_goes_on_when_that_pair_fails_right_after_the_start(self, pairs, here, proxy, tmp_path):
        there = on_b(pairs, "indexed")
        for corner in (here, there):
            corner.fill({"a": "pump 水泵"})
        catch_up(KeywordIndexer(pairs.mysql, tmp_path, pairs.meter, use=pairs))
        here.fill({"b": "valve 阀门"})
        started = KeywordIndexer(pairs.mysql, tmp_path, pairs.meter, use=pairs)
        started.tidy()
        proxy.cut()
        catch_up(started)
        assert indexed(tmp_path, there.tenant) == 1
        assert indexed(tmp_path, here.tenant) == 2

    def it_goes_on_when_that_pair_fails_before_a_new_namespace_is_read(self, pairs, here, proxy, tmp_path):
        there = on_b(pairs, "indexed")
        there.fill({"a": "pump 水泵"})
        indexer = KeywordIndexer(pairs.mysql, tmp_path, pairs.meter, use=pairs)
        reach(indexer)
        Corner(there.use, there.tenant, Namespace("new")).fill({"b": "valve 阀门"})
        indexer.tidy()
        proxy.cut()
        here.fill({"c": "pipe 管道"})
        catch_up(indexer)
        assert indexed(tmp_path, here.tenant) == 1
        assert indexed(tmp_path, there.tenant) == 1


def reach(indexer: KeywordIndexer) -> None:
    """Step until every index that can be is up to date."""
    ends = time.monotonic() + 60
    while indexer.step().tenants > indexer.lag.failing and time.monotonic() < ends:
        time.sleep(0.05)
    indexer.facts("host")


def catch_up(indexer: KeywordIndexer) -> None:
    """Reach the same, and close the indexer."""
    try:
        reach(indexer)
    finally:
        indexer.close()


def indexed(root: Path, tenant_id: TenantId) -> int:
    """Return how many chunks a tenant's index has."""
    view = LocalIndexReader(root, tenant_id).view()
    assert view is not None
    return sum(state.chunk_count for state in view.states().values())


class DescribeTheStatusOfPairs:
    def it_names_the_pair_that_is_away_and_counts_the_others(self, pairs, here, proxy):
        on_b(pairs, "counted")
        counted, _ = move_tenant.status(pairs)
        proxy.cut()
        tenants, _ = move_tenant.status(pairs)
        assert tenants["default"] == counted["default"]
        assert isinstance(counted["b"], int)
        assert "it does not answer" in str(tenants["b"])
