"""Give tenants that outgrow exact search their approximate indexes, and take them back when they are not needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import chain

import structlog
from sqlalchemy import Connection

from pipeline.database.engines import postgres_errors
from pipeline.database.unit_of_work import unit_of_work
from pipeline.embedding import space_store
from pipeline.embedding.migration_store import ModelMigrations
from pipeline.errors import Unavailable
from pipeline.maintenance.measure_recall import QuestionVectors, measure, questions_of
from pipeline.maintenance.migrate_schema import OPERATOR_CLASSES
from pipeline.records import EmbeddingSpace, TenantId
from pipeline.resources import Resources
from pipeline.semantic import vector_index_store
from pipeline.semantic.index_plan import (
    IndexRow,
    Step,
    by_tenant,
    covering,
    gaps,
    inherited,
    is_growing,
    list_count,
    plan_range,
    plan_repairs,
    tail_name,
)
from pipeline.semantic.vector_index_store import IndexBuilder, index_builder

log = structlog.get_logger(__name__)

# By then every process has read again which indexes there are, and every search that began before has ended.
_GRACE_S = 3 * vector_index_store.FRESH_S
# The rows of sealed ranges are counted again when the notes differ so much from what the tenant shows.
_DRIFT = 0.1
_FEW_SEALED = 10  # times the rows of the smallest index
_MEASURED_WITHIN_S = 300.0  # however much the tenant grows


def keep_indexes(use: Resources, *, questions: Callable[..., QuestionVectors | None] = questions_of) -> int:
    """Adjust the approximate indexes to the tenants' sizes, and measure their recall. Returns the number of changes.

    One process at a time does this; others return at once. The run may die at any point and may be repeated: the next
    run drops unfinished indexes. ``questions`` gives what recall is measured with. Raises StoreUnavailable, and
    WrongInstallation before anything is dropped: with a MySQL that knows none of the tenants, every index would be
    dropped.
    """
    use.installation.confirm()
    exact_chunks = use.settings.semantic_exact_chunks
    with unit_of_work(use.mysql) as work:
        sizes = vector_index_store.sizes(work.connection, above=exact_chunks // 4)
        searched = _searched_spaces(work.connection, use)
    with index_builder(use.postgres) as builder:
        if builder is None:
            return 0
        repairs = plan_repairs(
            sizes=sizes,
            tables=[space.table for space in searched],
            noted=builder.noted(),
            found=builder.found(),
            exact_chunks=exact_chunks,
            grace_s=_GRACE_S,
        )
        for step in repairs:
            _repair(step, builder)
        changes, growing = len(repairs), set()
        for tenant_id, chunks in sizes.items():
            for space in searched:
                rows = [row for row in builder.noted() if (row.tenant_id, row.table) == (tenant_id, space.table)]
                if chunks > exact_chunks or covering(rows):
                    built, grows = _adjust(rows, chunks, tenant_id, space, builder, use)
                    changes += built
                    growing |= {(tenant_id, space.table)} if grows else set()
        # Measure only the indexes that searches use, not those that a larger range has replaced.
        for row in chain.from_iterable(map(covering, by_tenant(builder.noted()).values())):
            # While a tenant is filled, its new indexes are soon merged. Until then they use inherited probes, or all lists.
            known = row.probes or row.chunks <= _FEW_SEALED * exact_chunks
            waits = known and row.recall is None and row.idle_s < _MEASURED_WITHIN_S
            for space in searched:
                if space.table == row.table and not (waits and (row.tenant_id, row.table) in growing):
                    changes += measure(row, space, builder, use, questions=questions)
    return changes


def drop_indexes(tenant_id: TenantId, use: Resources) -> int:
    """Drop every index of a tenant that is being erased. Gives how many; what is left by whatever comes between, the
    next run of ``keep_indexes`` drops, as nothing is noted of it any more."""
    with index_builder(use.postgres) as builder:
        if builder is None:
            return 0
        rows = [row for row in builder.noted() if row.tenant_id == tenant_id]
        for row in rows:
            builder.drop(row.name)
            builder.forget(tenant_id, row.table, row.name)
    return len(rows)


def _searched_spaces(connection: Connection, use: Resources) -> list[EmbeddingSpace]:
    """The active space; the other one only when it is filled, because filling it through an index takes far longer."""
    live = space_store.live(connection, use.spaces.base)
    if live.standby is None:
        return [live.active]
    open_one = next((each for each in ModelMigrations(connection).every() if each.open), None)
    filled = open_one is not None and open_one.state in ("ready", "switched")
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


def _adjust(
    rows: list[IndexRow], chunks: int, tenant_id: TenantId, space: EmbeddingSpace, builder: IndexBuilder, use: Resources
) -> tuple[int, bool]:
    """Note what no index covers, and build the index that is missing most. Gives how many were built, and whether the
    tenant is being filled."""
    ranges = [row for row in covering(rows) if row.first is not None]
    tail = builder.tail(tenant_id, space.table, gaps((row.first or 0, row.end) for row in ranges))
    total = tail.rows + sum(row.chunks for row in ranges)
    if abs(total - chunks) > _DRIFT * total:
        counts = {row.name: builder.count(row) for row in ranges}
        rows = [replace(row, chunks=counts.get(row.name, row.chunks)) for row in rows]
    step = plan_range(
        rows,
        tail,
        tenant_id=tenant_id,
        table=space.table,
        exact_chunks=use.settings.semantic_exact_chunks,
    )
    grows = is_growing(rows, tail)
    if step.action == "note":
        builder.note(step, "wanted")
        return 0, grows
    _build(step, rows, tenant_id, space, builder, use)
    return 1, grows


def _build(
    step: Step, rows: list[IndexRow], tenant_id: TenantId, space: EmbeddingSpace, builder: IndexBuilder, use: Resources
) -> None:
    memory_mb = use.settings.semantic_index_memory_mb
    lists = list_count(step.chunks, dimension=space.dimension, memory_mb=memory_mb)
    builder.note(step, "building", lists=lists, probes=inherited(covering(rows), step.chunks, lists=lists))
    operator_class = OPERATOR_CLASSES[use.settings.pgvector_distance]
    try:
        with postgres_errors():
            took_s = builder.build(
                step, tenant_id, operator_class=operator_class, dimension=space.dimension, lists=lists
            )
    except Unavailable as error:
        log.warning("vector_index_not_built", tenant_id=tenant_id, index=step.name, code=error.code)
        raise
    builder.change(step, "ready")
    builder.forget(tenant_id, step.table, tail_name(step.table, tenant_id))
    use.meter.count("chordwise_vector_index_builds")
    log.info("vector_index_built", tenant_id=tenant_id, index=step.name, chunks=step.chunks, took_s=round(took_s, 1))
