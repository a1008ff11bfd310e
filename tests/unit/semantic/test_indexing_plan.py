"""Which ranges of a tenant's vectors get an index, and what is done about those there are."""

from __future__ import annotations

import random

import pytest

from pipeline.records import TenantId
from pipeline.semantic.index_plan import (
    ExistingIndex,
    IndexPolicy,
    IndexRow,
    Tail,
    covering,
    gaps,
    graph_bytes,
    graph_options,
    index_name,
    inherited,
    most_graph_rows,
    plan_range,
    plan_repairs,
    tail_name,
)

TABLE, ANN = "chunk_embeddings", TenantId("ann")
SEAL = 1000
GRAPH, OTHER_GRAPH = graph_options(16, 64), graph_options(24, 128)


def policy(choice="ivfflat", *, most_rows=300 * SEAL):
    return IndexPolicy(choice=choice, graph=GRAPH, least_rows=10 * SEAL, most_rows=most_rows)


def row(state="ready", *, first=0, end=2000, chunks=None, name=None, table=TABLE, idle_s=0.0, **noted):
    rows = end - first if chunks is None else chunks
    return IndexRow(
        tenant_id=ANN,
        table=table,
        name=name or f"{table}_ann_{first}_{end}",
        state=state,
        chunks=rows,
        idle_s=idle_s,
        first=first,
        end=end,
        built_rows=noted.pop("built_rows", rows),
        **noted,
    )


def waiting(chunks):
    return row("wanted", chunks=chunks, name=tail_name(TABLE, ANN))


def index(of, *, valid=True):
    return ExistingIndex(table=of.table, name=of.name, valid=valid)


def repairs(chunks, noted=(), found=(), tables=(TABLE,)):
    steps = plan_repairs(
        sizes={ANN: chunks}, tables=tables, recorded=noted, existing=found, exact_chunks=SEAL, grace_s=15.0
    )
    return [step.action for step in steps]


def step(rows, tail, chosen=None):
    return plan_range(rows, tail, tenant_id=ANN, table=TABLE, exact_chunks=SEAL, policy=chosen or policy())


def built(rows, tail, chosen=None):
    """First number, end and rows of what is built; None if nothing is."""
    done = step(rows, tail, chosen)
    return None if done.action == "note" else (done.first, done.end, done.chunks)


class DescribeRepairs:
    @pytest.mark.parametrize(
        ("chunks", "noted", "found", "done"),
        [
            (1000, [], [], []),
            (900, [waiting(900)], [], []),
            (500, [waiting(500)], [], ["forget"]),
            (2000, [row("building")], [], ["forget"]),
            (2000, [row("building")], [index(row(), valid=False)], ["drop", "forget"]),
            (2000, [row("building")], [index(row())], ["adopt"]),
            (2000, [row()], [index(row())], []),
            (501, [row()], [index(row())], []),
            (500, [row()], [index(row())], ["retire"]),
            (500, [row("retiring", idle_s=14.0)], [index(row())], []),
            (500, [row("retiring", idle_s=15.0)], [index(row())], ["drop"]),
            (2000, [row()], [], ["forget"]),  # dropped by hand
            (0, [], [index(row())], ["drop"]),  # an erased tenant's: nothing is noted of it any more
        ],
    )
    def it_does(self, chunks, noted, found, done):
        assert repairs(chunks, noted, found) == done

    def it_takes_what_a_larger_range_replaces_from_the_searches_once_that_is_ready(self):
        old, new = [row(end=1000), row(first=1000, end=2000)], row(end=2000)
        found = [index(each) for each in (*old, new)]
        assert repairs(2000, [*old, row("building", end=2000)], found) == ["adopt"]
        assert repairs(2000, [*old, new], found) == ["retire", "retire"]
        assert repairs(2000, [*old, new], [index(each) for each in old]) == ["forget"]  # lost: the old ones serve on

    def it_takes_indexes_from_tables_that_are_not_searched(self):
        other = row(table="chunk_embeddings_2")
        assert repairs(2000, [other], [index(other)], tables=()) == ["retire"]


