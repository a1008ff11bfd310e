"""Every metric summed over the fleet in Redis: name, unit, labels. ``recall_`` names are the designs', in milliseconds.
Labels are never ids; a tenant is one only with CHORDWISE_METRICS_TENANTS."""

from dataclasses import dataclass
from typing import Final, Literal

MetricKind = Literal["counter", "exact_counter", "histogram"]

Field = tuple[str, str, tuple[str, ...]]  # metric, part of it, values of its labels


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSpec:
    """One metric. A ``counter`` gets ``_total``, an ``exact_counter`` does not. ``buckets``: upper bounds."""

    name: str
    kind: MetricKind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_LONG_SECONDS: Final = (0.005, 0.02, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
_MILLISECONDS: Final = tuple(seconds * 1000 for seconds in _SECONDS)
_COUNTS: Final = (0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)
_RECALLS: Final = (0.5, 0.8, 0.9, 0.95, 0.97, 0.98, 0.99, 1.0)
_LIFTS: Final = (-0.5, -0.2, -0.1, -0.05, -0.01, 0.0, 0.01, 0.05, 0.1, 0.2, 0.5)


def _counter(name: str, help: str, *labels: str) -> MetricSpec:
    return MetricSpec(name=name, kind="counter", help=help, labels=labels)


def _exact(name: str, help: str, *labels: str) -> MetricSpec:
    return MetricSpec(name=name, kind="exact_counter", help=help, labels=labels)


def _histogram(name: str, help: str, buckets: tuple[float, ...], *labels: str) -> MetricSpec:
    return MetricSpec(name=name, kind="histogram", help=help, labels=labels, buckets=buckets)


METRICS: Final[dict[str, MetricSpec]] = {
    spec.name: spec
    for spec in (
        _counter("chordwise_queries", "Ended queries: succeeded, or failed without any channel.", "status", "degraded"),
        _counter("chordwise_installation_refusals", "Times that a process found stores of different installations."),
        _counter("chordwise_tenant_queries", "Answered queries by tenant, if the installation wants it.", "tenant"),
        _histogram("chordwise_query_seconds", "From accepting a query to its stored answer.", _SECONDS, "cached"),
        _histogram("chordwise_query_step_seconds", "One step of composing an answer.", _SECONDS, "step"),
        _counter("chordwise_channel_answers", "Answers of channels: ok, failed, timeout.", "channel", "status"),
        _histogram("chordwise_channel_seconds", "One channel's part of a query.", _SECONDS, "channel"),
        _histogram("chordwise_channel_hits", "Chunks one channel found for a query.", _COUNTS, "channel"),
        _histogram("chordwise_answer_chunks", "Chunks in an answer.", _COUNTS),
        _counter("chordwise_returned_chunks", "Returned chunks, by their strongest channel.", "channel"),
        _histogram("chordwise_rerank_lift", "Changes of the first hits by reranking, per query.", _LIFTS),
        _counter("chordwise_degradations", "Losses named in answers.", "part", "code"),
        _counter("chordwise_channel_methods", "Search methods of channels that have several.", "channel", "method"),
        _counter("chordwise_keyword_index_updates", "Updates of hosts' keyword indexes: updated, failed.", "result"),
        _histogram("chordwise_keyword_index_seconds", "From reading a change to its commit in the index.", _SECONDS),
        _counter("chordwise_keyword_index_builds", "Namespaces whose keyword index was built from the start."),
        _counter("chordwise_vector_index_builds", "Ranges of a large tenant's vectors that got an index."),
        _histogram("chordwise_vector_index_recall", "Recall@10 of an index at its number of probes.", _RECALLS),
        _counter("chordwise_result_cache", "Look-ups in the answer cache: hit, miss.", "result"),
        _counter("chordwise_breaker_changes", "Circuit breakers that opened, half opened, closed.", "part", "state"),
        _counter("chordwise_model_requests", "Requests to model services.", "purpose"),
        _counter("chordwise_model_tokens", "Tokens sent to model services and received from them.", "purpose"),
        _counter("chordwise_model_cached_texts", "Texts whose vectors were cached.", "purpose"),
        _counter("chordwise_documents_shown", "Documents that became searchable."),
        _counter("chordwise_chunks_shown", "Chunks that became searchable."),
        _counter("chordwise_lane_misses", "Queries that wanted the in-process lane and were sent elsewhere.", "reason"),
        _counter("chordwise_tasks", "Tasks that ended.", "task", "state"),
        _histogram("chordwise_task_seconds", "How long tasks ran.", _LONG_SECONDS, "task"),
        _histogram("recall_total_latency_ms", "From accepting a query to its stored answer.", _MILLISECONDS),
        _histogram("recall_source_latency_ms", "One source's part of a query.", _MILLISECONDS, "source"),
        _exact("recall_degrade_count", "Answers in which something was lost."),
        _exact("recall_timeout_count", "Sources that did not answer in time.", "source"),
        _exact("recall_experiment_bucket", "Queries by bucket of their experiment.", "bucket"),
        _exact("recall_experiment_result", "Queries of experiments, by bucket and outcome.", "bucket", "outcome"),
    )
}

# Metrics that are also stored by the minute, for figures of the last minutes: recall_success_rate.
WINDOWED: Final = frozenset({"chordwise_queries"})
WINDOW_MINUTES: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueDepth:
    """The backlog of one queue. ``oldest_s``: the next message's wait, 0 if unknown. ``unacked``: of the whole broker."""

    messages: int
    oldest_s: float
    unacked: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexSummary:
    """All vector indexes of one kind on one table that searches use. ``disk_bytes``: their size; ``recall``: the lowest, and
    ``search_ms`` the longest time of a search, of those that are measured; None if none is."""

    table: str
    kind: Literal["hnsw", "ivfflat"]
    indexes: int
    rows: int
    disk_bytes: int
    recall: float | None
    search_ms: float | None
