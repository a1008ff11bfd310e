"""A Galera each of whose nodes takes writes: what its nodes decide at the commit, and what one reads of another's writes."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass

import pytest
from pydantic import SecretStr
from sqlalchemy import make_url, text

from compose.localstack.progress import Failure
from pipeline.administration import claim_idempotency_key
from pipeline.database.engines import Conflict
from pipeline.database.unit_of_work import unit_of_work
from pipeline.errors import StoreUnavailable
from pipeline.maintenance import examine_nodes
from pipeline.maintenance.verify import verify
from pipeline.records import Namespace, TenantId
from pipeline.resources import Resources
from pipeline.settings import Settings, load
from pipeline.tenants.idempotency import HeldKey, Running
from tests.conftest import make_tables, make_tenant, redis_of_its_own
from tests.support.clients.operating import eventually
from tests.support.corpora.uploads import upload
from tests.support.servers import tools_for_tests
from tests.support.servers.administration import run_as
from tests.support.servers.galera import Galera, galera
from tests.support.servers.own_stores import own_postgres
from tests.support.stacks.connections import in_mysql
from tests.support.stacks.corner import job_of, submit
from tests.support.stacks.one_job import ingest_batch

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(400)]

DOCUMENTS, READS = 60, 60


@dataclass(frozen=True, kw_only=True)
class Nodes:
    """Resources by node, each with MySQL at this node alone."""

    cluster: Galera
    uses: Sequence[Resources]

    def on_each(self, statement: str) -> None:
        """Run a statement as root on every node."""
        for use in self.uses:
            run_as(make_url(use.settings.mysql_url.get_secret_value()).set(username="root"), statement)


@pytest.fixture(scope="module")
def nodes(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    folder = tmp_path_factory.mktemp("writers")
    try:
        tools_for_tests.fetch_for_clusters()
    except Failure as missing:
        pytest.skip(str(missing))
    with ExitStack() as whole:
        cluster = whole.enter_context(galera(folder / "mysql"))
        postgres = whole.enter_context(own_postgres(folder / "postgres"))
        redis_url = SecretStr(whole.enter_context(redis_of_its_own(settings)))
        uses = []
        for member in cluster.members:
            assert member.wire is not None
            url = make_url(cluster.url).set(port=member.wire.port).render_as_string(hide_password=False)
            stores = {"mysql_url": SecretStr(url), "postgres_url": SecretStr(postgres.url), "redis_url": redis_url}
            read = {**stores, "broker_url": None, "ingest_batch_documents": 4}
            uses.append(whole.enter_context(closing(Resources(settings.model_copy(update=read)))))
        make_tables(uses[0])
        yield Nodes(cluster=cluster, uses=uses)


@pytest.fixture(scope="module")
def tenant(nodes: Nodes) -> TenantId:
    return make_tenant(nodes.uses[0])[0]


class DescribeTheNodesOfAGalera:
    def it_counts_them_behind_one_name_and_asks_each_that_is_named(self, nodes: Nodes):
        used = nodes.uses[0]
        ports = [member.wire.port for member in nodes.cluster.members if member.wire]

        def counted(use: Resources) -> str:
            facts = next(facts for facts in examine_nodes.nodes(use) if facts.server == "MySQL")
            return f"{facts.node} {facts.ready} of {facts.others} {facts.behind}".strip()

        assert counted(used) == f"127.0.0.1:{ports[0]} 2 of 2"
        several = nodes.cluster.url.replace(
            str(make_url(nodes.cluster.url).port), ",127.0.0.1:".join(map(str, ports)), 1
        )
        named = used.settings.model_copy(update={"mysql_url": load({"mysql_url": several}).mysql_url})
        with closing(Resources(named)) as use:
            assert counted(use) == f"127.0.0.1:{ports[0]} 2 of 2 0 transactions"
            nodes.cluster.members[2].strike("cut off")
            try:
                assert counted(use) == f"127.0.0.1:{ports[0]} 1 of 2 0 transactions"
            finally:
                nodes.cluster.members[2].bring_back()


class DescribeCommitsOnSeveralNodes:
    def it_is_a_conflict_that_another_node_wrote_the_row_first(self, nodes: Nodes, tenant: TenantId):
        """The node of the first writer learns of it after its statement, so the commit is refused with 1213."""
        rename = text("UPDATE tenants SET name = :name WHERE tenant_id = :tenant")
        one, other, _ = nodes.uses
        with pytest.raises(Conflict), unit_of_work(one.mysql) as first:  # noqa: PT012 - the commit is part of it
            first.connection.execute(rename, {"name": "first", "tenant": tenant})
            with unit_of_work(other.mysql) as second:
                second.connection.execute(rename, {"name": "second", "tenant": tenant})
        found = in_mysql(other, "SELECT name FROM tenants WHERE tenant_id = :tenant", tenant=tenant)
        assert found[0][0] == "second"

    def it_ingests_each_document_once_with_workers_on_all_nodes(self, nodes: Nodes, tenant: TenantId):
        """`SKIP LOCKED` knows the locks of its own node alone: two workers may claim the same items, and one of them loses."""
        entries = [upload(f"d{number}", f"The fox {number} sleeps.") for number in range(DOCUMENTS)]
        ticket = submit(nodes.uses[0], tenant, entries)
        conflicts = []

        def work(use: Resources) -> None:
            goes_on = True
            while goes_on:
                try:
                    goes_on = bool(ingest_batch(tenant, ticket.job_id, use, notify=lambda *_: None))
                except Conflict as error:
                    conflicts.append(error)

        with ThreadPoolExecutor(6) as threads:
            list(threads.map(work, [*nodes.uses, *nodes.uses]))
        work(nodes.uses[0])
        job = job_of(nodes.uses[0], ticket)
        assert (job.status, job.succeeded) == ("succeeded", DOCUMENTS)
        shown = in_mysql(
            nodes.uses[1],
            "SELECT COUNT(*), COUNT(DISTINCT document_id) FROM chunks WHERE tenant_id = :tenant",
            tenant=tenant,
        )
        assert tuple(shown[0]) == (DOCUMENTS, DOCUMENTS)
        report = verify(tenant, [Namespace("kb")], nodes.uses[2], repair=False)
        assert (report.missing, report.orphaned, report.stale) == (0, 0, 0)
        _note(f"{len(conflicts)} batches began again")

    def it_gives_an_idempotency_key_to_one_of_many(self, nodes: Nodes, tenant: TenantId):
        def claim(place: int) -> object:
            return claim_idempotency_key.claim(tenant, b"k" * 32, nodes.uses[place % 3])

        with ThreadPoolExecutor(9) as threads:
            states = list(threads.map(claim, range(9)))
        assert sum(isinstance(state, HeldKey) for state in states) == 1
        assert sum(isinstance(state, Running) for state in states) == 8

    def it_counts_the_nodes_as_one_server(self, nodes: Nodes):
        """Two servers that take writes beside each other would be refused; a claim names the cluster."""
        for use in [*nodes.uses, *nodes.uses]:
            make_tenant(use)
            row = in_mysql(use, "SELECT primary_term, primary_server FROM installation")[0]
            assert (row[0], str(row[1]).startswith("Galera ")) == (1, True)
            assert nodes.uses[0].installation.confirm()


class DescribeReadsOfAnotherNodesWrites:
    def it_misses_none_with_wsrep_sync_wait(self, nodes: Nodes):
        nodes.on_each("SET GLOBAL wsrep_sync_wait = 1")
        for use in nodes.uses:
            use.mysql.dispose()
        try:
            assert _missed(nodes) == 0
        finally:
            nodes.on_each("SET GLOBAL wsrep_sync_wait = 0")

    def it_may_miss_some_without(self, nodes: Nodes):
        for use in nodes.uses:
            use.mysql.dispose()
        _note(f"{_missed(nodes)} of {READS} writes were not there yet when another node was read")


class DescribeAClusterWithoutQuorum:
    def it_refuses_writes_and_reads_until_another_node_is_back(self, nodes: Nodes):
        first, *others = nodes.cluster.members
        for member in others:
            member.strike("frozen")
        alone = nodes.uses[0]
        try:
            eventually(lambda: nodes.cluster.state(first).get("wsrep_ready") == "OFF", within_s=30)
            with pytest.raises(StoreUnavailable):
                make_tenant(alone)
        finally:
            for member in others:
                member.bring_back()
        eventually(nodes.cluster.is_whole, within_s=60)
        make_tenant(alone)


def _missed(nodes: Nodes) -> int:
    """Return how many of some tenants another node did not know right after they were made."""
    missed = 0
    for number in range(READS):
        writer, reader = nodes.uses[number % 3], nodes.uses[(number + 1) % 3]
        made, _ = make_tenant(writer)
        missed += not in_mysql(reader, "SELECT 1 FROM tenants WHERE tenant_id = :tenant", tenant=made)
    return missed


def _note(figures: str) -> None:
    """Write figures into pytest's report of captured logs."""
    logging.getLogger(__name__).warning(figures)
