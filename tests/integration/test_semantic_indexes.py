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
from sqlalchemy import Engine, event, text
from sqlalchemy.exc import DBAPIError

from benchmarks.clusters import Clusters
from benchmarks.vectors import fill, resize
from pipeline.channels.semantic import SemanticChannel
from pipeline.core.plan import ChannelPlan, Plan, RetrievePlan
from pipeline.core.query import Query
from pipeline.errors import StoreUnavailable, VectorTableMissing
from pipeline.flows import erase
from pipeline.flows.resources import Resources
from pipeline.flows.vector_indexes import keep_indexes
from pipeline.records import ChunkId, EmbeddingSpace, Filters, Namespace, TenantId
from pipeline.stores import space_tables, vector_indexes
from pipeline.stores.migrate import check
from pipeline.stores.nearest import Nearest
from pipeline.stores.vector_indexes import index_builder
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
            metadata=lambda place: {"rare": place % 900 == 0, "half": place % 2},
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
        keep_indexes(use)
        keep_indexes(use)
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


def states(use: Resources, tenant_id: TenantId) -> list[str]:
    with use.postgres.connect() as connection:
        statement = text("SELECT state FROM vector_indexes WHERE tenant_id = :tenant ORDER BY index_name")
        return list(connection.execute(statement, {"tenant": tenant_id}).scalars())


