"""Graphs over closed ranges: their recall, the way back to lists, builds that are killed, and the comparison by questions."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
from sqlalchemy import text

from benchmarks.vectors import fill
from pipeline.errors import Unavailable
from pipeline.maintenance import examine_stores
from pipeline.maintenance.build_indexes import keep_indexes
from pipeline.records import Filters
from pipeline.resources import Resources
from tests.conftest import make_tables, scratch_databases
from tests.support.stacks.connections import in_postgres
from tests.support.stacks.vector_library import BOOKS, NOTES, THRESHOLD, Library, noted

_ROWS = 12_000  # every row of fewer is compared in less time than a walk takes


@contextmanager
def graph_library(settings, *, rows=_ROWS, exact_chunks=THRESHOLD, **changes) -> Iterator[Library]:
    with scratch_databases(settings) as moved:
        use = Resources(moved.model_copy(update=changes), exact_chunks=exact_chunks)
        make_tables(use)
        made = Library(use, large=rows)
        made.questions = made.clusters.questions(100)  # a graph leads single questions astray
        with closing(use), closing(made.reader):
            yield made


def keep(library: Library, times: int, **changes) -> None:
    """Run upkeep with these settings, and questions like those of the test; searches see its changes at once."""
    use = Resources(library.use.settings.model_copy(update=changes), exact_chunks=library.use.exact_chunks)
    questions = library.clusters.questions(64)
    with closing(use):
        for _ in range(times):
            keep_indexes(use, questions=lambda *_, **__: questions)
    library.reader.__dict__.pop("search_tools", None)


def kinds(library: Library) -> list[tuple[str, str]]:
    """The kind and the state of each index of the large tenant that PostgreSQL has."""
    statement = text(
        "SELECT m.amname, v.state FROM vector_indexes v JOIN pg_class c ON c.relname = v.index_name"
        " JOIN pg_index i ON i.indexrelid = c.oid AND i.indisvalid JOIN pg_am m ON m.oid = c.relam"
        " WHERE v.tenant_id = :tenant ORDER BY v.state, m.amname"
    )
    with library.use.postgres.connect() as connection:
        return [(kind, state) for kind, state in connection.execute(statement, {"tenant": library.large})]


def method(library: Library, **asked: object) -> str:
    return library.search(library.large, library.questions[0], **asked).guard.method


def age(library: Library) -> None:
    in_postgres(library.use, "UPDATE vector_indexes SET changed_at = now() - interval '1 minute'")


@pytest.fixture(scope="module")
def library(settings) -> Iterator[Library]:
    with graph_library(settings, rows=24_000, vector_index="hnsw") as made:
        keep(made, 2)
        yield made


class DescribeGraphs:
    def it_builds_a_graph_over_a_closed_range_and_measures_it(self, library):
        (row,) = noted(library.use, library.large)
        assert kinds(library) == [("hnsw", "ready")]
        assert (row.graph, row.lists) == ("m = 16, ef_construction = 64", 1000)
        assert row.recall >= 0.97
        assert row.search_ms > 0
        assert 100 <= row.probes <= row.deep_probes <= 1000

    @pytest.mark.parametrize(
        "asked",
        [
            {},
            {"namespaces": [BOOKS]},
            {"filters": Filters(metadata={"half": 1})},
            {"filters": Filters(metadata={"tenth": True}), "limit": 10},
        ],
        ids=["all", "namespace", "half", "tenth"],
    )
    def it_finds_what_exact_search_finds(self, library, asked):
        assert method(library, **asked) == "hnsw"
        assert library.recall_at_10(library.large, **asked) >= 0.97

    def it_compares_every_row_where_few_pass(self, library):
        assert method(library, namespaces=[NOTES]) == "exact"
        assert method(library, filters=Filters(metadata={"rare": True})) == "exact"

    def it_reads_every_row_when_the_graph_gave_too_few(self, library):
        question, operator = library.questions[0], "<=>"
        with library.use.postgres.begin() as connection:
            connection.execute(
                text(
                    "UPDATE chunk_embeddings SET type = 'far' WHERE tenant_id = :tenant AND chunk_id IN"
                    " (SELECT chunk_id FROM chunk_embeddings WHERE tenant_id = :tenant"
                    f" ORDER BY embedding {operator} CAST(:query AS halfvec) DESC LIMIT 6000)"
                ),
                {"tenant": library.large, "query": str(question.tolist())},
            )
        asked = {"filters": Filters(type="far"), "limit": 10}
        found = library.search(library.large, question, **asked)
        assert found.guard.method == "hnsw+exact_fallback"
        exact = library.exact(library.large, question, **asked)
        assert [chunk_id for chunk_id, _ in found.hits] == exact

    def it_finds_rows_that_came_after_the_graph(self, library):
        late = library.clusters.questions(3)
        fill(library.use, library.large, late, namespace=BOOKS)  # the first three chunks again, with other vectors
        for vector in late:
            hits = library.search(library.large, vector, limit=50).hits
            assert hits[0][0] == library.exact(library.large, vector)[0]
            assert hits[0][1] == pytest.approx(1.0, abs=0.001)

    def it_tells_the_doctor_kind_recall_cost_and_size(self, library):
        [finding] = examine_stores.vectors(library.use)
        assert "1 hnsw index of 24,000 vectors, recall " in finding.detail
        assert finding.detail.endswith(" MB")


@pytest.mark.thorough
class DescribeChanges:
    @pytest.fixture
    def library(self, settings) -> Iterator[Library]:
        with graph_library(settings, vector_index="hnsw") as made:
            keep(made, 2)
            yield made

    def it_goes_back_to_lists_behind_the_searches_and_to_graphs_again(self, library):
        keep(library, 2, vector_index="ivfflat")
        assert kinds(library) == [("hnsw", "ready"), ("ivfflat", "ready")]
        assert method(library) == "ivfflat"
        assert library.recall_at_10(library.large) >= 0.97
        keep(library, 1, vector_index="ivfflat")
        assert kinds(library) == [("ivfflat", "ready"), ("hnsw", "retiring")]
        keep(library, 2)  # the graph is still there and is used again
        assert method(library) == "hnsw"
        assert ("hnsw", "ready") in kinds(library)
        keep(library, 2, vector_index="ivfflat")
        for _ in range(2):
            keep(library, 1, vector_index="ivfflat")
            age(library)
        keep(library, 1, vector_index="ivfflat")
        assert kinds(library) == [("ivfflat", "ready")]

    def it_builds_graphs_with_other_options_while_the_old_ones_serve(self, library):
        keep(library, 2, vector_index="hnsw (m = 20, ef_construction = 100)")
        rows = noted(library.use, library.large)
        assert {row.graph for row in rows} == {"m = 16, ef_construction = 64", "m = 20, ef_construction = 100"}
        assert library.recall_at_10(library.large) >= 0.97

    def it_repairs_a_build_that_was_killed(self, library):
        """A build waits for whoever writes to the table; its server process is ended meanwhile."""
        failed: list[BaseException] = []

        def build() -> None:
            try:
                keep(library, 2, vector_index="hnsw (m = 8, ef_construction = 64)")
            except Unavailable as error:
                failed.append(error)

        with library.use.postgres.begin() as writing:
            writing.execute(text("LOCK TABLE chunk_embeddings IN ROW EXCLUSIVE MODE"))
            thread = threading.Thread(target=build)
            thread.start()
            ended = False
            while thread.is_alive() and not ended:
                ended = bool(
                    in_postgres(
                        library.use,
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
                        " AND datname = current_database() AND query LIKE 'CREATE INDEX CONCURRENTLY%'",
                    )
                )
            thread.join()
        assert (ended, len(failed)) == (True, 1)
        assert method(library) == "hnsw"  # the old graph serves
        keep(library, 3, vector_index="hnsw (m = 8, ef_construction = 64)")
        states = {(row.graph, row.state) for row in noted(library.use, library.large)}
        assert ("m = 8, ef_construction = 64", "ready") in states
        assert library.recall_at_10(library.large) >= 0.97


class DescribeTheComparison:
    def it_keeps_the_cheaper_of_lists_and_graph_for_a_large_range(self, settings):
        with graph_library(settings, vector_index="auto", exact_chunks=500) as library:
            keep(library, 2)
            assert kinds(library) == [("ivfflat", "ready")]
            keep(library, 2)
            (lists,) = [row for row in noted(library.use, library.large) if row.graph is None]
            graphs = [row for row in noted(library.use, library.large) if row.graph]
            if graphs:
                assert graphs[0].state == "ready"
                assert graphs[0].recall >= 0.97
                assert method(library) == "hnsw"
            else:
                assert lists.graph_ms > 0  # it was dearer, or did not find enough
                assert kinds(library) == [("ivfflat", "ready")]
            assert library.recall_at_10(library.large) >= 0.97
            before = len(noted(library.use, library.large))
            keep(library, 2)
            assert len(noted(library.use, library.large)) == before  # it is not compared again

    @pytest.mark.thorough
    def it_gives_a_small_range_lists(self, settings):
        with graph_library(settings, vector_index="auto", exact_chunks=2 * THRESHOLD) as library:
            keep(library, 4)
            assert kinds(library) == [("ivfflat", "ready")]
