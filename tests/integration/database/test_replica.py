"""Lists, texts and exports with a replica of MySQL: one that is current, behind, cut off or frozen."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from pydantic import SecretStr

from api_gateway.resources import doctor
from pipeline.administration import delete_documents, edit_chunks, list_documents, list_jobs, steer_jobs
from pipeline.database import mysql_tables
from pipeline.database.replica import REPLICA_TIMEOUT_S
from pipeline.database.unit_of_work import reading
from pipeline.database.write_fence import set_fence
from pipeline.documents.document_views import DocumentSelection
from pipeline.maintenance import migrate_schema
from pipeline.maintenance.doctor import Severity
from pipeline.maintenance.export import export_part
from pipeline.records import DocumentId, Namespace, TenantId
from pipeline.resources import Resources
from pipeline.tenants.namespace_store import Namespaces
from pipeline.tenants.revision_store import TenantRevision, has_reached
from tests.conftest import scratch_databases
from tests.support.corpora.uploads import upload
from tests.support.servers.administration import mysql_url
from tests.support.servers.proxy import Proxy
from tests.support.stacks.corner import Corner, documents

TEXTS = {"pump": "The pump starts at nine bar.", "tea": "绿茶用八十度的水冲泡。"}
KB = Namespace("kb")


@contextmanager
def replicated(use: Resources, url: str) -> Iterator[tuple[Resources, Counter[str]]]:
    """Yield the same stores with a replica at a URL, and the counts of its outcomes."""
    own = Resources(use.settings.model_copy(update={"mysql_replica_url": SecretStr(url)}))
    counts: Counter[str] = Counter()
    assert own.replica is not None
    own.__dict__["replica"] = replace(own.replica, count=lambda outcome: counts.update([outcome]))
    try:
        yield own, counts
    finally:
        own.close()


def through(proxy: Proxy, use: Resources) -> str:
    """Return the URL of the stack's MySQL behind a proxy."""
    return str(mysql_url(use.settings, host="127.0.0.1", port=proxy.port).render_as_string(hide_password=False))


@pytest.fixture
def proxy(use: Resources) -> Iterator[Proxy]:
    url = mysql_url(use.settings)
    with Proxy(url.host or "", url.port or 3306) as running:
        yield running


@pytest.fixture
def filled(use: Resources, tenant: TenantId) -> Corner:
    corner = Corner(use, tenant, KB)
    corner.fill(TEXTS)
    return corner


def shown(use: Resources, tenant: TenantId) -> list[str]:
    """The documents of the list."""
    views = list_documents.list_documents(tenant, use, DocumentSelection(namespace=KB), limit=10)
    return [view.document_id for view in views]


def asked(corner: Corner, use: Resources) -> list[str]:
    """The documents of an answer, whose revisions were read first, as the gateway does."""
    own = replace(corner, use=use)
    with reading(corner.use.mysql) as connection:
        revisions = Namespaces(connection, corner.tenant).revisions([KB])
    query = own.query("水泵 pump 绿茶")
    return sorted(documents(own.ask(replace(query, stamps={name: each.stamp for name, each in revisions.items()}))))


