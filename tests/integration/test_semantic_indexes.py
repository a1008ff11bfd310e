"""Recall by meaning for small and large tenants: which way it goes, that it finds what there is, and what keeps the
indexes in order. In databases of its own, with the threshold lowered."""

from __future__ import annotations

import re
import threading
import uuid
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from sqlalchemy import Engine, Row, event, text

from benchmarks.clusters import Clusters
from benchmarks.vectors import fill, resize
from pipeline.channels.semantic_channel import SemanticChannel
from pipeline.embedding import space_store
from pipeline.errors import StoreUnavailable, Unavailable, VectorTableMissing
from pipeline.maintenance import erase
from pipeline.maintenance.build_indexes import keep_indexes, questions_of
from pipeline.maintenance.migrate_schema import check
from pipeline.query.plan import ChannelPlan, Plan, RetrievePlan
from pipeline.query.request import Query
from pipeline.records import ChunkId, EmbeddingSpace, Filters, Namespace, TenantId
from pipeline.resources import Resources
from pipeline.semantic import question_text_store, vector_index_store
from pipeline.semantic.search_store import Nearest
from pipeline.semantic.vector_index_store import index_builder
from tests.conftest import make_tables, make_tenant, scratch_databases

LARGE, SMALL, GROWN, THRESHOLD = 8000, 300, 1200, 1000
BOOKS, NOTES = Namespace("books"), Namespace("notes")


def near(least: float) -> Plan:
    """Recall by meaning alone, of what is at least so similar."""
    return Plan(retrieve=RetrievePlan(channels={"semantic": ChannelPlan(min_score=least)}))


