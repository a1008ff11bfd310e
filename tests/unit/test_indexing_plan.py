"""What is to be done about the approximate indexes there are, and those there should be."""

from __future__ import annotations

import pytest

from pipeline.core.indexing import Found, IndexRow, IndexShape, index_name, plan_indexes
from pipeline.records import TenantId

SHAPE, OTHER = IndexShape(m=16, ef_construction=128), IndexShape(m=8, ef_construction=64)
TABLE, ANN = "chunk_embeddings", TenantId("ann")
NAME = index_name(TABLE, ANN, SHAPE)


def row(state, *, chunks=2000, idle_s=0.0, name=NAME, table=TABLE):
    return IndexRow(tenant_id=ANN, table=table, name=name, state=state, chunks=chunks, idle_s=idle_s)


def index(*, valid=True, name=NAME, table=TABLE):
    return Found(table=table, name=name, valid=valid)


def actions(chunks, noted=(), found=(), tables=(TABLE,)):
    steps = plan_indexes(
        sizes={ANN: chunks}, tables=tables, noted=noted, found=found, shape=SHAPE, exact_chunks=1000, grace_s=15.0
    )
    return [step.action for step in steps]


class DescribeWhatIsDone:
    @pytest.mark.parametrize(
        ("chunks", "noted", "found", "done"),
        [
            (1000, [], [], []),
            (1001, [], [], ["note"]),
            (2000, [row("wanted")], [], ["build"]),
            (2201, [row("wanted")], [], ["await"]),
            (900, [row("wanted")], [], ["forget"]),
            (2000, [row("building")], [], ["forget"]),
            (2000, [row("building")], [index(valid=False)], ["drop", "forget"]),
            (2000, [row("building")], [index()], ["adopt"]),
            (2000, [row("ready")], [index()], []),
            (2100, [row("ready")], [index()], ["count"]),
            (501, [row("ready", chunks=501)], [index()], []),
            (500, [row("ready")], [index()], ["retire"]),
            (500, [row("retiring", idle_s=14.0)], [index()], []),
            (500, [row("retiring", idle_s=15.0)], [index()], ["drop"]),
            (2000, [row("retiring", idle_s=60.0)], [index()], ["revive"]),
            (2000, [row("ready")], [], ["forget"]),
            (0, [], [index()], ["drop"]),  # an erased tenant's: nothing is noted of it any more
        ],
    )
    def it_is(self, chunks, noted, found, done):
        assert actions(chunks, noted, found) == done

    def it_keeps_an_index_of_another_shape_until_the_new_one_is_ready(self):
        old_name = index_name(TABLE, ANN, OTHER)
        old = row("ready", name=old_name)
        assert actions(2000, [old], [index(name=old_name)]) == ["note"]
        assert actions(2000, [old, row("ready")], [index(name=old_name), index()]) == ["retire"]

    def it_takes_indexes_from_tables_that_are_not_searched(self):
        table = "chunk_embeddings_2"
        name = index_name(table, ANN, SHAPE)
        assert actions(2000, [row("ready", name=name, table=table)], [index(name=name, table=table)], tables=()) == [
            "retire"
        ]
        assert actions(2000, [row("ready", name=name, table=table)], [], tables=()) == ["forget"]


class DescribeNames:
    def it_tells_tenants_tables_and_shapes_apart_and_fits_postgresql(self):
        names = {
            index_name(table, tenant, shape)
            for table in (TABLE, "chunk_embeddings_999999999")
            for tenant in (ANN, TenantId("bob"))
            for shape in (SHAPE, OTHER, IndexShape(m=100, ef_construction=1000))
        }
        assert len(names) == 12
        assert max(map(len, names)) <= 63
        assert not [name for name in names if "ann-" in name or "bob" in name]
