"""How `make soak` tells growth from noise: tables of curves and what is said of them."""

from __future__ import annotations

import math
import random

import pytest

from tests.faults.soak_figures import prefix
from tests.faults.soak_verdict import as_json, as_table, judge, picture, theil_sen

MINUTES = [number / 6 for number in range(360)]  # an hour
NOISE = [random.Random(7).uniform(-2, 2) for _ in MINUTES]


def judged(name: str, values: list[float]) -> bool:
    [finding] = judge(MINUTES, {name: values}, warm_up_min=18)
    return finding.grows


class DescribeTheVerdict:
    @pytest.mark.parametrize(
        ("name", "curve", "grows"),
        [
            ("memory/gateway", lambda minute: 200 + 0.5 * minute, True),  # 30 MB an hour
            ("memory/gateway", lambda minute: 200 + 0.05 * minute, False),  # 3 MB
            ("memory/gateway", lambda minute: 200 + 4 * min(minute, 18), False),  # while it warms up
            ("memory/gateway", lambda minute: 200 + 2 * min(minute, 39), False),  # fills up, then stays
            ("memory/gateway", lambda minute: 300 - minute, False),
            ("memory/gateway", lambda minute: 200 + (200 if 30 < minute < 40 else 0), False),  # a peak
            ("memory with files/gateway", lambda minute: 200 + 5 * minute, False),
            ("redis keys/{t}:query:*", lambda minute: 80 + 20 * math.sin(minute), False),
            ("redis keys/{t}:query:*", lambda minute: 80 + 2 * minute, True),
            ("threads/worker-upkeep", lambda minute: 20 + minute // 6, True),
            ("mysql rows/jobs", lambda minute: 30 * minute, False),  # the ledger
            ("mysql rows/chunks", lambda minute: 3000 + 30 * minute, True),
            ("disk/redis append-only file", lambda minute: 40 + 10 * (minute % 12), False),
            ("disk/redis append-only file", lambda minute: 200 + minute, True),
            ("never heard of", lambda minute: minute, True),
        ],
    )
    def it_allows_each_kind_its_own_growth(self, name, curve, grows):
        noise = 1 if name.startswith(("memory", "redis")) else 0
        values = [curve(minute) + noise * jitter for minute, jitter in zip(MINUTES, NOISE, strict=True)]
        assert judged(name, values) is grows

    @pytest.mark.parametrize(("per_hour", "grows"), [(30, False), (90, True)])
    def it_allows_a_short_run_what_it_allows_an_hour(self, per_hour, grows):
        minutes = MINUTES[:120]
        [finding] = judge(minutes, {"memory/gateway": [200 + per_hour * m / 60 for m in minutes]}, warm_up_min=10)
        assert finding.grows is grows

    def it_says_nothing_of_a_run_without_time(self):
        assert not judge([0.0], {"memory/gateway": [5.0]}, warm_up_min=0)[0].grows

    def it_writes_what_grows_first_and_draws_the_curves(self):
        series = {"memory/a": [100.0 + minute for minute in MINUTES], "mysql rows/jobs": list(MINUTES)}
        findings = judge(MINUTES, series, warm_up_min=18)
        lines = as_table(findings).splitlines()
        assert lines[1].startswith("memory/a")
        assert lines[1].endswith("GROWS")
        found = as_json(findings)["memory/a"]
        assert (found["first"], found["last"], found["per_hour"], found["grows"]) == (120.0, 157.83, 60.0, True)
        assert picture(MINUTES, series, warm_up_min=18).count("<polyline") == 1


class DescribeTheSlope:
    def it_is_moved_by_no_outlier(self):
        assert theil_sen([0, 1, 2, 3, 4, 5, 6], [0, 2, 4, 900, 8, 10, 12]) == 2

    def it_is_nothing_of_one_point(self):
        assert theil_sen([1], [1]) == 0


@pytest.mark.parametrize(
    ("key", "counted_as"),
    [
        ("test-0123456789abcdef:query:0b8f6c1e-5a4d-4f0e-9c53-8f3f1f6f2a11", "{t}:query:*"),
        ("soak-0123abcd:answer:0123456789abcdef0123", "{t}:answer:*"),
        ("chordwise:metrics:29398123", "chordwise:metrics:*"),
        ("chordwise:worker:ingest@host", "chordwise:worker:ingest@host"),
        ("celery-task-meta-0b8f6c1e-5a4d-4f0e-9c53-8f3f1f6f2a11", "celery-task-meta-*"),
    ],
)
def it_counts_keys_of_one_kind_together(key, counted_as):
    assert prefix(key) == counted_as
