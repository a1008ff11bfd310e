"""Namespaces and tenants, taken away: all that was named, nothing else, wherever it was interrupted."""

from __future__ import annotations

import uuid

import pytest

from pipeline.database.unit_of_work import unit_of_work
from pipeline.errors import StoreUnavailable
from pipeline.maintenance import erase
from pipeline.maintenance.erase import delete_namespace, erase_tenant, finish_erasures
from pipeline.records import Namespace
from pipeline.tenants import erasure_store
from pipeline.tenants.tenant_store import Tenants
from tests.conftest import make_tenant
from tests.support.corpora.uploads import upload
from tests.support.stacks.connections import in_postgres
from tests.support.stacks.corner import Corner

pytestmark = pytest.mark.own_databases


@pytest.fixture
def neighbour(corner) -> Corner:
    """Another namespace of the same tenant, with documents."""
    other = Corner(corner.use, corner.tenant, Namespace(f"ns-{uuid.uuid4().hex[:8]}"))
    other.ingest(upload("a", "the neighbour's text"), upload("b", "more of it"))
    return other


def vectors(corner: Corner) -> int:
    return int(
        in_postgres(
            corner.use,
            "SELECT count(*) FROM chunk_embeddings WHERE tenant_id = :tenant AND namespace = :namespace",
            tenant=corner.tenant,
            namespace=corner.namespace,
        )[0][0]
    )


class DescribeANamespace:
    def it_goes_with_everything_in_it_and_nothing_else(self, corner, neighbour, use):
        corner.ingest(*(upload(f"d{n}", f"text {n}. " * 300) for n in range(5)))
        gone = delete_namespace(corner.tenant, corner.namespace, use)
        assert gone is not None
        assert gone.documents == 5
        assert vectors(corner) == 0
        assert corner.shown() == {"a": ["the neighbour's text"], "b": ["more of it"]}
        corner.assert_clean()
        assert delete_namespace(corner.tenant, corner.namespace, use) is None
        assert corner.rows("payloads") == corner.rows("generations") == 2

    def it_is_not_brought_back_by_what_was_on_its_way(self, corner, neighbour, use):
        corner.ingest(upload("x", "old"))
        ticket = corner.accept(upload("x", "new"), upload("y", "newer"))
        delete_namespace(corner.tenant, corner.namespace, use)
        corner.work(ticket)
        assert corner.job(ticket).finished_at is not None
        assert set(corner.shown()) == {"a", "b"}
        corner.assert_clean()
        corner.ingest(upload("x", "again"))
        assert corner.shown()["x"] == ["again"]
        corner.assert_clean()

    def it_goes_on_when_asked_again(self, corner, neighbour, use, monkeypatch):
        monkeypatch.setattr(erase, "_DOCUMENTS_AT_ONCE", 2)
        corner.ingest(*(upload(f"d{n}", f"text {n}") for n in range(5)))
        real, calls = erase.delete_some, []

        def dying(*arguments, **options):
            calls.append(1)
            if len(calls) == 2:
                raise StoreUnavailable("MySQL: gone")
            return real(*arguments, **options)

        monkeypatch.setattr(erase, "delete_some", dying)
        with pytest.raises(StoreUnavailable):
            delete_namespace(corner.tenant, corner.namespace, use)
        assert len(corner.shown()) == 5  # three of ours, two of the neighbour's
        gone = delete_namespace(corner.tenant, corner.namespace, use)
        assert gone is not None
        assert gone.documents == 3
        corner.assert_clean()


class DescribeATenant:
    def it_goes_from_every_store_and_its_neighbour_stays(self, corner, neighbour, use):
        other = Corner(use, make_tenant(use)[0], Namespace("kept"))
        other.ingest(upload("a", "kept text"))
        use.redis.set(f"{corner.tenant}:query:1", "x")
        use.redis.set(f"{corner.tenant}x:query:1", "x", ex=60)
        gone = erase_tenant(corner.tenant, use)
        assert gone is not None
        assert gone.remaining == {}
        assert gone.erased["mysql.chunks"] == gone.erased["postgres.chunk_embeddings"] == 2
        assert gone.erased["mysql.tenants"] == gone.erased["redis.keys"] == 1
        assert erasure_store.left_over(use.mysql, use.postgres, use.redis, corner.tenant) == {}
        assert use.redis.exists(f"{corner.tenant}x:query:1")
        assert other.shown() == {"a": ["kept text"]}
        other.assert_clean()
        again = erase_tenant(corner.tenant, use)
        assert again is not None
        assert (again.erased, again.remaining) == (gone.erased, {})

    def it_is_finished_by_the_reconciler_when_interrupted(self, corner, neighbour, use, monkeypatch):
        def gone(*_):
            raise StoreUnavailable("PostgreSQL: gone")

        with monkeypatch.context() as patched:
            patched.setattr(erasure_store, "erase_from_postgres", gone)
            with pytest.raises(StoreUnavailable):
                erase_tenant(corner.tenant, use)
        assert vectors(neighbour) == 2
        assert finish_erasures(use) >= 1
        assert erasure_store.left_over(use.mysql, use.postgres, use.redis, corner.tenant) == {}

    def it_keeps_its_id_and_is_shut_out_until_nothing_is_left(self, corner, neighbour, use, monkeypatch):
        def gone(*_):
            raise StoreUnavailable("Redis: gone")

        def tenants(work) -> Tenants:
            return Tenants(work.connection, corner.tenant)

        use.redis.set(f"{corner.tenant}:query:1", "x", ex=60)
        with monkeypatch.context() as patched:
            patched.setattr(erasure_store, "erase_from_redis", gone)
            with pytest.raises(StoreUnavailable):
                erase_tenant(corner.tenant, use)
        with unit_of_work(use.mysql) as work:
            assert not tenants(work).create("somebody else")
            key = tenants(work).issue_key("late")
            assert not tenants(work).admit(True)
            assert tenants(work).principal(key) is None
        assert finish_erasures(use) >= 1
        assert erasure_store.left_over(use.mysql, use.postgres, use.redis, corner.tenant) == {}
        with unit_of_work(use.mysql) as work:
            assert tenants(work).create("somebody else")
            key = tenants(work).issue_key("new")
            assert tenants(work).principal(key) is not None
            assert tenants(work).admit(False)
            assert tenants(work).admit(True)

    def it_leaves_a_tenant_alone_that_was_made_anew(self, corner, neighbour, use):
        erase_tenant(corner.tenant, use)
        with unit_of_work(use.mysql) as work:
            Tenants(work.connection, corner.tenant).create("again")
        corner.ingest(upload("a", "new life"))
        finish_erasures(use)
        assert corner.shown() == {"a": ["new life"]}

    def it_is_nobody_that_never_was(self, use):
        assert erase_tenant("never-was", use) is None  # type: ignore[arg-type]

    def it_ends_what_a_worker_is_doing_for_it(self, corner, use):
        ticket = corner.accept(upload("a", "text"))
        erase_tenant(corner.tenant, use)
        corner.work(ticket)
        left = erasure_store.left_over(use.mysql, use.postgres, use.redis, corner.tenant)
        assert set(left) <= {"mysql.ingest_turns"}  # a bell that was rung before; it holds no content
        finish_erasures(use)
        assert erasure_store.left_over(use.mysql, use.postgres, use.redis, corner.tenant) == {}
