"""Build approximate indexes for tenants that outgrow exact search, measure their recall, and drop unneeded ones."""

import math
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import chain

import numpy as np
import structlog
from numpy.typing import NDArray
from sqlalchemy import Connection

from pipeline.database.engines import postgres_engine, postgres_errors
from pipeline.database.unit_of_work import unit_of_work
from pipeline.distances import MEASURES
from pipeline.embedding import space_store
from pipeline.embedding.migration_store import ModelMigrations
from pipeline.errors import PipelineError, Unavailable
from pipeline.ingestion.make_vectors import vectors_of
from pipeline.records import EmbeddingSpace, TenantId
from pipeline.resources import Resources
from pipeline.semantic import question_text_store, vector_index_store
from pipeline.semantic.index_plan import (
    LEAST_GRAPH,
    MOST_EF_SEARCH,
    RECALL_GOAL,
    IndexKind,
    IndexPolicy,
    IndexRow,
    Step,
    by_tenant,
    covering,
    gaps,
    graph_options,
    inherited,
    is_growing,
    list_count,
    most_graph_rows,
    plan_range,
    plan_repairs,
    tail_name,
)
from pipeline.semantic.question_text_store import short_questions
from pipeline.semantic.vector_index_store import IndexBuilder, index_builder
from pipeline.semantic.vector_store import halfvec_literal
from pipeline.setting_values import parse_vector_index
from pipeline.tenants.usage import Purpose

log = structlog.get_logger(__name__)

QuestionVectors = NDArray[np.float32]

# Of the lists, or of the largest ef_search; tried in this order.
_SHARES = (0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07, 0.085, 0.1, 0.12, 0.145, 0.18, 0.22, 0.3, 0.4, 0.5, 0.7, 1.0)
# Nearest rows that are measured. With a filter that 10 % pass, the best ten are about the nearest hundred.
_FEW, _DEEP = 10, 100
# The measured recall must exceed the goal by two standard errors: at least by this / sqrt(number of questions), which fits a
# recall of 0.97 to 0.99 with ten rows a question; by more where single questions lose most of their rows.
_MARGIN = 0.09
_MOST_QUESTIONS, _FEWEST_QUESTIONS = 192, 20
_ROWS_COMPARED = 100_000_000  # of all questions together, for the exact answers: 30 s of PostgreSQL once a day
_FRESH_S = 86_400.0  # a measured recall is measured again after this
# By then every process has read again which indexes there are, and every search that began before has ended.
_GRACE_S = 3 * vector_index_store.FRESH_S
# Closed ranges are counted again when their recorded rows differ by this share from the tenant's.
_DRIFT = 0.1
_FEW_CLOSED = 10  # times the rows of the smallest index
_LONGEST_PAUSE_S = 5.0  # after a question that waited for a hanging database
_MEASURED_WITHIN_S = 300.0  # at the latest, even while the tenant grows


def measure(
    row: IndexRow,
    space: EmbeddingSpace,
    builder: IndexBuilder,
    use: Resources,
    *,
    questions: Callable[..., QuestionVectors | None],
) -> int:
    """Measure a ready index whose recall is unknown or was measured a day ago; return 1 if measured, else 0.

    Records nothing without questions or without a model.
    """
    if row.state != "ready" or (row.measured_s is not None and row.measured_s < _FRESH_S):
        return 0
    literals = _literals(row, space, use, questions=questions)
    if literals:
        _measure(row, literals, builder, use)
    return 1 if literals else 0


