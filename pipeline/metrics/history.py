"""An installation's recent past: samples of its counters and gauges, and the rates between them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

from pipeline.metrics.definitions import METRICS, Field

HistoryRange = Literal["1h", "24h", "7d"]

_LATENCY: Final = "chordwise_query_seconds"
_BOUNDS: Final = METRICS[_LATENCY].buckets
_QUANTILES: Final = {"p50_ms": 0.5, "p95_ms": 0.95, "p99_ms": 0.99}


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """Points of a range: ``span_s`` seconds in steps of ``step_s``. ``spacing_s``: between the samples it reads."""

    span_s: int
    step_s: int
    spacing_s: int


RANGES: Final[Mapping[HistoryRange, Resolution]] = {
    "1h": Resolution(span_s=3600, step_s=60, spacing_s=60),
    "24h": Resolution(span_s=86_400, step_s=600, spacing_s=60),
    "7d": Resolution(span_s=604_800, step_s=3600, spacing_s=600),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class HistorySample:
    """Counters and gauges of one moment. ``at``: seconds since the epoch. ``counters`` grow since the installation's
    Redis was empty. ``latency``: queries by bucket of `chordwise_query_seconds`, the last without a bound. ``gauges``:
    figures that could be read."""

    at: float
    counters: Mapping[str, float]
    latency: Sequence[float]
    gauges: Mapping[str, float]


def sample_of(totals: Mapping[Field, float], gauges: Mapping[str, float], *, at: float) -> HistorySample:
    """Return the sample of the moment ``at`` from the counts of all processes."""
    counters = dict.fromkeys(("queries", "failed", "degraded", "empty", "chunks", "tokens"), 0.0)
    latency = dict.fromkeys((*map(str, _BOUNDS), "+Inf"), 0.0)
    for (name, part, labels), value in totals.items():
        if name == "chordwise_queries":
            status, degraded = labels
            counters["queries"] += value
            counters["failed"] += value if status != "succeeded" else 0.0
            counters["degraded"] += value if status == "succeeded" and degraded == "true" else 0.0
        elif name == _LATENCY and part in latency:
            latency[part] += value
        elif name == "chordwise_answer_chunks" and part == "0.0":
            counters["empty"] += value
        elif name == "chordwise_chunks_shown":
            counters["chunks"] += value
        elif name == "chordwise_model_tokens":
            counters["tokens"] += value
    return HistorySample(at=at, counters=counters, latency=tuple(latency.values()), gauges=gauges)


def series_of(samples: Sequence[HistorySample], resolution: Resolution, *, end: float) -> dict[str, list[float | None]]:
    """Return one list a series, with a value for every step up to ``end``, from the last samples of the step and the
    one before; None where nothing was recorded, or a share has no queries."""
    steps = resolution.span_s // resolution.step_s
    edges = [end - resolution.step_s * (steps - number) for number in range(steps + 1)]
    chosen = _last_before(samples, edges, max_age_s=max(resolution.step_s, 1.5 * resolution.spacing_s))
    points = [_point(before, after) for before, after in pairwise(chosen)]
    return {name: [point.get(name) for point in points] for name in SERIES}


def _last_before(
    samples: Sequence[HistorySample], edges: Sequence[float], *, max_age_s: float
) -> list[HistorySample | None]:
    chosen: list[HistorySample | None] = []
    position = 0
    for edge in edges:
        while position < len(samples) and samples[position].at <= edge:
            position += 1
        latest = samples[position - 1] if position else None
        chosen.append(latest if latest is not None and latest.at > edge - max_age_s else None)
    return chosen


def _point(before: HistorySample | None, after: HistorySample | None) -> dict[str, float | None]:
    if after is None:
        return {}
    if before is None or before is after:
        return dict(after.gauges)
    seconds = after.at - before.at
    is_restarted = any(after.counters[name] < value for name, value in before.counters.items())  # Redis was emptied
    counts = {
        name: value if is_restarted else value - before.counters.get(name, 0.0)
        for name, value in after.counters.items()
    }
    latency = [
        value if is_restarted else value - earlier for value, earlier in zip(after.latency, before.latency, strict=True)
    ]
    queries = counts["queries"]
    shares = {f"{name}_share": counts[name] / queries if queries else None for name in ("failed", "degraded", "empty")}
    rates = {f"{name}_per_s": counts[name] / seconds for name in ("queries", "chunks", "tokens")}
    quantiles = {name: _quantile(latency, share) for name, share in _QUANTILES.items()}
    return {**after.gauges, **rates, **shares, **quantiles}


def _quantile(latency: Sequence[float], share: float) -> float | None:
    """Return a quantile in milliseconds, linear within its bucket as in Prometheus's ``histogram_quantile``; the last
    bound for values beyond it, None without values."""
    total = sum(latency)
    if total <= 0:
        return None
    wanted, below, lower = share * total, 0.0, 0.0
    for bound, count in zip(_BOUNDS, latency, strict=False):
        if count and below + count >= wanted:
            return 1000 * (lower + (bound - lower) * (wanted - below) / count)
        below, lower = below + count, bound
    return 1000 * _BOUNDS[-1]


SERIES: Final = (
    *("queries_per_s", "p50_ms", "p95_ms", "p99_ms", "failed_share", "degraded_share", "empty_share"),
    *("chunks_per_s", "tokens_per_s", "query_wait_s", "ingest_wait_s", "waiting_documents", "dead_letters"),
    *("mysql_bytes", "postgres_bytes", "redis_bytes", "keyword_index_bytes"),
)
