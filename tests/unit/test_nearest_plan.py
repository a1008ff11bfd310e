"""Graph or every row: decided before, by what a sample says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.core.nearest import LONGEST_SCAN, Sample, plan_search

EXACT = 10_000


def sample(named: int, passing: int) -> Sample:
    return Sample(taken=1000, named=named, passing=passing)


class DescribeThePlan:
    @pytest.mark.parametrize(
        ("chunks", "taken", "limit", "method"),
        [
            (50_000, sample(1000, 1000), 100, "hnsw"),
            (50_000, sample(1000, 100), 100, "hnsw"),
            (50_000, sample(1000, 50), 100, "hnsw"),
            (50_000, sample(1000, 20), 100, "exact"),  # the graph would visit some 9,000 rows: as long as reading all
            (50_000, sample(1000, 1), 100, "exact"),
            (50_000, sample(1000, 0), 100, "exact"),
            (50_000, sample(100, 100), 100, "exact"),  # 5,000 rows in the namespaces
            (50_000, sample(0, 0), 100, "exact"),
            (50_000, sample(1000, 1000), 5000, "exact"),
            (9_000, sample(1000, 1000), 10, "exact"),
            (1_000_000, sample(1000, 60), 100, "hnsw"),
            (1_000_000, sample(1000, 10), 100, "exact"),  # too many to visit to be sure of
        ],
    )
    def it_is(self, chunks, taken, limit, method):
        assert plan_search(chunks=chunks, sample=taken, limit=limit, exact_chunks=EXACT).method == method

    def it_reads_every_row_of_a_tenant_that_has_none(self):
        empty = Sample(taken=0, named=0, passing=0)
        assert plan_search(chunks=50_000, sample=empty, limit=10, exact_chunks=EXACT).method == "exact"

    @given(st.integers(0, 10**8), st.integers(0, 1000), st.integers(0, 1000), st.integers(1, 2000))
    def it_bounds_the_scan_with_room_for_what_is_asked(self, chunks, named, passing, limit):
        taken = sample(named, min(named, passing))
        plan = plan_search(chunks=chunks, sample=taken, limit=limit, exact_chunks=EXACT)
        if plan.method == "exact":
            assert plan.longest_scan == 0
        else:
            assert 2 * limit <= plan.longest_scan <= LONGEST_SCAN
            assert plan.rows > EXACT

    @given(st.integers(1, 999))
    def it_never_leaves_the_graph_for_a_filter_that_lets_more_pass(self, passing):
        fewer, more = (
            plan_search(chunks=200_000, sample=sample(1000, each), limit=100, exact_chunks=EXACT).method
            for each in (passing, passing + 1)
        )
        assert (fewer, more) != ("hnsw", "exact")

    def it_refuses_an_impossible_sample(self):
        with pytest.raises(ValueError, match="larger than the whole"):
            Sample(taken=10, named=5, passing=6)
