"""The paired test and the choice it makes, against values worked out by hand."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chordwise.cli.quality.evaluate_command import compare, read_run
from chordwise.errors import InvalidInput
from chordwise.evaluation.significance import paired

values = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=8)


class DescribeThePairedTest:
    @pytest.mark.parametrize(
        ("a", "b", "p"),
        [
            ([0, 0, 0], [1, 1, 1], 2 / 8),  # of 8 assignments of signs only all + and all - are as far from 0
            ([0, 0, 0, 0], [1, 1, 1, 0.5], 2 / 16),
            ([0, 0, 0], [1, 1, -1], 1.0),  # every assignment sums to 1 at least
            ([0.5], [0.5], 1.0),
            ([0, 0.3, 0.7, 0, 0], [1, 0.3, 0.7, 1, 1], 2 / 8),  # queries without a difference change nothing
        ],
    )
    def it_counts_assignments_of_signs(self, a, b, p):
        assert paired(a, b).p == pytest.approx(p)

    def it_says_how_far_and_how_often(self):
        found = paired([0.0, 0.5, 1.0, 0.2], [1.0, 0.5, 0.5, 0.3])
        assert (found.mean_a, found.mean_b) == (pytest.approx(0.425), pytest.approx(0.575))
        assert (found.difference, found.better, found.worse) == (pytest.approx(0.15), 2, 1)
        assert found.error == pytest.approx((((0.85**2) + 0.15**2 + 0.65**2 + 0.05**2) / 3 / 4) ** 0.5)

    def it_samples_where_there_are_too_many(self):
        draw = random.Random(7)
        before = [draw.random() for _ in range(60)]
        noise = [draw.gauss(0, 0.1) for _ in before]
        assert paired(before, [a + n for a, n in zip(before, noise, strict=True)]).p > 0.05
        gain = paired(before, [a + n + 0.1 for a, n in zip(before, noise, strict=True)])
        assert gain.p < 0.001
        assert paired(before, [a + n + 0.1 for a, n in zip(before, noise, strict=True)]) == gain

    @settings(max_examples=30)
    @given(values)
    def it_is_the_same_in_either_direction(self, pairs):
        a, b = zip(*pairs, strict=True)
        there, back = paired(a, b), paired(b, a)
        assert there.p == pytest.approx(back.p)
        assert 0 < there.p <= 1
        assert there.difference == pytest.approx(-back.difference)

    def it_refuses_what_cannot_be_paired(self):
        with pytest.raises(ValueError, match="argument 2 is longer"):
            paired([1.0], [1.0, 2.0])


class DescribeComparingRuns:
    def it_pairs_by_way_and_query(self, tmp_path):
        for name, second in (("a", 0.0), ("b", 1.0)):
            rows = [
                ("fused", "q1", 0.5),
                ("fused", "q2", second),
                ("keyword", "q1", 0.25),
                ("fused", f"only-{name}", 1),
            ]
            lines = [
                json.dumps({"way": way, "query_id": query, "ndcg@10": n, "mrr@10": n, "recall@100": n})
                for way, query, n in rows
            ]
            (tmp_path / name).write_text("\n".join(lines))
        compared, unpaired = compare(read_run(tmp_path / "a"), read_run(tmp_path / "b"))
        assert unpaired == 2
        assert [compared[way, "ndcg@10"].difference for way in ("fused", "keyword")] == [0.5, 0.0]

    def it_says_what_is_no_run(self, tmp_path):
        (tmp_path / "a").write_text('{"way": "fused"}')
        with pytest.raises(InvalidInput, match=r"a:1 is not an answer of an evaluation"):
            read_run(tmp_path / "a")
        with pytest.raises(InvalidInput, match="no query in common"):
            compare({("fused", "q1"): {}}, {("fused", "q2"): {}})