class DescribeACurrentReplica:
    def it_serves_lists_texts_and_exports(self, use, filled, proxy):
        with replicated(use, through(proxy, use)) as (own, counts):
            assert shown(own, filled.tenant) == ["pump", "tea"]
            assert [job.succeeded for job in list_jobs.list_jobs(filled.tenant, own, None, before=None, limit=5)] == [2]
            assert list_documents.used_fields(filled.tenant, KB, own).complete
            before = counts["current"]
            assert asked(filled, own) == ["pump", "tea"]
            assert counts["current"] > before
            before = counts["current"]
            assert export_part(filled.tenant, KB, own).documents == 2
            assert counts["current"] > before
        assert counts.keys() == {"current"}

    def it_is_not_asked_for_the_texts_of_a_query_without_revisions(self, use, filled, proxy):
        with replicated(use, through(proxy, use)) as (own, counts):
            filled_here = replace(filled, use=own)
            assert sorted(documents(filled_here.ask(filled_here.query("pump 绿茶")))) == ["pump", "tea"]
        assert not counts

    def it_leaves_what_it_lacks_to_the_primary_server(self, use, filled, proxy):
        """The revisions of the query are older than a document that its channels find."""
        with reading(use.mysql) as connection:
            [revision] = Namespaces(connection, filled.tenant).revisions([KB]).values()
        with scratch_databases(use.settings) as other, replicated(use, other.mysql_url.get_secret_value()) as (own, _):
            assert migrate_schema.main(["upgrade"], other) == 0
            _copy(use, own, filled.tenant, "namespaces")  # a replica at the revision, on which no document is published
            filled_here = replace(filled, use=own)
            query = replace(filled_here.query("pump 绿茶"), stamps={KB: revision.stamp})
            assert sorted(documents(filled_here.ask(query))) == ["pump", "tea"]


def _copy(use: Resources, own: Resources, tenant: TenantId, *names: str) -> None:
    """Copy a tenant's rows of some tables to the replica."""
    assert own.replica is not None
    for table in (mysql_tables.metadata.tables[name] for name in names):
        with use.mysql.connect() as connection:
            rows = connection.execute(table.select().where(table.c.tenant_id == tenant)).mappings().all()
        with own.replica.engine.begin() as connection:
            connection.execute(table.insert(), [dict(row) for row in rows])


class DescribeAReplicaThatIsBehind:
    def it_is_passed_over_until_it_is_current(self, use, filled):
        with (
            scratch_databases(use.settings) as other,
            replicated(use, other.mysql_url.get_secret_value()) as (own, counts),
        ):
            assert migrate_schema.main(["upgrade"], other) == 0
            assert shown(own, filled.tenant) == ["pump", "tea"]
            assert asked(filled, own) == ["pump", "tea"]
            assert export_part(filled.tenant, KB, own).documents == 2
        assert counts.keys() == {"behind"}

    def it_is_passed_over_while_the_tenant_is_moved_to_its_pair(self, use, filled):
        """A move copies the revisions first."""
        with (
            scratch_databases(use.settings) as other,
            replicated(use, other.mysql_url.get_secret_value()) as (own, counts),
        ):
            assert migrate_schema.main(["upgrade"], other) == 0
            _copy(use, own, filled.tenant, "namespaces", "jobs")
            with own.replica.engine.begin() as connection:
                set_fence(connection, filled.tenant, is_closed=True)
            assert shown(own, filled.tenant) == ["pump", "tea"]
            assert asked(filled, own) == ["pump", "tea"]
            assert export_part(filled.tenant, KB, own).documents == 2
        assert counts.keys() == {"behind"}


class DescribeAReplicaThatIsAway:
    def it_costs_one_attempt_and_no_answer(self, use, filled, proxy):
        with replicated(use, through(proxy, use)) as (own, counts):
            assert shown(own, filled.tenant) == ["pump", "tea"]
            proxy.cut()
            for _ in range(3):
                assert shown(own, filled.tenant) == ["pump", "tea"]
                assert asked(filled, own) == ["pump", "tea"]
            assert counts["away"] >= 3
            proxy.heal()
            _until_current(own, filled.tenant, counts)

    def it_is_named_by_the_doctor(self, use, proxy):
        with replicated(use, through(proxy, use)) as (own, _):
            proxy.cut()
            [finding] = doctor._replicas(own)
        assert (finding.check, finding.severity) == ("mysql_replica", Severity.WARNING)
        assert finding.detail.startswith(f"MySQL replica at 127.0.0.1:{proxy.port}, database ")

    def it_delays_one_read_by_its_time_limit_and_the_next_by_nothing(self, use, filled, proxy):
        with replicated(use, through(proxy, use)) as (own, counts):
            assert shown(own, filled.tenant) == ["pump", "tea"]
            proxy.freeze()
            assert shown(own, filled.tenant) == ["pump", "tea"]
            began = time.monotonic()
            assert shown(own, filled.tenant) == ["pump", "tea"]
            assert time.monotonic() - began < REPLICA_TIMEOUT_S
            assert counts["away"] == 2
            proxy.heal()
            _until_current(own, filled.tenant, counts)

    def it_never_answers_with_another_installations_schema(self, use, filled):
        with (
            scratch_databases(use.settings) as empty,
            replicated(use, empty.mysql_url.get_secret_value()) as (own, counts),
        ):
            assert shown(own, filled.tenant) == ["pump", "tea"]
        assert counts.keys() == {"away"}


