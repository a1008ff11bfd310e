"""Namespaces and tenants, taken away: all that was named, nothing else, wherever it was interrupted."""

from __future__ import annotations

import threading
import uuid

import pytest
from sqlalchemy import text

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


def make_anew(corner: Corner) -> bool:
    """Create the tenant again; False if it exists."""
    with unit_of_work(corner.use.mysql) as work:
        return Tenants(work.connection, corner.tenant).create("again")


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
            patched.setattr(erasure_store, "erase_some_from_postgres", gone)
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
            patched.setattr(erasure_store, "unlink", gone)
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
        make_anew(corner)
        corner.ingest(upload("a", "new life"))
        finish_erasures(use)
        assert corner.shown() == {"a": ["new life"]}

    @pytest.mark.parametrize("step", ["unsettled", "postgres_tables"])
    def it_stops_when_the_tenant_is_made_anew_meanwhile(self, corner, neighbour, use, monkeypatch, step):
        """After the erasures to continue are listed, or in the middle of the pass of this one."""
        erase_tenant(corner.tenant, use)
        corner.execute("UPDATE erasures SET settled_at = requested_at WHERE tenant_id <> :tenant")
        real, made = getattr(erasure_store, step), []

        def then_made_anew(*arguments):
            found = real(*arguments)
            if not made:
                made.append(make_anew(corner))
                corner.ingest(upload("a", "new life"))
                use.redis.set(f"{corner.tenant}:query:1", "x", ex=60)
            return found

        with monkeypatch.context() as patched:
            patched.setattr(erasure_store, step, then_made_anew)
            finish_erasures(use)
        assert made == [True]
        assert corner.shown() == {"a": ["new life"]}
        assert vectors(corner) == 1
        assert use.redis.exists(f"{corner.tenant}:query:1")
        corner.assert_clean()

    def it_reports_no_row_of_a_tenant_that_is_made_anew_meanwhile(self, corner, neighbour, use, monkeypatch):
        erase_tenant(corner.tenant, use)
        real = erasure_store.left_over

        def after_it_was_made_anew(*arguments):
            assert make_anew(corner)
            return real(*arguments)

        monkeypatch.setattr(erasure_store, "left_over", after_it_was_made_anew)
        again = erase_tenant(corner.tenant, use)
        assert again is not None
        assert again.remaining == {}
        assert corner.rows("tenants") == 1

    def it_is_made_anew_only_between_two_statements_that_erase(self, corner, neighbour, use):
        erase_tenant(corner.tenant, use)
        made = threading.Event()

        def make() -> None:
            make_anew(corner)
            made.set()

        with unit_of_work(use.mysql) as work:
            statement = "SELECT 1 FROM erasures WHERE tenant_id = :t FOR UPDATE"
            assert work.connection.execute(text(statement), {"t": corner.tenant}).first()
            making = threading.Thread(target=make)
            making.start()
            assert not made.wait(0.5)
            work.connection.execute(text("DELETE FROM tenants WHERE tenant_id = :t"), {"t": corner.tenant})
        making.join(10)
        assert made.is_set()

    @pytest.mark.parametrize("disabled", [False, True])
    def it_leaves_a_tenant_alone_that_an_earlier_version_made_anew(self, corner, neighbour, use, disabled):
        erase_tenant(corner.tenant, use)
        make_anew(corner)
        corner.ingest(upload("a", "new life"))
        corner.execute("UPDATE erasures SET settled_at = NULL WHERE tenant_id = :tenant")
        if disabled:
            with unit_of_work(use.mysql) as work:
                assert Tenants(work.connection, corner.tenant).admit(False)
        finish_erasures(use)
        assert corner.shown() == {"a": ["new life"]}

    def it_does_not_compare_the_clocks_of_two_hosts(self, corner, neighbour, use, monkeypatch):
        def gone(*_):
            raise StoreUnavailable("PostgreSQL: gone")

        hours = "UPDATE tenants SET created_at = created_at {sign} INTERVAL 1 HOUR WHERE tenant_id = :tenant"
        corner.execute(hours.format(sign="+"))
        with monkeypatch.context() as patched:
            patched.setattr(erasure_store, "postgres_tables", gone)
            with pytest.raises(StoreUnavailable):
                erase_tenant(corner.tenant, use)
        with unit_of_work(use.mysql) as work:
            assert not Tenants(work.connection, corner.tenant).admit(True)
        assert finish_erasures(use) >= 1
        assert erasure_store.left_over(use.mysql, use.postgres, use.redis, corner.tenant) == {}
        make_anew(corner)
        corner.ingest(upload("a", "new life"))
        corner.execute(hours.format(sign="-"))
        finish_erasures(use)
        assert corner.shown() == {"a": ["new life"]}

    def it_is_settled_once_a_later_recount_finds_nothing(self, corner, neighbour, use):
        settled = "SELECT 1 FROM erasures WHERE tenant_id = :tenant AND settled_at IS NOT NULL"
        erase_tenant(corner.tenant, use)
        finish_erasures(use)
        assert not corner.execute(settled)
        corner.execute("UPDATE erasures SET requested_at = requested_at - INTERVAL 3 MINUTE WHERE tenant_id = :tenant")
        finish_erasures(use)
        assert corner.execute(settled)

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
