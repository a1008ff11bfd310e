"""The history that the console's overview draws."""

from __future__ import annotations

import fakeredis
import pytest

from pipeline.metrics.history import RANGES, SERIES, HistorySample, sample_of, series_of
from pipeline.metrics.history_store import MetricHistory

_NOW = 1_800_000_000.0
_HOUR = RANGES["1h"]


def _totals(queries: float, *, failed: float = 0, degraded: float = 0, slow: float = 0, chunks: float = 0):
    return {
        ("chordwise_queries", "", ("succeeded", "false")): queries - failed - degraded,
        ("chordwise_queries", "", ("succeeded", "true")): degraded,
        ("chordwise_queries", "", ("failed", "true")): failed,
        ("chordwise_query_seconds", "0.05", ("false",)): queries - slow,
        ("chordwise_query_seconds", "2.5", ("true",)): slow,
        ("chordwise_query_seconds", "sum", ("false",)): 12.0,
        ("chordwise_answer_chunks", "0.0", ()): queries / 10,
        ("chordwise_answer_chunks", "10.0", ()): queries * 0.9,
        ("chordwise_chunks_shown", "", ()): chunks,
        ("chordwise_model_tokens", "", ("query",)): 2 * queries,
        ("chordwise_model_tokens", "", ("chunk",)): chunks,
    }


def _sample(minutes_ago: float, totals=None, **gauges: float) -> HistorySample:
    return sample_of(totals or _totals(0), gauges, at=_NOW - 60 * minutes_ago)


def _last(samples, resolution=_HOUR) -> dict[str, float | None]:
    return {name: values[-1] for name, values in series_of(samples, resolution, end=_NOW).items()}


class DescribeSeries:
    def it_gives_rates_shares_and_quantiles_of_the_last_step(self):
        before = _sample(1, _totals(100, chunks=1000))
        after = _sample(0, _totals(220, failed=12, degraded=24, slow=12, chunks=4000), ingest_wait_s=7.5)
        last = _last([before, after])
        assert last["queries_per_s"] == pytest.approx(2)
        assert (last["failed_share"], last["degraded_share"]) == (pytest.approx(0.1), pytest.approx(0.2))
        assert last["empty_share"] == pytest.approx(0.1)
        assert (last["chunks_per_s"], last["tokens_per_s"]) == (pytest.approx(50), pytest.approx(54))
        assert last["ingest_wait_s"] == 7.5
        assert 25 < last["p50_ms"] < 50
        assert 1000 < last["p99_ms"] <= 2500

    def it_has_one_value_a_step_and_none_where_nothing_was_recorded(self):
        for resolution in RANGES.values():
            series = series_of([], resolution, end=_NOW)
            assert series.keys() == set(SERIES)
            assert all(values == [None] * (resolution.span_s // resolution.step_s) for values in series.values())
        gap = series_of([_sample(30, _totals(10)), _sample(0, _totals(20))], _HOUR, end=_NOW)
        assert gap["queries_per_s"] == [None] * 60

    def it_has_no_share_and_no_quantile_without_queries(self):
        last = _last([_sample(1, _totals(100)), _sample(0, _totals(100))])
        assert (last["queries_per_s"], last["failed_share"], last["p95_ms"]) == (0, None, None)

    def it_counts_from_zero_after_redis_was_emptied(self):
        assert _last([_sample(1, _totals(1000)), _sample(0, _totals(60))])["queries_per_s"] == pytest.approx(1)

    def it_reads_samples_that_come_late(self):
        samples = [_sample(60 - number + 0.4, _totals(60 * number)) for number in range(61)]
        assert series_of(samples, _HOUR, end=_NOW)["queries_per_s"][1:] == [pytest.approx(1)] * 59


class DescribeStore:
    @pytest.fixture
    def history(self) -> MetricHistory:
        return MetricHistory(fakeredis.FakeRedis())

    def it_returns_the_samples_of_a_range_in_order(self, history):
        for minutes in (3, 2, 1):
            assert history.add(_sample(minutes, _totals(10 - minutes), ingest_wait_s=1.5))
        samples = history.between(_NOW - 150, _NOW, _HOUR)
        assert [(sample.at, sample.counters["queries"]) for sample in samples] == [(_NOW - 120, 8), (_NOW - 60, 9)]
        assert samples[0].gauges == {"ingest_wait_s": 1.5}
        assert _last([*samples, _sample(0, _totals(10))])["queries_per_s"] == pytest.approx(1 / 60)

    def it_stores_one_sample_a_minute_however_many_gateways_there_are(self, history):
        assert [history.add(_sample(seconds / 60)) for seconds in (120, 119, 61, 60, 30, 0)] == [
            *(True, False, True, False, False, True)
        ]

    def it_forgets_what_is_older_than_a_day_and_keeps_ten_minutes_for_a_week(self, history):
        for hours in (9 * 24, 6 * 24, 25, 0.5):
            history.add(_sample(60 * hours))
        assert [sample.at for sample in history.between(0, _NOW, _HOUR)] == [_NOW - 1800]
        assert [sample.at for sample in history.between(0, _NOW, RANGES["7d"])] == [
            _NOW - 3600 * hours for hours in (6 * 24, 25, 0.5)
        ]