def _literals(
    row: IndexRow, space: EmbeddingSpace, use: Resources, *, questions: Callable[..., QuestionVectors | None]
) -> list[str]:
    """Return the vectors to measure an index with, none without questions or without a model."""
    count = max(_FEWEST_QUESTIONS, min(_MOST_QUESTIONS, _ROWS_COMPARED // max(1, row.chunks)))
    try:
        vectors = questions(row.tenant_id, space, use, count=count)
    except PipelineError as error:
        log.warning("vector_index_not_measured", tenant_id=row.tenant_id, index=row.name, code=error.code)
        return []
    return [] if vectors is None else [halfvec_literal(vector) for vector in vectors]


def _measure(row: IndexRow, literals: Sequence[str], builder: IndexBuilder, use: Resources) -> tuple[float, float]:
    """Choose the fewest lists, or the smallest ef_search, that find enough of the nearest ten, and of the nearest hundred,
    of its range; all lists find everything, a graph may find too little. Record them, and return the recall and the
    milliseconds of a search for the ten."""
    truth = _nearest(row, literals, builder, use, probes=None)[0]
    chosen: dict[int, tuple[int, float, float]] = {}
    # Searches walk a graph at least as far as they need rows.
    for share in [share for share in _SHARES if not row.graph or share * row.lists >= _DEEP]:
        probes = math.ceil(share * row.lists)
        nearest, took_ms = _nearest(row, literals, builder, use, probes=probes)
        for best in (_FEW, _DEEP):
            # Identical passages have equal distances and may swap places, so even all lists may not reach the goal.
            recall, is_enough = _recall(truth, nearest, best)
            if best not in chosen and (is_enough or probes == row.lists):
                chosen[best] = probes, recall, took_ms
        if len(chosen) == 2:
            break
    (probes, recall, took_ms), deep_probes = chosen[_FEW], max(chosen[_FEW][0], chosen[_DEEP][0])
    count, measured = len(literals), {"recall": recall, "search_ms": took_ms}
    builder.record_recall(row, probes=probes, deep_probes=deep_probes, questions=count, **measured)
    use.meter.observe("chordwise_vector_index_recall", recall)
    chosen_lists = {"lists": row.lists, "probes": probes, "deep_probes": deep_probes}
    ids = {"tenant_id": row.tenant_id, "index": row.name, "kind": row.kind}
    figures = {name: round(value, 3) for name, value in measured.items()}
    log.info("vector_index_measured", **ids, **figures, **chosen_lists, questions=count)
    return recall, took_ms


def questions_of(tenant_id: TenantId, space: EmbeddingSpace, use: Resources, *, count: int) -> QuestionVectors | None:
    """Return vectors of the tenant's questions, if the installation keeps enough of them, else of generated ones; None
    for a tenant without chunks. Raises the model's errors."""
    with unit_of_work(use.mysql) as work:
        texts = question_text_store.recent_questions(work.connection, tenant_id, most=count)
        if len(texts) < _FEWEST_QUESTIONS:
            stored = question_text_store.random_texts(work.connection, tenant_id, most=count)
            texts = short_questions(stored, seed=len(stored))
    if not texts:
        return None
    return vectors_of(tenant_id, texts, use, purpose=Purpose.QUERY, embedder=use.spaces.embedder(space))


def _nearest(
    row: IndexRow, literals: Sequence[str], builder: IndexBuilder, use: Resources, *, probes: int | None
) -> tuple[list[list[str]], float]:
    """Return the nearest rows of each question, and the median time of a search in milliseconds."""
    distance = use.settings.pgvector_distance
    nearest, took_s = [], []
    for literal in literals:
        began = time.monotonic()
        nearest.append(builder.nearest(row, literal, distance=distance, limit=_DEEP, probes=probes))
        took_s.append(time.monotonic() - began)
        time.sleep(min(_LONGEST_PAUSE_S, took_s[-1]))  # half of the time belongs to searches
    return nearest, 1000 * statistics.median(took_s)


def _recall(truth: Sequence[Sequence[str]], results: Sequence[Sequence[str]], best: int) -> tuple[float, bool]:
    """Return the share of the ``best`` nearest rows that was found, over all questions, and whether it is sure enough."""
    shares = [
        len(set(right[:best]).intersection(result[:best])) / max(1, len(right[:best]))
        for right, result in zip(truth, results, strict=True)
    ]
    recall, root = statistics.mean(shares), math.sqrt(len(shares))
    return recall, recall >= min(1.0, RECALL_GOAL + max(_MARGIN, 2 * statistics.pstdev(shares)) / root)


def keep_indexes(use: Resources, *, questions: Callable[..., QuestionVectors | None] = questions_of) -> int:
    """Adjust the approximate indexes to the tenants' sizes, and measure their recall; return the number of changes.

    One process at a time does this; others return at once. The run may die at any point and may be repeated: the next
    run drops unfinished indexes. ``questions`` returns the vectors to measure recall with. Raises StoreUnavailable, and
    WrongInstallation before anything is dropped: with a MySQL that knows none of the tenants, every index would be
    dropped.
    """
    use.installation.confirm()
    exact_chunks = use.exact_chunks
    with unit_of_work(use.mysql) as work:
        sizes = vector_index_store.sizes(work.connection, above=exact_chunks // 4)
        searched = _searched_spaces(work.connection, use)
    with _builder(use) as builder:
        if builder is None:
            return 0
        repairs = plan_repairs(
            sizes=sizes,
            tables=[space.table for space in searched],
            recorded=builder.recorded(),
            existing=builder.existing(),
            exact_chunks=exact_chunks,
            grace_s=_GRACE_S,
        )
        for step in repairs:
            _repair(step, builder)
        changes, growing = len(repairs), set()
        for tenant_id, chunks in sizes.items():
            for space in searched:
                rows = [row for row in builder.recorded() if (row.tenant_id, row.table) == (tenant_id, space.table)]
                if chunks > exact_chunks or covering(rows):
                    built, grows = _adjust(rows, chunks, tenant_id, space, builder, use, questions=questions)
                    changes += built
                    growing |= {(tenant_id, space.table)} if grows else set()
        # Measure only the indexes that searches use, not those that a larger range has replaced.
        for row in chain.from_iterable(map(covering, by_tenant(builder.recorded()).values())):
            # While a tenant is filled, its new indexes are soon merged. Until then they use inherited probes, or all lists.
            is_measured = row.probes or row.chunks <= _FEW_CLOSED * exact_chunks
            waits = is_measured and row.recall is None and row.idle_s < _MEASURED_WITHIN_S
            for space in searched:
                if space.table == row.table and not (waits and (row.tenant_id, row.table) in growing):
                    changes += measure(row, space, builder, use, questions=questions)
    return changes


def drop_indexes(tenant_id: TenantId, use: Resources) -> int:
    """Drop every index of a tenant being erased; return how many. `keep_indexes` drops those built meanwhile."""
    with _builder(use) as builder:
        if builder is None:
            return 0
        rows = [row for row in builder.recorded() if row.tenant_id == tenant_id]
        for row in rows:
            builder.drop(row.name)
            builder.forget(tenant_id, row.table, row.name)
    return len(rows)


def _builder(use: Resources) -> AbstractContextManager[IndexBuilder | None]:
    postgres = postgres_engine(use.settings, direct=True, silent_s=use.silent_s)
    return index_builder(postgres, silent_s=use.silent_s)


def _searched_spaces(connection: Connection, use: Resources) -> list[EmbeddingSpace]:
    """Return the active space, and the standby once it is filled: filling it through an index takes far longer."""
    live = space_store.live(connection, use.spaces.base)
    if live.standby is None:
        return [live.active]
    filled = any(m.open and m.state in ("ready", "switched") for m in ModelMigrations(connection).every())
    return [live.active, live.standby] if filled else [live.active]


def _repair(step: Step, builder: IndexBuilder) -> None:
    if step.action == "drop":
        builder.drop(step.name)
        log.info("vector_index_dropped", index=step.name)
    if step.tenant_id is None:
        return
    if step.action in ("drop", "forget"):
        builder.forget(step.tenant_id, step.table, step.name)
    else:
        builder.change(step, "ready" if step.action == "adopt" else "retiring")


def _policy(space: EmbeddingSpace, builder: IndexBuilder, use: Resources) -> IndexPolicy:
    wanted = parse_vector_index(use.settings.vector_index)
    return IndexPolicy(
        choice=wanted.kind if builder.takes_graphs() else "ivfflat",
        graph=graph_options(wanted.m, wanted.ef_construction),
        least_rows=LEAST_GRAPH * use.exact_chunks,
        most_rows=most_graph_rows(space.dimension, m=wanted.m, memory_mb=use.settings.semantic_index_memory_mb),
    )


def _adjust(
    rows: list[IndexRow],
    chunks: int,
    tenant_id: TenantId,
    space: EmbeddingSpace,
    builder: IndexBuilder,
    use: Resources,
    *,
    questions: Callable[..., QuestionVectors | None],
) -> tuple[int, bool]:
    """Record the uncovered range or build the index missing most; return how many, and whether the tenant grows."""
    ranges = covering(rows)
    tail = builder.tail(tenant_id, space.table, gaps((row.first, row.end) for row in ranges))
    total = tail.rows + sum(row.chunks for row in ranges)
    if abs(total - chunks) > _DRIFT * total:
        counts = {row.name: builder.count(row) for row in ranges}
        rows = [replace(row, chunks=counts.get(row.name, row.chunks)) for row in rows]
    exact_chunks = use.exact_chunks
    policy = _policy(space, builder, use)
    step = plan_range(rows, tail, tenant_id=tenant_id, table=space.table, exact_chunks=exact_chunks, policy=policy)
    grows = is_growing(rows, tail)
    if step.action == "note":
        builder.record(step, "wanted")
        return 0, grows
    if step.action == "adopt":  # it was replaced a moment ago, and is wanted again
        builder.change(step, "ready")
        return 1, grows
    _build(step, rows, tenant_id, space, builder, use)
    if step.action == "build" or _is_kept(step, ranges, space, builder, use, questions=questions):
        builder.change(step, "ready")
    return 1, grows


def _is_kept(
    step: Step,
    ranges: Sequence[IndexRow],
    space: EmbeddingSpace,
    builder: IndexBuilder,
    use: Resources,
    *,
    questions: Callable[..., QuestionVectors | None],
) -> bool:
    """Compare a graph with the lists of its range by the same questions. Drop it if it does not find enough, or is not
    cheaper; keep it if there are no questions any more: it is measured later."""
    graph = next(row for row in builder.recorded() if row.name == step.name)
    lists = next(row for row in ranges if (row.first, row.end) == (step.first, step.end))
    if not (literals := _literals(graph, space, use, questions=questions)):
        return True
    _, lists_ms = _nearest(lists, literals, builder, use, probes=lists.probes or lists.lists)
    recall, graph_ms = _measure(graph, literals, builder, use)
    is_kept = recall >= RECALL_GOAL and graph_ms < lists_ms
    figures = {"recall": round(recall, 3), "graph_ms": round(graph_ms, 2), "lists_ms": round(lists_ms, 2)}
    log.info("vector_graph_compared", tenant_id=step.tenant_id, index=step.name, is_kept=is_kept, **figures)
    if not is_kept:
        builder.drop(step.name)
        builder.forget(graph.tenant_id, step.table, step.name)
        builder.record_graph(lists, graph_ms=graph_ms if recall >= RECALL_GOAL else math.inf)
    return is_kept


def _build(
    step: Step, rows: list[IndexRow], tenant_id: TenantId, space: EmbeddingSpace, builder: IndexBuilder, use: Resources
) -> None:
    lists = list_count(step.chunks, dimension=space.dimension, memory_mb=use.settings.semantic_index_memory_mb)
    lists = MOST_EF_SEARCH if step.graph else lists
    kind: IndexKind = "hnsw" if step.graph else "ivfflat"
    probes = inherited(covering(rows), step.chunks, lists=lists, kind=kind)
    builder.record(step, "building", lists=lists, probes=probes)
    operator_class = MEASURES[use.settings.pgvector_distance].operator_class
    try:
        with postgres_errors():
            took_s = builder.build(
                step, tenant_id, operator_class=operator_class, dimension=space.dimension, lists=lists
            )
    except Unavailable as error:
        log.warning("vector_index_not_built", tenant_id=tenant_id, index=step.name, code=error.code)
        raise
    builder.forget(tenant_id, step.table, tail_name(step.table, tenant_id))
    use.meter.count("chordwise_vector_index_builds")
    ids = {"tenant_id": tenant_id, "index": step.name, "kind": kind}
    log.info("vector_index_built", **ids, chunks=step.chunks, took_s=round(took_s, 1))