class DescribeTheWayItGoes:
    def it_searches_a_small_tenant_exactly(self, library):
        found = library.search(library.small, library.questions[0])
        assert found.guard.method == "exact"
        assert [chunk_id for chunk_id, _ in found.hits] == library.exact(library.small, library.questions[0])

    def it_searches_a_large_tenant_through_its_graph(self, library):
        guard = library.search(library.large, library.questions[0]).guard
        assert (guard.method, guard.may_be_short) == ("hnsw", False)
        assert guard.rows == LARGE
        assert 50 <= guard.scanned < 200

    @pytest.mark.parametrize(
        ("asked", "method"),
        [
            ({}, "hnsw"),
            ({"namespaces": [BOOKS]}, "hnsw"),
            ({"filters": Filters(metadata={"half": 1})}, "hnsw"),
            ({"namespaces": [NOTES]}, "exact"),
            ({"filters": Filters(metadata={"rare": True})}, "exact"),
            ({"filters": Filters(metadata={"no": "such"})}, "exact"),
            ({"limit": 2000}, "exact"),
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
            {"filters": Filters(metadata={"rare": True})},
        ],
        ids=["all", "namespace", "half", "rare"],
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
        assert found.guard.method == "hnsw+exact_fallback"
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
        assert found.guard["method"] == "hnsw"
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
        exact, graph = plans(library.reader.postgres), plans(library.reader.postgres_graph)
        assert len(exact) == 3
        assert not [plan for plan in exact.values() if not re.search("chunk_embeddings_(by_document|pkey)", plan)]
        of_one = [plan for statement, plan in exact.items() if re.search(r"namespace IN \(\$\d+(::\w+)?\)", statement)]
        assert of_one
        assert all("chunk_embeddings_by_document" in plan for plan in of_one)
        assert not [plan for plan in exact.values() if "_ann_" in plan or "Seq Scan" in plan]
        assert list(graph)
        assert all("_ann_" in plan and "Sort" not in plan for plan in graph.values())


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

    def name(self, tenant_id: TenantId) -> str:
        return index_name("chunk_embeddings", tenant_id, IndexShape(m=16, ef_construction=128))

    def it_waits_until_a_tenant_has_stopped_growing(self, library, grown):
        keep_indexes(library.use)
        assert states(library.use, grown) == ["wanted"]
        resize(library.use, grown, BOOKS, 2 * GROWN)
        keep_indexes(library.use)
        assert states(library.use, grown) == ["wanted"]
        keep_indexes(library.use)
        assert states(library.use, grown) == ["ready"]
        assert indexes(library.use)[self.name(grown)] == "valid"
        check(library.use.mysql, library.use.postgres, library.use.settings)

    def it_never_builds_for_two_at_once(self, library, grown):
        keep_indexes(library.use)
        with index_builder(library.use.postgres, memory_mb=64) as mine:
            assert mine is not None
            assert keep_indexes(library.use) == 0
        threads = [threading.Thread(target=keep_indexes, args=(library.use,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        keep_indexes(library.use)
        assert states(library.use, grown) == ["ready"]

    def it_cleans_up_after_a_builder_that_died(self, library, grown):
        keep_indexes(library.use)
        name = self.name(grown)
        with index_builder(library.use.postgres, memory_mb=64) as builder:
            builder.note(grown, "chunk_embeddings", name, "building", GROWN)
        # A build waits for who writes to the table; one that is given up meanwhile leaves what a killed one does.
        with library.use.postgres.begin() as writing:
            writing.execute(text("LOCK TABLE chunk_embeddings IN ROW EXCLUSIVE MODE"))
            with library.use.postgres.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                connection.execute(text("SET statement_timeout = '500ms'"))
                with pytest.raises(DBAPIError):
                    connection.execute(
                        text(
                            f"CREATE INDEX CONCURRENTLY {name} ON chunk_embeddings USING hnsw"
                            f" (embedding halfvec_l2_ops) WHERE tenant_id = '{grown}'"
                        )
                    )
                connection.execute(text("RESET statement_timeout"))
        assert indexes(library.use)[name] == "invalid"
        for _ in range(4):
            keep_indexes(library.use)
        assert indexes(library.use)[name] == "valid"
        assert states(library.use, grown) == ["ready"]

    def it_adopts_what_was_finished_and_not_noted(self, library, grown):
        keep_indexes(library.use)
        keep_indexes(library.use)
        with index_builder(library.use.postgres, memory_mb=64) as builder:
            builder.note(grown, "chunk_embeddings", self.name(grown), "building", GROWN)
        keep_indexes(library.use)
        assert states(library.use, grown) == ["ready"]

    def it_takes_an_index_from_the_searches_before_it_drops_it(self, library, grown, monkeypatch):
        keep_indexes(library.use)
        keep_indexes(library.use)
        resize(library.use, grown, BOOKS, 700)
        keep_indexes(library.use)
        assert states(library.use, grown) == ["ready"]  # still more than half of what earns one
        resize(library.use, grown, BOOKS, 100)
        keep_indexes(library.use)
        assert states(library.use, grown) == ["retiring"]
        assert self.name(grown) in indexes(library.use)
        forget_what_is_known(library.reader)
        assert library.search(grown, library.questions[0]).guard.method == "exact"
        keep_indexes(library.use)
        assert self.name(grown) in indexes(library.use)
        with library.use.postgres.begin() as connection:
            connection.execute(text("UPDATE vector_indexes SET changed_at = now() - interval '1 minute'"))
        keep_indexes(library.use)
        assert self.name(grown) not in indexes(library.use)
        assert states(library.use, grown) == []

    def it_leaves_nothing_of_a_tenant_that_is_erased(self, library, grown):
        keep_indexes(library.use)
        keep_indexes(library.use)
        assert self.name(grown) in indexes(library.use)
        erased = erase.erase_tenant(grown, library.use)
        assert erased.remaining == {}
        assert self.name(grown) not in indexes(library.use)

    def it_gives_a_new_space_no_copies_of_the_graphs(self, library):
        new = EmbeddingSpace(number=9, provider="local", model="m", dimension=64, table="chunk_embeddings_9")
        space_tables.create(library.use.postgres, new, like=library.use.spaces.base)
        try:
            with library.use.postgres.connect() as connection:
                assert space_tables.shape(connection, new).indexes == ()
        finally:
            space_tables.drop(library.use.postgres, new)

    def it_rebuilds_for_another_shape_without_a_gap(self, library, grown):
        keep_indexes(library.use)
        keep_indexes(library.use)
        changed = Resources(library.use.settings.model_copy(update={"semantic_hnsw_m": 8}))
        for _ in range(2):
            keep_indexes(changed)
            assert "ready" in states(library.use, grown)
        keep_indexes(changed)
        assert sorted(states(library.use, grown)) == ["ready", "retiring"]
        changed.close()


@pytest.mark.parametrize("library", ["cosine"], indirect=True, scope="module")
class DescribeWhatAProcessKnows:
    def it_goes_on_with_what_it_knew_while_postgresql_is_away(self, library):
        now = [0.0]
        away = [False]

        def engine():
            if away[0]:
                raise StoreUnavailable("away")
            return library.use.postgres

        known = vector_indexes.KnownIndexes(engine, clock=lambda: now[0])
        assert known.of(library.large, "chunk_embeddings") is not None
        away[0], now[0] = True, 100.0
        assert known.of(library.large, "chunk_embeddings") is not None
        assert known.of(TenantId(f"t-{uuid.uuid4().hex[:8]}"), "chunk_embeddings") is None
