"""Every vector compared: the nearest by the plainest of ways, and what PostgreSQL would say of each."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from pipeline.core.vector_table import VectorTable
from pipeline.records import ChunkId
from pipeline.stores.vectors import similarity

number = some.floats(-1, 1, width=16).map(lambda each: round(each, 2))
vector = some.lists(number, min_size=3, max_size=3).filter(lambda each: math.hypot(*each) > 0.1)
vectors = some.lists(vector, min_size=1, max_size=30)
distances = some.sampled_from(["cosine", "euclidean"])


def named(count: int) -> list[ChunkId]:
    return [ChunkId(f"{(place * 7) % 31:02}") for place in range(count)]


def table(rows: list[list[float]], distance: str) -> VectorTable:
    ids = [each.encode() for each in named(len(rows))]
    return VectorTable.of(ids, np.array(rows, np.float32), distance=distance)


def plainly(asked: list[float], row: list[float], distance: str) -> float:
    halves = [float(np.float16(each)) for each in asked]
    if distance == "euclidean":
        return similarity("euclidean", math.dist(halves, row))
    product = sum(one * other for one, other in zip(halves, row, strict=True))
    return similarity("cosine", 1 - product / math.hypot(*halves) / math.hypot(*row))


class DescribeVectorTable:
    @given(vectors, vector, distances, some.integers(0, 40))
    def it_finds_the_most_similar_first_and_equal_ones_by_id(self, rows, asked, distance, limit):
        held = table(rows, distance)
        found = held.nearest(np.array(asked, np.float32), limit=limit)
        expected = {name: plainly(asked, row, distance) for name, row in zip(named(len(rows)), rows, strict=True)}
        assert len(found) == min(limit, len(rows))
        assert dict(found) == pytest.approx({name: expected[name] for name, _ in found}, abs=2e-3)
        assert found == sorted(found, key=lambda hit: (-hit[1], hit[0]))
        if found and len(found) < len(rows):
            left = [score for name, score in expected.items() if name not in dict(found)]
            assert found[-1][1] >= max(left) - 2e-3

    @given(vectors, vector, distances)
    def it_scores_the_chunks_it_has_as_it_ranks_them(self, rows, asked, distance):
        held = table(rows, distance)
        query = np.array(asked, np.float32)
        wanted = [ChunkId("none"), *reversed(named(len(rows)))]
        assert held.scores(query, wanted) == pytest.approx(dict(held.nearest(query, limit=99)), abs=1e-6)

    def it_cuts_equal_ones_by_id(self):
        held = VectorTable.of([b"c", b"a", b"b"], np.ones((3, 2), np.float32), distance="cosine")
        assert [name for name, _ in held.nearest(np.ones(2, np.float32), limit=2)] == ["a", "b"]

    @pytest.mark.parametrize("distance", ["cosine", "euclidean"])
    def it_may_be_empty(self, distance):
        held = VectorTable.of([], np.zeros((0, 1), np.float32), distance=distance)
        assert held.nearest(np.ones(256, np.float32), limit=5) == []
        assert held.scores(np.ones(256, np.float32), [ChunkId("a")]) == {}

    def it_knows_what_it_takes(self):
        assert table([[1.0, 0, 0]] * 2, "cosine").byte_count == 2 * (2 + 12)
        assert table([[1.0, 0, 0]] * 2, "euclidean").byte_count == 2 * (2 + 12 + 4)