class Library:
    """One large tenant with two namespaces, one small one, and a reader's connections."""

    def __init__(self, use: Resources) -> None:
        self.use = use
        self.reader = Resources(use.settings, timeout_s=20.0, reading=True)
        self.clusters = Clusters.of(LARGE, dimension=use.settings.embedding_dim, seed=3)
        self.large, self.small = make_tenant(use)[0], make_tenant(use)[0]
        fill(
            use,
            self.large,
            self.clusters.passages(LARGE * 9 // 10),
            namespace=BOOKS,
            metadata=lambda place: {"rare": place % 900 == 0, "half": place % 2, "tenth": place % 10 == 0},
        )
        fill(use, self.large, self.clusters.passages(LARGE // 10), namespace=NOTES)
        fill(use, self.small, self.clusters.passages(SMALL), namespace=BOOKS)
        self.questions = self.clusters.questions(25)

    def search(self, tenant_id: TenantId, question: NDArray[np.float32], **asked: object) -> Nearest:
        values = {"namespaces": [BOOKS, NOTES], "filters": Filters(), "limit": 50, **asked}
        return self.reader.search_in(self.use.spaces.base, tenant_id).nearest(question, **values)

    def exact(self, tenant_id: TenantId, question: NDArray[np.float32], **asked: object) -> list[ChunkId]:
        values = {"namespaces": [BOOKS, NOTES], "filters": Filters(), "limit": 50, **asked}
        found = self.use.vectors_in(self.use.spaces.base, tenant_id).nearest(question, **values)
        return [chunk_id for chunk_id, _ in found]

    def recall_at_10(self, tenant_id: TenantId, **asked: object) -> float:
        shares = []
        for question in self.questions:
            truth = set(self.exact(tenant_id, question, **asked)[:10])
            found = [chunk_id for chunk_id, _ in self.search(tenant_id, question, **asked).hits[:10]]
            shares.append(len(truth.intersection(found)) / len(truth))
        return sum(shares) / len(shares)


@pytest.fixture(scope="module", params=["cosine", pytest.param("euclidean", marks=pytest.mark.thorough)])
def library(request, settings) -> Iterator[Library]:
    with scratch_databases(settings) as moved:
        changed = {"semantic_exact_chunks": THRESHOLD, "pgvector_distance": request.param}
        use = Resources(moved.model_copy(update=changed))
        make_tables(use)
        made = Library(use)
        measure = made.clusters.questions(20)
        for _ in range(2):
            keep_indexes(use, questions=lambda *_, **__: measure)
        check(use.mysql, use.postgres, use.settings)
        yield made
        made.reader.close()
        use.close()


def forget_what_is_known(use: Resources) -> None:
    """What a process knows of indexes is a few seconds old; a new process knows what is."""
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


def noted(use: Resources, tenant_id: TenantId) -> list[Row]:
    """What is noted of a tenant's indexes, in the order of their ranges."""
    with use.postgres.connect() as connection:
        statement = text(
            "SELECT * FROM vector_indexes WHERE tenant_id = :tenant AND state <> 'wanted' ORDER BY first_seq, end_seq"
        )
        return list(connection.execute(statement, {"tenant": tenant_id}))


def states(use: Resources, tenant_id: TenantId) -> list[str]:
    return [row.state for row in noted(use, tenant_id)]


def age(use: Resources) -> None:
    """Let every state be old enough for what waits for that."""
    with use.postgres.begin() as connection:
        connection.execute(text("UPDATE vector_indexes SET changed_at = now() - interval '1 minute'"))


def keep(use: Resources, times: int) -> None:
    for _ in range(times):
        keep_indexes(use, questions=lambda *_, **__: None)


class DescribeTheWayItGoes:
    def it_searches_a_small_tenant_exactly(self, library):
        found = library.search(library.small, library.questions[0])
        assert found.guard.method == "exact"
        assert [chunk_id for chunk_id, _ in found.hits] == library.exact(library.small, library.questions[0])

    def it_searches_a_large_tenant_through_its_index(self, library):
        guard = library.search(library.large, library.questions[0]).guard
        assert (guard.method, guard.may_be_short, guard.indexes) == ("ivfflat", False, 1)
        assert guard.rows == LARGE
        assert 50 <= guard.scanned < 200
        (row,) = noted(library.use, library.large)
        assert guard.recall == pytest.approx(row.recall, abs=0.001)
        assert row.recall >= 0.97
        assert (row.probes < row.lists, row.questions) == (True, 20)

    @pytest.mark.parametrize(
        ("asked", "method"),
        [
            ({}, "ivfflat"),
            ({"namespaces": [BOOKS]}, "ivfflat"),
            ({"filters": Filters(metadata={"half": 1})}, "ivfflat"),
            ({"filters": Filters(metadata={"tenth": True})}, "ivfflat"),
            ({"namespaces": [NOTES]}, "exact"),
            ({"filters": Filters(metadata={"rare": True})}, "exact"),
            ({"filters": Filters(metadata={"no": "such"})}, "exact"),
            ({"limit": 4000}, "exact"),
        ],
    )
    def it_decides_by_what_the_filters_let_pass(self, library, asked, method):
        assert library.search(library.large, library.questions[0], **asked).guard.method == method

    @pytest.mark.parametrize(
        "asked",
        [
            {},
            {"namespaces": [BOOKS]},
            {"filters": Filters(metadata={"half": 1})},
            {"filters": Filters(metadata={"tenth": True})},
            {"filters": Filters(metadata={"rare": True})},
        ],
        ids=["all", "namespace", "half", "tenth", "rare"],
    )
    def it_finds_what_exact_search_finds(self, library, asked):
        assert library.recall_at_10(library.large, **asked) >= 0.98

    def it_reads_every_row_when_the_graph_gave_too_few(self, library):
        # All that passes lies on the far side: a sample of the tenant cannot know, the graph finds out.
        question = library.questions[0]
        with library.use.postgres.begin() as connection:
            operator = "<=>" if library.use.settings.pgvector_distance == "cosine" else "<->"
            connection.execute(
                text(
                    "UPDATE chunk_embeddings SET type = 'far' WHERE tenant_id = :tenant AND chunk_id IN"
                    " (SELECT chunk_id FROM chunk_embeddings WHERE tenant_id = :tenant"
                    f" ORDER BY embedding {operator} CAST(:query AS halfvec) DESC LIMIT 2500)"
                ),
                {"tenant": library.large, "query": str(question.tolist())},
            )
        found = library.search(library.large, question, filters=Filters(type="far"))
        assert found.guard.method == "ivfflat+exact_fallback"
        assert [chunk_id for chunk_id, _ in found.hits] == library.exact(
            library.large, question, filters=Filters(type="far")
        )

    def it_takes_so_many_of_each_namespace(self, library):
        for tenant_id in (library.large, library.small):
            question = library.questions[1]
            found = library.search(tenant_id, question, per_namespace=5, limit=8)
            best = [library.exact(tenant_id, question, namespaces=[name], limit=5) for name in (BOOKS, NOTES)]
            truth = {chunk_id for part in best for chunk_id in part}
            ids = [chunk_id for chunk_id, _ in found.hits]
            assert len(ids) == min(8, len(truth))
            assert set(ids) <= truth
            assert [score for _, score in found.hits] == sorted((score for _, score in found.hits), reverse=True)

    def it_searches_the_namespaces_of_one_query_at_once(self, library):
        """Neither statement is sent before the other one is about to be, so one after the other would wait for ever."""
        both, begun = threading.Barrier(2, timeout=10), set()

        def meet(_connection, _cursor, statement, *_others) -> None:
            if "AS distance" in statement and threading.get_ident() not in begun:
                begun.add(threading.get_ident())
                both.wait()

        event.listen(Engine, "before_cursor_execute", meet)
        try:
            found = library.search(library.large, library.questions[2], per_namespace=5, limit=10)
        finally:
            event.remove(Engine, "before_cursor_execute", meet)
        assert (len(begun), both.broken) == (2, False)
        assert len(found.hits) == 10

    def it_leaves_out_what_is_less_similar_than_the_threshold_and_tells_how_it_searched(self, library):
        class Fixed:
            """A model at the edge: gives the question's own vector."""

            model = "fixed"

            def embed(self, texts, *, timeout_s=None):
                return np.repeat(library.questions[:1], len(texts), axis=0)

        channel = SemanticChannel(lambda _: replace(library.reader.searched(None), embedder=Fixed()))
        query = Query(
            query_id="q",
            tenant_id=library.large,
            request_id="r",
            query_text="x",
            namespaces=(BOOKS, NOTES),
            plan=near(0.0),
            created_at=0.0,
            deadline_at=0.0,
        )
        found = channel.recall(query)
        assert found.guard["method"] == "ivfflat"
        bound = found.scores[4]
        kept = channel.recall(replace(query, plan=near(bound)))
        assert kept.chunk_ids == found.chunk_ids[:5]

    def it_never_finds_another_tenants_chunks(self, library):
        mine = set(library.exact(library.large, library.questions[2], limit=LARGE))
        for question in library.questions:
            assert {chunk_id for chunk_id, _ in library.search(library.large, question).hits} <= mine

    def it_names_the_table_that_is_missing(self, library):
        lost = EmbeddingSpace(number=7, provider="local", model="m", dimension=256, table="chunk_embeddings_7")
        with pytest.raises(VectorTableMissing, match="chunk_embeddings_7"):
            library.reader.search_in(lost, library.small).nearest(
                library.questions[0], namespaces=[BOOKS], filters=Filters(), limit=5
            )


class DescribePlans:
    """Of the prepared statements that searches really ran with: psycopg prepares what it has sent five times."""

    def it_keeps_to_its_indexes_whoever_asks_and_whatever_the_statistics(self, library):
        large, small, question = library.large, library.small, library.questions[3]
        with library.use.postgres.begin() as connection:
            connection.execute(text("ANALYZE chunk_embeddings"))
        for _ in range(12):  # large and small take turns, so that a plan made for one would serve the other
            library.search(large, question)
            library.search(large, question, filters=Filters(metadata={"rare": True}))
            for tenant_id in (large, small):
                library.search(tenant_id, question, namespaces=[NOTES])
            library.search(small, question, per_namespace=3)
        with library.use.postgres.begin() as connection:
            connection.execute(text("ANALYZE chunk_embeddings"))
        exact, indexed = plans(library.reader.postgres), plans(library.reader.postgres_indexed)
        assert len(exact) == 3
        assert not [plan for plan in exact.values() if not re.search("chunk_embeddings_(by_document|pkey)", plan)]
        of_one = [plan for statement, plan in exact.items() if re.search(r"namespace IN \(\$\d+(::\w+)?\)", statement)]
        assert of_one
        assert all("chunk_embeddings_by_document" in plan for plan in of_one)
        assert not [plan for plan in exact.values() if "_ann_" in plan or "Seq Scan" in plan]
        assert indexed
        for plan in indexed.values():
            assert re.search(r"Limit.*\n.*Index Scan using chunk_embeddings_ann_", plan), plan
            assert re.search("chunk_embeddings_(by_seq|by_document|pkey)", plan), plan
            assert "Seq Scan" not in plan


def plans(engine: Engine) -> dict[str, str]:
    """The plans of the searches that are prepared on the (one) connection of a reader, by statement."""
    with engine.connect() as connection:
        prepared = connection.execute(text(_PREPARED)).all()
        found = {}
        for name, statement, count, custom in prepared:
            assert custom == 0, statement
            execute = f'EXPLAIN EXECUTE "{name}"({", ".join(["NULL"] * count)})'
            found[statement] = "\n".join(connection.exec_driver_sql(execute).scalars())
        return found


_PREPARED = (
    "SELECT name, statement, cardinality(parameter_types), custom_plans FROM pg_prepared_statements"
    " WHERE statement LIKE '%halfvec%' AND generic_plans > 0"
)


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

    def it_builds_a_range_again_when_most_of_its_rows_are_gone(self, library, grown):
        self.add(library, grown, 2 * GROWN, "more")
        keep(library.use, 2)
        old = self.index(library, grown)
        with library.use.postgres.begin() as connection:
            connection.execute(
                text("DELETE FROM chunk_embeddings WHERE tenant_id = :tenant AND namespace = 'more'"), {"tenant": grown}
            )
        resize(library.use, grown, Namespace("more"), 0)
        keep(library.use, 2)
        assert sorted(states(library.use, grown)) == ["ready", "retiring"]
        age(library.use)
        keep(library.use, 1)
        assert self.index(library, grown) != old

    def it_seals_a_range_again_whose_index_was_dropped_by_hand(self, library, grown):
        keep(library.use, 2)
        with library.use.postgres.begin() as connection:
            connection.execute(text(f"DROP INDEX {self.index(library, grown)}"))
        assert library.search(grown, library.questions[0], namespaces=[BOOKS]).hits
        keep(library.use, 3)
        assert indexes(library.use)[self.index(library, grown)] == "valid"

    def it_replaces_the_index_of_a_whole_tenant_that_an_earlier_version_built(self, library, grown):
        with library.use.postgres.begin() as connection:
            connection.execute(text("UPDATE chunk_embeddings SET seq = 0 WHERE tenant_id = :tenant"), {"tenant": grown})
            connection.execute(
                text(
                    "CREATE INDEX chunk_embeddings_ann_0123 ON chunk_embeddings USING hnsw (embedding halfvec_cosine_ops)"
                    f" WHERE tenant_id = '{grown}'"
                )
            )
            connection.execute(
                text(
                    "INSERT INTO vector_indexes (tenant_id, table_name, index_name, state, chunks) VALUES"
                    " (:tenant, 'chunk_embeddings', 'chunk_embeddings_ann_0123', 'ready', :rows)"
                ),
                {"tenant": grown, "rows": GROWN},
            )
        forget_what_is_known(library.reader)
        assert library.search(grown, library.questions[0]).guard.method == "ivfflat"
        keep(library.use, 3)
        assert sorted(states(library.use, grown)) == ["ready", "retiring"]
        age(library.use)
        keep(library.use, 1)
        assert "chunk_embeddings_ann_0123" not in indexes(library.use)
        assert self.finds_everything(library, grown, ["books"])

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

    def it_adopts_what_was_finished_and_not_noted(self, library, grown):
        keep(library.use, 2)
        with library.use.postgres.begin() as connection:
            statement = text(
                "UPDATE vector_indexes SET state = 'building' WHERE state = 'ready' AND tenant_id = :tenant"
            )
            connection.execute(statement, {"tenant": grown})
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
        with library.use.postgres.connect() as connection:
            statement = text("SELECT count(*) FROM vector_indexes WHERE tenant_id = :tenant")
            assert connection.execute(statement, {"tenant": grown}).scalar_one() == 0

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

    def it_measures_recall_with_questions_of_its_own_texts_where_none_is_kept(self, library, grown, monkeypatch):
        keep(library.use, 3)  # the third look sees that no more rows come
        monkeypatch.setattr(
            question_text_store,
            "stored",
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


@pytest.mark.parametrize("library", ["cosine"], indirect=True, scope="module")
class DescribeWhatAProcessKnows:
    def it_goes_on_with_what_it_knew_while_postgresql_is_away(self, library):
        now = [0.0]
        away = [False]

        def engine():
            if away[0]:
                raise StoreUnavailable("away")
            return library.use.postgres

        known = vector_index_store.KnownIndexes(engine, clock=lambda: now[0])
        assert known.of(library.large, "chunk_embeddings") is not None
        away[0], now[0] = True, 100.0
        assert known.of(library.large, "chunk_embeddings") is not None
        assert known.of(TenantId(f"t-{uuid.uuid4().hex[:8]}"), "chunk_embeddings") is None
