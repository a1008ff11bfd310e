"""Namespaces and tenants, taken away: all that was named, nothing else, wherever it was interrupted."""

from __future__ import annotations

import threading
import uuid

import pytest
from sqlalchemy import text

from pipeline.administration.edit_dictionaries import load_dictionary, replace_dictionary
from pipeline.database.tenant_presence import share_tenant
from pipeline.database.unit_of_work import unit_of_work
from pipeline.errors import ErasureUnfinished, StoreUnavailable, TenantGone
from pipeline.keyword.dictionary import EVERY_NAMESPACE, Dictionary
from pipeline.maintenance import erase
from pipeline.maintenance.erase import delete_namespace, erase_tenant, finish_erasures
from pipeline.records import DocumentId, Generation, Namespace, Scope
from pipeline.resources import Resources
from pipeline.tenants import erasure_store
from pipeline.tenants.audit_store import Audit
from pipeline.tenants.tenant_store import Tenants
from tests.conftest import make_tenant
from tests.support.corpora.uploads import upload
from tests.support.stacks.connections import in_mysql, in_postgres
from tests.support.stacks.corner import Corner

pytestmark = pytest.mark.own_databases


@pytest.fixture(autouse=True)
def _settled(use: Resources) -> None:
    """Let the erasures of earlier tests be settled: each pass of the reconciler would look at all of them again."""
    in_mysql(use, "UPDATE erasures SET settled_at = UTC_TIMESTAMP(6) WHERE settled_at IS NULL")


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


def create(corner: Corner) -> bool:
    """Create the tenant; False if it exists."""
    with unit_of_work(corner.use.mysql) as work:
        return Tenants(work.connection, corner.tenant).create("again")


def settle(corner: Corner) -> None:
    """Finish the erasure as if its request were some minutes old."""
    corner.execute("UPDATE erasures SET requested_at = requested_at - INTERVAL 3 MINUTE WHERE tenant_id = :tenant")
    for _ in range(2):  # the first pass may find rows; one that finds none settles
        finish_erasures(corner.use)
    assert corner.execute("SELECT 1 FROM erasures WHERE tenant_id = :tenant AND settled_at IS NOT NULL")