def _until_current(own: Resources, tenant: TenantId, counts: Counter[str]) -> None:
    served, ends = counts["current"], time.monotonic() + 20
    while counts["current"] == served:
        assert time.monotonic() < ends, "the replica is back, and is not used"
        assert shown(own, tenant) == ["pump", "tea"]
        time.sleep(0.1)


class DescribeTheRevisionOfATenant:
    def it_changes_with_every_write_that_a_list_shows(self, use, filled):
        tenant, seen = filled.tenant, {_revision(use, filled.tenant)}

        def changed(write: str) -> None:
            revision = _revision(use, tenant)
            assert revision not in seen, f"{write} did not change the revision"
            seen.add(revision)

        ticket = filled.accept(upload("late", "Valves open late."))
        changed("accept")
        steer_jobs.pause(tenant, ticket.job_id, use)
        changed("pause")
        steer_jobs.resume(tenant, ticket.job_id, use, ring=lambda *_: None)
        changed("resume")
        filled.work(ticket)
        changed("publish")
        filled.ingest(upload("late", "Valves open later."))
        changed("replace")
        filled.ingest(upload("broken", b"%PDF-1.7 nothing", media_type="application/pdf"))
        changed("fail")
        [chunk] = [
            row.chunk_id
            for row in filled.execute("SELECT chunk_id FROM chunks WHERE tenant_id = :tenant AND document_id = 'pump'")
        ]
        edit_chunks.edit_chunks(tenant, [edit_chunks.Edit(chunk_id=chunk, enabled=False)], use)
        changed("disable a chunk")
        edit_chunks.delete_chunks(tenant, [chunk], use)
        changed("delete a chunk")
        delete_documents.delete_document(tenant, KB, DocumentId("tea"), use)
        changed("delete")
        pending = filled.accept(upload("pending", "Not yet."))
        changed("accept again")
        delete_documents.delete_document(tenant, KB, DocumentId("pending"), use)
        changed("delete what is under way")
        second = filled.accept(upload("second", "Not yet."))
        changed("accept a third")
        steer_jobs.cancel(tenant, second.job_id, use)
        changed("cancel")
        filled.work(pending)
        changed("end")

    @pytest.mark.parametrize(
        ("stamp", "is_reached"),
        [("same", True), ("older", True), ("newer", False), ("another", False)],
    )
    def it_tells_a_later_revision_from_an_earlier_one(self, use, filled, stamp, is_reached):
        with reading(use.mysql) as connection:
            [revision] = Namespaces(connection, filled.tenant).revisions([KB]).values()
            number, created, revised = revision.stamp.split("@")
            stamps = {
                "same": revision.stamp,
                "older": f"{int(number) - 1}@{created}@2020-01-01 00:00:00.000000",
                "newer": f"{int(number) + 1}@{created}@{revised}",
                "another": f"{number}@2020-01-01 00:00:00.000000@{revised}",
            }
            assert has_reached(connection, filled.tenant, {KB: stamps[stamp]}) is is_reached


def _revision(use: Resources, tenant: TenantId) -> tuple[object, ...]:
    with reading(use.mysql) as connection:
        return TenantRevision(connection, tenant).read()
