"""Recall by meaning for small and large tenants: exact or through an index, and the same hits either way."""

from __future__ import annotations

import re
import threading
import uuid
from dataclasses import replace

import numpy as np
import pytest
from sqlalchemy import Engine, event, text

from pipeline.channels.semantic_channel import SemanticChannel
from pipeline.errors import StoreUnavailable, VectorTableMissing
from pipeline.query.plan import ChannelPlan, Plan, RetrievePlan
from pipeline.records import Caps, EmbeddingSpace, Filters, TenantId
from pipeline.semantic import vector_index_store
from tests.support.corpora.queries import query_of
from tests.support.stacks.connections import in_postgres
from tests.support.stacks.vector_library import BOOKS, LARGE, NOTES, noted


def near(least: float) -> Plan:
    """Recall by meaning alone, of what is at least so similar."""
    return Plan(retrieve=RetrievePlan(channels={"semantic": ChannelPlan(min_score=least)}))


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
        "asked",
        [
            {},
            {"filters": Filters(metadata={"tenth": True})},
            {"namespaces": [NOTES]},
        ],
    )
    @pytest.mark.parametrize("size", ["small", "large"])
    def it_finds_the_same_for_many_questions_at_once(self, library, size, asked):
        tenant_id = getattr(library, size)
        values = {"namespaces": [BOOKS, NOTES], "filters": Filters(), "limit": 50, **asked}
        search = library.reader.search_in(library.use.spaces.base, tenant_id)
        together = search.nearest_to_each(list(library.questions), **values)
        assert any(found is not None for found in together)
        for question, found in zip(library.questions, together, strict=True):
            assert found in (None, library.search(tenant_id, question, **asked))

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

    @pytest.mark.parametrize("namespace", [NOTES, BOOKS], ids=["exact", "ivfflat"])
    def it_goes_on_behind_equal_texts_until_nothing_else_is_left(self, library, namespace):
        # Every passage of the library has the same text.
        found = library.search(library.large, library.questions[0], namespaces=[namespace], caps=Caps(contents=True))
        assert (len(found.hits), found.guard.may_be_short) == (1, False)

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
        query = query_of(
            tenant_id=library.large, namespaces=(BOOKS, NOTES), plan=near(0.0), created_at=0.0, deadline_s=0
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
        large, small, question, space = library.large, library.small, library.questions[3], library.use.spaces.base
        found = {tenant_id: library.exact(tenant_id, question) for tenant_id in (large, small)}
        in_postgres(library.use, "ANALYZE chunk_embeddings")
        for _ in range(12):  # large and small take turns, so that a plan made for one would serve the other
            library.search(large, question)
            library.search(large, question, filters=Filters(metadata={"rare": True}))
            for tenant_id in (large, small):
                library.search(tenant_id, question, namespaces=[NOTES])
            library.search(small, question, per_namespace=3)
            for tenant_id in (large, small):
                library.reader.search_in(space, tenant_id).nearest_to_each(
                    library.questions[:4], namespaces=[BOOKS], filters=Filters(), limit=50
                )
                vectors = library.reader.vectors_in(space, tenant_id)
                vectors.scores(question, found[tenant_id])
                vectors.scores_of_each([(question, found[tenant_id][:20]), (library.questions[4], found[tenant_id])])
        in_postgres(library.use, "ANALYZE chunk_embeddings")
        exact, indexed = plans(library.reader.postgres), plans(library.reader.postgres_indexed)
        assert len(exact) >= 6
        by_id = [plan for statement, plan in exact.items() if "uuid[]" in statement]
        assert len(by_id) >= 2
        assert all("Index Scan using chunk_embeddings_pkey" in plan for plan in by_id)
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