class DescribeRanges:
    @pytest.mark.parametrize(
        ("rows", "tail", "made"),
        [
            ([], Tail(rows=1500, first=0, end=1600), None),  # the first look
            ([waiting(1000)], Tail(rows=1101, first=0, end=1101), None),  # still being filled
            ([waiting(1000)], Tail(rows=1100, first=0, end=1200), (0, 1200, 1100)),
            ([waiting(1000)], Tail(rows=4001, first=0, end=4001), (0, 4001, 4001)),
            ([waiting(999)], Tail(rows=999, first=0, end=999), None),
            ([row(end=4000), waiting(1000)], Tail(rows=1000, first=4000, end=5000), (0, 5000, 5000)),
            ([row(end=4001), waiting(1000)], Tail(rows=1000, first=4001, end=5001), (4001, 5001, 1000)),
            # while rows keep coming, older ones are left alone until they are few in comparison
            ([row(end=4100), waiting(3000)], Tail(rows=4100, first=4100, end=8200), (4100, 8200, 4100)),
            ([row(end=1300), waiting(3000)], Tail(rows=4100, first=1300, end=5400), (0, 5400, 5400)),
            ([row(end=1300), row(first=1300, end=2600)], Tail(rows=9, first=2600, end=2609), None),
            # a hole where an index was dropped by hand takes the newer ones along
            ([row(first=9000, end=9500), waiting(1200)], Tail(rows=1200, first=0, end=9900), (0, 9900, 1700)),
            # deletions have made neighbours alike, or worn a range down
            (
                [row(end=9000, chunks=300), row(first=9000, end=9200), waiting(0)],
                Tail(rows=0, first=9200, end=9200),
                (0, 9200, 500),
            ),
            ([row(chunks=999)], Tail(rows=0, first=2000, end=2000), None),
            ([row(chunks=1000, built_rows=2000)], Tail(rows=0, first=2000, end=2000), (0, 2000, 1000)),
        ],
    )
    def it_builds(self, rows, tail, made):
        assert built(rows, tail) == made

    def it_notes_the_tail_when_there_is_nothing_to_build(self):
        done = step([row()], Tail(rows=7, first=2000, end=2007))
        assert (done.action, done.name, done.chunks) == ("note", tail_name(TABLE, ANN), 7)

    @pytest.mark.parametrize("seed", range(3))
    def it_never_has_more_than_four_ranges_below_three_million_rows(self, seed):
        rng, end, ranges, built_rows, most = random.Random(seed), 0, [], 0, 0
        while end < 620 * SEAL:  # three million rows where the smallest range has 5,000
            tail = Tail(rows=rng.randint(SEAL, 4 * SEAL), first=end, end=0)
            tail = Tail(rows=tail.rows, first=end, end=end + tail.rows)
            first, end, rows = built([*ranges, waiting(tail.rows)], tail)
            ranges = [each for each in ranges if each.first < first] + [row(first=first, end=end, chunks=rows)]
            most, built_rows = max(most, len(ranges)), built_rows + rows
            assert sum(each.chunks for each in ranges) == end
        assert most <= 4
        assert built_rows <= 20 * end

    def it_builds_less_while_a_tenant_is_filled_and_merges_afterwards(self):
        end, ranges, built_rows, most = 0, [], 0, 0
        while end < 200 * SEAL:
            tail = Tail(rows=4 * SEAL + 1, first=end, end=end + 4 * SEAL + 1)
            first, end, rows = built([*ranges, waiting(SEAL)], tail)
            ranges = [each for each in ranges if each.first < first] + [row(first=first, end=end, chunks=rows)]
            most, built_rows = max(most, len(ranges)), built_rows + rows
        assert most <= 9
        assert built_rows <= 3 * end
        while done := built([*ranges, waiting(0)], Tail(rows=0, first=end, end=end)):
            ranges = [each for each in ranges if each.first < done[0]] + [row(first=done[0], end=end, chunks=done[2])]
        assert len(ranges) <= 2

    def it_reads_as_many_lists_as_other_indexes_of_the_tenant_needed_until_one_is_measured(self):
        small = row(chunks=2000, lists=20, probes=10, deep_probes=12, recall=0.98)
        assert inherited([small], 4000, lists=40, kind="ivfflat") == (25, 30)
        unmeasured = row(lists=20, probes=13, deep_probes=15)  # inherited itself
        assert inherited([small, unmeasured], 4000, lists=40, kind="ivfflat") == (25, 30)
        assert inherited([small], 1300, lists=13, kind="ivfflat") is None
        assert inherited([row(lists=20)], 4000, lists=40, kind="ivfflat") is None
        assert inherited([small], 4000, lists=1000, kind="hnsw") is None

    def it_walks_a_new_graph_a_little_farther_than_those_that_are_measured(self):
        graph = row(chunks=20_000, graph=GRAPH, lists=1000, probes=120, deep_probes=200, recall=0.98)
        assert inherited([graph], 40_000, lists=1000, kind="hnsw") == (150, 250)

    def it_uses_the_newer_of_two_of_one_range_and_none_within_another(self):
        old, new = row(idle_s=9.0), row(idle_s=1.0, name="newer")
        assert covering([row(end=1000), old, new, row(first=2000, end=2500)]) == [new, row(first=2000, end=2500)]

    def it_knows_what_lies_between(self):
        assert gaps([]) == [(0, None)]
        assert gaps([(0, 10), (20, 30)]) == [(10, 20), (30, None)]
        assert gaps([(0, None)]) == []


