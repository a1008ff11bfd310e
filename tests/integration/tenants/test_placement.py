"""Tenants on two pairs of databases: placement, fences, moves."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from pydantic import SecretStr
from sqlalchemy import text

from pipeline.administration.delete_documents import delete_document
from pipeline.administration.list_documents import list_documents
from pipeline.administration.manage_tenants import create_tenant, issue_key, list_tenants, principal_of
from pipeline.database.unit_of_work import unit_of_work
from pipeline.database.write_fence import make_fence
from pipeline.documents.document_views import DocumentSelection
from pipeline.errors import PlacementRefused, StoreUnavailable, TenantMoving
from pipeline.ingestion.run import ingest_next, take
from pipeline.jobs.turn_store import turns
from pipeline.keyword_index.local_index_store import LocalIndexReader
from pipeline.maintenance import move_tenant
from pipeline.maintenance.erase import erase_tenant
from pipeline.maintenance.index_keywords import KeywordIndexer
from pipeline.maintenance.set_fences import set_fences
from pipeline.maintenance.sweep import prune_ledger, sweep
from pipeline.maintenance.tenant_rows_store import tables_of_mysql
from pipeline.records import DocumentId, Generation, Namespace, Scope, TenantId
from pipeline.resources import Resources
from pipeline.tenants.placement import PlacementState
from pipeline.tenants.placement_store import FRESH_S
from tests.conftest import make_tenant
from tests.support.clients.operating import eventually
from tests.support.corpora.uploads import upload
from tests.support.servers.administration import mysql_url
from tests.support.servers.proxy import Proxy
from tests.support.servers.tenant_moves import begin_move, freeze, two_pairs
from tests.support.stacks.corner import Corner

pytestmark = [pytest.mark.own_databases, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def pairs(settings) -> Iterator[Resources]:
    """Resources with two pairs of migrated databases."""
    with two_pairs(settings, store_timeout_s=60.0) as use:
        yield use


@contextmanager
def through(proxy: Proxy, pairs: Resources) -> Iterator[Resources]:
    """Yield the same stores with the MySQL of pair b behind a proxy, and short timeouts."""
    b = pairs.settings.store_pairs["b"]
    url = mysql_url(pairs.of_pair("b").settings, host="127.0.0.1", port=proxy.port)
    there = b.model_copy(update={"mysql_url": SecretStr(url.render_as_string(hide_password=False))})
    own = Resources(pairs.settings.model_copy(update={"store_pairs": {"b": there}, "store_timeout_s": 3.0}))
    try:
        yield own
    finally:
        own.close()


@pytest.fixture
def resident(pairs: Resources) -> TenantId:
    """A tenant of the default pair, with a fence in both stores: else a move waits as long as a transaction may take."""
    tenant_id = make_tenant(pairs)[0]
    with pairs.postgres.begin() as connection:
        make_fence(connection, tenant_id)
    return tenant_id


def _corner(pairs: Resources, tenant_id: TenantId) -> Corner:
    return Corner(pairs.placed(tenant_id), tenant_id, Namespace("kb"))


def _move(pairs: Resources, tenant_id: TenantId, to: str) -> move_tenant.MoveReport | None:
    return move_tenant.move(tenant_id, to, pairs, grace_s=0, known_after_s=FRESH_S + 0.1)


class DescribePlacing:
    """A tenant that is placed before it exists."""

    def it_lives_on_its_pair_alone_with_its_keys(self, pairs):
        tenant_id = TenantId("placed-early")
        assert move_tenant.place(tenant_id, "b", pairs).pair == "b"
        created = create_tenant(tenant_id, "Early", None, pairs)
        assert created is not None
        key = issue_key(tenant_id, pairs.placed(tenant_id), "k", ("read",)).secret
        found = principal_of(key, pairs)
        assert found is not None
        assert found.tenant_id == tenant_id
        assert rows_of(pairs, tenant_id) == {}
        assert tenant_id in [tenant.tenant_id for tenant in list_tenants(None, 1000, pairs)]
        corner = _corner(pairs, tenant_id)
        corner.fill({"a": "A pump moves water. 水泵输送水。"})
        assert rows_of(pairs, tenant_id) == {}
        assert rows_of(pairs.of_pair("b"), tenant_id)["chunks"] == 1

    def it_cannot_be_placed_once_it_exists(self, pairs, resident):
        with pytest.raises(PlacementRefused, match="move it instead"):
            move_tenant.place(resident, "b", pairs)


class DescribeFences:
    """Writes of a tenant that has left."""

    def it_refuses_writes_and_answers_reads_while_a_tenant_is_frozen(self, pairs, resident):
        corner = _corner(pairs, resident)
        corner.fill({"a": "one"})
        vectors = pairs.placed(resident).vectors(resident)
        generation = Generation(
            scope=Scope(tenant_id=resident, namespace=corner.namespace), document_id=DocumentId("a"), number=1
        )
        set_fences(resident, pairs, is_closed=True)
        with pytest.raises(TenantMoving) as refused:
            corner.accept(upload("b", "two"))
        assert refused.value.retry_after_s == 1.0
        with pytest.raises(TenantMoving):
            vectors.drop([generation])
        assert corner.shown() == {"a": ["one"]}
        set_fences(resident, pairs, is_closed=False)
        assert corner.ingest(upload("b", "two")).finished_at

    def it_waits_for_a_transaction_that_has_begun_to_write(self, pairs, resident):
        closed = threading.Event()

        def close() -> None:
            set_fences(resident, pairs, is_closed=True)
            closed.set()

        with unit_of_work(pairs.of_pair("default").placed(resident).mysql) as work:
            work.connection.execute(text("UPDATE tenants SET name = 'n' WHERE tenant_id = :t"), {"t": resident})
            closing = threading.Thread(target=close)
            closing.start()
            assert not closed.wait(0.5)
        closing.join(10)
        assert closed.is_set()


class DescribeMoving:
    """A move between two pairs."""

    def it_moves_everything_and_back_again(self, pairs, resident):
        corner = _corner(pairs, resident)
        corner.fill({"a": "A pump moves water.", "b": "水泵把水送到高处。", "c": "gone soon"})
        delete_document(resident, corner.namespace, DocumentId("c"), corner.use)
        waiting = corner.accept(upload("d", "accepted before the move, ingested after it 搬迁"))
        before = rows_of(pairs, resident)
        report = _move(pairs, resident, "b")
        assert report is not None
        assert {name: report.rows[name] for name in before} == before
        assert rows_of(pairs, resident) == {}
        moved = _corner(pairs, resident)
        assert moved.use.pair == "b"
        assert rows_of(moved.use, resident) == before
        moved.work(waiting)
        assert moved.job(waiting).finished_at
        moved.assert_clean()
        with pytest.raises(TenantMoving):
            corner.accept(upload("e", "to the stores that it has left"))
        assert _move(pairs, resident, "b") is None
        assert _move(pairs, resident, "default") is not None
        back = _corner(pairs, resident)
        assert back.use.pair == "default"
        assert back.ingest(upload("e", "home again")).finished_at
        assert rows_of(pairs.of_pair("b"), resident) == {}

    def it_is_found_there_at_once_by_a_process_that_was_idle(self, pairs, resident):
        _corner(pairs, resident).fill({"a": "moved while nobody asked"})
        gateway = Resources(pairs.settings)
        callers = 8
        together = threading.Barrier(callers)

        def documents() -> int:
            return len(list_documents(resident, gateway.placed(resident), DocumentSelection(), limit=10))

        def documents_at_once(_: int) -> int:
            together.wait(10)
            return documents()

        try:
            assert documents() == 1
            assert _move(pairs, resident, "b") is not None
            with ThreadPoolExecutor(callers) as threads:
                assert list(threads.map(documents_at_once, range(callers))) == [1] * callers
        finally:
            gateway.close()

    @pytest.mark.thorough
    def it_copies_what_changes_meanwhile(self, pairs, resident):
        corner = _corner(pairs, resident)
        corner.fill({f"d{number}": f"document {number} 文档" for number in range(20)})
        stop, written = threading.Event(), []

        def write() -> None:
            number = 0
            while not stop.is_set():
                number += 1
                try:
                    _corner(pairs, resident).fill({f"w{number}": f"written during the move {number} 搬迁中写入"})
                    written.append(f"w{number}")
                except TenantMoving:
                    time.sleep(0.05)

        writer = threading.Thread(target=write)
        writer.start()
        try:
            report = _move(pairs, resident, "b")
        finally:
            stop.set()
            writer.join(30)
        there = _corner(pairs, resident)
        assert report is not None
        assert written
        assert there.shown().keys() >= {f"d{number}" for number in range(20)} | set(written)
        there.make_due()  # the upload that the freeze interrupted goes on
        while ingest_next(pairs, ring=lambda *_: None):
            pass
        there.assert_clean()

    @pytest.mark.thorough
    def it_keeps_the_keyword_index_of_a_tenant_that_moves(self, pairs, resident, tmp_path):
        corner = _corner(pairs, resident)
        corner.fill({"a": "pump 水泵"})
        indexer = KeywordIndexer(pairs.mysql, tmp_path, pairs.meter, use=pairs)
        try:
            before = _indexed(indexer, tmp_path, resident)
            _move(pairs, resident, "b")
            assert _indexed(indexer, tmp_path, resident) == before
            _corner(pairs, resident).fill({"b": "valve 阀门"})
            after = _indexed(indexer, tmp_path, resident)
            assert after["kb"] != before["kb"]
        finally:
            indexer.close()

    @pytest.mark.thorough
    @pytest.mark.parametrize("state", [PlacementState.COPYING, PlacementState.FROZEN])
    def it_continues_or_undoes_a_move_that_died(self, pairs, resident, state):
        corner = _corner(pairs, resident)
        corner.fill({"a": "half copied"})
        dying = begin_move(pairs, resident)
        copy, tables = dying._copies(pairs)[0]
        copy.synchronise(next(table for table in tables if table.name == "chunks"))
        if state is PlacementState.FROZEN:
            freeze(pairs, dying)
            set_fences(resident, pairs, is_closed=True)
            set_fences(resident, pairs.of_pair("b"), is_closed=False)
            assert move_tenant.thaw_abandoned(pairs) == 1
        corner.fill({"b": "written after it died"})
        assert move_tenant.undo(resident, pairs)
        assert rows_of(pairs.of_pair("b"), resident) == {}
        corner.fill({"c": "written after it was undone"})
        assert _move(pairs, resident, "b") is not None
        assert _corner(pairs, resident).shown().keys() == {"a", "b", "c"}

    def it_resumes_work_at_once_that_an_abandoned_freeze_interrupted(self, pairs, resident):
        corner = _corner(pairs, resident)
        ticket = corner.accept(upload("a", "interrupted 中断"))
        claims = take(resident, ticket.job_id, corner.use)
        assert claims is not None
        assert claims.items  # under a lease of half a minute
        dying = begin_move(pairs, resident)
        freeze(pairs, dying)
        set_fences(resident, pairs, is_closed=True)
        assert move_tenant.thaw_abandoned(pairs) == 1
        sweep(pairs, ring=lambda *_: None)
        corner.work(ticket)
        assert corner.shown() == {"a": ["interrupted 中断"]}
        assert move_tenant.undo(resident, pairs)

    def it_lets_the_tenant_write_again_soon_after_the_target_hangs(self, pairs, resident):
        url = mysql_url(pairs.of_pair("b").settings)
        with Proxy(url.host or "", url.port or 3306) as proxy, through(proxy, pairs) as own:
            _corner(own, resident).fill({f"d{number}": f"here 这里 {number}" for number in range(100)})

            def report(line: str) -> None:
                if line.startswith("round 2: 0 rows"):  # the last one before the freeze
                    proxy.freeze()

            began = time.monotonic()
            with pytest.raises(StoreUnavailable):
                move_tenant.move(resident, "b", own, freeze_limit_s=2.0, known_after_s=FRESH_S + 0.1, report=report)
            assert time.monotonic() - began < 30
            _corner(own, resident).fill({"b": "still here 还在"})
            proxy.heal()

            def undone() -> bool:
                with suppress(StoreUnavailable):  # a server that greeted nobody is not asked again for a moment
                    return bool(move_tenant.undo(resident, own))
                return False

            assert eventually(undone)

    def it_is_not_erased_while_it_has_rows_on_two_pairs(self, pairs, resident):
        corner = _corner(pairs, resident)
        corner.fill({"a": "here 这里"})
        begin_move(pairs, resident)
        with pytest.raises(PlacementRefused, match="continue or undo"):
            erase_tenant(resident, corner.use)
        assert corner.shown() == {"a": ["here 这里"]}
        assert move_tenant.undo(resident, pairs)
        erased = erase_tenant(resident, corner.use)
        assert erased is not None
        assert erased.remaining == {}

    def it_gives_up_a_freeze_that_takes_too_long(self, pairs, resident):
        corner = _corner(pairs, resident)
        with pytest.raises(PlacementRefused, match="--freeze-limit"):
            move_tenant.move(resident, "b", pairs, freeze_limit_s=0.0, known_after_s=0)
        corner.fill({"a": "still here"})
        assert move_tenant.undo(resident, pairs)

    @pytest.mark.thorough
    def it_sweeps_a_copy_where_the_tenant_is(self, pairs, resident):
        corner = _corner(pairs, resident)
        ticket = corner.accept(upload("a", "due"))
        dying = begin_move(pairs, resident)
        move_tenant._round(dying._copies(pairs))
        there = pairs.of_pair("b")
        with unit_of_work(there.mysql) as work:
            assert resident not in [turn.tenant_id for turn in turns(work.connection)]
        sweep(there, ring=lambda *_: None)
        while ingest_next(pairs, ring=lambda *_: None):
            pass
        assert corner.job(ticket).finished_at
        assert move_tenant.undo(resident, pairs)

    @pytest.mark.thorough
    def it_deletes_old_jobs_where_the_tenant_is_and_moves_none_of_them(self, pairs, resident):
        corner = _corner(pairs, resident)
        old, frozen, young = (corner.ingest(upload(name, f"the {name} one")) for name in ("old", "frozen", "young"))
        statement = "UPDATE jobs SET finished_at = '2020-01-01' WHERE tenant_id = :tenant AND job_id = :job"
        corner.execute(statement, job=old.job_id)
        dying = begin_move(pairs, resident)
        move_tenant._round(dying._copies(pairs))
        there = pairs.of_pair("b")
        assert prune_ledger(there) == 1  # the copy is old too; it is deleted where the tenant is
        assert (rows_of(there, resident)["jobs"], rows_of(pairs, resident)["jobs"]) == (3, 2)
        corner.execute(statement, job=frozen.job_id)
        set_fences(resident, pairs, is_closed=True)
        assert prune_ledger(pairs) == 0
        set_fences(resident, pairs, is_closed=False)
        assert prune_ledger(pairs) == 1
        assert move_tenant.undo(resident, pairs)
        assert _move(pairs, resident, "b") is not None
        moved = _corner(pairs, resident)
        assert moved.execute("SELECT job_id FROM jobs WHERE tenant_id = :tenant")[0][0] == young.job_id
        assert (moved.rows("jobs"), moved.rows("job_items")) == (1, 1)


def _indexed(indexer: KeywordIndexer, root: Path, tenant_id: TenantId) -> dict[str, str]:
    """Let the indexer catch up, and return the stamps of the tenant's index."""
    ends = time.monotonic() + 60
    while indexer.step().tenants and time.monotonic() < ends:
        time.sleep(0.05)
    view = LocalIndexReader(root, tenant_id).view()
    assert view is not None
    return {str(name): state.stamp for name, state in view.states().items()}


def rows_of(use: Resources, tenant_id: TenantId) -> dict[str, int]:
    """Return how many rows of the tenant each table has that has any."""
    counts: dict[str, int] = {}
    with use.mysql.connect() as mysql, use.postgres.connect() as postgres:
        for connection, tables in (
            (mysql, [table.name for table in tables_of_mysql()]),
            (postgres, ["chunk_embeddings", "document_embeddings"]),
        ):
            for table in tables:
                statement = text(f"SELECT COUNT(*) FROM {table} WHERE tenant_id = :t")
                counts[table] = int(connection.execute(statement, {"t": tenant_id}).scalar_one())
    return {name: count for name, count in counts.items() if count}