def make_anew(corner: Corner) -> bool:
    """Create the tenant again after its erasure is settled."""
    settle(corner)
    return create(corner)


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

    def it_goes_with_its_dictionary_and_leaves_those_of_others(self, corner, neighbour, use):
        corner.ingest(upload("x", "text"))
        words, everywhere = Dictionary(synonyms=(("pump", "p1"),)), Namespace(EVERY_NAMESPACE)
        for namespace in (corner.namespace, neighbour.namespace, everywhere):
            replace_dictionary(corner.tenant, use, namespace, words)
        delete_namespace(corner.tenant, corner.namespace, use)
        assert load_dictionary(corner.tenant, corner.namespace, use)[0] is None
        assert load_dictionary(corner.tenant, neighbour.namespace, use)[0] == words
        assert load_dictionary(corner.tenant, everywhere, use)[0] == words

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

    @pytest.mark.thorough
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
        with pytest.raises(ErasureUnfinished, match="1 rows and keys are left"):
            erase.refuse_unfinished(corner.tenant, use)
        with pytest.raises(ErasureUnfinished):
            create(corner)
        with pytest.raises(TenantGone), unit_of_work(use.mysql) as work:
            tenants(work).issue_key("late")
        with unit_of_work(use.mysql) as work:
            assert not tenants(work).admit(True)
        assert finish_erasures(use) >= 1
        assert erasure_store.left_over(use.mysql, use.postgres, use.redis, corner.tenant) == {}
        with pytest.raises(ErasureUnfinished, match=r"being erased: repeat the request in \d+ seconds"):
            erase.refuse_unfinished(corner.tenant, use)
        settle(corner)
        erase.refuse_unfinished(corner.tenant, use)
        with unit_of_work(use.mysql) as work:
            assert tenants(work).create("somebody else")
            key = tenants(work).issue_key("new")
            assert tenants(work).principal(key)[0] is not None
            assert tenants(work).admit(False)
            assert tenants(work).admit(True)

    @pytest.mark.thorough
    def it_leaves_a_tenant_alone_that_was_made_anew(self, corner, neighbour, use):
        erase_tenant(corner.tenant, use)
        make_anew(corner)
        corner.ingest(upload("a", "new life"))
        finish_erasures(use)
        assert corner.shown() == {"a": ["new life"]}

    @pytest.mark.thorough
    def it_stops_when_it_is_settled_and_the_tenant_made_anew_meanwhile(self, corner, neighbour, use, monkeypatch):
        erase_tenant(corner.tenant, use)
        real, made = erasure_store.postgres_tables, []

        def then_made_anew(*arguments):
            found = real(*arguments)
            if not made:
                made.append(1)
                assert make_anew(corner)
                corner.ingest(upload("a", "new life"))
                use.redis.set(f"{corner.tenant}:query:1", "x", ex=60)
            return found

        with monkeypatch.context() as patched:
            patched.setattr(erasure_store, "postgres_tables", then_made_anew)
            again = erase._erase(corner.tenant, use)
        assert again.remaining == {}
        assert made
        assert corner.shown() == {"a": ["new life"]}
        assert vectors(corner) == 1
        assert use.redis.exists(f"{corner.tenant}:query:1")
        corner.assert_clean()

    @pytest.mark.thorough
    def it_is_continued_when_something_of_it_is_found_before_the_id_is_used_again(self, corner, neighbour, use):
        erase_tenant(corner.tenant, use)
        settle(corner)
        use.redis.set(f"{corner.tenant}:answer:1", "x", ex=60)
        with pytest.raises(ErasureUnfinished, match="1 rows and keys are left"):
            erase.refuse_unfinished(corner.tenant, use)
        assert make_anew(corner)
        assert not use.redis.exists(f"{corner.tenant}:answer:1")

    def it_lets_no_transaction_that_has_begun_leave_a_row(self, corner, neighbour, use):
        """One writer has found its tenant and inserted, but does not commit before the erasure has begun."""
        erasing = threading.Thread(target=erase_tenant, args=(corner.tenant, use))
        with unit_of_work(use.mysql) as work:
            Audit(work.connection, corner.tenant).wrote("late")
            erasing.start()
            erasing.join(1)
            assert erasing.is_alive()
        erasing.join(30)
        assert erasure_store.left_over(use.mysql, use.postgres, use.redis, corner.tenant) == {}

    @pytest.mark.thorough
    def it_lets_no_vector_in_that_was_under_way(self, corner, neighbour, use):
        """One writer to PostgreSQL holds the tenant's lock; another one comes after the erasure."""
        erasing = threading.Thread(target=erase_tenant, args=(corner.tenant, use))
        with use.postgres.begin() as connection:
            share_tenant(connection, corner.tenant)
            erasing.start()
            erasing.join(1)
            assert erasing.is_alive()
            connection.execute(
                text(
                    "INSERT INTO document_embeddings SELECT tenant_id, 'late', document_id, generation, embedding, model,"
                    " chunk_count, content_hash FROM document_embeddings WHERE tenant_id = :t AND namespace = :n"
                ),
                {"t": corner.tenant, "n": neighbour.namespace},
            )
        erasing.join(30)
        assert erasure_store.left_over(use.mysql, use.postgres, use.redis, corner.tenant) == {}
        generation = Generation(
            scope=Scope(tenant_id=corner.tenant, namespace=corner.namespace), document_id=DocumentId("a"), number=1
        )
        with pytest.raises(TenantGone):
            use.document_vectors(corner.tenant).refresh([generation])

    @pytest.mark.parametrize("table", ["audit", "embedding_usage", "feedback", "ingest_turns", "webhook_deliveries"])
    def it_refuses_a_late_row_of_every_kind_of_statement(self, corner, use, table):
        columns = "(tenant_id) SELECT tenant_id FROM ingest_turns WHERE tenant_id = :tenant"
        erase_tenant(corner.tenant, use)
        with pytest.raises(TenantGone):
            corner.execute(f"INSERT INTO {table} {columns}")

    @pytest.mark.thorough
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

    @pytest.mark.thorough
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

    @pytest.mark.thorough
    def it_is_settled_once_a_later_recount_finds_nothing(self, corner, neighbour, use):
        settled = "SELECT 1 FROM erasures WHERE tenant_id = :tenant AND settled_at IS NOT NULL"
        erase_tenant(corner.tenant, use)
        finish_erasures(use)
        assert not corner.execute(settled)
        asked = corner.execute("SELECT requested_at FROM erasures WHERE tenant_id = :tenant")
        erase_tenant(corner.tenant, use)  # a repetition does not begin anew
        assert corner.execute("SELECT requested_at FROM erasures WHERE tenant_id = :tenant") == asked
        settle(corner)

    @pytest.mark.thorough
    def it_is_nobody_that_never_was(self, use):
        assert erase_tenant("never-was", use) is None  # type: ignore[arg-type]

    def it_ends_what_a_worker_is_doing_for_it(self, corner, use):
        ticket = corner.accept(upload("a", "text"))
        erase_tenant(corner.tenant, use)
        corner.work(ticket)
        left = erasure_store.left_over(use.mysql, use.postgres, use.redis, corner.tenant)
        assert set(left) <= {"mysql.ingest_turns"}  # a notification that was sent before; it holds no content
        finish_erasures(use)
        assert erasure_store.left_over(use.mysql, use.postgres, use.redis, corner.tenant) == {}