LISTS = {"lists": 200, "probes": 20, "deep_probes": 30, "recall": 0.98, "search_ms": 5.0}
STILL = waiting(7)


def changed(*rows, choice="auto", tail=7, most_rows=300 * SEAL):
    """The action on the kind of an index, and the kind; None if there is none."""
    end = max(each.end for each in rows)
    done = step([*rows, STILL], Tail(rows=tail, first=end, end=end + tail), policy(choice, most_rows=most_rows))
    return None if done.action == "note" else (done.action, done.graph)


class DescribeKinds:
    @pytest.mark.parametrize(("choice", "graph"), [("auto", None), ("ivfflat", None), ("hnsw", GRAPH)])
    def it_closes_a_range_with_the_kind_that_is_chosen(self, choice, graph):
        done = step([waiting(1000)], Tail(rows=1000, first=0, end=1000), policy(choice))
        assert (done.action, done.graph) == ("build", graph)

    @pytest.mark.parametrize(
        ("index", "done"),
        [
            (row(end=10_000, **LISTS), ("compare", GRAPH)),
            (row(end=9_999, **LISTS), None),  # lists of a small range cost little
            (row(end=10_000, lists=200), None),  # not measured yet
            (row(end=10_000, **LISTS, graph_ms=7.0), None),  # a graph was dearer
            (row(end=10_000, **LISTS, graph_ms=float("inf")), None),  # a graph did not find enough
            (row(end=300_001, **LISTS), None),  # its graph does not fit into memory
            (row(end=10_000, graph=GRAPH, **LISTS), None),
            (row(end=10_000, graph=OTHER_GRAPH, **LISTS), ("build", GRAPH)),
            (row(end=10_000, graph=GRAPH, lists=1000, probes=1000, recall=0.96), ("build", None)),
        ],
    )
    def it_compares_a_graph_with_the_measured_lists_of_a_large_range(self, index, done):
        assert changed(index) == done

    def it_compares_nothing_while_a_tenant_is_filled(self):
        assert changed(row(end=10_000, **LISTS), tail=9) is None

    def it_does_not_compare_again_after_a_graph_stopped_finding_enough(self):
        weak = row(end=10_000, graph=GRAPH, lists=1000, probes=1000, recall=0.96)
        done = step([weak, STILL], Tail(rows=7, first=10_000, end=10_007), policy("auto"))
        assert (done.graph, done.graph_ms) == (None, float("inf"))

    @pytest.mark.parametrize(
        ("choice", "indexes", "done"),
        [
            ("hnsw", [row(end=2000, **LISTS)], ("build", GRAPH)),
            ("hnsw", [row(end=2000, graph=OTHER_GRAPH, **LISTS)], ("build", GRAPH)),
            ("hnsw", [row(end=2000, graph=GRAPH, **LISTS)], None),
            ("hnsw", [row(end=2000, graph=GRAPH, lists=1000, recall=0.5)], None),  # the operator wants graphs
            ("hnsw", [row(end=300_001, **LISTS)], None),
            ("ivfflat", [row(end=2000, graph=GRAPH, **LISTS)], ("build", None)),
            ("ivfflat", [row(end=2000, **LISTS)], None),
        ],
    )
    def it_follows_the_setting_one_range_at_a_time(self, choice, indexes, done):
        assert changed(*indexes, choice=choice) == done

    def it_uses_an_index_again_that_was_replaced_a_moment_ago(self):
        lists = row(end=2000, name="lists", **LISTS)
        again = step([lists, STILL], Tail(rows=7, first=2000, end=2007), policy("hnsw"))
        graph = row("retiring", end=2000, name=again.name, graph=GRAPH)
        done = step([lists, graph, STILL], Tail(rows=7, first=2000, end=2007), policy("hnsw"))
        assert (again.action, done.action, done.name) == ("build", "adopt", graph.name)

    def it_builds_a_large_graph_again_only_for_as_many_new_rows(self):
        old, tail = row(end=40_000, graph=GRAPH, **LISTS), Tail(rows=39_999, first=40_000, end=79_999)
        assert built([old, waiting(39_999)], tail, policy("hnsw")) == (40_000, 79_999, 39_999)
        one_more = Tail(rows=40_000, first=40_000, end=80_000)
        assert built([old, waiting(40_000)], one_more, policy("hnsw")) == (0, 80_000, 80_000)

    def it_joins_no_more_rows_than_a_graph_has_room_for(self):
        old, tail = row(end=250_000, **LISTS), Tail(rows=70_000, first=250_000, end=320_000)
        assert built([old, waiting(70_000)], tail, policy("auto")) == (250_000, 320_000, 70_000)
        assert built([old, waiting(70_000)], tail, policy("ivfflat")) == (0, 320_000, 320_000)
        assert built([old, waiting(70_000)], tail, policy("auto", most_rows=9_000)) == (0, 320_000, 320_000)

    @pytest.mark.parametrize(("dimension", "m"), [(256, 16), (1024, 16), (1536, 48)])
    def it_knows_the_largest_graph_that_fits(self, dimension, m):
        rows = most_graph_rows(dimension, m=m, memory_mb=2048)
        assert graph_bytes(rows, dimension=dimension, m=m) <= 2048 << 20
        assert graph_bytes(rows + 1000, dimension=dimension, m=m) > 2048 << 20


class DescribeNames:
    def it_tells_tenants_tables_and_ranges_apart_and_fits_postgresql(self):
        names = {
            index_name(table, tenant, first=0, end=end, rows=rows, graph=graph)
            for table in (TABLE, "chunk_embeddings_999999999")
            for tenant in (ANN, TenantId("bob"))
            for end in (10**15, 10**16)
            for rows in (5, 6)
            for graph in (None, GRAPH)
        }
        assert len(names) == 32
        assert max(map(len, names)) <= 63
        assert not [name for name in names if "ann-" in name or "bob" in name]
