"""Give tenants that outgrow exact search their approximate index, and take it back when they do not need it any more."""

from __future__ import annotations

import structlog
from sqlalchemy import Connection

from pipeline.core.indexing import IndexShape, Step, plan_indexes
from pipeline.errors import Unavailable
from pipeline.flows.resources import Resources
from pipeline.records import EmbeddingSpace, TenantId
from pipeline.stores import spaces, vector_indexes
from pipeline.stores.engines import postgres_errors
from pipeline.stores.migrate import OPERATOR_CLASSES
from pipeline.stores.model_migrations import ModelMigrations
from pipeline.stores.vector_indexes import IndexBuilder, index_builder
from pipeline.stores.work import unit_of_work

log = structlog.get_logger(__name__)

# By then every process has read again which indexes there are, and every search that began before has ended.
_GRACE_S = 3 * vector_indexes.FRESH_S


def keep_indexes(use: Resources) -> int:
    """Adjust the approximate indexes to the tenants' sizes. Returns the number of steps taken.

    One process at a time does this; others return at once. The run may die at any point and may be repeated: the next
    run drops unfinished indexes. Raises StoreUnavailable, and WrongInstallation before anything is dropped: with a
    MySQL that knows none of the tenants, every index would be dropped.
    """
    use.installation.confirm()
    shape = IndexShape(m=use.settings.semantic_hnsw_m, ef_construction=use.settings.semantic_hnsw_ef_construction)
    with unit_of_work(use.mysql) as work:
        sizes = vector_indexes.sizes(work.connection, above=use.settings.semantic_exact_chunks // 4)
        tables = [space.table for space in _searched_spaces(work.connection, use)]
    with index_builder(use.postgres, memory_mb=use.settings.semantic_index_memory_mb) as builder:
        if builder is None:
            return 0
        steps = plan_indexes(
            sizes=sizes,
            tables=tables,
            noted=builder.noted(),
            found=builder.found(),
            shape=shape,
            exact_chunks=use.settings.semantic_exact_chunks,
            grace_s=_GRACE_S,
        )
        for step in steps:
            _take(step, builder, shape, use)
    return len(steps)


def drop_indexes(tenant_id: TenantId, use: Resources) -> int:
    """Drop every index of a tenant that is being erased. Gives how many; what is left by whatever comes between, the
    next run of ``keep_indexes`` drops, as nothing is noted of it any more."""
    with index_builder(use.postgres, memory_mb=use.settings.semantic_index_memory_mb) as builder:
        if builder is None:
            return 0
        rows = [row for row in builder.noted() if row.tenant_id == tenant_id]
        for row in rows:
            builder.drop(row.name)
            builder.forget(tenant_id, row.table, row.name)
    return len(rows)


def _searched_spaces(connection: Connection, use: Resources) -> list[EmbeddingSpace]:
    """The active space; the other one only when it is filled, because filling it through an index takes far longer."""
    live = spaces.live(connection, use.spaces.base)
    if live.standby is None:
        return [live.active]
    open_one = next((each for each in ModelMigrations(connection).every() if each.open), None)
    filled = open_one is not None and open_one.state in ("ready", "switched")
    return [live.active, live.standby] if filled else [live.active]


def _take(step: Step, builder: IndexBuilder, shape: IndexShape, use: Resources) -> None:
    if step.action == "drop":
        builder.drop(step.name)
        log.info("vector_index_dropped", index=step.name)
    if step.tenant_id is None:
        return
    match step.action:
        case "note" | "await":
            builder.note(step.tenant_id, step.table, step.name, "wanted", step.chunks)
        case "build":
            _build(step, step.tenant_id, builder, shape, use)
        case "adopt" | "revive" | "count":
            builder.note(step.tenant_id, step.table, step.name, "ready", step.chunks)
        case "retire":
            builder.note(step.tenant_id, step.table, step.name, "retiring", step.chunks)
        case "drop" | "forget":
            builder.forget(step.tenant_id, step.table, step.name)


def _build(step: Step, tenant_id: TenantId, builder: IndexBuilder, shape: IndexShape, use: Resources) -> None:
    wanted = use.settings.semantic_exact_chunks
    if builder.count(tenant_id, step.table, most=wanted) < wanted:  # a store that lost them: filled first, then indexed
        return
    builder.note(tenant_id, step.table, step.name, "building", step.chunks)
    try:
        with postgres_errors():
            took_s = builder.build(
                tenant_id,
                step.table,
                step.name,
                operator_class=OPERATOR_CLASSES[use.settings.pgvector_distance],
                shape=shape,
            )
    except Unavailable as error:
        log.warning("vector_index_not_built", tenant_id=tenant_id, index=step.name, code=error.code)
        raise
    builder.note(tenant_id, step.table, step.name, "ready", step.chunks)
    log.info("vector_index_built", tenant_id=tenant_id, index=step.name, chunks=step.chunks, took_s=round(took_s, 1))
