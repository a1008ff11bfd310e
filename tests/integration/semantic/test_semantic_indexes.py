"""Upkeep of the vector indexes: when a range is sealed, merged, built again and dropped."""

from __future__ import annotations

import threading

import pytest
from sqlalchemy import text

from benchmarks.vectors import fill, resize
from pipeline.embedding import space_store
from pipeline.errors import Unavailable
from pipeline.maintenance import erase
from pipeline.maintenance.build_indexes import keep_indexes, questions_of
from pipeline.maintenance.migrate_schema import check
from pipeline.records import EmbeddingSpace, Namespace, TenantId
from pipeline.resources import Resources
from pipeline.semantic import question_text_store, vector_index_store
from pipeline.semantic.vector_index_store import index_builder
from tests.conftest import make_tenant
from tests.support.stacks.connections import in_postgres
from tests.support.stacks.vector_library import BOOKS, GROWN, noted


def forget_what_is_known(use: Resources) -> None:
    """Drop the process's cached knowledge of indexes, which may be a few seconds old."""
    use.__dict__.pop("search_tools", None)


def indexes(use: Resources) -> dict[str, str]:
    with use.postgres.connect() as connection:
        rows = connection.execute(
            text(
                "SELECT c.relname, i.indisvalid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid"
                " WHERE c.relname LIKE '%\\_ann\\_%'"
            )
        )
        return {name: "valid" if valid else "invalid" for name, valid in rows}


def states(use: Resources, tenant_id: TenantId) -> list[str]:
    return [row.state for row in noted(use, tenant_id)]


def age(use: Resources) -> None:
    """Let every state be old enough for what waits for that."""
    in_postgres(use, "UPDATE vector_indexes SET changed_at = now() - interval '1 minute'")


def keep(use: Resources, times: int) -> None:
    for _ in range(times):
        keep_indexes(use, questions=lambda *_, **__: None)


