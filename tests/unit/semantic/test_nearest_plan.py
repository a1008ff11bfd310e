"""Lists or every row: decided before, by what a sample says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.semantic.index_plan import list_count
from pipeline.semantic.search_plan import IndexedRange, Sample, VisitedRows, plan_search, replan

EXACT = 10_000


def sample(named: int, passing: int) -> Sample:
    return Sample(taken=1000, named=named, passing=passing)


def indexed(rows: int, *, first: int = 0) -> IndexedRange:
    lists = list_count(min(rows, 100_000), dimension=256, memory_mb=512)
    few, deep = 3 * lists // 10, 4 * lists // 10
    return IndexedRange(first=first, end=first + rows, rows=rows, lists=lists, probes=few, deep_probes=deep)


def plan(chunks: int, taken: Sample, limit: int):
    return plan_search(ranges=[indexed(chunks)], tail=0, sample=taken, limit=limit, exact_chunks=EXACT)


class DescribeListCount:
    @pytest.mark.parametrize(
        ("rows", "dimension", "memory_mb", "lists"),
        [
            (500, 256, 256, 10),
            (25_000, 256, 256, 250),
            (400_000, 256, 1024, 1000),
            (1_000_000, 256, 2048, 2000),
            (1_000_000, 256, 1024, 1910),
            (5_000_000, 256, 8192, 4000),
            (2_000_000, 256, 256, 920),
            (2_000_000, 1536, 256, 660),
            (2_000_000, 1536, 16, 10),  # even that takes more than 16 MB
        ],
    )
    def it_is_as_fine_as_the_memory_allows(self, rows, dimension, memory_mb, lists):
        assert list_count(rows, dimension=dimension, memory_mb=memory_mb) == lists


class DescribeThePlan:
    @pytest.mark.parametrize(
        ("chunks", "taken", "limit", "method"),
        [
            (50_000, sample(1000, 1000), 100, "ivfflat"),
            (50_000, sample(1000, 100), 100, "ivfflat"),
            (50_000, sample(1000, 50), 100, "ivfflat"),
            (50_000, sample(1000, 20), 100, "exact"),  # the graph would visit some 9,000 rows: as long as reading all
            (50_000, sample(1000, 1), 100, "exact"),
            (50_000, sample(1000, 0), 100, "exact"),
            (50_000, sample(100, 100), 100, "exact"),  # 5,000 rows in the namespaces
            (50_000, sample(0, 0), 100, "exact"),
            (50_000, sample(1000, 1000), 5000, "exact"),
            (9_000, sample(1000, 1000), 10, "exact"),
            (1_000_000, sample(1000, 60), 100, "ivfflat"),
            (1_000_000, sample(1000, 10), 100, "exact"),  # too many to visit to be sure of
        ],
    )
    def it_is(self, chunks, taken, limit, method):
        assert ("ivfflat" if plan(chunks, taken, limit).indexed else "exact") == method

    @pytest.mark.parametrize(
        ("chunks", "taken", "by_id"),
        [
            (1_000_000, sample(1000, 0), True),
            (1_000_000, sample(1000, 5), True),
            (1_000_000, sample(1000, 60), False),  # 60,000 rows: reading lists is cheaper, and so many are not listed
            (1_000_000, sample(1000, 1000), False),  # no filter
            (1_000_000, sample(10, 10), False),  # a small namespace without a filter
            (1_000_000, sample(300, 3), True),
            (1_000_000, sample(100, 10), False),  # the namespace has 100,000 rows, which may take less time
            (20_000, sample(1000, 1), True),
            (20_000, sample(1000, 100), False),  # reading all 20,000 rows in their order takes less time
            (9_000, sample(1000, 1), False),
        ],
    )
    def it_reads_by_id_where_few_rows_of_many_pass(self, chunks, taken, by_id):
        assert plan(chunks, taken, 100).by_id == by_id

    def it_reads_every_row_of_a_tenant_that_has_none(self):
        empty = Sample(taken=0, named=0, passing=0)
        assert plan(50_000, empty, 10).indexed == ()

    def it_reads_what_no_graph_covers_and_ranges_that_are_cheaper_to_read(self):
        old, new = indexed(200_000), indexed(800, first=200_000)
        found = plan_search(ranges=[old, new], tail=2_000, sample=sample(1000, 1000), limit=100, exact_chunks=EXACT)
        assert (found.indexed, found.rows, found.probes) == ((old,), 202_800, 300)

    def it_reads_every_row_when_that_is_cheaper_than_the_graphs_with_the_rest(self):
        named = sample(200, 200)  # 20,000 rows in the namespaces, beside a tail of 30,000
        found = plan_search(ranges=[indexed(70_000)], tail=30_000, sample=named, limit=100, exact_chunks=EXACT)
        assert found.indexed == ()

    def it_reads_more_lists_the_fewer_rows_pass(self):
        probes = [plan(200_000, sample(1000, passing), 10).probes for passing in (1000, 500, 100, 50)]
        assert probes == sorted(set(probes))
        assert (probes[0], probes[2]) == (300, 400)  # for the nearest ten, and for the nearest hundred

    @given(st.integers(0, 10**8), st.integers(0, 1000), st.integers(0, 1000), st.integers(1, 2000))
    def it_bounds_the_scan_with_room_for_what_is_asked(self, chunks, named, passing, limit):
        taken = sample(named, min(named, passing))
        found = plan(chunks, taken, limit)
        if not found.indexed:
            assert found.longest_scan == 0
        else:
            assert 2 * limit <= found.longest_scan <= 20_000
            assert found.rows > EXACT

    @given(st.integers(1, 999))
    def it_never_leaves_the_graph_for_a_filter_that_lets_more_pass(self, passing):
        fewer, more = (len(plan(200_000, sample(1000, each), 100).indexed) for each in (passing, passing + 1))
        assert (fewer, more) != (1, 0)

    def it_refuses_an_impossible_sample(self):
        with pytest.raises(ValueError, match="larger than the whole"):
            Sample(taken=10, named=5, passing=6)


def graph(rows: int, *, first: int = 0, few: int = 120, deep: int = 180) -> IndexedRange:
    return IndexedRange(
        first=first, end=first + rows, rows=rows, lists=1000, probes=few, deep_probes=deep, is_graph=True
    )


def walk(ranges, taken: Sample, limit: int = 100, tail: int = 0):
    return plan_search(ranges=ranges, tail=tail, sample=taken, limit=limit, exact_chunks=EXACT)


class DescribeGraphs:
    def it_walks_as_far_as_was_measured_and_as_rows_are_needed(self):
        big = graph(1_000_000)
        assert walk([big], sample(1000, 1000), 10).ef_search == 120
        assert walk([big], sample(1000, 1000), 200).ef_search == 214
        by_share = [walk([big], sample(1000, passing), 10).ef_search for passing in (1000, 500, 100)]
        assert by_share == sorted(set(by_share))
        assert by_share[2] == 180  # the nearest ten of a tenth are about the nearest hundred of all
        assert walk([big], sample(1000, 50)).ef_search == 1000  # more than pgvector takes, so the walk goes on

    def it_reads_lists_and_walks_graphs_in_one_search(self):
        big, small = graph(900_000), indexed(100_000, first=900_000)
        found = walk([big, small], sample(1000, 1000))
        assert (found.indexed, found.ef_search, found.probes) == ((big, small), 120, 300)

    def it_reads_a_small_range_instead_of_walking_its_graph(self):
        big, small = graph(900_000), graph(5_000, first=900_000)
        assert walk([big, small], sample(1000, 1000)).indexed == (big,)

    def it_reads_every_row_until_the_only_graph_of_a_middling_tenant_is_measured(self):
        assert walk([graph(40_000, few=1000, deep=1000)], sample(1000, 1000)).indexed == ()
        assert walk([graph(40_000)], sample(1000, 1000)).indexed

    def it_walks_farther_where_fewer_rows_pass_than_elsewhere(self):
        first = walk([graph(1_000_000)], sample(1000, 500), 20)
        found = replan(first, VisitedRows(hits=20, rows=200, passing=20), limit=20)
        assert found.ef_search > first.ef_search
        assert replan(first, VisitedRows(hits=19, rows=200, passing=19), limit=20) is None


class DescribeAnotherPlan:
    @pytest.mark.parametrize(
        ("visited", "probes"),
        [
            (VisitedRows(hits=100, rows=1000, passing=100), 400),  # a tenth, as the sample said
            (VisitedRows(hits=100, rows=0, passing=0), 400),  # all of them outside the indexes
            (VisitedRows(hits=100, rows=2500, passing=100), 450),  # fewer pass where the question is
            (VisitedRows(hits=60, rows=4700, passing=60), None),  # the scan ended before there were enough
            (VisitedRows(hits=0, rows=0, passing=0), None),
        ],
    )
    def it_reads_more_lists_where_fewer_rows_pass_than_elsewhere(self, visited, probes):
        first = plan(1_000_000, sample(1000, 100), 100)
        found = replan(first, visited, limit=100)
        assert (found.probes if found else None) == (pytest.approx(probes, rel=0.02) if probes else None)