@pytest.mark.parametrize("library", ["cosine"], indirect=True, scope="module")
class DescribeUpkeep:
    """Each test has a large tenant of its own. The distance names an operator class, which `library` has checked."""

    @pytest.fixture
    def grown(self, library) -> TenantId:
        tenant_id = make_tenant(library.use)[0]
        fill(library.use, tenant_id, library.clusters.passages(GROWN), namespace=BOOKS)
        return tenant_id

    def index(self, library, tenant_id: TenantId) -> str:
        """The name of the tenant's only index."""
        (row,) = noted(library.use, tenant_id)
        return row.index_name

    def add(self, library, tenant_id: TenantId, count: int, namespace: str) -> None:
        """More rows in a namespace of their own, all of them shown."""
        fill(library.use, tenant_id, library.clusters.passages(count), namespace=Namespace(namespace))

    def finds_everything(self, library, tenant_id: TenantId, names: list[str]) -> bool:
        """Whether a new process finds for several questions what reading every row finds."""
        forget_what_is_known(library.reader)
        for question in library.questions[:6]:
            asked = {"namespaces": [Namespace(name) for name in names]}
            hits = library.search(tenant_id, question, **asked).hits
            if {chunk_id for chunk_id, _ in hits} != set(library.exact(tenant_id, question, **asked)):
                return False
        return True

    def it_waits_until_a_tenant_has_stopped_growing(self, library, grown):
        keep(library.use, 1)
        self.add(library, grown, GROWN // 2, "more")
        keep(library.use, 1)
        assert states(library.use, grown) == []
        keep(library.use, 1)
        assert states(library.use, grown) == ["ready"]
        assert indexes(library.use)[self.index(library, grown)] == "valid"
        check(library.use.mysql, library.use.postgres, library.use.settings)

    def it_answers_right_while_a_tail_grows_is_sealed_and_ranges_are_merged(self, library, grown):
        self.add(library, grown, 4 * GROWN, "more")
        keep(library.use, 2)
        (old,) = noted(library.use, grown)
        self.add(library, grown, GROWN, "late")
        names = ["books", "more", "late"]
        assert self.finds_everything(library, grown, names)
        keep(library.use, 2)
        assert [row.chunks for row in noted(library.use, grown)] == [5 * GROWN, GROWN]
        assert self.finds_everything(library, grown, names)
        self.add(library, grown, GROWN, "later")
        keep(library.use, 2)
        *replaced, new = sorted(noted(library.use, grown), key=lambda row: row.end_seq - row.first_seq)
        assert (new.first_seq, new.chunks) == (old.first_seq, 7 * GROWN)
        assert self.finds_everything(library, grown, [*names, "later"])
        keep(library.use, 1)
        age(library.use)
        keep(library.use, 1)
        assert self.index(library, grown) == new.index_name
        assert {row.index_name for row in replaced}.isdisjoint(indexes(library.use))
        assert self.finds_everything(library, grown, [*names, "later"])

    @pytest.mark.thorough
    def it_puts_nothing_that_is_written_into_an_index(self, library, grown):
        """Neither a new row nor one that is written again: that one gets a new number, behind the sealed range."""
        keep(library.use, 2)
        (row,) = noted(library.use, grown)
        fill(library.use, grown, library.clusters.passages(40), namespace=BOOKS)  # the same chunks again, other vectors
        self.add(library, grown, 40, "more")
        with library.use.postgres.connect() as connection:
            statement = text(
                "SELECT count(*), count(*) FILTER (WHERE seq < :end) FROM chunk_embeddings WHERE tenant_id = :tenant"
            )
            counts = connection.execute(statement, {"tenant": grown, "end": row.end_seq}).one()
            definition = connection.execute(text(f"SELECT pg_get_indexdef('{row.index_name}'::regclass)")).scalar_one()
        assert tuple(counts) == (GROWN + 40, GROWN - 40)
        assert f"seq < {row.end_seq}" in definition
        assert self.finds_everything(library, grown, ["books", "more"])

    @pytest.mark.thorough
    def it_builds_a_range_again_when_most_of_its_rows_are_gone(self, library, grown):
        self.add(library, grown, 2 * GROWN, "more")
        keep(library.use, 2)
        old = self.index(library, grown)
        in_postgres(
            library.use, "DELETE FROM chunk_embeddings WHERE tenant_id = :tenant AND namespace = 'more'", tenant=grown
        )
        resize(library.use, grown, Namespace("more"), 0)
        keep(library.use, 2)
        assert sorted(states(library.use, grown)) == ["ready", "retiring"]
        age(library.use)
        keep(library.use, 1)
        assert self.index(library, grown) != old

    @pytest.mark.thorough
    def it_seals_a_range_again_whose_index_was_dropped_by_hand(self, library, grown):
        keep(library.use, 2)
        in_postgres(library.use, f"DROP INDEX {self.index(library, grown)}")
        assert library.search(grown, library.questions[0], namespaces=[BOOKS]).hits
        keep(library.use, 3)
        assert indexes(library.use)[self.index(library, grown)] == "valid"

    def it_never_builds_for_two_at_once(self, library, grown):
        keep(library.use, 1)
        with index_builder(library.use.postgres) as mine:
            assert mine is not None
            assert keep_indexes(library.use) == 0
        threads = [threading.Thread(target=keep, args=(library.use, 1)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        keep(library.use, 1)
        assert states(library.use, grown) == ["ready"]

    @pytest.mark.thorough
    def it_cleans_up_after_a_builder_that_died(self, library, grown, monkeypatch):
        keep(library.use, 1)
        # A build waits for who writes to the table; one that is given up meanwhile leaves what a killed one does.
        monkeypatch.setattr(vector_index_store, "BUILD_TIMEOUT_MS", 500)
        with library.use.postgres.begin() as writing:
            writing.execute(text("LOCK TABLE chunk_embeddings IN ROW EXCLUSIVE MODE"))
            with pytest.raises(Unavailable):
                keep(library.use, 1)
        monkeypatch.undo()
        assert states(library.use, grown) == ["building"]
        assert indexes(library.use)[self.index(library, grown)] == "invalid"
        keep(library.use, 3)
        assert indexes(library.use)[self.index(library, grown)] == "valid"
        assert states(library.use, grown) == ["ready"]

    @pytest.mark.thorough
    def it_adopts_what_was_finished_and_not_noted(self, library, grown):
        keep(library.use, 2)
        in_postgres(
            library.use,
            "UPDATE vector_indexes SET state = 'building' WHERE state = 'ready' AND tenant_id = :tenant",
            tenant=grown,
        )
        keep(library.use, 1)
        assert states(library.use, grown) == ["ready"]

    def it_takes_an_index_from_the_searches_before_it_drops_it(self, library, grown):
        keep(library.use, 2)
        name = self.index(library, grown)
        resize(library.use, grown, BOOKS, 700)
        keep(library.use, 1)
        assert states(library.use, grown) == ["ready"]  # still more than half of what earns one
        resize(library.use, grown, BOOKS, 100)
        keep(library.use, 1)
        assert states(library.use, grown) == ["retiring"]
        assert name in indexes(library.use)
        forget_what_is_known(library.reader)
        assert library.search(grown, library.questions[0]).guard.method == "exact"
        keep(library.use, 1)
        assert name in indexes(library.use)
        age(library.use)
        keep(library.use, 1)
        assert name not in indexes(library.use)
        assert states(library.use, grown) == []

    def it_leaves_nothing_of_a_tenant_that_is_erased(self, library, grown):
        keep(library.use, 2)
        name = self.index(library, grown)
        erased = erase.erase_tenant(grown, library.use)
        assert erased.remaining == {}
        assert name not in indexes(library.use)
        assert (
            in_postgres(library.use, "SELECT count(*) FROM vector_indexes WHERE tenant_id = :tenant", tenant=grown)[0][
                0
            ]
            == 0
        )

    @pytest.mark.thorough
    def it_drops_the_index_of_a_tenant_that_was_erased_while_it_was_built(self, library, grown):
        keep(library.use, 2)
        name = self.index(library, grown)
        with index_builder(library.use.postgres):  # a builder at work: the erasure cannot drop its index
            erase.erase_tenant(grown, library.use)
        assert name in indexes(library.use)
        keep(library.use, 1)
        age(library.use)
        keep(library.use, 1)
        assert name not in indexes(library.use)
        assert states(library.use, grown) == []

    def it_numbers_and_indexes_the_rows_of_another_space_too(self, library):
        new = EmbeddingSpace(number=9, provider="local", model="m", dimension=256, table="chunk_embeddings_9")
        space_store.create_table(library.use.postgres, new, like=library.use.spaces.base)
        try:
            with library.use.postgres.connect() as connection:
                assert space_store.table_shape(connection, new).indexes == ()
            tenant_id = make_tenant(library.use)[0]
            fill(library.use, tenant_id, library.clusters.passages(30), namespace=BOOKS, table=new.table)
            with library.use.postgres.connect() as connection:
                numbers = list(connection.execute(text(f"SELECT seq FROM {new.table} ORDER BY seq")).scalars())
                plan = connection.execute(
                    text(f"SELECT indexdef FROM pg_indexes WHERE tablename = '{new.table}' AND indexdef LIKE '%seq)'")
                ).all()
            assert (len(set(numbers)), min(numbers) > 0, len(plan)) == (30, True, 1)
        finally:
            space_store.drop_table(library.use.postgres, new)

    @pytest.mark.thorough  # test_semantic_search has an index measured with given questions
    def it_measures_recall_with_questions_of_its_own_texts_where_none_is_kept(self, library, grown, monkeypatch):
        keep(library.use, 3)  # the third look sees that no more rows come
        monkeypatch.setattr(
            question_text_store,
            "random_texts",
            lambda *_, most: ["Foxes hunt hares at night.", "高血压患者应当少吃盐。"] * (most // 2),
        )
        keep_indexes(
            library.use,
            questions=lambda tenant_id, *given, **how: (
                questions_of(tenant_id, *given, **how) if tenant_id == grown else None
            ),
        )
        (row,) = noted(library.use, grown)
        assert 1 <= row.probes <= row.lists
        assert row.recall >= 0.97
        assert row.questions == 192
